"""Entries of an epoch: updates judged by label, selected for atoms, and applied to indexes."""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import (
    LINE_WORDS,
    Words,
    checked_multiply,
    checked_subtract,
    load,
    prefetch,
    store,
)
from triegs.maintain.kernels.sort_keys import request_values, write_key
from triegs.maintain.kernels.tables import (
    ANY,
    COUNTS,
    ENTRY_WORDS,
    FIXED,
    IS_ACCEPTED,
    IS_ID,
    IS_RDF,
    LABELS,
    PRESENCE,
    ROW_COLUMN,
    ROW_CONDITION,
    ROW_KEY,
    ROW_KIND,
    ROW_LIST,
    ROW_SLOT,
    ROW_WIDTH,
    ROW_WORDS,
    S_ARITY,
    S_CHANGE,
    S_COLUMNS_AT,
    S_ROWS,
    S_ROWS_AT,
    S_SOURCE,
    S_TESTS,
    S_TESTS_AT,
    SAME,
    SORTED_TUPLES,
    SUMMED_PAIRS,
    SUMMED_TUPLES,
    TEST_AT,
    TEST_COLUMN,
    TEST_KIND,
    TEST_VALUE,
    TEST_WORDS,
    TUPLES,
    UNINDEXED,
    WHOLES,
)
from triegs.maintain.kernels.verdicts import accepts_id, accepts_tuple
from triegs.maintain.kernels.work import IDS, KEY, LEAVES, OTHER_KEY
from triegs.store.kernels.blocks import entry_key
from triegs.store.kernels.layout import (
    DIGIT,
    EMPTIED,
    HEAD,
    NODE_CLASS,
    NODE_WORDS,
    OVERFLOW,
    SLOTS,
)
from triegs.store.kernels.order_statistics import summed_add_logged, summed_change
from triegs.store.kernels.relations import (
    adjacency_add_logged,
    adjacency_change,
    map_add_logged,
    set_fault,
    sweep_log,
    tuple_change,
)
from triegs.store.kernels.trie import find_leaf, trie_get

AHEAD = 16 * ENTRY_WORDS  # entries whose memory is prefetched at once
SETS_AHEAD = 16


@inlined
def multiply(words: Words, a: int, b: int) -> int:
    result, overflow = checked_multiply(a, b)
    if overflow:
        set_fault(words, OVERFLOW)
    return result


@inlined
def subtract(words: Words, a: int, b: int) -> int:
    result, overflow = checked_subtract(a, b)
    if overflow:
        set_fault(words, OVERFLOW)
    return result


@inlined
def value_now(words: Words, kind: int, slot: int, key: int) -> int:
    word = trie_get(words, load(words, slot), key)
    if kind == PRESENCE:
        return 1 if word != 0 else 0
    return word


@inlined
def value_before(words: Words, roots: Words, kind: int, slot: int, key: int) -> int:
    if kind == FIXED:
        return trie_get(words, load(words, slot), key)
    if slot - SLOTS >= roots.size:
        return 0
    word = trie_get(words, load(roots, slot - SLOTS), key)
    if kind == PRESENCE:
        return 1 if word != 0 else 0
    return word


@inlined
def is_met(condition: int, key: int, other: int) -> bool:
    return condition == ANY or other == (key if condition == SAME else condition)


@inlined
def sign(value: int) -> int:
    return 1 if value > 0 else 0


@inlined
def find_label(label_of: Words, predicate: int) -> int:
    """The number of a predicate's label; -1 if no query names it or it is beyond the array."""
    return load(label_of, predicate) if predicate < label_of.size else -1


