"""The Arrow type of a column of terms in Python form, and its values.

The type is the smallest that holds all values of the column:

========================================  ==========================================================
integers that fit 64 bits                 int64
other exact numbers: larger integers,     decimal128(38, s), with s the most fractional digits
decimals, both
``xsd:float`` alone                       float32
other numbers                             float64, to which exact ones are promoted as SPARQL does
booleans; dates; texts without language   bool; date32; string
``xsd:time``                              time64, in UTC if all have a zone
``xsd:dateTime``                          timestamp; of UTC if all have a zone
anything else, or a mixture of these      a dictionary of N-Triples strings, for all terms
========================================  ==========================================================

Times are in microseconds, or in nanoseconds if a term has the digits and the years fit (1678 to
2261 for timestamps). A column becomes one of terms if its exact numbers have more than 38 digits (a
64-bit integer counts as 19), if it mixes times with and without zone, or if a literal has no value
(`triegs.terms.lexical`). So a column never mixes values and terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from enum import Enum
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa

from triegs.terms.lexical import Value, count_places, read_lexical, read_nanoseconds
from triegs.terms.term import XSD, XSD_STRING, parse_term

TERMS = pa.dictionary(pa.int32(), pa.string())
MOST_DIGITS = 38  # of decimal128; not all libraries read wider types
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1
_FIRST_YEAR, _LAST_YEAR = 1678, 2261  # whole years whose nanoseconds fit 64 bits
_WIDE = Context(prec=2 * MOST_DIGITS)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sort(Enum):
    """What the values of a column have in common."""

    INTEGER = pa.int64()
    DECIMAL = None
    FLOAT = pa.float32()
    DOUBLE = pa.float64()
    BOOLEAN = pa.bool_()
    DATE = pa.date32()
    TEXT = pa.string()
    TERM = TERMS
    ID = pa.int32()
    TIME = "time"
    ZONED_TIME = "time with zone"
    MOMENT = "dateTime"
    ZONED_MOMENT = "dateTime with zone"


_EXACT = (Sort.INTEGER, Sort.DECIMAL)
_NUMBERS = (*_EXACT, Sort.FLOAT, Sort.DOUBLE)
_TIMES = (Sort.TIME, Sort.ZONED_TIME)


class Shape(NamedTuple):
    """What a type must hold. For exact numbers: the digits before the point (``whole``), those
    after it as written (``places``), and without trailing zeros (``least``). For times: ``places``
    are the fractional digits, and ``whole`` is whether a year is out of the range of nanoseconds.
    """

    sort: Sort
    whole: int = 0
    places: int = 0
    least: int = 0

    def join(self, other: Shape) -> Shape:
        """The shape that holds both.

        >>> INTEGER_SHAPE.join(Shape(Sort.DECIMAL, 1, 2, 1)).type
        Decimal128Type(decimal128(38, 2))
        """
        sorts = {self.sort, other.sort}
        if len(sorts) == 1:
            sort = self.sort
        elif sorts <= set(_EXACT):
            sort = Sort.DECIMAL
        else:
            sort = Sort.DOUBLE if sorts <= set(_NUMBERS) else Sort.TERM
        return Shape(sort, *map(max, zip(self[1:], other[1:], strict=True)))

    @property
    def type(self) -> Any:
        """The Arrow type."""
        if self.sort is Sort.DECIMAL:
            for places in (self.places, self.least):
                if self.whole + places <= MOST_DIGITS:
                    return pa.decimal128(MOST_DIGITS, places)
            return TERMS
        if self.sort in _TIMES:
            return pa.time64("ns" if self.places > 6 else "us")
        if self.sort in (Sort.MOMENT, Sort.ZONED_MOMENT):
            unit = "ns" if self.places > 6 and not self.whole else "us"
            return pa.timestamp(unit, "UTC" if self.sort is Sort.ZONED_MOMENT else None)
        return self.sort.value


class Cell(NamedTuple):
    """A term with its value, None if it has none, and the shape that its column needs."""

    term: str
    value: Value | str | None
    shape: Shape
    #: The nanoseconds beyond the microsecond.
    nanoseconds: int = 0


_OTHER = Shape(Sort.TERM)
# The same for all, because most are never read one by one.
INTEGER_SHAPE = Shape(Sort.INTEGER, 19)


def read_cell(term: str) -> Cell:
    """One term. Cost: its length.

    >>> read_cell('"067.50"^^<http://www.w3.org/2001/XMLSchema#decimal>')[1:3]
    (Decimal('67.50'), Shape(sort=<Sort.DECIMAL: None>, whole=2, places=2, least=1))
    """
    parts = parse_term(term)
    if parts.datatype == XSD_STRING:
        return Cell(term, parts.lexical, Shape(Sort.TEXT))
    value = read_lexical(parts.lexical, parts.datatype)
    if value is None:
        return Cell(term, None, _OTHER)
    if isinstance(value, bool):
        return Cell(term, value, Shape(Sort.BOOLEAN))
    if isinstance(value, int | Decimal):
        return Cell(term, value, _measure(value))
    if isinstance(value, float):
        is_single = parts.datatype == XSD + "float"
        return Cell(term, value, Shape(Sort.FLOAT if is_single else Sort.DOUBLE))
    if not isinstance(value, datetime | time):
        return Cell(term, value, Shape(Sort.DATE))
    places, rest = count_places(parts.lexical), read_nanoseconds(parts.lexical)
    if isinstance(value, time):
        sort = Sort.TIME if value.tzinfo is None else Sort.ZONED_TIME
        return Cell(term, value, Shape(sort, 0, places), rest)
    sort = Sort.MOMENT if value.tzinfo is None else Sort.ZONED_MOMENT
    is_far = not _FIRST_YEAR <= value.year <= _LAST_YEAR
    return Cell(term, value, Shape(sort, int(is_far), places), rest)


def _measure(value: int | Decimal) -> Shape:
    if isinstance(value, int):
        if _LEAST_INTEGER <= value <= _MOST_INTEGER:
            return INTEGER_SHAPE
        value = Decimal(value)
    _, digits, exponent = value.as_tuple()
    places = -int(exponent)
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return Shape(
        Sort.DECIMAL, max(len(digits) - places, 0), places, max(places - zeros, 0) if value else 0
    )


def join_shapes(cells: Iterable[Cell], start: Shape | None = None) -> Shape | None:
    """The shape that holds all of these and `start`; None if there are none."""
    shapes = {cell.shape for cell in cells} | ({start} if start is not None else set())
    return reduce(Shape.join, shapes) if shapes else None


def write_cells(cells: Sequence[Cell], shape: Shape) -> Any:
    """An Arrow array of the values, in the type of a shape that holds them."""
    kind = shape.type
    if shape.sort in (Sort.MOMENT, Sort.ZONED_MOMENT) or shape.sort in _TIMES:
        unit = 1000 if kind.unit == "ns" else 1
        counts = [
            count_microseconds(cell.value) * unit + (cell.nanoseconds if unit > 1 else 0)
            for cell in cells
        ]
        return pa.array(counts, pa.int64()).cast(kind)
    if shape.sort is Sort.DOUBLE:
        return pa.array([_to_double(cell.value) for cell in cells], kind)
    if shape.sort is Sort.DECIMAL and kind.scale < shape.places:
        last = Decimal((0, (1,), -kind.scale))
        return pa.array([Decimal(cell.value).quantize(last, None, _WIDE) for cell in cells], kind)  # type: ignore[arg-type]
    return pa.array([cell.value for cell in cells], kind)


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def count_microseconds(value: Any) -> int:
    """Microseconds since 1970, or since midnight, in UTC."""
    if isinstance(value, time):
        value = datetime.combine(date(1970, 1, 2), value)
        since = value - _EPOCH.replace(tzinfo=value.tzinfo and UTC)
        return since // _MICROSECOND % 86_400_000_000  # type: ignore[no-any-return]
    return (value - _EPOCH.replace(tzinfo=value.tzinfo and UTC)) // _MICROSECOND  # type: ignore[no-any-return]
