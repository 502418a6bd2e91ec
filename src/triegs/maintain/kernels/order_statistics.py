"""The steps of an epoch that keep order statistics: the number of answers and rows below each id.

The structure is described in `triegs.store.kernels.order_statistics`.

All counts are old until a step changes them, and new from then on. The counts of an id *before* the
epoch are read from the roots of the last version, those *now* from the slots.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, merged
from triegs.jit.words import LINE_WORDS, Words, load, prefetch, store
from triegs.maintain.kernels.tables import (
    EDGE_BY_OTHER,
    EDGE_CHANGED,
    EDGE_CHILD,
    EDGE_COLUMN,
    EDGE_IS_EXACT,
    EDGE_OUT,
    EDGE_READS,
    EDGE_STREAM,
    ENTRY_WORDS,
    FACTOR_CHANGED,
    FACTOR_READS,
    FACTOR_SLOT,
    FACTOR_WORDS,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_IS_EXACT,
    PRODUCT_OUT,
)
from triegs.maintain.kernels.work import AHEAD, PROBES_AHEAD, SEEDS_AHEAD
from triegs.store.kernels.blocks import entry_key, entry_word
from triegs.store.kernels.cursors import BLOCK, BLOCK_ROOM, SIZE, set_first, set_next_block
from triegs.store.kernels.layout import DIGIT, EPOCH, HEAD, SLOTS
from triegs.store.kernels.order_statistics import (
    ANSWERS,
    BESIDE,
    ROWS,
    SETS,
    counts_add_logged,
    counts_at,
    counts_of,
    ordered_add_logged,
    ordered_put,
    ranked_put,
    times,
)
from triegs.store.kernels.trie import find_leaf, trie_get


@inlined
def root_before(roots: Words, slot: int) -> int:
    return 0 if slot - SLOTS >= roots.size else load(roots, slot - SLOTS)


@inlined
def fetch_counts(words: Words, root: int, block: int, room: int, count: int) -> None:
    """Prefetch the words and counts of the ids of a block."""
    for index in range(count):
        key = entry_key(words, block, room, index)
        leaf = find_leaf(words, root, key)
        at = leaf + HEAD + (key & DIGIT)
        prefetch(words, leaf)
        prefetch(words, at)
        prefetch(words, at + ANSWERS)
        prefetch(words, at + ROWS)


@kernel
def step_ordered_edge(
    words: Words, log: Words, lists: Words, cursor: Words, bounds: Words, entries: Words,
    table: Words, step: int, roots: Words,
) -> None:  # fmt: skip
    """The live pairs v → {w: G}, with ``N(v) = sum of N(w)`` and ``M(v) = sum of G(v, w) * M(w)``.

    Applies the changed pairs first, with the counts before; then the ids w whose counts changed or
    became zero; then those that had none. So all counts are of one moment whenever a pair is added,
    which is when a block may become a hub.
    """
    stream, column = load(table, step + EDGE_STREAM), load(table, step + EDGE_COLUMN)
    by_other, kind = load(table, step + EDGE_BY_OTHER), load(table, step + EDGE_READS)
    child, changed = load(table, step + EDGE_CHILD), load(table, step + EDGE_CHANGED)
    has_rows, out = load(table, step + EDGE_IS_EXACT), load(table, step + EDGE_OUT)
    old_root, new_root = root_before(roots, child), load(words, child)
    for at in range(load(bounds, stream), load(bounds, stream + 1), ENTRY_WORDS):
        change = load(entries, at + 2)
        if change == 0:
            continue
        v, w = load(entries, at + column), load(entries, at + 1 - column)
        answers, rows = counts_at(words, kind, old_root, w)
        if answers != 0:
            ordered_add_logged(
                words, log, out, v, w, change, answers, rows * has_rows, kind, old_root, has_rows
            )
    start, end = load(lists, 2 * changed), load(lists, 2 * changed + 1)
    some_come = False
    for at in range(start, end, 2):
        w = load(log, at)
        before, rows_before = counts_at(words, kind, old_root, w)
        now, rows_now = counts_at(words, kind, new_root, w)
        if before == 0:
            some_come = some_come or now != 0
            continue
        if not has_rows:
            rows_before, rows_now = 0, 0
        if now == before and rows_now == rows_before:
            continue
        more, more_rows = now - before, rows_now - rows_before
        set_first(words, cursor, 0, trie_get(words, load(words, by_other), w))
        while True:
            block, size, room = load(cursor, BLOCK), load(cursor, SIZE), load(cursor, BLOCK_ROOM)
            fetch_counts(words, load(words, out), block, room, size)
            for index in range(size):
                v = entry_key(words, block, room, index)
                weight = entry_word(words, block, room, index)
                if now != 0:
                    rows = times(words, weight, more_rows)
                    counts_add_logged(words, log, out, v, w, more, rows)
                else:
                    ordered_add_logged(
                        words, log, out, v, w, -weight, before, rows_before, kind, old_root,
                        has_rows,
                    )  # fmt: skip
            if not set_next_block(words, cursor, 0):
                break
    if not some_come:
        return
    for at in range(start, end, 2):
        w = load(log, at)
        before, _ = counts_at(words, kind, old_root, w)
        now, rows = counts_at(words, kind, new_root, w)
        if before != 0 or now == 0:
            continue
        set_first(words, cursor, 0, trie_get(words, load(words, by_other), w))
        while True:
            block, size, room = load(cursor, BLOCK), load(cursor, SIZE), load(cursor, BLOCK_ROOM)
            for index in range(size):
                v = entry_key(words, block, room, index)
                weight = entry_word(words, block, room, index)
                ordered_add_logged(
                    words, log, out, v, w, weight, now, rows * has_rows, kind, new_root, has_rows
                )
            if not set_next_block(words, cursor, 0):
                break


@inlined
def find_offset(words: Words, work: Words, row: int, slot: int, number: int, key: int) -> int:
    """The address of the word of a key in a factor; `row` has those that were found ahead."""
    if number < PROBES_AHEAD:
        return load(work, row + number)
    return find_leaf(words, load(words, slot), key) + HEAD + (key & DIGIT)


@inlined
def multiply_counts(
    words: Words, work: Words, table: Words, row: int, first: int, count: int, key: int,
    has_rows: int,
) -> tuple[int, int]:  # fmt: skip
    """The products of the counts of all factors at a key.

    Zeros are checked first: a product with a zero does not overflow.
    """
    for number in range(count):
        slot = load(table, first + FACTOR_WORDS * number + FACTOR_SLOT)
        if load(words, find_offset(words, work, row, slot, number, key)) == 0:
            return 0, 0
    answers, rows = 1, has_rows
    for number in range(count):
        factor = first + FACTOR_WORDS * number
        kind, slot = load(table, factor + FACTOR_READS), load(table, factor + FACTOR_SLOT)
        offset = find_offset(words, work, row, slot, number, key)
        more, more_rows = counts_of(words, kind, offset)
        answers = times(words, answers, more)
        if has_rows:
            rows = times(words, rows, more_rows)
    return answers, rows


@inlined
def was_visited(
    words: Words, lists: Words, work: Words, table: Words, row: int, first: int, count: int,
    key: int,
) -> bool:  # fmt: skip
    """Whether the list of one of the first factors has a key, by the flag that its touch has set.

    An empty list decides nothing: when a view is filled, only one factor lists its keys.
    """
    for number in range(count):
        factor = first + FACTOR_WORDS * number
        changed, slot = load(table, factor + FACTOR_CHANGED), load(table, factor + FACTOR_SLOT)
        if load(lists, 2 * changed) != load(lists, 2 * changed + 1):
            digit = key & DIGIT
            leaf = find_offset(words, work, row, slot, number, key) - HEAD - digit
            is_touched = (load(words, leaf + 1) >> (32 + digit)) & 1
            if is_touched and load(words, leaf) == load(words, EPOCH):
                return True
    return False


@merged
def find_offsets(
    words: Words, log: Words, work: Words, table: Words, first: int, count: int, entry: int,
    end: int,
) -> None:  # fmt: skip
    """Find the words of the next keys of a list in all factors, and prefetch them, then the sets
    that they lead to. The cache misses of different keys then overlap.
    """
    for number in range(min(count, PROBES_AHEAD)):
        factor, row = first + FACTOR_WORDS * number, AHEAD + number
        kind = load(table, factor + FACTOR_READS)
        root = load(words, load(table, factor + FACTOR_SLOT))
        for at in range(entry, end, 2):
            key = load(log, at)
            leaf = find_leaf(words, root, key)
            offset = leaf + HEAD + (key & DIGIT)
            prefetch(words, leaf)
            prefetch(words, offset)
            if kind == BESIDE:
                prefetch(words, offset + ANSWERS)
                prefetch(words, offset + ROWS)
            store(work, row, offset)
            row += PROBES_AHEAD
    for number in range(min(count, PROBES_AHEAD)):
        row = AHEAD + number
        if load(table, first + FACTOR_WORDS * number + FACTOR_READS) == SETS:
            for _ in range(entry, end, 2):
                reference = load(words, load(work, row)) & ~1
                prefetch(words, reference)
                prefetch(words, reference + LINE_WORDS)
                row += PROBES_AHEAD


@kernel
def step_ordered_product(
    words: Words, log: Words, lists: Words, work: Words, table: Words, step: int, is_ranked: bool
) -> None:
    """``N(v) = product of N over the factors``, and likewise for M. Each key is visited once."""
    has_rows, out = load(table, step + PRODUCT_IS_EXACT), load(table, step + PRODUCT_OUT)
    count, first = load(table, step + PRODUCT_FACTORS), load(table, step + PRODUCT_FACTORS_AT)
    for number in range(count):
        changed = load(table, first + FACTOR_WORDS * number + FACTOR_CHANGED)
        end = load(lists, 2 * changed + 1)
        row, row_end = AHEAD, AHEAD
        for entry in range(load(lists, 2 * changed), end, 2):
            row += PROBES_AHEAD
            if row >= row_end:
                some = min(end, entry + 2 * SEEDS_AHEAD)
                find_offsets(words, log, work, table, first, count, entry, some)
                row, row_end = AHEAD, AHEAD + SEEDS_AHEAD * PROBES_AHEAD
            key = load(log, entry)
            if was_visited(words, lists, work, table, row, first, number, key):
                continue
            answers, rows = multiply_counts(words, work, table, row, first, count, key, has_rows)
            known, known_rows = counts_at(words, BESIDE, load(words, out), key)
            if answers == known and rows == known_rows:
                continue
            if is_ranked:
                ranked_put(words, log, out, key, answers, rows)
            else:
                ordered_put(words, log, out, key, answers, rows)
