"""Converts Arrow and NumPy columns to the few layouts that the kernels read.

These are texts (bytes and offsets), 64-bit integers, and for all other types a list of distinct
values that Python writes as terms.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.terms.arrays import Bytes, Words
from triegs.terms.term import XSD, literal, scope_prefix
from triegs.terms.values import pad_year, trim_seconds, write_single, write_zone

Indices: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

DATE_TIME = XSD + "dateTime"
NO_NULLS: Bytes = np.empty(0, np.uint8)
NO_NULLS.flags.writeable = False


class TextBuffers(NamedTuple):
    """Rows of UTF-8 text: row ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Bytes
    offsets: Words
    valid: Bytes


def to_arrow(column: Any) -> list[Any]:
    """The column as Arrow arrays.

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
    starts = np.frombuffer(offsets, word, len(column) + 1, column.offset * word.itemsize)
    text = np.frombuffer(data, np.uint8) if data is not None else NO_NULLS
    text.flags.writeable = False  # one type for all buffers, so that each kernel is compiled once
    return TextBuffers(text, starts.astype(np.int64), mark_valid(column))


def mark_valid(column: Any) -> Bytes:
    """One byte per row, 0 for null; empty if there are no nulls."""
    if column.null_count == 0:
        return NO_NULLS
    valid: Bytes = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    valid.flags.writeable = False
    return valid


def read_integers(column: Any) -> tuple[Words, NDArray[np.bool_]]:
    """The values as int64, and a mask of rows that do not fit (uint64 only); nulls become 0."""
    filled = column.fill_null(0) if column.null_count else column
    values = filled.to_numpy(zero_copy_only=False)
    large = values > np.uint64(2**63 - 1) if values.dtype == np.uint64 else np.zeros(0, np.bool_)
    words = values.astype(np.int64, copy=False)
    words.flags.writeable = False  # like Arrow's buffers
    return words, large


def read_indices(column: Any) -> Indices:
    """The indices of a dictionary array without nulls, as int32 if they are, else as int64."""
    indices: Indices = column.indices.to_numpy()
    if indices.dtype != np.int32:
        indices = indices.astype(np.int64, copy=False)
        indices.flags.writeable = False  # like Arrow's buffers
    return indices


def scope_texts(column: Any, scope: str) -> Any:
    """The column with scoped blank nodes, as by `triegs.terms.term.scope_label`."""
    if not scope:
        return column
    return pc.replace_substring_regex(
        column, pattern=r"^_:([^\s.\-])", replacement=scope_prefix(scope) + r"\1"
    )


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is a string type."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def require_values(kind: Any) -> None:
    """Raise `TypeError` for an Arrow type whose values are not terms.

    >>> require_values(pa.binary())
    Traceback (most recent call last):
    TypeError: a binary column cannot hold terms; give strings in N-Triples form, ...
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
            f"a {kind} column cannot hold terms; give strings in N-Triples form, integers, floats, "
            "booleans, decimals, dates, times or timestamps"
        )


def write_column(column: Any) -> list[object]:
    """The values of an array that is not text, as Python values or finished terms.

    For distinct values: costs a Python step each. Raises like `require_values`.
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
    """Through NumPy, because Python dates end with the year 9999."""
    days = column.cast(pa.date32(), safe=False).cast(pa.int32())
    texts = np.datetime_as_string(days.fill_null(0).to_numpy().astype("datetime64[D]"))
    terms: list[object] = [literal(pad_year(str(text)), XSD + "date") for text in texts]
    return _blank_out(terms, column)


def _write_times(column: Any) -> list[object]:
    """Through NumPy, because Python times have microsecond precision."""
    clock = column.cast(pa.time64("ns")).cast(pa.int64()).fill_null(0).to_numpy()
    texts = np.datetime_as_string(clock.astype("datetime64[ns]"))
    terms: list[object] = [
        literal(trim_seconds(str(text).partition("T")[2]), XSD + "time") for text in texts
    ]
    return _blank_out(terms, column)


def _write_timestamps(column: Any) -> list[object]:
    """Keeps nanoseconds, which Python datetimes lack; applies zones as Arrow does."""
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
        # Local mean times are off by seconds, which xsd:dateTime cannot express.
        is_zone = shift % 60 == 0
        text = trim_seconds(pad_year(str(texts[row] if is_zone else at_utc[row])))
        terms.append(literal(text + (write_zone(shift * is_zone) if zone else ""), DATE_TIME))
    return terms
