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
from triegs.store.kernels.free import size_words
from triegs.store.kernels.layout import (
    ARITY,
    BUMP,
    CLASSES,
    DIGIT,
    FREE,
    FREE_COUNT,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    OFFSET,
    RUN_LISTS,
    RUN_WORDS,
    RUNS,
    SLOT_WORDS,
    SLOTS,
    START,
)

UNIT_BITS = 5  # a word of the map covers 32 pairs of words
SPAN = 2 << UNIT_BITS


@inlined
def mark_words(used: Words, node: int, size: int) -> None:
    """Mark the words of a node as used."""
    first = (node - START) >> 1
    for unit in range(first, first + (size >> 1)):
        store(used, unit >> UNIT_BITS, load(used, unit >> UNIT_BITS) | bit(unit & DIGIT))


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
        top, size_class = push_below(words, stack, top, word, sets, height, leaf_class)
        if is_known:
            move_below(words, used, before, word, sets, height)
        else:
            mark_words(used, word & ~1, size_words(size_class))


@kernel
def compact_arena(words: Words, stack: Words, shapes: Words, used: Words, before: Words) -> None:
    """Compact all nodes; `shapes` of all slots, `used` a map of zeros, `before` of equal length.

    Cost: two visits and one move per node.
    """
    for slot in range(shapes.size):
        root = load(words, SLOTS + SLOT_WORDS * slot)
        walk_nodes(words, stack, used, before, root, load(shapes, slot), False)
    total = 0
    for index in range(used.size):
        store(before, index, total)
        total += 2 * population(load(used, index))
    for slot in range(shapes.size):
        at = SLOTS + SLOT_WORDS * slot
        root = load(words, at)
        if root != 0 and load(shapes, slot) & ARITY != 0:
            walk_nodes(words, stack, used, before, root, load(shapes, slot), True)
            moved = find_new_offset(used, before, root & OFFSET)
            store(words, at, moved | (root >> HEIGHT_SHIFT) << HEIGHT_SHIFT)
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
