"""Timed events as they are given, to events by ids: tuples, or columns of an Arrow table.

Terms are encoded here, once. What is malformed is refused row by row, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.dictionary import Dictionary
from triegs.errors import InvalidUpdate
from triegs.events import encode_table, encode_tuples
from triegs.maintain.standing import Refused
from triegs.mapping.rows import SAME_ROW
from triegs.sparql.window import LARGEST_TIME
from triegs.terms import literal
from triegs.windows.judging import NO_TIME, Words
from triegs.windows.judging import SAME_ROW as SAME_ID

TIME, ID = "time", "id"
NO_ID = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BAD_TIME = "a time is an integer of milliseconds, a date and time, or its ISO 8601 text, not "
_FORM = "an event is (time, subject, predicate, object[, op[, id]]), not "


class Events(NamedTuple):
    """Events by ids; `places` are those of the kept rows in what was given, None for all.

    Rows of a table with several triples have a place each, which all their triples share.
    """

    times: Words
    rows: Words
    ids: Words
    given: int
    places: Words | None
    refused: list[Refused]


def read_time(value: object) -> int:
    """A time in milliseconds since 1970, or `NO_TIME`.

    >>> read_time("1970-01-01T00:00:01Z"), read_time(-5), read_time(date(1970, 1, 2))
    (1000, -5, 86400000)
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return NO_TIME
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        past = aware - _EPOCH
        return (past.days * 86_400 + past.seconds) * 1_000 + past.microseconds // 1_000
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH.toordinal()) * 86_400_000
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return NO_TIME
    return int(value) if abs(int(value)) <= LARGEST_TIME else NO_TIME


def encode_events(words: Dictionary, identities: Dictionary, events: Any) -> Events:
    """Events of a table (anything with ``__arrow_c_stream__``), or of tuples.

    >>> found = encode_events(Dictionary(), Dictionary(), [(5, 1, "<a:p>", 2), ("soon", 1, 2, 3)])
    >>> found.times.tolist(), found.rows.tolist(), found.refused[0].place
    ([5], [[1, 0, 1, 2]], 1)
    """
    if not hasattr(events, "__arrow_c_stream__"):
        return _encode_tuples(words, identities, events)
    table = events if isinstance(events, pa.Table) else pa.table(events)
    found = _encode_table(words, identities, table)
    return _group_rows(found, table) if SAME_ROW in table.schema.names else found


def _group_rows(found: Events, table: pa.Table) -> Events:
    """Triples of rows of a table: what is wrong with one is wrong with its row, numbers are those
    of rows, and the further triples of a row are marked in place of an id.
    """
    same = np.asarray(table.column(SAME_ROW).to_numpy(), np.bool_)
    numbers = np.cumsum(~same) - 1
    places = np.arange(len(same)) if found.places is None else found.places
    reasons: dict[int, str] = {}
    for place, reason in found.refused:
        reasons.setdefault(int(numbers[place]), reason)
    kept = ~np.isin(numbers[places], list(reasons)) if reasons else np.ones(len(places), np.bool_)
    ids = np.where(same[places], SAME_ID, found.ids)
    refused = [Refused(number, reason) for number, reason in sorted(reasons.items())]
    given = int(numbers[-1]) + 1 if len(numbers) else 0
    return Events(
        found.times[kept], found.rows[kept], ids[kept], given, numbers[places[kept]], refused
    )


def _encode_tuples(
    words: Dictionary, identities: Dictionary, events: Iterable[Sequence[Any]]
) -> Events:
    times: list[int] = []
    ids: list[int] = []
    updates: list[Any] = []
    reasons: dict[int, str] = {}
    for place, event in enumerate(events):
        time, identity, update = NO_TIME, NO_ID, None
        if type(event) not in (tuple, list) or not 4 <= len(event) <= 6:
            reasons[place] = _FORM + _shorten(event)
        else:
            time = read_time(event[0])
            op = event[4] if len(event) > 4 else None
            given = event[5] if len(event) > 5 else None
            update = ("+" if op is None else op, *event[1:4])
            if time == NO_TIME:
                reasons[place] = BAD_TIME + _shorten(event[0])
            elif given is not None:
                try:
                    identity = identities.encode_one(name_identity(given))
                except (TypeError, ValueError) as problem:
                    reasons[place] = f"id: {problem}"
        times.append(time)
        ids.append(identity)
        updates.append(update if place not in reasons else None)
    good = [place for place, update in enumerate(updates) if update is not None]
    batch = encode_tuples(words, [updates[place] for place in good])
    for at, reason in batch.refused:
        reasons[good[at]] = reason.replace("an update is (sign, subject", "an event is (time, s")
    kept = np.array(good if batch.places is None else [good[i] for i in batch.places], np.int64)
    refused = [Refused(place, reason) for place, reason in sorted(reasons.items())]
    return Events(
        np.array(times, np.int64)[kept], batch.rows, np.array(ids, np.int64)[kept],
        len(times), kept if refused else None, refused,
    )  # fmt: skip


