"""Turns input columns into event columns; malformed rows are quarantined.

Shared by all columnar formats: CSV, JSON lines, Parquet, Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.errors import InputError
from triegs.events.context import TERMS, ReadContext, TermReading, key_cell
from triegs.events.mapping.rows import SAME_ROW, map_rows, mark_same, name_nodes
from triegs.events.plain_terms import read_plain
from triegs.events.signs import explain_sign, read_signs
from triegs.events.time_units import to_milliseconds
from triegs.events.times import explain_time, read_times
from triegs.jit.jit import kernel
from triegs.reasons import Reason, Why, shorten
from triegs.terms.arrays import Bytes, Words
from triegs.terms.columns import buffer_texts, is_text, require_values, scope_texts
from triegs.terms.spelling import is_canonical
from triegs.terms.term_texts import spell_texts
from triegs.terms.validation import DamagedColumn, clean_column

LABEL, TERM, UNSURE = 2, 1, 0
#: Gives the source of the rows and the number of each row in it.
Origin = Callable[[], tuple[str, Words]]


class Faults:
    """The first problem of each row."""

    def __init__(self) -> None:
        self.reasons: dict[int, Why] = {}

    def add(self, row: int, why: Why) -> None:
        self.reasons.setdefault(row, why)

    def mark_kept(self, rows: int) -> NDArray[np.bool_]:
        kept = np.ones(rows, np.bool_)
        kept[list(self.reasons)] = False
        return kept


def shape_events(
    columns: Mapping[str, Any],
    rows: int,
    context: ReadContext,
    file: str,
    scope: str,
    locate: Callable[[int], tuple[int, str | bytes]],
    faults: Faults | None = None,
    origin: Origin | None = None,
) -> Any:
    """A record batch of the events in these rows.

    ``columns`` are Arrow arrays by event column; ``locate`` gives the line number and text of a row
    for the quarantine. With a mapping in the options, rows are mapped, and ``origin`` identifies
    them. Linear, with a Python step only for malformed or unusual rows. Raises `DamagedColumn`.
    """
    faults = faults or Faults()
    if context.options.mapping is not None:
        return shape_rows(columns, rows, context, file, locate, faults, origin)
    found: dict[str, Any] = {}
    try:
        columns = {name: _clean(name, column, faults) for name, column in columns.items()}
        times = _shape_times(columns, faults, context.options.time_unit)
        found["op"] = _shape_signs(columns.get("op"), rows, faults)
        for name in TERMS:
            found[name] = _shape_terms(columns[name], name, context, scope, faults)
        if "id" in columns:
            found["id"] = _shape_ids(columns["id"])
    except TypeError as problem:
        raise InputError(f"{file}: {problem}", file=file) from None
    kept = None
    if faults.reasons:
        for row, why in sorted(faults.reasons.items()):
            line, record = locate(row)
            context.quarantine.add(file, line, why.kind, why.detail, record)
        kept = faults.mark_kept(rows)
        found = {name: column.filter(pa.array(kept)) for name, column in found.items()}
    if times is None:
        times = context.clock.take(len(found["op"]))
    elif kept is not None:
        times = times[kept]
    return pa.RecordBatch.from_pydict({"time": pa.array(times), **found})


def _clean(name: str, column: Any, faults: Faults) -> Any:
    """The column with invalid UTF-8 nulled; each such row is a fault."""
    try:
        column, is_bad = clean_column(column)
    except DamagedColumn as problem:
        raise DamagedColumn(f"{name}: {problem}") from None
    if is_bad is not None:
        for row in np.flatnonzero(is_bad).tolist():
            faults.add(row, Reason.NOT_UTF8.describe(name))
    return column


def shape_rows(
    columns: Mapping[str, Any],
    rows: int,
    context: ReadContext,
    file: str,
    locate: Callable[[int], tuple[int, str | bytes]],
    faults: Faults,
    origin: Origin | None,
) -> Any:
    """A record batch of the triples that the mapping in the options makes of these rows.

    The triples of a row are adjacent and share its time, sign and id; see
    `triegs.events.mapping.rows`.
    """
    mapping, options = context.options.mapping, context.options
    assert mapping is not None
    try:
        columns = {name: _clean(name, column, faults) for name, column in columns.items()}
        times = _shape_times(columns, faults, options.time_unit)
        signs = _shape_signs(columns.get("op"), rows, faults)
        ids = _shape_ids(columns["id"]) if "id" in columns else None
        nodes = None
        if mapping.has_row_node:
            source, numbers = ("", None) if origin is None else origin()
            nodes = name_nodes(ids, numbers, options.stream, source)
            _require_ids(signs, ids, faults)
        cells = {name: columns[key_cell(name)] for name in mapping.columns}
        kept = faults.mark_kept(rows)
        found, origins, problems = map_rows(mapping, cells, rows, nodes, kept)
    except TypeError as problem:
        raise InputError(f"{file}: {problem}", file=file) from None
    for row, why in problems.items():
        faults.add(row, why)
    for row, why in sorted(faults.reasons.items()):
        line, record = locate(row)
        context.quarantine.add(file, line, why.kind, why.detail, record)
    if times is None:
        times = np.zeros(rows, np.int64)
        is_kept = faults.mark_kept(rows)
        times[is_kept] = context.clock.take(int(np.count_nonzero(is_kept)))
    events = {"time": pa.array(times), "op": signs}
    if ids is not None:
        events["id"] = ids
    if origins is not None:
        events = {name: column.take(pa.array(origins)) for name, column in events.items()}
    ordered = {"time": events["time"], "op": events["op"], **found}
    if ids is not None:
        ordered["id"] = events["id"]
    if len(mapping.templates) > 1:
        ordered[SAME_ROW] = mark_same(np.arange(rows) if origins is None else origins)
    return pa.RecordBatch.from_pydict(ordered)


def _require_ids(signs: Any, ids: Any, faults: Faults) -> None:
    """Deleting a row with its own node requires an id."""
    bare = signs.to_numpy() < 0
    if ids is not None:
        bare &= ids.is_null().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(bare).tolist():
        faults.add(
            row, Reason.NO_ROW_ID.describe("deleting a row whose mapping uses [] requires an id")
        )


def _shape_times(columns: Mapping[str, Any], faults: Faults, unit: str | None) -> Words | None:
    if "time" not in columns:
        return None
    column = columns["time"]
    times, states = read_times(to_milliseconds(column, unit))
    for row in np.flatnonzero(states).tolist():
        faults.add(row, explain_time(show_cell(column[row]), int(states[row])))
    return times


def _shape_signs(column: Any, rows: int, faults: Faults) -> Any:
    """Signs as 1 and -1."""
    changes = np.ones((rows, 1), np.int64)
    if column is not None and read_signs(column, changes):
        for row in np.flatnonzero(changes[:, 0] == 0).tolist():
            faults.add(row, explain_sign(show_cell(column[row])))
    return pa.array(changes[:, 0].astype(np.int8))


def _shape_terms(column: Any, name: str, context: ReadContext, scope: str, faults: Faults) -> Any:
    """Terms for `triegs.events.updates.encode_table`; blank nodes are scoped to the file."""
    for row in _find_nulls(column):
        faults.add(row, Reason(f"no {name}").describe())
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = column.dictionary
        if not is_text(words.type):
            column = column.dictionary_decode()
            kind = column.type
        else:
            shaped, problems = _shape_texts(words, name, context, scope)
            if problems:
                for row in _find_values(column.indices, problems):
                    problem = problems[column.indices[row].as_py()]
                    faults.add(row, Reason.BAD_TERM.describe(f"{name}: {problem}"))
            return pa.DictionaryArray.from_arrays(column.indices, shaped)
    if is_text(kind):
        if context.options.terms is TermReading.PLAIN:
            return _shape_terms(column.dictionary_encode(), name, context, scope, faults)
        shaped, problems = _shape_texts(column, name, context, scope)
        for row, problem in problems.items():
            faults.add(row, Reason.BAD_TERM.describe(f"{name}: {problem}"))
        return shaped
    if not pa.types.is_integer(kind):
        try:
            require_values(kind)
        except TypeError as problem:
            raise TypeError(f"{name}: {problem}") from None
    return column


def _find_nulls(column: Any) -> list[int]:
    if not column.null_count:
        return []
    return np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)).tolist()


def _find_values(indices: Any, wanted: Mapping[int, str]) -> list[int]:
    found = pc.is_in(indices, value_set=pa.array(list(wanted), indices.type))
    return np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist()


def _shape_texts(
    column: Any, name: str, context: ReadContext, scope: str
) -> tuple[Any, dict[int, str]]:
    """The texts as canonical terms, and problems by row. Nulls are not reported."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if context.options.terms is TermReading.INTEGERS:
        return _read_integers(column)
    if context.options.terms is TermReading.PLAIN:
        return read_plain(column, name, context.options.prefixes, scope)
    states = np.empty(len(column), np.uint8)
    data, offsets, _ = buffer_texts(column)
    unsure, labels = judge_texts(data, offsets, states)
    problems: dict[int, str] = {}
    if unsure:
        is_odd = states == UNSURE
        odd = column.filter(pa.array(is_odd))
        spelt, wrong = spell_texts(odd)
        rows = np.flatnonzero(is_odd).tolist()
        problems = {rows[index]: reason for index, reason in wrong.items()}
        labels += pc.any(pc.starts_with(spelt, "_:")).as_py() or False
        if not spelt.equals(odd):
            column = pc.replace_with_mask(column, pa.array(is_odd), spelt)
    return (scope_texts(column, scope) if labels else column), problems


