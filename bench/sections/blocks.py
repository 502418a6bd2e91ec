"""All block workloads by name, those that the engine does not run yet included."""

from __future__ import annotations

from collections.abc import Callable

from bench.run import Bench
from bench.sections.beds import WORKLOADS
from triegs.workloads import Workload, path5_prefix, triangle

BLOCKS: dict[str, Callable[..., Workload]] = {
    **WORKLOADS,
    "path5-prefix f3": lambda **sizes: path5_prefix(3, **sizes),
    "triangle f30": lambda **sizes: triangle(30, **sizes),
}


def make_block(name: str, bench: Bench) -> Workload:
    sizes = bench.settings
    return BLOCKS[name](window=sizes.window, slide=sizes.slide, seed=sizes.seed)
