"""A part of a distributed pipeline: its engine, and what a batch makes of it. Knows no Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from triegs.compiler.layout import Layout
from triegs.engine import Engine
from triegs.errors import MultiplicityOverflow
from triegs.mode import Mode
from triegs.read.snapshot import Snapshot
from triegs.spark.answers import label, write_answers, write_texts
from triegs.spark.distributed.job import Job
from triegs.spark.distributed.keeping import Keeping, Piece, Store
from triegs.spark.distributed.routing import (
    BAD,
    CONTROL,
    EVENTS,
    FIRST,
    FIRST_OF_EVENT,
    LABELS,
    TimeSpan,
    find_place,
)
from triegs.spark.distributed.seeding import load_seed
from triegs.spark.distributed.seeing import count_keys
from triegs.spark.parcels import BAD_SCHEMA, write_stream
from triegs.windows.settings import Late

CHANGES, ANSWERS, REPORT = "changes", "answers", "report"
TIME = "time"
#: Noted in the engine: deletions that wait, by number, with their times.
COUNTED_HERE = "counted here"
NEVER = (1 << 62) - 1  # the largest size that there is
#: Rows of a cell at most: Spark has a whole one in memory, several times.
OUT_ROWS = 1 << 16
#: What a part counts of a batch: events by their first delivery, what it was sent by the first one
#: of each route, all that it was sent, and what became of events.
COUNTED = ("rows", "sent", "delivered", "refused", "late", "ahead", "quarantined")


class Parcel(NamedTuple):
    """What a task sent to a part."""

    task: int
    number: int
    kind: str
    payload: bytes

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.payload).read_all()


class Out(NamedTuple):
    """What a part gives for a batch: changes of a query or its answers before them, malformed rows,
    or its report.
    """

    kind: str
    query: str
    payload: bytes


class Part:
    """The engine of one part, in a directory of its own that ends with it."""

    def __init__(self, job: Job, number: int, pieces: Iterable[Piece] = ()) -> None:
        """As the store has it; new if it has nothing. Cost: the state."""
        self.job = job
        self.number = number
        begun = perf_counter()
        within = job.folder or os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
        if within is not None:
            Path(within).mkdir(parents=True, exist_ok=True)
        self.directory = Path(mkdtemp(prefix="triegs-part-", dir=within))
        self._keeping = Keeping(self.directory)
        is_new = not self._keeping.restore(pieces)
        self.engine = Engine.open(
            self.directory, Mode(job.mode), sync="never", checkpoint_bytes=NEVER, window=job.window,
            event_time=job.make_event_time(),
        )  # fmt: skip
        if is_new:
            for source in job.list_sources(number):
                self.engine._register(source)
            if job.seeds is not None:
                mark = None if job.newest is None else job.newest - job.event_time.lateness
                load_seed(self.engine, Path(job.seeds), number, job.stream, mark)
        self.build_seconds = perf_counter() - begun

    def take(
        self, parcels: Iterable[Parcel], newest: int | None, asked: Iterable[str] = ()
    ) -> tuple[list[Out], int | None]:
        """Take a batch: what it gives, and the newest time of all parts behind it. Of the queries
        that are asked for it gives the answers from before the batch, too.
        """
        found = sorted(parcels)
        told: dict[str, Any] = {"part": self.number, **dict.fromkeys(COUNTED, 0)}
        outs = [Out(BAD, "", each.payload) for each in found if each.kind == BAD]
        for name in asked:
            if name in self.engine.queries:
                with self._open(name) as snapshot:
                    outs += cut(ANSWERS, name, write_answers(snapshot).remove_column(0))
        for each in found:
            if each.kind == BAD:
                told["quarantined"] += each.read().num_rows
            if each.kind == LABELS:
                counts = told.setdefault("labels", {})
                for row in each.read().to_pylist():
                    counts[row["label"]] = counts.get(row["label"], 0) + row["events"]
        tables = [each.read() for each in found if each.kind == EVENTS]
        table = pa.concat_tables(tables) if tables else None
        if table is not None:
            told["keys"] = list(count_keys(table, self.job.layout))
        if self.job.is_timed:
            spans = [
                TimeSpan(**row)
                for each in found
                if each.kind == CONTROL
                for row in each.read().to_pylist()
            ]
            gap = self.job.event_time.max_ahead
            lowest, newest = find_place(spans, newest, gap)
            changes = self._slide(table, lowest, newest, told, outs)
        else:
            changes = self._apply(table, told)
        for name, each in changes.items():
            outs += cut(CHANGES, name, each)
        self.told = told
        return outs, newest

    def _apply(self, table: pa.Table | None, told: dict[str, Any]) -> dict[str, pa.Table]:
        if table is None:
            return {}
        is_first = self._count(table, told)
        events = table.drop_columns([name for name in (FIRST, TIME) if name in table.schema.names])
        before = self._look()
        try:
            report = self.engine.apply(events)
            self._measure(told)
            told["refused"] += int(sum(is_first[place] for place, _ in report.refused))
            after = self._look()
            try:
                return {name: subtract(after[name], before[name]) for name in after}
            finally:
                close_all(after)
        finally:
            close_all(before)

    def _slide(
        self, table: pa.Table | None, lowest: int | None, newest: int | None,
        told: dict[str, Any], outs: list[Out],
    ) -> dict[str, pa.Table]:  # fmt: skip
        if newest is None:
            return {}
        if table is not None:
            outs += self._push(table, lowest, newest, told)
        counted = self.engine.positions.get(COUNTED_HERE, {})
        found: dict[str, list[pa.Table]] = {}
        has_slid = False
        before = self._look()
        try:
            for slide in self.engine.each_slide(to=newest - self.job.event_time.lateness):
                told["refused"] += sum(str(place) in counted for place, _ in slide.refused)
                after = self._look()
                for name in after:
                    found.setdefault(name, []).append(subtract(after[name], before[name]))
                close_all(before)
                before = after
                has_slid = True
        finally:
            close_all(before)
        if has_slid:
            self._measure(told)
        return {name: pa.concat_tables(tables) for name, tables in found.items()}

    def _push(
        self, table: pa.Table, lowest: int | None, newest: int, told: dict[str, Any]
    ) -> list[Out]:
        """Let events wait for their slides; returns those that are set aside. Deletions may be
        refused then, by several parts: those that are counted here are noted with the events.
        """
        is_first = self._count(table, told)
        times = table.column(TIME).to_numpy()
        mark = self.engine._windows.watermark
        is_late = np.zeros(len(times), np.bool_) if mark is None else times <= mark
        is_ahead = times > newest if lowest is None else (times > newest) | (times < lowest)
        aside = []
        for name, is_such in (("late", is_late), ("ahead", is_ahead)):
            rows = np.flatnonzero(is_such & is_first)
            told[name] = len(rows)
            is_wanted = name == "ahead" or self.job.event_time.late is Late.QUARANTINE
            if len(rows) and is_wanted:
                told["quarantined"] += len(rows)
                bad = describe_events(table.take(pa.array(rows)), name, self.job.layout)
                aside.append(Out(BAD, "", write_stream(bad)))
        if is_ahead.any():
            table = table.filter(pa.array(~is_ahead))
            times, is_first = times[~is_ahead], is_first[~is_ahead]
        waiting = self.engine.positions.get(COUNTED_HERE, {})
        counted = {n: time for n, time in waiting.items() if mark is None or time > mark}
        places = np.flatnonzero((table.column("op").to_numpy() < 0) & is_first)
        arrivals = self.engine._windows._find_stream(self.job.stream).arrivals
        counted |= {str(arrivals + place): int(times[place]) for place in places.tolist()}
        if counted or waiting:
            self.engine.note({COUNTED_HERE: counted})
        self.engine.push(table.drop_columns([FIRST]), self.job.stream)
        return aside

    @staticmethod
    def _count(table: pa.Table, told: dict[str, Any]) -> Any:
        firsts = table.column(FIRST).to_numpy()
        is_first = firsts == FIRST_OF_EVENT
        told["rows"] = int(np.count_nonzero(is_first))
        told["sent"] = int(np.count_nonzero(firsts))
        told["delivered"] = table.num_rows
        return is_first

    def _look(self) -> dict[str, Snapshot]:
        return {name: self._open(name) for name in self.engine.queries if name in self.job.wanted}

    def _open(self, name: str) -> Snapshot:
        """What a query shows now. One that is stalled has no answer: the last good epoch of this
        part may be another than that of others.
        """
        query = self.engine.queries[name]
        if query.error is not None:
            raise MultiplicityOverflow(f"{name}: {query.error}", query.error.view)
        return query.snapshot()

    def _measure(self, told: dict[str, Any]) -> None:
        """Tell what each query took in the last epoch."""
        told["costs"] = {name: query._measure() for name, query in self.engine.queries.items()}

    def save(self, store: Store) -> int:
        """Keep in a store what has changed; returns the bytes written."""
        return self._keeping.save(self.engine, store)

    @property
    def bytes(self) -> int:
        """What the store has of it."""
        return self._keeping.bytes

    def read(self, query: str) -> Iterator[pa.RecordBatch]:
        """The answers of a query, with their multiplicities; none of one that is kept elsewhere."""
        if query not in self.engine.queries:
            return
        with self._open(query) as snapshot:
            yield from write_texts(snapshot.to_arrow()).to_batches()

    def count(self, query: str) -> int:
        """The total multiplicity of the answers."""
        if query not in self.engine.queries:
            return 0
        with self._open(query) as snapshot:
            return snapshot.count()

    def close(self) -> None:
        try:
            self.engine.close()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def describe_events(table: pa.Table, reason: str, layout: Layout) -> pa.Table:
    """Events that a part was sent, as rows of the quarantine: each as it came, in JSON."""
    labels = {route.tag: route.label for route in layout.routes}
    rows = table.drop_columns([FIRST]).to_pylist()
    records = [
        json.dumps({**row, "predicate": labels[row["predicate"]]}, ensure_ascii=False)
        for row in rows
    ]
    return pa.table({"reason": [reason] * len(rows), "record": records}, BAD_SCHEMA)


def cut(kind: str, query: str, table: pa.Table) -> Iterator[Out]:
    for first in range(0, table.num_rows, OUT_ROWS):
        yield Out(kind, query, write_stream(table.slice(first, OUT_ROWS)))


def close_all(snapshots: dict[str, Snapshot]) -> None:
    for snapshot in snapshots.values():
        snapshot.close()


def subtract(new: Snapshot, old: Snapshot) -> pa.Table:
    """The signed changes, with the time in front; epochs are a part's own."""
    return label(new.diff(old).to_arrow(), new).remove_column(0)
