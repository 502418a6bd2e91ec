"""Times of events: milliseconds since 1970, ISO 8601 texts, timestamps and dates.

The single reader of times for files, tables, tuples and DataFrames. A time without a zone is UTC.
Times are rounded down to milliseconds. Times before the year 1 or after 9999 are out of range: most
likely they are in microseconds or nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.jit.jit import inlined, kernel
from triegs.reasons import Reason, Why, shorten
from triegs.terms.arrays import Bytes, Word, Words
from triegs.terms.columns import buffer_texts

EARLIEST = -62_135_596_800_000  # 0001-01-01T00:00:00Z
LATEST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
# States of a time; `REASONS` describes them.
GOOD, MALFORMED, OUT_OF_RANGE, MISSING = 0, 1, 2, 3
REASONS = (
    "",
    "neither a number of milliseconds nor an ISO 8601 time",
    "outside the years 1 to 9999; times are milliseconds since 1970",
    "no time",
)
_DAY = 86_400_000
_INT64 = pa.int64().id
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def explain_time(value: object, state: int) -> Why:
    """Why a value is not a time.

    >>> explain_time("soon", MALFORMED), explain_time(None, MISSING)
    ("bad time: 'soon' is neither a number of milliseconds nor an ISO 8601 time", 'no time')
    """
    if state == MISSING:
        return Reason.NO_TIME.describe()
    return Reason.BAD_TIME.describe(f"{shorten(value)} is {REASONS[state]}")


def read_time(value: object) -> tuple[int, int]:
    """Milliseconds of one value, and its state.

    >>> read_time("1970-01-01T00:00:01Z"), read_time("5"), read_time(date(1970, 1, 2))
    ((1000, 0), (5, 0), (86400000, 0))
    """
    times, states = read_time_values([value])
    return int(times[0]), int(states[0])


def read_time_values(values: Sequence[object]) -> tuple[Words, Bytes]:
    """Like `read_times`, for Python values; texts are read together."""
    times, states = np.zeros(len(values), np.int64), np.zeros(len(values), np.uint8)
    texts: list[int] = []
    for row, value in enumerate(values):
        if type(value) is int and EARLIEST <= value <= LATEST:
            times[row] = value
        elif isinstance(value, str):
            texts.append(row)
        else:
            times[row], states[row] = _read_object(value)
    if texts:
        # Escaped: times are ASCII, and Arrow rejects lone surrogates.
        given = [ascii(values[row])[1:-1] for row in texts]
        times[texts], states[texts] = read_times(pa.array(given, pa.string()))
    return times, states


def _read_object(value: Any) -> tuple[int, int]:
    if value is None or value != value:  # NaT, NaN
        return 0, MISSING
    if isinstance(value, np.datetime64):
        found = int(value.astype("datetime64[ms]").astype(np.int64))
    elif isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        past = aware - _EPOCH
        found = (past.days * 86_400 + past.seconds) * 1_000 + past.microseconds // 1_000
    elif isinstance(value, date):
        found = (value.toordinal() - _EPOCH.toordinal()) * _DAY
    elif isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        found = int(value)
    else:
        return 0, MALFORMED
    return (found, GOOD) if EARLIEST <= found <= LATEST else (0, OUT_OF_RANGE)


def read_times(column: Any) -> tuple[Words, Bytes]:
    """Milliseconds of a column, and the state of each row (an index of `REASONS`). Linear.

    `TypeError` for an unsupported column type.

    >>> read_times(pa.array(["5", "1969-12-31T23:59:59.9995Z", "2024-05-01 10:00+02:00", "soon"]))
    (array([            5,            -1, 1714550400000,             0]), array([0, 0, 0, 1], ...))
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [read_times(part) for part in column.chunks or [pa.array([], column.type)]]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    kind = column.type
    if kind.id == _INT64 and column.null_count == 0:
        return _check_range(column, column.to_numpy())
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        column = column.cast(pa.large_string())
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        times = np.empty(len(column), np.int64)
        states = np.empty(len(column), np.uint8)
        read_texts(*buffer_texts(column), times, states)
        return times, states
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), np.full(len(column), MISSING, np.uint8)
    return _check_range(column, _to_milliseconds(column))


