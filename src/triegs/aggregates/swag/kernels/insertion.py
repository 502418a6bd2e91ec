"""Insertion into a finger B-tree: search from the fingers, split full nodes, repair totals.

A run of events in order of time is inserted in one walk from leaf to leaf. A commutative operator
adds the state of an event to the totals above it. For any other, the walk folds a node when it
leaves it; a node that takes many events is folded once.
"""

from __future__ import annotations

from typing import Any

from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.kernels.tree import (
    COUNT,
    LEFT,
    LEVEL,
    NEWEST,
    OLDEST,
    PARENT,
    RIGHT,
    RIGHT_STALE,
    ROOT,
    SIDE,
    SLOTS,
    SPINE,
    can_insert,
    count_until,
    find_child,
    find_index,
    find_key,
    find_slot,
    find_total,
    fold_slots,
    get_header_words,
    get_node_words,
    make_node,
    mark_all_stale,
    mark_stale,
)
from triegs.aggregates.swag.operators import State, Values
from triegs.aggregates.swag.templates import (
    COMMUTATIVE,
    IDENTITY,
    INLINED,
    KERNEL,
    WIDTH,
    combine,
    lift,
    template,
)
from triegs.jit.words import LINE_WORDS, Words, load, prefetch, store


@template(INLINED)
def descend(words: Words, node: int, time: int) -> int:
    """The leaf below a node whose times include this one."""
    while load(words, node + LEVEL) > 0:
        node = load(words, find_child(node, find_slot(words, node, time)))
        for i in range(0, get_node_words(0), LINE_WORDS):  # a node far from the fingers is cold
            prefetch(words, node + i)
    return node


@template(INLINED)
def find_leaf(words: Words, headers: Words, at: int, time: int) -> int:
    """The leaf for a time, from both fingers at once: costs a logarithm of the distance to the
    nearer one.
    """
    newer, older = load(headers, at + NEWEST), load(headers, at + OLDEST)
    while load(words, newer + SIDE) != LEFT | RIGHT:
        parent = load(words, newer + PARENT)
        if time >= load(words, find_key(parent, load(words, parent + COUNT) - 1)):
            break
        newer = parent
        parent = load(words, older + PARENT)
        if load(words, parent + COUNT) > 1 and time < load(words, find_key(parent, 1)):
            newer = older
            break
        older = parent
    return descend(words, newer, time)


@template(INLINED)
def repair_total(words: Words, headers: Words, at: int, node: int) -> int:
    """Store the total of a node that is on no spine. Returns its parent."""
    parent = load(words, node + PARENT)
    index = find_index(words, parent, node)
    total = fold_slots(words, node, 0, load(words, node + COUNT))
    store_state(words, find_total(parent, index), total)
    mark_stale(words, headers, at, parent)
    return parent


@template(INLINED)
def finish_walk(words: Words, headers: Words, at: int, node: int) -> None:
    """Repair the totals from a changed node up to a spine."""
    while not COMMUTATIVE and load(words, node + SIDE) == 0:
        node = repair_total(words, headers, at, node)


@template(INLINED)
def add_above(words: Words, headers: Words, at: int, node: int, state: State) -> None:
    """Add a state to the totals from a node up to a spine, if their order does not matter."""
    if COMMUTATIVE and load(words, node + SIDE) == 0:
        while load(words, node + SIDE) == 0:
            parent = load(words, node + PARENT)
            total_at = find_total(parent, find_index(words, parent, node))
            store_state(words, total_at, combine(load_state(words, total_at, IDENTITY), state))
            node = parent
        mark_stale(words, headers, at, node)


@template(INLINED)
def walk_on(words: Words, headers: Words, at: int, node: int, time: int) -> int:
    """From a changed leaf to the leaf for a time that is not earlier."""
    while load(words, node + SIDE) & RIGHT == 0:
        parent = load(words, node + PARENT)
        index = find_index(words, parent, node) + 1
        if index < load(words, parent + COUNT) and time < load(words, find_key(parent, index)):
            break
        if not COMMUTATIVE and load(words, node + SIDE) == 0:
            repair_total(words, headers, at, node)
        node = parent
    return descend(words, node, time)


