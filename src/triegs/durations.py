"""Spans of time as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

#: By unit, the milliseconds of one.
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHORT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*")
_ISO = re.compile(
    r"P(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def read_duration(value: str | int | timedelta) -> int:
    """Milliseconds: of ``"10s"``, ``"500ms"``, ``"1.5h"``, ``"PT10S"``, a `timedelta`, or an
    integer, which is milliseconds already. Anything else is a `ValueError` that says so.

    >>> read_duration("10s"), read_duration("PT1M30S"), read_duration(250)
    (10000, 90000, 250)
    >>> read_duration("soon")
    Traceback (most recent call last):
    ValueError: 'soon' is no duration; write 10s, 500ms, 5m, 1h, 1d or PT10S
    """
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value if isinstance(value, str) else ""
    if found := _SHORT.fullmatch(text):
        return round(float(found[1]) * UNITS[found[2]])
    parts = _ISO.fullmatch(text.strip())
    if parts is None or not any(parts.groups()):
        raise ValueError(f"{value!r} is no duration; write 10s, 500ms, 5m, 1h, 1d or PT10S")
    numbers = [float(part or 0) for part in parts.groups()]
    return round(sum(n * UNITS[u] for n, u in zip(numbers, ("d", "h", "m", "s"), strict=True)))
