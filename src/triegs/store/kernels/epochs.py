"""Between epochs: publish changes, reuse invisible nodes, or roll back.

A node is visible in the versions from its birth up to, not including, its retirement. It is
reusable once its retirement is published and no held version lies in that interval. Retired nodes
that are still visible wait in the list of the newest held version that sees them; when that version
is released, they move to the next older one that sees them, or are freed. `holds` is a table of the
held versions, ascending: `[version, first chunk of its list]` each.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, load, release_lock, store, take_lock, trailing_zeros
from triegs.store.kernels.arena import class_of, push_entry, retire, take_fresh
from triegs.store.kernels.blocks import class_of_block, entry_word, room_of
from triegs.store.kernels.free import has_room, release, size_words
from triegs.store.kernels.layout import (
    ARITY,
    CLASS,
    CLASS_BITS,
    EPOCH,
    FAULTS,
    FRESH,
    FRESH_LAST,
    HEAD,
    HEIGHT_SHIFT,
    LAYOUT_SHIFT,
    LOW,
    NODE_CLASS,
    NODE_WORDS,
    OFFSET,
    PLAIN,
    RETAINED,
    RETIRED,
    SHARED_BIRTH,
    SHARED_CLASS,
    SLOT_WORDS,
    SLOTS,
    SUMMED_CLASS,
    UNSHARED,
)

# Purposes of a walk over a relation.
MEASURE, RETIRE, FREE_BORN = 0, 1, 2
FEW_WORDS = 10_000  # retained words that are freed without releasing the lock
WALK_WORDS = 1 << 14  # stack of a walk: 3 words, 32 children, at most 127 levels


@inlined
def add_retained(words: Words, change: int) -> None:
    store(words, RETAINED, load(words, RETAINED) + change)


@inlined
def pass_on(words: Words, chunk: int, holds: Words, row: int) -> int:
    """Pass each node on a list to a held version that sees it, or free it; then free the list.

    Returns the number of nodes.
    """
    held = -1 if row < 0 else load(holds, 2 * row)
    nodes = 0
    while chunk != 0:
        nodes += load(words, chunk + 1)
        for index in range(load(words, chunk + 1)):
            entry = load(words, chunk + HEAD + index)
            node = entry >> CLASS_BITS
            size_class = entry & CLASS
            if load(words, node) <= held:
                first = load(holds, 2 * row + 1)
                longer = push_entry(words, first, entry)
                if longer != first:
                    store(holds, 2 * row + 1, longer)
                    add_retained(words, NODE_WORDS)
                add_retained(words, size_words(size_class))
            else:
                release(words, node, size_class)
        below = load(words, chunk)
        release(words, chunk, NODE_CLASS)
        chunk = below
    return nodes


@inlined
def find_hold(holds: Words, version: int) -> int:
    """The row of the newest held version below this one; -1 if there is none."""
    row = holds.size // 2 - 1
    while row >= 0 and load(holds, 2 * row) >= version:
        row -= 1
    return row


@kernel
def publish_epoch(words: Words, roots: Words, holds: Words) -> None:
    """Copy the slots into a root vector, begin the next epoch, and process retired nodes.

    Nodes retired in the published epoch wait for readers, or are freed.
    """
    for index in range(roots.size):
        store(roots, index, load(words, SLOTS + index))
    epoch = load(words, EPOCH)
    store(words, EPOCH, epoch + 1)
    retired = pass_on(words, take_fresh(words), holds, find_hold(holds, epoch))
    store(words, RETIRED, load(words, RETIRED) + retired)


@short_kernel
def publish_roots(words: Words, roots: Words, holds: Words) -> None:
    """`publish_epoch`, for calls from Python."""
    if load(words, FRESH) == load(words, FRESH_LAST):  # it retired only a few nodes
        publish_epoch(words, roots, holds)
    else:
        lock = release_lock()
        publish_epoch(words, roots, holds)
        take_lock(lock)


@kernel
def move_holds(words: Words, old: Words, new: Words) -> None:
    """Replace the held versions by those of another table, whose lists are still empty."""
    for row in range(old.size // 2 - 1, -1, -1):
        version = load(old, 2 * row)
        heir = find_hold(new, version + 1)
        if heir >= 0 and load(new, 2 * heir) == version:
            store(new, 2 * heir + 1, load(old, 2 * row + 1))
    for row in range(old.size // 2 - 1, -1, -1):
        version = load(old, 2 * row)
        heir = find_hold(new, version + 1)
        chunk = load(old, 2 * row + 1)
        if chunk != 0 and not (heir >= 0 and load(new, 2 * heir) == version):
            below = chunk
            while below != 0:
                add_retained(words, -NODE_WORDS)
                for index in range(load(words, below + 1)):
                    entry = load(words, below + HEAD + index)
                    add_retained(words, -size_words(entry & CLASS))
                below = load(words, below)
            pass_on(words, chunk, new, heir)


@short_kernel
def change_holds(words: Words, old: Words, new: Words) -> None:
    """`move_holds`, for calls from Python."""
    if load(words, RETAINED) < FEW_WORDS:
        move_holds(words, old, new)
    else:
        lock = release_lock()
        move_holds(words, old, new)
        take_lock(lock)


@inlined
def push_walk(stack: Words, top: int, word: int, sets: int, height: int) -> int:
    store(stack, top, word)
    store(stack, top + 1, sets)
    store(stack, top + 2, height)
    return top + 3


@inlined
def leaf_class_of(shape: int) -> int:
    """The class of the leaves of a relation of this shape."""
    return NODE_CLASS if shape >> LAYOUT_SHIFT == PLAIN else SUMMED_CLASS


@inlined
def push_below(
    words: Words, stack: Words, top: int, word: int, sets: int, height: int, leaf_class: int
) -> tuple[int, int]:
    """Push the children of a node or block; returns the top of the stack, and its class."""
    node = word & ~1
    if height >= 0 or word & 1:
        bitmap = load(words, node + 1)
        children = bitmap & LOW
        while children != 0:
            below = load(words, node + HEAD + trailing_zeros(children))
            children &= children - 1
            if height > 0:
                top = push_walk(stack, top, below, sets, height - 1)
            elif height < 0:
                top = push_walk(stack, top, below, sets, -1)
            elif sets > 0:
                top = push_walk(stack, top, below, sets - 1, -1)
        return top, leaf_class if height == 0 else class_of(bitmap)
    header = load(words, node + 1)
    if sets > 0:
        for index in range(header & LOW):
            below = entry_word(words, node, room_of(header), index)
            top = push_walk(stack, top, below, sets - 1, -1)
    return top, class_of_block(header)


@kernel
def walk_relation(words: Words, stack: Words, root: int, shape: int, purpose: int) -> int:
    """Visit the nodes of a relation, for one purpose; returns the words of those visited.

    `MEASURE` only counts. `RETIRE` retires the nodes born before this epoch; it changes none of
    them, and returns -1 if the arena has no room for the list. `FREE_BORN` frees those born in this
    epoch; it skips older nodes, whose children are older still.
    """
    arity = shape & ARITY
    if arity == 0 or root == 0:
        return 0
    leaf_class = leaf_class_of(shape)
    epoch = load(words, EPOCH)
    visited = 0
    top = push_walk(stack, 0, root & OFFSET, arity - 1, root >> HEIGHT_SHIFT)
    while top > 0:
        top -= 3
        word = load(stack, top)
        sets = load(stack, top + 1)  # levels of sets below this structure
        height = load(stack, top + 2)  # of a trie; -1 for a set
        node = word & ~1
        born = load(words, node) == epoch
        if purpose == FREE_BORN and not born:
            if load(words, node) >= SHARED_BIRTH:
                store(words, UNSHARED, load(words, UNSHARED) + 1)
            continue
        if purpose == RETIRE and not has_room(words):
            return -1
        top, size_class = push_below(words, stack, top, word, sets, height, leaf_class)
        if size_class == SHARED_CLASS:
            if purpose == RETIRE:
                store(words, UNSHARED, load(words, UNSHARED) + 1)
            continue
        visited += size_words(size_class)
        if purpose == FREE_BORN:
            release(words, node, size_class)
        elif purpose == RETIRE and not born:
            retire(words, node, size_class)
    return visited


@kernel
def clear_slot(words: Words, stack: Words, slot: int, shape: int) -> bool:
    """Remove all tuples of a relation; if full, returns false, and an abort must follow."""
    root = load(words, slot)
    if walk_relation(words, stack, root, shape, RETIRE) < 0:
        return False
    walk_relation(words, stack, root, shape, FREE_BORN)
    store(words, slot, 0)
    store(words, slot + 1, 0)
    return True


@kernel
def abort_epoch(words: Words, stack: Words, roots: Words, shapes: Words) -> None:
    """Roll back the current epoch: `roots` of the newest version, `shapes` of all slots.

    Cost: the nodes born in the epoch, plus the slots.
    """
    for slot in range(shapes.size):
        at = SLOTS + SLOT_WORDS * slot
        root = 0
        entries = 0
        if SLOT_WORDS * slot < roots.size:
            root = load(roots, SLOT_WORDS * slot)
            entries = load(roots, SLOT_WORDS * slot + 1)
        if load(words, at) != root:
            walk_relation(words, stack, load(words, at), load(shapes, slot), FREE_BORN)
        store(words, at, root)
        store(words, at + 1, entries)
    chunk = take_fresh(words)
    while chunk != 0:
        below = load(words, chunk)
        release(words, chunk, NODE_CLASS)
        chunk = below
    store(words, FAULTS, 0)
