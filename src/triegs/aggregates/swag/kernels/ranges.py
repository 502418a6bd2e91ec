"""Aggregates of ranges of time in a finger B-tree."""

from __future__ import annotations

from triegs.aggregates.swag.kernels.states import store_state
from triegs.aggregates.swag.kernels.tree import (
    COUNT,
    LEFT,
    LEVEL,
    NEWEST,
    PARENT,
    RIGHT,
    ROOT,
    SIDE,
    count_until,
    find_child,
    find_key,
    find_slot,
    fold_slots,
    get_header_words,
    query_window,
)
from triegs.aggregates.swag.operators import State
from triegs.aggregates.swag.templates import IDENTITY, INLINED, KERNEL, WIDTH, combine, template
from triegs.jit.words import Words, load


@template(INLINED)
def fold_after(words: Words, node: int, time: int) -> State:
    """The aggregate below a node of what is after a time."""
    state = IDENTITY
    while load(words, node + LEVEL) > 0:
        index = find_slot(words, node, time)
        state = combine(fold_slots(words, node, index + 1, load(words, node + COUNT)), state)
        node = load(words, find_child(node, index))
    first = count_until(words, node, time)
    return combine(fold_slots(words, node, first, load(words, node + COUNT)), state)


@template(INLINED)
def fold_until(words: Words, node: int, time: int) -> State:
    """The aggregate below a node of what is at or before a time."""
    state = IDENTITY
    while load(words, node + LEVEL) > 0:
        index = find_slot(words, node, time)
        state = combine(state, fold_slots(words, node, 0, index))
        node = load(words, find_child(node, index))
    return combine(state, fold_slots(words, node, 0, count_until(words, node, time)))


@template(INLINED)
def query_range(words: Words, headers: Words, at: int, after: int, until: int) -> State:
    """The aggregate of what is after one time, and at or before another. Costs a logarithm of the
    distance from the newest event to the start of the range.
    """
    if load(headers, at + ROOT) == 0 or after >= until:
        return IDENTITY
    node = load(headers, at + NEWEST)
    while load(words, node + SIDE) != LEFT | RIGHT:
        parent = load(words, node + PARENT)
        if after >= load(words, find_key(parent, load(words, parent + COUNT) - 1)):
            break
        node = parent
    while load(words, node + LEVEL) > 0:
        start, end = find_slot(words, node, after), find_slot(words, node, until)
        if start != end:
            # Neither the first nor the last slot is folded, so no total of a spine is read.
            middle = fold_slots(words, node, start + 1, end)
            left = fold_after(words, load(words, find_child(node, start)), after)
            right = fold_until(words, load(words, find_child(node, end)), until)
            return combine(combine(left, middle), right)
        node = load(words, find_child(node, start))
    first, last = count_until(words, node, after), count_until(words, node, until)
    return fold_slots(words, node, first, last)


@template(KERNEL)
def query_rows(words: Words, headers: Words, groups: Words, out: Words) -> None:
    """Write the state of the whole window of each group."""
    for row in range(len(groups)):
        at = load(groups, row) * get_header_words()
        store_state(out, row * WIDTH, query_window(words, headers, at))


@template(KERNEL)
def query_ranges(words: Words, headers: Words, at: int, bounds: Words, out: Words) -> None:
    """Write the state of ranges of one window; `bounds` has the two times of each."""
    for row in range(len(bounds) // 2):
        after, until = load(bounds, 2 * row), load(bounds, 2 * row + 1)
        store_state(out, row * WIDTH, query_range(words, headers, at, after, until))
