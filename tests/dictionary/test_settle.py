"""Counting by events is counting by ids: what comes first, then what goes, or nothing at all."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triegs.terms.arrays import LIMBO, NAMED
from triegs.terms.dictionary import Dictionary

TERMS = 5
places = st.integers(0, TERMS - 1)
events = st.lists(st.tuples(st.sampled_from([1, 1, 0, -1]), places, places, places), max_size=25)
pins = st.sets(st.integers(0, 6))


def draw_state(words: Dictionary) -> object:
    """Everything that counting changes."""
    arrays = words._interner.arrays
    by_id = [
        array[:TERMS].tolist()
        for array in (arrays.counts, arrays.births, arrays.stamps, arrays.states)
    ]
    limbo = arrays.limbo[: arrays.meta[LIMBO]].tolist()
    return by_id, sorted(limbo), int(arrays.meta[NAMED])


def count(rows: list[tuple[int, ...]], change: int) -> Counter[int]:
    return Counter(term for row in rows if row[0] == change for term in row[1:])


@given(st.lists(st.tuples(events, pins), max_size=6))
@example([([(1, 0, 1, 2), (-1, 0, 1, 2)], set()), ([(-1, 0, 0, 0), (1, 0, 0, 0)], {1})])
@example([([(1, 0, 1, 2)] * 20, set()), ([(-1, 0, 1, 2)] * 21, set()), ([(-1, 0, 1, 3)], set())])
def test_by_events_and_by_ids(epochs: list[tuple[list[tuple[int, int, int, int]], set[int]]]):
    words, twin = Dictionary(), Dictionary()
    counts: Counter[int] = Counter()
    for epoch, (drawn, held) in enumerate(epochs):
        ids = words.encode_terms(range(TERMS))
        assert twin.encode_terms(range(TERMS)) == ids
        rows = [(change, *(ids[term] for term in terms)) for change, *terms in drawn]
        array = np.array(rows, np.int64).reshape(-1, 4)
        born, died = count(rows, 1), count(rows, -1)
        after = counts + born
        after.subtract(died)
        if min(after.values(), default=0) < 0:
            before = draw_state(words)
            with pytest.raises(KeyError, match="released more often"):
                words.settle(array, epoch)
            assert draw_state(words) == before
        else:
            words.settle(array, epoch)
            twin.acquire(np.array(list(born.elements()), np.int64), epoch)
            twin.release(np.array(list(died.elements()), np.int64), epoch)
            counts = after
        assert draw_state(words) == draw_state(twin)
        words.check()
        seen = sorted(pin for pin in held if pin <= epoch)
        assert words.collect(epoch, seen) == twin.collect(epoch, seen)
        assert draw_state(words) == draw_state(twin)
        words.check()
        gone = [term for term in range(TERMS) if words.find_one(term) < 0]
        assert all(counts[identity] == 0 for term in gone for identity in [ids[term]])


@pytest.mark.parametrize("stranger", [-1, 3, 1023, 1024, 2**40])
@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize("size", [1, 40])
def test_strangers_change_nothing(stranger: int, change: int, size: int) -> None:
    words = Dictionary()
    a, b, c = words.encode_terms([1, 2, 3])
    words.settle(np.array([(1, a, b, b)]), 1)
    before = draw_state(words)
    rows = np.array([(1, a, b, c)] * size + [(-1, a, b, c), (change, b, b, stranger)])
    with pytest.raises(KeyError, match=str(stranger)):
        words.settle(rows, 2)
    assert draw_state(words) == before
    words.check()


def test_what_was_freed_is_a_stranger() -> None:
    words = Dictionary()
    a, b = words.encode_terms([1, 2])
    words.acquire([a])
    words.collect(0)
    with pytest.raises(KeyError, match=f"{b} is not the id"):
        words.settle(np.array([(1, a, a, b)]))
    words.settle(np.empty((0, 4), np.int64))
    words.check()
