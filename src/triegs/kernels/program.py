"""One epoch of a whole program: plans are data, so nothing is compiled per query.

A *table* of words describes the program: for each label its indexes, then the steps, children
first. A *list* is a stretch of the log: `(key, value before)` for every key that a step or an index
touched, without duplicates. The steps add exact terms of the difference: changed guard tuples times
the old child value, then all guard tuples times the change of the child. Old values are read from
the roots of the last version, which this epoch does not touch.

| at | the table |
| --- | --- |
| `LABELS`, `LABEL_ROWS` | number of labels; where their (first row, rows) pairs stand |
| `STEPS`, `STEP_ROWS` | number of steps; where they stand, `STEP_WORDS` each |
| `REST` | the slot of all assertions whose label no query names, (predicate, subject, object) |
| `IS_RDF` | whether an assertion weighs 1 while its count is positive |

A row of a label is `[kind, column of the key, slot, list or -1, condition]`; the first row has the
counts that deletions are judged by. A condition is what the other column must be: an id, `SAME` as
the key, or `ANY`. The kind `SUMMED_PAIRS` is an adjacency with numbers in its hubs, which lists all
keys that it touches. Steps that keep numbers are in `triegs.kernels.numbering`.
"""

from __future__ import annotations

from triegs.kernels.cursors import BLOCK, CAPACITY, SIZE, set_first, set_next_block
from triegs.kernels.epochs import publish_epoch
from triegs.kernels.jit import brief, inlined, kernel
from triegs.kernels.layout import (
    DIGIT,
    EMPTIED,
    FAULTS,
    HEAD,
    NODE_CLASS,
    NODE_WORDS,
    OVERFLOW,
    SLOTS,
    SUMMED_CLASS,
)
from triegs.kernels.numbering import step_numbered_edge, step_numbered_product
from triegs.kernels.relations import (
    adjacency_add_logged,
    adjacency_change,
    map_add_logged,
    set_fault,
    sweep_log,
    tuple_change,
)
from triegs.kernels.sums import summed_add_logged
from triegs.kernels.trie import find_leaf, trie_get
from triegs.kernels.words import Words, checked_add, checked_multiply, load, prefetch, store

# The head of a table.
LABELS, LABEL_ROWS, STEPS, STEP_ROWS, REST, IS_RDF = range(6)
TABLE_HEAD = 8

# Kinds of label rows.
ADJACENCY, COUNTS, SUMMED_PAIRS = 0, 1, 2
ROW_WORDS = 5
ANY, SAME = -1, -2

# Kinds of factors: whether a key is there, or the count that it has.
PRESENCE, COUNT = 0, 1
FACTOR_WORDS = 3  # kind, slot, list

# Kinds of steps, and the words of each.
EDGE, PRODUCT, TOTAL, NUMBERED_EDGE, NUMBERED_PRODUCT, RANKING = 1, 2, 3, 4, 5, 6
STEP_WORDS = 12
ENTRY_WORDS = 4  # of a bucket: subject, object, change, place in the batch
AHEAD = 16 * ENTRY_WORDS  # the entries whose memory is asked for at once
LINE_WORDS = 8


@inlined
def multiply(words: Words, a: int, b: int) -> int:
    result, overflow = checked_multiply(a, b)
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
    """The number of a predicate's label; -1 if no query names it, as all beyond the array."""
    return load(label_of, predicate) if predicate < label_of.size else -1


@kernel
def sort_by_label(
    words: Words, updates: Words, label_of: Words, table: Words, bounds: Words, entries: Words,
    refused: Words, key: Words,
) -> int:  # fmt: skip
    """Put the updates of each label together, in order; those of other labels are applied at once.

    Returns how many were refused.
    """
    labels = load(table, LABELS)
    count = updates.size // 4
    for label in range(labels + 1):
        store(bounds, label, 0)
    for place in range(count):
        label = find_label(label_of, load(updates, 4 * place + 2))
        if label >= 0:
            store(bounds, label + 1, load(bounds, label + 1) + ENTRY_WORDS)
    for label in range(labels):
        store(bounds, label + 1, load(bounds, label + 1) + load(bounds, label))
    found = 0
    for place in range(count):
        change = load(updates, 4 * place)
        subject = load(updates, 4 * place + 1)
        predicate = load(updates, 4 * place + 2)
        obj = load(updates, 4 * place + 3)
        label = find_label(label_of, predicate)
        if label >= 0:
            at = load(bounds, label)
            store(bounds, label, at + ENTRY_WORDS)
            store(entries, at, subject)
            store(entries, at + 1, obj)
            store(entries, at + 2, change)
            store(entries, at + 3, place)
            continue
        store(key, 0, predicate)
        store(key, 1, subject)
        store(key, 2, obj)
        _, new = tuple_change(words, load(table, REST), key, 3, change, False)
        if new < 0:
            tuple_change(words, load(table, REST), key, 3, -change, False)
            store(refused, found, place)
            found += 1
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
    """Every so many entries: ask for the leaves, and the sets, that the next ones will change.

    The misses of different entries overlap then, instead of each waiting for the last.
    """
    if (at - start) % AHEAD != 0 or end - at == ENTRY_WORDS:
        return
    stop = min(at + AHEAD, end)
    for near in range(at, stop, ENTRY_WORDS):
        fetch_node(words, find_leaf(words, root, load(entries, near + column)))
    if sets:
        for near in range(at, stop, ENTRY_WORDS):
            fetch_node(words, trie_get(words, root, load(entries, near + column)))