@kernel
def sort_by_label(
    words: Words, updates: Words, label_of: Words, table: Words, bounds: Words, entries: Words,
    refused: Words, key: Words,
) -> int:  # fmt: skip
    """Group the updates by label, in order; updates of other labels are applied immediately.

    Returns the number of refused updates.
    """
    labels, is_whole_wanted = load(table, LABELS), load(table, WHOLES) != 0
    is_rdf = load(table, IS_RDF) != 0
    count = updates.size // 4
    for label in range(labels + 1):
        store(bounds, label, 0)
    for row in range(count):
        label = find_label(label_of, load(updates, 4 * row + 2))
        if label >= 0:
            store(bounds, label + 1, load(bounds, label + 1) + ENTRY_WORDS)
    for label in range(labels):
        store(bounds, label + 1, load(bounds, label + 1) + load(bounds, label))
    found = 0
    for row in range(count):
        change = load(updates, 4 * row)
        subject = load(updates, 4 * row + 1)
        predicate = load(updates, 4 * row + 2)
        obj = load(updates, 4 * row + 3)
        label = find_label(label_of, predicate)
        if label >= 0:
            at = load(bounds, label)
            store(bounds, label, at + ENTRY_WORDS)
            store(entries, at, subject)
            store(entries, at + 1, obj)
            store(entries, at + 2, change)
            store(entries, at + 3, row)
            continue
        store(key, 0, predicate)
        store(key, 1, subject)
        store(key, 2, obj)
        _, new = tuple_change(words, load(table, UNINDEXED), key, 3, change, False)
        if new < 0:
            tuple_change(words, load(table, UNINDEXED), key, 3, -change, False)
            store(refused, found, row)
            found += 1
            change = 0
        elif is_rdf:
            change = sign(new) - sign(new - change)
        if is_whole_wanted:
            store(refused, count + row, change)
    for label in range(labels, 0, -1):  # each bound has moved to the end of its label
        store(bounds, label, load(bounds, label - 1))
    store(bounds, 0, 0)
    return found


@inlined
def add_pair(
    words: Words, log: Words, slot: int, x: int, y: int, change: int, kind: int, listed: bool
) -> int:
    if kind == SUMMED_PAIRS:
        return summed_add_logged(words, log, slot, x, y, change)
    if listed:
        return adjacency_add_logged(words, log, slot, x, y, change)
    _, new = adjacency_change(words, slot, x, y, change, False)
    return new


@inlined
def fetch_node(words: Words, node: int) -> None:
    for line in range(0, NODE_WORDS, LINE_WORDS):
        prefetch(words, node + line)


@inlined
def fetch_ahead(
    words: Words, root: int, entries: Words, column: int, start: int, at: int, end: int, sets: bool
) -> None:
    """At regular intervals, prefetch the leaves and sets that the next entries will change.

    The cache misses of different entries then overlap.
    """
    if (at - start) % AHEAD != 0 or end - at == ENTRY_WORDS:
        return
    stop = min(at + AHEAD, end)
    for near in range(at, stop, ENTRY_WORDS):
        fetch_node(words, find_leaf(words, root, load(entries, near + column)))
    if sets:
        hubs = 0
        for near in range(at, stop, ENTRY_WORDS):
            reference = trie_get(words, root, load(entries, near + column))
            fetch_node(words, reference)
            hubs |= reference
        if hubs & 1:
            for near in range(at, stop, ENTRY_WORDS):
                reference = trie_get(words, root, load(entries, near + column))
                if reference & 1:
                    other = load(entries, near + 1 - column) & DIGIT
                    child = load(words, reference - 1 + HEAD + other)
                    prefetch(words, child)
                    prefetch(words, child + LINE_WORDS)


@inlined
def fetch_leaves(words: Words, work: Words, root: int, block: int, room: int, count: int) -> None:
    """Find and prefetch the leaves of the ids of a block."""
    for index in range(count):
        key = entry_key(words, block, room, index)
        leaf = find_leaf(words, root, key)
        store(work, LEAVES + index, leaf)
        prefetch(words, leaf)
        prefetch(words, leaf + HEAD + (key & DIGIT))


@inlined
def fetch_sets(words: Words, root: int, log: Words, start: int, at: int, end: int) -> None:
    """At regular intervals, prefetch the sets of the next ids of a list."""
    if (at - start) % (2 * SETS_AHEAD) != 0:
        return
    for near in range(at, min(at + 2 * SETS_AHEAD, end), 2):
        reference = trie_get(words, root, load(log, near))
        prefetch(words, reference)
        prefetch(words, reference + LINE_WORDS)


