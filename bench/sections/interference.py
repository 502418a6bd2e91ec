"""A reader and the updater at the same time, each on its own core, against each alone.

A snapshot is held from the start. The updater applies epochs of 256 updates; the reader lists the
held answers again and again. Alone and together take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from threading import Event, Thread
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.answers import Edges, check, imply_digest
from bench.report import Figure, Sense
from bench.run import Bench
from bench.subject import Bed, apply_table, digest_batches, read_batches
from bench.window import Window
from triegs.workloads import path3

EPOCH = 256
KEPT, RETAINED = 80.0, 150.0
TURN_SECONDS = 0.5


def measure_interference(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    blocks = settings.window // (EPOCH // 2)
    bench.say("loading")
    bed = Bed(path3(8, window=blocks * EPOCH // 2, slide=EPOCH // 2, seed=settings.seed)).load()
    held = imply_digest(bed.workload.atoms, bed.workload.head, bed.window.edges)
    alone: list[tuple[float, float]] = []
    together: list[tuple[float, float]] = []
    with bed.query.snapshot() as snapshot:
        updater = Updater(bed)
        retained = updater.measure_retained()
        for turn in range(max(3, int(settings.seconds / TURN_SECONDS))):
            bench.say(f"reader and updater, turn {turn + 1}")
            reader = _Reader(snapshot)
            solo = updater.run_for(TURN_SECONDS), reader.run_for(TURN_SECONDS)
            with reader:
                rate = updater.run_for(TURN_SECONDS)
            if turn:  # the first turn compiles
                alone.append(solo)
                together.append((rate, reader.rate))
        check(digest_batches(snapshot), held, "the held snapshot")
    updater.finish()
    bed.check()
    rates = [("updater", 1e3, " k updates/s"), ("reader", 1e6, " M rows/s")]
    for place, (row, scale, unit) in enumerate(rates):
        shares = [100 * b[place] / a[place] for a, b in zip(alone, together, strict=True)]
        yield Figure(row, "alone", median(a[place] for a in alone) / scale, unit)
        yield Figure(row, "together", median(b[place] for b in together) / scale, unit)
        yield Figure(row, "kept", median(shares), "%", KEPT)
    yield Figure("held bytes", "for each update", retained, "", RETAINED, Sense.AT_MOST)


class Updater:
    """Some slides forth and back again, round after round.

    Drawing new ones would take the interpreter from the reader, and is no work of the engine.
    """

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._slides = bed.draw(max(4, bed.workload.window // EPOCH))
        forth = [slide.table for slide in self._slides]
        self._tables = forth + [_undo(table) for table in reversed(forth)]
        self._place = 0
        self._first = bed.engine.epoch

    def find_edges(self, epoch: int) -> Edges:
        """The window as it was at that epoch of the engine."""
        window = Window(self._bed.workload)
        window.copy_from(self._bed.window)
        forth = len(self._slides)
        place = (epoch - self._first) % (2 * forth)
        for slide in self._slides[: place if place <= forth else 2 * forth - place]:
            window.apply(slide)
        return window.edges

    def measure_retained(self) -> float:
        """Bytes kept for the held snapshot alone, for each of a window's worth of updates."""
        forth = len(self._tables) // 2
        while self._place < forth:
            self.step()
        return float(self._bed.engine.metrics()["retained_bytes"]) / (forth * EPOCH)

    def run_for(self, seconds: float, after: Callable[[], None] | None = None) -> float:
        """Updates per second; `after` is called after each epoch."""
        start, epochs = perf_counter(), 0
        while (spent := perf_counter() - start) < seconds:
            self.step()
            epochs += 1
            if after is not None:
                after()
        return epochs * EPOCH / spent

    def finish(self) -> None:
        """Go on until the window is again as it was at first."""
        while self._place:
            self.step()

    def step(self) -> None:
        apply_table(self._bed.engine, self._tables[self._place])
        self._place = (self._place + 1) % len(self._tables)


def _undo(table: pa.Table) -> pa.Table:
    """What takes these updates back: the last first, each with the other sign."""
    back = table.take(list(range(table.num_rows - 1, -1, -1)))
    return back.set_column(0, "op", pc.negate(back["op"]))


class _Reader:
    """Lists a snapshot again and again: for a while, or in a thread inside a ``with`` block."""

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot
        self._is_over = Event()
        self._thread = Thread(target=self._read_until_over)
        self.rate = 0.0

    def run_for(self, seconds: float) -> float:
        return self._read(lambda spent: spent >= seconds)

    def __enter__(self) -> _Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _read_until_over(self) -> None:
        self.rate = self._read(lambda _: self._is_over.is_set())

    def _read(self, is_over: Callable[[float], bool]) -> float:
        """Rows per second, in whole batches."""
        start = perf_counter()
        rows: int = 0
        while True:
            for batch in read_batches(self._snapshot, "ids"):
                rows += batch.num_rows
                if is_over(spent := perf_counter() - start):
                    return rows / spent
