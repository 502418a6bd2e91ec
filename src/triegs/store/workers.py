"""Arenas of workers: the same nodes, with a header and slots for each worker.

The arena is a file in memory. A worker maps it once more and puts private memory in place of the
pages before the first node. Kernels know nothing of that; see `triegs.store.kernels.workers`.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

from triegs.errors import StateError
from triegs.jit.words import Words
from triegs.shared_memory import find_address, find_mapping, map_for_writing
from triegs.store.kernels.epochs import WALK_WORDS
from triegs.store.kernels.layout import APART, FULL, NODE_WORDS, PAGE_BITS, ROOM_WORDS, START
from triegs.store.kernels.memory import WORD_BYTES
from triegs.store.kernels.workers import (
    GIVEN_WORDS,
    LEAST_NEED,
    LEAST_WORDS,
    NEED_WORDS,
    abort_worker,
    count_held,
    drop_stripes,
    end_worker,
    equip_worker,
    make_pages,
    release_worker,
    settle_worker,
)
from triegs.store.packed import PackedStore

WORDS_PER_UPDATE = 8  # that a worker may take beyond the free nodes that it has
MOST_FACTOR = 64
PAGES_FRACTION = 8  # of a memory limit, for pages that may never be used
HEADER_BYTES = START * WORD_BYTES
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED = 0x10
FAILED = ctypes.c_void_p(-1).value


class WorkerArenas:
    """The arenas of all workers but the first, which is the store's own."""

    def __init__(self, store: PackedStore, workers: int) -> None:
        self._store = store
        self.words = [alias_arena(store.words) for _ in range(workers - 1)]
        self._needs = [np.full(NEED_WORDS, LEAST_NEED, np.int64) for _ in self.words]
        self._walk = np.empty(WALK_WORDS, np.int64)
        self._pages = 0  # ids below have their pages of shared blocks
        self._sweeps = store.sweeps
        self._factor = 1
        store.workers = self

    def make_pages(self, highest: int) -> bool:
        """Make the pages of shared blocks for all ids; false if there is no room for them, or they
        would take a good part of the limit.
        """
        if self._sweeps != self._store.sweeps:
            self._sweeps, self._pages = self._store.sweeps, 0
        if highest < self._pages:
            return True
        limit, needed = self._store.memory_limit, (highest >> PAGE_BITS) * NODE_WORDS * WORD_BYTES
        if limit is not None and PAGES_FRACTION * needed > limit:
            return False
        if not self._store.run(lambda words, _: make_pages(words, self._pages, highest)):
            return False
        self._pages = highest + 1 & -(1 << PAGE_BITS)
        return True

    def equip(self, count: int) -> bool:
        """Give every worker the nodes and words that it lacks for its share of so many updates;
        false if there is no room.
        """
        least = 2 * ROOM_WORDS + self._factor * count * WORDS_PER_UPDATE // (1 + len(self.words))
        for words, need in zip(self.words, self._needs, strict=True):
            need[LEAST_WORDS], need[GIVEN_WORDS] = least, 2 * least
            if not equip_worker(self._store.words, words, need):
                return False
        return True

    def end_epoch(self) -> None:
        """Take over what workers counted; if one had too few words, give them more from now on."""
        for words, need in zip(self.words, self._needs, strict=True):
            end_worker(self._store.words, words, need)
        self._store.words[APART] = 0
        if self._store.faults & FULL and self._factor < MOST_FACTOR:
            self._factor *= 2

    def publish(self, holds: Words) -> None:
        """Process the nodes that workers have retired, before the epoch is published."""
        for words in self.words:
            release_worker(self._store.words, words, holds)

    def abort(self) -> None:
        for words in self.words:
            abort_worker(self._store.words, words)

    def settle(self) -> bool:
        """Take back all that workers hold; returns whether that was anything. Cost: their free
        nodes.
        """
        held = self.count_held()
        for words in self.words:
            settle_worker(self._store.words, words)
        return held > 0

    def count_held(self) -> int:
        """The free words that workers hold."""
        return sum(map(count_held, self.words))

    def drop(self, root: int, shape: int) -> None:
        """Free what a worker made of a relation in an epoch that failed."""
        drop_stripes(self._store.words, self._walk, root, shape)


def alias_arena(words: Words) -> Words:
    """The arena once more, with private words before the first node."""
    mapping = find_mapping(words)
    if mapping is None:
        raise StateError("workers need an arena in shared memory")
    if HEADER_BYTES % mmap.PAGESIZE:
        raise StateError(f"several workers need pages of 8 kB or less, not {mmap.PAGESIZE:,} bytes")
    found = np.frombuffer(map_for_writing(mapping.file), np.int64, words.size)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    at = libc.mmap(find_address(found), HEADER_BYTES, READ_WRITE, flags, -1, 0)
    if at == FAILED:
        raise StateError(f"a worker cannot map its header: {os.strerror(ctypes.get_errno())}")
    return found
