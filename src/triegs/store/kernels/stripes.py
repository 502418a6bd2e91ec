"""Stripes: one relation changed by several workers, each in the subtrees of its own ids.

The ids of every so many blocks of `1 << shift` adjacent ones are a *stripe*. Within a stage of an
epoch a stripe of a relation belongs to one worker. Nodes below the shift cover ids of one stripe,
so their owner changes them as if it were alone. Nodes at the shift and above are shared: each
worker copies those that it comes past, changes its copy, and does not retire the original (`APART`
in `triegs.store.kernels.layout`). `merge_stripes` then makes one trie of these copies, child by
child from the owner of its ids, and retires each original once. So the result is the trie that one
worker would have made, but for the addresses of its nodes.

Cost of merging: the shared nodes that any worker has copied.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, bit, load, store
from triegs.store.kernels.arena import copy_as_own, make_node, retire
from triegs.store.kernels.free import release
from triegs.store.kernels.layout import (
    BITS,
    EPOCH,
    FANOUT,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    NODE_CLASS,
    OFFSET,
)
from triegs.store.kernels.trie import is_apart, lower_trie

CYCLE_BITS = 6  # stripes repeat every so many blocks
#: Workers that can change one relation.
MOST_WORKERS = 16
# While merging, a frame for each level: the original node, the node that stays, the next child, the
# children found so far, and the copy of each worker.
ORIGINAL, RESULT, NEXT_CHILD, CHILDREN, COPIES = range(5)
UNTOUCHED = -1  # in place of a copy: as the original
FRAME_WORDS = COPIES + MOST_WORKERS
MERGE_WORDS = 8 * FRAME_WORDS  # a trie has at most seven levels


@inlined
def find_stripe(key: int, shift: int, stripes: int) -> int:
    """The stripe of an id. Any number of stripes up to 64 has about as many ids in each."""
    return (((key >> shift) & ((1 << CYCLE_BITS) - 1)) * stripes) >> CYCLE_BITS


@kernel
def open_stripes(words: Words, slot: int) -> None:
    """Give a worker a copy of the top of a relation's trie, before it changes a stripe.

    The bitmap of the copy has all bits, so that the trie neither gets lower nor is removed by what
    one worker deletes; merging writes the bitmap anew. The number of tuples becomes the worker's
    difference.
    """
    root = load(words, slot)
    height = root >> HEIGHT_SHIFT
    if is_apart(words, height * BITS):
        top = copy_as_own(words, root & OFFSET, NODE_CLASS, load(words, EPOCH))
        store(words, top + 1, LOW)
        store(words, slot, top | height << HEIGHT_SHIFT)
    store(words, slot + 1, 0)


@inlined
def raise_trie(words: Words, root: int, height: int) -> int:
    """The top node of a nonempty trie that is made as tall as this."""
    node = root & OFFSET
    for _ in range(height - (root >> HEIGHT_SHIFT)):
        top = make_node(words, load(words, EPOCH), NODE_CLASS)
        store(words, top + 1, 1)
        store(words, top + HEAD, node)
        node = top
    return node


@inlined
def child_of(words: Words, node: int, digit: int) -> int:
    """A child of a copy; of a worker without one, that it has none here either."""
    if node == UNTOUCHED:
        return UNTOUCHED
    return load(words, node + HEAD + digit) if node != 0 else 0


@inlined
def open_frame(frames: Words, at: int, workers: int) -> bool:
    """Choose the node that stays of those in a frame; false if no worker has changed anything."""
    original, result, is_changed = load(frames, at + ORIGINAL), 0, False
    for worker in range(workers):
        node = load(frames, at + COPIES + worker)
        if node != UNTOUCHED and node != original:
            is_changed = True
            if node != 0 and result == 0:
                result = node
    store(frames, at + RESULT, result)
    store(frames, at + NEXT_CHILD, 0)
    store(frames, at + CHILDREN, 0)
    return is_changed


@inlined
def put_child(words: Words, frames: Words, at: int, child: int) -> None:
    """Write the next child of the node that stays."""
    digit = load(frames, at + NEXT_CHILD)
    store(frames, at + NEXT_CHILD, digit + 1)
    if child != 0:
        if load(frames, at + RESULT) == 0:
            store(frames, at + RESULT, make_node(words, load(words, EPOCH), NODE_CLASS))
        store(frames, at + CHILDREN, load(frames, at + CHILDREN) | bit(digit))
    if load(frames, at + RESULT) != 0:
        store(words, load(frames, at + RESULT) + HEAD + digit, child)


@inlined
def close_frame(words: Words, frames: Words, at: int, workers: int) -> int:
    """Retire the original, give back all copies but one; returns that, or 0 if it is empty."""
    original, result = load(frames, at + ORIGINAL), load(frames, at + RESULT)
    for worker in range(workers):
        node = load(frames, at + COPIES + worker)
        if node not in (0, UNTOUCHED, original, result):
            release(words, node, NODE_CLASS)
    if original != 0:
        retire(words, original, NODE_CLASS)
    if result != 0:
        children = load(frames, at + CHILDREN)
        store(words, result + 1, children)
        if children == 0:
            release(words, result, NODE_CLASS)
            result = 0
    return result


@kernel
def merge_stripes(
    words: Words, frames: Words, slot: int, shift: int, owners: Words, roots: Words, workers: int
) -> None:
    """Merge the tries of all workers into the one in a slot, which still has the original root.

    `roots` are their roots; of a worker that changed nothing the original one. `owners` has the
    worker of each stripe, or -1.
    """
    original = load(words, slot)
    height = 0
    for worker in range(workers):
        height = max(height, load(roots, worker) >> HEIGHT_SHIFT)
    if height * BITS < shift:  # all ids are of one stripe
        for worker in range(workers):
            if load(roots, worker) != original:
                store(words, slot, load(roots, worker))
        return
    for worker in range(workers):
        root = load(roots, worker)
        if root == original:
            root = UNTOUCHED
        elif root != 0:
            root = raise_trie(words, root, height)
        store(frames, COPIES + worker, root)
    is_tall = original >> HEIGHT_SHIFT == height
    store(frames, ORIGINAL, original & OFFSET if is_tall else 0)
    if not open_frame(frames, 0, workers):
        return
    node = merge_levels(words, frames, height, original, shift, owners, workers)
    store(words, slot, 0 if node == 0 else node | height << HEIGHT_SHIFT)
    if node != 0:
        lower_trie(words, slot)


@inlined
def drop_grown(
    words: Words, frames: Words, at: int, digit: int, owner: int, workers: int, level: int,
    root: int,
) -> None:  # fmt: skip
    """Free what workers other than the owner put above an original trie that is lower than the
    blocks of stripes: it leads nowhere else, and the owner has the same.
    """
    for worker in range(workers):
        node = child_of(words, load(frames, at + COPIES + worker), digit)
        if worker != owner and node != UNTOUCHED and node != 0:
            for _ in range(level - (root >> HEIGHT_SHIFT)):
                below = load(words, node + HEAD)
                release(words, node, NODE_CLASS)
                node = below


@kernel
def merge_levels(
    words: Words, frames: Words, height: int, root: int, shift: int, owners: Words, workers: int
) -> int:
    """Merge the nodes in the first frame, level by level; returns the node that stays."""
    stripes = owners.size
    # An original trie that is lower than the merged one is below the first child at this level.
    level = max(root >> HEIGHT_SHIFT, shift // BITS - 1)
    if root == 0 or root >> HEIGHT_SHIFT == height:
        level = -1
    depth, prefix = 0, 0  # the ids below the current child have these high bits
    while True:
        at = FRAME_WORDS * depth
        digit = load(frames, at + NEXT_CHILD)
        if digit == FANOUT:
            node = close_frame(words, frames, at, workers)
            if depth == 0:
                return node
            depth -= 1
            prefix >>= BITS
            put_child(words, frames, FRAME_WORDS * depth, node)
            continue
        prefix = prefix << BITS | digit
        is_root = prefix == 0 and height - depth - 1 == level
        original = load(frames, at + ORIGINAL)
        old = load(words, original + HEAD + digit) if original != 0 else 0
        if (height - depth) * BITS == shift:
            owner = load(owners, find_stripe(prefix << shift, shift, stripes))
            child = UNTOUCHED
            if is_root:
                drop_grown(words, frames, at, digit, owner, workers, level, root)
            if owner >= 0:
                child = child_of(words, load(frames, at + COPIES + owner), digit)
            if child == UNTOUCHED:
                child = raise_trie(words, root, level) if is_root else old
            put_child(words, frames, at, child)
            prefix >>= BITS
            continue
        if is_root:
            old = root & OFFSET
        under = at + FRAME_WORDS
        store(frames, under + ORIGINAL, old)
        for worker in range(workers):
            child = child_of(words, load(frames, at + COPIES + worker), digit)
            store(frames, under + COPIES + worker, child)
        if open_frame(frames, under, workers):
            depth += 1
        else:
            prefix >>= BITS
            put_child(words, frames, at, old)
