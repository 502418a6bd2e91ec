"""The five workloads of the goals, loaded once and used by several sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from bench.run import Bench
from bench.subject import Bed
from triegs.workloads import Workload, path3, reply, spider4x2, star5

WORKLOADS: dict[str, Callable[..., Workload]] = {
    "path3 f8": lambda **sizes: path3(8, **sizes),
    "path3 f3": lambda **sizes: path3(3, **sizes),
    "star5 b3": lambda **sizes: star5(3, **sizes),
    "spider4x2 b2": lambda **sizes: spider4x2(2, **sizes),
    "reply": reply,
}


def keep_bed(bench: Bench, name: str) -> Bed:
    """The workload on an engine, loaded; the same one for every section that asks."""
    bed = bench.kept.get(name)
    if not isinstance(bed, Bed):
        bench.say(f"loading {name}")
        sizes = bench.settings
        workload = WORKLOADS[name](window=sizes.window, slide=sizes.slide, seed=sizes.seed)
        bed = bench.kept[name] = Bed(workload).load()
        # The first slides and reads compile what no cache has yet.
        for slide in bed.draw(2):
            bed.apply(slide)
            bed.window.apply(slide)
            bed.read("ids")
        bed.check()
    return bed


def each_bed(bench: Bench) -> Iterator[tuple[str, Bed]]:
    for name in WORKLOADS:
        yield name, keep_bed(bench, name)


def find_peer(module: str = "polars_recompute", name: str = "PolarsRecompute") -> Any | None:
    """A class of `bench.peers`, if Polars is installed."""
    try:
        return getattr(import_module(f"bench.peers.{module}"), name)
    except ModuleNotFoundError as missing:
        if missing.name != "polars":
            raise
        return None