def name_identity(value: object) -> object:
    """An identity as a term of its own dictionary: a text is a plain literal."""
    return literal(value) if isinstance(value, str) else value


def _encode_table(words: Dictionary, identities: Dictionary, table: pa.Table) -> Events:
    times, has_gaps = _read_times(_column(table, TIME), table.num_rows)
    batch = encode_table(words, table)
    reasons = dict(batch.refused)
    if has_gaps:
        for place in np.flatnonzero(times == NO_TIME).tolist():
            shown = _shorten(table.column(TIME)[place].as_py())
            reasons.setdefault(place, BAD_TIME + shown)
    ids = np.full(table.num_rows, NO_ID, np.int64)
    if table.schema.get_field_index(ID) >= 0 or ID in table.schema.names:
        column = _column(table, ID)
        try:
            problems = identities.encode_into(_name_identities(column), ids)
        except TypeError as problem:
            raise InvalidUpdate(f"{ID}: {problem}; nothing changed") from None
        is_null = column.is_null().to_numpy() if column.null_count else None
        for place, reason in problems:
            if is_null is None or not is_null[place]:
                reasons.setdefault(place, f"{ID}: {reason}")
    if not reasons:
        return Events(times, batch.rows, ids, table.num_rows, None, [])
    refused = [Refused(place, reason) for place, reason in sorted(reasons.items())]
    is_kept = np.ones(table.num_rows, np.bool_)
    is_kept[list(reasons)] = False
    kept = np.flatnonzero(is_kept)
    rows = batch.rows
    if batch.places is not None:  # rows without those that the terms refused
        rows = rows[is_kept[batch.places]]
    else:
        rows = rows[kept]
    return Events(times[kept], rows, ids[kept], table.num_rows, kept, refused)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if table.schema.get_field_index(name) < 0:
        number = "more than one" if name in table.schema.names else "no"
        raise InvalidUpdate(f"the table has {number} column {name}; nothing changed")
    return table.column(name)


def _read_times(column: pa.ChunkedArray, count: int) -> tuple[Words, bool]:
    """Milliseconds, `NO_TIME` for what is none, and whether there may be such."""
    kind = column.type
    if pa.types.is_integer(kind):
        whole = column.cast(pa.int64(), safe=False) if kind != pa.int64() else column
        filled = whole.fill_null(NO_TIME) if whole.null_count else whole
        times: Words = filled.to_numpy().astype(np.int64)
        if kind == pa.uint64():
            times[times < 0] = NO_TIME
        is_good = count == 0 or (times.max() <= LARGEST_TIME and times.min() >= -LARGEST_TIME)
        if not is_good:
            times[(times > LARGEST_TIME) | (times < -LARGEST_TIME)] = NO_TIME
        return times, not is_good
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = getattr(kind, "tz", None)
        floored = column
        if pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"):
            floored = pc.floor_temporal(column, unit="millisecond")
        exact = floored.cast(pa.timestamp("ms", zone)).cast(pa.int64())
        return _read_times(exact, count)
    if pa.types.is_null(kind):
        return np.full(count, NO_TIME), True
    if pa.types.is_dictionary(kind) or _is_text(kind):
        return np.array([read_time(value) for value in column.to_pylist()], np.int64), True
    raise InvalidUpdate(f"{TIME} is of integers or timestamps, not of {kind}; nothing changed")


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in texts)


def _name_identities(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Identities as terms: integers as they are, texts as plain literals, a column at a time."""
    if pa.types.is_integer(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        return _name_identities(column.cast(column.type.value_type))
    if not (_is_text(column.type) or pa.types.is_null(column.type)):
        message = f"{ID} is of strings or integers, not of {column.type}"
        raise InvalidUpdate(f"{message}; nothing changed")
    texts = column.cast(pa.large_string())
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        texts = pc.replace_substring(texts, sign, written)
    quote = pa.scalar('"', pa.large_string())
    empty = pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(quote, texts, quote, empty)


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
