"""The array of an arena: address space that is reserved once and never moves, if the system allows.

Reserving costs microseconds; the system provides memory page by page on first write. If it refuses,
the array starts small and grows by copying. Readers of versions may keep using the smaller one: the
nodes they can reach in it never change.
"""

from __future__ import annotations

import mmap
import os
import platform
import sys
from contextlib import suppress

import numpy as np

from triegs.jit.words import Words
from triegs.store.kernels.layout import BUMP, EPOCH, LIMIT, ROOM_WORDS, START

WORD_BYTES = 8
# Reserved memory must not count as used, or a process with a few arenas could not fork. Python has
# a name for the flag since 3.13; on other processors Linux uses other numbers for it.
_NUMBER = 0x4000 if sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"} else 0
NORESERVE = getattr(mmap, "MAP_NORESERVE", _NUMBER)
SMALLEST_RESERVE_WORDS = 1 << 23  # 64 MB: below that, growing is cheap enough
FIRST_WORDS = START + (1 << 17)  # of a growing array


def measure_machine_words() -> int:
    """The words that the machine's memory can hold; 2 GB if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // WORD_BYTES
    except (AttributeError, ValueError, OSError):
        return (1 << 31) // WORD_BYTES


def reserve_words(count: int) -> Words | None:
    """Zeroed words at a fixed address, in huge pages if available; None if refused."""
    if not hasattr(mmap, "MAP_PRIVATE") or not hasattr(mmap, "MAP_ANONYMOUS"):
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    try:
        mapping = mmap.mmap(-1, count * WORD_BYTES, flags=flags)
    except (OSError, ValueError, OverflowError):
        return None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without it
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, dtype=np.int64)


def slack_words(limit_words: int) -> int:
    """The amount by which an arena may exceed its limit while memory is being freed: a copy of
    every node, the lists of copied nodes (at most an eighth of that), and the room of a change. The
    other eighth is for fragmented free space.
    """
    return limit_words + limit_words // 4 + 2 * ROOM_WORDS


def give_back(words: Words, first: int) -> None:
    """Return memory from a word on to the system, as zeros; only for reserved arrays."""
    base: object = words.base
    mapping = base.obj if isinstance(base, memoryview) else base
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = -(-first * WORD_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
        with suppress(OSError):
            mapping.madvise(mmap.MADV_DONTNEED, start)


def begin_arena(words: Words, limit: int) -> Words:
    """Write the header of an empty arena, in its first epoch."""
    words[BUMP] = START
    words[LIMIT] = limit
    words[EPOCH] = 1
    return words


def make_arena(limit_words: int | None = None, *, reserve: bool = True) -> Words:
    """An empty arena; `limit_words` bounds the size of its nodes.

    >>> words = make_arena(limit_words=100_000, reserve=False)
    >>> int(words[LIMIT]) - START
    100000
    """
    wanted = measure_machine_words() if limit_words is None else START + limit_words
    while reserve and wanted >= SMALLEST_RESERVE_WORDS:
        slack = 0 if limit_words is None else slack_words(limit_words)
        if (words := reserve_words(wanted + slack)) is not None:
            return begin_arena(words, wanted)
        if limit_words is not None:
            break
        wanted //= 2
    first = FIRST_WORDS if limit_words is None else min(FIRST_WORDS, START + limit_words)
    return begin_arena(np.zeros(first, np.int64), first)


def grow_arena(words: Words, limit_words: int | None) -> Words | None:
    """A copy of twice the size; None if the limit is reached. Cost: a copy of everything."""
    wanted = 2 * words.size
    if limit_words is not None:
        wanted = min(wanted, START + limit_words)
    if wanted <= words.size:
        return None
    return copy_arena(words, wanted)


def copy_arena(words: Words, size: int) -> Words:
    larger = np.zeros(size, np.int64)
    larger[: words.size] = words
    larger[LIMIT] = size
    return larger
