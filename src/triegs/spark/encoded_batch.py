"""Encoded batches: on executors, rows become checked, encoded events, and malformed rows apart.

An encoded batch is one row of the DataFrame that the driver collects: an Arrow stream in a cell,
with strings as dictionaries. So the driver receives each string once for some hundred thousand
events, and Spark moves a few byte arrays instead of columns of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from triegs.errors import InputError
from triegs.events.context import (
    COLUMNS,
    TERMS,
    Clock,
    Options,
    ReadContext,
    TermReading,
    choose_columns,
)
from triegs.events.event_columns import Origin, describe_row, shape_events
from triegs.events.report import InputReport, Quarantine
from triegs.reasons import Reason
from triegs.spark.cells import make_empty, read_instants
from triegs.spark.mapped import MappedColumns
from triegs.spark.tasks import BATCH_ID
from triegs.terms.arrays import Words
from triegs.terms.columns import is_text
from triegs.terms.term_texts import write_terms

#: About the rows of an encoded batch. Fewer make more dictionaries; more take more memory on an
#: executor.
BATCH_ROWS = 1 << 18
#: The columns of the DataFrame of encoded batches, for Spark and for Arrow.
SPARK_SCHEMA = "events long, bad long, payload binary"
EVENTS, BAD, PAYLOAD = "events", "bad", "payload"
SCHEMA = pa.schema([(EVENTS, pa.int64()), (BAD, pa.int64()), (PAYLOAD, pa.binary())])
#: A malformed row: the reason, and the row as JSON.
BAD_SCHEMA = pa.schema([("reason", pa.string()), ("record", pa.string())])
NO_SCOPE = ""


def check_columns(names: Iterable[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """The DataFrame's columns by our names; `InputError` for a missing one.

    >>> check_columns(["s", "p", "o", "time"], {"subject": "s", "predicate": "p", "object": "o"})
    {'time': 'time', 'subject': 's', 'predicate': 'p', 'object': 'o'}
    """
    given = dict(columns or {})
    if unknown := [name for name in given if name not in COLUMNS]:
        known = ", ".join(COLUMNS)
        raise InputError(f"columns maps {unknown[0]!r}, which is not one of {known}")
    theirs = {ours: given.get(ours, ours) for ours in COLUMNS}
    found = choose_columns(list(names), "the DataFrame", theirs, {*TERMS, *given})
    return {ours: theirs[ours] for ours in found}


class EncodedBatch(NamedTuple):
    """A table that a task sends to a partition, as an Arrow stream. ``number`` counts what the task
    has sent.
    """

    task: int
    number: int
    kind: str
    payload: bytes

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.payload).read_all()


class Checked(NamedTuple):
    """A table of events, or of malformed rows."""

    table: pa.Table
    is_bad: bool


class QuarantineBuffer(Quarantine):
    """Keeps malformed rows in memory until the end of an encoded batch."""

    def __init__(self, report: InputReport) -> None:
        super().__init__(report, None, strict=False, append=False)
        self.rows: list[dict[str, str]] = []

    def add(self, file: str, line: int, reason: Reason, detail: str, record: str | bytes) -> None:
        super().add(file, line, reason, detail, record)
        text = record if isinstance(record, str) else record.decode("utf-8", "backslashreplace")
        self.rows.append({"reason": str(reason.describe(detail)), "record": text})

    def take(self) -> list[dict[str, str]]:
        rows, self.rows = self.rows, []
        return rows


def make_encoder(
    columns: Mapping[str, str], *, is_timed: bool, batch_name: str = ""
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `DataFrame.mapInArrow`: from rows with these columns to encoded batches. Cost: as
    `make_checker`.
    """
    check = make_checker(columns, is_timed=is_timed, batch_name=batch_name)

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found, is_bad in check(batches):
            rows = found.num_rows
            yield _make_row(0 if is_bad else rows, rows if is_bad else 0, found)

    return encode