@kernel
def judge_label(
    words: Words, log: Words, entries: Words, start: int, end: int, table: Words, row: int,
    refused: Words, found: int,
) -> int:  # fmt: skip
    """Apply a label's entries to its first index, in order. A change that would go below zero is
    refused; in RDF mode an entry becomes the change of the weight.
    """
    kind, column = load(table, row + ROW_KIND), load(table, row + ROW_COLUMN)
    slot, listed = load(table, row + ROW_SLOT), load(table, row + ROW_LIST) >= 0
    is_rdf = load(table, IS_RDF) != 0
    for at in range(start, end, ENTRY_WORDS):
        fetch_ahead(words, load(words, slot), entries, column, start, at, end, True)
        x, y = load(entries, at + column), load(entries, at + 1 - column)
        change = load(entries, at + 2)
        new = add_pair(words, log, slot, x, y, change, kind, listed)
        if new < 0:
            add_pair(words, log, slot, x, y, -change, kind, listed)
            store(entries, at + 2, 0)
            store(refused, found, load(entries, at + 3))
            found += 1
        elif is_rdf:
            store(entries, at + 2, sign(new) - sign(new - change))
    return found


@merged
def fill_row(
    words: Words, log: Words, work: Words, entries: Words, start: int, end: int, table: Words,
    row: int, arity: int,
) -> None:  # fmt: skip
    """Apply the entries of a stream to another row."""
    kind, column = load(table, row + ROW_KIND), load(table, row + ROW_COLUMN)
    slot, listed = load(table, row + ROW_SLOT), load(table, row + ROW_LIST) >= 0
    condition = load(table, row + ROW_CONDITION)
    if kind in (TUPLES, SUMMED_TUPLES):
        for at in range(start, end, ENTRY_WORDS):
            change = load(entries, at + max(arity, 2))
            for each in range(arity):
                store(work, KEY + each, load(entries, at + load(table, column + each)))
            if kind == SUMMED_TUPLES:
                summed_change(words, slot, work[KEY:], arity, change)
            else:
                tuple_change(words, slot, work[KEY:], arity, change, False)
        return
    for at in range(start, end, ENTRY_WORDS):
        fetch_ahead(words, load(words, slot), entries, column, start, at, end, kind != COUNTS)
        change = load(entries, at + 2)
        key, other = load(entries, at + column), load(entries, at + 1 - column)
        if change == 0 or not is_met(condition, key, other):
            continue
        if kind == COUNTS:
            map_add_logged(words, log, slot, key, change)
        else:
            add_pair(words, log, slot, key, other, change, kind, listed)


@kernel
def fill_rows(
    words: Words, log: Words, lists: Words, work: Words, entries: Words, table: Words,
    stream: int, first: int, start: int, end: int,
) -> None:  # fmt: skip
    """Apply the entries of a stream to its rows, starting at the given one. Sorted rows wait
    until the values of all terms are known.
    """
    for number in range(first, load(table, stream + S_ROWS)):
        row = load(table, stream + S_ROWS_AT) + ROW_WORDS * number
        if load(table, row + ROW_KIND) == SORTED_TUPLES:
            continue
        changed, slot = load(table, row + ROW_LIST), load(table, row + ROW_SLOT)
        open_list(words, log, lists, changed)
        fill_row(words, log, work, entries, start, end, table, row, load(table, stream + S_ARITY))
        close_list(words, log, lists, changed, slot, NODE_CLASS)


@merged
def fill_sorted(
    words: Words, work: Words, entries: Words, table: Words, stream: int, start: int, end: int,
    verdicts: Words, requests: Words, is_requesting: bool,
) -> None:  # fmt: skip
    """Apply the entries of a stream to its sorted rows, or request the values that this needs."""
    arity = load(table, stream + S_ARITY)
    for number in range(load(table, stream + S_ROWS)):
        row = load(table, stream + S_ROWS_AT) + ROW_WORDS * number
        if load(table, row + ROW_KIND) != SORTED_TUPLES:
            continue
        columns_at, width = load(table, row + ROW_COLUMN), load(table, row + ROW_WIDTH)
        slot, condition = load(table, row + ROW_SLOT), load(table, row + ROW_CONDITION)
        column = load(table, row + ROW_KEY)
        for at in range(start, end, ENTRY_WORDS):
            change = load(entries, at + max(arity, 2))
            if change == 0:
                continue
            if condition != ANY and not is_met(
                condition, load(entries, at + column), load(entries, at + 1 - column)
            ):
                continue
            if is_requesting:
                request_values(table, entries, at, columns_at, width, verdicts, requests)
                continue
            for each in range(arity):
                store(work, OTHER_KEY + each, load(entries, at + each))
            write_key(table, work, OTHER_KEY, KEY, columns_at, width, verdicts)
            tuple_change(words, slot, work[KEY:], width, change, False)


