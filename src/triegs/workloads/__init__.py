"""Seeded streams of edges with a query over each: the block workloads of the benchmarks.

A window holds `window` edges in blocks of `slide`. Slide 0 loads the window; every later slide
deletes the oldest block, then inserts a new one. What stands on the left reads what stands on the
right:

```
shapes (query and layers) ──► stream (blocks of a window) ──► draw (nodes by their chances)
```
"""

from __future__ import annotations

from triegs.workloads.shapes import path3, path5_prefix, reply, spider4x2, star5, triangle
from triegs.workloads.stream import Atom, Slide, Workload

__all__ = [
    "Atom",
    "Slide",
    "Workload",
    "path3",
    "path5_prefix",
    "reply",
    "spider4x2",
    "star5",
    "triangle",
]
