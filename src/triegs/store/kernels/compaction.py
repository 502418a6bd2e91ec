"""Compaction: moves all nodes to the beginning of the array, without gaps.

Runs only between epochs and while no version is held, so the slots reach all live nodes. A map has
one bit for every two words of the array, which says whether they belong to a node. With the number
of used words before each 32 bits, it gives the new offset of a node. Nodes keep their order, so
each can be moved after those before it.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, bit, load, population, store, trailing_zeros
from triegs.store.kernels.blocks import room_of
from triegs.store.kernels.epochs import leaf_class_of, push_below, push_walk
from triegs.store.kernels.free import release, size_words
from triegs.store.kernels.layout import (
    ARITY,
    BUMP,
    CLASSES,
    DIGIT,
    DIRECTORY,
    FREE,
    FREE_COUNT,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    NODE_CLASS,
    NODE_WORDS,
    OFFSET,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SHARED_CLASS,
    SHARED_NODES,
    SLOT_WORDS,
    SLOTS,
    START,
    UNSHARED,
)
from triegs.store.kernels.shared import page_of

UNIT_BITS = 5  # a word of the map covers 32 pairs of words
SPAN = 2 << UNIT_BITS


@inlined
def mark_words(used: Words, node: int, size: int) -> None:
    """Mark the words of a node as used."""
    first = (node - START) >> 1
    for unit in range(first, first + (size >> 1)):
        store(used, unit >> UNIT_BITS, load(used, unit >> UNIT_BITS) | bit(unit & DIGIT))


@inlined
def is_marked(used: Words, node: int) -> bool:
    unit = (node - START) >> 1
    return load(used, unit >> UNIT_BITS) & bit(unit & DIGIT) != 0


@inlined
def find_new_offset(used: Words, before: Words, node: int) -> int:
    """The new offset of a node."""
    unit = (node - START) >> 1
    lower = load(used, unit >> UNIT_BITS) & (bit(unit & DIGIT) - 1)
    return START + load(before, unit >> UNIT_BITS) + 2 * population(lower)


@inlined
def move_reference(words: Words, used: Words, before: Words, at: int) -> None:
    """Redirect a reference to the new offset of its node, hub or not."""
    word = load(words, at)
    store(words, at, find_new_offset(used, before, word & ~1) | (word & 1))


@inlined
def move_below(words: Words, used: Words, before: Words, word: int, sets: int, height: int) -> None:
    """Redirect the references of a node to the new offsets of its children, if it has any."""
    node = word & ~1
    if height >= 0 or word & 1:
        if height == 0 and sets == 0:
            return
        children = load(words, node + 1) & LOW
        while children != 0:
            move_reference(words, used, before, node + HEAD + trailing_zeros(children))
            children &= children - 1
    elif sets > 0:
        header = load(words, node + 1)
        for index in range(header & LOW):
            move_reference(words, used, before, node + HEAD + room_of(header) + index)


@kernel
def walk_nodes(
    words: Words, stack: Words, used: Words, before: Words, root: int, shape: int, is_known: bool
) -> None:
    """Mark the nodes of a relation as used; once all new offsets are known, redirect references."""
    arity = shape & ARITY
    if arity == 0 or root == 0:
        return
    leaf_class = leaf_class_of(shape)
    top = push_walk(stack, 0, root & OFFSET, arity - 1, root >> HEIGHT_SHIFT)
    while top > 0:
        top -= 3
        word, sets, height = load(stack, top), load(stack, top + 1), load(stack, top + 2)
        if not is_known and is_marked(used, word & ~1):
            continue  # another version has it, too
        top, size_class = push_below(words, stack, top, word, sets, height, leaf_class)
        if is_known:
            move_below(words, used, before, word, sets, height)
        elif size_class != SHARED_CLASS:
            mark_words(used, word & ~1, size_words(size_class))
        else:
            mark_words(used, page_of(words, word), NODE_WORDS)


@kernel
def mark_version(words: Words, stack: Words, used: Words, roots: Words, shapes: Words) -> None:
    """Mark all nodes of a version as used; `shapes` of all its slots."""
    for slot in range(shapes.size):
        root = load(roots, SLOT_WORDS * slot)
        walk_nodes(words, stack, used, used, root, load(shapes, slot), False)


@kernel
def sweep_pages(words: Words, stack: Words, used: Words, frees: bool) -> None:
    """Remove the pages that no set uses, and free them or leave that to compaction. The nodes of
    the directory are marked as used, after those of all versions.
    """
    root, top, nodes = load(words, DIRECTORY), 0, 0
    if root != 0:
        top = push_walk(stack, 0, root & OFFSET, 0, root >> HEIGHT_SHIFT)
    while top > 0:
        top -= 3
        node, height = load(stack, top), load(stack, top + 2)
        mark_words(used, node, NODE_WORDS)
        nodes += 1
        children = load(words, node + 1) & LOW
        while children != 0:
            digit = trailing_zeros(children)
            children &= children - 1
            below = load(words, node + HEAD + digit)
            if height > 0:
                top = push_walk(stack, top, below, 0, height - 1)
            elif is_marked(used, below):
                nodes += 1
            else:
                store(words, node + HEAD + digit, 0)
                store(words, node + 1, load(words, node + 1) & ~bit(digit))
                if frees:
                    release(words, below, NODE_CLASS)
    store(words, SHARED_NODES, nodes)
    store(words, UNSHARED, 0)


@inlined
def move_root(words: Words, stack: Words, used: Words, before: Words, at: int, shape: int) -> None:
    """Redirect the root at an address, and all references below it."""
    root = load(words, at)
    if root != 0 and shape & ARITY != 0:
        walk_nodes(words, stack, used, before, root, shape, True)
        moved = find_new_offset(used, before, root & OFFSET)
        store(words, at, moved | (root >> HEIGHT_SHIFT) << HEIGHT_SHIFT)


@kernel
def compact_arena(words: Words, stack: Words, shapes: Words, used: Words, before: Words) -> None:
    """Compact all nodes; `shapes` of all slots, `used` a map of zeros, `before` of equal length.

    Cost: two visits and one move per node.
    """
    mark_version(words, stack, used, words[SLOTS:], shapes)
    sweep_pages(words, stack, used, False)
    total = 0
    for index in range(used.size):
        store(before, index, total)
        total += 2 * population(load(used, index))
    for slot in range(shapes.size):
        at = SLOTS + SLOT_WORDS * slot
        move_root(words, stack, used, before, at, load(shapes, slot))
    move_root(words, stack, used, before, DIRECTORY, 2)
    target = START
    for index in range(used.size):
        units = load(used, index)
        while units != 0:
            source = START + SPAN * index + 2 * trailing_zeros(units)
            store(words, target, load(words, source))
            store(words, target + 1, load(words, source + 1))
            target += 2
            units &= units - 1
    store(words, BUMP, target)
    for size_class in range(CLASSES):
        store(words, FREE + size_class, 0)
        store(words, FREE_COUNT + size_class, 0)
    for kind in range(RUN_LISTS):
        store(words, RUNS + kind, 0)
    store(words, RUN_WORDS, 0)
