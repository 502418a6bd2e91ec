"""Operators: what a window computes, as functions over a few 64-bit words.

An operator maps a value to a state (`lift`), joins the states of two adjacent runs of events
(`combine`, older run first), and turns the state of a window into a result (`lower`). `combine`
must be associative; it need not be commutative or invertible. A state is a tuple of integers and
floats. The identity fixes their number and types. Overflow is not detected in a user's operator.

>>> SUM.lower(*SUM.combine(SUM.lift(2), SUM.lift(40)))
42
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# `triegs.jit.jit` compiles `lift` and `combine`: this mention makes a change of this file
# invalidate the cache of compiled code.
Values = npt.NDArray[Any]  # of int64 or float64
State = tuple[Any, ...]

LEAST, MOST = -(2**63), 2**63 - 1
HALF = 2**32 - 1
NAN_BITS = 0x7FF8 << 48


def lower_plainly(*state: Any) -> Any:
    """The only word of the state, or all of them."""
    return state[0] if len(state) == 1 else state


@dataclass(frozen=True)
class Operator:
    """An associative function of the values in a window.

    `lift` and `combine` are Python functions that Numba can compile, or compiled ones; they must
    not create arrays. `lower` is plain Python. `commutative` lets `SharedWindows` join events of
    a pane in order of arrival. Kernels are compiled for each operator on first use, in a few
    seconds; only those of the built-in operators are cached on disk.

    >>> product = Operator("product", (1.0,), lambda value: (value,),
    ...                    lambda a, b: (a[0] * b[0],), values=np.float64, commutative=True)
    >>> product.width
    1
    """

    name: str
    identity: State
    lift: Callable[[Any], State]
    combine: Callable[[State, State], State]
    lower: Callable[..., Any] = lower_plainly
    values: type[np.int64] | type[np.float64] = np.int64
    commutative: bool = False
    builtin: bool = False

    def __post_init__(self) -> None:
        if not self.identity or any(type(word) not in (int, float) for word in self.identity):
            raise TypeError(
                f"the identity of {self.name!r} must be a tuple of int and float, "
                f"not {self.identity!r}"
            )

    @property
    def width(self) -> int:
        """The number of words of a state."""
        return len(self.identity)

    def read(self, words: npt.NDArray[np.int64]) -> State:
        """The state in a row of words, as Python numbers."""
        return tuple(
            int(word) if isinstance(kind, int) else float(word.view(np.float64))
            for word, kind in zip(words, self.identity, strict=True)
        )

    def cast(self, values: npt.ArrayLike) -> Values:
        """Values as the array that `lift` takes; refuses a cast that loses digits."""
        found = np.asarray(values)
        if found.size == 0:
            return np.zeros(0, self.values)
        if not np.can_cast(found.dtype, self.values, "safe") and found.dtype != np.int64:
            raise TypeError(f"{self.name} takes {np.dtype(self.values)} values, not {found.dtype}")
        return np.ascontiguousarray(found, self.values)


def lift_count(_value: Any) -> State:
    return (1,)


def add_counts(a: State, b: State) -> State:
    return (a[0] + b[0],)


def lift_sum(value: Any) -> State:
    """A sum is high · 2**32 + low with 0 ≤ low < 2**32: no partial sum overflows."""
    return (value >> 32, value & HALF)


def add_sums(a: State, b: State) -> State:
    low = a[1] + b[1]
    return (a[0] + b[0] + (low >> 32), low & HALF)


def lower_sum(high: int, low: int) -> int:
    total = (high << 32) + low
    if not LEAST <= total <= MOST:
        raise OverflowError(f"the sum {total} does not fit 64 bits")
    return total


def lift_mean(value: Any) -> State:
    return (1, value >> 32, value & HALF)


def add_means(a: State, b: State) -> State:
    low = a[2] + b[2]
    return (a[0] + b[0], a[1] + b[1] + (low >> 32), low & HALF)


def lower_mean(count: int, high: int, low: int) -> float | None:
    """The correctly rounded quotient."""
    return ((high << 32) + low) / count if count else None


def lift_value(value: Any) -> State:
    return (value,)


def keep_least(a: State, b: State) -> State:
    return (min(a[0], b[0]),)


def keep_most(a: State, b: State) -> State:
    return (max(a[0], b[0]),)


def lift_order(value: Any) -> State:
    """An integer that orders doubles: −∞ < … < −0 < 0 < … < ∞ < NaN."""
    bits = np.float64(value).view(np.int64)
    if value != value:
        bits = np.int64(NAN_BITS)
    return (bits if bits >= 0 else bits ^ MOST,)


def lower_order(key: int) -> float:
    bits = key if key >= 0 else key ^ MOST
    return float(np.int64(bits).view(np.float64))


def make_builtin(name: str, identity: State, *functions: Any, values: Any = np.int64) -> Operator:
    lift, combine, lower = functions
    return Operator(
        name, identity, lift, combine, lower, values=values, commutative=True, builtin=True
    )


COUNT = make_builtin("count", (0,), lift_count, add_counts, lower_plainly)
#: Of integers. Exact; a sum that does not fit 64 bits raises `OverflowError` when read.
SUM = make_builtin("sum", (0, 0), lift_sum, add_sums, lower_sum)
#: Of integers, correctly rounded; None for an empty window.
MEAN = make_builtin("mean", (0, 0, 0), lift_mean, add_means, lower_mean)
MIN = make_builtin("min", (MOST,), lift_value, keep_least, lower_plainly)
MAX = make_builtin("max", (LEAST,), lift_value, keep_most, lower_plainly)
#: Of doubles. NaN is the largest value.
MIN_DOUBLE = make_builtin(
    "min_double", (MOST,), lift_order, keep_least, lower_order, values=np.float64
)
MAX_DOUBLE = make_builtin(
    "max_double", (LEAST,), lift_order, keep_most, lower_order, values=np.float64
)
BUILTIN = (COUNT, SUM, MEAN, MIN, MAX, MIN_DOUBLE, MAX_DOUBLE)
