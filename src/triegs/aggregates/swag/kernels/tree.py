"""The nodes of a finger B-tree, and the aggregates along its spines.

After Tangwongsan, Hirzel and Schneider, "Optimal and general out-of-order sliding-window
aggregation" (PVLDB 12, 2019). Events are in leaves, one entry per time. An inner node has, for each
child, a key (no time below the child is less) and a total (the aggregate below the child)::

    leaf   [free list, COUNT, PARENT, LEVEL, SIDE, spine state, times,  states]
    inner  [free list, COUNT, PARENT, LEVEL, SIDE, spine state, keys,   totals,  children]

The *left spine* leads from the root to the oldest leaf, the *right spine* to the newest; `SIDE`
says on which a node is, the root on both. The *fingers* are the two leaves. Events come and go near
them, so a total that covers a spine node would change all the time. Therefore:

1. The total of a child on a spine is undefined; every other total is the fold of its child.
2. The spine state of a right-spine node is that of its parent followed by the fold of the node
   without its last child; on the left spine, the fold of the node without its first child followed
   by that of its parent. The root counts as identity here. A leaf is folded as a whole.
3. `INNER` of the header is the fold of the root without its first and last child.

So a window is: spine state of the left finger, `INNER`, spine state of the right finger. Spine
states are refreshed when read: those below level `LEFT_STALE` and `RIGHT_STALE` are out of date.

4. All leaves are at level 0, no node is empty, and a root that is not a leaf has two children or
   more. Nodes on the spines can be less than half full, so the height is logarithmic in the largest
   size since the window was last evicted completely.
5. The first key of an inner node is never read, so that evictions need not maintain it.
"""

from __future__ import annotations

from triegs.aggregates.swag.kernels.pool import (
    FREE,
    free_block,
    has_room,
    take_block,
)
from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.operators import State
from triegs.aggregates.swag.templates import (
    IDENTITY,
    INLINED,
    KERNEL,
    WIDTH,
    combine,
    template,
)
from triegs.jit.jit import inlined
from triegs.jit.words import Words, load, store

SLOTS = 32  # of a node
COUNT, PARENT, LEVEL, SIDE, SPINE = 1, 2, 3, 4, 5
LEFT, RIGHT = 1, 2
LEAF, BRANCH, DROPPED = 0, 1, 2  # free lists: leaves, inner nodes, subtrees
MOST_LEVELS = 24
# The header of a window.
ROOT, OLDEST, NEWEST, LEFT_STALE, RIGHT_STALE, INNER_STALE, INNER = 0, 1, 2, 3, 4, 5, 6


@template(INLINED)
def get_header_words() -> int:
    return INNER + WIDTH


@template(INLINED)
def get_node_words(level: int) -> int:
    size = SPINE + WIDTH + SLOTS * (1 + WIDTH)
    return size if level == 0 else size + SLOTS


@template(INLINED)
def find_key(node: int, index: int) -> int:
    return node + SPINE + WIDTH + index


@template(INLINED)
def find_total(node: int, index: int) -> int:
    return node + SPINE + WIDTH + SLOTS + index * WIDTH


@template(INLINED)
def find_child(node: int, index: int) -> int:
    return node + SPINE + WIDTH + SLOTS * (1 + WIDTH) + index


@template(INLINED)
def can_insert(words: Words) -> bool:
    """Whether the pool has room for the nodes that one insertion can need."""
    return has_room(words, (MOST_LEVELS + 1) * get_node_words(1))


@template(INLINED)
def make_node(words: Words, level: int, side: int) -> int:
    if level > 0:
        node = take_block(words, BRANCH, get_node_words(1))
    elif load(words, FREE + LEAF) == 0 and load(words, FREE + DROPPED) != 0:
        node = take_dropped_leaf(words)
    else:
        node = take_block(words, LEAF, get_node_words(0))
    store(words, node + COUNT, 0)
    store(words, node + PARENT, 0)
    store(words, node + LEVEL, level)
    store(words, node + SIDE, side)
    return node


@template(KERNEL)
def take_dropped_leaf(words: Words) -> int:
    """The last leaf of a subtree that was evicted as a whole. Costs at most its height."""
    node = load(words, FREE + DROPPED)
    while True:
        count = load(words, node + COUNT) - 1
        child = load(words, find_child(node, count))
        store(words, node + COUNT, count)
        if count == 0:
            store(words, FREE + DROPPED, load(words, node))
            free_block(words, BRANCH, node)
        if load(words, child + LEVEL) == 0:
            return child
        free_block(words, DROPPED, child)
        node = child


@inlined
def drop_subtree(words: Words, node: int) -> None:
    """Free a node and all below it, in constant time."""
    free_block(words, LEAF if load(words, node + LEVEL) == 0 else DROPPED, node)


