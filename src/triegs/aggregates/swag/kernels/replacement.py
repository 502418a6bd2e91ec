"""Changing single entries of a finger B-tree, and reading one range of many windows."""

from __future__ import annotations

from triegs.aggregates.swag.kernels.insertion import find_leaf, repair_total
from triegs.aggregates.swag.kernels.ranges import query_range
from triegs.aggregates.swag.kernels.states import load_state, store_state
from triegs.aggregates.swag.kernels.tree import (
    ROOT,
    SIDE,
    count_until,
    find_key,
    find_total,
    get_header_words,
    mark_stale,
)
from triegs.aggregates.swag.operators import Values
from triegs.aggregates.swag.templates import IDENTITY, KERNEL, WIDTH, combine, lift, template
from triegs.jit.words import Words, load


@template(KERNEL)
def fold_rows(values: Values, out: Words) -> None:
    """Write the state of a few values, oldest first."""
    state = IDENTITY
    for row in range(len(values)):
        state = combine(state, lift(values[row]))
    store_state(out, 0, state)


@template(KERNEL)
def replace_rows(words: Words, headers: Words, groups: Words, times: Words, states: Words) -> int:
    """Replace the entries at these times by other states. Returns the first row without an entry,
    or the number of rows. A replacement costs a logarithm of the window, and the nodes above it.
    """
    for row in range(len(times)):
        at = load(groups, row) * get_header_words()
        if load(headers, at + ROOT) == 0:
            return row
        time = load(times, row)
        node = find_leaf(words, headers, at, time)
        index = count_until(words, node, time) - 1
        if index < 0 or load(words, find_key(node, index)) != time:
            return row
        state = load_state(states, row * WIDTH, IDENTITY)
        store_state(words, find_total(node, index), state)
        mark_stale(words, headers, at, node)
        while load(words, node + SIDE) == 0:
            node = repair_total(words, headers, at, node)
    return len(times)


@template(KERNEL)
def query_groups(
    words: Words, headers: Words, groups: Words, after: int, until: int, out: Words
) -> None:
    """Write the state of one range of time for each group."""
    for row in range(len(groups)):
        at = load(groups, row) * get_header_words()
        store_state(out, row * WIDTH, query_range(words, headers, at, after, until))
