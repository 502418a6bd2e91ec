"""Reads the measures of many groups at once, and replaces their rows.

Keys are tuples of `width` ids, stored consecutively.
"""

from __future__ import annotations

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load, store
from triegs.store.kernels.cursors import (
    CURSOR_WORDS,
    KEY,
    WORD,
    set_first,
    set_next,
    trie_first,
    trie_next,
)
from triegs.store.kernels.layout import FAULTS
from triegs.store.kernels.relations import tuple_change, tuple_get

WHOLE_DIGIT = 0  # see `triegs.maintain.digits`
CURSOR = CURSOR_WORDS


@kernel
def read_counts(words: Words, root: int, keys: Words, width: int, counts: Words) -> None:
    """The count of each key; 0 for one that is not there."""
    for place in range(counts.size):
        store(counts, place, tuple_get(words, root, keys[place * width :], width))


@kernel
def read_sums(
    words: Words, root: int, keys: Words, width: int, cursor: Words, sums: Words, is_other: Words
) -> None:
    """The sum of each key if it has no digit but the whole one; else `is_other` is 1."""
    for place in range(sums.size):
        below = tuple_get(words, root, keys[place * width :], width)
        total, other = 0, 0
        if width == 0:
            trie_first(words, cursor, 0, below)
            while trie_next(words, cursor, 0):
                if load(cursor, KEY) == WHOLE_DIGIT:
                    total = load(cursor, WORD)
                else:
                    other = 1
        elif below != 0:
            set_first(words, cursor, 0, below)
            while set_next(words, cursor, 0):
                if load(cursor, KEY) == WHOLE_DIGIT:
                    total = load(cursor, WORD)
                else:
                    other = 1
        store(sums, place, total)
        store(is_other, place, other)


@kernel
def read_first(
    words: Words, root: int, keys: Words, width: int, cursor: Words, rows: Words, arity: int
) -> None:
    """The first tuple that begins with each key; -1 in its first column if there is none."""
    count = rows.size // arity
    for place in range(count):
        row = place * arity
        below = tuple_get(words, root, keys[place * width :], width)
        for column in range(width):
            store(rows, row + column, load(keys, place * width + column))
        if below == 0:
            store(rows, row, -1)
            continue
        for column in range(width, arity):
            if column == 0:
                trie_first(words, cursor, 0, below)
                trie_next(words, cursor, 0)
            else:
                set_first(words, cursor, 0, below)
                set_next(words, cursor, 0)
            store(rows, row + column, load(cursor, KEY))
            below = load(cursor, WORD)


@kernel
def change_rows(words: Words, slot: int, rows: Words, arity: int, change: int) -> None:
    """Add to the counts of tuples."""
    for place in range(rows.size // arity):
        tuple_change(words, slot, rows[place * arity :], arity, change, False)
        if load(words, FAULTS) != 0:
            return
