"""A trie from ids to words: radix nodes of 32 children over the bits of the id, high bits first.

A trie is one word, its *root*: the offset of the top node, with the height above bit 56. Height 0
holds ids below 32, height 1 below 1,024, and so on; 0 is the empty trie. The words of the lowest
nodes belong to the user: counts, or references to sets. A word is absent if and only if it is 0.

Nodes may be summed, see `triegs.store.kernels.order_statistics`. The caller that changes a trie
specifies the classes of its inner nodes and leaves. The count beside a word is removed with it.

`trie_get` costs one load per level. A change gets a writable leaf from `trie_leaf`, writes the
word, and calls `mark_word`, then `trie_prune` if the leaf became empty.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import Words, bit, checked_add, load, store
from triegs.store.kernels.arena import (
    class_of,
    copy_as_own,
    drop,
    flag_of,
    make_node,
    retire,
)
from triegs.store.kernels.free import release
from triegs.store.kernels.layout import (
    APART,
    BITS,
    DIGIT,
    EPOCH,
    FANOUT,
    FAULTS,
    HEAD,
    HEIGHT_SHIFT,
    LOW,
    OFFSET,
    OVERFLOW,
    SUMMED_CLASS,
)


@inlined
def find_leaf(words: Words, root: int, key: int) -> int:
    """The leaf that covers this id; 0 if there is none."""
    shift = (root >> HEIGHT_SHIFT) * BITS
    if (key >> shift) >= FANOUT:
        return 0
    node = root & OFFSET
    while shift > 0:
        node = load(words, node + HEAD + ((key >> shift) & DIGIT))
        shift -= BITS
    return node


@inlined
def trie_get(words: Words, root: int, key: int) -> int:
    """The word of an id; 0 if absent, because leaf 0 is the null node. Cost: one load per level."""
    return load(words, find_leaf(words, root, key) + HEAD + (key & DIGIT))


@inlined
def is_apart(words: Words, shift: int) -> bool:
    """Whether nodes at this shift are copied by several workers, and retired when these merge."""
    return shift != 0 and load(words, APART) != 0 and shift >= load(words, APART)


@inlined
def own_trie_node(words: Words, node: int, epoch: int, size_class: int, shift: int) -> int:
    """The node, or a copy of it, writable in this epoch. Copying clears the touch flags."""
    if load(words, node) == epoch:
        return node
    children = load(words, node + 1) & LOW
    copy = copy_as_own(words, node, size_class, epoch)
    if not is_apart(words, shift):
        retire(words, node, size_class)
    store(words, copy + 1, children | (flag_of(size_class) if shift > 0 else 0))
    return copy


@kernel
def sum_node(words: Words, target: int, node: int) -> None:
    """Store the sums of a summed node's counts beside the word at this address."""
    for kind in range(1, 3):
        total = 0
        for index in range(FANOUT):
            total, overflow = checked_add(total, load(words, node + HEAD + kind * FANOUT + index))
            if overflow:
                store(words, FAULTS, load(words, FAULTS) | OVERFLOW)
        store(words, target + kind * FANOUT, total)


@kernel
def grow_trie(words: Words, at: int, key: int, inner: int, leaf: int) -> int:
    """Make the trie at this address tall enough for a key; returns its height."""
    epoch = load(words, EPOCH)
    root = load(words, at)
    height = root >> HEIGHT_SHIFT
    node = root & OFFSET
    while (key >> (height * BITS)) >= FANOUT:
        if node != 0:
            top = make_node(words, epoch, inner)
            store(words, top + 1, 1 | flag_of(inner))
            store(words, top + HEAD, node)
            if inner == SUMMED_CLASS:
                sum_node(words, top + HEAD, node)
            node = top
        height += 1
    if node == 0:
        node = make_node(words, epoch, inner if height > 0 else leaf)
        if height > 0:
            store(words, node + 1, flag_of(inner))
    store(words, at, node | (height << HEIGHT_SHIFT))
    return height


@inlined
def trie_leaf(words: Words, at: int, key: int, inner: int, leaf: int) -> int:
    """The leaf that covers this id, created if needed, on a path writable in this epoch.

    `at` is the address of the root, `inner` and `leaf` are node classes. The caller must store a
    nonzero word in an empty leaf.
    """
    epoch = load(words, EPOCH)
    root = load(words, at)
    height = root >> HEIGHT_SHIFT
    if root == 0 or (key >> (height * BITS)) >= FANOUT:
        height = grow_trie(words, at, key, inner, leaf)
        root = load(words, at)
    top = root & OFFSET
    node = own_trie_node(words, top, epoch, inner if height > 0 else leaf, height * BITS)
    if node != top:
        store(words, at, node | (height << HEIGHT_SHIFT))
    shift = height * BITS
    while shift > 0:
        digit = (key >> shift) & DIGIT
        child = load(words, node + HEAD + digit)
        if child == 0:
            below = make_node(words, epoch, inner if shift > BITS else leaf)
            if shift > BITS:
                store(words, below + 1, flag_of(inner))
            store(words, node + HEAD + digit, below)
            store(words, node + 1, load(words, node + 1) | bit(digit))
        else:
            size_class = inner if shift > BITS else leaf
            below = own_trie_node(words, child, epoch, size_class, shift - BITS)
            if below != child:
                store(words, node + HEAD + digit, below)
        node = below
        shift -= BITS
    return node


@kernel
def trie_prune(words: Words, at: int, key: int, leaf: int) -> None:
    """Remove the branch that led only to the empty leaf of this id, and lower the trie.

    The path belongs to this epoch and its counts are up to date; `leaf` is the class of the leaves.
    Cost: two visits per level.
    """
    root = load(words, at)
    shift = (root >> HEIGHT_SHIFT) * BITS
    node = root & OFFSET
    keeper = 0  # the lowest node on the path with other children
    branch_shift = shift
    while shift > 0:
        children = load(words, node + 1) & LOW
        if children & (children - 1) != 0:
            keeper = node
            branch_shift = shift - BITS
        node = load(words, node + HEAD + ((key >> shift) & DIGIT))
        shift -= BITS
    if keeper == 0:
        node = root & OFFSET
        store(words, at, 0)
    else:
        digit = (key >> (branch_shift + BITS)) & DIGIT
        node = load(words, keeper + HEAD + digit)
        store(words, keeper + HEAD + digit, 0)
        store(words, keeper + 1, load(words, keeper + 1) & ~bit(digit))
    while True:
        below = load(words, node + HEAD + ((key >> branch_shift) & DIGIT))
        release(words, node, class_of(load(words, node + 1)) if branch_shift > 0 else leaf)
        if branch_shift == 0:
            break
        branch_shift -= BITS
        node = below
    lower_trie(words, at)


@inlined
def lower_trie(words: Words, at: int) -> None:
    """Remove top nodes whose only child is the first."""
    root = load(words, at)
    height = root >> HEIGHT_SHIFT
    node = root & OFFSET
    while height > 0 and load(words, node + 1) & LOW == 1:
        below = load(words, node + HEAD)
        drop(words, node, class_of(load(words, node + 1)))
        node = below
        height -= 1
        store(words, at, node | (height << HEIGHT_SHIFT))
