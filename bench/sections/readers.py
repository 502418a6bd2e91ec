"""Readers of the full result while the updater goes on, and snapshots that are held for long.

Each reader takes the newest snapshot, lists it, closes it, and begins again. What it has read is
*stale* by the epochs that were published meanwhile. The second table holds one snapshot for so many
epochs and says what that retains. Epochs have 256 updates; every number of readers takes its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from threading import Event, Thread
from time import perf_counter
from typing import Any

from bench.answers import Digest, check, imply_digest
from bench.report import Figure
from bench.run import Bench
from bench.sections.interference import EPOCH, Updater
from bench.subject import Bed, digest_batches, read_batches
from triegs.workloads import path3

NAME = "readers"
READERS = (0, 1, 2, 4)
AGES = (1, 10, 100, 1_000)
TURNS = 4
LEAST_SECONDS = 0.1


def measure_readers(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    blocks = settings.window // (EPOCH // 2)
    bench.say("loading")
    bed = Bed(path3(8, window=blocks * EPOCH // 2, slide=EPOCH // 2, seed=settings.seed)).load()
    updater = Updater(bed)
    series = bench.series[NAME] = {"readers": [], "pins": []}
    found: dict[int, list[_Turn]] = {count: [] for count in READERS}
    for turn in range(TURNS):
        for count in READERS:
            bench.say(f"{count} readers, turn {turn + 1}")
            result = _run(bed, updater, count, max(settings.seconds, LEAST_SECONDS))
            if turn:  # the first turn warms up
                found[count].append(result)
    for count, turns in found.items():
        row = f"{count} readers" if count != 1 else "1 reader"
        rate = median(t.updates for t in turns)
        alone = median(t.updates / one.updates for t, one in zip(turns, found[0], strict=True))
        point = {"count": count, "updates": rate, "rows": median(t.rows for t in turns)}
        yield Figure(row, "updater, k updates/s", rate / 1e3, table="readers")
        yield Figure(row, "of its rate alone", 100 * alone, "%", table="readers")
        if count:
            reads = [read for t in turns for read in t.reads]
            epochs, spent = sorted(r.epochs for r in reads), sorted(r.seconds for r in reads)
            point |= {"epochs": median(epochs), "seconds": median(spent)}
            yield Figure(row, "all readers, M rows/s", point["rows"] / 1e6, table="readers")
            yield Figure(row, "a read, ms", 1e3 * median(spent), table="readers")
            yield Figure(row, "stale by, epochs", median(epochs), table="readers")
            yield Figure(row, "at most", epochs[-1], table="readers")
            retained = max(t.retained for t in turns) / 1e6
            yield Figure(row, "retained, MB at most", retained, table="readers")
        series["readers"].append(point)
    updater.finish()
    bed.check()
    yield from _hold(bench, bed, updater)


class _Turn:
    """What one number of readers came to."""

    def __init__(self, updates: float, rows: float, reads: list[_Read], retained: int) -> None:
        self.updates, self.rows, self.reads, self.retained = updates, rows, reads, retained


class _Read:
    """One listing of a snapshot: how long, and how many epochs were published meanwhile."""

    def __init__(self, seconds: float, epochs: int) -> None:
        self.seconds, self.epochs = seconds, epochs


class _Reader:
    """Lists the newest snapshot again and again, in a thread of its own."""

    def __init__(self, bed: Bed, is_over: Event) -> None:
        self._bed, self._is_over = bed, is_over
        self.reads: list[_Read] = []
        self.rows = 0
        self.last: Any = None  # held, so that it can be judged afterwards
        self.thread = Thread(target=self._run)

    def _run(self) -> None:
        while not self._is_over.is_set():
            if self.last is not None:
                self.last.close()
            begin = perf_counter()
            self.last = self._bed.query.snapshot()
            for batch in read_batches(self.last, "ids"):
                self.rows += batch.num_rows
            meanwhile = self._bed.engine.epoch - self.last.epoch
            self.reads.append(_Read(perf_counter() - begin, meanwhile))


def _run(bed: Bed, updater: Updater, count: int, seconds: float) -> _Turn:
    is_over = Event()
    readers = [_Reader(bed, is_over) for _ in range(count)]
    for reader in readers:
        reader.thread.start()
    rates, retained = [], 0
    begin = perf_counter()
    for _ in range(4):
        rates.append(updater.run_for(seconds / 4))
        retained = max(retained, bed.engine.metrics()["retained_bytes"])
    is_over.set()
    for reader in readers:
        reader.thread.join()
    spent = perf_counter() - begin
    for reader in readers:
        _judge(bed, updater, reader.last, f"one of {count} readers")
    reads = [read for reader in readers for read in reader.reads]
    return _Turn(median(rates), sum(r.rows for r in readers) / spent, reads, retained)


def _judge(bed: Bed, updater: Updater, snapshot: Any, what: str) -> None:
    """A snapshot must show the window of its own epoch, whatever was published since."""
    with snapshot:
        found: Digest = digest_batches(snapshot)
    edges = updater.find_edges(snapshot.epoch)
    check(found, imply_digest(bed.workload.atoms, bed.workload.head, edges), what)


def _hold(bench: Bench, bed: Bed, updater: Updater) -> Iterator[Figure]:
    """Hold one snapshot while so many epochs pass."""
    for age in AGES:
        bench.say(f"a snapshot held for {age} epochs")
        free = _time_epochs(updater, min(age, 100))
        snapshot = bed.query.snapshot()
        held = _time_epochs(updater, age)
        metrics = bed.engine.metrics()
        _judge(bed, updater, snapshot, f"a snapshot held for {age} epochs")
        retained = metrics["retained_bytes"]
        row = f"{age:,} epochs" if age > 1 else "1 epoch"
        yield Figure(row, "updates meanwhile", age * EPOCH, table="pins")
        yield Figure(row, "retained MB", retained / 1e6, table="pins")
        share = 100 * retained / metrics["live_bytes"]
        yield Figure(row, "of the live state", share, "%", table="pins")
        yield Figure(row, "bytes an update", retained / (age * EPOCH), table="pins")
        yield Figure(row, "epoch µs", 1e6 * held, table="pins")
        yield Figure(row, "with nothing held", 1e6 * free, table="pins")
        bench.series[NAME]["pins"].append(
            {"age": age, "retained": retained, "live": metrics["live_bytes"]}
        )


def _time_epochs(updater: Updater, count: int) -> float:
    """The middle of so many epochs, in seconds."""
    seconds = []
    for _ in range(count):
        begin = perf_counter()
        updater.step()
        seconds.append(perf_counter() - begin)
    return median(seconds)
