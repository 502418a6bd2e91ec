"""Blocks: up to 64 ids in one node, with or without a word each.

| block | slots | holds |
| --- | --- | --- |
| *plain* | 2, 4, 8, 16 or 32 | ids, then as many words |
| *bare* | 8, 16, 32 or 64 | ids of 32 bits, two to a word; each has the word 1 |
| *shared* | 1 | the same, see `triegs.store.kernels.shared` |

Most sets count each id once, and a bare block takes a quarter of the memory that a plain one does,
to copy and to search. A block is bare exactly if all its ids have 31 bits and all its words are 1.

The *room* of a plain block is the distance from an id to its word; that of a bare block is 0. Who
reads many entries reads the room once. Entries are unordered.
"""

from __future__ import annotations

from triegs.jit.jit import inlined
from triegs.jit.words import (
    Words,
    copy_words,
    load,
    load_half,
    match_halves,
    store,
    store_half,
    trailing_zeros,
)
from triegs.store.kernels.arena import drop
from triegs.store.kernels.free import allocate
from triegs.store.kernels.layout import (
    BARE,
    BARE_SMALLEST,
    CLASS,
    CLASS_SHIFT,
    EPOCH,
    HEAD,
    ID_LIMIT,
    LOW,
    SHARED_CLASS,
    SMALLEST,
)


@inlined
def class_of_block(header: int) -> int:
    return (header >> CLASS_SHIFT) & CLASS


@inlined
def room_of(header: int) -> int:
    """The distance from an id to its word; 0 if the block is bare."""
    return 0 if header & BARE else SMALLEST << class_of_block(header)


@inlined
def slots_of(header: int) -> int:
    if class_of_block(header) == SHARED_CLASS:
        return 1
    return (BARE_SMALLEST if header & BARE else SMALLEST) << class_of_block(header)


@inlined
def is_bare_entry(key: int, word: int) -> bool:
    return word == 1 and key < ID_LIMIT


@inlined
def entry_key(words: Words, block: int, room: int, index: int) -> int:
    if room == 0:
        return load_half(words, 2 * (block + HEAD) + index)
    return load(words, block + HEAD + index)


@inlined
def entry_word(words: Words, block: int, room: int, index: int) -> int:
    if room == 0:
        return 1
    return load(words, block + HEAD + room + index)


@inlined
def write_entry(words: Words, block: int, room: int, index: int, key: int, word: int) -> None:
    if room == 0:
        store_half(words, 2 * (block + HEAD) + index, key)
    else:
        store(words, block + HEAD + index, key)
        store(words, block + HEAD + room + index, word)


@inlined
def find_entry(words: Words, block: int, header: int, key: int) -> int:
    """The index of an id in a block; the block's size if it is absent.

    Compares several slots at a time, possibly beyond the last entry, but never beyond the block.
    """
    size = header & LOW
    if header & BARE:
        if key < ID_LIMIT:
            at = 2 * (block + HEAD)
            for index in range(0, size, 8):
                found = match_halves(words, at + index, key)
                if found != 0:
                    return min(index + trailing_zeros(found), size)
        return size
    at = block + HEAD
    for index in range(0, size, 4):
        first = load(words, at + index) == key
        second = load(words, at + index + 1) == key
        third = load(words, at + index + 2) == key
        if first | second | third | (load(words, at + index + 3) == key):
            at = index if first else index + 1 if second else index + 2 if third else index + 3
            return min(at, size)
    return size


@inlined
def class_for(entries: int, bare: int) -> int:
    """The smallest class with at least this many slots, of plain blocks or of `BARE` ones."""
    smallest = BARE_SMALLEST if bare else SMALLEST
    size_class = 0
    while smallest << size_class < entries:
        size_class += 1
    return size_class


@inlined
def make_block(words: Words, entries: int, size_class: int, bare: int) -> int:
    """A block of so many entries, which the caller writes."""
    block = allocate(words, size_class)
    store(words, block, load(words, EPOCH))
    store(words, block + 1, entries | (size_class << CLASS_SHIFT) | bare)
    return block


@inlined
def copy_entries(
    words: Words, target: int, target_room: int, first: int, source: int, room: int, count: int
) -> None:
    """Copy the first entries of a block into another, from an index on. A plain block may become
    bare, and the reverse.
    """
    if room == 0 and target_room == 0 and first == 0:
        copy_words(words, target + HEAD, source + HEAD, (count + 1) >> 1)
    elif room != 0 and target_room != 0:
        copy_words(words, target + HEAD + first, source + HEAD, count)
        copy_words(words, target + HEAD + target_room + first, source + HEAD + room, count)
    else:
        for index in range(count):
            key = entry_key(words, source, room, index)
            word = entry_word(words, source, room, index)
            write_entry(words, target, target_room, first + index, key, word)


@inlined
def rewrite_block(words: Words, at: int, entries: int, size: int, bare: int) -> int:
    """Replace the block at an address by a new one of this size and kind, with the first entries of
    the old one. Returns the new block.
    """
    block = load(words, at)
    header = load(words, block + 1)
    size_class = class_for(size, bare)
    rewritten = make_block(words, size, size_class, bare)
    room = room_of(load(words, rewritten + 1))
    copy_entries(words, rewritten, room, 0, block, room_of(header), entries)
    store(words, at, rewritten)
    drop(words, block, class_of_block(header))
    return rewritten


@inlined
def has_only_ones(words: Words, block: int, header: int, skipped: int) -> bool:
    """Whether a plain block could be bare, apart from one entry."""
    room = room_of(header)
    for index in range(header & LOW):
        if index != skipped:
            word = load(words, block + HEAD + room + index)
            if word != 1 or load(words, block + HEAD + index) >= ID_LIMIT:
                return False
    return True
