"""Table rows as updates or events: with renamed columns, or mapped by templates.

A problem is reported by the index of its row in the table, however many triples the row makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from triegs.errors import InputError, InvalidUpdate
from triegs.events.context import (
    COLUMNS,
    Clock,
    Options,
    ReadContext,
    TermReading,
    find_columns,
    refuse_untimed,
)
from triegs.events.event_columns import shape_events
from triegs.events.mapped import read_mapping
from triegs.events.mapping.rows import find_starts
from triegs.events.report import InputReport, Quarantine
from triegs.events.time_units import check_unit
from triegs.events.updates import Batch
from triegs.jit.words import Words
from triegs.maintain.standing import Refused
from triegs.reasons import Reason, Why
from triegs.terms.validation import DamagedColumn
from triegs.windows.encoding import Events

TABLE = "the table"


class RowReading(NamedTuple):
    """How rows are read: the options of `triegs.events.open_input`."""

    mapping: str | Iterable[str] | None
    columns: Mapping[str, str] | None
    base: str
    prefixes: Mapping[str, str]
    stream: str | None = None
    time_unit: str | None = None

    def make_options(self) -> Options:
        """`InputError` for invalid options."""
        columns = dict(self.columns or {})
        if unknown := [name for name in columns if name not in COLUMNS]:
            raise InputError(f"there is no column {unknown[0]!r}, only {', '.join(COLUMNS)}")
        base = None if self.mapping is None else self.base
        return Options(
            columns={name: columns.get(name, name) for name in COLUMNS},
            given=frozenset(columns),
            terms=TermReading.NTRIPLES,
            prefixes=self.prefixes,
            batch_rows=0,
            graph_time=None,
            mapping=read_mapping(self.mapping, base, self.prefixes, columns),
            stream=self.stream or "",
            time_unit=check_unit(self.time_unit),
        )


class RowQuarantine(Quarantine):
    """Collects the problems of rows by their indexes."""

    def __init__(self) -> None:
        super().__init__(InputReport(), None, strict=False, append=False)
        self.refused: list[Refused] = []

    def add(self, file: str, line: int, reason: Reason, detail: str, record: str | bytes) -> None:  # noqa: ARG002
        self.refused.append(Refused(line, reason.describe(detail)))


class ReadRows(NamedTuple):
    """The triples of the valid rows among ``given`` rows; ``rows`` has their indexes."""

    table: pa.Table
    rows: Words
    given: int
    refused: list[Refused]

    def index_events(self, found: Events) -> Events:
        """Events of the triples, by row of the table that was given."""
        return found._replace(
            given=self.given, kept=self._find_rows(found.kept, len(found.times)),
            refused=sorted([*self.refused, *self._by_row(found.refused)]),
        )  # fmt: skip

    def index_batch(self, found: Batch) -> Batch:
        """The same for updates."""
        kept = self._find_rows(found.kept, len(found.rows))
        return Batch(found.rows, kept, sorted([*self.refused, *self._by_row(found.refused)]))

    def _find_rows(self, kept: Words | None, count: int) -> Words:
        return self.rows[np.arange(count) if kept is None else kept]

    def _by_row(self, refused: Iterable[Refused]) -> list[Refused]:
        return [Refused(int(self.rows[index]), reason) for index, reason in refused]


def read_rows(given: Any, reading: RowReading, source: str, first: int, is_timed: bool) -> ReadRows:
    """The rows of anything with ``__arrow_c_stream__``. Cost: see
    `triegs.events.mapping.rows.map_rows`.

    ``source`` and the number of the ``first`` row name the nodes of rows without ids. `InputError`
    for a table that does not match.
    """
    if not (isinstance(given, pa.Table | pa.RecordBatch) or hasattr(given, "__arrow_c_stream__")):
        raise InputError(
            f"expected a table (Arrow, pandas, Polars, anything with __arrow_c_stream__), "
            f"not a {type(given).__name__}"
        )
    table = pa.table(given)
    options = reading.make_options()
    names = find_columns(table.schema.names, TABLE, options)
    if is_timed and "time" not in names:
        raise refuse_untimed(TABLE, table.schema.names)
    quarantine = RowQuarantine()
    work = ReadContext(options, Clock(0), quarantine, InputReport())
    parts: list[Any] = []
    start = 0
    for batch in table.combine_chunks().to_batches():
        columns = {ours: batch.column(number) for ours, number in names.items()}
        numbers = np.arange(first + start + 1, first + start + 1 + batch.num_rows)

        def locate(row: int, start: int = start) -> tuple[int, str]:
            return start + row, ""

        def number(numbers: Words = numbers) -> tuple[str, Words]:
            return source, numbers

        try:
            found = shape_events(columns, batch.num_rows, work, TABLE, "", locate, origin=number)
        except DamagedColumn as problem:
            raise InputError(f"the table is damaged: {problem}") from None
        parts.append(found)
        start += batch.num_rows
    kept = np.ones(table.num_rows, np.bool_)
    kept[[row for row, _ in quarantine.refused]] = False
    return ReadRows(_join(parts, names), np.flatnonzero(kept), table.num_rows, quarantine.refused)


def _join(parts: list[Any], names: Mapping[str, int]) -> pa.Table:
    if not parts:
        empty = {name: pa.array([], pa.string()) for name in ("subject", "predicate", "object")}
        return pa.table({"time": pa.array([], pa.int64()), "op": pa.array([], pa.int8()), **empty})
    table = pa.Table.from_batches(parts)
    return table if "time" in names else table.drop_columns(["time"])


def judge_rows(
    batch: Batch, table: Any, count: Callable[[int, int, int], int], strict: bool
) -> Batch:
    """Updates that are triples of rows, without the rows that delete what is not there: of these no
    triple is deleted. Updates are reported by their rows.

    With `strict` such a row raises `InvalidUpdate`. ``count`` returns the count of an assertion in
    the graph. Cost: if the batch deletes a row of several triples, a Python step for each triple of
    which it deletes one.
    """
    starts = find_starts(table)
    numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    malformed: dict[int, Why] = {}
    for index, reason in batch.refused:
        malformed.setdefault(int(numbers[index]), reason)
    if batch.kept is not None:
        numbers = numbers[batch.kept]
    kept = ~np.isin(numbers, list(malformed))
    rows, numbers = batch.rows[kept], numbers[kept]
    invalid = _find_invalid(rows, numbers, count)
    if invalid and strict:
        refused = tuple(Refused(number, Reason.NO_EVENT.describe()) for number in invalid)
        message = f"{len(invalid)} updates of a strict epoch were invalid; nothing changed"
        raise InvalidUpdate(message, refused)
    good = ~np.isin(numbers, invalid)
    reasons = malformed | dict.fromkeys(invalid, Reason.NO_EVENT.describe())
    refused_rows = [Refused(number, reason) for number, reason in sorted(reasons.items())]
    return Batch(rows[good], numbers[good], refused_rows)


def _find_invalid(rows: Words, numbers: Words, count: Callable[[int, int, int], int]) -> list[int]:
    """The rows that delete what is not there when they are applied."""
    gone = rows[:, 0] < 0
    if not (gone[1:] & (numbers[1:] == numbers[:-1])).any():
        return []  # rows of one triple are judged like every update
    counts = {key: count(*key) for key in map(tuple, rows[gone, 1:].tolist())}
    invalid: list[int] = []
    bounds = [*np.flatnonzero(np.diff(numbers, prepend=-1)).tolist(), len(rows)]
    for start, end in pairwise(bounds):
        changed: dict[tuple[int, ...], int] = {}
        for change, *terms in rows[start:end].tolist():
            key = tuple(terms)
            if key in counts:
                changed[key] = changed.get(key, counts[key]) + change
        if any(left < 0 for left in changed.values()):
            invalid.append(int(numbers[start]))
        else:
            counts |= changed
    return invalid