@template(INLINED)
def find_slot(words: Words, node: int, time: int) -> int:
    """The child of an inner node whose times include this one."""
    index = 0
    for i in range(1, load(words, node + COUNT)):
        index += load(words, find_key(node, i)) <= time
    return index


@template(INLINED)
def count_until(words: Words, leaf: int, time: int) -> int:
    """The number of entries of a leaf at or before a time."""
    index = 0
    for i in range(load(words, leaf + COUNT)):
        index += load(words, find_key(leaf, i)) <= time
    return index


@template(INLINED)
def find_index(words: Words, parent: int, node: int) -> int:
    """The position of a child in its parent."""
    index = 0
    while load(words, find_child(parent, index)) != node:
        index += 1
    return index


@template(INLINED)
def fold_slots(words: Words, node: int, start: int, end: int) -> State:
    """The aggregate of a range of slots."""
    if start >= end:
        return IDENTITY
    state = load_state(words, find_total(node, start), IDENTITY)
    for i in range(start + 1, end):
        state = combine(state, load_state(words, find_total(node, i), IDENTITY))
    return state


@inlined
def mark_stale(words: Words, headers: Words, at: int, node: int) -> None:
    """Note that a node on a spine changed."""
    side, level = load(words, node + SIDE), load(words, node + LEVEL) + 1
    if side == LEFT | RIGHT:
        store(headers, at + INNER_STALE, 1)
    elif side == LEFT:
        store(headers, at + LEFT_STALE, max(load(headers, at + LEFT_STALE), level))
    elif side == RIGHT:
        store(headers, at + RIGHT_STALE, max(load(headers, at + RIGHT_STALE), level))


@inlined
def mark_all_stale(words: Words, headers: Words, at: int) -> None:
    level = load(words, load(headers, at + ROOT) + LEVEL)
    store(headers, at + LEFT_STALE, level)
    store(headers, at + RIGHT_STALE, level)
    store(headers, at + INNER_STALE, 1)


@template(KERNEL)
def refresh_left(words: Words, headers: Words, at: int) -> None:
    """Recompute the stale states of the left spine, top down."""
    node = load(headers, at + OLDEST)
    for _ in range(1, load(headers, at + LEFT_STALE)):
        node = load(words, node + PARENT)
    for level in range(load(headers, at + LEFT_STALE) - 1, -1, -1):
        state = fold_slots(words, node, 1 if level > 0 else 0, load(words, node + COUNT))
        parent = load(words, node + PARENT)
        if load(words, parent + SIDE) == LEFT:
            state = combine(state, load_state(words, parent + SPINE, IDENTITY))
        store_state(words, node + SPINE, state)
        if level > 0:
            node = load(words, find_child(node, 0))
    store(headers, at + LEFT_STALE, 0)


@template(KERNEL)
def refresh_right(words: Words, headers: Words, at: int) -> None:
    """Recompute the stale states of the right spine, top down."""
    node = load(headers, at + NEWEST)
    for _ in range(1, load(headers, at + RIGHT_STALE)):
        node = load(words, node + PARENT)
    for level in range(load(headers, at + RIGHT_STALE) - 1, -1, -1):
        count = load(words, node + COUNT)
        state = fold_slots(words, node, 0, count - 1 if level > 0 else count)
        parent = load(words, node + PARENT)
        if load(words, parent + SIDE) == RIGHT:
            state = combine(load_state(words, parent + SPINE, IDENTITY), state)
        store_state(words, node + SPINE, state)
        if level > 0:
            node = load(words, find_child(node, count - 1))
    store(headers, at + RIGHT_STALE, 0)


@template(INLINED)
def query_window(words: Words, headers: Words, at: int) -> State:
    """The aggregate of all events. Constant if nothing is stale."""
    root = load(headers, at + ROOT)
    if root == 0:
        return IDENTITY
    if load(headers, at + INNER_STALE) != 0:
        count, level = load(words, root + COUNT), load(words, root + LEVEL)
        inner = fold_slots(words, root, min(level, 1), count - min(level, 1))
        store_state(headers, at + INNER, inner)
        store(headers, at + INNER_STALE, 0)
    inner = load_state(headers, at + INNER, IDENTITY)
    if load(words, root + LEVEL) == 0:
        return inner
    if load(headers, at + LEFT_STALE) != 0:
        refresh_left(words, headers, at)
    if load(headers, at + RIGHT_STALE) != 0:
        refresh_right(words, headers, at)
    left = load_state(words, load(headers, at + OLDEST) + SPINE, IDENTITY)
    right = load_state(words, load(headers, at + NEWEST) + SPINE, IDENTITY)
    return combine(combine(left, inner), right)
