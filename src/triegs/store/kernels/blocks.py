"""Blocks: up to 64 ids in one node, with or without a word each.

| block | slots | holds |
| --- | --- | --- |
| *plain* | 2, 4, 10, 20, 42 or 64 | ids of 32 bits, two to a word, then the words |
| *bare* | 8, 16, 32 or 64 | ids of 32 bits; each has the word 1 |
| *long* | 2, 4, 8, 16, 32, 48 or 64 | ids of 64 bits, then the words |
| *shared* | 1 | the same as a bare one, see `triegs.store.kernels.shared` |

The kind of a block follows from its entries: it is long if one of its ids has more than 31 bits, as
sort keys do; else bare if all its words are 1, as in most sets; else plain. Eight short ids are
compared at once.

The *room* of a block is the number of words that its ids take: 0 if the block is bare, because it
has no words behind them, and negative if it is long. The header has it. Who reads many entries
reads the room once. Entries are unordered.
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
from triegs.store.kernels.free import allocate, size_words
from triegs.store.kernels.layout import (
    BARE,
    BARE_SMALLEST,
    CLASS,
    CLASS_SHIFT,
    EPOCH,
    HEAD,
    ID_LIMIT,
    KIND,
    LONG,
    LOW,
    ROOM_SHIFT,
    SHARED_CLASS,
)


@inlined
def class_of_block(header: int) -> int:
    return (header >> CLASS_SHIFT) & CLASS


@inlined
def room_of(header: int) -> int:
    return header >> ROOM_SHIFT


@inlined
def slots_of(header: int) -> int:
    room = room_of(header)
    if room != 0:
        return 2 * room if room > 0 else -room
    size_class = class_of_block(header)
    return 1 if size_class == SHARED_CLASS else BARE_SMALLEST << size_class


@inlined
def words_of(block: int, room: int) -> int:
    """The offset of the words of a block that is not bare."""
    return block + HEAD + (room if room > 0 else -room)


@inlined
def kind_of(key: int, word: int) -> int:
    """The kind of a block with this entry only."""
    if key >= ID_LIMIT:
        return LONG
    return BARE if word == 1 else 0


@inlined
def combine(kind: int, other: int) -> int:
    """The kind of a block with the entries of two; `BARE` is neutral."""
    return ((kind | other) & LONG) | (kind & other & BARE)


@inlined
def entry_key(words: Words, block: int, room: int, index: int) -> int:
    if room < 0:
        return load(words, block + HEAD + index)
    return load_half(words, 2 * (block + HEAD) + index)


@inlined
def entry_word(words: Words, block: int, room: int, index: int) -> int:
    if room == 0:
        return 1
    return load(words, words_of(block, room) + index)


@inlined
def write_entry(words: Words, block: int, room: int, index: int, key: int, word: int) -> None:
    if room < 0:
        store(words, block + HEAD + index, key)
    else:
        store_half(words, 2 * (block + HEAD) + index, key)
    if room != 0:
        store(words, words_of(block, room) + index, word)


@inlined
def find_entry(words: Words, block: int, header: int, key: int) -> int:
    """The index of an id in a block; the block's size if it is absent.

    Compares several slots at a time, possibly beyond the last entry, but never beyond the block.
    """
    size = header & LOW
    if header & LONG == 0:
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
def make_header(size_class: int, kind: int) -> int:
    """The header of a block without entries."""
    payload = size_words(size_class) - HEAD
    room = payload // 3
    if kind != 0:
        room = 0 if kind == BARE else -(payload // 2)
    return (size_class << CLASS_SHIFT) | kind | (room << ROOM_SHIFT)


@inlined
def class_for(entries: int, kind: int) -> int:
    """The smallest class with at least this many slots, of blocks of a kind."""
    size_class = 0
    while slots_of(make_header(size_class, kind)) < entries:
        size_class += 1
    return size_class


@inlined
def make_block(words: Words, entries: int, size_class: int, kind: int) -> int:
    """A block of so many entries, which the caller writes."""
    block = allocate(words, size_class)
    store(words, block, load(words, EPOCH))
    store(words, block + 1, entries | make_header(size_class, kind))
    return block


@inlined
def copy_entries(
    words: Words, target: int, target_room: int, first: int, source: int, room: int, count: int
) -> None:
    """Copy the first entries of a block into another, from an index on. The kinds may differ."""
    if room >= 0 and target_room >= 0 and first == 0:
        copy_words(words, target + HEAD, source + HEAD, (count + 1) >> 1)
        if target_room != 0:
            to = words_of(target, target_room)
            if room != 0:
                copy_words(words, to, words_of(source, room), count)
            else:
                for at in range(to, to + count):
                    store(words, at, 1)
    elif room < 0 and target_room < 0:
        copy_words(words, target + HEAD + first, source + HEAD, count)
        copy_words(words, words_of(target, target_room) + first, words_of(source, room), count)
    else:
        for index in range(count):
            key = entry_key(words, source, room, index)
            word = entry_word(words, source, room, index)
            write_entry(words, target, target_room, first + index, key, word)


@inlined
def rewrite_block(words: Words, at: int, entries: int, size: int, kind: int) -> int:
    """Replace the block at an address by a new one of this size and kind, with the first entries of
    the old one. Returns the new block.
    """
    block = load(words, at)
    header = load(words, block + 1)
    size_class = class_for(size, kind)
    rewritten = make_block(words, size, size_class, kind)
    room = room_of(load(words, rewritten + 1))
    copy_entries(words, rewritten, room, 0, block, room_of(header), entries)
    store(words, at, rewritten)
    drop(words, block, class_of_block(header))
    return rewritten


@inlined
def kind_without(words: Words, block: int, header: int, skipped: int) -> int:
    """The kind that a block has without one of its entries."""
    own, room = header & KIND, room_of(header)
    kind = BARE
    if own == BARE:
        return kind
    for index in range(header & LOW):
        if index != skipped:
            key = entry_key(words, block, room, index)
            kind = combine(kind, kind_of(key, entry_word(words, block, room, index)))
            if kind == own:
                break
    return kind
