"""A partition: its engine, and what a batch does to it. Independent of Spark."""

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

from triegs.errors import MultiplicityOverflow, StateError
from triegs.mode import Mode
from triegs.partition.layout import Layout
from triegs.read.partials import diff_partials, is_partial, read_partials
from triegs.read.snapshot import Snapshot
from triegs.reason.text import parse_rules
from triegs.spark.answers import label, write_answers, write_texts
from triegs.spark.encoded_batch import BAD_SCHEMA, EncodedBatch, write_stream
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.owned import make_engine
from triegs.spark.partitioned.routing import (
    BAD,
    CONTROL,
    EVENTS,
    FIRST,
    FIRST_OF_EVENT,
    LABELS,
    TimeSpan,
    find_bounds,
)
from triegs.spark.partitioned.seeds import load_seed
from triegs.spark.partitioned.state_sync import Chunk, StateSync, Store
from triegs.spark.partitioned.statistics import count_keys
from triegs.windows.settings import Late

CHANGES, ANSWERS, REPORT = "changes", "answers", "report"
TIME = "time"
#: An engine position: deletions still waiting for their slide that this partition counts, by
#: number, with their times.
COUNTED_HERE = "counted here"
NEVER = (1 << 62) - 1  # the largest size allowed
#: The most rows of a cell: Spark holds a whole cell in memory, several times.
OUTPUT_ROWS = 1 << 16
#: Counters of a batch: events by their first delivery, the first delivery on each route, all
#: deliveries, and what became of the events.
COUNTED = ("rows", "sent", "delivered", "refused", "late", "ahead", "quarantined")


class Output(NamedTuple):
    """What a partition outputs for a batch: changes of a query or its answers before them,
    malformed rows, or its report.
    """

    kind: str
    query: str
    payload: bytes


