"""What the store does not use: logged changes, sums that overflow, cursors over ranges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triegs.jit.words import Words
from triegs.store.kernels.cursors import (
    CURSOR_WORDS,
    KEY,
    WORD,
    set_first,
    set_next,
    trie_first,
    trie_next,
)
from triegs.store.kernels.epochs import publish_epoch
from triegs.store.kernels.layout import (
    CLASSES,
    EMPTIED,
    FAULTS,
    FREE_COUNT,
    LOG_FULL,
    NODE_CLASS,
    OVERFLOW,
    SLOTS,
)
from triegs.store.kernels.memory import make_arena
from triegs.store.kernels.relations import (
    adjacency_add_logged,
    adjacency_change,
    adjacency_get,
    map_add_at,
    map_add_logged,
    map_change,
    map_get,
    slot_at,
    sweep_log,
    tuple_change,
)
from triegs.store.kernels.trie import find_leaf

NO_HOLDS = np.empty(0, np.int64)
ids = st.one_of(st.integers(0, 70), st.integers(0, 2**31 - 1))
near_ids = st.one_of(st.integers(0, 40), st.integers(0, 2000))
values = st.integers(-2, 2)


def make_log(size: int = 4_096) -> Words:
    log = np.zeros(size, np.int64)
    log[0] = 1
    return log


def read_log(log: Words) -> dict[int, int]:
    """Each id once, with the word before."""
    entries = log[1 : log[0]].tolist()
    found = dict(zip(entries[::2], entries[1::2], strict=True))
    assert 2 * len(found) == len(entries)
    return found


def publish(words: Words) -> None:
    publish_epoch(words, np.zeros(8, np.int64), NO_HOLDS)


def read_trie(words: Words, root: int) -> Iterator[tuple[int, int]]:
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    trie_first(words, cursor, 0, root)
    while trie_next(words, cursor, 0):
        yield int(cursor[KEY]), int(cursor[WORD])


def read_set(words: Words, reference: int) -> Iterator[tuple[int, int]]:
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    set_first(words, cursor, 0, reference)
    while set_next(words, cursor, 0):
        yield int(cursor[KEY]), int(cursor[WORD])


def sweep_if_told(words: Words, log: Words, slot: int) -> None:
    """As an epoch does it; where `EMPTIED` is not set, there must be nothing to sweep."""
    free = words[FREE_COUNT : FREE_COUNT + CLASSES].tolist()
    was_told = words[EMPTIED] != 0
    sweep_log(words, log, 1, log[0], slot, NODE_CLASS)
    assert was_told or words[FREE_COUNT : FREE_COUNT + CLASSES].tolist() == free
    words[EMPTIED] = 0


@given(st.lists(st.lists(st.tuples(ids, values), max_size=40), max_size=4))
def test_map_log_holds_the_words_before(epochs: list[list[tuple[int, int]]]) -> None:
    words = make_arena(reserve=False)
    slot = slot_at(3)
    rows: dict[int, int] = {}
    for changes in epochs:
        before, log = dict(rows), make_log()
        touched = {key for key, value in changes if value}
        for key, value in changes:
            rows[key] = rows.get(key, 0) + value
            assert map_add_logged(words, log, slot, key, value) == rows[key]
        rows = {key: count for key, count in rows.items() if count}
        assert read_log(log) == {key: before.get(key, 0) for key in touched}
        sweep_if_told(words, log, slot)
        publish(words)
        assert list(read_trie(words, words[slot])) == sorted(rows.items())
        assert words[slot + 1] == len(rows)
        assert (words[slot] == 0) == (not rows)


@given(st.lists(st.lists(st.dictionaries(near_ids, values, max_size=12), max_size=5), max_size=4))
def test_leaves_that_were_found_before_other_additions(epochs: list[list[dict[int, int]]]) -> None:
    """As an edge does: the leaves of all ids of a block are found before the first one changes."""
    words = make_arena(reserve=False)
    slot = slot_at(3)
    rows: dict[int, int] = {}
    for blocks in epochs:
        before, root, log = dict(rows), int(words[slot]), make_log()
        for block in blocks:
            leaves = {key: find_leaf(words, int(words[slot]), key) for key in block}
            for key, value in block.items():
                rows[key] = rows.get(key, 0) + value
                assert map_add_at(words, log, slot, leaves[key], key, value) == rows[key]
            rows = {key: count for key, count in rows.items() if count}
        touched = {key for block in blocks for key, value in block.items() if value}
        assert read_log(log) == {key: before.get(key, 0) for key in touched}
        sweep_if_told(words, log, slot)
        assert list(read_trie(words, root)) == sorted(before.items())
        publish(words)
        assert list(read_trie(words, words[slot])) == sorted(rows.items())
        assert words[slot + 1] == len(rows)


@given(st.lists(st.lists(st.tuples(ids, ids, values), max_size=40), max_size=4))
def test_adjacency_log_holds_who_came_and_went(
    epochs: list[list[tuple[int, int, int]]],
) -> None:
    words = make_arena(reserve=False)
    slot = slot_at(0)
    rows: dict[tuple[int, int], int] = {}
    for changes in epochs:
        before, log = {x for x, _ in rows}, make_log()
        flipped: dict[int, int] = {}
        for x, y, value in changes:
            was = any(key[0] == x for key in rows)
            rows[x, y] = rows.get((x, y), 0) + value
            assert adjacency_add_logged(words, log, slot, x, y, value) == rows[x, y]
            if not rows[x, y]:
                del rows[x, y]
            if was != any(key[0] == x for key in rows):
                flipped.setdefault(x, int(was))
        assert read_log(log) == flipped
        assert all((x in before) == bool(was) for x, was in flipped.items())
        sweep_if_told(words, log, slot)
        publish(words)
        found = {(x, y): count for x, reference in read_trie(words, words[slot])
                 for y, count in read_set(words, reference)}  # fmt: skip
        assert found == rows
        assert words[slot + 1] == len(rows)


@given(st.sets(st.tuples(ids, ids), min_size=1, max_size=40), st.data())
def test_what_a_later_epoch_takes_away_leaves_no_empty_leaf(
    pairs: set[tuple[int, int]], data: st.DataObject
) -> None:
    words = make_arena(reserve=False)
    gone = data.draw(st.sets(st.sampled_from(sorted(pairs))))
    for value, changes in ((1, pairs), (-1, gone)):
        log = make_log()
        for x, y in changes:
            adjacency_add_logged(words, log, SLOTS, x, y, value)
        sweep_if_told(words, log, SLOTS)
        publish(words)
    assert [x for x, _ in read_trie(words, words[SLOTS])] == sorted({x for x, _ in pairs - gone})


def test_a_full_log_is_a_fault() -> None:
    words, log = make_arena(reserve=False), make_log(5)
    for key in range(3):
        map_add_logged(words, log, SLOTS, key, 1)
    assert words[FAULTS] == LOG_FULL
    assert log[0] == 5


def test_sums_that_overflow_change_nothing() -> None:
    words, top = make_arena(reserve=False), 2**63 - 1
    assert map_change(words, slot_at(0), 5, top, False) == (0, top)
    assert adjacency_change(words, slot_at(1), 5, 6, -top, False) == (0, -top)
    key = np.array([5, 6, 7])
    assert tuple_change(words, slot_at(2), key, 3, top, False) == (0, top)
    assert tuple_change(words, slot_at(3), key, 0, top, False) == (0, top)
    assert words[FAULTS] == 0
    for change in [
        lambda: map_change(words, slot_at(0), 5, 1, False),
        lambda: adjacency_change(words, slot_at(1), 5, 6, -2, False),
        lambda: tuple_change(words, slot_at(2), key, 3, top, False),
        lambda: tuple_change(words, slot_at(3), key, 0, 1, False),
    ]:
        old, new = change()
        assert old == new
        assert words[FAULTS] == OVERFLOW
        words[FAULTS] = 0
    assert map_get(words, words[slot_at(0)], 5) == top
    assert adjacency_get(words, words[slot_at(1)], 5, 6) == -top


def test_adding_nothing_touches_nothing() -> None:
    words = make_arena(reserve=False)
    before = words.copy()
    assert map_change(words, slot_at(0), 5, 0, False) == (0, 0)
    assert adjacency_change(words, slot_at(0), 5, 6, 0, True) == (0, 0)
    assert tuple_change(words, slot_at(0), np.array([1, 2, 3]), 3, 0, True) == (0, 0)
    assert map_add_logged(words, make_log(), slot_at(0), 5, 0) == 0
    assert (words == before).all()
