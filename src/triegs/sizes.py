"""Parses sizes in bytes."""

from __future__ import annotations

import re
from numbers import Integral

from triegs.errors import BadOption

UNITS = {
    "": 1, "b": 1, "byte": 1, "bytes": 1,
    **{f"{prefix}b": 1_000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1_024**power for power, prefix in enumerate("kmgt", 1)},
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def read_size(value: object, name: str) -> int:
    """A number of bytes from an integer or a string such as ``"1GB"`` or ``"512MiB"``.

    Anything else raises `BadOption` with the name of the option.

    >>> read_size("1GB", "memory_limit"), read_size("1.5 KiB", "memory_limit"), read_size(7, "n")
    (1000000000, 1536, 7)
    >>> read_size("much", "memory_limit")
    Traceback (most recent call last):
    triegs.errors.BadOption: memory_limit must be a size such as 512MiB or 1GB, not 'much'
    """
    found = -1
    if type(value) is not bool and isinstance(value, Integral):
        found = int(value)
    elif isinstance(value, float):
        found = int(value) if value.is_integer() else -1  # accepts 1e9
    elif isinstance(value, str) and (parts := _SIZE.fullmatch(value)):
        found = int(float(parts[1]) * UNITS.get(parts[2].lower(), -1))
    if not 0 < found < 1 << 62:
        raise BadOption(f"{name} must be a size such as 512MiB or 1GB, not {value!r}")
    return found
