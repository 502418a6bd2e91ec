"""Levels of a rule with several sources: intersects their sets."""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import (
    Words,
    bit,
    load,
    population,
    prefetch,
    store,
    trailing_zeros,
)
from triegs.maintain.kernels.tables import (
    LEVEL_SOURCES,
    LEVEL_SOURCES_AT,
    SOURCE_IN,
    SOURCE_IS_TRIE,
    SOURCE_WORDS,
)
from triegs.maintain.kernels.work import (
    FRAMES,
    RUNS_END,
    SIEVE,
    SIEVE_WORDS,
    WORDS_AT,
)
from triegs.store.kernels.blocks import entry_key, entry_word, find_entry, room_of
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.cursors import (
    WORD,
    set_first,
    set_next,
    trie_first,
    trie_next,
)
from triegs.store.kernels.layout import (
    BITS,
    DIGIT,
    FULL_BARE,
    HEAD,
    LOG_FULL,
    LOW,
)
from triegs.store.kernels.relations import (
    set_fault,
)
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import find_leaf, trie_get

FEW_IDS = 20  # above this size the three masks let too many ids pass
FEW_HALVES = 32  # up to this size of a bare block, comparing all ids takes less time than a filter


@inlined
def estimate(words: Words, reference: int) -> int:
    """The approximate size of a set: exact for a block, from its first branch for a hub."""
    scale = 1
    while reference & 1:
        children = load(words, reference) & LOW
        scale *= population(children)
        reference = load(words, reference - 1 + HEAD + trailing_zeros(children))
    return scale * (load(words, reference + 1) & LOW)


@inlined
def filter_few(words: Words, x: int, x_header: int, y: int, y_header: int) -> int:
    """Like `filter_many`, with three 64-bit masks that stay in registers."""
    x_room, y_room = room_of(x_header), room_of(y_header)
    low, middle, mixed = 0, 0, 0
    for index in range(y_header & LOW):
        key = entry_key(words, y, y_room, index)
        low |= bit(key & 63)
        middle |= bit((key >> 4) & 63)
        mixed |= bit(((key >> 2) ^ (key >> 9)) & 63)
    found = 0
    for index in range(x_header & LOW):
        key = entry_key(words, x, x_room, index)
        passed = (low >> (key & 63)) & (middle >> ((key >> 4) & 63))
        found |= (passed & (mixed >> (((key >> 2) ^ (key >> 9)) & 63)) & 1) << index
    return found


@inlined
def filter_many(words: Words, work: Words, x: int, x_header: int, y: int, y_header: int) -> int:
    """A bitmap of the entries of block x whose ids may be in block y.

    Compares the ten lowest bits of the ids.
    """
    x_room, y_room = room_of(x_header), room_of(y_header)
    for at in range(SIEVE, SIEVE + SIEVE_WORDS):
        store(work, at, 0)
    for index in range(y_header & LOW):
        key = entry_key(words, y, y_room, index)
        sieve = SIEVE + ((key >> 6) & (SIEVE_WORDS - 1))
        store(work, sieve, load(work, sieve) | bit(key & 63))
    found = 0
    for index in range(x_header & LOW):
        key = entry_key(words, x, x_room, index)
        sieve = load(work, SIEVE + ((key >> 6) & (SIEVE_WORDS - 1)))
        found |= ((sieve >> (key & 63)) & 1) << index
    return found


@inlined
def meet_blocks(
    words: Words, work: Words, x: int, y: int, top: int, stride: int, x_word: int, y_word: int
) -> int:
    x_header, y_header = load(words, x + 1), load(words, y + 1)
    x_size, y_size = x_header & LOW, y_header & LOW
    x_room, y_room = room_of(x_header), room_of(y_header)
    if x_size <= 2 or (y_room == 0 and y_size <= FEW_HALVES):
        found = -1 if x_size == FULL_BARE else bit(x_size) - 1
    elif y_size <= FEW_IDS:
        found = filter_few(words, x, x_header, y, y_header)
    else:
        found = filter_many(words, work, x, x_header, y, y_header)
    while found != 0:
        index = trailing_zeros(found)
        found ^= bit(index)
        key = entry_key(words, x, x_room, index)
        there = find_entry(words, y, y_header, key)
        if there < y_size:
            store(work, top, key)
            store(work, top + x_word, entry_word(words, x, x_room, index))
            store(work, top + y_word, entry_word(words, y, y_room, there))
            top += stride
    return top


@inlined
def get_below(words: Words, reference: int, key: int, depth: int) -> int:
    """The word of an id in a subset that lies below the given number of hubs."""
    digits = key >> (BITS * depth)
    while reference & 1:
        reference = load(words, reference - 1 + HEAD + (digits & DIGIT))
        digits >>= BITS
    return set_get(words, reference, key)


@inlined
def probe_block(
    words: Words, work: Words, block: int, hub: int, depth: int, top: int, stride: int,
    block_word: int, hub_word: int,
) -> int:  # fmt: skip
    """The ids of a block that also occur below a hub."""
    header = load(words, block + 1)
    room = room_of(header)
    for index in range(header & LOW):
        key = entry_key(words, block, room, index)
        word = get_below(words, hub, key, depth)
        if word != 0:
            store(work, top, key)
            store(work, top + block_word, entry_word(words, block, room, index))
            store(work, top + hub_word, word)
            top += stride
    return top


