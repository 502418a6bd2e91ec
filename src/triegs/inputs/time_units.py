"""Numbers that count seconds, microseconds or nanoseconds, as milliseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import InputError

#: Milliseconds of a unit, as a fraction.
UNITS = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
# Beyond this a number of seconds is absurd in every unit, and its product still has 64 bits.
MOST_SECONDS = 1 << 50
_NUMBER = r"^([+-]?[0-9]{1,18})(?:\.([0-9]{1,3})[0-9]*|\.)?$"


def check_unit(unit: str | None) -> str | None:
    """A unit of times as it is, or None; `InputError` if it is none.

    >>> check_unit("s")
    's'
    """
    if unit is not None and unit not in UNITS:
        raise InputError(f"a unit of time is one of {', '.join(UNITS)}; {unit!r} is none")
    return unit


def to_milliseconds(column: Any, unit: str | None) -> Any:
    """A column of times with its numbers in milliseconds; texts, timestamps and dates that are no
    numbers stay, and so does everything if no unit was said. What is below a millisecond is cut
    off.

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
    if unit == "ms":
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
        numbers = whole.cast(pa.int64()).to_numpy() // parts
        written = pa.array(numbers).cast(pa.string())
    return pc.replace_with_mask(column, is_number, written.cast(column.type))


def _scale_floats(column: Any, unit: str) -> Any:
    """Numbers with a point; one that is none, or beyond 64 bits, is absurd."""
    times, parts = UNITS[unit]
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    # What a double cannot say of a millisecond is rounding, and no reason to lose one.
    scaled = np.floor(np.round(np.nan_to_num(values * times / parts, nan=np.inf), 3))
    bound = float(MOST_SECONDS) * 1_000
    return _mask(pa.array(np.clip(scaled, -bound, bound).astype(np.int64)), column)


def _mask(found: Any, column: Any) -> Any:
    """The same with a null wherever the column has one."""
    if not column.null_count:
        return found
    return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.int64()))
