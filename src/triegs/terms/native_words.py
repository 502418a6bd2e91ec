"""Native values as 64-bit words, and columns made of them.

By the sort of a value (`triegs.terms.native`), its word is:

========================  ==========================================================================
integer                   the value
decimal                   the digits as written, without the point
float, double             the bits of the double
boolean; date             0 or 1; days since 1970
time, dateTime            microseconds, or nanoseconds if the term has more digits and they fit; of
                          UTC, since midnight or 1970
========================  ==========================================================================

A decimal or integer that does not fit, a negative zero that is exact, texts, and all other terms
have no word. A column with one of them is made from its terms instead, as is one whose words do not
fit the scale that all its values have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import reduce
from struct import pack, unpack
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.terms.arrays import Words
from triegs.terms.native import Cell, Shape, Sort, count_microseconds

Codes: TypeAlias = NDArray[np.uint16]

_MOST = 2**63 - 1
_FIRST_DAY = date(1970, 1, 1).toordinal()
# Up to these, a number and its power of ten are exact doubles, so that their quotient is the double
# nearest to the decimal.
_MOST_EXACT, _MOST_POWER = 2**53, 22

_CLOCKS = (Sort.TIME, Sort.ZONED_TIME, Sort.MOMENT, Sort.ZONED_MOMENT)
_APPROXIMATE = (Sort.FLOAT, Sort.DOUBLE)


class Kind(NamedTuple):
    """What terms of one code have in common."""

    shape: Shape
    has_words: bool

    @property
    def places(self) -> int:
        """The digits of a word behind the point; those of seconds for times."""
        if self.shape.sort in _CLOCKS:
            return 9 if self.shape.places > 6 and not self.shape.whole else 6
        return self.shape.places


def pack_cell(cell: Cell) -> tuple[Kind, int]:
    """The kind of a term, and its word, 0 if it has none.

    >>> from triegs.terms.native import read_cell
    >>> pack_cell(read_cell('"67.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'))[1]
    6750
    """
    value: Any = cell.value
    sort = cell.shape.sort
    word: int | None = None
    if sort in (Sort.INTEGER, Sort.BOOLEAN):
        word = int(value)
    elif sort is Sort.DECIMAL:
        word = _pack_decimal(value)
    elif sort in _APPROXIMATE:
        word = unpack("=q", pack("=d", value))[0]
    elif sort is Sort.DATE:
        word = value.toordinal() - _FIRST_DAY
    elif sort in _CLOCKS:
        word = count_microseconds(value)
        if Kind(cell.shape, True).places == 9:
            word = 1000 * word + cell.nanoseconds
    return Kind(cell.shape, word is not None), word or 0


def _pack_decimal(value: Any) -> int | None:
    if not isinstance(value, Decimal) or (value.is_zero() and value.is_signed()):
        return None
    sign, digits, _ = value.as_tuple()
    if len(digits) > 19:
        return None
    word = int("".join(map(str, digits)))
    return None if word > _MOST else -word if sign else word


class NativeBatch(NamedTuple):
    """The values of a column of ids."""

    #: By row; 0 for unbound.
    words: Words
    codes: Codes
    #: The codes of all rows but unbound ones.
    kinds: Mapping[int, Kind]
    nulls: NDArray[np.bool_] | None

    def join(self, start: Shape | None) -> Shape | None:
        """The shape that holds all values and `start`; None if there are none. It costs the same
        for any number of rows.
        """
        shapes = {kind.shape for kind in self.kinds.values()}
        if start is not None:
            shapes.add(start)
        return reduce(Shape.join, shapes) if shapes else None

    def write(self, shape: Shape) -> Any:
        """An Arrow array of the type of a shape that holds all values; None if not all have words
        that fit it. Cost: the rows.
        """
        if not all(kind.has_words for kind in self.kinds.values()):
            return None
        if shape.sort is Sort.DOUBLE:
            numbers = self._to_doubles()
            return None if numbers is None else self._wrap(shape.type, numbers)
        write = _WRITERS.get(shape.sort)
        words = None if write is None else self._scale(_count_places(shape))
        return None if write is None or words is None else self._wrap(shape.type, write(words))

    def _scale(self, places: int) -> Words | None:
        """The words with that many digits behind the point; None if one does not fit."""
        powers = {code: places - kind.places for code, kind in self.kinds.items()}
        if not any(powers.values()):
            return self.words
        factors, divisors, limits = (self._tabulate(start) for start in (1, 1, _MOST))
        for code, power in powers.items():
            if power < 0:  # what it drops is zero, or less than a microsecond
                divisors[code] = 10 ** min(-power, 18)
            else:
                limits[code] = _MOST // 10**power
                factors[code] = 10**power if power <= 18 else 0
        if not self._is_within(limits):
            return None
        scaled = self.words * factors[self.codes]
        return scaled // divisors[self.codes] if min(powers.values()) < 0 else scaled

    def _to_doubles(self) -> NDArray[np.float64] | None:
        bits = self.words.view(np.float64)
        exact = {c: k for c, k in self.kinds.items() if k.shape.sort not in _APPROXIMATE}
        if not exact:
            return bits
        limits, is_exact = self._tabulate(_MOST), self._tabulate(0)
        divisors = np.ones(len(limits))
        for code, kind in exact.items():
            is_exact[code] = 1
            if kind.places:
                limits[code] = _MOST_EXACT if kind.places <= _MOST_POWER else 0
                divisors[code] = 10.0 ** min(kind.places, _MOST_POWER)
        if not self._is_within(limits):
            return None
        return np.where(is_exact[self.codes] != 0, self.words / divisors[self.codes], bits)

    def _tabulate(self, start: int) -> Words:
        """A table by code."""
        return np.full(max(self.kinds, default=0) + 2, start, np.int64)

    def _is_within(self, limits: Words) -> bool:
        most, least = limits, np.where(limits == _MOST, ~limits, -limits)
        is_out = (self.words > most[self.codes]) | (self.words < least[self.codes])
        return not bool(is_out.any())

    def _wrap(self, kind: Any, data: NDArray[Any]) -> Any:
        bits = None if self.nulls is None else _pack_bits(~self.nulls)
        buffers = [bits, pa.py_buffer(np.ascontiguousarray(data))]
        return pa.Array.from_buffers(kind, len(self.words), buffers)


def _count_places(shape: Shape) -> int:
    """The digits behind the point in a column of this shape."""
    if shape.sort is Sort.DECIMAL:
        return int(shape.type.scale)
    if shape.sort in _CLOCKS:
        return 9 if shape.type.unit == "ns" else 6
    return 0


def _pack_bits(flags: NDArray[Any]) -> Any:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _widen(words: Words) -> Words:
    """Numbers of 128 bits."""
    wide = np.empty((len(words), 2), np.int64)
    wide[:, 0] = words
    wide[:, 1] = words >> 63
    return wide


_WRITERS: dict[Sort, Callable[[Words], NDArray[Any]]] = {
    Sort.INTEGER: lambda words: words,
    Sort.DECIMAL: _widen,
    Sort.FLOAT: lambda words: words.view(np.float64).astype(np.float32),
    Sort.BOOLEAN: lambda words: np.packbits(words != 0, bitorder="little"),
    Sort.DATE: lambda words: words.astype(np.int32),
    **dict.fromkeys(_CLOCKS, lambda words: words),
}