def make_checker(
    columns: Mapping[str, str], *, is_timed: bool, has_zones: bool = False, batch_name: str = ""
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Checked]]:
    """From rows with these columns to events and malformed rows. Terms become 64-bit integers, or
    dictionaries of strings in canonical form. Timestamps carry the zone of Spark's session, which
    is ignored unless the rows come from elsewhere (`has_zones`). `batch_name` identifies the batch
    in the blank nodes of rows without an id. Cost: the rows, checked and encoded by column.
    """

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[Checked]:
        report = InputReport()
        quarantine = QuarantineBuffer(report)
        options = Options({}, frozenset(), TermReading.NTRIPLES, {}, BATCH_ROWS, None)
        if isinstance(columns, MappedColumns):
            options = columns.complete(options)
        work = ReadContext(options, Clock(0), quarantine, report)
        waiting: list[pa.RecordBatch] = []
        rows = 0
        is_mapped = work.options.mapping is not None
        scope, number = find_scope(batch_name) if is_mapped else batch_name, 1
        for batch in batches:
            given = {ours: batch.column(theirs) for ours, theirs in columns.items()}
            if not has_zones:
                given = {ours: read_instants(column) for ours, column in given.items()}
            origin = partial(number_rows, scope, number, batch.num_rows)
            waiting.append(_shape(given, batch.num_rows, columns, work, origin, is_timed=is_timed))
            rows += batch.num_rows
            number += batch.num_rows
            if rows >= BATCH_ROWS:
                yield from _seal(waiting, quarantine.take())
                waiting, rows = [], 0
        yield from _seal(waiting, quarantine.take())

    return check


def check_kinds(schema: Any, columns: Mapping[str, str]) -> None:
    """Raise the `InputError` that a batch would raise if the type of a column cannot hold terms,
    times, signs or ids.
    """
    empty = make_empty(schema, columns)
    try:
        for _ in make_checker(columns, is_timed="time" in columns)(iter([empty])):
            pass
    except InputError as problem:
        kinds = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
        raise InputError(f"{problem}; the columns are {kinds}") from None


def find_scope(batch_name: str) -> str:
    """What distinguishes the rows of a task from all others: its batch and its task number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return batch_name
    batch = batch_name or f"batch {context.getLocalProperty(BATCH_ID)}"
    return f"{batch} task {context.partitionId()}"


def number_rows(scope: str, first: int, rows: int) -> tuple[str, Words]:
    """The scope of rows, and their numbers in it."""
    return scope, np.arange(first, first + rows)


def _shape(
    given: Mapping[str, Any], rows: int, columns: Mapping[str, str], work: ReadContext,
    origin: Origin, *, is_timed: bool,
) -> pa.RecordBatch:  # fmt: skip
    def locate(row: int) -> tuple[int, str]:
        return row + 1, describe_row({theirs: given[ours] for ours, theirs in columns.items()}, row)

    found = shape_events(given, rows, work, "the DataFrame", NO_SCOPE, locate, origin=origin)
    return found if is_timed else found.drop_columns(["time"])


def _seal(waiting: list[pa.RecordBatch], bad: list[dict[str, str]]) -> Iterator[Checked]:
    if sum(batch.num_rows for batch in waiting):
        events = pa.Table.from_batches(waiting).combine_chunks()
        for index, name in enumerate(events.schema.names):
            column = events.column(name)
            if name in TERMS or is_text(column.type):  # ids may be strings
                events = events.set_column(index, name, write_terms(_join(column)))
        yield Checked(events, False)
    if bad:
        yield Checked(pa.Table.from_pylist(bad, BAD_SCHEMA), True)


def _join(column: Any) -> Any:
    """The chunks of a column as one array."""
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):  # 32-bit offsets do not suffice
        found = found.cast(pa.large_string()).combine_chunks()
    return found


def _make_row(events: int, bad: int, table: pa.Table) -> pa.RecordBatch:
    row = {EVENTS: events, BAD: bad, PAYLOAD: write_stream(table)}
    return pa.RecordBatch.from_pylist([row], SCHEMA)


def write_stream(table: pa.Table) -> bytes:
    """A table as an Arrow stream, for a cell."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decode_batches(collected: pa.Table) -> tuple[list[pa.Table], list[pa.Table]]:
    """The tables of events and of malformed rows, in row order.

    >>> batch = pa.RecordBatch.from_pydict({"s": ["<a:b>", None], "p": [1, 1], "o": [2, 2]})
    >>> encode = make_encoder({"subject": "s", "predicate": "p", "object": "o"}, is_timed=False)
    >>> events, bad = decode_batches(pa.Table.from_batches(encode(iter([batch]))))
    >>> [table.to_pylist() for table in events + bad]  # doctest: +NORMALIZE_WHITESPACE
    [[{'op': 1, 'subject': '<a:b>', 'predicate': 1, 'object': 2}],
     [{'reason': 'no subject', 'record': '{"s": null, "p": 1, "o": 2}'}]]
    """
    events: list[pa.Table] = []
    bad: list[pa.Table] = []
    for chunk in collected.to_batches():
        counts = chunk.column(EVENTS).to_pylist()
        payloads: Any = chunk.column(PAYLOAD)
        for row, count in enumerate(counts):
            table = pa.ipc.open_stream(payloads[row].as_buffer()).read_all()
            (events if count else bad).append(table)
    return events, bad
