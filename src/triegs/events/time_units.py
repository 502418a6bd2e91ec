"""Converts numeric times in seconds, microseconds or nanoseconds to milliseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import InputError

#: Milliseconds per unit, as a fraction.
UNITS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
# Larger numbers of seconds are out of range, and this times 1,000 still fits 64 bits.
MOST_SECONDS = 1 << 50
_NUMBER = r"^([+-]?[0-9]{1,18})(?:\.([0-9]{1,3})[0-9]*|\.)?$"


def check_unit(unit: str | None) -> str | None:
    """The unit unchanged; `InputError` if it is unknown.

    >>> check_unit("s")
    's'
    """
    if unit is not None and unit not in UNITS:
        raise InputError(f"time_unit must be one of {', '.join(UNITS)}, not {unit!r}")
    return unit


def to_milliseconds(column: Any, unit: str | None) -> Any:
    """A column of times with its numbers in milliseconds, rounded down.

    Other texts, timestamps and dates are unchanged, as is the whole column without a unit.

    >>> to_milliseconds(pa.array(["1714550400.25", "2024-05-01"]), "s").to_pylist()
    ['1714550400250', '2024-05-01']
    >>> to_milliseconds(pa.array([1_500_000]), "us").to_pylist()
    [1500]
    """
    if unit is None:
        return column
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _scale_floats(column.cast(pa.float64()), unit)
    if unit == "ms" and pa.types.is_integer(kind):
        return column
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    times, parts = UNITS[unit]
    if pa.types.is_integer(kind):
        bound = MOST_SECONDS if times > 1 else None
        values = column.cast(pa.int64(), safe=False) if pa.types.is_uint64(kind) else column
        numbers = values.cast(pa.int64()).fill_null(0).to_numpy()
        if pa.types.is_uint64(kind):
            numbers = np.where(numbers < 0, np.iinfo(np.int64).max, numbers)
        if bound is not None:
            numbers = np.clip(numbers, -bound, bound)
        return _mask(pa.array(numbers * times // parts), column)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column
    is_number = pc.match_substring_regex(column, _NUMBER).fill_null(False)
    if not pc.any(is_number).as_py():
        return column
    found = pc.extract_regex(column.filter(is_number), _NUMBER.replace("([+", "(?P<whole>[+")
                             .replace("([0-9]{1,3})", "(?P<part>[0-9]{1,3})"))  # fmt: skip
    whole, part = (pc.struct_field(found, name) for name in ("whole", "part"))
    if times > 1:
        written = pc.binary_join_element_wise(whole, pc.utf8_rpad(part, 3, "0"), "")
    else:
        # Arrow's cast refuses a leading plus.
        numbers = pc.utf8_ltrim(whole, "+").cast(pa.int64()).to_numpy() // parts
        written = pa.array(numbers).cast(pa.string())
    return pc.replace_with_mask(column, is_number, written.cast(column.type))


def _scale_floats(column: Any, unit: str) -> Any:
    """Scale floats; NaN and values beyond 64 bits become out-of-range times."""
    times, parts = UNITS[unit]
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    # Rounding first: a double's error must not cost a millisecond.
    scaled = np.floor(np.round(np.nan_to_num(values * times / parts, nan=np.inf), 3))
    bound = float(MOST_SECONDS) * 1_000
    return _mask(pa.array(np.clip(scaled, -bound, bound).astype(np.int64)), column)


def _mask(found: Any, column: Any) -> Any:
    """``found`` with the nulls of the column."""
    if not column.null_count:
        return found
    return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.int64()))
