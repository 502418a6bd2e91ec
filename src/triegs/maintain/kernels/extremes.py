"""Steps that carry extremes: the lowest or highest value below each key.

The word of a key is the id of its extreme plus one, 0 if it has none. An edge keeps the best word
of the neighbours of each key; a product keeps the word of its first factor where all others are
present. So a change stops where the extreme stays the same.

A better word replaces the extreme at once. Where the extreme itself has gone, the neighbours are
read again, up to one that still has it.

Terms have the order of `triegs.sparql.term_order`. Where the values of two terms do not decide,
such as two IRIs, a judge does. A step with requests runs again from its start: until then it has
replaced words by better ones only, and by those of neighbours that it had all compared.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, load, store
from triegs.maintain.kernels.entries import fetch_ahead, fetch_leaves, value_before
from triegs.maintain.kernels.tables import (
    CARRIED,
    COUNT,
    EDGE_BY_OTHER,
    EDGE_BY_OWN,
    EDGE_CHANGED,
    EDGE_CHILD,
    EDGE_COLUMN,
    EDGE_IS_LAST,
    EDGE_JUDGE,
    EDGE_OUT,
    EDGE_READS,
    EDGE_STREAM,
    ENTRY_WORDS,
    FACTOR_CHANGED,
    FACTOR_SLOT,
    FACTOR_WORDS,
    OWN,
    PRESENCE,
    PRODUCT_FACTORS,
    PRODUCT_FACTORS_AT,
    PRODUCT_OUT,
)
from triegs.maintain.kernels.verdicts import (
    BOOLEAN,
    DATE,
    DATE_TIME,
    DIRECTORY,
    DOUBLE,
    EXACT,
    FLOOR,
    FRACTION,
    IDENTITY,
    NAN,
    OPAQUE,
    OTHER,
    SINGLE,
    STAMP,
    TEXT,
    VALUE_JUDGE,
    find_tuple,
    request_one,
    request_tuple,
    value_at,
)
from triegs.maintain.kernels.verdicts import KEY as VALUE_KEY
from triegs.maintain.kernels.work import IDS, LEVELS
from triegs.store.kernels.blocks import entry_key
from triegs.store.kernels.cursors import BLOCK, BLOCK_ROOM, SIZE, set_first, set_next_block
from triegs.store.kernels.relations import map_add_logged
from triegs.store.kernels.sets import set_get
from triegs.store.kernels.trie import trie_get

UNKNOWN = -1
NO_SORT = 0


@inlined
def find_sort(value_class: int) -> int:
    """The rank of a class of values in the order of terms; `NO_SORT` if it has several."""
    if EXACT <= value_class <= DOUBLE:
        return 4
    if value_class in (IDENTITY, OTHER):
        return NO_SORT
    if value_class == NAN:
        return 3
    if value_class >= DATE:
        return 5
    if value_class >= DATE_TIME:
        return 6
    if value_class == TEXT:
        return 7
    return 9 if value_class == BOOLEAN else 10


@short_kernel
def is_after(
    verdicts: Words, requests: Words, work: Words, judge: int, left: int, right: int
) -> int:  # fmt: skip
    """Whether a term comes after another in the order of terms; `UNKNOWN` if that was requested."""
    left_at, right_at = value_at(verdicts, left), value_at(verdicts, right)
    if left_at == 0 or right_at == 0:
        if left_at == 0:
            request_one(requests, VALUE_JUDGE, left)
        if right_at == 0:
            request_one(requests, VALUE_JUDGE, right)
        return UNKNOWN
    first, second = load(verdicts, left_at), load(verdicts, right_at)
    sort, other = find_sort(first), find_sort(second)
    if sort != NO_SORT and other != NO_SORT:
        if sort != other:
            return 1 if sort > other else 0
        a, b = 0, 0
        if sort == 7 or (sort == 4 and (first > SINGLE or second > SINGLE)):
            # The double next to an exact number, or the first bytes of a text.
            a, b = load(verdicts, left_at + VALUE_KEY), load(verdicts, right_at + VALUE_KEY)
        elif first not in (NAN, OPAQUE):
            a, b = load(verdicts, left_at + FLOOR), load(verdicts, right_at + FLOOR)
            if a == b:
                a = load(verdicts, left_at + FRACTION)
                b = load(verdicts, right_at + FRACTION)
        if a != b:
            return 1 if a > b else 0
    store(work, IDS, left)
    store(work, IDS + 1, right)
    row = load(verdicts, DIRECTORY + judge)
    at = find_tuple(verdicts, row, work, IDS, 2)
    word = load(verdicts, at)
    if word >> 1 == load(verdicts, row + STAMP):
        return word & 1
    request_tuple(requests, judge, work, IDS, 2)
    return UNKNOWN


@inlined
def is_better(
    verdicts: Words, requests: Words, work: Words, table: Words, step: int, word: int, best: int
) -> int:
    """Whether a word is that of a better term than another; `UNKNOWN` if that was requested."""
    judge = load(table, step + EDGE_JUDGE)
    if load(table, step + EDGE_IS_LAST) != 0:
        return is_after(verdicts, requests, work, judge, word - 1, best - 1)
    return is_after(verdicts, requests, work, judge, best - 1, word - 1)


@inlined
def word_now(words: Words, table: Words, step: int, w: int) -> int:
    """The word of a neighbour: its own id, perhaps only if it is present, or what it carries."""
    reads = load(table, step + EDGE_READS)
    if reads == OWN:
        return w + 1
    word = trie_get(words, load(words, load(table, step + EDGE_CHILD)), w)
    return word if reads == CARRIED or word == 0 else w + 1


@inlined
def word_before(words: Words, roots: Words, table: Words, step: int, w: int) -> int:
    """The same before this epoch."""
    reads, child = load(table, step + EDGE_READS), load(table, step + EDGE_CHILD)
    if reads == OWN:
        return w + 1
    if reads == CARRIED:
        return value_before(words, roots, COUNT, child, w)
    return w + 1 if value_before(words, roots, PRESENCE, child, w) != 0 else 0


@kernel
def read_neighbours(
    words: Words, log: Words, work: Words, table: Words, step: int, v: int, known: int,
    verdicts: Words, requests: Words,
) -> None:  # fmt: skip
    """Find the extreme of a key among all its neighbours, unless one still has the known word.
    Nothing changes if a comparison is unknown.
    """
    best, is_sure = 0, True
    own = trie_get(words, load(words, load(table, step + EDGE_BY_OWN)), v)
    set_first(words, work, LEVELS, own)
    while True:
        block, room = load(work, LEVELS + BLOCK), load(work, LEVELS + BLOCK_ROOM)
        for index in range(load(work, LEVELS + SIZE)):
            word = word_now(words, table, step, entry_key(words, block, room, index))
            if word == known:
                return
            if word == 0 or word == best:
                continue
            if best == 0:
                best = word
                continue
            outcome = is_better(verdicts, requests, work, table, step, word, best)
            if outcome == UNKNOWN:
                is_sure = False
            elif outcome != 0:
                best = word
        if not set_next_block(words, work, LEVELS):
            break
    if is_sure:
        map_add_logged(words, log, load(table, step + EDGE_OUT), v, best - known)


@inlined
def change_word(
    words: Words, log: Words, work: Words, table: Words, step: int, v: int, before: int, now: int,
    verdicts: Words, requests: Words,
) -> None:  # fmt: skip
    """Follow the change of a neighbour's word; 0 for a neighbour that came or went."""
    out = load(table, step + EDGE_OUT)
    known = trie_get(words, load(words, out), v)
    if now == known:
        return
    if now != 0:
        outcome = 1
        if known != 0:
            outcome = is_better(verdicts, requests, work, table, step, now, known)
        if outcome == UNKNOWN:
            return
        if outcome != 0:
            map_add_logged(words, log, out, v, now - known)
            return
    if before == known:
        read_neighbours(words, log, work, table, step, v, known, verdicts, requests)


