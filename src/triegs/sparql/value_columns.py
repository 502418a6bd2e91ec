"""The values of many literals at once, as `values.value_of` has them: numbers and moments.

Only the usual spellings are read here, which is a matter of exactness as well: numbers of up to 15
digits, doubles with small exponents, times in years of four digits with a zone and at most
microseconds. What is read is right; what is not read is for `value_of`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.sparql.values import Moment, MomentKind, value_of
from triegs.terms import XSD, literal

Places = NDArray[np.int64]

#: A double holds each number of so many digits apart from all others, in their order.
DIGITS = 15
_LONGEST_DOUBLE = 30
# An exponent of two digits cannot overflow.
_NUMBER = (
    r'\A"(?P<lexical>(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<places>[0-9]+))?'
    r'(?P<exponent>[eE]-?[0-9]{1,2})?)"'
    rf"\^\^<{re.escape(XSD)}(?P<datatype>integer|long|decimal|double)>\z"
)
# Days that every year has, which leaves out the 29th of February.
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_MOMENT = (
    rf'\A"(?P<lexical>[1-9][0-9]{{3}}-{_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]'
    r'(?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]))"'
    rf"\^\^<{re.escape(XSD)}dateTime>\z"
)
_epoch = value_of(literal("1970-01-01T00:00:00Z", XSD + "dateTime"))
assert isinstance(_epoch, Moment)
#: Seconds of a `Moment` at the epoch of Unix.
EPOCH_SECONDS = int(_epoch.seconds)


class Numbers(NamedTuple):
    """Numbers by their places among the texts: as doubles, and which of them are xsd:double."""

    places: Places
    doubles: NDArray[np.float64]
    is_double: NDArray[np.bool_]
    parts: Any

    def split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Floor and 10**18ths of those that are no xsd:double."""
        parts = take(self.parts, np.flatnonzero(~self.is_double))
        padded = pc.ascii_rpad(_field(parts, "places"), 18, "0")
        floors, fractions = (
            _to_numpy(pc.cast(texts, pa.int64()), np.int64).copy()
            for texts in (_field(parts, "whole"), padded)
        )
        is_negative = _lengths(_field(parts, "sign")) > 0
        has_rest = fractions > 0
        floors[is_negative] = -floors[is_negative] - has_rest[is_negative]
        fractions[is_negative & has_rest] = 10**18 - fractions[is_negative & has_rest]
        return floors, fractions


class Moments(NamedTuple):
    """Times with a zone by their places among the texts, in microseconds since 1970."""

    places: Places
    microseconds: NDArray[np.int64]


def read_numbers(texts: Any) -> Numbers:
    """The numbers among N-Triples terms in an Arrow array.

    >>> texts = pa.array(["<http://ex/a>", literal("-2.5", XSD + "decimal")])
    >>> numbers = read_numbers(texts)
    >>> numbers.places.tolist(), numbers.doubles.tolist(), numbers.split()[0].tolist()
    ([1], [-2.5], [-3])
    """
    found = pc.extract_regex(texts, _NUMBER)
    places = np.flatnonzero(to_mask(found.is_valid()))
    parts = take(found, places)
    # Groups that took no part are empty.
    length, after_point = _lengths(_field(parts, "lexical")), _lengths(_field(parts, "places"))
    datatype = _field(parts, "datatype")
    is_double, is_decimal = (to_mask(pc.match_like(datatype, n)) for n in ("double", "decimal"))
    is_exact = ~is_double & (length <= DIGITS) & (_lengths(_field(parts, "exponent")) == 0)
    is_read = (is_exact & (is_decimal | (after_point == 0))) | (
        is_double & (length <= _LONGEST_DOUBLE)
    )
    parts = take(parts, np.flatnonzero(is_read))
    doubles = _to_numpy(pc.cast(_field(parts, "lexical"), pa.float64()), np.float64)
    return Numbers(places[is_read], doubles, is_double[is_read], parts)


def read_moments(texts: Any) -> Moments:
    """The times among N-Triples terms in an Arrow array.

    >>> texts = pa.array([literal("1970-01-01T02:00:00.5+02:00", XSD + "dateTime")])
    >>> read_moments(texts).microseconds.tolist()
    [500000]
    """
    found = pc.extract_regex(texts, _MOMENT)
    places = np.flatnonzero(to_mask(found.is_valid()))
    lexical = _field(take(found, places), "lexical")
    moments = pc.cast(lexical, pa.timestamp("us", "UTC"))
    return Moments(places, _to_numpy(pc.cast(moments, pa.int64()), np.int64))


def to_microseconds(moment: Moment) -> int | None:
    """A moment as `read_moments` gives it, None if it would not."""
    if moment.kind is not MomentKind.DATE_TIME or not moment.zoned:
        return None
    exact = (moment.seconds - EPOCH_SECONDS) * 10**6
    is_word = exact.denominator == 1 and abs(exact) < 2**63
    return exact.numerator if is_word else None


def take(values: Any, places: Places) -> Any:
    """The values at these places; like `to_mask`, without the pandas that Arrow would import."""
    indices = pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])
    return values.take(indices)


def to_mask(values: Any) -> NDArray[np.bool_]:
    """An Arrow array of booleans without nulls, in NumPy."""
    return _to_numpy(pc.cast(values, pa.uint8()), np.uint8).view(np.bool_)


def _to_numpy(values: Any, kind: type[np.generic]) -> NDArray[Any]:
    if len(values) == 0:
        return np.empty(0, kind)
    start = values.offset * np.dtype(kind).itemsize
    return np.frombuffer(values.buffers()[1], kind, len(values), start)


def _field(parts: Any, name: str) -> Any:
    return pc.struct_field(parts, name)


def _lengths(texts: Any) -> NDArray[Any]:
    return _to_numpy(pc.cast(pc.binary_length(texts), pa.int64()), np.int64)
