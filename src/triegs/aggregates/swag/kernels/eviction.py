"""Eviction from a finger B-tree, and windows that slide.

Evicting up to a time cuts the tree along one path from the left spine to a leaf. Subtrees left of
the path are freed as a whole, so many events cost a logarithm of their number.
"""

from __future__ import annotations

from typing import Any

from triegs.aggregates.swag.kernels.insertion import insert_event
from triegs.aggregates.swag.kernels.pool import free_block
from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.kernels.tree import (
    BRANCH,
    COUNT,
    INNER_STALE,
    LEAF,
    LEFT,
    LEFT_STALE,
    LEVEL,
    NEWEST,
    OLDEST,
    PARENT,
    RIGHT,
    ROOT,
    SIDE,
    can_insert,
    count_until,
    drop_subtree,
    find_child,
    find_key,
    find_slot,
    find_total,
    get_header_words,
    mark_all_stale,
    mark_stale,
    query_window,
)
from triegs.aggregates.swag.operators import Values
from triegs.aggregates.swag.templates import IDENTITY, INLINED, KERNEL, WIDTH, template
from triegs.jit.words import Words, load, store


@template(INLINED)
def close_slots(words: Words, node: int, number: int) -> None:
    """Remove the first slots of a node."""
    count = load(words, node + COUNT) - number
    for i in range(count):
        store(words, find_key(node, i), load(words, find_key(node, i + number)))
        state = load_state(words, find_total(node, i + number), IDENTITY)
        store_state(words, find_total(node, i), state)
    if load(words, node + LEVEL) > 0:
        for i in range(count):
            store(words, find_child(node, i), load(words, find_child(node, i + number)))
    store(words, node + COUNT, count)


@template(KERNEL)
def cut_path(words: Words, headers: Words, at: int, node: int, time: int) -> int:
    """Drop what is at or before a time below a node of the left spine. Returns the leaf at the
    end of the path, which can be empty.
    """
    while load(words, node + LEVEL) > 0:
        index = find_slot(words, node, time)
        for i in range(index):
            drop_subtree(words, load(words, find_child(node, i)))
        if index > 0:
            close_slots(words, node, index)
        mark_stale(words, headers, at, node)
        node = load(words, find_child(node, 0))
        store(words, node + SIDE, load(words, node + SIDE) | LEFT)
    close_slots(words, node, count_until(words, node, time))
    return node


@template(KERNEL)
def remove_empty(words: Words, headers: Words, at: int, node: int) -> None:
    """Remove an empty leaf of the left spine, and what becomes empty above it."""
    while load(words, node + COUNT) == 0:
        parent = load(words, node + PARENT)
        free_block(words, LEAF if load(words, node + LEVEL) == 0 else BRANCH, node)
        if parent == 0:
            store(headers, at + ROOT, 0)
            store(headers, at + OLDEST, 0)
            store(headers, at + NEWEST, 0)
            return
        close_slots(words, parent, 1)
        node = parent
    mark_stale(words, headers, at, node)
    while load(words, node + LEVEL) > 0:
        node = load(words, find_child(node, 0))
        store(words, node + SIDE, load(words, node + SIDE) | LEFT)
    store(headers, at + OLDEST, node)


@template(KERNEL)
def cut_tree(words: Words, headers: Words, at: int, time: int) -> None:
    """Evict up to a time that is past the oldest leaf, or empties it."""
    node = load(headers, at + OLDEST)
    while load(words, node + SIDE) != LEFT | RIGHT:
        parent = load(words, node + PARENT)
        if load(words, parent + COUNT) > 1 and time < load(words, find_key(parent, 1)):
            break
        node = parent
    level = load(words, node + LEVEL)
    leaf = cut_path(words, headers, at, node, time)
    store(headers, at + OLDEST, leaf)
    if load(words, leaf + COUNT) == 0:
        remove_empty(words, headers, at, leaf)
    root = load(headers, at + ROOT)
    if root == 0:
        return
    if load(words, root + COUNT) > 1 or load(words, root + LEVEL) == 0:
        height = load(words, root + LEVEL)
        # The path below the cut is new on the spine, whether its nodes changed or not.
        stale = max(load(headers, at + LEFT_STALE), level + 1)
        store(headers, at + LEFT_STALE, min(stale, height))
        if level == height:
            store(headers, at + INNER_STALE, 1)
        return
    while load(words, root + COUNT) == 1 and load(words, root + LEVEL) > 0:
        child = load(words, find_child(root, 0))
        free_block(words, BRANCH, root)
        root = child
    store(words, root + SIDE, LEFT | RIGHT)
    store(words, root + PARENT, 0)
    store(headers, at + ROOT, root)
    mark_all_stale(words, headers, at)


@template(INLINED)
def evict_window(words: Words, headers: Words, at: int, time: int) -> None:
    """Evict all events at or before a time."""
    leaf = load(headers, at + OLDEST)
    if leaf == 0 or load(words, find_key(leaf, 0)) > time:
        return
    number = count_until(words, leaf, time)
    if number == load(words, leaf + COUNT):
        cut_tree(words, headers, at, time)
    else:
        close_slots(words, leaf, number)
        mark_stale(words, headers, at, leaf)


@template(KERNEL)
def evict_until(words: Words, headers: Words, groups: int, time: int) -> None:
    """Evict all events of the first groups at or before a time."""
    for group in range(groups):
        evict_window(words, headers, group * get_header_words(), time)


@template(KERNEL)
def evict_rows(words: Words, headers: Words, groups: Words, times: Words) -> None:
    """Evict, for each row, the events of its group at or before a time."""
    for row in range(len(times)):
        at = load(groups, row) * get_header_words()
        evict_window(words, headers, at, load(times, row))


@template(INLINED)
def get_newest_time(words: Words, headers: Words, at: int) -> int:
    leaf = load(headers, at + NEWEST)
    return load(words, find_key(leaf, load(words, leaf + COUNT) - 1))


@template(INLINED)
def slide_event(words: Words, headers: Words, at: int, time: int, value: Any, width: int) -> None:
    """Insert an event and evict those at or before the newest time minus `width`."""
    insert_event(words, headers, at, time, value)
    evict_window(words, headers, at, get_newest_time(words, headers, at) - width)


@template(KERNEL)
def slide_rows(
    words: Words, headers: Words, at: int, times: Words, values: Values, width: int, out: Words
) -> int:
    """Slide over events; write the state after each if `out` has room. Returns how many events
    were processed.
    """
    for row in range(len(times)):
        if not can_insert(words):
            return row
        slide_event(words, headers, at, load(times, row), values[row], width)
        if len(out) > 0:
            store_state(out, row * WIDTH, query_window(words, headers, at))
    return len(times)
