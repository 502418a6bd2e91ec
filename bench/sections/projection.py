"""A path of two of which the ends are shown: every pair has to be kept, and a slide changes many.

triegs takes the slide in. So does the dict delta join, which keeps the same pairs with counts.
Polars and DuckDB join the window again and group it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.contenders import Triegs, find_peers
from bench.contest import Consumer, Contender, Stream, hold_contest
from bench.peers.python_views import PathEnds
from bench.report import Figure
from bench.run import Bench
from bench.sections.cycles import show_contest
from triegs.workloads import path2_ends

RECOMPUTING = {"Polars again": 7.0, "DuckDB again": 2.0}
GOALS = {PathEnds.name: 4.0, **RECOMPUTING}


def measure_projection(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    workload = path2_ends(8, window=settings.window, slide=settings.slide, seed=settings.seed)
    bench.say(f"slides of {workload.name}")
    peers, _ = find_peers()
    entries: list[tuple[type[Contender], Consumer]] = [
        (Triegs, Consumer.NONE),
        (PathEnds, Consumer.NONE),
        *((peers[name], Consumer.FULL) for name in RECOMPUTING if name in peers),
    ]
    ours, *theirs = hold_contest(Stream(workload), entries, bench.settings.seconds)
    yield from show_contest(workload.name, ours, theirs, GOALS)
