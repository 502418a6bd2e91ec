"""Space in the arena of a packed store: used and free words, and compaction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triegs.jit.words import Words
from triegs.store.kernels.compaction import SPAN, compact_arena
from triegs.store.kernels.layout import (
    BUMP,
    CLASSES,
    FREE_COUNT,
    ROOM_WORDS,
    RUN_WORDS,
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


def compact(words: Words, walk: Words, shapes: Sequence[int]) -> None:
    """Move all nodes together and return the memory behind them to the system.

    Only while no version is held and nothing has changed since the newest. Costs two visits and a
    move of each node.
    """
    size = (int(words[BUMP]) - START) // SPAN + 1
    used, before = np.zeros(size, np.int64), np.empty(size, np.int64)
    compact_arena(words, walk, np.array(shapes, np.int64), used, before)
    give_back(words, int(words[BUMP]))
