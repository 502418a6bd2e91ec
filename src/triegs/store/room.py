"""Space in the arena of a packed store: used and free words, and compaction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triegs.jit.words import Words
from triegs.shared_memory import remove_from
from triegs.store.kernels.compaction import SPAN, compact_arena, mark_version, sweep_pages
from triegs.store.kernels.layout import (
    BUMP,
    CLASSES,
    FREE_COUNT,
    ROOM_WORDS,
    RUN_WORDS,
    SHARED_NODES,
    START,
)
from triegs.store.kernels.memory import WORD_BYTES, give_back

CLASS_WORDS = (6, 10, 18, 34, 66, 98)
#: Inserts leave this much free under a limit, enough for one change.
RESERVE_BYTES = ROOM_WORDS * WORD_BYTES
#: A limit may be exceeded by, and a store may hold as unusable free space, 1 / LIMIT_FRACTION.
LIMIT_FRACTION = 16


def count_free(words: Words) -> int:
    """The words on the free lists."""
    counts = words[FREE_COUNT : FREE_COUNT + CLASSES].tolist()
    return int(words[RUN_WORDS]) + sum(map(int.__mul__, counts, CLASS_WORDS))


def count_used(words: Words) -> int:
    """The words of all nodes, live and retained."""
    return int(words[BUMP]) - START - count_free(words)


def sweep(words: Words, walk: Words, versions: Sequence[tuple[Words, Words]]) -> bool:
    """Free the pages of shared blocks that no version uses, given the roots and shapes of all;
    returns whether there were any. Costs a visit of each node.
    """
    used = np.zeros((int(words[BUMP]) - START) // SPAN + 1, np.int64)
    before = int(words[SHARED_NODES])
    for roots, shapes in versions:
        mark_version(words, walk, used, roots, shapes)
    sweep_pages(words, walk, used, True)
    return int(words[SHARED_NODES]) < before


def compact(words: Words, walk: Words, shapes: Sequence[int]) -> None:
    """Move all nodes together and return the memory behind them to the system.

    Only while no version is held and nothing has changed since the newest. Costs two visits and a
    move of each node.
    """
    size = (int(words[BUMP]) - START) // SPAN + 1
    used, before = np.zeros(size, np.int64), np.empty(size, np.int64)
    compact_arena(words, walk, np.array(shapes, np.int64), used, before)
    end = int(words[BUMP])
    if not remove_from(words, end):
        give_back(words, end)
