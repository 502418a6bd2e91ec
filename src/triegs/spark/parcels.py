"""What executors make of rows: parcels of events that are checked and encoded, and bad rows apart.

A parcel is one row of the DataFrame that the driver collects: an Arrow stream in a cell, in which
texts are dictionaries. So the driver gets each text once for some hundred thousand events, and
Spark moves a few bytes arrays instead of columns of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from triegs.dictionary.arrays import Words
from triegs.dictionary.columns import is_text
from triegs.dictionary.term_texts import write_terms
from triegs.errors import InputError
from triegs.inputs.context import (
    COLUMNS,
    TERMS,
    Clock,
    Options,
    ReadContext,
    TermReading,
    choose_columns,
)
from triegs.inputs.event_columns import Origin, describe_row, shape_events
from triegs.inputs.report import InputReport, Quarantine
from triegs.reasons import Reason
from triegs.spark.cells import make_empty, read_instants
from triegs.spark.mapped import MappedColumns

#: Rows of a parcel, about. Fewer make more dictionaries, more take more memory on an executor.
PARCEL_ROWS = 1 << 18
#: The columns of the DataFrame of parcels, as Spark and as Arrow write it.
SPARK_SCHEMA = "events long, bad long, payload binary"
EVENTS, BAD, PAYLOAD = "events", "bad", "payload"
SCHEMA = pa.schema([(EVENTS, pa.int64()), (BAD, pa.int64()), (PAYLOAD, pa.binary())])
#: A bad row: why, and the row as JSON.
BAD_SCHEMA = pa.schema([("reason", pa.string()), ("record", pa.string())])
NO_SCOPE = ""
#: Where a task finds the number of its batch.
BATCH = "streaming.sql.batchId"


def check_columns(names: Iterable[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """By our names, those of a DataFrame's columns; `InputError` for what is not there.

    >>> check_columns(["s", "p", "o", "time"], {"subject": "s", "predicate": "p", "object": "o"})
    {'time': 'time', 'subject': 's', 'predicate': 'p', 'object': 'o'}
    """
    given = dict(columns or {})
    if unknown := [name for name in given if name not in COLUMNS]:
        known = ", ".join(COLUMNS)
        raise InputError(f"columns maps {unknown[0]!r}, which is none of {known}")
    theirs = {ours: given.get(ours, ours) for ours in COLUMNS}
    found = choose_columns(list(names), "the DataFrame", theirs, {*TERMS, *given})
    return {ours: theirs[ours] for ours in found}


class Checked(NamedTuple):
    """A table of events, or of bad rows."""

    table: pa.Table
    is_bad: bool


class Aside(Quarantine):
    """Keeps bad rows in memory, up to the end of a parcel."""

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


def make_packer(
    columns: Mapping[str, str], *, is_timed: bool, place: str = ""
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `DataFrame.mapInArrow`: rows with these columns, to parcels. Cost: as `make_checker`."""
    check = make_checker(columns, is_timed=is_timed, place=place)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found, is_bad in check(batches):
            rows = found.num_rows
            yield _make_row(0 if is_bad else rows, rows if is_bad else 0, found)

    return pack


def make_checker(
    columns: Mapping[str, str], *, is_timed: bool, has_zones: bool = False, place: str = ""
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[Checked]]:
    """Rows with these columns, to events and to bad rows: a term is an integer of 64 bits, or a
    text of a dictionary in its one spelling. Zones of timestamps are those of Spark's session and
    mean nothing, unless the rows are not of Spark (`has_zones`). ``place`` names the batch, for
    nodes of rows that have no id. Cost: the rows, checked and encoded column by column.
    """

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[Checked]:
        report = InputReport()
        aside = Aside(report)
        options = Options({}, frozenset(), TermReading.NTRIPLES, {}, PARCEL_ROWS, None)
        if isinstance(columns, MappedColumns):
            options = columns.complete(options)
        work = ReadContext(options, Clock(0), aside, report)
        waiting: list[pa.RecordBatch] = []
        rows = 0
        is_mapped = work.options.mapping is not None
        scope, number = find_scope(place) if is_mapped else place, 1
        for batch in batches:
            given = {ours: batch.column(theirs) for ours, theirs in columns.items()}
            if not has_zones:
                given = {ours: read_instants(column) for ours, column in given.items()}
            origin = partial(number_rows, scope, number, batch.num_rows)
            waiting.append(_shape(given, batch.num_rows, columns, work, origin, is_timed=is_timed))
            rows += batch.num_rows
            number += batch.num_rows
            if rows >= PARCEL_ROWS:
                yield from _seal(waiting, aside.take())
                waiting, rows = [], 0
        yield from _seal(waiting, aside.take())

    return check


def check_kinds(schema: Any, columns: Mapping[str, str]) -> None:
    """Raise `InputError` if a column of a DataFrame with this schema has no terms, times, signs or
    ids, by its type: what a batch of it would say.
    """
    empty = make_empty(schema, columns)
    try:
        for _ in make_checker(columns, is_timed="time" in columns)(iter([empty])):
            pass
    except InputError as problem:
        kinds = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
        raise InputError(f"{problem}; the columns are {kinds}") from None


def find_scope(place: str) -> str:
    """What tells the rows of a task from all others: its batch, and its number among the tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return place
    batch = place or f"batch {context.getLocalProperty(BATCH)}"
    return f"{batch} task {context.partitionId()}"


def number_rows(scope: str, first: int, rows: int) -> tuple[str, Words]:
    """Where rows come from, and their numbers there."""
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
        for place, name in enumerate(events.schema.names):
            column = events.column(name)
            if name in TERMS or is_text(column.type):  # ids may be texts, too
                events = events.set_column(place, name, write_terms(_join(column)))
        yield Checked(events, False)
    if bad:
        yield Checked(pa.Table.from_pylist(bad, BAD_SCHEMA), True)


def _join(column: Any) -> Any:
    """The chunks of a column as one array."""
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):  # 32 bits are too few for the places of its texts
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


def open_parcels(collected: pa.Table) -> tuple[list[pa.Table], list[pa.Table]]:
    """The tables of events and those of bad rows, in the order of the rows.

    >>> batch = pa.RecordBatch.from_pydict({"s": ["<a:b>", None], "p": [1, 1], "o": [2, 2]})
    >>> pack = make_packer({"subject": "s", "predicate": "p", "object": "o"}, is_timed=False)
    >>> events, bad = open_parcels(pa.Table.from_batches(pack(iter([batch]))))
    >>> [table.to_pylist() for table in events + bad]  # doctest: +NORMALIZE_WHITESPACE
    [[{'op': 1, 'subject': '<a:b>', 'predicate': 1, 'object': 2}],
     [{'reason': 'no subject', 'record': '{"s": null, "p": 1, "o": 2}'}]]
    """
    events: list[pa.Table] = []
    bad: list[pa.Table] = []
    for chunk in collected.to_batches():
        counts = chunk.column(EVENTS).to_pylist()
        payloads: Any = chunk.column(PAYLOAD)
        for place, count in enumerate(counts):
            table = pa.ipc.open_stream(payloads[place].as_buffer()).read_all()
            (events if count else bad).append(table)
    return events, bad