@inlined
def fetch_leaves(words: Words, root: int, keys: int, count: int) -> None:
    """Ask for the leaves of a block of keys."""
    for place in range(count):
        key = load(words, keys + place)
        leaf = find_leaf(words, root, key)
        prefetch(words, leaf)
        prefetch(words, leaf + HEAD + (key & DIGIT))


@kernel
def judge_label(
    words: Words, log: Words, entries: Words, start: int, end: int, table: Words, row: int,
    refused: Words, found: int,
) -> int:  # fmt: skip
    """Apply a label's entries to its first index, in order. What would go below zero is refused;
    in RDF mode an entry becomes the change of the weight.
    """
    kind, column, slot = load(table, row), load(table, row + 1), load(table, row + 2)
    listed = load(table, row + 3) >= 0
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


@kernel
def fill_row(
    words: Words, log: Words, entries: Words, start: int, end: int, table: Words, row: int
) -> None:
    """Apply a label's entries to one more index."""
    kind, column, slot = load(table, row), load(table, row + 1), load(table, row + 2)
    listed = load(table, row + 3) >= 0
    condition = load(table, row + 4)
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


@kernel
def step_edge(
    words: Words, log: Words, lists: Words, cursor: Words, bounds: Words, entries: Words,
    table: Words, step: int, roots: Words,
) -> None:  # fmt: skip
    """``P(v) = sum over w of G(v, w) * N(w)``, or the live pairs v → {w: G}."""
    label, column, by_other = load(table, step + 1), load(table, step + 2), load(table, step + 3)
    kind, child, changed = load(table, step + 4), load(table, step + 5), load(table, step + 6)
    is_exact, out = load(table, step + 7), load(table, step + 8)
    start, end = load(bounds, label), load(bounds, label + 1)
    for at in range(start, end, ENTRY_WORDS):
        fetch_ahead(words, load(words, out), entries, column, start, at, end, is_exact == 0)
        change = load(entries, at + 2)
        if change == 0:
            continue
        v, w = load(entries, at + column), load(entries, at + 1 - column)
        before = value_before(words, roots, kind, child, w)
        if before == 0:
            continue
        if is_exact:
            map_add_logged(words, log, out, v, multiply(words, change, before))
        else:
            adjacency_add_logged(words, log, out, v, w, change)
    for at in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
        w, before = load(log, at), load(log, at + 1)
        now = value_now(words, kind, child, w)
        change = now - before
        if not is_exact:
            change = sign(now) - sign(before)
        if change == 0:
            continue
        set_first(words, cursor, 0, trie_get(words, load(words, by_other), w))
        while True:
            block, size, room = load(cursor, BLOCK), load(cursor, SIZE), load(cursor, CAPACITY)
            if is_exact:
                fetch_leaves(words, load(words, out), block + HEAD, size)
            for place in range(size):
                v = load(words, block + HEAD + place)
                weight = load(words, block + HEAD + room + place)
                if is_exact:
                    map_add_logged(words, log, out, v, multiply(words, weight, change))
                else:
                    adjacency_add_logged(words, log, out, v, w, weight * change)
            if not set_next_block(words, cursor, 0):
                break


@inlined
def product_now(words: Words, table: Words, at: int, count: int, key: int, is_exact: int) -> int:
    """The product of all factors at a key, or 1 for a positive one.

    Zeros are looked for first: a product with a zero does not overflow.
    """
    for number in range(count):
        factor = at + FACTOR_WORDS * number
        if value_now(words, load(table, factor), load(table, factor + 1), key) == 0:
            return 0
    product = 1
    if is_exact:
        for number in range(count):
            factor = at + FACTOR_WORDS * number
            value = value_now(words, load(table, factor), load(table, factor + 1), key)
            product = multiply(words, product, value)
    return product


@kernel
def step_product(words: Words, log: Words, lists: Words, table: Words, step: int) -> None:
    """``N(v) = product of factors``; 0 or 1 where only liveness counts."""
    is_exact, out = load(table, step + 1), load(table, step + 2)
    count, at = load(table, step + 4), load(table, step + 5)
    for number in range(count):
        changed = load(table, at + FACTOR_WORDS * number + 2)
        for entry in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
            key = load(log, entry)
            product = product_now(words, table, at, count, key, is_exact)
            known = trie_get(words, load(words, out), key)
            if product != known:
                map_add_logged(words, log, out, key, product - known)


