"""``triegs demo``: a social network as files of events, through Spark into standing queries.

Without Spark, or with ``--engine direct``, the same files are read by this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
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
from triegs.inputs import Source, open_input
from triegs.read.snapshot import Snapshot
from triegs.run.epochs import Published, WindowedEpochs
from triegs.run.statistics import write_bytes, write_seconds
from triegs.spark import LocalSpark, SparkMissing, SparkSource
from triegs.sparql.window import Window
from triegs.standing_query import StandingQuery
from triegs.workloads.timed import WindowQuery

WORKLOAD, EVENTS, PER_FILE, SEED = "social", 100_000, 5_000, 7
QUERIES = {
    "friend-like": "what friends like, and who wrote it",
    "country-message": "messages by country: who wrote there, on what",
    "forum-tag-class": "the tags of forum posts, their class, and how often",
}
#: The slide at which a reader takes its snapshot, and the slides over which it reads it.
HELD_AFTER, READ_DURING = 5, 8

MakeSource = Callable[..., Source]


class Slide(NamedTuple):
    """What was seen at a slide: answers and total multiplicity of each query."""

    time: int | None
    sizes: tuple[tuple[int, int], ...]


class Seen(NamedTuple):
    """What came of a stream: its slides, and the answers of the last, in an order of their own."""

    slides: list[Slide]
    answers: list[list[tuple[object, ...]]]
    seconds: float


def run_demo(
    engine: str | None = None, console: Console | None = None, events: int = EVENTS
) -> None:
    """Print the whole demonstration; some seconds, and as many more for Spark to start."""
    out = console or Screen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="triegs-demo-")))
        make = find_source(out, engine, stack)
        is_spark = make is not Source
        known = {query.name: query for query in workloads.get(WORKLOAD).asked}
        asked = [known[name] for name in QUERIES]
        write_title(out, "1. A stream of events")
        write_files(out, folder, events)
        write_title(out, "2. Three standing queries over windows of 10 s that slide by 5 s")
        for name, meaning in QUERIES.items():
            out.print(f"  {name:16} {meaning}")
        reader = "Spark" if is_spark else "this process"
        write_title(out, f"3. The files, read by {reader}: answers at each slide, and what changed")
        if is_spark:
            out.print("Spark is starting, which takes some seconds …\n", style="dim")
        show = Board(out, asked)
        seen = stream(folder, make, show)
        if is_spark:
            write_title(out, "4. The same files without Spark")
            compare(out, seen, stream(folder, Source, Board(None, asked)))
    write_title(out, "Where to look next")
    out.print("  triegs demo --example        a small example step by step, with its plan")
    out.print("  triegs run --help            your own queries over your own files")
    out.print("  docs/spark.md, docs/run.md   what the two readers promise")
    out.print("  docs/engine.md               the same in Python")


def find_source(out: Console, engine: str | None, stack: ExitStack) -> MakeSource:
    """Spark if it is there, unless the direct engine is asked for."""
    if engine == "direct":
        return Source
    try:
        spark = stack.enter_context(LocalSpark())
    except SparkMissing as missing:
        if engine == "spark":
            raise
        out.print(f"Without Spark ({missing}): the direct engine reads the files.", soft_wrap=True)
        return Source
    return partial(SparkSource, spark=spark, files_per_batch=1)


def write_files(out: Console, folder: Path, events: int) -> None:
    """The workload as Parquet, some thousand events in a file."""
    workload = workloads.get(WORKLOAD)
    number = 0
    for number, batch in enumerate(workload.events(events, SEED, batch_size=PER_FILE), 1):
        pq.write_table(pa.table(batch), folder / f"events-{number:03}.parquet")
    size = sum(path.stat().st_size for path in folder.iterdir())
    out.print("  A generated social network: persons, friends, posts, likes, and deletes.")
    out.print(
        f"  {events:,} events, 1,000 in a second of event time, as {number} Parquet files "
        f"({write_bytes(size)})"
    )


def stream(folder: Path, make: MakeSource, board: Board) -> Seen:
    """Run the queries over the files, and show each slide."""
    workload = workloads.get(WORKLOAD)
    with Engine(prefixes=workload.prefixes) as engine:
        queries = [
            engine.register(query.text, query.name, window=Window(query.width, slide=query.slide))
            for query in board.asked
        ]
        engine.apply(workload.static_table())
        epochs = WindowedEpochs(engine)
        with open_input(folder, make=make) as source:
            board.begin(engine, queries)
            for epoch in publish(source, epochs, board):
                board.show(epoch)
        return board.finish()


def publish(source: Source, epochs: WindowedEpochs, board: Board) -> Iterator[Published]:
    for batch in source:
        board.count(batch.num_rows)
        yield from epochs.feed(batch)
    yield from epochs.finish()


class Board:
    """Prints a line for each slide, and has a reader hold one of them. ``out`` may be None."""

    def __init__(self, out: Console | None, asked: list[WindowQuery]) -> None:
        self.asked = asked
        self._out = out
        self._events = 0
        self._slides: list[Slide] = []
        self._start: float | None = None
        self._reader: SlowReader | None = None

    def begin(self, engine: Engine, queries: list[StandingQuery]) -> None:
        self._engine = engine
        self._queries = queries
        self._before = [query.snapshot() for query in queries]
        self._print(f"{'watermark':9} {'events':>8} {'per s':>7}", [q.name for q in self.asked])
        self._print(f"{'':9} {'':8} {'':7}", ["answers  new gone"] * len(queries))

    def count(self, events: int) -> None:
        """So many have come. The clock starts with the first, without what Spark takes to start."""
        if self._start is None:
            self._start = perf_counter()
        self._events += events

    def show(self, epoch: Published) -> None:
        """The answers of a slide, and how many are new or gone."""
        now = [query.snapshot() for query in self._queries]
        sizes = [(snapshot.support(), snapshot.count()) for snapshot in now]
        self._slides.append(Slide(epoch.time, tuple(sizes)))
        if self._out is not None:
            rate = self._events / max(self._seconds, 1e-6)
            changes = [count_changes(new, old) for new, old in zip(now, self._before, strict=True)]
            start = f"{write_time(epoch.time):9} {self._events:8,} {write_count(int(rate)):>7}"
            self._print(start, list(map(write_cell, sizes, changes)))
            if self._reader is not None:
                self._reader.go_on()
            elif len(self._slides) == HELD_AFTER:
                self._reader = SlowReader(self._engine, self._queries[0])
        for snapshot in self._before:
            snapshot.close()
        self._before = now

    def finish(self) -> Seen:
        seconds = self._seconds
        if self._out is not None:
            self._out.print(
                f"\n{self._events:,} events, {len(self._slides)} slides in {write_seconds(seconds)}"
            )
        if self._reader is not None and self._out is not None:
            self._reader.finish(self._out)
        last = [sort_answers(snapshot) for snapshot in self._before]
        for snapshot in self._before:
            snapshot.close()
        return Seen(self._slides, last, seconds)

    @property
    def _seconds(self) -> float:
        return 0.0 if self._start is None else perf_counter() - self._start

    def _print(self, start: str, cells: list[str]) -> None:
        if self._out is not None:
            self._out.print(start + "".join(f"{cell:>18}" for cell in cells))


class SlowReader:
    """Holds one snapshot of a query and reads it bit by bit, a bit at each slide, in a thread."""

    def __init__(self, engine: Engine, query: StandingQuery) -> None:
        self._engine = engine
        self._query = query
        self._snapshot = query.snapshot()
        self._size = self._snapshot.support()
        self._may_go_on = Semaphore(0)
        self._read = 0
        self._until = 0
        self._thread = Thread(target=self._enumerate, name="reader", daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """A slide was published."""
        self._may_go_on.release()

    def _enumerate(self) -> None:
        for batch in self._snapshot.batches(max(1, ceil(self._size / READ_DURING))):
            self._may_go_on.acquire()
            self._read += batch.num_rows
            self._until = self._engine.epoch

    def finish(self, out: Console) -> None:
        """Let it read the rest, and say what it has read."""
        self._may_go_on.release(READ_DURING + 1)
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
    """How many answers have a larger multiplicity than before, and how many a smaller one."""
    more = less = 0
    for batch in now.diff(before).batches():
        change = batch.column(batch.num_columns - 1)
        more += pc.sum(pc.greater(change, 0)).as_py() or 0
        less += pc.sum(pc.less(change, 0)).as_py() or 0
    return more, less


def sort_answers(snapshot: Snapshot) -> list[tuple[object, ...]]:
    return sorted(zip(*snapshot.to_arrow().to_pydict().values(), strict=True))


def compare(out: Console, seen: Seen, direct: Seen) -> None:
    """Say whether both readers gave the same."""
    is_same = seen.slides == direct.slides and seen.answers == direct.answers
    told = "the same answers at every slide" if is_same else "OTHER ANSWERS, which is an error"
    out.print(f"  {told}; this took {write_seconds(direct.seconds)}.")
    out.print("  On one machine Spark costs time. It is for streams that come from elsewhere.")


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
