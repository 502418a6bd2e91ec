"""One epoch of a whole program: plans are data, so nothing is compiled per query.

`triegs.maintain.kernels.tables` says what the table of a program holds. An epoch goes through four
phases:

1. `JUDGE`: updates are sorted by label, each label's are judged in their order against its counts,
   and go on into its other rows;
2. `SELECT`: the entries of wholes and selections are chosen from those of labels;
3. `FILL`: they go into their rows;
4. `STEPS`: every step runs once, children first.

The steps add exact terms of the difference, such as changed guard tuples times the old child value,
then all guard tuples times the change of the child. Old values are read from the roots of the last
version, which this epoch does not touch. Steps that keep order statistics are in
`triegs.maintain.kernels.order_statistics`, the step that joins is `triegs.maintain.kernels.rule`.

A phase or step that needs verdicts which nobody has given yet stops before it changes anything: the
caller has them judged and calls again, and the epoch goes on from there.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged, short_kernel
from triegs.jit.words import (
    Words,
    checked_add,
    checked_multiply,
    load,
    prefetch,
    read_ticks,
    store,
)
from triegs.maintain.kernels.order_statistics import step_ordered_edge, step_ordered_product
from triegs.maintain.kernels.rule import step_rule
from triegs.maintain.kernels.tables import (
    ANY,
    C_CHANGED,
    C_EMITTED,
    C_SEEDS,
    C_TICKS,
    COUNTER_WORDS,
    COUNTS,
    D_ARITY,
    D_FROM,
    D_NUMBER,
    DELTA_WORDS,
    EDGE,
    EDGE_BY_OTHER,
    EDGE_CHANGED,
    EDGE_CHILD,
    EDGE_COLUMN,
    EDGE_IS_EXACT,
    EDGE_LIST,
    EDGE_OUT,
    EDGE_READS,
    EDGE_STREAM,
    ENTRIES,
    ENTRY_WORDS,
    FACTOR_CHANGED,
    FACTOR_READS,
    FACTOR_SLOT,
    FACTOR_WORDS,
    IS_ACCEPTED,
    IS_ID,
    IS_RDF,
    LABELS,
    ORDERED_EDGE,
    PRESENCE,
    PRODUCT,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_IS_EXACT,
    PRODUCT_LIST,
    PRODUCT_OUT,
    RANKING,
    ROW_COLUMN,
    ROW_CONDITION,
    ROW_KIND,
    ROW_LIST,
    ROW_SLOT,
    ROW_WORDS,
    RULE,
    RULE_DELTAS,
    RULE_DELTAS_AT,
    S_ARITY,
    S_CHANGE,
    S_COLUMNS_AT,
    S_ROWS,
    S_ROWS_AT,
    S_SOURCE,
    S_TESTS,
    S_TESTS_AT,
    SAME,
    STEP_ROWS,
    STEP_WORDS,
    STEPS,
    STREAM_ROWS,
    STREAM_WORDS,
    STREAMS,
    SUMMED_PAIRS,
    SUMMED_TUPLES,
    TEST_AT,
    TEST_COLUMN,
    TEST_KIND,
    TEST_VALUE,
    TEST_WORDS,
    TOTAL,
    TUPLES,
    UNINDEXED,
    WHOLES,
)
from triegs.maintain.kernels.verdicts import accepts_id, accepts_tuple
from triegs.maintain.kernels.work import EMITTED, FOUND, IDS, KEY, PHASE, STEP, UNMERGED
from triegs.store.kernels.cursors import BLOCK, CAPACITY, SIZE, set_first, set_next_block
from triegs.store.kernels.epochs import publish_epoch
from triegs.store.kernels.layout import (
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

JUDGE, SELECT, FILL, RUN_STEPS = range(4)
ASKED = -1 << 40  # what a kernel returns that waits for verdicts
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
    labels, is_whole_wanted = load(table, LABELS), load(table, WHOLES) != 0
    is_rdf = load(table, IS_RDF) != 0
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
        _, new = tuple_change(words, load(table, UNINDEXED), key, 3, change, False)
        if new < 0:
            tuple_change(words, load(table, UNINDEXED), key, 3, -change, False)
            store(refused, found, place)
            found += 1
            change = 0
        elif is_rdf:
            change = sign(new) - sign(new - change)
        if is_whole_wanted:
            store(refused, count + place, change)
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
    """Apply the entries of a stream to one more row."""
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
    """Apply the entries of a stream to its rows, from that one on."""
    for number in range(first, load(table, stream + S_ROWS)):
        row = load(table, stream + S_ROWS_AT) + ROW_WORDS * number
        changed, slot = load(table, row + ROW_LIST), load(table, row + ROW_SLOT)
        open_list(words, log, lists, changed)
        fill_row(words, log, work, entries, start, end, table, row, load(table, stream + S_ARITY))
        close_list(words, log, lists, changed, slot, NODE_CLASS)


# Selections


@inlined
def passes_tests(
    table: Words, work: Words, entries: Words, at: int, tests: int, tests_at: int,
    verdicts: Words, asked: Words,
) -> bool:  # fmt: skip
    for number in range(tests):
        test = tests_at + TEST_WORDS * number
        kind, column = load(table, test + TEST_KIND), load(table, test + TEST_COLUMN)
        value = load(table, test + TEST_VALUE)
        if kind == IS_ACCEPTED:
            columns = load(table, test + TEST_AT)
            if column == 1:
                key = load(entries, at + load(table, columns))
                if not accepts_id(verdicts, asked, value, key):
                    return False
            else:
                for each in range(column):
                    store(work, IDS + each, load(entries, at + load(table, columns + each)))
                if not accepts_tuple(verdicts, asked, value, work[IDS:], column):
                    return False
        else:
            wanted = value if kind == IS_ID else load(entries, at + value)
            if load(entries, at + column) != wanted:
                return False
    return True


@merged
def select_whole(
    updates: Words, origin_of: Words, refused: Words, space: int, entries: Words, top: int
) -> int:
    """The triples of a space that an epoch changes; returns the end of its entries."""
    count = updates.size // 4
    for place in range(count):
        change = load(refused, count + place)
        predicate = load(updates, 4 * place + 2)
        where, plain = 0, predicate
        if 2 * predicate < origin_of.size and load(origin_of, 2 * predicate) != 0:
            where, plain = load(origin_of, 2 * predicate), load(origin_of, 2 * predicate + 1)
        if change != 0 and where == space:
            store(entries, top, load(updates, 4 * place + 1))
            store(entries, top + 1, plain)
            store(entries, top + 2, load(updates, 4 * place + 3))
            store(entries, top + 3, change)
            top += ENTRY_WORDS
    return top


@merged
def select_entries(
    table: Words, stream: int, bounds: Words, entries: Words, top: int, work: Words,
    verdicts: Words, asked: Words,
) -> int:  # fmt: skip
    """The entries of another stream that pass all tests; returns the end."""
    source, change_at = load(table, stream + S_SOURCE), load(table, stream + S_CHANGE)
    arity, columns_at = load(table, stream + S_ARITY), load(table, stream + S_COLUMNS_AT)
    tests, tests_at = load(table, stream + S_TESTS), load(table, stream + S_TESTS_AT)
    for at in range(load(bounds, source), load(bounds, source + 1), ENTRY_WORDS):
        change = load(entries, at + change_at)
        if change != 0 and passes_tests(table, work, entries, at, tests, tests_at, verdicts, asked):
            for column in range(arity):
                value = load(entries, at + load(table, columns_at + column))
                store(entries, top + column, value)
            store(entries, top + max(arity, 2), change)
            top += ENTRY_WORDS
    return top


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
    stream, column = load(table, step + EDGE_STREAM), load(table, step + EDGE_COLUMN)
    by_other, kind = load(table, step + EDGE_BY_OTHER), load(table, step + EDGE_READS)
    child, changed = load(table, step + EDGE_CHILD), load(table, step + EDGE_CHANGED)
    is_exact, out = load(table, step + EDGE_IS_EXACT), load(table, step + EDGE_OUT)
    start, end = load(bounds, stream), load(bounds, stream + 1)
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
        reads, slot = load(table, factor + FACTOR_READS), load(table, factor + FACTOR_SLOT)
        if value_now(words, reads, slot, key) == 0:
            return 0
    product = 1
    if is_exact:
        for number in range(count):
            factor = at + FACTOR_WORDS * number
            reads, slot = load(table, factor + FACTOR_READS), load(table, factor + FACTOR_SLOT)
            value = value_now(words, reads, slot, key)
            product = multiply(words, product, value)
    return product


@kernel
def step_product(words: Words, log: Words, lists: Words, table: Words, step: int) -> None:
    """``N(v) = product of factors``; 0 or 1 where only liveness counts."""
    is_exact, out = load(table, step + PRODUCT_IS_EXACT), load(table, step + PRODUCT_OUT)
    count, at = load(table, step + PRODUCT_FACTORS), load(table, step + PRODUCT_FACTORS_AT)
    for number in range(count):
        changed = load(table, at + FACTOR_WORDS * number + FACTOR_CHANGED)
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
    out, count = load(table, step + PRODUCT_OUT), load(table, step + PRODUCT_FACTORS)
    at = load(table, step + PRODUCT_FACTORS_AT)
    total = load(words, out)
    for number in range(count):
        changed = load(table, at + FACTOR_WORDS * number + FACTOR_CHANGED)
        for entry in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
            key = load(log, entry)
            factor = at + FACTOR_WORDS * number
            kind, slot = load(table, factor + FACTOR_READS), load(table, factor + FACTOR_SLOT)
            if value_now(words, kind, slot, key) == load(log, entry + 1):
                continue  # touched and unchanged: another list may count this key
            is_counted = False
            before = 1
            for other in range(count):
                factor = at + FACTOR_WORDS * other
                kind, slot = load(table, factor + FACTOR_READS), load(table, factor + FACTOR_SLOT)
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


@merged
def judge_updates(
    words: Words, log: Words, lists: Words, work: Words, table: Words, label_of: Words,
    updates: Words, bounds: Words, entries: Words, refused: Words,
) -> int:  # fmt: skip
    """The first phase; returns how many updates were refused."""
    found = sort_by_label(words, updates, label_of, table, bounds, entries, refused, work[KEY:])
    for label in range(load(table, LABELS)):
        start, end = load(bounds, label), load(bounds, label + 1)
        if start == end:
            continue
        stream = load(table, STREAM_ROWS) + STREAM_WORDS * label
        row = load(table, stream + S_ROWS_AT)
        changed, slot = load(table, row + ROW_LIST), load(table, row + ROW_SLOT)
        open_list(words, log, lists, changed)
        found = judge_label(words, log, entries, start, end, table, row, refused, found)
        close_list(words, log, lists, changed, slot, NODE_CLASS)
        fill_rows(words, log, lists, work, entries, table, stream, 1, start, end)
        if load(table, WHOLES) != 0:
            count = updates.size // 4
            for at in range(start, end, ENTRY_WORDS):
                store(refused, count + load(entries, at + 3), load(entries, at + 2))
    return found


@merged
def select_streams(
    work: Words, table: Words, updates: Words, origin_of: Words, bounds: Words, entries: Words,
    refused: Words, verdicts: Words, asked: Words,
) -> None:  # fmt: skip
    """The second phase: what the streams beyond the labels have. May be repeated."""
    labels, wholes = load(table, LABELS), load(table, WHOLES)
    for number in range(labels, load(table, STREAMS)):
        stream = load(table, STREAM_ROWS) + STREAM_WORDS * number
        top = load(bounds, number)
        if number < labels + wholes:
            space = load(table, stream + S_SOURCE)
            top = select_whole(updates, origin_of, refused, space, entries, top)
        else:
            top = select_entries(table, stream, bounds, entries, top, work, verdicts, asked)
        store(bounds, number + 1, top)


@merged
def run_step(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int, bounds: Words,
    entries: Words, roots: Words, verdicts: Words, asked: Words,
) -> bool:  # fmt: skip
    """One step, with its list; false, with nothing changed, if it waits for verdicts."""
    kind = load(table, step)
    if kind == RULE:
        return step_rule(
            words, log, lists, work, bounds, entries, table, step, roots, verdicts, asked
        )
    if kind == TOTAL:
        step_total(words, log, lists, table, step, roots)
    elif kind in (EDGE, ORDERED_EDGE):
        changed, slot = load(table, step + EDGE_LIST), load(table, step + EDGE_OUT)
        open_list(words, log, lists, changed)
        if kind == EDGE:
            step_edge(words, log, lists, work, bounds, entries, table, step, roots)
            close_list(words, log, lists, changed, slot, NODE_CLASS)
        else:
            step_ordered_edge(words, log, lists, work, bounds, entries, table, step, roots)
            close_list(words, log, lists, changed, slot, SUMMED_CLASS)
    else:
        changed, slot = load(table, step + PRODUCT_LIST), load(table, step + PRODUCT_OUT)
        open_list(words, log, lists, changed)
        if kind == PRODUCT:
            step_product(words, log, lists, table, step)
            close_list(words, log, lists, changed, slot, NODE_CLASS)
        else:
            step_ordered_product(words, log, lists, table, step, kind == RANKING)
            close_list(words, log, lists, changed, slot, SUMMED_CLASS)
    return True


@inlined
def count_listed(lists: Words, number: int, stride: int) -> int:
    return (load(lists, 2 * number + 1) - load(lists, 2 * number)) // stride


@inlined
def count_entries(bounds: Words, stream: int) -> int:
    return (load(bounds, stream + 1) - load(bounds, stream)) // ENTRY_WORDS


@kernel
def count_seeds(lists: Words, table: Words, step: int, bounds: Words) -> int:
    """How many changes a step finds in its inputs; with none it has nothing to do."""
    kind, found = load(table, step), 0
    if kind == RULE:
        delta = load(table, step + RULE_DELTAS_AT)
        for _ in range(load(table, step + RULE_DELTAS)):
            number, width = load(table, delta + D_NUMBER), load(table, delta + D_ARITY)
            if load(table, delta + D_FROM) == ENTRIES:
                found += count_entries(bounds, number)
            else:
                found += count_listed(lists, number, 2 if width == 1 else width + 2)
            delta += DELTA_WORDS
    elif kind in (EDGE, ORDERED_EDGE):
        found = count_entries(bounds, load(table, step + EDGE_STREAM))
        found += count_listed(lists, load(table, step + EDGE_CHANGED), 2)
    else:
        factor = load(table, step + PRODUCT_FACTORS_AT)
        for _ in range(load(table, step + PRODUCT_FACTORS)):
            found += count_listed(lists, load(table, factor + FACTOR_CHANGED), 2)
            factor += FACTOR_WORDS
    return found


@inlined
def note(counters: Words, at: int, count: int) -> None:
    store(counters, at, load(counters, at) + count)


@inlined
def note_step(
    lists: Words, work: Words, table: Words, step: int, at: int, seeds: int, ticks: int
) -> None:
    """Add what a step did to its counters."""
    kind = load(table, step)
    note(lists, at + C_SEEDS, seeds)
    note(lists, at + C_TICKS, ticks)
    if kind == RULE:
        note(lists, at + C_EMITTED, load(work, UNMERGED))
        note(lists, at + C_CHANGED, load(work, EMITTED))
    else:
        is_edge = kind in (EDGE, ORDERED_EDGE)
        number = load(table, step + (EDGE_LIST if is_edge else PRODUCT_LIST))
        note(lists, at + C_CHANGED, count_listed(lists, number, 2))


@kernel
def run_epoch(
    words: Words, log: Words, lists: Words, work: Words, table: Words, label_of: Words,
    origin_of: Words, updates: Words, bounds: Words, entries: Words, refused: Words, roots: Words,
    verdicts: Words, asked: Words,
) -> int:  # fmt: skip
    """Judge the updates `(change, subject, predicate, object)…`, then run every step once, from
    where `work` says that the epoch is.

    Returns how many were refused, their places in `refused`; or `ASKED`. After a fault the epoch
    must be aborted; the result is -1 if judging met it, else -2 minus the number of the step.
    """
    if load(work, PHASE) == JUDGE:
        store(log, 0, 1)
        for index in range(lists.size - COUNTER_WORDS * load(table, STEPS)):
            store(lists, index, 0)
        store(work, FOUND, judge_updates(
            words, log, lists, work, table, label_of, updates, bounds, entries, refused
        ))  # fmt: skip
        store(work, PHASE, SELECT)
        store(work, STEP, 0)
    if load(work, PHASE) == SELECT:
        if load(words, FAULTS) == 0 and load(table, STREAMS) > load(table, LABELS):
            select_streams(
                work, table, updates, origin_of, bounds, entries, refused, verdicts, asked
            )
            if load(asked, 0) > 1:
                return ASKED
            for number in range(load(table, LABELS), load(table, STREAMS)):
                stream = load(table, STREAM_ROWS) + STREAM_WORDS * number
                start, end = load(bounds, number), load(bounds, number + 1)
                if start != end:
                    fill_rows(words, log, lists, work, entries, table, stream, 0, start, end)
        store(work, PHASE, RUN_STEPS)
    if load(words, FAULTS) != 0:
        return -1
    steps = load(table, STEPS)
    before = read_ticks()
    while load(work, STEP) < steps:
        number = load(work, STEP)
        step = load(table, STEP_ROWS) + STEP_WORDS * number
        seeds = count_seeds(lists, table, step, bounds)
        if seeds != 0:
            is_done = run_step(
                words, log, lists, work, table, step, bounds, entries, roots, verdicts, asked
            )
            if load(words, FAULTS) != 0:
                return -2 - number
            if not is_done:
                return ASKED
            at = lists.size - COUNTER_WORDS * (steps - number)
            now = read_ticks()
            note_step(lists, work, table, step, at, seeds, now - before)
            before = now
        store(work, STEP, number + 1)
    return load(work, FOUND)


@short_kernel
def read_clock() -> int:
    """The ticks that steps are timed by."""
    return read_ticks()


@short_kernel
def run_and_publish(
    words: Words, roots: Words, next_roots: Words, holds: Words, updates: Words, log: Words,
    lists: Words, work: Words, table: Words, label_of: Words, origin_of: Words, bounds: Words,
    entries: Words, refused: Words, verdicts: Words, asked: Words,
) -> int:  # fmt: skip
    """`run_epoch` for a few updates, and unless it meets a fault `publish_epoch` at once."""
    found = run_epoch(
        words, log, lists, work, table, label_of, origin_of, updates, bounds, entries, refused,
        roots, verdicts, asked,
    )  # fmt: skip
    if found >= 0:
        publish_epoch(words, next_roots, holds)
    return found
