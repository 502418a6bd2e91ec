"""A packed set from ids to words: a block of up to 32 or 64 entries, or a hub of blocks.

A set is one word, its *reference*: 0 if empty, the offset of a block, or that of a hub plus 1.
`triegs.store.kernels.blocks` describes blocks: bare ones have up to 64 ids, whose words are all 1,
plain ones up to 32 ids with words. A set of one id with the word 1 is the shared block of that id,
see `triegs.store.kernels.shared`. A hub is a node whose 32 children are sets again, selected by the
low bits of the id; each further hub uses the next five. Its children are never shared blocks. A
lookup in a set of n ids costs about log32(n / 32) loads and one block search. The bitmap of a hub
includes its load, so a removal knows at once whether the entries fit one block again.

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
    load,
    store,
    trailing_zeros,
)
from triegs.store.kernels.arena import copy_node, drop, flag_of, make_node
from triegs.store.kernels.blocks import (
    class_for,
    class_of_block,
    copy_entries,
    entry_key,
    entry_word,
    find_entry,
    has_only_ones,
    is_bare_entry,
    make_block,
    rewrite_block,
    room_of,
    slots_of,
    write_entry,
)
from triegs.store.kernels.free import release
from triegs.store.kernels.layout import (
    BARE,
    BARE_GROWN,
    BARE_GROWN_AT,
    BARE_MERGE_AT,
    BITS,
    COPIED,
    DIGIT,
    EPOCH,
    EXAMINED,
    FAULTS,
    FULL_BARE,
    FULL_BLOCK,
    GROWN,
    GROWN_AT,
    HEAD,
    LOAD,
    LOAD_ONE,
    LOAD_SHIFT,
    LOW,
    MERGE_AT,
    NODE_CLASS,
    OVERFLOW,
    SPLIT,
    SPLIT_SHIFT,
    SUMMED_CLASS,
)
from triegs.store.kernels.shared import share_block


@inlined
def set_get(words: Words, reference: int, key: int) -> int:
    """The word of an id; 0 if absent. Cost: one load per hub and a search of one block."""
    digits = key
    while reference & 1:
        reference = load(words, reference - 1 + HEAD + (digits & DIGIT))
        digits >>= BITS
    header = load(words, reference + 1)
    index = find_entry(words, reference, header, key)
    if index == header & LOW:
        return 0
    return entry_word(words, reference, room_of(header), index)


@inlined
def make_child(words: Words, full: int, header: int, first: int, shift: int, digit: int) -> int:
    """An empty block for those entries of a block, from an index on, that have a digit."""
    room = room_of(header)
    alike, bare = 0, BARE
    for other in range(first, header & LOW):
        key = entry_key(words, full, room, other)
        if (key >> shift) & DIGIT == digit:
            alike += 1
            if not is_bare_entry(key, entry_word(words, full, room, other)):
                bare = 0
    return make_block(words, 0, class_for(alike, bare), bare)


@kernel
def split_block(words: Words, at: int, above: int, shift: int, hubs: int) -> None:
    """Replace a block by a hub, with its entries in blocks below; `above` is the hub above, or 0.

    The hub above counts a hub as a full plain block.
    """
    full = load(words, at)
    header = load(words, full + 1)
    size, room = header & LOW, room_of(header)
    hub = make_node(words, load(words, EPOCH), hubs)
    children = flag_of(hubs) | size << LOAD_SHIFT
    for index in range(size):
        key = entry_key(words, full, room, index)
        digit = (key >> shift) & DIGIT
        child = load(words, hub + HEAD + digit)
        if child == 0:
            child = make_child(words, full, header, index, shift, digit)
            store(words, hub + HEAD + digit, child)
            children |= bit(digit)
        child_header = load(words, child + 1)
        word = entry_word(words, full, room, index)
        write_entry(words, child, room_of(child_header), child_header & LOW, key, word)
        store(words, child + 1, child_header + 1)
    store(words, hub + 1, children)
    store(words, at, hub | 1)
    drop(words, full, class_of_block(header))
    if above != 0:
        store(words, above + 1, load(words, above + 1) - ((size - FULL_BLOCK) << LOAD_SHIFT))
    if hubs == SUMMED_CLASS and load(words, SPLIT) == 0:  # the first of several is the highest
        store(words, SPLIT, hub)
        store(words, SPLIT_SHIFT, shift)


@inlined
def split_for(
    words: Words, at: int, hub: int, shift: int, key: int, hubs: int
) -> tuple[int, int, int]:
    """Split the full block at `at`; returns the same as `own_path`, for the new hub."""
    split_block(words, at, hub, shift, hubs)
    hub = load(words, at) - 1
    return hub + HEAD + ((key >> shift) & DIGIT), hub, shift + BITS


@inlined
def insert_entry(
    words: Words, at: int, hub: int, shift: int, key: int, word: int, hubs: int
) -> int:
    """Add an absent id to the block at `at`, a child of `hub` unless that is 0.

    `hubs` is the class of hubs, `shift` the number of id bits that the hubs above have used.
    Returns the address of the word, if the block is plain.
    """
    epoch = load(words, EPOCH)
    is_bare = is_bare_entry(key, word)
    while True:
        block = load(words, at)
        header = load(words, block + 1)
        size = header & LOW
        bare = BARE if is_bare and (block == 0 or header & BARE) else 0
        if size >= (FULL_BARE if bare else FULL_BLOCK):
            at, hub, shift = split_for(words, at, hub, shift, key, hubs)
            continue
        if block == 0 and hub == 0 and bare:
            store(words, at, share_block(words, key))
            return 0
        if block == 0:
            block = make_block(words, 1, 0, bare)
            store(words, at, block)
            if hub != 0:
                digit = (key >> (shift - BITS)) & DIGIT
                store(words, hub + 1, load(words, hub + 1) | bit(digit))
        elif bare != header & BARE or size == slots_of(header):
            block = rewrite_block(words, at, size, size + 1, bare)
        else:
            if load(words, block) != epoch:
                block = copy_node(words, block, class_of_block(header), epoch)
                store(words, at, block)
            store(words, block + 1, header + 1)
        if hub != 0:
            store(words, hub + 1, load(words, hub + 1) + LOAD_ONE)
        room = room_of(load(words, block + 1))
        write_entry(words, block, room, size, key, word)
        return block + HEAD + room + size


@inlined
def must_merge(header: int) -> bool:
    """Whether a hub must become a block again, by its bitmap."""
    most = FULL_BLOCK - 1 if header & GROWN else MERGE_AT
    return (header >> LOAD_SHIFT) & LOAD <= most


@inlined
def may_merge(header: int) -> bool:
    """Whether a hub must become a block again, or would if all its children are bare."""
    load_left = (header >> LOAD_SHIFT) & LOAD
    if load_left > BARE_MERGE_AT:
        return load_left == FULL_BARE - 1 and header & BARE_GROWN != 0
    return load_left % EXAMINED == 0 or must_merge(header)


@inlined
def find_kind(words: Words, hub: int) -> int:
    """`BARE` if all children of a hub are bare blocks."""
    bare, children = BARE, load(words, hub + 1) & LOW
    while children != 0 and bare != 0:
        child = load(words, hub + HEAD + trailing_zeros(children))
        bare = 0 if child & 1 else bare & load(words, child + 1)
        children &= children - 1
    return bare


@kernel
def merge_hubs(words: Words, top: int, key: int, hubs: int) -> None:
    """Merge hubs on the path to an id into one block each, lowest first, while they have few
    entries.

    `top` is the address of the set; the path must belong to this epoch. A hub that must be merged
    has no hubs below.
    """
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
        if not may_merge(bitmap):
            return
        bare = find_kind(words, hub)
        if bare == 0 and not must_merge(bitmap):
            return
        entries = (bitmap >> LOAD_SHIFT) & LOAD
        merged = make_block(words, entries, class_for(entries, bare), bare)
        room = room_of(load(words, merged + 1))
        filled, children = 0, bitmap & LOW
        while children != 0:
            child = load(words, hub + HEAD + trailing_zeros(children))
            header = load(words, child + 1)
            copy_entries(words, merged, room, filled, child, room_of(header), header & LOW)
            filled += header & LOW
            drop(words, child, class_of_block(header))
            children &= children - 1
        release(words, hub, hubs)
        store(words, at, merged)
        if above != 0:  # its load counted a full block, and it was as large as the hub below
            less = FULL_BLOCK - entries
            higher = load(words, above + 1) - (less << LOAD_SHIFT)
            store(words, above + 1, higher | (bitmap & (GROWN | BARE_GROWN)))


@inlined
def remove_entry(
    words: Words, top: int, at: int, hub: int, shift: int, key: int, index: int, hubs: int
) -> None:
    """Remove the entry at an index of the block at `at`; the set itself is at `top`."""
    block = load(words, at)
    header = load(words, block + 1)
    last = (header & LOW) - 1
    size_class = class_of_block(header)
    if last == 0:
        drop(words, block, size_class)
        store(words, at, 0)
        if hub != 0:
            digit = (key >> (shift - BITS)) & DIGIT
            store(words, hub + 1, load(words, hub + 1) & ~bit(digit))
    else:
        room = room_of(header)
        last_key = entry_key(words, block, room, last)
        last_word = entry_word(words, block, room, last)
        bare = header & BARE
        if bare == 0 and has_only_ones(words, block, header, index):
            bare = BARE
        if last == 1 and hub == 0 and bare:
            left = entry_key(words, block, room, 1 - index)
            drop(words, block, size_class)
            store(words, at, share_block(words, left))
            return
        is_small = size_class > 0 and last <= slots_of(header) >> 2
        if is_small or bare != header & BARE:
            # Of the entries before the last one, one goes and the last takes its place.
            block = rewrite_block(words, at, last, last, bare)
            store(words, COPIED, load(words, COPIED) + 1)
        else:
            epoch = load(words, EPOCH)
            if load(words, block) != epoch:
                block = copy_node(words, block, size_class, epoch)
                store(words, at, block)
            store(words, block + 1, header - 1)
        if index < last:
            room = room_of(load(words, block + 1))
            write_entry(words, block, room, index, last_key, last_word)
    if hub != 0:
        bitmap = load(words, hub + 1) - LOAD_ONE
        if (bitmap >> LOAD_SHIFT) & LOAD >= GROWN_AT:
            bitmap |= GROWN
        if (bitmap >> LOAD_SHIFT) & LOAD >= BARE_GROWN_AT:
            bitmap |= BARE_GROWN
        store(words, hub + 1, bitmap)
        if may_merge(bitmap):
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
    block = load(words, at)
    header = load(words, block + 1)
    index = find_entry(words, block, header, key)
    if index == header & LOW:
        if value != 0:
            insert_entry(words, at, hub, shift, key, value, hubs)
        return 0, value
    old = entry_word(words, block, room_of(header), index)
    new = value
    if not put:
        new, overflow = checked_add(old, value)
        if overflow:
            store(words, FAULTS, load(words, FAULTS) | OVERFLOW)
            return old, old
    if new == 0:
        remove_entry(words, top, at, hub, shift, key, index, hubs)
    elif new != old:
        put_word(words, at, hub, shift, key, new, hubs)
    return old, new


@kernel
def put_word(words: Words, at: int, hub: int, shift: int, key: int, word: int, hubs: int) -> None:
    """Replace the word of an id in the block at `at` by another one; neither is 0."""
    epoch = load(words, EPOCH)
    is_bare = is_bare_entry(key, word)
    while True:
        block = load(words, at)
        header = load(words, block + 1)
        size = header & LOW
        if header & BARE == 0 or size <= FULL_BLOCK:
            break
        # It is too large for a plain block.
        at, hub, shift = split_for(words, at, hub, shift, key, hubs)
    index = find_entry(words, block, header, key)
    if is_bare and size == 1 and hub == 0:
        drop(words, block, class_of_block(header))
        store(words, at, share_block(words, key))
        return
    if is_bare and has_only_ones(words, block, header, index):
        # The word of this entry is not copied, so it may still be the old one.
        rewrite_block(words, at, size, size, BARE)
        return
    if header & BARE:
        block = rewrite_block(words, at, size, size, 0)
    elif load(words, block) != epoch:
        block = copy_node(words, block, class_of_block(header), epoch)
        store(words, at, block)
    room = room_of(load(words, block + 1))
    store(words, block + HEAD + room + index, word)


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
    """The writable address of the word of an id in a set of references; a new id has the word 0.

    The caller must store a nonzero word there, or remove the id again with `set_change`.
    """
    epoch = load(words, EPOCH)
    at, hub, shift = own_path(words, top, key, epoch, NODE_CLASS)
    block = load(words, at)
    header = load(words, block + 1)
    index = find_entry(words, block, header, key)
    if index == header & LOW:
        return insert_entry(words, at, hub, shift, key, 0, NODE_CLASS)
    if load(words, block) != epoch:
        block = copy_node(words, block, class_of_block(header), epoch)
        store(words, at, block)
    return block + HEAD + room_of(header) + index