class Partition:
    """The engine of one partition, in a temporary directory of its own."""

    def __init__(self, job: Job, number: int, chunks: Iterable[Chunk] = ()) -> None:
        """Restore the state in `chunks`, or start new without any. Cost: the state."""
        self.job = job
        self.number = number
        begun = perf_counter()
        within = job.folder or os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
        if within is not None:
            Path(within).mkdir(parents=True, exist_ok=True)
        self.directory = Path(mkdtemp(prefix="triegs-partition-", dir=within))
        self._sync = StateSync(self.directory)
        is_new = not self._sync.restore(chunks)
        options: dict[str, Any] = {"rules": parse_rules(job.rules)} if job.rules else {}
        self.engine = make_engine(job, number).open(
            self.directory, Mode(job.mode), sync="never", checkpoint_bytes=NEVER, window=job.window,
            event_time=job.make_event_time(), **options,
        )  # fmt: skip
        if is_new:
            for source in job.list_sources(number):
                self.engine._register(source)
            if job.seeds is not None:
                mark = None if job.newest is None else job.newest - job.event_time.lateness
                load_seed(self.engine, Path(job.seeds), number, job.stream, mark)
        else:
            self._require_same()
        self.build_seconds = perf_counter() - begun

    def _require_same(self) -> None:
        """The state is that of the queries of the job."""
        wanted = self.job.list_sources(self.number)
        stored = [query._source for query in self.engine.queries.values()]
        given = {(each.name, each.text, each.window) for each in wanted}
        if given != {(each.name, each.text, each.window) for each in stored}:
            self.close()
            raise StateError(
                "the checkpoint was made with different queries; pass the original queries, or "
                "start with a new checkpoint"
            )

    def take(
        self, batches: Iterable[EncodedBatch], newest: int | None, initial: Iterable[str] = ()
    ) -> tuple[list[Output], int | None]:
        """Apply a batch; returns the output, and the newest time of all partitions after it. For
        the queries in `initial`, the output includes the answers before the batch.
        """
        found = sorted(batches)
        report: dict[str, Any] = {"partition": self.number, **dict.fromkeys(COUNTED, 0)}
        outputs = [Output(BAD, "", each.payload) for each in found if each.kind == BAD]
        for name in initial:
            if name in self.engine.queries:
                with self._open(name) as snapshot:
                    outputs += split_output(ANSWERS, name, list_answers(snapshot))
        for each in found:
            if each.kind == BAD:
                report["quarantined"] += each.read().num_rows
            if each.kind == LABELS:
                counts = report.setdefault("labels", {})
                for row in each.read().to_pylist():
                    counts[row["label"]] = counts.get(row["label"], 0) + row["events"]
        tables = [each.read() for each in found if each.kind == EVENTS]
        table = pa.concat_tables(tables) if tables else None
        if table is not None and not self.job.rules:
            report["keys"] = list(count_keys(table, self.job.layout))
        if self.job.is_timed:
            spans = [
                TimeSpan(**row)
                for each in found
                if each.kind == CONTROL
                for row in each.read().to_pylist()
            ]
            gap = self.job.event_time.max_ahead
            lowest, newest = find_bounds(spans, newest, gap)
            changes = self._advance(table, lowest, newest, report, outputs)
        else:
            changes = self._apply(table, report)
        for name, each in changes.items():
            outputs += split_output(CHANGES, name, each)
        self.report = report
        return outputs, newest

    def _apply(self, table: pa.Table | None, report: dict[str, Any]) -> dict[str, pa.Table]:
        if table is None:
            return {}
        is_first = self._count(table, report)
        events = table.drop_columns([name for name in (FIRST, TIME) if name in table.schema.names])
        before = self._open_wanted()
        try:
            applied = self.engine.apply(events)
            self._measure(report)
            report["refused"] += int(sum(is_first[row] for row, _ in applied.refused))
            after = self._open_wanted()
            try:
                return {name: subtract(after[name], before[name]) for name in after}
            finally:
                close_all(after)
        finally:
            close_all(before)

    def _advance(
        self, table: pa.Table | None, lowest: int | None, newest: int | None,
        report: dict[str, Any], outputs: list[Output],
    ) -> dict[str, pa.Table]:  # fmt: skip
        if newest is None:
            return {}
        if table is not None:
            outputs += self._push(table, lowest, newest, report)
        counted = self.engine.positions.get(COUNTED_HERE, {})
        found: dict[str, list[pa.Table]] = {}
        has_advanced = False
        before = self._open_wanted()
        try:
            for slide in self.engine.each_slide(to=newest - self.job.event_time.lateness):
                report["refused"] += sum(str(number) in counted for number, _ in slide.refused)
                after = self._open_wanted()
                for name in after:
                    found.setdefault(name, []).append(subtract(after[name], before[name]))
                close_all(before)
                before = after
                has_advanced = True
        finally:
            close_all(before)
        if has_advanced:
            self._measure(report)
        return {name: pa.concat_tables(tables) for name, tables in found.items()}

    def _push(
        self, table: pa.Table, lowest: int | None, newest: int, report: dict[str, Any]
    ) -> list[Output]:
        """Queue events for their slides; returns those that are quarantined. Several partitions may
        later refuse the same deletion, so those that this one counts are recorded with the events.
        """
        is_first = self._count(table, report)
        times = table.column(TIME).to_numpy()
        mark = self.engine._windows.watermark
        is_late = np.zeros(len(times), np.bool_) if mark is None else times <= mark
        is_ahead = times > newest if lowest is None else (times > newest) | (times < lowest)
        quarantined = []
        for name, is_such in (("late", is_late), ("ahead", is_ahead)):
            rows = np.flatnonzero(is_such & is_first)
            report[name] = len(rows)
            is_wanted = name == "ahead" or self.job.event_time.late is Late.QUARANTINE
            if len(rows) and is_wanted:
                report["quarantined"] += len(rows)
                bad = describe_events(table.take(pa.array(rows)), name, self.job.layout)
                quarantined.append(Output(BAD, "", write_stream(bad)))
        if is_ahead.any():
            table = table.filter(pa.array(~is_ahead))
            times, is_first = times[~is_ahead], is_first[~is_ahead]
        waiting = self.engine.positions.get(COUNTED_HERE, {})
        counted = {n: time for n, time in waiting.items() if mark is None or time > mark}
        rows_counted = np.flatnonzero((table.column("op").to_numpy() < 0) & is_first)
        arrivals = self.engine._windows._find_stream(self.job.stream).arrivals
        counted |= {str(arrivals + row): int(times[row]) for row in rows_counted.tolist()}
        if counted or waiting:
            self.engine.note({COUNTED_HERE: counted})
        self.engine.push(table.drop_columns([FIRST]), self.job.stream)
        return quarantined

    @staticmethod
    def _count(table: pa.Table, report: dict[str, Any]) -> Any:
        firsts = table.column(FIRST).to_numpy()
        is_first = firsts == FIRST_OF_EVENT
        report["rows"] = int(np.count_nonzero(is_first))
        report["sent"] = int(np.count_nonzero(firsts))
        report["delivered"] = table.num_rows
        return is_first

    def _open_wanted(self) -> dict[str, Snapshot]:
        return {name: self._open(name) for name in self.engine.queries if name in self.job.wanted}

    def _open(self, name: str) -> Snapshot:
        """A snapshot of a query. A stalled query has no answer: the last good epoch may differ
        between partitions.
        """
        query = self.engine.queries[name]
        if query.error is not None:
            raise MultiplicityOverflow(f"{name}: {query.error}", query.error.view)
        return query.snapshot()

    def _measure(self, report: dict[str, Any]) -> None:
        """Report the cost of each query in the last epoch."""
        report["costs"] = {name: query._measure() for name, query in self.engine.queries.items()}

    def save(self, store: Store) -> int:
        """Write what has changed to a store; returns the bytes written."""
        return self._sync.save(self.engine, store)

    @property
    def bytes(self) -> int:
        """The size of the stored state."""
        return self._sync.bytes

    def read(self, query: str) -> Iterator[pa.RecordBatch]:
        """The answers of a query with their multiplicities, or its partial groups; none if it is
        placed elsewhere.
        """
        if query not in self.engine.queries:
            return
        with self._open(query) as snapshot:
            table = (
                read_partials(snapshot) if is_partial(snapshot) else snapshot.to_arrow(compact=True)
            )
            yield from write_texts(table).to_batches()

    def count(self, query: str) -> int:
        """The total multiplicity of a query's answers."""
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
    """Events as rows of the quarantine, each as JSON under its original label."""
    labels = {route.tag: route.label for route in layout.routes}  # rules keep their own labels
    rows = table.drop_columns([FIRST]).to_pylist()
    records = [
        json.dumps(
            {**row, "predicate": labels.get(row["predicate"], row["predicate"])}, ensure_ascii=False
        )
        for row in rows
    ]
    return pa.table({"reason": [reason] * len(rows), "record": records}, BAD_SCHEMA)


def split_output(kind: str, query: str, table: pa.Table) -> Iterator[Output]:
    for first in range(0, table.num_rows, OUTPUT_ROWS):
        yield Output(kind, query, write_stream(table.slice(first, OUTPUT_ROWS)))


def close_all(snapshots: dict[str, Snapshot]) -> None:
    for snapshot in snapshots.values():
        snapshot.close()


def list_answers(snapshot: Snapshot) -> pa.Table:
    """All answers as changes, or partial groups, with the time in front, as `subtract`."""
    if is_partial(snapshot):
        return label(read_partials(snapshot), snapshot).remove_column(0)
    return write_answers(snapshot).remove_column(0)


def subtract(new: Snapshot, old: Snapshot) -> pa.Table:
    """The signed changes with the time in front, without epochs: these are local to a partition. Of
    partial groups, the changes of their entries.
    """
    changes = diff_partials(new, old) if is_partial(new) else new.diff(old).to_arrow(compact=True)
    return label(changes, new).remove_column(0)
