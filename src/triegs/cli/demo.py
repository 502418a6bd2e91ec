"""``triegs demo``: standing queries over a social network, with events read through Spark.

Without Spark, or with ``--engine direct``, this process reads the same files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Semaphore, Thread
from time import perf_counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

from triegs import workloads
from triegs.cli.progress import write_count
from triegs.cli.screen import Screen, write_title
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.events import Source, open_input
from triegs.read.snapshot import Snapshot
from triegs.run.epochs import Published, WindowedEpochs
from triegs.run.statistics import write_bytes, write_seconds
from triegs.spark import LocalSpark, Pipeline, SparkMissing, start
from triegs.sparql.window import Window
from triegs.workloads.timed import WindowQuery

WORKLOAD, EVENTS, PER_FILE, SEED = "social", 100_000, 5_000, 7
QUERIES = {
    "friend-like": "what friends like, and who wrote it",
    "country-message": "messages by country: who wrote there, on what",
    "forum-tag-class": "the tags of forum posts, their class, and how often",
}
#: The slide that the slow reader pins, and the number of slides over which it reads.
HELD_AFTER, READ_DURING = 5, 8

#: Files per Spark batch, seconds between files, and the poll interval.
FILES_PER_BATCH, PAUSE_SECONDS, POLL_SECONDS = 1, 0.25, 0.05
SCHEMA = "time long, op byte, subject string, predicate string, object string, id long"


class Slide(NamedTuple):
    """Answers and total multiplicity of each query at a slide."""

    time: int | None
    sizes: tuple[tuple[int, int], ...]


class StreamResult(NamedTuple):
    """The slides of a stream, and the sorted answers of the last one."""

    slides: list[Slide]
    answers: list[list[tuple[object, ...]]]
    seconds: float


def run_demo(
    engine: str | None = None, console: Console | None = None, events: int = EVENTS
) -> None:
    """Print the demo; takes some seconds, and as many more to start Spark."""
    out = console or Screen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="triegs-demo-")))
        spark = find_spark(out, engine, stack)
        known = {query.name: query for query in workloads.get(WORKLOAD).asked}
        asked = [known[name] for name in QUERIES]
        write_title(out, "1. A stream of events")
        files = Files(folder, events)
        files.describe(out)
        write_title(out, "2. Three standing queries over windows of 10 s that slide by 5 s")
        for name, meaning in QUERIES.items():
            out.print(f"  {name:16} {meaning}")
        if spark is None:
            files.write_all()
            write_title(
                out, "3. The files, read by this process: answers at each slide, and changes"
            )
            stream(folder, Board(out, asked))
        else:
            write_title(out, "3. Through Spark: answers after each batch, and what changed")
            out.print("Spark is starting, which takes some seconds …\n", style="dim")
            streamed = stream_by_spark(files, spark, Board(out, asked, files), folder / "state")
            write_title(out, "4. The same files without Spark")
            direct = stream(folder, Board(None, asked), until=streamed.slides[-1].time)
            compare(out, streamed, direct)
    write_title(out, "Where to look next")
    out.print("  triegs serve --demo          the same stream without end, to watch in a browser")
    out.print("  triegs demo --example        a small example step by step, with its plan")
    out.print("  triegs run --help            your own queries over your own files")
    out.print("  docs/spark.md                the same in your own Spark job")
    out.print("  docs/engine.md               the same in Python")


def find_spark(out: Console, engine: str | None, stack: ExitStack) -> LocalSpark | None:
    """Spark if available, unless the direct engine is requested."""
    if engine == "direct":
        return None
    try:
        # The demo is too short for the second JIT compiler of Java to pay off.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        return stack.enter_context(LocalSpark())
    except SparkMissing as missing:
        if engine == "spark":
            raise
        out.print(f"Without Spark ({missing}): the direct engine reads the files.", soft_wrap=True)
        return None


class Files:
    """The workload as Parquet files of some thousand events, written one by one."""

    def __init__(self, folder: Path, events: int) -> None:
        self.folder = folder
        self.written = 0
        self._events = events
        self._is_stopped = threading.Event()

    def describe(self, out: Console) -> None:
        count = ceil(self._events / PER_FILE)
        out.print("  A generated social network: persons, friends, posts, likes, and deletes.")
        out.print(
            f"  {self._events:,} events, 1,000 in a second of event time, as {count} Parquet files"
        )

    def write_all(self, pause: float = 0.0) -> None:
        """Write the files, with a pause after each, like a live stream."""
        workload = workloads.get(WORKLOAD)
        batches = workload.events(self._events, SEED, batch_size=PER_FILE)
        for number, batch in enumerate(batches, 1):
            temporary = self.folder / f".events-{number:03}"
            pq.write_table(pa.table(batch), temporary)
            temporary.rename(self.folder / f"events-{number:03}.parquet")
            self.written += batch.num_rows
            if self._is_stopped.wait(pause):
                return

    def stop(self) -> None:
        self._is_stopped.set()

    @property
    def is_whole(self) -> bool:
        return self.written >= self._events


def stream(folder: Path, board: Board, until: int | None = None) -> StreamResult:
    """Run the queries over the files up to a slide, showing each slide."""
    workload = workloads.get(WORKLOAD)
    with Engine(prefixes=workload.prefixes) as engine:
        queries = [
            engine.register(query.text, query.name, window=make_window(query))
            for query in board.asked
        ]
        engine.apply(workload.static_table())
        epochs = WindowedEpochs(engine)
        with open_input(folder) as source:
            board.begin(engine, queries)
            for epoch in publish(source, epochs, board):
                board.show(epoch)
                if until is not None and epoch.time == until:
                    break
        return board.finish()


def publish(source: Source, epochs: WindowedEpochs, board: Board) -> Iterator[Published]:
    for batch in source:
        board.count(batch.num_rows)
        yield from epochs.feed(batch)
    yield from epochs.finish()


def make_window(query: WindowQuery) -> Window:
    return Window(query.width, slide=query.slide)


def stream_by_spark(files: Files, spark: LocalSpark, board: Board, state: Path) -> StreamResult:
    """The same through `triegs.spark.start`, while the files are being written."""
    session = spark.get()
    workload = workloads.get(WORKLOAD)
    reader = session.readStream.option("maxFilesPerTrigger", FILES_PER_BATCH)
    events = reader.schema(SCHEMA).parquet(f"{files.folder}/*.parquet")
    asked = {each.name: {"text": each.text, "window": make_window(each)} for each in board.asked}
    with start(
        events, asked, checkpoint=state, static=workload.static_table(),
        prefixes=workload.prefixes, sinks={name: state / "changes" / name for name in asked},
    ) as pipeline:  # fmt: skip
        writer = threading.Thread(target=files.write_all, args=(PAUSE_SECONDS,), daemon=True)
        writer.start()
        try:
            board.begin(pipeline.engine, [pipeline.queries[name] for name in asked])
            follow(pipeline, files, board)
        finally:
            files.stop()
            writer.join()
        board.report_spark(pipeline, state / "changes")
        return board.finish()


def follow(pipeline: Pipeline, files: Files, board: Board) -> None:
    """Show each batch until all events are processed."""
    last: int | None = None
    time: int | None = None
    taken = 0
    while taken < files.written or not files.is_whole:
        if pipeline.wait(POLL_SECONDS):
            return
        figures = pipeline.metrics()
        taken = figures["rows"]
        if figures["batch"] != last:
            last = figures["batch"]
            board.count(taken - board.events)
            with next(iter(pipeline.queries.values())).snapshot() as snapshot:
                shown, time = time, snapshot.time
                if time != shown:
                    board.show(Published(snapshot.epoch, time))


class Board:
    """Prints a line per slide, and lets a slow reader pin one. ``out`` may be None."""

    def __init__(
        self, out: Console | None, asked: list[WindowQuery], files: Files | None = None
    ) -> None:
        self.asked = asked
        self.events = 0
        self._out = out
        self._files = files
        self._slides: list[Slide] = []
        self._start: float | None = None
        self._reader: SlowReader | None = None

    def begin(self, engine: Engine, queries: list[StandingQuery]) -> None:
        self._engine = engine
        self._queries = queries
        self._before = [query.snapshot() for query in queries]
        start = self._write_start("slide", "events", "per s", "waits")
        self._print(start, [q.name for q in self.asked])
        self._print(" " * len(start), ["answers  new gone"] * len(queries))

    def count(self, events: int) -> None:
        """Count events. The clock starts with the first, excluding the start of Spark."""
        if self._start is None:
            self._start = perf_counter()
        self.events += events

    def show(self, epoch: Published) -> None:
        """Show the answers of a slide, and how many are new or gone."""
        now = [query.snapshot() for query in self._queries]
        sizes = [(snapshot.support(), snapshot.count()) for snapshot in now]
        self._slides.append(Slide(epoch.time, tuple(sizes)))
        if self._out is not None:
            per_second = int(self.events / max(self._seconds, 1e-6))
            rate = write_count(per_second).replace(" ", "")
            changes = [count_changes(new, old) for new, old in zip(now, self._before, strict=True)]
            waits = 0 if self._files is None else self._files.written - self.events
            start = self._write_start(
                write_time(epoch.time), f"{self.events:,}", rate, f"{waits:,}"
            )
            self._print(start, list(map(write_cell, sizes, changes)))
            if self._reader is not None:
                self._reader.advance()
            elif len(self._slides) == HELD_AFTER:
                self._reader = SlowReader(self._engine, self._queries[0])
        for snapshot in self._before:
            snapshot.close()
        self._before = now

    def report_spark(self, pipeline: Pipeline, sinks: Path) -> None:
        """Print what the pipeline processed and wrote."""
        if self._out is None:
            return
        figures = pipeline.metrics()
        size = sum(path.stat().st_size for path in sinks.rglob("*.parquet"))
        timing = ", ".join(f"{name} {1e3 * took:.0f}" for name, took in figures["timing"].items())
        self._out.print(
            f"\n{figures['batches']} batches, each processed exactly once; "
            f"{figures['changes']:,} changes as Parquet ({write_bytes(size)}).\n"
            f"Milliseconds of the last batch: {timing}",
            end="",
        )

    def finish(self) -> StreamResult:
        seconds = self._seconds
        if self._out is not None:
            self._out.print(
                f"\n{self.events:,} events, {len(self._slides)} slides in {write_seconds(seconds)}"
            )
        if self._reader is not None and self._out is not None:
            self._reader.finish(self._out)
        last = [sort_answers(snapshot) for snapshot in self._before]
        for snapshot in self._before:
            snapshot.close()
        return StreamResult(self._slides, last, seconds)

    @property
    def _seconds(self) -> float:
        return 0.0 if self._start is None else perf_counter() - self._start

    def _write_start(self, slide: str, events: str, rate: str, waits: str) -> str:
        """The leading columns; with live files, also how many events wait."""
        if self._files is None:
            return f"{slide:9} {events:>8} {rate:>7}"
        # The first batch has just arrived: there is no rate yet.
        rate = "" if 0 < self._seconds < 0.1 else rate
        return f"{slide[-5:]:5} {events:>7} {rate:>5} {waits:>6}"

    def _print(self, start: str, cells: list[str]) -> None:
        if self._out is not None:
            self._out.print(start + "".join(f"{cell:>18}" for cell in cells))


class SlowReader:
    """Pins a snapshot and reads it in a thread, a part of it at each slide."""

    def __init__(self, engine: Engine, query: StandingQuery) -> None:
        self._engine = engine
        self._query = query
        self._snapshot = query.snapshot()
        self._size = self._snapshot.support()
        self._may_advance = Semaphore(0)
        self._read = 0
        self._until = 0
        self._thread = Thread(target=self._enumerate, name="reader", daemon=True)
        self._thread.start()

    def advance(self) -> None:
        """A slide was published."""
        self._may_advance.release()

    def _enumerate(self) -> None:
        for batch in self._snapshot.batches(max(1, ceil(self._size / READ_DURING))):
            self._may_advance.acquire()
            self._read += batch.num_rows
            self._until = self._engine.epoch

    def finish(self, out: Console) -> None:
        """Let it read the rest, and print what it read."""
        self._may_advance.release(READ_DURING + 1)
        self._thread.join()
        passed = self._until - self._snapshot.epoch
        retained = self._engine.metrics()["retained_bytes"]
        out.print(
            f"A reader that pinned slide {HELD_AFTER} of {self._query.name} read {self._read:,} "
            f"of its {self._size:,} answers\nwhile {passed} more slides were published; it "
            f"retained {write_bytes(retained)}",
            end="",
        )
        self._snapshot.close()
        out.print(f", and once closed {write_bytes(self._engine.metrics()['retained_bytes'])}.")


def count_changes(now: Snapshot, before: Snapshot) -> tuple[int, int]:
    """How many answers have a larger, and how many a smaller, multiplicity than before."""
    more = less = 0
    for batch in now.diff(before).batches():
        change = batch.column(batch.num_columns - 1)
        more += pc.sum(pc.greater(change, 0)).as_py() or 0
        less += pc.sum(pc.less(change, 0)).as_py() or 0
    return more, less


def sort_answers(snapshot: Snapshot) -> list[tuple[object, ...]]:
    return sorted(zip(*snapshot.to_arrow().to_pydict().values(), strict=True))


def compare(out: Console, streamed: StreamResult, direct: StreamResult) -> None:
    """Print whether both readers gave the same answers."""
    # Spark may process several slides at once; then only the last was shown.
    sizes = {slide.time: slide.sizes for slide in direct.slides}
    is_same = all(sizes.get(slide.time) == slide.sizes for slide in streamed.slides)
    is_same = is_same and streamed.answers == direct.answers
    verdict = "the same answers at every slide" if is_same else "DIFFERENT ANSWERS (a bug)"
    out.print(f"  {verdict}; this took {write_seconds(direct.seconds)}.")
    out.print("  On one machine Spark only adds overhead; it pays off for distributed sources.")


def write_cell(size: tuple[int, int], changes: tuple[int, int]) -> str:
    """
    >>> write_cell((4_031, 5_000), (1_200, 7))
    '4,031 +1.2k    -7'
    """
    more, less = (
        f"{sign}{write_count(number)}".replace(" ", "")
        for sign, number in zip("+-", changes, strict=True)
    )
    return f"{size[0]:,} {more:>5} {less:>5}"


def write_time(time: int | None) -> str:
    return "" if time is None else f"{datetime.fromtimestamp(time / 1000, UTC):%H:%M:%S}"