def _read_integers(column: Any) -> tuple[Any, dict[int, str]]:
    try:
        return column.cast(pa.int64()), {}
    except pa.ArrowInvalid:
        problems: dict[int, str] = {}
        values: list[int | None] = []
        for row, text in enumerate(column.to_pylist()):
            try:
                value = None if text is None else int(text)
                if value is not None and not -(1 << 63) <= value < 1 << 63:
                    raise ValueError
            except ValueError:
                value = None
                problems[row] = f"{shorten(text)} is not a 64-bit integer"
            values.append(value)
        return pa.array(values, pa.int64()), problems


def _shape_ids(column: Any) -> Any:
    """Ids as strings or integers."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _shape_ids(column.dictionary_decode())
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if is_text(kind):
        return column.cast(pa.string()) if pa.types.is_string_view(kind) else column
    if pa.types.is_uint64(kind):
        return column  # may exceed signed 64 bits
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    raise TypeError(f"id: a {kind} column cannot hold ids; give strings or integers")


def describe_row(columns: Mapping[str, Any], row: int) -> str:
    r"""A row of a table as JSON for the quarantine; never fails.

    >>> describe_row({"subject": pa.array([b"a\xff"], pa.binary()), "object": pa.array([5])}, 0)
    '{"subject": "a\\\\xff", "object": 5}'
    """
    record = {name: show_cell(column[row]) for name, column in columns.items()}
    return json.dumps(record, default=str, ensure_ascii=False)


def show_cell(cell: Any) -> object:
    """The value of an Arrow scalar for a message; invalid UTF-8 is escaped."""
    try:
        found = cell.as_py()
    except UnicodeDecodeError:
        text = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
        found = text.as_buffer().to_pybytes()
    except (ValueError, OverflowError):  # a time outside Python's range
        found = pc.cast(cell, pa.string()).as_py()
    return found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else found


@kernel
def judge_texts(data: Bytes, offsets: Words, states: Bytes) -> tuple[int, int]:
    """Classify texts; returns how many are not canonical terms, and how many are labels."""
    unsure = 0
    labels = 0
    for row in range(len(states)):
        start, end = offsets[row], offsets[row + 1]
        if is_canonical(data, start, end):
            is_label = data[start] == 95
            states[row] = LABEL if is_label else TERM
            labels += is_label
        else:
            states[row] = UNSURE
            unsure += 1
    return unsure, labels