@kernel
def step_total(
    words: Words, log: Words, lists: Words, table: Words, step: int, roots: Words
) -> None:
    """The sum over all keys of the product of factors; a key counts in its first changed list."""
    out, count, at = load(table, step + 2), load(table, step + 4), load(table, step + 5)
    total = load(words, out)
    for number in range(count):
        changed = load(table, at + FACTOR_WORDS * number + 2)
        for entry in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
            key = load(log, entry)
            factor = at + FACTOR_WORDS * number
            kind, slot = load(table, factor), load(table, factor + 1)
            if value_now(words, kind, slot, key) == load(log, entry + 1):
                continue  # touched and unchanged: another list may count this key
            is_counted = False
            before = 1
            for other in range(count):
                factor = at + FACTOR_WORDS * other
                kind, slot = load(table, factor), load(table, factor + 1)
                old = value_before(words, roots, kind, slot, key)
                before *= old
                if other < number and value_now(words, kind, slot, key) != old:
                    is_counted = True
            if is_counted:
                continue
            now = product_now(words, table, at, count, key, 1)
            total, overflow = checked_add(total, now - before)
            if overflow:
                set_fault(words, OVERFLOW)
    entries = (1 if total != 0 else 0) - (1 if load(words, out) != 0 else 0)
    store(words, out + 1, load(words, out + 1) + entries)
    store(words, out, total)


@kernel
def run_epoch(
    words: Words, log: Words, lists: Words, cursor: Words, table: Words, label_of: Words,
    updates: Words, bounds: Words, entries: Words, refused: Words, roots: Words,
) -> int:  # fmt: skip
    """Judge the updates `(change, subject, predicate, object)…`, then run every step once.

    Returns how many were refused, their places in `refused`. After a fault the epoch must be
    aborted; the result is -1 if judging met it, else -2 minus the number of the step.
    """
    store(log, 0, 1)
    for index in range(lists.size):
        store(lists, index, 0)
    found = sort_by_label(words, updates, label_of, table, bounds, entries, refused, cursor)
    for label in range(load(table, LABELS)):
        start, end = load(bounds, label), load(bounds, label + 1)
        if start == end:
            continue
        pair = load(table, LABEL_ROWS) + 2 * label
        for number in range(load(table, pair + 1)):
            row = load(table, pair) + ROW_WORDS * number
            changed, slot = load(table, row + 3), load(table, row + 2)
            open_list(words, log, lists, changed)
            if number == 0:
                found = judge_label(words, log, entries, start, end, table, row, refused, found)
            else:
                fill_row(words, log, entries, start, end, table, row)
            close_list(words, log, lists, changed, slot, NODE_CLASS)
    if load(words, FAULTS) != 0:
        return -1
    for number in range(load(table, STEPS)):
        step = load(table, STEP_ROWS) + STEP_WORDS * number
        kind = load(table, step)
        if kind == TOTAL:
            step_total(words, log, lists, table, step, roots)
        elif kind in (EDGE, NUMBERED_EDGE):
            changed, slot = load(table, step + 9), load(table, step + 8)
            open_list(words, log, lists, changed)
            if kind == EDGE:
                step_edge(words, log, lists, cursor, bounds, entries, table, step, roots)
                close_list(words, log, lists, changed, slot, NODE_CLASS)
            else:
                step_numbered_edge(words, log, lists, cursor, bounds, entries, table, step, roots)
                close_list(words, log, lists, changed, slot, SUMMED_CLASS)
        else:
            changed, slot = load(table, step + 3), load(table, step + 2)
            open_list(words, log, lists, changed)
            if kind == PRODUCT:
                step_product(words, log, lists, table, step)
                close_list(words, log, lists, changed, slot, NODE_CLASS)
            else:
                step_numbered_product(words, log, lists, table, step, kind == RANKING)
                close_list(words, log, lists, changed, slot, SUMMED_CLASS)
        if load(words, FAULTS) != 0:
            return -2 - number
    return found


@brief
def run_and_publish(
    words: Words, roots: Words, next_roots: Words, holds: Words, updates: Words, log: Words,
    lists: Words, cursor: Words, table: Words, label_of: Words, bounds: Words, entries: Words,
    refused: Words,
) -> int:  # fmt: skip
    """`run_epoch` for a few updates, and unless it meets a fault `publish_epoch` at once."""
    found = run_epoch(
        words, log, lists, cursor, table, label_of, updates, bounds, entries, refused, roots
    )
    if found >= 0:
        publish_epoch(words, next_roots, holds)
    return found
