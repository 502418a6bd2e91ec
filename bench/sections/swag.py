"""Sliding-window aggregation: events per second, and the longest single step.

Each window is full, and slides by one event per step. Events come in order (DABA Lite), or
displaced by up to a tenth of the window (FiBA). `bench.micro.swag` has more operators and peers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import process_time

import numpy as np

from bench.answers import WrongAnswer
from bench.micro.swag import (
    GOALS,
    LONGEST,
    calibrate,
    draw_events,
    make_subject,
    measure,
    recompute,
)
from bench.report import Figure, Sense
from bench.run import Bench
from bench.timing import Samples
from triegs.aggregates.swag.operators import SUM

NAMES = {"in order": "DABA Lite", "displaced": "FiBA"}
SMALL, MIDDLE, LARGE = 1_000, 10_000, 10_000_000
CHUNKS, CHUNK = 9, 100_000
TABLE = "sliding windows"


def measure_swag(bench: Bench) -> Iterator[Figure]:
    # The default size of large windows stands for ten million events.
    largest = max(SMALL, min(LARGE, 10 * bench.settings.large_window // 3))
    for order, name in NAMES.items():
        bench.say(f"{name}, {order}")
        rates = {window: measure_rate(name, order, window) for window in (SMALL, largest)}
        for window, rate in rates.items():
            row = f"{name}, {order}, {window:,}"
            yield Figure(row, "M events/s", rate, "", GOALS[order], table=TABLE)
        ratio = rates[SMALL] / rates[largest]
        row = f"{name}, {order}, {largest:,}"
        yield Figure(row, "than the small window", ratio, "x", table=TABLE)
    bench.say("single steps of DABA Lite")
    operator = replace(SUM, builtin=False)
    scale, _ = calibrate()
    figures = measure("DABA Lite", operator, "in order", min(MIDDLE, largest), scale)
    row = f"DABA Lite, in order, {min(MIDDLE, largest):,}"
    ratio = figures.longest / figures.median
    yield Figure(row, "longest by median step", ratio, "x", LONGEST, Sense.AT_MOST, TABLE)


def measure_rate(name: str, order: str, window: int) -> float:
    """Million insertions with an eviction each, per second of the processor."""
    operator = replace(SUM, builtin=False)
    times, values = draw_events(order, window, window + CHUNKS * CHUNK, window)
    subject = make_subject(name, operator, window)
    words, headers, run = subject.words, subject.headers, subject.kernels.run_updates
    out = np.zeros(operator.width, np.int64)
    run(words, headers, times[:window], values[:window], window, out)
    samples = Samples(process_time)
    for start in range(window, len(times), CHUNK):
        rows = slice(start, start + CHUNK)
        samples.time(run, words, headers, times[rows], values[rows], window, out)
    if operator.lower(*operator.read(out)) != recompute(operator, times, values, window):
        raise WrongAnswer(f"{name}, {order}, {window:,}")
    return CHUNK / samples.middle / 1e6
