"""Bytes of live state, for each live edge and each atom that it matches."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report import Figure, Sense
from bench.run import Bench
from bench.sections.beds import each_bed

GOAL = 120
#: Of paths and stars.
GOALS = {"path3 f8": 60, "path3 f3": 60, "star5 b3": 60}


def measure_memory(bench: Bench) -> Iterator[Figure]:
    for name, bed in each_bed(bench):
        bed.check()
        edges = bed.window.edges
        matches = sum(len(edges[atom.label][0]) for atom in bed.workload.atoms)
        found = bed.count_bytes()
        yield Figure(name, "live MB", found / 1e6)
        goal = GOALS.get(name, GOAL)
        yield Figure(name, "bytes/edge/atom", found / matches, "", goal, Sense.AT_MOST)
