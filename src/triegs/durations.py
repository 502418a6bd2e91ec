"""Parses durations."""

from __future__ import annotations

import re
from datetime import timedelta
from numbers import Integral

#: Milliseconds per unit.
UNITS = {
    "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
#: Units in words, singular; a plural s is accepted.
WORDS = {
    "millisecond": 1, "sec": 1_000, "second": 1_000, "min": 60_000, "minute": 60_000,
    "hr": 3_600_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*,?\s*", re.IGNORECASE)
_ISO = re.compile(
    r"P(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def read_duration(value: str | int | timedelta) -> int:
    """A duration in milliseconds.

    Accepts ``"10s"``, ``"500ms"``, ``"1.5h"``, ``"10 minutes"``, ``"1 hour 30 minutes"``,
    ``"PT10S"``, a `timedelta`, or an integer number of milliseconds. Anything else raises
    `ValueError`.

    >>> read_duration("10s"), read_duration("PT1M30S"), read_duration("10 minutes")
    (10000, 90000, 600000)
    >>> read_duration("soon")
    Traceback (most recent call last):
    ValueError: 'soon' is not a duration; write 10s, 500ms, 5m, 1h, 1d, 10 minutes or PT10S
    """
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    number: object = value  # also accepts NumPy integers
    if type(number) is not bool and isinstance(number, Integral):
        return int(number)
    text = value if isinstance(value, str) else ""
    written = _PART.findall(text)
    if written and not _PART.sub("", text).strip():
        sizes = [float(number) * _find_unit(unit) for number, unit in written]
        if min(sizes) >= 0:
            return round(sum(sizes))
    parts = _ISO.fullmatch(text.strip())
    if parts is None or not any(parts.groups()):
        raise ValueError(
            f"{value!r} is not a duration; write 10s, 500ms, 5m, 1h, 1d, 10 minutes or PT10S"
        )
    numbers = [float(part or 0) for part in parts.groups()]
    return round(sum(n * UNITS[u] for n, u in zip(numbers, ("d", "h", "m", "s"), strict=True)))


def _find_unit(word: str) -> int:
    """The milliseconds of a unit, -1 if unknown. Short units are case-sensitive: M is not m."""
    if word in UNITS:
        return UNITS[word]
    lower = word.lower()
    return WORDS.get(lower) or WORDS.get(lower.removesuffix("s"), -1)
