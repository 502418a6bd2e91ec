"""Bit and word operations that have a machine instruction but no Python operator.

Each is written in Python; compiled code uses the intrinsic of the same name instead. Words are
signed; the sign of a bitmap has no meaning. Indices go through `load` and `store`, which make them
unsigned: a signed index costs a wrap-around test on each access. Never mix signed and unsigned in
arithmetic, because Numba converts the result to float.

>>> trailing_zeros(40), population(41)
(3, 3)
>>> checked_add(2**62, 2**62)[1], checked_multiply(3, 5)
(True, (15, False))
"""

from __future__ import annotations

import ctypes
import threading
import time
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from triegs.jit import intrinsics
from triegs.jit.jit import BOUNDS_CHECKED, COMPILED, compiled_as, inlined

Words = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Numbers = Words | Ids
WIDE = intrinsics.WIDE
LINE_WORDS = 8  # words per cache line


@inlined
def load(words: Words, at: int) -> int:
    """The word at a nonnegative index."""
    word: int = words[np.uint64(at)]
    return word


@inlined
def store(words: Words, at: int, word: int) -> None:
    words[np.uint64(at)] = word


@compiled_as(intrinsics.fetch_half)
def fetch_half(words: Words, at: int) -> int:
    """Like `load_half`, without bounds checks."""
    word = int(words[at >> 1])
    return (word >> 32 if at & 1 else word) & 0xFFFFFFFF


@compiled_as(intrinsics.put_half)
def put_half(words: Words, at: int, half: int) -> None:
    """Like `store_half`, without bounds checks."""
    words.view(np.uint32)[at] = half


@compiled_as(intrinsics.match_halves)
def match_halves(words: Words, at: int, half: int) -> int:
    """A bitmap of those of `WIDE` adjacent halves that equal one, without bounds checks."""
    halves = words.view(np.uint32)[at : at + WIDE]
    return sum(1 << lane for lane, found in enumerate(halves) if found == half)


@compiled_as(intrinsics.widen_halves)
def widen_halves(out: Words, to: int, words: Words, at: int) -> None:
    """Copy `WIDE` adjacent halves to words, without bounds checks."""
    out[to : to + WIDE] = words.view(np.uint32)[at : at + WIDE]


@inlined
def load_half(words: Words, at: int) -> int:
    """Half a word, as a nonnegative number; a word has two, the low one first."""
    if BOUNDS_CHECKED:
        load(words, at >> 1)
    return fetch_half(words, at)


@inlined
def store_half(words: Words, at: int, half: int) -> None:
    if BOUNDS_CHECKED:
        load(words, at >> 1)
    put_half(words, at, half)


@inlined
def bit(index: int) -> int:
    """The word with only this bit set; bit 63 is the sign."""
    word: int = np.int64(1) << np.int64(index)  # type: ignore[assignment]
    return word


@compiled_as(intrinsics.trailing_zeros)
def trailing_zeros(word: int) -> int:
    """The index of the lowest set bit of a nonzero word."""
    word = int(word) & (2**64 - 1)
    return (word & -word).bit_length() - 1


@compiled_as(intrinsics.population)
def population(word: int) -> int:
    """The number of set bits."""
    return (int(word) & (2**64 - 1)).bit_count()


@compiled_as(intrinsics.read_ticks)
def read_ticks() -> int:
    """A counter that runs at a steady rate in an unspecified unit; costs about 10 ns."""
    return perf_counter_ns()


def check_word(result: int) -> tuple[int, bool]:
    fits = -(2**63) <= result < 2**63
    return result if fits else 0, not fits


@compiled_as(intrinsics.checked_add)
def checked_add(a: int, b: int) -> tuple[int, bool]:
    """The sum, and whether it overflows; on overflow the sum is meaningless."""
    return check_word(int(a) + int(b))


@compiled_as(intrinsics.checked_subtract)
def checked_subtract(a: int, b: int) -> tuple[int, bool]:
    """The difference, and whether it overflows; on overflow the difference is meaningless."""
    return check_word(int(a) - int(b))


@compiled_as(intrinsics.checked_multiply)
def checked_multiply(a: int, b: int) -> tuple[int, bool]:
    """The product, and whether it overflows; on overflow the product is meaningless."""
    return check_word(int(a) * int(b))


@compiled_as(intrinsics.move_words)
def move_words(words: Words, target: int, source: int, count: int) -> None:
    """Copy without bounds checks."""
    words[target : target + count] = words[source : source + count]


@compiled_as(intrinsics.prefetch)
def prefetch(words: Words, at: int) -> None:
    """Request the cache line of a word without waiting for it; any index is allowed."""


@inlined
def copy_words(words: Words, target: int, source: int, count: int) -> None:
    """Copy words within the array; the ranges must not overlap."""
    if BOUNDS_CHECKED and count > 0:  # the intrinsic itself is unchecked
        load(words, target + count - 1)
        load(words, source + count - 1)
    move_words(words, target, source, count)


