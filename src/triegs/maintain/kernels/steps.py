"""Steps by variable: edges, products and totals, maintained by exact differences."""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel
from triegs.jit.words import (
    Words,
    checked_add,
    load,
    store,
)
from triegs.maintain.kernels.entries import (
    fetch_ahead,
    fetch_leaves,
    fetch_sets,
    multiply,
    sign,
    subtract,
    value_before,
    value_now,
)
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
from triegs.maintain.kernels.work import LEAVES
from triegs.store.kernels.blocks import entry_key, entry_word
from triegs.store.kernels.cursors import BLOCK, BLOCK_ROOM, SIZE, set_first, set_next_block
from triegs.store.kernels.layout import (
    OVERFLOW,
)
from triegs.store.kernels.relations import (
    adjacency_add_logged,
    map_add_at,
    map_add_logged,
    set_fault,
)
from triegs.store.kernels.trie import trie_get


@kernel
def step_edge(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
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
    start, end = load(lists, 2 * changed), load(lists, 2 * changed + 1)
    for at in range(start, end, 2):
        fetch_sets(words, load(words, by_other), log, start, at, end)
        w, before = load(log, at), load(log, at + 1)
        now = value_now(words, kind, child, w)
        change = subtract(words, now, before)
        if not is_exact:
            change = sign(now) - sign(before)
        if change == 0:
            continue
        set_first(words, work, 0, trie_get(words, load(words, by_other), w))
        while True:
            block, size, room = load(work, BLOCK), load(work, SIZE), load(work, BLOCK_ROOM)
            if is_exact:
                fetch_leaves(words, work, load(words, out), block, room, size)
            for index in range(size):
                v = entry_key(words, block, room, index)
                weight = entry_word(words, block, room, index)
                if is_exact:
                    leaf = load(work, LEAVES + index)
                    map_add_at(words, log, out, leaf, v, multiply(words, weight, change))
                else:
                    adjacency_add_logged(words, log, out, v, w, weight * change)
            if not set_next_block(words, work, 0):
                break


@inlined
def product_now(words: Words, table: Words, at: int, count: int, key: int, is_exact: int) -> int:
    """The product of all factors at a key; reduced to 1 if positive and not exact.

    Zeros are checked first: a product with a zero does not overflow.
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
    """``N(v) = product of factors``; 0 or 1 if only liveness matters."""
    is_exact, out = load(table, step + PRODUCT_IS_EXACT), load(table, step + PRODUCT_OUT)
    count, at = load(table, step + PRODUCT_FACTORS), load(table, step + PRODUCT_FACTORS_AT)
    for number in range(count):
        changed = load(table, at + FACTOR_WORDS * number + FACTOR_CHANGED)
        for entry in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
            key = load(log, entry)
            product = product_now(words, table, at, count, key, is_exact)
            known = trie_get(words, load(words, out), key)
            if product != known:
                map_add_logged(words, log, out, key, subtract(words, product, known))


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
                continue  # touched but unchanged: another list may count this key
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
            total, overflow = checked_add(total, subtract(words, now, before))
            if overflow:
                set_fault(words, OVERFLOW)
    entries = (1 if total != 0 else 0) - (1 if load(words, out) != 0 else 0)
    store(words, out + 1, load(words, out + 1) + entries)
    store(words, out, total)