@template(INLINED)
def open_slot(words: Words, node: int, index: int) -> None:
    """Shift the slots from an index on by one."""
    count = load(words, node + COUNT)
    for i in range(count, index, -1):
        store(words, find_key(node, i), load(words, find_key(node, i - 1)))
        state = load_state(words, find_total(node, i - 1), IDENTITY)
        store_state(words, find_total(node, i), state)
    if load(words, node + LEVEL) > 0:
        for i in range(count, index, -1):
            store(words, find_child(node, i), load(words, find_child(node, i - 1)))
    store(words, node + COUNT, count + 1)


@template(INLINED)
def move_slots(words: Words, node: int, start: int, target: int) -> None:
    """Move the slots from an index on to an empty node."""
    count = load(words, node + COUNT)
    for i in range(start, count):
        store(words, find_key(target, i - start), load(words, find_key(node, i)))
        state = load_state(words, find_total(node, i), IDENTITY)
        store_state(words, find_total(target, i - start), state)
    if load(words, node + LEVEL) > 0:
        for i in range(start, count):
            child = load(words, find_child(node, i))
            store(words, find_child(target, i - start), child)
            store(words, child + PARENT, target)
    store(words, node + COUNT, start)
    store(words, target + COUNT, count - start)


@template(KERNEL)
def grow_root(words: Words, headers: Words, at: int) -> int:
    """A new root with the old one as its only child; the caller adds a second one."""
    old = load(headers, at + ROOT)
    root = make_node(words, load(words, old + LEVEL) + 1, LEFT | RIGHT)
    store(words, root + COUNT, 1)
    store(words, find_child(root, 0), old)
    store(words, old + PARENT, root)
    store(headers, at + ROOT, root)
    return root


@template(KERNEL)
def split_node(words: Words, headers: Words, at: int, node: int, kept: int, time: int) -> None:
    """Move the slots of a full node from `kept` on to a new node to its right, whose parent has
    room. If none is left to move, the new node is for this time and later ones.
    """
    if node == load(headers, at + ROOT):
        parent = grow_root(words, headers, at)
    else:
        parent = load(words, node + PARENT)
    side, level = load(words, node + SIDE), load(words, node + LEVEL)
    right = make_node(words, level, side & RIGHT)
    store(words, right + PARENT, parent)
    store(words, node + SIDE, side & LEFT)
    key = time if kept == SLOTS else load(words, find_key(node, kept))
    move_slots(words, node, kept, right)
    index = find_index(words, parent, node)
    open_slot(words, parent, index + 1)
    store(words, find_child(parent, index + 1), right)
    store(words, find_key(parent, index + 1), key)
    total = fold_slots(words, node, 0, kept)
    store_state(words, find_total(parent, index), total)
    total = fold_slots(words, right, 0, SLOTS - kept)
    store_state(words, find_total(parent, index + 1), total)
    if level == 0 and side & RIGHT != 0:
        store(headers, at + NEWEST, right)
    if side == LEFT | RIGHT:
        mark_all_stale(words, headers, at)
    else:
        mark_stale(words, headers, at, parent)
        mark_stale(words, headers, at, node)
        mark_stale(words, headers, at, right)


@template(KERNEL)
def split_leaf(words: Words, headers: Words, at: int, leaf: int, index: int, time: int) -> int:
    """Make room in a full leaf for an entry; returns the leaf that it belongs to.

    A leaf at the right end that is appended to stays full, as do the nodes above it: events in
    order make a dense tree.
    """
    appends = index == SLOTS and load(words, leaf + SIDE) & RIGHT != 0
    while load(words, leaf + COUNT) == SLOTS:
        top = leaf  # the highest of the full nodes from the leaf upwards
        while load(words, top + SIDE) != LEFT | RIGHT:
            parent = load(words, top + PARENT)
            if load(words, parent + COUNT) < SLOTS:
                break
            top = parent
        kept = SLOTS // 2
        if appends:
            kept = SLOTS if top == leaf else SLOTS - 1
        split_node(words, headers, at, top, kept, time)
        if top == leaf and appends:
            return load(headers, at + NEWEST)
    if index > SLOTS // 2:
        parent = load(words, leaf + PARENT)
        leaf = load(words, find_child(parent, find_index(words, parent, leaf) + 1))
    return leaf


