"""Values of literals: numbers, strings, booleans and moments, with their order.

>>> value_of('"5"^^<http://www.w3.org/2001/XMLSchema#byte>')
Number(rank=<Rank.INTEGER: 0>, amount=5)
>>> value_of('"500"^^<http://www.w3.org/2001/XMLSchema#byte>') is None      # ill-typed
True
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from triegs.terms.term import (
    INTEGER_RANGES,
    RDF_LANG_STRING,
    XSD,
    XSD_STRING,
    Kind,
    literal,
    parse_term,
)

#: Longer numbers are an evaluation error, which bounds the cost of one operation.
MAX_DIGITS = 1000
#: Decimal places of a quotient; further ones are truncated.
DIVISION_PLACES = 18


class ExpressionError(Exception):
    """A SPARQL evaluation error: the expression has no value."""


class Rank(IntEnum):
    """Numeric types in the order of promotion."""

    INTEGER = 0
    DECIMAL = 1
    FLOAT = 2
    DOUBLE = 3


class Number(NamedTuple):
    """``amount`` is an int, a Decimal or a float, depending on the rank."""

    rank: Rank
    amount: int | Decimal | float


class Text(NamedTuple):
    """A string, with its language tag or none."""

    text: str
    language: str


class MomentKind(Enum):
    DATE = "date"
    DATE_TIME = "dateTime"


class Moment(NamedTuple):
    """Seconds since the first day of year 1, UTC if ``zoned``, else in an unknown zone."""

    kind: MomentKind
    seconds: Fraction
    zoned: bool


Value = Number | Text | bool | Moment

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITIES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_MOMENT = re.compile(
    r"(?P<year>-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-(?P<month>0[1-9]|1[0-2])-(?P<day>[0-2][0-9]|3[01])"
    r"(?P<time>T(?P<hour>[01][0-9]|2[0-4]):(?P<minute>[0-5][0-9])"
    r":(?P<second>[0-5][0-9](?:\.[0-9]+)?))?"
    r"(?P<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LARGEST_ZONE_SECONDS = 14 * 3600
# Wide enough for exact sums and products of two numbers of MAX_DIGITS digits each.
_EXACT = Context(prec=4 * MAX_DIGITS, Emin=-10 * MAX_DIGITS, Emax=10 * MAX_DIGITS)


@lru_cache(maxsize=1 << 16)
def value_of(term: str) -> Value | None:
    """The value of a literal; None for other terms, unknown datatypes and ill-typed literals."""
    parts = parse_term(term)
    if parts.kind is not Kind.LITERAL:
        return None
    if parts.datatype in (XSD_STRING, RDF_LANG_STRING):
        return Text(parts.lexical, parts.language)
    if not parts.datatype.startswith(XSD) or len(parts.lexical) > MAX_DIGITS:
        return None
    name = parts.datatype.removeprefix(XSD)
    if name in INTEGER_RANGES:
        return _integer(parts.lexical, *INTEGER_RANGES[name])
    read = _READERS.get(name)
    return None if read is None else read(parts.lexical)


def _integer(lexical: str, lowest: int | None, highest: int | None) -> Number | None:
    if not _INTEGER.fullmatch(lexical):
        return None
    amount = int(lexical)
    if (lowest is not None and amount < lowest) or (highest is not None and amount > highest):
        return None
    return Number(Rank.INTEGER, amount)


def _decimal(lexical: str) -> Number | None:
    return Number(Rank.DECIMAL, Decimal(lexical)) if _DECIMAL.fullmatch(lexical) else None


def _double(lexical: str) -> Number | None:
    if lexical in _INFINITIES:
        return Number(Rank.DOUBLE, _INFINITIES[lexical])
    return Number(Rank.DOUBLE, float(lexical)) if _FLOAT.fullmatch(lexical) else None


def _float(lexical: str) -> Number | None:
    number = _double(lexical)
    if number is None:
        return None
    amount = float(number.amount)
    if amount and math.isfinite(amount):
        # From the text: rounding to a double first could round twice.
        amount = round_fraction(Fraction(Decimal(lexical)), Rank.FLOAT)
    return Number(Rank.FLOAT, amount)


def _moment(lexical: str, kind: MomentKind) -> Moment | None:
    match = _MOMENT.fullmatch(lexical)
    if match is None or (match["time"] is None) == (kind is MomentKind.DATE_TIME):
        return None
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (leap and month == 2):
        return None
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    days += sum(_MONTH_DAYS[: month - 1]) + (leap and month > 2) + day - 1
    seconds = Fraction(days * 86400)
    if match["time"]:
        clock = int(match["hour"]) * 3600 + int(match["minute"]) * 60 + Fraction(match["second"])
        if clock > 86400:
            return None
        seconds += clock
    zone = match["zone"]
    if zone and zone != "Z":
        offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return Moment(kind, seconds, bool(zone))


_READERS: dict[str, Callable[[str], Value | None]] = {
    "decimal": _decimal,
    "double": _double,
    "float": _float,
    "boolean": _BOOLEANS.get,
    "dateTime": lambda lexical: _moment(lexical, MomentKind.DATE_TIME),
    "date": lambda lexical: _moment(lexical, MomentKind.DATE),
}
NUMERIC_DATATYPES = frozenset(
    XSD + name for name in [*INTEGER_RANGES, "decimal", "double", "float"]
)


# Numbers


def round_to_float(amount: float) -> float:
    """The nearest single-precision number.

    >>> round_to_float(0.1) == 0.1
    False
    """
    if math.isnan(amount) or math.isinf(amount):
        return amount
    try:
        return float(struct.unpack("f", struct.pack("f", amount))[0])
    except OverflowError:
        return math.copysign(math.inf, amount)


def round_fraction(exact: Fraction, rank: Rank) -> float:
    """The nearest float or double, rounded once; an infinity beyond its range.

    >>> round_fraction(1 + Fraction(1, 2**24) + Fraction(1, 2**60), Rank.FLOAT) == 1 + 2**-23
    True
    """
    try:
        amount = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if rank is not Rank.FLOAT:
        return amount
    if exact != amount:
        # Round to odd, so that the second rounding takes no value near a tie for the tie.
        (bits,) = struct.unpack("q", struct.pack("d", amount))
        if bits % 2 == 0:
            amount = math.nextafter(amount, math.inf if exact > amount else -math.inf)
    return round_to_float(amount)


def promote(number: Number, rank: Rank) -> Number:
    """The number promoted to a rank at or above its own."""
    if number.rank is rank:
        return number
    if rank is Rank.DECIMAL:
        return Number(rank, Decimal(number.amount))
    if isinstance(number.amount, float):
        return Number(rank, number.amount)
    return Number(rank, round_fraction(Fraction(number.amount), rank))


def calculate(operator: str, left: Number, right: Number) -> Number:
    """``+ - * /`` with promotion; integers divide to a decimal.

    >>> calculate("/", Number(Rank.INTEGER, 2), Number(Rank.INTEGER, 3)).amount
    Decimal('0.666666666666666666')
    """
    rank = max(left.rank, right.rank)
    if operator == "/" and rank is Rank.INTEGER:
        rank = Rank.DECIMAL
    a, b = promote(left, rank).amount, promote(right, rank).amount
    if rank >= Rank.FLOAT:
        amount = _FLOATING[operator](float(a), float(b))
        return Number(rank, round_to_float(amount) if rank is Rank.FLOAT else amount)
    if operator == "/":
        return Number(rank, divide(Fraction(a), Fraction(b)))
    if rank is Rank.INTEGER:
        return Number(rank, _WHOLE[operator](int(a), int(b)))
    return Number(rank, _DECIMALS[operator](Decimal(a), Decimal(b)))


def divide(left: Fraction, right: Fraction) -> Decimal:
    """The quotient as a decimal, truncated to :data:`DIVISION_PLACES` places."""
    if right == 0:
        raise ExpressionError("division by zero")
    return to_decimal(left / right)


def to_decimal(amount: Fraction) -> Decimal:
    """The fraction as a decimal, exact if :data:`DIVISION_PLACES` places are enough."""
    scaled = abs(amount) * 10**DIVISION_PLACES
    whole = scaled.numerator // scaled.denominator
    return Decimal(-whole if amount < 0 else whole).scaleb(-DIVISION_PLACES, _EXACT)


def exact_decimal(amount: Fraction) -> Decimal:
    """A sum of decimals, whose denominator divides a power of ten, as a decimal."""
    places = 0
    while amount.denominator > 1:
        amount, places = amount * 10, places + 1
    return Decimal(amount.numerator).scaleb(-places, _EXACT)


def _divide_floats(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


_FLOATING: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide_floats,
}
_WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_DECIMALS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
}


# Comparison


def compare(left: Value, right: Value) -> int | None:
    """-1, 0 or 1; None if the two are of one kind but unordered (NaN).

    Raises :class:`ExpressionError` for values that SPARQL does not compare.
    """
    if isinstance(left, Number) and isinstance(right, Number):
        rank = max(left.rank, right.rank)
        return _order(promote(left, rank).amount, promote(right, rank).amount)
    if isinstance(left, bool) and isinstance(right, bool):
        return _order(left, right)
    if isinstance(left, Text) and isinstance(right, Text) and not left.language + right.language:
        return _order(left.text, right.text)
    if isinstance(left, Moment) and isinstance(right, Moment) and left.kind is right.kind:
        if left.zoned == right.zoned:
            return _order(left.seconds, right.seconds)
        # The unknown zone may lie 14 hours either way.
        apart = left.seconds - right.seconds
        if abs(apart) > _LARGEST_ZONE_SECONDS:
            return _order(apart, 0)
        raise ExpressionError("moments with and without a time zone are too close to compare")
    raise ExpressionError("these values have no order")


def _order(left: object, right: object) -> int | None:
    if left == right:
        return 0
    if left < right:  # type: ignore[operator]
        return -1
    return 1 if left > right else None  # type: ignore[operator]


def same_value(left: str, right: str) -> bool:
    """SPARQL's ``=`` on two terms.

    >>> same_value('"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
    ...            '"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>')
    True
    """
    first, second = value_of(left), value_of(right)
    if first is not None and second is not None:
        if type(first) is not type(second):
            return False
        if isinstance(first, Text):
            return first == second
        if isinstance(first, Moment) and first.kind is not second.kind:  # type: ignore[union-attr]
            return False
        return compare(first, second) == 0
    # A language tag is part of the value, so a term without that tag differs.
    if left == right or any(isinstance(v, Text) and v.language for v in (first, second)):
        return left == right
    if parse_term(left).kind is Kind.LITERAL and parse_term(right).kind is Kind.LITERAL:
        raise ExpressionError("literals of unknown datatypes cannot be compared")
    return False


# Back to terms


def number_term(number: Number) -> str:
    """The literal of a computed number, in its canonical form.

    >>> number_term(Number(Rank.DOUBLE, 1500.0))
    '"1.5E3"^^<http://www.w3.org/2001/XMLSchema#double>'
    """
    name = number.rank.name.lower()
    if isinstance(number.amount, int):
        if abs(number.amount) >= 10**MAX_DIGITS:
            raise ExpressionError("the number is too long")
        text = str(number.amount)
    elif isinstance(number.amount, Decimal):
        text = f"{number.amount:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        text = "0" if text in ("-0", "") else text
        if len(text) > MAX_DIGITS:
            raise ExpressionError("the number is too long")
    else:
        text = _floating_text(number.amount, number.rank)
    return literal(text, XSD + name)


def _floating_text(amount: float, rank: Rank) -> str:
    if math.isnan(amount):
        return "NaN"
    if math.isinf(amount):
        return "INF" if amount > 0 else "-INF"
    shortest = f"{amount:.17g}"
    if rank is Rank.FLOAT:
        # The fewest digits that identify this single-precision number.
        tries = (f"{amount:.{digits}e}" for digits in range(9))
        shortest = next((t for t in tries if round_to_float(float(t)) == amount), shortest)
    else:
        shortest = repr(amount)
    sign, digits, exponent = Decimal(shortest).as_tuple()
    written = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1 if written != "0" else 0
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{power}"


def boolean_term(value: bool) -> str:
    return literal("true" if value else "false", XSD + "boolean")