@kernel
def step_extreme_edge(
    words: Words, log: Words, lists: Words, work: Words, bounds: Words, entries: Words,
    table: Words, step: int, roots: Words, verdicts: Words, requests: Words,
) -> None:  # fmt: skip
    """``P(v) = the best word of all w with G(v, w)``."""
    stream, column = load(table, step + EDGE_STREAM), load(table, step + EDGE_COLUMN)
    by_other, by_own = load(table, step + EDGE_BY_OTHER), load(table, step + EDGE_BY_OWN)
    changed, out = load(table, step + EDGE_CHANGED), load(table, step + EDGE_OUT)
    start, end = load(bounds, stream), load(bounds, stream + 1)
    if load(table, step + EDGE_READS) != CARRIED:
        # New terms enter here, so all their values are requested at once.
        for at in range(start, end, ENTRY_WORDS):
            w = load(entries, at + 1 - column)
            if load(entries, at + 2) > 0 and value_at(verdicts, w) == 0:
                request_one(requests, VALUE_JUDGE, w)
        if load(requests, 0) > 1:
            return
    for at in range(start, end, ENTRY_WORDS):
        fetch_ahead(words, load(words, out), entries, column, start, at, end, False)
        change = load(entries, at + 2)
        if change == 0:
            continue
        v, w = load(entries, at + column), load(entries, at + 1 - column)
        known = trie_get(words, load(words, out), v)
        if change < 0:
            # If the pair is still there, or its word has changed, this is right all the same.
            if known != 0 and word_before(words, roots, table, step, w) == known:
                read_neighbours(words, log, work, table, step, v, known, verdicts, requests)
            continue
        now = word_now(words, table, step, w)
        if now == 0 or now == known:
            continue
        if known != 0 and is_better(verdicts, requests, work, table, step, now, known) != 1:
            continue
        if set_get(words, trie_get(words, load(words, by_own), v), w) != 0:
            map_add_logged(words, log, out, v, now - known)
    if changed < 0:
        return
    for at in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
        w, before = load(log, at), load(log, at + 1)
        now = word_now(words, table, step, w)
        if before != 0 and load(table, step + EDGE_READS) != CARRIED:
            before = w + 1
        if now == before:
            continue
        set_first(words, work, 0, trie_get(words, load(words, by_other), w))
        while True:
            block, size, room = load(work, BLOCK), load(work, SIZE), load(work, BLOCK_ROOM)
            fetch_leaves(words, work, load(words, out), block, room, size)
            for index in range(size):
                v = entry_key(words, block, room, index)
                change_word(words, log, work, table, step, v, before, now, verdicts, requests)
            if not set_next_block(words, work, 0):
                break


@kernel
def step_extreme_product(words: Words, log: Words, lists: Words, table: Words, step: int) -> None:
    """``N(v) = the word of the first factor``, if all others are present."""
    out, count = load(table, step + PRODUCT_OUT), load(table, step + PRODUCT_FACTORS)
    first = load(table, step + PRODUCT_FACTORS_AT)
    for number in range(count):
        changed = load(table, first + FACTOR_WORDS * number + FACTOR_CHANGED)
        for entry in range(load(lists, 2 * changed), load(lists, 2 * changed + 1), 2):
            key = load(log, entry)
            word = trie_get(words, load(words, load(table, first + FACTOR_SLOT)), key)
            for other in range(1, count):
                slot = load(table, first + FACTOR_WORDS * other + FACTOR_SLOT)
                if word != 0 and trie_get(words, load(words, slot), key) == 0:
                    word = 0
            known = trie_get(words, load(words, out), key)
            if word != known:
                map_add_logged(words, log, out, key, word - known)
