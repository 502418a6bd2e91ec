"""Fills the views of a query that is registered on a live graph.

A new step is filled by the kernel that maintains it: all keys of one input are listed as changed,
with no previous value.
"""

from __future__ import annotations

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load, store
from triegs.maintain.kernels.entries import is_met, sign
from triegs.maintain.kernels.tables import COUNTS
from triegs.store.kernels.blocks import entry_key, entry_word
from triegs.store.kernels.cursors import (
    BLOCK,
    BLOCK_ROOM,
    CURSOR_WORDS,
    KEY,
    SIZE,
    WORD,
    set_first,
    set_next_block,
    trie_first,
    trie_next,
)
from triegs.store.kernels.layout import FAULTS
from triegs.store.kernels.relations import adjacency_change, map_change, push_log, tuple_change

FILL_CURSOR_WORDS = 2 * CURSOR_WORDS


@kernel
def fill_index(
    words: Words, cursor: Words, counts: int, by: int, is_rdf: bool, kind: int, column: int,
    condition: int, slot: int,
) -> None:  # fmt: skip
    """Fill an empty index from the counts of its label, an adjacency by the column `by`."""
    trie_first(words, cursor, 0, load(words, counts))
    while trie_next(words, cursor, 0) and load(words, FAULTS) == 0:
        first = load(cursor, KEY)
        set_first(words, cursor, CURSOR_WORDS, load(cursor, WORD))
        while True:
            block = load(cursor, CURSOR_WORDS + BLOCK)
            room = load(cursor, CURSOR_WORDS + BLOCK_ROOM)
            for index in range(load(cursor, CURSOR_WORDS + SIZE)):
                second = entry_key(words, block, room, index)
                weight = entry_word(words, block, room, index)
                if is_rdf:
                    weight = sign(weight)
                key, other = (first, second) if column == by else (second, first)
                if is_met(condition, key, other):
                    if kind == COUNTS:
                        map_change(words, slot, key, weight, False)
                    else:
                        adjacency_change(words, slot, key, other, weight, False)
            if not set_next_block(words, cursor, CURSOR_WORDS):
                break


@kernel
def move_pairs(
    words: Words, key: Words, label: int, slot: int, by: int, rest: int, columns: Words, count: int,
    is_back: bool,
) -> None:  # fmt: skip
    """Move pairs with their counts, given as columns, from the unindexed assertions to a label's
    counts; or back, in which case the caller clears the counts.
    """
    for row in range(count):
        subject, obj = load(columns, row), load(columns, count + row)
        weight = load(columns, 2 * count + row)
        store(key, 0, label)
        store(key, 1, subject)
        store(key, 2, obj)
        tuple_change(words, rest, key, 3, weight if is_back else 0, True)
        if not is_back:
            first, second = (subject, obj) if by == 0 else (obj, subject)
            adjacency_change(words, slot, first, second, weight, True)
        if load(words, FAULTS) != 0:
            return


@kernel
def list_keys(words: Words, log: Words, cursor: Words, slot: int) -> None:
    """Log every key below a slot as newly added."""
    trie_first(words, cursor, 0, load(words, slot))
    while trie_next(words, cursor, 0):
        push_log(words, log, load(cursor, KEY), 0)


@kernel
def fill_tuples(
    words: Words, key: Words, slot: int, columns: Words, count: int, arity: int
) -> None:
    """Add tuples with their counts, as columns, to a relation."""
    for row in range(count):
        for column in range(arity):
            store(key, column, load(columns, column * count + row))
        tuple_change(words, slot, key, arity, load(columns, arity * count + row), False)
        if load(words, FAULTS) != 0:
            return
