"""Memory that held versions retain, by relation; and memory that publishing would free.

Every node that some held version reaches, and the newest does not, is on the list of a hold. So a
visit of a version's relation need not know the newest one: it descends only below listed nodes, and
all others are shared.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, load, store
from triegs.store.kernels.epochs import find_hold, leaf_class_of, push_below, push_walk
from triegs.store.kernels.free import size_words
from triegs.store.kernels.layout import (
    ARITY,
    CHUNK_ENTRIES,
    CLASS,
    CLASS_BITS,
    EPOCH,
    FRESH,
    FRESH_AT,
    FRESH_LAST,
    HEAD,
    HEIGHT_SHIFT,
    NODE_WORDS,
    OFFSET,
)


@kernel
def list_retained(words: Words, holds: Words, nodes: Words) -> int:
    """Write the nodes on the lists of all holds; returns their number."""
    found = 0
    for row in range(holds.size // 2):
        chunk = load(holds, 2 * row + 1)
        while chunk != 0:
            for index in range(load(words, chunk + 1)):
                store(nodes, found, load(words, chunk + HEAD + index) >> CLASS_BITS)
                found += 1
            chunk = load(words, chunk)
    return found


@inlined
def find_node(nodes: Words, node: int) -> int:
    """The index of a node among the sorted nodes; -1 if absent."""
    low, high = 0, nodes.size
    while low < high:
        middle = (low + high) >> 1
        if load(nodes, middle) < node:
            low = middle + 1
        else:
            high = middle
    return low if low < nodes.size and load(nodes, low) == node else -1


@kernel
def measure_retained(
    words: Words, stack: Words, root: int, shape: int, nodes: Words, seen: Words
) -> int:
    """The words of a relation's nodes that are among the sorted `nodes`, each counted once over all
    calls with the same `seen`.

    A node that is not among them, or was seen, is skipped with its subtree, for which the same
    holds.
    """
    arity, leaf_class = shape & ARITY, leaf_class_of(shape)
    if arity == 0 or root == 0:
        return 0
    visited = 0
    top = push_walk(stack, 0, root & OFFSET, arity - 1, root >> HEIGHT_SHIFT)
    while top > 0:
        top -= 3
        word = load(stack, top)
        sets = load(stack, top + 1)
        height = load(stack, top + 2)
        node = word & ~1
        index = find_node(nodes, node)
        if index < 0 or load(seen, index) != 0:
            continue
        store(seen, index, 1)
        top, size_class = push_below(words, stack, top, word, sets, height, leaf_class)
        visited += size_words(size_class)
    return visited


@kernel
def measure_fresh(words: Words, holds: Words) -> int:
    """The words that publishing this epoch will free. Cost: a visit of each retired node."""
    row = find_hold(holds, load(words, EPOCH))
    held = -1 if row < 0 else load(holds, 2 * row)
    freed = 0
    kept = 0
    chunk = load(words, FRESH)
    while chunk != 0:
        count = load(words, chunk + 1)
        if chunk == load(words, FRESH_LAST):
            count = load(words, FRESH_AT) - chunk - HEAD
        for index in range(count):
            entry = load(words, chunk + HEAD + index)
            if load(words, entry >> CLASS_BITS) > held:
                freed += size_words(entry & CLASS)
            else:
                kept += 1
        freed += NODE_WORDS
        chunk = load(words, chunk)
    return freed - (kept + CHUNK_ENTRIES - 1) // CHUNK_ENTRIES * NODE_WORDS
