"""The values of terms as words, in the form that `triegs.maintain.kernels.verdicts` compares."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from struct import Struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.jit.words import Words
from triegs.maintain.kernels.sort_keys import NUMBERS, make_sort_key, sort_number
from triegs.maintain.kernels.verdicts import (
    BOOLEAN,
    DATE,
    DATE_TIME,
    DOUBLE,
    EXACT,
    FLOAT,
    FLOOR,
    FRACTION,
    IDENTITY,
    KEY,
    NAN,
    NOT_READ,
    OPAQUE,
    OTHER,
    SINGLE,
    TEXT,
    VALUE_CLASS,
    VALUE_WORDS,
    ZONED_DATE_TIME,
)
from triegs.sparql.batches import FEW
from triegs.sparql.value_columns import EPOCH_SECONDS, read_moments, read_numbers, take, to_mask
from triegs.sparql.values import (
    Moment,
    MomentKind,
    Number,
    Rank,
    Text,
    round_fraction,
    round_to_float,
    value_of,
)
from triegs.terms.term import Kind, parse_term

#: The unit of fractions: 10**18 parts of one.
PARTS = 10**18
_DOUBLE, _BITS = Struct("<d"), Struct("<q")
_MOMENTS = {MomentKind.DATE_TIME: DATE_TIME, MomentKind.DATE: DATE}


def values_of_integers(integers: Words) -> Words:
    """`value_words` for integers, row by row.

    >>> one = values_of_integers(np.array([1, 2**53 + 1]))
    >>> (one[0] == value_words('"1"^^<http://www.w3.org/2001/XMLSchema#integer>')).all()
    np.True_
    """
    doubles = integers.astype(np.float64)
    values = np.zeros((len(integers), VALUE_WORDS), np.int64)
    values[:, VALUE_CLASS] = _exact_classes(doubles)
    values[:, FLOOR] = integers
    values[:, KEY] = order_keys(doubles)
    return values


def _exact_classes(doubles: NDArray[np.float64]) -> Words:
    return np.where(doubles.astype(np.float32).astype(np.float64) == doubles, SINGLE, EXACT)


def values_of_texts(texts: pa.Array) -> Words:
    """`value_words` for the terms of an Arrow array, row by row."""
    values = np.zeros((len(texts), VALUE_WORDS), np.int64)
    if len(texts) > FEW:
        values[to_mask(pc.starts_with(texts, "<")), VALUE_CLASS] = IDENTITY
        rest = np.flatnonzero(values[:, VALUE_CLASS] == NOT_READ)
        if len(rest):
            _read_usual(take(texts, rest), rest, values)
    rest = np.flatnonzero(values[:, VALUE_CLASS] == NOT_READ)
    if len(rest):
        words = list(map(value_words, take(texts, rest).to_pylist()))
        values[rest] = np.array(words, np.int64)
    return values


def _read_usual(texts: pa.Array, rows: Words, values: Words) -> None:
    """Write the values of numbers and times in their usual spellings to the given rows."""
    numbers, moments = read_numbers(texts), read_moments(texts)
    at, is_double = rows[numbers.rows], numbers.is_double
    values[at, KEY] = order_keys(numbers.doubles)
    values[at, VALUE_CLASS] = np.where(is_double, DOUBLE, _exact_classes(numbers.doubles))
    values[at[~is_double], FLOOR], values[at[~is_double], FRACTION] = numbers.split()
    at = rows[moments.rows]
    seconds, microseconds = np.divmod(moments.microseconds, 10**6)
    values[at, VALUE_CLASS] = ZONED_DATE_TIME
    values[at, FLOOR] = seconds + EPOCH_SECONDS
    values[at, FRACTION] = microseconds * (PARTS // 10**6)


def order_keys(doubles: NDArray[np.float64]) -> Words:
    """Integers in the same order as these numbers, which must not be NaN.

    >>> np.diff(order_keys(np.array([-np.inf, -2.0, -1.0, 0.0, 1e-300, np.inf]))).min() > 0
    np.True_
    """
    bits = (doubles + 0.0).view(np.int64)  # turns -0.0 into 0.0
    return bits ^ ((bits >> 63) & (2**63 - 1))


def value_words(term: str) -> tuple[int, int, int, int]:
    """The class, floor, fraction and key of a term, as `triegs.maintain.kernels.verdicts` compares
    them.

    >>> value_words('"a"') == (TEXT, 0, 0, ord("a") << 55)
    True
    >>> value_words('"-2.5"^^<http://www.w3.org/2001/XMLSchema#decimal>')[:3] == (
    ...     SINGLE, -3, 5 * 10**17)
    True
    """
    value = value_of(term)
    if value is None:
        is_literal = parse_term(term).kind is Kind.LITERAL
        return (OPAQUE if is_literal else IDENTITY), 0, 0, 0
    if isinstance(value, Text):
        return (IDENTITY, 0, 0, 0) if value.language else (TEXT, 0, 0, _text_key(value.text))
    if isinstance(value, bool):
        return BOOLEAN, int(value), 0, 0
    if isinstance(value, Moment):
        kind = _MOMENTS[value.kind] + value.zoned
        return _exact_words(kind, value.seconds, 0) or _sort_moment(kind, value.seconds)
    return _number_words(value)


def _number_words(number: Number) -> tuple[int, int, int, int]:
    if number.rank >= Rank.FLOAT:
        amount = float(number.amount)
        if math.isnan(amount):
            return NAN, 0, 0, 0
        return (FLOAT if number.rank is Rank.FLOAT else DOUBLE), 0, 0, _order_key(amount)
    exact = number.amount
    amount = round_fraction(Fraction(exact), Rank.DOUBLE)
    key = _order_key(amount)
    kind = SINGLE if round_to_float(amount) == amount else EXACT
    return _exact_words(kind, exact, key) or (OTHER, 0, 0, int(sort_number(amount, NUMBERS)))


def _sort_moment(kind: int, seconds: Fraction) -> tuple[int, int, int, int]:
    """A moment with too many digits: an other value, by its sort key."""
    floor = min(max(math.floor(seconds), -(2**62)), 2**62)
    fraction = math.floor((seconds - math.floor(seconds)) * PARTS)
    return OTHER, 0, 0, int(make_sort_key(np.array([kind, floor, fraction, 0]), 0))


def _text_key(text: str) -> int:
    """The first bytes of a text, which order texts that differ there."""
    return int.from_bytes(text[:8].encode("utf-8", "surrogatepass")[:8].ljust(8, b"\0")) >> 1


def _exact_words(
    kind: int, amount: int | float | Decimal | Fraction, key: int
) -> tuple[int, int, int, int] | None:
    """The words of an exact value; None if it has too many digits."""
    numerator, denominator = amount.as_integer_ratio()
    floor, rest = divmod(numerator, denominator)
    fraction, lost = divmod(rest * PARTS, denominator)
    if lost or not -(2**63) <= floor < 2**63:
        return None
    return kind, floor, fraction, key


def _order_key(amount: float) -> int:
    """One of `order_keys`; NumPy would take ten times as long."""
    bits: int = _BITS.unpack(_DOUBLE.pack(amount + 0.0))[0]
    return bits if bits >= 0 else bits ^ (2**63 - 1)
