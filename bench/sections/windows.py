"""How much of a windowed epoch is bookkeeping: what is neither encoding, nor the core, nor terms.

The same stream goes through `push` and `advance`, one event a millisecond, so that the window of
so many milliseconds holds so many events. The clock runs inside, around the calls that an epoch of
`apply` makes as well; the rest of `push` and `advance` is what windows cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from bench.answers import check, imply_digest
from bench.report import Figure, Sense
from bench.run import Bench, LeftOut
from bench.subject import digest_batches
from bench.timing import take_turns
from bench.window import Window as Judge
from triegs import Engine, Window
from triegs.windows import windows
from triegs.workloads import Slide, Workload, path3

GOAL = 25.0
SLIDES = 20
LOAD_ROWS = 100_000


class WindowedBed:
    """A workload on an engine whose window deletes; the judge takes the workload's deletions."""

    def __init__(self, workload: Workload, slide: int | None = None) -> None:
        self.workload = workload
        self.engine = Engine(window=Window(workload.window, slide=slide or workload.slide))
        self.query = self.engine.register(workload.query)
        self.judge = Judge(workload)
        self.stream = workload.slides()
        self.time = 0

    def make_events(self, slide: Slide) -> pa.Table:
        table = slide.table.filter(pa.array(slide.ops == 1)).drop_columns(["op"])
        times = np.arange(self.time + 1, self.time + table.num_rows + 1)
        self.time += table.num_rows
        self.judge.apply(slide)
        return table.append_column("time", pa.array(times)).combine_chunks()

    def load(self, seconds: float) -> None:
        start = perf_counter()
        table = self.make_events(next(self.stream))
        for place in range(0, table.num_rows, LOAD_ROWS):
            self.engine.push(table.slice(place, LOAD_ROWS))
            self.engine.advance()
            if perf_counter() - start > seconds:
                raise LeftOut(f"a window of {self.workload.window:,} did not load in {seconds:g} s")

    def take(self, table: pa.Table) -> None:
        self.engine.push(table)
        published = self.engine.advance()
        assert len(published) == 1, published

    def check(self) -> None:
        with self.query.snapshot() as snapshot:
            found = digest_batches(snapshot)
        workload = self.workload
        expected = imply_digest(workload.atoms, workload.head, self.judge.edges)
        check(found, expected, f"{workload.name} in a window")


class Inside:
    """Seconds inside some calls of an engine."""

    def __init__(self, engine: Any) -> None:
        self.seconds = 0.0
        for owner, name in (
            (windows, "encode_events"), (engine._core, "apply"),
            (engine._core, "slide_at_once"), (engine._dictionary, "settle"),
            (engine._dictionary, "collect"),
        ):  # fmt: skip
            setattr(owner, name, self._clock(getattr(owner, name)))
        self.seconds = 0.0

    def _clock(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            start = perf_counter()
            try:
                return call(*given, **named)
            finally:
                self.seconds += perf_counter() - start

        return run


def measure_windows(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    for width in (settings.window, settings.large_window):
        bench.say(f"loading a window of {width:,} events")
        bed = WindowedBed(path3(8, window=width, slide=settings.slide, seed=settings.seed))
        bed.load(2 * settings.large_seconds)
        bench.say(f"slides of a window of {width:,} events")
        patched: Any = windows
        encode = patched.encode_events
        try:
            whole, share = _measure(bed, settings.seconds)
        finally:
            patched.encode_events = encode
        bed.check()
        row = f"path3 f8, {width:,} events"
        yield Figure(row, "epoch µs", 1e6 * whole)
        yield Figure(row, "bookkeeping", 100 * share, "%", GOAL, Sense.AT_MOST)


def _measure(bed: WindowedBed, seconds: float) -> tuple[float, float]:
    """Seconds of a slide, and the share of bookkeeping in them: middles over all slides."""
    inside = Inside(bed.engine)
    epochs, shares = [], []
    for turn in take_turns(seconds):
        tables = [bed.make_events(next(bed.stream)) for _ in range(SLIDES)]
        for table in tables:
            inside.seconds = 0.0
            start = perf_counter()
            bed.take(table)
            spent = perf_counter() - start
            if turn:
                epochs.append(spent)
                shares.append(1 - inside.seconds / spent)
    return median(epochs), median(shares)
