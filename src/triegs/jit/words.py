"""Bits and words: what the machine has an instruction for and Python has not.

Each is written in Python; compiled code takes the intrinsic of the same name instead. Words are
signed: a bitmap is a word whose sign means nothing. Indices go through `load` and `store`, which
make them unsigned: a signed index costs a test for wrap-around on each access. Signed and unsigned
never meet in arithmetic, because Numba makes floats of that.

>>> trailing_zeros(40), population(41)
(3, 3)
>>> checked_add(2**62, 2**62)[1], checked_multiply(3, 5)
(True, (15, False))
"""

from __future__ import annotations

from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from triegs.jit import intrinsics
from triegs.jit.jit import BOUNDS_CHECKED, compiled_as, inlined

Words = npt.NDArray[np.int64]


@inlined
def load(words: Words, at: int) -> int:
    """The word at an index that is not negative."""
    word: int = words[np.uint64(at)]
    return word


@inlined
def store(words: Words, at: int, word: int) -> None:
    words[np.uint64(at)] = word


@inlined
def bit(index: int) -> int:
    """The word with this one bit; bit 63 is the sign."""
    word: int = np.int64(1) << np.int64(index)  # type: ignore[assignment]
    return word


@compiled_as(intrinsics.trailing_zeros)
def trailing_zeros(word: int) -> int:
    """The index of the lowest bit of a word that is not zero."""
    word = int(word) & (2**64 - 1)
    return (word & -word).bit_length() - 1


@compiled_as(intrinsics.population)
def population(word: int) -> int:
    """The number of bits that are set."""
    return (int(word) & (2**64 - 1)).bit_count()


@compiled_as(intrinsics.read_ticks)
def read_ticks() -> int:
    """A counter that runs at a steady rate, of no unit that the code knows; about 10 ns."""
    return perf_counter_ns()


def check_word(result: int) -> tuple[int, bool]:
    fits = -(2**63) <= result < 2**63
    return result if fits else 0, not fits


@compiled_as(intrinsics.checked_add)
def checked_add(a: int, b: int) -> tuple[int, bool]:
    """The sum, and whether it overflows; then the sum means nothing."""
    return check_word(int(a) + int(b))


@compiled_as(intrinsics.checked_multiply)
def checked_multiply(a: int, b: int) -> tuple[int, bool]:
    """The product, and whether it overflows; then the product means nothing."""
    return check_word(int(a) * int(b))


@compiled_as(intrinsics.move_words)
def move_words(words: Words, target: int, source: int, count: int) -> None:
    """Copy without a check of bounds."""
    words[target : target + count] = words[source : source + count]


@compiled_as(intrinsics.prefetch)
def prefetch(words: Words, at: int) -> None:
    """Ask for the cache line of a word without waiting for it; any index will do."""


@inlined
def copy_words(words: Words, target: int, source: int, count: int) -> None:
    """Copy words to another place of the array; the places do not overlap."""
    if BOUNDS_CHECKED and count > 0:  # the intrinsic itself is not checked
        load(words, target + count - 1)
        load(words, source + count - 1)
    move_words(words, target, source, count)
