"""Values of literals for the oracle: reading, arithmetic, comparison and order.

Written from SPARQL 1.1 (sections 17.2 to 17.4 and 18.5.1) and XPath, over exact fractions. It
shares no code with the engine. `docs/semantics.md` states what the standards leave open: the digits
of a quotient, the length of numbers, and the order of terms that ``<`` does not compare.

>>> values = [read("0.1", XSD + "decimal"), read("2", XSD + "integer")]
>>> spell_number(add_up(values, [1, 3]))
('6.1', 'decimal')
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

XSD = "http://www.w3.org/2001/XMLSchema#"
RANKS = ("integer", "decimal", "float", "double")
#: Numbers with more characters have no value.
LONGEST = 1000
#: Decimal places of a quotient; further ones are cut off.
PLACES = 18

_BITS = {"long": 63, "int": 31, "short": 15, "byte": 7}
_BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    **{name: (-(2**bits), 2**bits - 1) for name, bits in _BITS.items()},
    **{f"unsigned{name.capitalize()}": (0, 2 ** (bits + 1) - 1) for name, bits in _BITS.items()},
}
NUMERIC = {*_BOUNDS, *RANKS}


class EvaluationError(Exception):
    """An expression or aggregate has no value."""


class Number(NamedTuple):
    """`exact` for every finite number; `special` is an infinity, NaN or a zero with its sign."""

    rank: int
    exact: Fraction
    special: float | None = None

    @property
    def floating(self) -> float:
        return float(self.exact) if self.special is None else self.special


class Text(NamedTuple):
    language: str
    text: str


class Time(NamedTuple):
    """Seconds since some day, without its zone if it has none."""

    kind: str
    seconds: Fraction
    has_zone: bool


Value = Number | Text | Time | bool


# Reading


@lru_cache(maxsize=1 << 14)  # a filter reads the same few constants for each pair of terms
def read(lexical: str, datatype: str | None, language: str | None = None) -> Value | None:
    """The value of a literal; None if its datatype is unknown or does not allow its text."""
    if language or datatype is None:
        return Text(language or "", lexical)
    kind = datatype.removeprefix(XSD)
    if kind == datatype or (kind != "string" and len(lexical) > LONGEST):
        return None
    if kind == "string":
        return Text("", lexical)
    if kind in _BOUNDS:
        return _read_integer(lexical, *_BOUNDS[kind])
    if kind == "decimal" and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", lexical, re.ASCII):
        return Number(1, Fraction(lexical.removesuffix(".")))
    if kind in ("float", "double"):
        return _read_floating(lexical, RANKS.index(kind))
    if kind == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(lexical)
    return _read_time(lexical, kind) if kind in ("date", "dateTime") else None


def _read_integer(lexical: str, least: int | None, most: int | None) -> Number | None:
    if not re.fullmatch(r"[-+]?\d+", lexical, re.ASCII):
        return None
    amount = int(lexical)
    if (least is not None and amount < least) or (most is not None and amount > most):
        return None
    return Number(0, Fraction(amount))


def _read_floating(lexical: str, rank: int) -> Number | None:
    if lexical in ("INF", "+INF", "-INF", "NaN"):
        return Number(rank, Fraction(0), float(lexical))
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", lexical, re.ASCII):
        return None
    amount = float(lexical)
    if rank == 2 and math.isfinite(amount) and amount:
        digits, _, power = lexical.lower().partition("e")
        amount = nearest(Fraction(digits.removesuffix(".")) * Fraction(10) ** int(power or 0), 2)
    return floating(amount, rank)


def _read_time(lexical: str, kind: str) -> Time | None:
    clock = r"T(\d\d):(\d\d):(\d\d(?:\.\d+)?)" if kind == "dateTime" else ""
    zone = r"(?P<zone>Z|[-+]\d\d:\d\d)?"
    match = re.fullmatch(rf"(-?\d{{4,}})-(\d\d)-(\d\d){clock}{zone}", lexical, re.ASCII)
    if match is None or re.match(r"-?0\d{4}", lexical):
        return None
    year, month, day = (int(match[i]) for i in (1, 2, 3))
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = [31, 29 if is_leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    days = 365 * year + sum((year - 1) // n * s for n, s in ((4, 1), (100, -1), (400, 1)))
    seconds = Fraction(86400 * (days + sum(lengths[: month - 1]) + day))
    if clock:
        hour, minute, second = int(match[4]), int(match[5]), Fraction(match[6])
        is_midnight = hour == 24 and minute == second == 0
        if minute > 59 or second >= 60 or (hour > 23 and not is_midnight):
            return None
        seconds += 3600 * hour + 60 * minute + second
    shift = match["zone"]
    if shift and shift != "Z":
        hours, minutes = int(shift[1:3]), int(shift[4:])
        if minutes > 59 or 60 * hours + minutes > 14 * 60:
            return None
        seconds -= int(shift[0] + "60") * (60 * hours + minutes)
    return Time(kind, seconds, bool(shift))


# Rounding and writing


def nearest(exact: Fraction, rank: int) -> float:
    """The nearest number of a floating type, ties to even, with infinities beyond its range."""
    try:
        double = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if rank == 3 or not double:
        return double
    if abs(exact) >= 2**128 - 2**103:
        return math.copysign(math.inf, double)
    with np.errstate(over="ignore"):
        close = np.float32(double)
    largest = np.finfo(np.float32).max
    close = np.float32(np.clip(close, -largest, largest))
    steps = [np.nextafter(close, np.float32(end)) for end in (-math.inf, math.inf)]
    finite = [each for each in (close, *steps) if np.isfinite(each)]
    # In a tie the one whose last bit is 0.
    best = min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1))
    return math.copysign(float(best), double)


def floating(amount: float, rank: int) -> Number:
    if amount and math.isfinite(amount):
        return Number(rank, Fraction(amount))
    return Number(rank, Fraction(0), amount)


def convert(number: Number, rank: int) -> Number:
    """A number as one of an equal or higher type."""
    if number.rank == rank or rank < 2:
        return number._replace(rank=rank)
    if number.rank >= 2:
        return number._replace(rank=rank)
    return floating(nearest(number.exact, rank), rank)


def spell_number(number: Number) -> tuple[str, str]:
    """The canonical text of a computed number and the name of its type."""
    name = RANKS[number.rank]
    if number.rank >= 2:
        return _spell_floating(number.floating, number.rank), name
    sign, exact = ("-" if number.exact < 0 else ""), abs(number.exact)
    places = 0
    while exact.denominator > 1:
        exact, places = exact * 10, places + 1
    digits = str(exact.numerator).rjust(places + 1, "0")
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    longest = LONGEST - len(sign) if number.rank == 1 else LONGEST
    if len(text) > longest:
        raise EvaluationError("the number is too long")
    return sign + text, name


def _spell_floating(amount: float, rank: int) -> str:
    if not math.isfinite(amount):
        return "NaN" if math.isnan(amount) else "INF" if amount > 0 else "-INF"
    kind = np.float32 if rank == 2 else np.float64
    text = np.format_float_scientific(kind(amount), unique=True, trim="0", exp_digits=1)
    return text.replace("e+", "E").replace("e", "E")


# Arithmetic


def calculate(sign: str, left: Value | None, right: Value | None) -> Number:
    """``+ - * /`` on two numbers, in the higher of their types; integers divide to a decimal."""
    if not isinstance(left, Number) or not isinstance(right, Number):
        raise EvaluationError("arithmetic on what is no number")
    rank = max(left.rank, right.rank)
    if rank >= 2:
        a, b = convert(left, rank).floating, convert(right, rank).floating
        with np.errstate(all="ignore"):
            kind = np.float32 if rank == 2 else np.float64
            p, q = kind(a), kind(b)
            found = {"+": p + q, "-": p - q, "*": p * q, "/": p / q}[sign]
        return floating(float(found), rank)
    x, y = left.exact, right.exact
    if sign == "/":
        if not y:
            raise EvaluationError("division by zero")
        return Number(1, cut(x / y))
    return Number(rank, {"+": x + y, "-": x - y, "*": x * y}[sign])


def cut(quotient: Fraction) -> Fraction:
    """A quotient of decimals, with the decimal places that it keeps."""
    whole = math.trunc(quotient * 10**PLACES)
    return Fraction(whole, 10**PLACES)


def add_up(numbers: Iterable[Value | None], weights: Iterable[int]) -> Number:
    """The sum: exact, and rounded once if one of the numbers is a float or double."""
    rank, exact, special = _total(numbers, weights)
    if special:  # also if it is NaN
        return floating(special, rank)
    return floating(nearest(exact, rank), rank) if rank >= 2 else Number(rank, exact)


def average(numbers: Iterable[Value | None], weights: Iterable[int]) -> Number:
    """The exact average, rounded once; 0 if there are no numbers."""
    weights = list(weights)
    rank, exact, special = _total(numbers, weights)
    if special or not weights:
        return floating(special, rank) if special else Number(0, Fraction(0))
    exact /= sum(weights)
    return floating(nearest(exact, rank), rank) if rank >= 2 else Number(1, cut(exact))


def _total(numbers: Iterable[Value | None], weights: Iterable[int]) -> tuple[int, Fraction, float]:
    """The highest type, the exact sum of what is finite, and the sum of what is not."""
    rank, exact, special = 0, Fraction(0), 0.0
    for number, weight in zip(numbers, weights, strict=True):
        if not isinstance(number, Number):
            raise EvaluationError("a sum of what is no number")
        rank = max(rank, number.rank)
        exact += number.exact * weight
        special += number.special or 0.0
    return rank, exact, special


# Truth, comparison, order


def is_true(value: Value | None) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Number):
        return bool(value.exact) if value.special is None else math.isinf(value.special)
    if isinstance(value, Text):
        return value.text != ""
    raise EvaluationError("neither true nor false")


def compare(left: Value | None, right: Value | None) -> int | None:
    """-1, 0 or 1, or None if one is NaN; `EvaluationError` if ``<`` does not apply."""
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    if isinstance(left, Number) and isinstance(right, Number):
        rank = max(left.rank, right.rank)
        first, second = convert(left, rank), convert(right, rank)
        if first.special is None and second.special is None:
            return _sign(first.exact - second.exact)
        a, b = first.floating, second.floating
        return None if math.isnan(a) or math.isnan(b) else (a > b) - (a < b)
    if isinstance(left, Text) and isinstance(right, Text) and not left.language + right.language:
        return (left.text > right.text) - (left.text < right.text)
    if isinstance(left, Time) and isinstance(right, Time) and left.kind == right.kind:
        apart = left.seconds - right.seconds
        if left.has_zone == right.has_zone or abs(apart) > 14 * 3600:
            return _sign(apart)
    raise EvaluationError("no order")


def _sign(amount: Fraction) -> int:
    return (amount > 0) - (amount < 0)


def are_equal(left: Value, right: Value) -> bool:
    """``=`` on two values; values of different kinds differ."""
    if isinstance(left, Text) or isinstance(right, Text) or type(left) is not type(right):
        return type(left) is type(right) and left == right
    if isinstance(left, Time) and isinstance(right, Time) and left.kind != right.kind:
        return False
    return compare(left, right) == 0


def rank_literal(value: Value | None, datatype: str | None, lexical: str) -> tuple[object, ...]:
    """Sorts literals: NaN, numbers, dates, times, texts, texts by language, booleans, others."""
    if isinstance(value, Number):
        amount = value.exact if value.special is None else value.special
        return (0,) if amount != amount else (1, amount)
    if isinstance(value, bool):
        return (6, value)
    if isinstance(value, Time):
        return (2 if value.kind == "date" else 3, value.seconds)
    if isinstance(value, Text):
        return (5, value.language, value.text) if value.language else (4, value.text)
    return (7, str(datatype or ""), lexical)
