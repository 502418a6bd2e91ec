"""A packed set from ids to words: a block of up to 32 entries, or a hub of blocks.

A set is one word, its *reference*: 0 if empty, the offset of a block, or that of a hub plus 1. A
block is `[birth, size | class << 32, keys…, words…]` with 4, 8, 16 or 32 slots. A hub is a node
whose 32 children are sets again, selected by the low bits of the id; each further hub uses the next
five. A lookup in a set of n ids costs about log32(n / 32) loads and one block search. The bitmap of
a hub includes its load, so a removal knows at once whether the entries fit one block again.

A hub may be a summed node, see `triegs.store.kernels.order_statistics`. The caller that changes a
set specifies the class of its hubs and maintains their counts. A block that became a summed hub
without counts is recorded in `SPLIT`.

The words are counts or, in relations of three or more columns, references to sets. Entries are
unordered: the last entry fills the gap of a removed one.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import (
    Words,
    bit,
    checked_add,
    copy_words,
    load,
    store,
    trailing_zeros,
)
from triegs.store.kernels.arena import copy_node, drop, flag_of, make_node
from triegs.store.kernels.free import allocate, release
from triegs.store.kernels.layout import (
    BITS,
    COPIED,
    DIGIT,
    EPOCH,
    FAULTS,
    FULL_BLOCK,
    GROWN,
    GROWN_AT,
    HEAD,
    LARGEST,
    LOAD,
    LOAD_ONE,
    LOAD_SHIFT,
    LOW,
    MERGE_AT,
    NODE_CLASS,
    OVERFLOW,
    SMALLEST,
    SPLIT,
    SPLIT_SHIFT,
    SUMMED_CLASS,
)


@inlined
def find_entry(words: Words, block: int, size: int, key: int) -> int:
    """The index of an id in a block; the block's size if it is absent.

    Scans four slots at a time, possibly beyond the last entry: a block always has a multiple of
    four.
    """
    at = block + HEAD
    for index in range(0, size, 4):
        first = load(words, at + index) == key
        second = load(words, at + index + 1) == key
        third = load(words, at + index + 2) == key
        if first | second | third | (load(words, at + index + 3) == key):
            found = index if first else index + 1 if second else index + 2 if third else index + 3
            return min(found, size)
    return size


@inlined
def set_get(words: Words, reference: int, key: int) -> int:
    """The word of an id; 0 if absent. Cost: one load per hub and a search of one block."""
    digits = key
    while reference & 1:
        reference = load(words, reference - 1 + HEAD + (digits & DIGIT))
        digits >>= BITS
    header = load(words, reference + 1)
    size = header & LOW
    index = find_entry(words, reference, size, key)
    if index == size:
        return 0
    return load(words, reference + HEAD + (SMALLEST << (header >> 32)) + index)


@inlined
def class_for(entries: int) -> int:
    """The smallest block class with at least this many slots."""
    size_class = 0
    while SMALLEST << size_class < entries:
        size_class += 1
    return size_class


@inlined
def store_entry(words: Words, block: int, capacity: int, index: int, key: int, word: int) -> None:
    store(words, block + HEAD + index, key)
    store(words, block + HEAD + capacity + index, word)


@kernel
def split_block(words: Words, at: int, shift: int, hubs: int) -> None:
    """Replace a full block by a hub, with its entries in blocks below.

    The load of a hub above stays as it is: it counts a hub as a full block.
    """
    epoch = load(words, EPOCH)
    full = load(words, at)
    capacity = FULL_BLOCK
    hub = make_node(words, epoch, hubs)
    children = flag_of(hubs) | FULL_BLOCK << LOAD_SHIFT
    for index in range(capacity):
        key = load(words, full + HEAD + index)
        digit = (key >> shift) & DIGIT
        child = load(words, hub + HEAD + digit)
        if child == 0:
            alike = 0
            for other in range(index, capacity):
                if (load(words, full + HEAD + other) >> shift) & DIGIT == digit:
                    alike += 1
            size_class = class_for(alike)
            child = allocate(words, size_class)
            store(words, child, epoch)
            store(words, child + 1, size_class << 32)
            store(words, hub + HEAD + digit, child)
            children |= bit(digit)
        header = load(words, child + 1)
        word = load(words, full + HEAD + capacity + index)
        store_entry(words, child, SMALLEST << (header >> 32), header & LOW, key, word)
        store(words, child + 1, header + 1)
    store(words, hub + 1, children)
    store(words, at, hub | 1)
    drop(words, full, LARGEST)
    if hubs == SUMMED_CLASS and load(words, SPLIT) == 0:  # the first of several is the highest
        store(words, SPLIT, hub)
        store(words, SPLIT_SHIFT, shift)


@inlined
def insert_entry(
    words: Words, at: int, hub: int, shift: int, key: int, word: int, hubs: int
) -> int:
    """Add an absent id to the block at `at`, a child of `hub` unless that is 0.

    `hubs` is the class of hubs, `shift` the number of id bits that the hubs above have used.
    Returns the address of the word.
    """
    epoch = load(words, EPOCH)
    while True:
        block = load(words, at)
        if block == 0:
            block = allocate(words, 0)
            store(words, block, epoch)
            store(words, block + 1, 1)
            store_entry(words, block, SMALLEST, 0, key, word)
            store(words, at, block)
            if hub != 0:
                digit = (key >> (shift - BITS)) & DIGIT
                store(words, hub + 1, (load(words, hub + 1) | bit(digit)) + LOAD_ONE)
            return block + HEAD + SMALLEST
        header = load(words, block + 1)
        size = header & LOW
        size_class = header >> 32
        capacity = SMALLEST << size_class
        if size < capacity:
            if hub != 0:
                store(words, hub + 1, load(words, hub + 1) + LOAD_ONE)
            if load(words, block) != epoch:
                block = copy_node(words, block, size_class, epoch)
                store(words, at, block)
            store_entry(words, block, capacity, size, key, word)
            store(words, block + 1, header + 1)
            return block + HEAD + capacity + size
        if size_class < LARGEST:
            if hub != 0:
                store(words, hub + 1, load(words, hub + 1) + LOAD_ONE)
            larger = allocate(words, size_class + 1)
            store(words, larger, epoch)
            store(words, larger + 1, (size + 1) | ((size_class + 1) << 32))
            copy_words(words, larger + HEAD, block + HEAD, size)
            copy_words(words, larger + HEAD + 2 * capacity, block + HEAD + capacity, size)
            store_entry(words, larger, 2 * capacity, size, key, word)
            store(words, at, larger)
            drop(words, block, size_class)
            return larger + HEAD + 2 * capacity + size
        split_block(words, at, shift, hubs)
        hub = load(words, at) - 1
        at = hub + HEAD + ((key >> shift) & DIGIT)
        shift += BITS


@inlined
def must_merge(header: int) -> bool:
    """Whether a hub must become a block again, by its bitmap."""
    most = FULL_BLOCK - 1 if header & GROWN else MERGE_AT
    return (header >> LOAD_SHIFT) & LOAD <= most


@kernel
def merge_hubs(words: Words, top: int, key: int, hubs: int) -> None:
    """Merge hubs on the path to an id into one block each, lowest first, while they have few
    entries.

    `top` is the address of the set; the path must belong to this epoch. A hub of so small a load
    has no hubs below.
    """
    epoch = load(words, EPOCH)
    while load(words, top) & 1:
        at = top
        shift = 0
        above = 0
        hub = load(words, at) - 1
        below = load(words, hub + HEAD + (key & DIGIT))
        while below & 1:
            at = hub + HEAD + ((key >> shift) & DIGIT)
            above = hub
            hub = below - 1
            shift += BITS
            below = load(words, hub + HEAD + ((key >> shift) & DIGIT))
        bitmap = load(words, hub + 1)
        if not must_merge(bitmap):
            return
        entries = (bitmap >> LOAD_SHIFT) & LOAD
        size_class = class_for(entries)
        capacity = SMALLEST << size_class
        merged = allocate(words, size_class)
        store(words, merged, epoch)
        store(words, merged + 1, entries | (size_class << 32))
        filled = 0
        children = load(words, hub + 1) & LOW
        while children != 0:
            child = load(words, hub + HEAD + trailing_zeros(children))
            header = load(words, child + 1)
            size = header & LOW
            words_at = child + HEAD + (SMALLEST << (header >> 32))
            copy_words(words, merged + HEAD + filled, child + HEAD, size)
            copy_words(words, merged + HEAD + capacity + filled, words_at, size)
            filled += size
            drop(words, child, header >> 32)
            children &= children - 1
        release(words, hub, hubs)
        store(words, at, merged)
        if above != 0:  # its load counted a full block, and it was as large as the hub below
            less = FULL_BLOCK - entries
            higher = load(words, above + 1) - (less << LOAD_SHIFT)
            store(words, above + 1, higher | (bitmap & GROWN))


@inlined
def remove_entry(
    words: Words, top: int, at: int, hub: int, shift: int, key: int, index: int, hubs: int
) -> None:
    """Remove the entry at an index of the block at `at`; the set itself is at `top`."""
    epoch = load(words, EPOCH)
    block = load(words, at)
    header = load(words, block + 1)
    last = (header & LOW) - 1
    size_class = header >> 32
    capacity = SMALLEST << size_class
    if last == 0:
        drop(words, block, size_class)
        store(words, at, 0)
        if hub != 0:
            digit = (key >> (shift - BITS)) & DIGIT
            store(words, hub + 1, load(words, hub + 1) & ~bit(digit))
    else:
        last_key = load(words, block + HEAD + last)
        last_word = load(words, block + HEAD + capacity + last)
        if load(words, block) != epoch or (size_class > 0 and last <= capacity >> 2):
            new_class = size_class
            if size_class > 0 and last <= capacity >> 2:
                new_class -= 1
            new_capacity = SMALLEST << new_class
            rest = allocate(words, new_class)
            store(words, rest, epoch)
            copy_words(words, rest + HEAD, block + HEAD, last)
            copy_words(words, rest + HEAD + new_capacity, block + HEAD + capacity, last)
            store(words, COPIED, load(words, COPIED) + 1)
            drop(words, block, size_class)
            store(words, at, rest)
            block = rest
            size_class = new_class
            capacity = new_capacity
        if index < last:
            store_entry(words, block, capacity, index, last_key, last_word)
        store(words, block + 1, last | (size_class << 32))
    if hub != 0:
        bitmap = load(words, hub + 1) - LOAD_ONE
        if (bitmap >> LOAD_SHIFT) & LOAD >= GROWN_AT:
            store(words, hub + 1, bitmap | GROWN)
            return
        store(words, hub + 1, bitmap)
        if must_merge(bitmap):
            merge_hubs(words, top, key, hubs)


@inlined
def own_path(words: Words, top: int, key: int, epoch: int, hubs: int) -> tuple[int, int, int]:
    """Copy the hubs on the path to an id, unless this epoch already owns them.

    Returns the address of the block's reference, the lowest hub (0 if none), and the bits used.
    """
    at = top
    hub = 0
    shift = 0
    reference = load(words, at)
    while reference & 1:
        hub = reference - 1
        if load(words, hub) != epoch:
            hub = copy_node(words, hub, hubs, epoch)
            store(words, at, hub | 1)
        at = hub + HEAD + ((key >> shift) & DIGIT)
        shift += BITS
        reference = load(words, at)
    return at, hub, shift


@inlined
def change_entry(
    words: Words, top: int, key: int, value: int, put: bool, hubs: int
) -> tuple[int, int]:
    """Like `set_change`, for hubs of either class."""
    epoch = load(words, EPOCH)
    at, hub, shift = own_path(words, top, key, epoch, hubs)
    reference = load(words, at)
    header = load(words, reference + 1)
    size = header & LOW
    index = find_entry(words, reference, size, key)
    if index == size:
        if value != 0:
            insert_entry(words, at, hub, shift, key, value, hubs)
        return 0, value
    size_class = header >> 32
    word_at = HEAD + (SMALLEST << size_class) + index
    old = load(words, reference + word_at)
    new = value
    if not put:
        new, overflow = checked_add(old, value)
        if overflow:
            store(words, FAULTS, load(words, FAULTS) | OVERFLOW)
            return old, old
    if new == 0:
        remove_entry(words, top, at, hub, shift, key, index, hubs)
        return old, new
    if load(words, reference) != epoch:
        reference = copy_node(words, reference, size_class, epoch)
        store(words, at, reference)
    store(words, reference + word_at, new)
    return old, new


@kernel
def set_change(words: Words, top: int, key: int, value: int, put: bool) -> tuple[int, int]:
    """Add a value to the word of an id, or set it; returns the word before and after.

    `top` is the address of the reference, writable in this epoch. An id whose word becomes 0 is
    removed. A sum that does not fit changes nothing and sets the fault `OVERFLOW`.
    """
    return change_entry(words, top, key, value, put, NODE_CLASS)


@kernel
def summed_set_change(words: Words, top: int, key: int, value: int) -> tuple[int, int]:
    """Like `set_change`, adding to a set with summed hubs, whose counts the caller maintains."""
    return change_entry(words, top, key, value, False, SUMMED_CLASS)


@kernel
def set_offset(words: Words, top: int, key: int) -> int:
    """The writable address of the word of an id; a new id has the word 0.

    The caller must store a nonzero word there, or remove the id again with `set_change`.
    """
    epoch = load(words, EPOCH)
    at, hub, shift = own_path(words, top, key, epoch, NODE_CLASS)
    reference = load(words, at)
    header = load(words, reference + 1)
    size = header & LOW
    index = find_entry(words, reference, size, key)
    if index == size:
        return insert_entry(words, at, hub, shift, key, 0, NODE_CLASS)
    if load(words, reference) != epoch:
        reference = copy_node(words, reference, header >> 32, epoch)
        store(words, at, reference)
    return reference + HEAD + (SMALLEST << (header >> 32)) + index