def _to_milliseconds(column: Any) -> Any:
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
        kind = column.type
    if pa.types.is_timestamp(kind):
        # Counted from 1970 UTC, whatever the zone; floor division rounds down.
        found = column.cast(pa.int64()).fill_null(0).to_numpy().astype(np.int64)
        if kind.unit == "s":
            return np.clip(found, EARLIEST // 1000 - 1, LATEST // 1000 + 1) * 1000
        return found // {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    if pa.types.is_integer(kind):
        values = (column.fill_null(0) if column.null_count else column).to_numpy()
        if values.dtype == np.uint64:
            values = np.minimum(values, np.uint64(LATEST + 1))
        return values.astype(np.int64, copy=False)
    raise TypeError(
        f"time: a {kind} column cannot hold times; give integers (milliseconds since 1970), "
        "ISO 8601 strings, timestamps or dates"
    )


def _check_range(column: Any, times: Words) -> tuple[Words, Bytes]:
    states = np.full(len(times), GOOD, np.uint8)
    if len(times) and (times.min() < EARLIEST or times.max() > LATEST):
        states[(times < EARLIEST) | (times > LATEST)] = OUT_OF_RANGE
    if column.null_count:
        missing: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
        states[missing] = MISSING
    return times, states


@inlined
def read_digits(data: Bytes, at: Word, count: Word) -> Word:
    """The number written in ``count`` digits; -1 if one is not a digit."""
    value: Word = 0
    for index in range(at, at + count):
        digit = np.int64(data[index]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@inlined
def count_days(year: Word, month: Word, day: Word) -> Word:
    """Days from 1970-01-01 in the Gregorian calendar, for years from 1. Counts from March."""
    if month <= 2:
        year -= 1
        month += 12
    return (
        365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
    )


@kernel
def read_number(data: Bytes, at: Word, end: Word) -> tuple[Word, Word]:
    """Milliseconds written as an integer, and its state."""
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    if at >= end:
        return 0, MALFORMED
    value: Word = np.int64(0)
    while at < end:
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            return 0, MALFORMED
        value = min(value * 10 + digit, LATEST + 1)  # saturates far below 64 bits
        at += 1
    value = -value if negative else value
    return value, OUT_OF_RANGE if value > LATEST or value < EARLIEST else GOOD


@kernel
def read_iso(data: Bytes, at: Word, end: Word) -> tuple[Word, Word]:
    """Milliseconds of ``2024-05-01``, ``2024-05-01T10:00:00.5+02:00`` etc., and the state."""
    size = end - at
    if size < 10 or data[at + 4] != 45 or data[at + 7] != 45:
        return 0, MALFORMED
    year, month, day = (
        read_digits(data, at, 4), read_digits(data, at + 5, 2), read_digits(data, at + 8, 2),
    )  # fmt: skip
    if year < 0 or month < 1 or month > 12 or day < 1:
        return 0, MALFORMED
    if year == 0:
        return 0, OUT_OF_RANGE
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS[month] + (month == 2 and is_leap):
        return 0, MALFORMED
    time = count_days(year, month, day) * _DAY
    if size == 10:
        return time, GOOD
    if size < 16 or data[at + 10] not in (84, 116, 32) or data[at + 13] != 58:
        return 0, MALFORMED
    hour, minute, second = read_digits(data, at + 11, 2), read_digits(data, at + 14, 2), 0
    at += 16
    fraction: Word = 0
    if at < end and data[at] == 58:
        if at + 3 > end:
            return 0, MALFORMED
        second = read_digits(data, at + 1, 2)
        at += 3
        if at < end and (data[at] == 46 or data[at] == 44):
            at += 1
            if at >= end or not 48 <= data[at] <= 57:
                return 0, MALFORMED
            unit = 100
            while at < end and 48 <= data[at] <= 57:
                fraction += (np.int64(data[at]) - 48) * unit
                unit //= 10
                at += 1
    if hour < 0 or minute < 0 or minute > 59 or second < 0 or second > 59 or hour > 24:
        return 0, MALFORMED
    if hour == 24 and minute + second + fraction > 0:
        return 0, MALFORMED
    time += ((hour * 60 + minute) * 60 + second) * 1000 + fraction
    if at < end and (data[at] == 90 or data[at] == 122):
        at += 1
    elif at < end and (data[at] == 43 or data[at] == 45):
        # +02:00, +0200 or +02
        size = end - at
        if size not in (3, 5, 6) or (size == 6 and data[at + 3] != 58):
            return 0, MALFORMED
        hour = read_digits(data, at + 1, 2)
        minute = read_digits(data, end - 2, 2) if size > 3 else 0
        if hour < 0 or minute < 0 or hour > 14 or minute > 59:
            return 0, MALFORMED
        zone = (hour * 60 + minute) * 60_000
        time += zone if data[at] == 45 else -zone
        at = end
    if at != end:
        return 0, MALFORMED
    return time, OUT_OF_RANGE if time > LATEST or time < EARLIEST else GOOD


@kernel
def read_texts(data: Bytes, offsets: Words, valid: Bytes, times: Words, states: Bytes) -> None:
    """Read texts in the buffers of `triegs.terms.columns`; empty means missing."""
    for row in range(len(times)):
        start, end = offsets[row], offsets[row + 1]
        times[row] = 0
        if start == end or (len(valid) > 0 and valid[row] == 0):
            states[row] = MISSING
            continue
        time, state = read_number(data, start, end)
        if state == MALFORMED:
            time, state = read_iso(data, start, end)
        times[row] = time if state == GOOD else 0
        states[row] = state
