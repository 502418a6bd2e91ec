"""Engines inside Spark's executors, one for each part of a stream.

```
events ─► executors: check, route ─► parts: an engine each ─► changes, summed by head
                                       │
                                       └─ state store ─► full result of a batch, in parallel
```
`triegs.compiler.layout` says which events a part gets.
"""
