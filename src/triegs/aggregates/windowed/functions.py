"""The functions of window aggregates, by name: how values are kept, and how states become results.

============  =========================================  ==================================
function      of doubles                                 of integers
============  =========================================  ==================================
``count``     a count; values are not read               the same
``sum``       `ExactSums`: exact, then rounded once      `SUM`: exact
``avg``       the rounded sum by the count               `MEAN`: rounded once
``min``       `MIN_DOUBLE`                               `MIN`
``max``       `MAX_DOUBLE`                               `MAX`
============  =========================================  ==================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.operators import (
    LEAST,
    MAX,
    MAX_DOUBLE,
    MEAN,
    MIN,
    MIN_DOUBLE,
    MOST,
    SUM,
    Operator,
)
from triegs.jit.words import Words

FunctionName = Literal["count", "sum", "avg", "min", "max"]
NumbersName = Literal["double", "integer"]


class Method(Enum):
    """How a function is maintained."""

    COUNTS = "counts"
    SUMS = "exact sums"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Function:
    """What is computed over the values of a group in a window."""

    name: str
    method: Method
    #: The type of values; None if they are not read.
    values: type[np.int64] | type[np.float64] | None
    operator: Operator | None = None

    @property
    def width(self) -> int:
        """The number of words of a result."""
        return 1 if self.operator is None else self.operator.width

    def make_identity(self) -> Words:
        """The state of an empty window, as words."""
        if self.operator is None:
            return np.zeros(1, np.int64)
        words = [
            np.int64(word) if isinstance(word, int) else np.float64(word).view(np.int64)
            for word in self.operator.identity
        ]
        return np.array(words, np.int64)

    def lower(self, states: Words, counts: Words) -> list[Any] | npt.NDArray[Any]:
        """The results of windows by their states, a row of words each, and numbers of values: an
        array, or a list with None for a window without a result.
        """
        if self.method is Method.COUNTS:
            return counts
        if self.method is Method.SUMS:
            sums = np.ascontiguousarray(states[:, 0]).view(np.float64)
            if self.name == "sum":
                return sums + 0.0  # SPARQL's sums begin with 0, so there is no -0
            return clear_empty(sums / np.maximum(counts, 1), counts)
        assert self.operator is not None
        if self.operator is SUM:
            return lower_sums(states)
        if self.operator in (MIN, MAX):
            return clear_empty(states[:, 0], counts)
        if self.operator in (MIN_DOUBLE, MAX_DOUBLE):
            keys = states[:, 0]
            return clear_empty(np.where(keys >= 0, keys, keys ^ MOST).view(np.float64), counts)
        return [self.operator.lower(*self.operator.read(row)) for row in states]


def clear_empty(column: npt.NDArray[Any], counts: Words) -> list[Any] | npt.NDArray[Any]:
    """The column with None for windows without values."""
    if (counts > 0).all():
        return column
    return [value if count else None for value, count in zip(column, counts, strict=True)]


def lower_sums(states: Words) -> npt.NDArray[np.int64]:
    """Sums that fit 64 bits, from their two words; OverflowError for one that does not."""
    high, low = states[:, 0], states[:, 1]
    is_large = (high < LEAST >> 32) | (high > MOST >> 32)
    if is_large.any():
        row = states[np.flatnonzero(is_large)[0]]
        total = (int(row[0]) << 32) + int(row[1])
        raise OverflowError(f"the sum {total} does not fit 64 bits")
    found: npt.NDArray[np.int64] = (high << 32) + low
    return found


_DOUBLE = np.float64
_INTEGER = np.int64
FUNCTIONS: dict[tuple[str, str], Function] = {
    ("sum", "double"): Function("sum", Method.SUMS, _DOUBLE),
    ("avg", "double"): Function("avg", Method.SUMS, _DOUBLE),
    ("min", "double"): Function("min", Method.OPERATOR, _DOUBLE, MIN_DOUBLE),
    ("max", "double"): Function("max", Method.OPERATOR, _DOUBLE, MAX_DOUBLE),
    ("sum", "integer"): Function("sum", Method.OPERATOR, _INTEGER, SUM),
    ("avg", "integer"): Function("avg", Method.OPERATOR, _INTEGER, MEAN),
    ("min", "integer"): Function("min", Method.OPERATOR, _INTEGER, MIN),
    ("max", "integer"): Function("max", Method.OPERATOR, _INTEGER, MAX),
}
COUNT_FUNCTION = Function("count", Method.COUNTS, None)
NAMES = ("count", "sum", "avg", "min", "max")


def find_function(function: str | Operator, numbers: str) -> Function:
    """A function by name and type of values, or that of an operator.

    >>> find_function("max", "double").operator.name
    'max_double'
    """
    if isinstance(function, Operator):
        return Function(function.name, Method.OPERATOR, function.values, function)
    if function == "count":
        return COUNT_FUNCTION
    return FUNCTIONS[function, numbers]
