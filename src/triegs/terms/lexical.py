"""Python values of typed literals, whatever their spelling.

====================================  ==============================================================
``xsd:integer`` and derived types     `int`
``xsd:decimal``                       `Decimal`, with the digits as written
``xsd:double``, ``xsd:float``         `float`; for ``xsd:float`` rounded to single precision
``xsd:boolean``                       `bool`
``xsd:dateTime``, ``dateTimeStamp``   `datetime`, with the zone as written, if any
``xsd:date``                          `date` as written; a zone is dropped
``xsd:time``                          `time`, with the zone as written, if any
====================================  ==============================================================

Digits beyond microseconds are dropped. A literal has no value if its text is not valid for its
datatype (``"300"^^xsd:byte``), or if Python cannot represent it: a year outside 1 to 9999, or an
integer of more than 4,300 digits.

>>> read_lexical("+067", XSD + "short"), read_lexical("300", XSD + "byte")
(67, None)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from triegs.terms.term import INTEGER_RANGES, XSD

Value: TypeAlias = int | float | Decimal | bool | date | time

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITIES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_DAY = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.(?P<part>[0-9]+))?"
_ZONE = r"(?P<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)"
_DATE = re.compile(rf"{_DAY}{_ZONE}?")
_TIME = re.compile(rf"{_CLOCK}{_ZONE}?")
_DATE_TIME = re.compile(rf"{_DAY}T{_CLOCK}{_ZONE}?")
_STAMP = re.compile(rf"{_DAY}T{_CLOCK}{_ZONE}")


def read_lexical(lexical: str, datatype: str) -> Value | None:
    """The value of a literal of that datatype (a bare IRI), or None. Linear in the text.

    >>> read_lexical("067.00", XSD + "decimal"), read_lexical("-.5e1", XSD + "double")
    (Decimal('67.00'), -5.0)
    >>> read_lexical("2024-05-01T24:00:00Z", XSD + "dateTime").isoformat()
    '2024-05-02T00:00:00+00:00'
    """
    read = _READERS.get(datatype)
    if read is None:
        return None
    try:
        return read(lexical)
    except (ValueError, OverflowError):  # a day or year that Python does not have
        return None


def count_places(lexical: str) -> int:
    """The fractional digits of the seconds, up to nine.

    >>> count_places("10:00:00.1234567Z"), count_places("2024-05-01T10:00:00")
    (7, 0)
    """
    part = re.search(r"\.([0-9]+)", lexical)
    return 0 if part is None else min(len(part[1].rstrip("0")), 9)


def read_nanoseconds(lexical: str) -> int:
    """The nanoseconds beyond microseconds, which Python times lack.

    >>> read_nanoseconds("10:00:00.1234567Z")
    700
    """
    part = re.search(r"\.[0-9]{6}([0-9]{1,3})", lexical)
    return 0 if part is None else int(part[1].ljust(3, "0"))


def _read_integer(name: str) -> Callable[[str], int | None]:
    least, largest = INTEGER_RANGES[name]

    def read(lexical: str) -> int | None:
        if _INTEGER.fullmatch(lexical) is None:
            return None
        found = int(lexical)
        is_out = (least is not None and found < least) or (largest is not None and found > largest)
        return None if is_out else found

    return read


def _read_decimal(lexical: str) -> Decimal | None:
    return Decimal(lexical) if _DECIMAL.fullmatch(lexical) else None


def _read_double(lexical: str) -> float | None:
    if lexical in _INFINITIES:
        return _INFINITIES[lexical]
    return float(lexical) if _DOUBLE.fullmatch(lexical) else None


def _read_single(lexical: str) -> float | None:
    found = _read_double(lexical)
    if found is None:
        return None
    with np.errstate(over="ignore"):  # infinite, as XSD requires
        return float(np.float32(found))


def _read_zone(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    if text == "Z":
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:]))
    return timezone(-offset if text[0] == "-" else offset)


def _read_clock(match: re.Match[str]) -> tuple[time, bool]:
    """The time of day, and whether it is 24:00, the start of the next day."""
    hour, part = int(match["hour"]), (match["part"] or "")[:6].ljust(6, "0")
    rest = int(match["minute"]), int(match["second"]), int(part)
    is_end = hour == 24 and not any((*rest, int(match["part"] or 0)))
    return time(0 if is_end else hour, *rest, _read_zone(match["zone"])), is_end


def _read_day(match: re.Match[str]) -> date:
    return date(int(match["year"]), int(match["month"]), int(match["day"]))


def _read_date(lexical: str) -> date | None:
    match = _DATE.fullmatch(lexical)
    return None if match is None else _read_day(match)


def _read_time(lexical: str) -> time | None:
    match = _TIME.fullmatch(lexical)
    return None if match is None else _read_clock(match)[0]


def _read_date_time(pattern: re.Pattern[str]) -> Callable[[str], datetime | None]:
    def read(lexical: str) -> datetime | None:
        match = pattern.fullmatch(lexical)
        if match is None:
            return None
        clock, is_end = _read_clock(match)
        found = datetime.combine(_read_day(match), clock) + timedelta(days=is_end)
        if found.tzinfo is not None:
            found.astimezone(UTC)  # `OverflowError` if UTC is outside Python's years
        return found

    return read


_READERS: dict[str, Callable[[str], Value | None]] = {
    **{XSD + name: _read_integer(name) for name in INTEGER_RANGES},
    XSD + "decimal": _read_decimal,
    XSD + "double": _read_double,
    XSD + "float": _read_single,
    XSD + "boolean": _BOOLEANS.get,
    XSD + "date": _read_date,
    XSD + "time": _read_time,
    XSD + "dateTime": _read_date_time(_DATE_TIME),
    XSD + "dateTimeStamp": _read_date_time(_STAMP),
}