@template(INLINED)
def start_tree(words: Words, headers: Words, at: int) -> int:
    root = make_node(words, 0, LEFT | RIGHT)
    store(headers, at + ROOT, root)
    store(headers, at + OLDEST, root)
    store(headers, at + NEWEST, root)
    mark_all_stale(words, headers, at)
    return root


@template(INLINED)
def insert_entry(words: Words, headers: Words, at: int, leaf: int, time: int, state: State) -> int:
    """Add a state at a time to its leaf; returns the leaf where it is."""
    index = count_until(words, leaf, time)
    is_new = index == 0 or load(words, find_key(leaf, index - 1)) != time
    if not is_new:
        index -= 1
        old = load_state(words, find_total(leaf, index), IDENTITY)
        store_state(words, find_total(leaf, index), combine(old, state))
    else:
        if load(words, leaf + COUNT) == SLOTS:
            leaf = split_leaf(words, headers, at, leaf, index, time)
            index = count_until(words, leaf, time)
        open_slot(words, leaf, index)
        store(words, find_key(leaf, index), time)
        store_state(words, find_total(leaf, index), state)
    is_last = load(words, leaf + SIDE) == RIGHT and index + 1 == load(words, leaf + COUNT)
    if is_last and load(headers, at + RIGHT_STALE) == 0:
        spine = load_state(words, leaf + SPINE, IDENTITY)
        store_state(words, leaf + SPINE, combine(spine, state))
    else:
        mark_stale(words, headers, at, leaf)
    add_above(words, headers, at, leaf, state)
    return leaf


@template(INLINED)
def insert_event(words: Words, headers: Words, at: int, time: int, value: Any) -> None:
    if load(headers, at + ROOT) == 0:
        start_tree(words, headers, at)
    leaf = find_leaf(words, headers, at, time)
    leaf = insert_entry(words, headers, at, leaf, time, lift(value))
    finish_walk(words, headers, at, leaf)


@template(INLINED)
def find_header(groups: Words, row: int) -> int:
    """The header of the group of a row; no groups stand for group 0."""
    if len(groups) == 0:
        return 0
    return load(groups, row) * get_header_words()


@template(KERNEL)
def insert_rows(words: Words, headers: Words, groups: Words, times: Words, values: Values) -> int:
    """Insert events; runs of one group in order of time share a walk. Returns how many were
    inserted: fewer than given if the pool is full.
    """
    rows = len(times)
    row = 0
    while row < rows and can_insert(words):
        at = find_header(groups, row)
        time = load(times, row)
        if load(headers, at + ROOT) == 0:
            start_tree(words, headers, at)
        leaf = find_leaf(words, headers, at, time)
        while True:
            leaf = insert_entry(words, headers, at, leaf, time, lift(values[row]))
            row += 1
            if row == rows or find_header(groups, row) != at or not can_insert(words):
                break
            if load(times, row) < time:
                break
            time = load(times, row)
            leaf = walk_on(words, headers, at, leaf, time)
        finish_walk(words, headers, at, leaf)
    return row


@template(KERNEL)
def insert_states(words: Words, headers: Words, groups: Words, times: Words, states: Words) -> int:
    """Insert states, such as partial aggregates of another window, like events."""
    for row in range(len(times)):
        if not can_insert(words):
            return row
        at = find_header(groups, row)
        if load(headers, at + ROOT) == 0:
            start_tree(words, headers, at)
        leaf = find_leaf(words, headers, at, load(times, row))
        state = load_state(states, row * WIDTH, IDENTITY)
        leaf = insert_entry(words, headers, at, leaf, load(times, row), state)
        finish_walk(words, headers, at, leaf)
    return len(times)
