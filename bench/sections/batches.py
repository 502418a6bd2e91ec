"""Does a batch of answers take longer when there are a hundred times as many answers?

Fan-out 10 gives 100 answers for each A edge: the result grows with the window, and the walk from
one answer to the next stays the same. What may grow is only the distance to memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter

from bench.report import Figure, Sense
from bench.run import Bench
from bench.sections.large import load_within
from bench.subject import Bed, read_batches
from triegs.workloads import path3

GOAL = 1.5
FAN_OUT = 10
ROUNDS = 3


def measure_batches(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    beds = {}
    for window in (settings.window, settings.large_window):
        bench.say(f"loading a window of {window:,}")
        bed = Bed(path3(FAN_OUT, window=window, slide=settings.slide, seed=settings.seed))
        load_within(bed, settings.large_seconds)
        bench.say(f"checking the answers of {window:,}")
        bed.check()
        beds[window] = bed
    middles: dict[int, list[float]] = {window: [] for window in beds}
    rows = dict.fromkeys(beds, 0)
    for _ in range(ROUNDS):
        for window, bed in beds.items():
            bench.say(f"reading the answers of {window:,}")
            seconds, rows[window] = _time_batches(bed)
            middles[window].append(median(seconds))
    small, large = beds
    for window in beds:
        name = f"{rows[window]:,} answers"
        yield Figure(name, "ms a batch", 1e3 * median(middles[window]))
    ratio = median(b / a for a, b in zip(middles[small], middles[large], strict=True))
    yield Figure(f"{rows[large]:,} answers", "ratio", ratio, "x", GOAL, Sense.AT_MOST)


def _time_batches(bed: Bed) -> tuple[list[float], int]:
    """Seconds for each full batch, and the rows of all."""
    seconds: list[float] = []
    rows = 0
    with bed.query.snapshot() as snapshot:
        batches = read_batches(snapshot, "ids")
        while True:
            start = perf_counter()
            batch = next(batches, None)
            end = perf_counter()
            if batch is None:
                return seconds or [end - start], rows
            rows += batch.num_rows
            # The last batch is short, unless it is the only one.
            if not seconds or batch.num_rows >= 65_536:
                seconds.append(end - start)
