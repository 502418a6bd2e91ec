"""The pipeline whose engines run in Spark's executors, one per partition of the stream.

```
events ─► executors: check, route ─► partitions: an engine each ─► changes, summed by answer
                                       │
                                       └─ state store ─► full result of a batch, in parallel
```
`triegs.partition.layout` decides which events a partition receives.

Read in this order: `planning` (from the request to a `job`), `checkpoint_plan` (what a checkpoint
was made with, and rescaling), `dataflow` (the DataFrames), `routing` (events to partitions),
`processor` (a partition inside Spark), `partition` (its engine), `state_sync` (its state),
`results` (changes and full results), `pipeline` (the running pipeline).
"""
