"""Arrow and NumPy columns, brought into the few forms that the kernels read.

Those are texts (bytes and offsets), integers of 64 bits, and for every other type a list of
distinct values, to be written as terms in Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.dictionary.arrays import Bytes, Words
from triegs.dictionary.values import pad_year, trim_seconds, write_single, write_zone
from triegs.terms import XSD, literal, scope_prefix

Places: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

DATE_TIME = XSD + "dateTime"
NO_NULLS: Bytes = np.empty(0, np.uint8)
NO_NULLS.flags.writeable = False


class TextBuffers(NamedTuple):
    """Rows of UTF-8 text: row ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Bytes
    offsets: Words
    valid: Bytes


def to_arrow(column: Any) -> list[Any]:
    """The column as Arrow arrays; TypeError if it is no column of terms.

    >>> [part.type for part in to_arrow(np.array([1, 2], np.int16))]
    [DataType(int16)]
    """
    if isinstance(column, pa.ChunkedArray):
        return list(column.chunks)
    if isinstance(column, pa.Array):
        return [column]
    if hasattr(column, "__arrow_c_stream__"):
        return list(pa.chunked_array(column).chunks)
    return [pa.array(column)]


def buffer_texts(column: Any) -> TextBuffers:
    """The buffers of a string or large-string array, without copying the text."""
    _, offsets, data = column.buffers()
    word = np.dtype(np.int64 if pa.types.is_large_string(column.type) else np.int32)
    if offsets is None or len(column) == 0:
        return TextBuffers(NO_NULLS, np.zeros(1, np.int64), NO_NULLS)
    places = np.frombuffer(offsets, word, len(column) + 1, column.offset * word.itemsize)
    text = np.frombuffer(data, np.uint8) if data is not None else NO_NULLS
    text.flags.writeable = False  # one type for every buffer, so each kernel is compiled once
    return TextBuffers(text, places.astype(np.int64), mark_valid(column))


def mark_valid(column: Any) -> Bytes:
    """One byte per row, 0 for null; empty if there is no null."""
    if column.null_count == 0:
        return NO_NULLS
    valid: Bytes = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    valid.flags.writeable = False
    return valid


def read_integers(column: Any) -> tuple[Words, NDArray[np.bool_]]:
    """The values in 64 bits, and which rows do not fit (of uint64 only); nulls are 0."""
    filled = column.fill_null(0) if column.null_count else column
    values = filled.to_numpy(zero_copy_only=False)
    large = values > np.uint64(2**63 - 1) if values.dtype == np.uint64 else np.zeros(0, np.bool_)
    words = values.astype(np.int64, copy=False)
    words.flags.writeable = False  # as Arrow's own buffers are
    return words, large


def read_places(column: Any) -> Places:
    """The indices of a dictionary array without nulls, in 32 bits if they are so, else in 64."""
    places: Places = column.indices.to_numpy()
    if places.dtype != np.int32:
        places = places.astype(np.int64, copy=False)
        places.flags.writeable = False  # as Arrow's own buffers are
    return places


def scope_texts(column: Any, scope: str) -> Any:
    """The column with its blank nodes named apart, as `triegs.terms.scope_label` does."""
    if not scope:
        return column
    return pc.replace_substring_regex(
        column, pattern=r"^_:([^\s.\-])", replacement=scope_prefix(scope) + r"\1"
    )


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def require_values(kind: Any) -> None:
    """Raise `TypeError` for an Arrow type whose values are no terms.

    >>> require_values(pa.binary())
    Traceback (most recent call last):
    TypeError: a column of binary has no terms; give strings in N-Triples form, integers, ...
    """
    known = (
        pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_time(kind)
        or pa.types.is_null(kind)
    )
    if not known:
        raise TypeError(
            f"a column of {kind} has no terms; give strings in N-Triples form, integers, floats, "
            "booleans, decimals, dates, times or timestamps"
        )


def write_column(column: Any) -> list[object]:
    """The values of an array without text of its own, as Python values or finished terms.

    Meant for distinct values: a Python step for each. Raises as `require_values` does.
    """
    kind = column.type
    require_values(kind)
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return _write_singles(column)
    if pa.types.is_timestamp(kind):
        return _write_timestamps(column)
    if pa.types.is_date(kind):
        return _write_dates(column)
    if pa.types.is_time(kind):
        return _write_times(column)
    values: list[object] = column.to_pylist()
    return values


def _write_singles(column: Any) -> list[object]:
    values = column.cast(pa.float32()).to_numpy(zero_copy_only=False)
    terms: list[object] = [literal(write_single(value), XSD + "float") for value in values]
    return _blank_out(terms, column)


def _blank_out(terms: list[object], column: Any) -> list[object]:
    valid = column.is_valid().to_pylist()
    return [term if good else None for term, good in zip(terms, valid, strict=True)]


def _write_dates(column: Any) -> list[object]:
    """By NumPy, because Python's date ends with the year 9999."""
    days = column.cast(pa.date32(), safe=False).cast(pa.int32())
    texts = np.datetime_as_string(days.fill_null(0).to_numpy().astype("datetime64[D]"))
    terms: list[object] = [literal(pad_year(str(text)), XSD + "date") for text in texts]
    return _blank_out(terms, column)


def _write_times(column: Any) -> list[object]:
    """By NumPy, because Python's time ends with the microsecond."""
    clock = column.cast(pa.time64("ns")).cast(pa.int64()).fill_null(0).to_numpy()
    texts = np.datetime_as_string(clock.astype("datetime64[ns]"))
    terms: list[object] = [
        literal(trim_seconds(str(text).partition("T")[2]), XSD + "time") for text in texts
    ]
    return _blank_out(terms, column)


def _write_timestamps(column: Any) -> list[object]:
    """Nanoseconds, which Python's datetime lacks, are kept; a zone is applied as Arrow has it."""
    zone = column.type.tz
    clock = pc.local_timestamp(column) if zone else column
    instants = column.cast(pa.timestamp(column.type.unit))
    shifts = pc.subtract(clock, instants).cast(pa.duration("s"), safe=False).cast(pa.int64())
    texts = np.datetime_as_string(clock.to_numpy(zero_copy_only=False))
    at_utc = np.datetime_as_string(instants.to_numpy(zero_copy_only=False))
    terms: list[object] = []
    for row, shift in enumerate(shifts.to_pylist()):
        if shift is None:
            terms.append(None)
            continue
        # Zones before standard time are off by seconds, which xsd:dateTime cannot say.
        is_zone = shift % 60 == 0
        text = trim_seconds(pad_year(str(texts[row] if is_zone else at_utc[row])))
        terms.append(literal(text + (write_zone(shift * is_zone) if zone else ""), DATE_TIME))
    return terms
