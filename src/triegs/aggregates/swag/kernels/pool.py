"""Memory of the window structures: blocks in one array of words.

Freed blocks are listed by size class and reused. Nothing is copied when the pool grows, as long as
the system grants the address space for all memory of the machine; else the array doubles.
"""

from __future__ import annotations

import numpy as np

from triegs.jit.jit import inlined
from triegs.jit.words import Words, load, store
from triegs.store.kernels.memory import measure_machine_words, reserve_words

# The header: the end of the used words, then a list of free blocks per class.
BUMP, FREE, HEADER_WORDS = 0, 1, 16
SMALLEST_WORDS = 1 << 15


def make_pool(*, reserve: bool = True) -> Words:
    """An empty pool. Memory is taken page by page, on first use."""
    wanted = measure_machine_words() if reserve else 0
    words: Words | None = None
    while words is None and wanted >= SMALLEST_WORDS:
        words = reserve_words(wanted)
        wanted //= 2
    if words is None:
        words = np.zeros(SMALLEST_WORDS, np.int64)
    words[BUMP] = HEADER_WORDS
    return words


def grow_pool(words: Words) -> Words:
    """A copy of twice the size."""
    larger = np.zeros(2 * words.size, np.int64)
    larger[: words.size] = words
    return larger


@inlined
def has_room(words: Words, count: int) -> bool:
    """Whether this many words are unused at the end."""
    return load(words, BUMP) + count <= words.size


@inlined
def take_block(words: Words, kind: int, size: int) -> int:
    """A block with arbitrary contents: a free one of its class, else a new one."""
    block = load(words, FREE + kind)
    if block != 0:
        store(words, FREE + kind, load(words, block))
        return block
    block = load(words, BUMP)
    store(words, BUMP, block + size)
    return block


@inlined
def free_block(words: Words, kind: int, block: int) -> None:
    store(words, block, load(words, FREE + kind))
    store(words, FREE + kind, block)