@merged
def meet_sets(
    words: Words, work: Words, x: int, y: int, top: int, stride: int, x_word: int, y_word: int
) -> int:
    """Write the ids that two sets share as a run, with their words at the given offsets of an
    entry; returns its end, or -1 if there is no room.

    Hubs distribute ids by the same bits: their bitmaps are intersected, and only shared children
    are entered.
    """
    depth = 0
    while True:
        if x & y & 1:
            both = load(words, x) & load(words, y) & LOW
            frame = FRAMES + 4 * depth
            store(work, frame, x - 1 + HEAD)
            store(work, frame + 1, y - 1 + HEAD)
            store(work, frame + 2, both)
            while both != 0:  # so that the misses of all children overlap
                digit = trailing_zeros(both)
                prefetch(words, load(words, x - 1 + HEAD + digit))
                prefetch(words, load(words, y - 1 + HEAD + digit))
                both &= both - 1
            depth += 1
        else:
            if top + FULL_BARE * stride > load(work, RUNS_END):
                return -1
            if x & 1:
                top = probe_block(words, work, y, x, depth, top, stride, y_word, x_word)
            elif y & 1:
                top = probe_block(words, work, x, y, depth, top, stride, x_word, y_word)
            else:
                top = meet_blocks(words, work, x, y, top, stride, x_word, y_word)
        frame = FRAMES + 4 * depth - 4
        while depth > 0 and load(work, frame + 2) == 0:
            depth -= 1
            frame -= 4
        if depth == 0:
            return top
        children = load(work, frame + 2)
        store(work, frame + 2, children & (children - 1))
        digit = trailing_zeros(children)
        x = load(words, load(work, frame) + digit)
        y = load(words, load(work, frame + 1) + digit)


@inlined
def fetch_below(words: Words, block: int, hub: int) -> None:
    """Prefetch the children of a hub that the ids of a block lead to."""
    header = load(words, block + 1)
    room = room_of(header)
    for index in range(header & LOW):
        digit = entry_key(words, block, room, index) & DIGIT
        prefetch(words, load(words, hub - 1 + HEAD + digit))


@kernel
def fetch_shared(words: Words, x: int, y: int) -> None:
    """Prefetch what `meet_sets` reads first below the hubs of two sets."""
    if x & y & 1:
        both = load(words, x) & load(words, y) & LOW
        while both != 0:
            digit = trailing_zeros(both)
            prefetch(words, load(words, x - 1 + HEAD + digit))
            prefetch(words, load(words, y - 1 + HEAD + digit))
            both &= both - 1
    elif x & 1:
        fetch_below(words, y, x)
    elif y & 1:
        fetch_below(words, x, y)


@inlined
def follow(words: Words, word: int, is_trie: int, key: int) -> int:
    if is_trie:
        return trie_get(words, word, key)
    return set_get(words, word, key)


@inlined
def open_walk(words: Words, work: Words, base: int, word: int, is_trie: int) -> None:
    if is_trie:
        trie_first(words, work, base, word)
    else:
        set_first(words, work, base, word)


@inlined
def walk_on(words: Words, work: Words, base: int, is_trie: int) -> bool:
    if is_trie:
        return trie_next(words, work, base)
    return set_next(words, work, base)


@merged
def gather(words: Words, table: Words, work: Words, level: int, base: int, start: int) -> int:
    """Write the ids that all sources of a level contain as a run of `[id, word of each source…]`;
    returns its end. The two smallest sets are intersected, and the result is probed in all others.
    """
    count, first = load(table, level + LEVEL_SOURCES), load(table, level + LEVEL_SOURCES_AT)
    stride = 1 + count
    best, second = -1, -1
    least, less = 0, 0
    for number in range(count):
        source = first + SOURCE_WORDS * number
        word = load(work, WORDS_AT + load(table, source + SOURCE_IN))
        if word == 0:
            return start
        if load(table, source + SOURCE_IS_TRIE):
            continue
        size = number if count == 2 else estimate(words, word)  # two: any order will do
        if best < 0 or size < least:
            second, less = best, least
            best, least = number, size
        elif second < 0 or size < less:
            second, less = number, size
    walked = max(best, 0)  # only tries: one of them is scanned
    source = first + SOURCE_WORDS * walked
    x = load(work, WORDS_AT + load(table, source + SOURCE_IN))
    if second >= 0:
        other = first + SOURCE_WORDS * second
        y = load(work, WORDS_AT + load(table, other + SOURCE_IN))
        end = meet_sets(words, work, x, y, start, stride, 1 + best, 1 + second)
        if end < 0:
            set_fault(words, LOG_FULL)
            return start
    else:
        end = start
        is_trie = load(table, source + SOURCE_IS_TRIE)
        open_walk(words, work, base, x, is_trie)
        while walk_on(words, work, base, is_trie):
            if end + stride > load(work, RUNS_END):
                set_fault(words, LOG_FULL)
                return start
            store(work, end, load(work, base + CURSOR_KEY))
            store(work, end + 1 + walked, load(work, base + WORD))
            end += stride
    for number in range(count):
        if number in (walked, second):
            continue
        source = first + SOURCE_WORDS * number
        word = load(work, WORDS_AT + load(table, source + SOURCE_IN))
        is_trie = load(table, source + SOURCE_IS_TRIE)
        if is_trie:
            for at in range(start, end, stride):
                key = load(work, at)
                prefetch(words, find_leaf(words, word, key) + HEAD + (key & DIGIT))
        kept = start
        for at in range(start, end, stride):
            found = follow(words, word, is_trie, load(work, at))
            if found != 0:
                for each in range(stride):
                    store(work, kept + each, load(work, at + each))
                store(work, kept + 1 + number, found)
                kept += stride
        end = kept
    return end
