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
from triegs.store.kernels.layout import (
    APART,
    CLASSES,
    PAGE_BITS,
    ROOM_WORDS,
    START,
)
from triegs.store.kernels.memory import WORD_BYTES
from triegs.store.kernels.workers import (
    GIFT_WORDS,
    LEAST_GIFT,
    collect_worker,
    drop_stripes,
    equip_worker,
    make_pages,
)
from triegs.store.packed import PackedStore

WORDS_PER_UPDATE = 48  # that a worker may take beyond the free nodes that it is given
HEADER_BYTES = START * WORD_BYTES
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED = 0x10
FAILED = ctypes.c_void_p(-1).value


class WorkerArenas:
    """The arenas of all workers but the first, which is the store's own."""

    def __init__(self, store: PackedStore, workers: int) -> None:
        self._store = store
        self.words = [alias_arena(store.words) for _ in range(workers - 1)]
        self._gifts = [np.full(GIFT_WORDS, LEAST_GIFT, np.int64) for _ in self.words]
        self._equipped: list[int] = []
        self._walk = np.empty(WALK_WORDS, np.int64)
        self._pages = 0  # ids below have their pages of shared blocks
        self._sweeps = store.sweeps

    def make_pages(self, highest: int) -> bool:
        """Make the pages of shared blocks for all ids; false if there is no room for them."""
        if self._sweeps != self._store.sweeps:
            self._sweeps, self._pages = self._store.sweeps, 0
        if highest < self._pages:
            return True
        if not self._store.run(lambda words, _: make_pages(words, self._pages, highest)):
            return False
        self._pages = highest + 1 & -(1 << PAGE_BITS)
        return True

    def equip(self, count: int) -> bool:
        """Give every worker nodes and words for a share of so many updates; false if there is no
        room.
        """
        room = 4 * ROOM_WORDS + 2 * (WORDS_PER_UPDATE // 2) * count
        for number, (words, gift) in enumerate(zip(self.words, self._gifts, strict=True)):
            gift[CLASSES] = room
            if not equip_worker(self._store.words, words, gift):
                self.collect()
                return False
            self._equipped.append(number)
        return True

    def collect(self) -> None:
        """Take back what the workers hold."""
        own = self._store.words
        for number in reversed(self._equipped):
            collect_worker(own, self.words[number], self._gifts[number])
        self._equipped.clear()
        own[APART] = 0

    def drop(self, root: int, shape: int) -> None:
        """Free what a worker made of a relation in an epoch that failed."""
        drop_stripes(self._store.words, self._walk, root, shape)


def alias_arena(words: Words) -> Words:
    """The arena once more, with private words before the first node."""
    mapping = find_mapping(words)
    if mapping is None or HEADER_BYTES % mmap.PAGESIZE:
        raise StateError("workers need an arena in shared memory")
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
