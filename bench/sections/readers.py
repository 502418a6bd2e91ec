"""Readers of the full result while the updater goes on, and snapshots that are held for long.

Each reader takes the newest snapshot, lists it, closes it, and begins again. What it has read is
*stale* by the epochs that were published meanwhile. The second table holds one snapshot for so many
epochs and says what that retains. Epochs have 256 updates; every number of readers takes its turn.

Readers are threads, or processes that read shared snapshots of the same engine. In *pinned* rows
the updater has a processor to itself. The *control* is a process that only computes there instead
of reading: what it leaves the updater, the machine leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from threading import Event, Thread
from time import perf_counter
from typing import Any

from bench.answers import Digest, check, imply_digest
from bench.processes import ReaderProcess, Supply, list_cpus, pin_to
from bench.report import Figure
from bench.run import Bench
from bench.sections.interference import EPOCH, Updater
from bench.subject import Bed, Engine, digest_batches, read_batches
from triegs.shared_memory import IS_AVAILABLE
from triegs.workloads import path3

NAME = "readers"
READERS = (0, 1, 2, 4)
PROCESSES = (1, 4)
PINNED = {1: "1 process, pinned", 4: "4 processes, pinned"}
#: The series that a row is a point of, by its last word.
PLOTTED = {
    "reader": "readers", "readers": "readers", "process": "processes", "processes": "processes",
}  # fmt: skip
CONTROL = "control, pinned"
#: What one process leaves the updater of what the control does, and four of its rate alone.
KEPT_BY_ONE, KEPT_BY_FOUR = 80.0, 35.0
AGES = (1, 10, 100, 1_000)
TURNS = 4
LEAST_SECONDS = 0.1


def measure_readers(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    blocks = settings.window // (EPOCH // 2)
    bench.say("loading")
    workload = path3(8, window=blocks * EPOCH // 2, slide=EPOCH // 2, seed=settings.seed)
    is_shared = IS_AVAILABLE
    bed = Bed(workload, engine=Engine("multigraph", shared_memory=is_shared)).load()
    updater = Updater(bed)
    series = bench.series[NAME] = {"readers": [], "processes": [], "pins": []}
    seconds = max(settings.seconds, LEAST_SECONDS)
    ways: dict[str, Callable[[], _Turn]] = {
        name_row(count): partial(_run, bed, updater, count, seconds) for count in READERS
    }
    processes = [ReaderProcess() for _ in range(max(PROCESSES) if is_shared else 0)]
    if is_shared:
        for count in PROCESSES:
            row = f"{count} process{'es' if count > 1 else ''}"
            ways[row] = partial(_run_processes, bed, updater, processes[:count], seconds)
        for count, row in PINNED.items():
            ways[row] = partial(_run_pinned, bed, updater, processes[:count], seconds)
        ways[CONTROL] = partial(_run_control, updater, processes[0], seconds)
    found: dict[str, list[_Turn]] = {row: [] for row in ways}
    for turn in range(TURNS):
        for row, way in ways.items():
            bench.say(f"{row}, turn {turn + 1}")
            result = way()
            if turn:  # the first turn warms up
                found[row].append(result)
    for process in processes:
        process.close()
    for row, turns in found.items():
        rate = median(t.updates for t in turns)
        first = found[name_row(0)]
        alone = median(t.updates / one.updates for t, one in zip(turns, first, strict=True))
        goal = KEPT_BY_FOUR if row == "4 processes" else None
        yield Figure(row, "updater, k updates/s", rate / 1e3, table="readers")
        yield Figure(row, "of its rate alone", 100 * alone, "%", goal, table="readers")
        if row.endswith("pinned"):
            control = zip(turns, found[CONTROL], strict=True)
            kept = 100 * median(t.updates / one.updates for t, one in control)
            goal = KEPT_BY_ONE if row == PINNED[1] else None
            yield Figure(row, "of what the control leaves", kept, "%", goal, table="readers")
        count = int(row.split()[0]) if row[0].isdigit() else 0
        point = {"count": count, "updates": rate, "rows": median(t.rows for t in turns)}
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
        kind = PLOTTED.get(row.split()[-1])
        if kind is not None:
            series[kind].append(point)
    updater.finish()
    bed.check()
    yield from _hold(bench, bed, updater)


def name_row(count: int) -> str:
    return f"{count} reader{'s' if count != 1 else ''}"


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


def _run_processes(
    bed: Bed, updater: Updater, readers: list[ReaderProcess], seconds: float
) -> _Turn:
    rates, retained = [], 0
    begin = perf_counter()
    supply = Supply(bed, readers)
    for _ in range(4):
        rates.append(updater.run_for(seconds / 4, supply))
        retained = max(retained, bed.engine.metrics()["retained_bytes"])
    supply.end()
    spent = perf_counter() - begin
    for reader in readers:
        digest, epoch = reader.judge()
        edges = updater.find_edges(epoch)
        expected = imply_digest(bed.workload.atoms, bed.workload.head, edges)
        check(digest, expected, f"one of {len(readers)} processes")
    reads = [_Read(*read) for reader in readers for read in reader.reads]
    return _Turn(median(rates), sum(r.rows for r in readers) / spent, reads, retained)


@contextmanager
def _pin(processes: list[ReaderProcess]) -> Iterator[None]:
    """The updater on one processor, and processes on the others."""
    cpus = list_cpus()
    for process in processes:
        process.pin(cpus[1:] or cpus)
    pin_to(cpus[:1])
    try:
        yield
    finally:
        pin_to(cpus)
        for process in processes:
            process.pin(cpus)


def _run_pinned(
    bed: Bed, updater: Updater, processes: list[ReaderProcess], seconds: float
) -> _Turn:
    with _pin(processes):
        return _run_processes(bed, updater, processes, seconds)


def _run_control(updater: Updater, process: ReaderProcess, seconds: float) -> _Turn:
    with _pin([process]):
        process.compute()
        rates = [updater.run_for(seconds / 4) for _ in range(4)]
        process.stop_computing()
    return _Turn(median(rates), 0.0, [], 0)


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
