"""The values of many literals at once, equal to those of `values.value_of`: numbers and moments.

Only common spellings are read, for speed and exactness: numbers of up to 15 digits, doubles with
small exponents, times with a four-digit year, a zone and at most microseconds. All others are left
to `value_of`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from triegs.sparql.values import Moment, MomentKind, value_of
from triegs.terms.term import XSD, literal

Rows = NDArray[np.int64]

#: Doubles represent all numbers of so many digits distinctly and in order.
DIGITS = 15
_LONGEST_DOUBLE = 30
# An exponent of two digits cannot overflow.
_NUMBER = (
    r'\A"(?P<lexical>(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<decimals>[0-9]+))?'
    r'(?P<exponent>[eE]-?[0-9]{1,2})?)"'
    rf"\^\^<{re.escape(XSD)}(?P<datatype>integer|long|decimal|double)>\z"
)
# Days that exist in every year, so not the 29th of February.
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
    """Numbers by row: as doubles, and which of them are xsd:double."""

    rows: Rows
    doubles: NDArray[np.float64]
    is_double: NDArray[np.bool_]
    groups: Any

    def split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Floor and 10**18ths of those that are not xsd:double."""
        groups = take(self.groups, np.flatnonzero(~self.is_double))
        padded = pc.ascii_rpad(_field(groups, "decimals"), 18, "0")
        floors, fractions = (
            _to_numpy(pc.cast(texts, pa.int64()), np.int64).copy()
            for texts in (_field(groups, "whole"), padded)
        )
        is_negative = _lengths(_field(groups, "sign")) > 0
        has_rest = fractions > 0
        floors[is_negative] = -floors[is_negative] - has_rest[is_negative]
        fractions[is_negative & has_rest] = 10**18 - fractions[is_negative & has_rest]
        return floors, fractions


class Moments(NamedTuple):
    """Times with a zone by row, in microseconds since 1970."""

    rows: Rows
    microseconds: NDArray[np.int64]


def read_numbers(texts: Any) -> Numbers:
    """The numbers among N-Triples terms in an Arrow array.

    >>> texts = pa.array(["<http://ex/a>", literal("-2.5", XSD + "decimal")])
    >>> numbers = read_numbers(texts)
    >>> numbers.rows.tolist(), numbers.doubles.tolist(), numbers.split()[0].tolist()
    ([1], [-2.5], [-3])
    """
    found = pc.extract_regex(texts, _NUMBER)
    rows = np.flatnonzero(to_mask(found.is_valid()))
    groups = take(found, rows)
    # Groups that did not match are empty.
    length, after_point = _lengths(_field(groups, "lexical")), _lengths(_field(groups, "decimals"))
    datatype = _field(groups, "datatype")
    is_double, is_decimal = (to_mask(pc.match_like(datatype, n)) for n in ("double", "decimal"))
    is_exact = ~is_double & (length <= DIGITS) & (_lengths(_field(groups, "exponent")) == 0)
    is_read = (is_exact & (is_decimal | (after_point == 0))) | (
        is_double & (length <= _LONGEST_DOUBLE)
    )
    groups = take(groups, np.flatnonzero(is_read))
    doubles = _to_numpy(pc.cast(_field(groups, "lexical"), pa.float64()), np.float64)
    return Numbers(rows[is_read], doubles, is_double[is_read], groups)


def read_moments(texts: Any) -> Moments:
    """The times among N-Triples terms in an Arrow array.

    >>> texts = pa.array([literal("1970-01-01T02:00:00.5+02:00", XSD + "dateTime")])
    >>> read_moments(texts).microseconds.tolist()
    [500000]
    """
    found = pc.extract_regex(texts, _MOMENT)
    rows = np.flatnonzero(to_mask(found.is_valid()))
    lexical = _field(take(found, rows), "lexical")
    moments = pc.cast(lexical, pa.timestamp("us", "UTC"))
    return Moments(rows, _to_numpy(pc.cast(moments, pa.int64()), np.int64))


def to_microseconds(moment: Moment) -> int | None:
    """A moment as `read_moments` reads it; None if it does not read it."""
    if moment.kind is not MomentKind.DATE_TIME or not moment.zoned:
        return None
    exact = (moment.seconds - EPOCH_SECONDS) * 10**6
    is_word = exact.denominator == 1 and abs(exact) < 2**63
    return exact.numerator if is_word else None


def take(values: Any, rows: Rows) -> Any:
    """The values at these rows; like `to_mask`, this avoids Arrow's import of pandas."""
    indices = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
    return values.take(indices)


def to_mask(values: Any) -> NDArray[np.bool_]:
    """An Arrow array of booleans without nulls, in NumPy."""
    return _to_numpy(pc.cast(values, pa.uint8()), np.uint8).view(np.bool_)


def _to_numpy(values: Any, kind: type[np.generic]) -> NDArray[Any]:
    if len(values) == 0:
        return np.empty(0, kind)
    start = values.offset * np.dtype(kind).itemsize
    return np.frombuffer(values.buffers()[1], kind, len(values), start)


def _field(groups: Any, name: str) -> Any:
    return pc.struct_field(groups, name)


def _lengths(texts: Any) -> NDArray[Any]:
    return _to_numpy(pc.cast(pc.binary_length(texts), pa.int64()), np.int64)
