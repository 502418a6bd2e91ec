"""Iteration in structure order, with constant work per element.

A cursor is a range of `CURSOR_WORDS` words in an array owned by the reader, so reading writes
nothing into the arena. It starts with `trie_first` or `set_first`; each `trie_next` or `set_next`
that returns true leaves an id in word `KEY` and its word in `WORD`.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import WIDE, Words, load, spread, store, trailing_zeros, widen_halves
from triegs.store.kernels.blocks import entry_key, entry_word, room_of
from triegs.store.kernels.layout import (
    BITS,
    DIGIT,
    FANOUT,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    OFFSET,
)

CURSOR_WORDS = 32

# Words of a cursor.
DEPTH = 0  # nodes on the stack
HEIGHT = 1  # of a trie: height of the node on top of the stack
BLOCK = 1  # of a set: the current block
NEXT_ENTRY = 2  # of a set: the next entry
SIZE = 3  # of a set: entries in the block
BLOCK_ROOM = 4  # of a set: the distance from an id to its word, 0 if the block is bare
KEY = 5
WORD = 6
STACK = 8  # of a set: (node, children left); of a trie: (node, children left, id so far)


@inlined
def open_block(words: Words, cursor: Words, base: int, block: int) -> None:
    header = load(words, block + 1)
    store(cursor, base + BLOCK, block)
    store(cursor, base + NEXT_ENTRY, 0)
    store(cursor, base + SIZE, header & LOW)
    store(cursor, base + BLOCK_ROOM, room_of(header))


@inlined
def set_first(words: Words, cursor: Words, base: int, reference: int) -> None:
    """Position before the first entry of a set; the empty set, 0, is allowed."""
    if reference & 1:
        store(cursor, base + DEPTH, 1)
        store(cursor, base + NEXT_ENTRY, 0)
        store(cursor, base + SIZE, 0)
        store(cursor, base + STACK, reference - 1)
        store(cursor, base + STACK + 1, load(words, reference) & LOW)
    else:
        store(cursor, base + DEPTH, 0)
        open_block(words, cursor, base, reference)


@inlined
def set_next_block(words: Words, cursor: Words, base: int) -> bool:
    """Advance to the next block, which is never empty; false at the end.

    A loop over a whole set may read the entries of a block itself.
    """
    while True:
        depth = load(cursor, base + DEPTH)
        if depth == 0:
            return False
        top = base + STACK + 2 * (depth - 1)
        children = load(cursor, top + 1)
        if children == 0:
            store(cursor, base + DEPTH, depth - 1)
            continue
        child = load(words, load(cursor, top) + HEAD + trailing_zeros(children))
        store(cursor, top + 1, children & (children - 1))
        if child & 1:
            store(cursor, top + 2, child - 1)
            store(cursor, top + 3, load(words, child) & LOW)
            store(cursor, base + DEPTH, depth + 1)
        else:
            open_block(words, cursor, base, child)
            return True


@inlined
def set_next(words: Words, cursor: Words, base: int) -> bool:
    """Advance to the next entry; false at the end."""
    entry = load(cursor, base + NEXT_ENTRY)
    if entry >= load(cursor, base + SIZE):
        if not set_next_block(words, cursor, base):
            return False
        entry = 0
    block, room = load(cursor, base + BLOCK), load(cursor, base + BLOCK_ROOM)
    store(cursor, base + KEY, entry_key(words, block, room, entry))
    store(cursor, base + WORD, entry_word(words, block, room, entry))
    store(cursor, base + NEXT_ENTRY, entry + 1)
    return True


@inlined
def trie_first(words: Words, cursor: Words, base: int, root: int) -> None:
    """Position before the first id of a trie; the empty trie, 0, is allowed."""
    store(cursor, base + DEPTH, 0)
    if root != 0:
        node = root & OFFSET
        store(cursor, base + DEPTH, 1)
        store(cursor, base + HEIGHT, root >> HEIGHT_SHIFT)
        store(cursor, base + STACK, node)
        store(cursor, base + STACK + 1, load(words, node + 1) & LOW)
        store(cursor, base + STACK + 2, 0)


@kernel
def trie_seek(words: Words, cursor: Words, base: int, root: int, key: int) -> None:
    """Position before the first id that is not below `key`. Cost: one visit per level."""
    trie_first(words, cursor, base, root)
    height, depth = root >> HEIGHT_SHIFT, 1
    if root == 0 or (key >> (height * BITS)) >= FANOUT:
        store(cursor, base + DEPTH, 0)
        return
    while True:
        top = base + STACK + 3 * (depth - 1)
        digit = (key >> (height * BITS)) & DIGIT
        children = load(cursor, top + 1)
        if height == 0:
            store(cursor, top + 1, (children >> digit) << digit)
            break
        store(cursor, top + 1, (children >> (digit + 1)) << (digit + 1))
        if (children >> digit) & 1 == 0:
            break
        child = load(words, load(cursor, top) + HEAD + digit)
        store(cursor, top + 3, child)
        store(cursor, top + 4, load(words, child + 1) & LOW)
        store(cursor, top + 5, (load(cursor, top + 2) << BITS) | digit)
        depth += 1
        height -= 1
    store(cursor, base + DEPTH, depth)
    store(cursor, base + HEIGHT, height)


@inlined
def trie_next(words: Words, cursor: Words, base: int) -> bool:
    """Advance to the next id, in ascending order; false at the end."""
    while True:
        depth = load(cursor, base + DEPTH)
        if depth == 0:
            return False
        top = base + STACK + 3 * (depth - 1)
        height = load(cursor, base + HEIGHT)
        children = load(cursor, top + 1)
        if children == 0:
            store(cursor, base + DEPTH, depth - 1)
            store(cursor, base + HEIGHT, height + 1)
            continue
        digit = trailing_zeros(children)
        store(cursor, top + 1, children & (children - 1))
        word = load(words, load(cursor, top) + HEAD + digit)
        key = (load(cursor, top + 2) << BITS) | digit
        if height == 0:
            store(cursor, base + KEY, key)
            store(cursor, base + WORD, word)
            return True
        store(cursor, top + 3, word)
        store(cursor, top + 4, load(words, word + 1) & LOW)
        store(cursor, top + 5, key)
        store(cursor, base + DEPTH, depth + 1)
        store(cursor, base + HEIGHT, height - 1)


@kernel
def take_set(
    words: Words, cursor: Words, base: int, out: Words, keys: int, found: int, most: int
) -> int:
    """Copy the next entries of a set, at most so many: ids to `keys`, words to `found`.

    Returns their number; fewer than `most` means the end.
    """
    taken = 0
    while True:
        entry = load(cursor, base + NEXT_ENTRY)
        count = min(load(cursor, base + SIZE) - entry, most - taken)
        block, room = load(cursor, base + BLOCK), load(cursor, base + BLOCK_ROOM)
        for step in range(count):
            store(out, keys + taken + step, entry_key(words, block, room, entry + step))
            store(out, found + taken + step, entry_word(words, block, room, entry + step))
        taken += count
        store(cursor, base + NEXT_ENTRY, entry + count)
        if taken == most or not set_next_block(words, cursor, base):
            return taken


@inlined
def copy_set(
    words: Words, cursor: Words, base: int, reference: int, out: Words, keys: int, found: int,
    most: int,
) -> int:  # fmt: skip
    """Copy all entries of a set, ids to `keys` and words to `found`, and anything to less than
    `WIDE` words after them. Returns their number; -1 if there are more than `most`.

    The cursor is used for a set of several blocks.
    """
    if reference & 1:
        set_first(words, cursor, base, reference)
        taken = take_set(words, cursor, base, out, keys, found, most + 1)
        return taken if taken <= most else -1
    header = load(words, reference + 1)
    size = header & LOW
    if size > most:
        return -1
    at, room = reference + HEAD, room_of(header)
    if room == 0:  # slots come in eights, so nothing beyond the block is read
        for step in range(0, size, WIDE):
            widen_halves(out, keys + step, words, 2 * at + step)
            spread(out, found + step, 1)
        return size
    if room == 2:
        for step in range(size):
            store(out, keys + step, load(words, at + step))
            store(out, found + step, load(words, at + 2 + step))
        return size
    # Here they come in fours.
    for step in range(0, size, 4):
        first, second = load(words, at + step), load(words, at + step + 1)
        third, fourth = load(words, at + step + 2), load(words, at + step + 3)
        store(out, keys + step, first)
        store(out, keys + step + 1, second)
        store(out, keys + step + 2, third)
        store(out, keys + step + 3, fourth)
    at += room
    for step in range(0, size, 4):
        first, second = load(words, at + step), load(words, at + step + 1)
        third, fourth = load(words, at + step + 2), load(words, at + step + 3)
        store(out, found + step, first)
        store(out, found + step + 1, second)
        store(out, found + step + 2, third)
        store(out, found + step + 3, fourth)
    return size


@kernel
def take_trie(
    words: Words, cursor: Words, base: int, out: Words, keys: int, found: int, most: int
) -> int:
    """Like `take_set`, for a trie."""
    taken = 0
    while taken < most and trie_next(words, cursor, base):
        # Then the other ids of the same leaf, which is on top of the stack.
        top = base + STACK + 3 * (load(cursor, base + DEPTH) - 1)
        leaf, prefix = load(cursor, top) + HEAD, load(cursor, top + 2) << BITS
        children = load(cursor, top + 1)
        store(out, keys + taken, load(cursor, base + KEY))
        store(out, found + taken, load(cursor, base + WORD))
        taken += 1
        while children != 0 and taken < most:
            digit = trailing_zeros(children)
            children &= children - 1
            store(out, keys + taken, prefix | digit)
            store(out, found + taken, load(words, leaf + digit))
            taken += 1
        store(cursor, top + 1, children)
    return taken


# A scan is a nest of cursors, one per id below the prefix. Its first word is the current level.


@short_kernel
def open_scan(words: Words, scan: Words, word: int, from_trie: bool) -> None:
    """Position before the first tuple below a word: the root of a relation, or a set."""
    store(scan, 0, 0)
    if from_trie:
        trie_first(words, scan, CURSOR_WORDS, word)
    else:
        set_first(words, scan, CURSOR_WORDS, word)


@short_kernel
def fill_scan(
    words: Words, scan: Words, levels: int, from_trie: bool, columns: Words, rows: int
) -> int:
    """Write the next tuples as columns of the given number of rows, ids then counts.

    Returns the number of tuples; fewer than requested means the end.
    """
    level = load(scan, 0)
    last = levels - 1
    filled = 0
    while level >= 0 and filled < rows:
        base = CURSOR_WORDS * (level + 1)
        if level == 0 and from_trie:
            found = trie_next(words, scan, base)
        else:
            found = set_next(words, scan, base)
        if not found:
            level -= 1
        elif level < last:
            set_first(words, scan, base + CURSOR_WORDS, load(scan, base + WORD))
            level += 1
        else:
            for column in range(levels):
                key = load(scan, CURSOR_WORDS * (column + 1) + KEY)
                store(columns, column * rows + filled, key)
            store(columns, levels * rows + filled, load(scan, base + WORD))
            filled += 1
    store(scan, 0, level)
    return filled
