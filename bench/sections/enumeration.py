"""Rows per second into Arrow columns of ids, against NumPy copying those columns batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.answers import Numbers
from bench.report import Figure
from bench.run import Bench
from bench.sections.beds import each_bed
from bench.subject import read_batches
from bench.timing import Rival, Samples, take_turns

GOALS = {
    "path3 f8": 60.0, "path3 f3": 25.0, "star5 b3": 60.0, "spider4x2 b2": 40.0, "reply": 25.0,
}  # fmt: skip
BATCH_ROWS = 65_536


def measure_enumeration(bench: Bench) -> Iterator[Figure]:
    for name, bed in each_bed(bench):
        bench.say(f"enumeration of {name}")
        bed.check()
        with bed.query.snapshot() as snapshot:
            table = bed.read("ids")
            columns = [np.ascontiguousarray(column.to_numpy()) for column in table.columns]
            rival = Rival()
            for _ in take_turns(bench.settings.seconds / 4):
                ours, theirs = Samples(), Samples()
                for _ in range(3):
                    ours.time(_read_all, snapshot)
                    theirs.time(_copy_all, columns)
                rival.add_turn(ours, theirs)
        rows = table.num_rows
        yield Figure(name, "rows", rows)
        yield Figure(name, "triegs M rows/s", rows * rival.ours.rate / 1e6)
        yield Figure(name, "NumPy copy M rows/s", rows * rival.theirs.rate / 1e6)
        yield Figure(name, "share of copying", 100 * rival.ratio, "%", GOALS[name])


def _read_all(snapshot: object) -> None:
    for _ in read_batches(snapshot, "ids"):
        pass


def _copy_all(columns: list[Numbers]) -> None:
    """Each batch in memory of its own, as the batches of a reader are."""
    for start in range(0, len(columns[0]), BATCH_ROWS):
        _ = [column[start : start + BATCH_ROWS].copy() for column in columns]
