"""The time between one answer and the next, and between batches, as the result grows.

`explain` promises constant delay: the work between two answers depends on the query, not on the
data. Three ways of reading are timed: answers one by one as Python objects, batches of 64 rows, and
batches of 65,536 rows. Gaps beyond the 99.9th of a hundred are mostly the machine's other work.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed
from triegs.workloads import Workload, path3, path5_prefix

Gaps = NDArray[np.float64]

NAME = "delay"
#: The middle gap may grow by so much from the smallest result to the largest: caches are finite.
GOAL = 1.5
FAN_OUT = 6
#: More than these gaps of one kind tell nothing new.
MOST_GAPS = 12_000_000
#: Each size is read so often, in turns, after a first time to warm up.
ROUNDS = 2
#: A window so large is read once: it takes long enough to have its quiet moments.
LONG_WINDOW = 200_000
FEWEST = 8
BINS = np.geomspace(1e-8, 1, 161)


class Form(NamedTuple):
    """A way of reading: how to begin, and how many answers a gap brings."""

    name: str
    read: Callable[[Any], Iterable[object]]
    rows: int


FORMS = (
    Form("one by one", lambda snap: snap.answers("ids"), 1),
    Form("batches of 64", lambda snap: snap.batches(64, "ids"), 64),
    Form("batches of 65,536", lambda snap: snap.batches(65_536, "ids"), 65_536),
)


def measure_delay(bench: Bench) -> Iterator[Figure]:
    series = bench.series[NAME] = {"bins": BINS.tolist(), "forms": {}, "promise": ""}
    for name, workloads in _list_workloads(bench):
        beds = []
        for workload in workloads:
            bench.say(f"loading a window of {workload.window:,} for {name}")
            beds.append(Bed(workload).load())
            beds[-1].check()
            series["promise"] = beds[-1].query.plan.promise
        for form in FORMS:
            bench.say(f"delay of {name}, {form.name}")
            table = f"{name}, {form.name}"
            found = time_rounds(beds, form)
            series["forms"][table] = [
                {"answers": total, "counts": np.histogram(gaps, BINS)[0].tolist()}
                for total, (gaps, _) in found.items()
            ]
            yield from _show(table, form, found)


def time_rounds(beds: list[Bed], form: Form) -> dict[int, tuple[Gaps, float]]:
    """All gaps by the number of answers, and the smallest middle among the rounds."""
    gaps: dict[int, list[Gaps]] = {}
    for round_ in range(ROUNDS + 1):
        for bed in beds:
            if round_ < ROUNDS and bed.workload.window > LONG_WINDOW:
                continue
            found, total = time_gaps(bed, form)
            # A result of a few batches has no middle.
            if len(found) >= FEWEST and round_:
                gaps.setdefault(total, []).append(found)
    return {
        total: (np.concatenate(parts), min(float(np.median(part)) for part in parts))
        for total, parts in sorted(gaps.items())
    }


def _show(table: str, form: Form, found: dict[int, tuple[Gaps, float]]) -> Iterator[Figure]:
    row = ""
    for total, (gaps, middle) in found.items():
        row = f"{total:,} answers"
        yield Figure(row, "median, µs", 1e6 * middle, table=table)
        for column, share in (("99%", 99), ("99.9%", 99.9), ("most", 100)):
            value = 1e6 * float(np.percentile(gaps, share))
            yield Figure(row, f"{column}, µs", value, table=table)
        yield Figure(row, "ns an answer", 1e9 * float(np.mean(gaps)) / form.rows, table=table)
    middles = [middle for _, middle in found.values()]
    if len(middles) > 1:
        growth = middles[-1] / middles[0]
        yield Figure(row, "median grew by", growth, "x", GOAL, Sense.AT_MOST, table)


def _list_workloads(bench: Bench) -> Iterator[tuple[str, list[Workload]]]:
    """Windows of a 33rd of the setting, and three times ten of that; an edge makes 12 answers."""
    settings = bench.settings
    shapes: dict[str, Callable[..., Workload]] = {
        "path3": lambda **sizes: path3(FAN_OUT, **sizes),
        "path5-prefix": lambda **sizes: path5_prefix(FAN_OUT, **sizes),
    }
    for name, make in shapes.items():
        found = []
        for share in (0.03, 0.3, 3, 30):
            window = int(settings.window * share) // 10 * 10
            if window > settings.large_window:
                break
            try:
                found.append(make(window=window, slide=window // 10, seed=settings.seed))
            except ValueError:  # too small for this fan-out
                continue
        yield name, found


def time_gaps(bed: Bed, form: Form) -> tuple[Gaps, int]:
    """Seconds from one answer or full batch to the next, and the number of answers."""
    with bed.query.snapshot() as snapshot:
        total = snapshot.support()
        room = min(total // form.rows, MOST_GAPS)
        stamps = array("q", bytes(8 * (room + 1)))
        gc.collect()
        gc.freeze()
        stamps[0] = perf_counter_ns()
        place = 0
        for _ in form.read(snapshot):
            if place == room:
                break  # what is left is less than a batch
            place += 1
            stamps[place] = perf_counter_ns()
        gc.unfreeze()
    return np.diff(np.frombuffer(stamps, np.int64)[: place + 1]) / 1e9, total
