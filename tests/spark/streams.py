"""Random streams of events as Parquet files, one per batch, and the expected answers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from triegs import Window
from triegs.testing import oracle
from triegs.testing.window_oracle import Event, Shape, WindowOracle

EX = "<http://ex/{}>".format
QUERIES = {
    "path": f"SELECT ?x ?y ?z {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}",
    "twice": f"SELECT ?x ?z {{ ?x {EX('p')} ?y . ?y {EX('p')} ?z }}",
    "heads": f"SELECT ?x {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}",
    "apart": f"SELECT ?x ?z {{ ?x {EX('p')} {EX(1)} . {EX(1)} {EX('q')} ?z }}",
}
SCHEMA = "time long, op string, subject string, predicate string, object string"
NAMES = ["time", "op", "subject", "predicate", "object"]
ARROW = pa.schema([pa.field(n, pa.int64() if n == "time" else pa.string()) for n in NAMES])
WIDTH, SLIDE = 10, 5

Answers = dict[tuple[Any, ...], int]


class Shown(NamedTuple):
    """The answers of a query after a batch, and the time of its epoch."""

    time: int | None
    answers: dict[str, Answers]


def draw_batches(
    seed: int, batches: int, rows: int = 12, *, is_late: bool = True
) -> list[list[Event]]:
    """Events with increasing times, a third of them deletions, some without a target."""
    random = Random(seed)
    now = 0
    found = []
    for _ in range(batches):
        events = []
        now += not is_late  # events at the time of the previous batch are late, too
        for _ in range(random.randrange(rows)):
            now += random.choice([0, 0, 1, 2])
            triple = EX(random.randrange(3)), EX(random.choice("pq")), EX(random.randrange(3))
            late = random.randrange(3) if is_late else 0
            events.append(Event(now - late, random.choice("++-"), triple))
        found.append(events)
    return found


def make_table(events: list[Event]) -> pa.Table:
    rows = [dict(zip(NAMES, (e.time, e.sign, *e.triple), strict=True)) for e in events]
    return pa.Table.from_pylist(rows, ARROW)


def write_batch(folder: Path, number: int, events: list[Event]) -> None:
    """A file that Spark reads after those with smaller numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{number}"
    pq.write_table(make_table(events), beside)
    os.utime(beside, (1_000_000 + number, 1_000_000 + number))
    beside.rename(folder / f"{number:05}.parquet")


def write_all(folder: Path, batches: list[list[Event]]) -> Path:
    for number, events in enumerate(batches):
        write_batch(folder, number, events)
    return folder


def read_stream(session: Any, folder: Path) -> Any:
    """The files as a stream, one per batch."""
    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.option("maxFileAge", "36500d").parquet(str(folder))


def expect(batches: list[list[Event]], mode: str, is_windowed: bool) -> list[Shown]:
    """The oracle's answers after each batch."""
    return list(_slide(batches, mode) if is_windowed else _count(batches, mode))


def make_window(is_windowed: bool) -> Window | None:
    return Window(WIDTH, SLIDE) if is_windowed else None


def _count(batches: list[list[Event]], mode: str) -> Iterator[Shown]:
    live: Counter[Any] = Counter()
    for events in batches:
        for event in events:
            if event.sign == "+":
                live[event.triple] += 1
            elif live[event.triple] > 0:
                live[event.triple] -= 1
        yield Shown(None, _answer(+live, mode))


def _slide(batches: list[list[Event]], mode: str) -> Iterator[Shown]:
    windows = WindowOracle([Shape(WIDTH, SLIDE)])
    shown = Shown(None, _answer(Counter(), mode))
    for events in batches:
        windows.push(events)
        if any(batches):
            for moment in windows.advance(None):
                shown = Shown(moment.time, _answer(moment.held[0], mode))
        yield shown


def expect_rows(batches: list[list[Event]], mode: str) -> dict[str, list[tuple[Any, ...]]]:
    """What `read_sink` must find for each query with windows, by the oracle."""
    windows = WindowOracle([Shape(WIDTH, SLIDE)])
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in QUERIES}
    before = _answer(Counter(), mode)
    for batch, events in enumerate(batches):
        windows.push(events)
        for moment in windows.advance(None):
            after = _answer(moment.held[0], mode)
            for name, rows in found.items():
                change = Counter(after[name])
                change.subtract(before[name])
                rows += [
                    (f"{batch:020}.parquet", str(moment.time), *terms, str(count))
                    for terms, count in change.items()
                    if count
                ]
            before = after
    return {name: sorted(rows) for name, rows in found.items()}


def _answer(live: Counter[Any], mode: str) -> dict[str, Answers]:
    return {
        name: oracle.answers(oracle.read_query(text), live, mode) for name, text in QUERIES.items()
    }


def look(queries: Any) -> Shown:
    """The current answers of an engine."""
    found, time = {}, None
    for name, query in queries.items():
        with query.snapshot() as snapshot:
            time = snapshot.time
            found[name] = {tuple(answer): answer.multiplicity for answer in snapshot}
    return Shown(time, found)


def sum_changes(folder: Path, front: int = 2, until: int = 1 << 30) -> Answers:
    """The sum of the changes in a sink's files up to a batch, without epoch and time."""
    total: Counter[Any] = Counter()
    for path in sorted(folder.glob("*.parquet")):
        if path.stem.isdecimal() and int(path.stem) > until:
            continue
        for row in pq.read_table(path).to_pylist():
            *terms, change = row.values()
            total[tuple(terms[front:])] += change
    return {terms: count for terms, count in total.items() if count}


def read_sink(folder: Path) -> list[tuple[Any, ...]]:
    """Every row of a sink with its file, sorted."""
    return sorted(
        (path.name, *map(str, row.values()))
        for path in folder.glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    )