@compiled_as(intrinsics.spread)
def spread(numbers: Numbers, at: int, number: int) -> None:
    """Write a number to `WIDE` adjacent words, without bounds checks."""
    numbers[at : at + WIDE] = number


@compiled_as(intrinsics.copy_wide)
def copy_wide(numbers: Numbers, to: int, source: Numbers, start: int) -> None:
    """Copy `WIDE` numbers of the same type, without bounds checks."""
    numbers[to : to + WIDE] = source[start : start + WIDE]


@inlined
def write_run(numbers: Numbers, at: int, number: int, size: int) -> None:
    """Write a number to `size` adjacent words, and anything to less than `WIDE` after them."""
    if BOUNDS_CHECKED and size > 0:
        load(numbers, at + size - 1 + (-size) % WIDE)  # type: ignore[arg-type]
    for step in range(0, size, WIDE):
        spread(numbers, at + step, number)


@inlined
def copy_run(numbers: Numbers, to: int, source: Numbers, start: int, size: int) -> None:
    """Copy `size` numbers, and anything to less than `WIDE` words after them; both arrays must
    have these.
    """
    if BOUNDS_CHECKED and size > 0:
        load(numbers, to + size - 1 + (-size) % WIDE)  # type: ignore[arg-type]
        load(source, start + size - 1 + (-size) % WIDE)  # type: ignore[arg-type]
    for step in range(0, size, WIDE):
        copy_wide(numbers, to + step, source, start + step)


@compiled_as(intrinsics.release_lock)
def release_lock() -> int:
    """Let other threads run Python until `take_lock`. Only for a kernel that Python calls and that
    holds the interpreter's lock, which is to say a `short_kernel`.

    So one kernel serves short work, for which the lock would take longer to change hands, and long
    work. Returns what `take_lock` needs.
    """
    return 0


@compiled_as(intrinsics.take_lock)
def take_lock(state: int) -> None:
    """Wait for the interpreter's lock again."""


_exchanging = threading.Lock()


@compiled_as(intrinsics.swap_shared)
def swap_shared(words: Words, at: int, word: int) -> int:
    """Replace a word that several threads use, in one step; returns the word before."""
    with _exchanging:
        before = int(words[at])
        words[at] = word
    return before


@compiled_as(intrinsics.add_shared)
def add_shared(words: Words, at: int, change: int) -> int:
    """Add to a word that several threads use, in one step; returns the word before."""
    with _exchanging:
        before = int(words[at])
        words[at] = before + change
    return before


@compiled_as(intrinsics.load_shared)
def load_shared(words: Words, at: int) -> int:
    """Read a word that several threads use: what was stored before it was written is visible."""
    return int(words[at])


@compiled_as(intrinsics.give_way)
def give_way() -> int:
    """Let another thread have the processor."""
    time.sleep(0)
    return 0


#: The C functions that kernels call by their addresses: ``crc32`` of zlib, and ``pwrite``.
CHECKSUM = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_uint)
WRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
)


@compiled_as(intrinsics.checksum_bytes)
def checksum_bytes(function: int, start: int, size: int) -> int:
    """The CRC-32 of so many bytes at an address: a multiple of 8, and at least 16.

    Unless the processor has an instruction that helps, a function at another address computes it.
    """
    return int(CHECKSUM(int(function))(0, int(start), int(size)))


@compiled_as(intrinsics.call_write)
def call_write(function: int, file: int, start: int, size: int, offset: int) -> int:
    """Write so many bytes at an address to a file, at an offset, by a function at another address.
    Returns how many were written, or -1.
    """
    return int(WRITE(int(function))(int(file), int(start), int(size), int(offset)))


def _choose_view(intrinsic: Any, element: Any) -> Any:
    """A kernel calls the intrinsic itself: without reference counts, it may call no function that
    returns an array of its own.
    """

    def view(address: int, size: int) -> Any:
        if size == 0:
            return np.empty(0, element)
        return np.ctypeslib.as_array((element * int(size)).from_address(int(address)))

    return intrinsic if COMPILED else view


#: So many elements at an address, to be read only; the caller keeps their owner alive.
view_words = _choose_view(intrinsics.view_words, ctypes.c_int64)
view_halves = _choose_view(intrinsics.view_halves, ctypes.c_int32)
view_bytes = _choose_view(intrinsics.view_bytes, ctypes.c_uint8)
view_signs = _choose_view(intrinsics.view_signs, ctypes.c_int8)
#: As `view_words`, to be written, too.
edit_words = _choose_view(intrinsics.edit_words, ctypes.c_int64)
edit_halves = _choose_view(intrinsics.edit_halves, ctypes.c_int32)
edit_bytes = _choose_view(intrinsics.edit_bytes, ctypes.c_uint8)
