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

from bench.answers import Numbers
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed
from triegs.workloads import Workload, path3, path5_prefix

NAME = "delay"
#: The middle gap may grow by so much from the smallest result to the largest: caches are finite.
GOAL = 1.5
FAN_OUT = 6
#: More than these gaps of one kind tell nothing new.
MOST_GAPS = 12_000_000
BINS = np.geomspace(1e-8, 1e-1, 141)


class Form(NamedTuple):
    """A way of reading: how to begin, and how many answers a gap brings."""

    name: str
    read: Callable[[Any], Iterable[object]]
    rows: int


FORMS = (
    Form("answers one by one", lambda snap: snap.answers("ids"), 1),
    Form("batches of 64 rows", lambda snap: snap.batches(64, "ids"), 64),
    Form("batches of 65,536 rows", lambda snap: snap.batches(65_536, "ids"), 65_536),
)


def measure_delay(bench: Bench) -> Iterator[Figure]:
    series = bench.series[NAME] = {"bins": BINS.tolist(), "forms": {}, "promise": ""}
    for name, workloads in _list_workloads(bench):
        middles: dict[str, list[float]] = {}
        row = ""
        for workload in workloads:
            bench.say(f"delay of {name}, window of {workload.window:,}")
            bed = Bed(workload).load()
            bed.check()
            series["promise"] = bed.query.plan.promise
            for form in FORMS:
                gaps, total = time_gaps(bed, form)
                if len(gaps) < 8:  # a result of a few batches has no middle
                    continue
                table = f"{name}, {form.name}"
                row = f"{total:,} answers"
                for column, share in (("median", 50), ("99%", 99), ("99.9%", 99.9), ("most", 100)):
                    value = 1e6 * float(np.percentile(gaps, share))
                    yield Figure(row, f"{column}, µs", value, table=table)
                per_answer = 1e9 * float(np.sum(gaps)) / (len(gaps) * form.rows)
                yield Figure(row, "ns an answer", per_answer, table=table)
                middles.setdefault(table, []).append(float(np.percentile(gaps, 50)))
                counts, _ = np.histogram(gaps, BINS)
                series["forms"].setdefault(table, []).append(
                    {"answers": total, "counts": counts.tolist()}
                )
        for table, found in middles.items():
            if len(found) > 1:
                growth = found[-1] / found[0]
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
            try:
                found.append(make(window=window, slide=window // 10, seed=settings.seed))
            except ValueError:  # too small for this fan-out
                continue
        yield name, found


def time_gaps(bed: Bed, form: Form) -> tuple[Numbers, int]:
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