# Lists


@inlined
def open_list(words: Words, log: Words, lists: Words, number: int) -> None:
    if number >= 0:
        store(lists, 2 * number, load(log, 0))
        store(words, EMPTIED, 0)


@inlined
def close_list(
    words: Words, log: Words, lists: Words, number: int, slot: int, leaf_class: int
) -> None:
    if number >= 0:
        store(lists, 2 * number + 1, load(log, 0))
        if load(words, EMPTIED) != 0:
            sweep_log(words, log, load(lists, 2 * number), load(log, 0), slot, leaf_class)


# Selections


@inlined
def passes_tests(
    table: Words, work: Words, entries: Words, at: int, tests: int, tests_at: int,
    verdicts: Words, requests: Words,
) -> bool:  # fmt: skip
    for number in range(tests):
        test = tests_at + TEST_WORDS * number
        kind, column = load(table, test + TEST_KIND), load(table, test + TEST_COLUMN)
        value = load(table, test + TEST_VALUE)
        if kind == IS_ACCEPTED:
            columns = load(table, test + TEST_AT)
            if column == 1:
                key = load(entries, at + load(table, columns))
                if not accepts_id(verdicts, requests, value, key):
                    return False
            else:
                for each in range(column):
                    store(work, IDS + each, load(entries, at + load(table, columns + each)))
                if not accepts_tuple(verdicts, requests, value, work[IDS:], column):
                    return False
        else:
            wanted = value if kind == IS_ID else load(entries, at + value)
            if load(entries, at + column) != wanted:
                return False
    return True


@merged
def select_whole(
    updates: Words, graph_of: Words, refused: Words, graph: int, entries: Words, top: int
) -> int:
    """Collect the changed triples of a window graph; returns the end of its entries."""
    count = updates.size // 4
    for row in range(count):
        change = load(refused, count + row)
        predicate = load(updates, 4 * row + 2)
        where, plain = 0, predicate
        if 2 * predicate < graph_of.size and load(graph_of, 2 * predicate) != 0:
            where, plain = load(graph_of, 2 * predicate), load(graph_of, 2 * predicate + 1)
        if change != 0 and where == graph:
            store(entries, top, load(updates, 4 * row + 1))
            store(entries, top + 1, plain)
            store(entries, top + 2, load(updates, 4 * row + 3))
            store(entries, top + 3, change)
            top += ENTRY_WORDS
    return top


@merged
def select_entries(
    table: Words, stream: int, bounds: Words, entries: Words, top: int, work: Words,
    verdicts: Words, requests: Words,
) -> int:  # fmt: skip
    """Collect the entries of another stream that pass all tests; returns the end."""
    source, change_at = load(table, stream + S_SOURCE), load(table, stream + S_CHANGE)
    arity, columns_at = load(table, stream + S_ARITY), load(table, stream + S_COLUMNS_AT)
    tests, tests_at = load(table, stream + S_TESTS), load(table, stream + S_TESTS_AT)
    for at in range(load(bounds, source), load(bounds, source + 1), ENTRY_WORDS):
        change = load(entries, at + change_at)
        if change != 0 and passes_tests(
            table, work, entries, at, tests, tests_at, verdicts, requests
        ):
            for column in range(arity):
                value = load(entries, at + load(table, columns_at + column))
                store(entries, top + column, value)
            store(entries, top + max(arity, 2), change)
            top += ENTRY_WORDS
    return top
