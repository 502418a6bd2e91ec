"""Seeded event streams with queries over each, for demonstrations, tests and benchmarks.

`names` and `get` provide the timed workloads: a social network, small streams for audits, and the
block workloads with one edge per tick. Modules on the left import those on the right:

```
registry ──► totals ──► social ──► network ──► rows (columns of numbers), words (terms)
         ──► temporal ──► replies ───────────►
         ──► blocks ──► shapes ──► stream ──► draw (nodes by their chances)
```

The functions `path3` … `triangle` provide the block workloads of the benchmarks: a window holds
`window` edges in blocks of `slide`. Slide 0 loads the window; every later slide deletes the oldest
block, then inserts a new one.
"""

from __future__ import annotations

from triegs.workloads.registry import get, names
from triegs.workloads.shapes import (
    clique4,
    diamond,
    path2,
    path2_ends,
    path3,
    path5_prefix,
    rectangle,
    reply,
    spider4x2,
    star5,
    triangle,
)
from triegs.workloads.stream import Atom, Slide, Workload
from triegs.workloads.timed import TimedWorkload, WindowQuery

__all__ = [
    "Atom",
    "Slide",
    "TimedWorkload",
    "WindowQuery",
    "Workload",
    "clique4",
    "diamond",
    "get",
    "names",
    "path2",
    "path2_ends",
    "path3",
    "path5_prefix",
    "rectangle",
    "reply",
    "spider4x2",
    "star5",
    "triangle",
]
