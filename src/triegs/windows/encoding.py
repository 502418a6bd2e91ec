"""Timed events to events by ids, from tuples or from columns of an Arrow table.

Terms are encoded here, once. Malformed rows are refused one by one, with the reason.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import InvalidUpdate, WindowError
from triegs.events import times as reading
from triegs.events.context import TERMS
from triegs.events.event_columns import show_cell
from triegs.events.mapping.rows import SAME_ROW
from triegs.events.updates import OP, check_many, encode_columns, encode_tuples, take_columns
from triegs.jit.words import Words
from triegs.maintain.kernels.judging import NO_TIME
from triegs.maintain.kernels.judging import SAME_ROW as SAME_ID
from triegs.maintain.standing import Refused
from triegs.reasons import Reason, Why, shorten
from triegs.terms.columns import is_text
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import literal

TIME, ID = "time", "id"
NO_ID = -1
_FORM = "an event is (time, subject, predicate, object[, op[, id]]), not "


class Events(NamedTuple):
    """Events by ids; `kept` are the indexes of the kept rows in what was given, None for all.

    All triples of a table row have the index of the row.
    """

    times: Words
    rows: Words
    ids: Words
    given: int
    kept: Words | None
    refused: list[Refused]


def read_time(value: object) -> int:
    """A time in milliseconds since 1970, or `NO_TIME`.

    >>> read_time("1970-01-01T00:00:01Z"), read_time(-5), read_time("5")
    (1000, -5, 5)
    """
    if type(value) is int and reading.EARLIEST <= value <= reading.LATEST:
        return value
    time, state = reading.read_time(value)
    return time if state == reading.GOOD else NO_TIME


def read_watermark(value: object) -> int | None:
    """The time of a watermark, None if none is given; `WindowError` for anything else."""
    time = None if value is None else read_time(value)
    if time == NO_TIME:
        raise WindowError(f"a watermark must be a time, not {value!r}")
    return time


def encode_events(words: Dictionary, identities: Dictionary, events: Any) -> Events:
    """Events of a table (anything with ``__arrow_c_stream__``), or of tuples.

    >>> found = encode_events(Dictionary(), Dictionary(), [(5, 1, "<a:p>", 2), ("soon", 1, 2, 3)])
    >>> found.times.tolist(), found.rows.tolist(), found.refused[0].row
    ([5], [[1, 0, 1, 2]], 1)
    """
    if not hasattr(events, "__arrow_c_stream__"):
        check_many(events, "events", "triegs.events.open_input reads a file; push its batches")
        return _encode_tuples(words, identities, events)
    table = events if isinstance(events, pa.Table) else pa.table(events)
    found = _encode_table(words, identities, table)
    return _group_rows(found, table) if SAME_ROW in table.schema.names else found


def _group_rows(found: Events, table: pa.Table) -> Events:
    """Group the triples of table rows: a problem of a triple is one of its row, indexes are those
    of rows, and all but the first triple of a row are marked in place of an id.
    """
    same = np.asarray(table.column(SAME_ROW).to_numpy(), np.bool_)
    numbers = np.cumsum(~same) - 1
    rows = np.arange(len(same)) if found.kept is None else found.kept
    reasons: dict[int, Why] = {}
    for row, reason in found.refused:
        reasons.setdefault(int(numbers[row]), reason)
    kept = ~np.isin(numbers[rows], list(reasons)) if reasons else np.ones(len(rows), np.bool_)
    ids = np.where(same[rows], SAME_ID, found.ids)
    refused = [Refused(number, reason) for number, reason in sorted(reasons.items())]
    given = int(numbers[-1]) + 1 if len(numbers) else 0
    return Events(
        found.times[kept], found.rows[kept], ids[kept], given, numbers[rows[kept]], refused
    )


def _encode_tuples(
    words: Dictionary, identities: Dictionary, events: Iterable[Sequence[Any]]
) -> Events:
    given = list(events)
    plain = _encode_plain(words, given)
    if plain is not None:
        return plain
    reasons: dict[int, Why] = {}
    good: list[int] = []
    for row, event in enumerate(given):
        if type(event) not in (tuple, list) or not 4 <= len(event) <= 6:
            reasons[row] = Reason.BAD_ROW.describe(_FORM + shorten(event))
        else:
            good.append(row)
    times, states = reading.read_time_values([given[row][0] for row in good])
    ids = np.full(len(good), NO_ID, np.int64)
    for at, row in enumerate(good):
        event = given[row]
        if states[at] != reading.GOOD:
            reasons[row] = reading.explain_time(event[0], int(states[at]))
        elif len(event) > 5 and event[5] is not None:
            try:
                ids[at] = identities.encode_one(name_identity(event[5]))
            except (TypeError, ValueError) as problem:
                reasons[row] = Reason.BAD_ID.describe(str(problem))
    if reasons:
        kept = [at for at, row in enumerate(good) if row not in reasons]
        good, times, ids = [good[at] for at in kept], times[kept], ids[kept]
    chosen = [given[row] for row in good]
    batch = encode_tuples(words, [(e[4] if len(e) > 4 else "+", *e[1:4]) for e in chosen])
    reasons.update((good[at], reason) for at, reason in batch.refused)
    refused = [Refused(row, reason) for row, reason in sorted(reasons.items())]
    rows = np.array(good, np.int64)
    if batch.kept is not None:
        times, ids, rows = times[batch.kept], ids[batch.kept], rows[batch.kept]
    return Events(times, batch.rows, ids, len(given), rows if refused else None, refused)


def _encode_plain(words: Dictionary, given: list[Sequence[Any]]) -> Events | None:
    """Good insertions without ids and with integers as times; None if some are not."""
    encode = words.encode_one
    times: list[int] = []
    numbers: list[int] = []
    try:
        for event in given:
            kind = type(event)
            time, subject, predicate, obj = event
            if (kind is not tuple and kind is not list) or type(time) is not int:
                return None
            times.append(time)
            numbers += (1, encode(subject), encode(predicate), encode(obj))
    except (TypeError, ValueError):
        return None  # the other way says what is wrong
    if times and not (min(times) >= reading.EARLIEST and max(times) <= reading.LATEST):
        return None
    count = len(times)
    # `array` converts a list of integers much faster than NumPy.
    rows = np.array(array("q", numbers), np.int64).reshape(-1, 4)
    ids = np.full(count, NO_ID, np.int64)
    return Events(np.array(array("q", times), np.int64), rows, ids, count, None, [])


def name_identity(value: object) -> object:
    """An event id as a term of its own dictionary: a string is a plain literal."""
    return literal(value) if isinstance(value, str) else value


def _encode_table(words: Dictionary, identities: Dictionary, table: pa.Table) -> Events:
    columns, reasons = take_columns(table, (TIME, OP, *TERMS, ID), (TIME, *TERMS))
    try:
        times, states = reading.read_times(columns[TIME])
    except TypeError as problem:
        raise InvalidUpdate(f"{problem}; nothing changed") from None
    for row in np.flatnonzero(states).tolist():
        shown = show_cell(columns[TIME][row])
        reasons.setdefault(row, reading.explain_time(shown, int(states[row])))
    ids = np.full(table.num_rows, NO_ID, np.int64)
    if ID in columns:
        for row, why in identities.encode_into(_name_identities(columns[ID]), ids):
            if columns[ID][row].is_valid:
                reasons.setdefault(row, Reason.BAD_ID.describe(why))
    batch = encode_columns(words, columns, table.num_rows, reasons)
    if batch.kept is not None:
        times, ids = times[batch.kept], ids[batch.kept]
    return Events(times, batch.rows, ids, table.num_rows, batch.kept, batch.refused)


def _name_identities(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of event ids as terms: integers as they are, strings as plain literals."""
    if pa.types.is_integer(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        return _name_identities(column.cast(column.type.value_type))
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        message = f"{ID}: a column of {column.type} cannot hold ids; use strings or integers"
        raise InvalidUpdate(f"{message}; nothing changed")
    texts = column.cast(pa.large_string())
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        texts = pc.replace_substring(texts, sign, written)
    quote = pa.scalar('"', pa.large_string())
    empty = pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(quote, texts, quote, empty)
