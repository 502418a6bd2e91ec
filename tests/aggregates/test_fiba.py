"""The finger B-tree against plain lists, after every step."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates.models import AFFINE, MIXED, PlainWindow, check_tree, fold

from triegs.aggregates.swag.fiba import Fiba
from triegs.aggregates.swag.operators import MAX, SUM
from triegs.jit.jit import COMPILED

SLOTS = 4  # deep trees of few events
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
# Each takes five seconds to compile for trees of this shape. The order of events matters for one
# of them, so it finds what the other does; the run without compilation has both.
OPERATORS = [AFFINE] if COMPILED and not SOAK else [SUM, AFFINE]
TIMES = st.integers(0, 60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(TIMES, min_size=1, max_size=12)),
        st.tuples(st.just("sorted"), st.lists(TIMES, min_size=1, max_size=40).map(sorted)),
        st.tuples(st.just("evict"), TIMES),
        st.tuples(st.just("forward"), st.integers(1, 40)),
    ),
    max_size=12,
)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: op.name)
@given(steps=STEPS, data=st.data())
def test_equals_recomputation_after_every_step(operator, steps, data):
    window, plain = Fiba(operator, slots=SLOTS, reserve=False), PlainWindow(operator)
    shift, number = 0, 0
    for name, what in steps:
        if name in ("insert", "sorted"):
            times = [time + shift for time in what]
            values = list(range(number, number + len(times)))
            number += len(times)
            window.insert(times, values)
            for time, value in zip(times, values, strict=True):
                plain.insert(time, value)
        elif name == "evict":
            window.evict_until(what + shift)
            plain.evict_until(what + shift)
        else:
            shift += what
        check_tree(window)
        if data.draw(st.booleans()):  # else spine states stay stale
            assert window.query() == plain.query()
        after, until = shift + data.draw(TIMES) - 10, shift + data.draw(TIMES)
        assert window.query_range(after, until) == plain.query_range(after, until)
    assert window.query() == plain.query()


@pytest.mark.parametrize(
    "operator", OPERATORS if COMPILED else [SUM, MAX, AFFINE, MIXED], ids=lambda op: op.name
)
@pytest.mark.parametrize("displacement", [0, 30, 10_000])
def test_slides_like_recomputation(operator, displacement):
    rng = np.random.default_rng(displacement)
    count, width = (2_000, 300) if COMPILED else (300, 90)
    times = np.arange(count) // 2 + rng.integers(-displacement, 1, count)
    values = rng.integers(-50, 50, count).astype(operator.values)
    window, plain = Fiba(operator, slots=SLOTS), PlainWindow(operator)
    states = window.slide(times, values, width, query=True)
    assert states is not None
    for row, (time, value) in enumerate(zip(times.tolist(), values.tolist(), strict=True)):
        plain.insert(time, value)
        plain.evict_until(plain.events[-1][0] - width)
        if row % 7 == 0 or row > count - 50:
            assert operator.lower(*operator.read(states[row])) == plain.query()
    check_tree(window)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: op.name)
@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_deep_trees(operator, order):
    rng = np.random.default_rng(5)
    count = 40_000 if COMPILED else 2_000 if SOAK else 1_100
    times = {"ascending": np.arange(count), "descending": np.arange(count)[::-1]}.get(
        order, rng.permutation(count)
    )
    window = Fiba(operator, slots=SLOTS)
    values = rng.integers(0, 10**6, count)
    window.insert(times, values)
    assert check_tree(window) >= 5
    by_time = values[np.argsort(times)]
    assert window.query() == fold(operator, by_time.tolist())
    for bound in (0, count // 3, count // 2, count - 3, count - 1):
        window.evict_until(bound)
        check_tree(window)
        assert window.query() == fold(operator, by_time[bound + 1 :].tolist())
    assert window.is_empty()
    used = window.used_bytes
    window.insert(times, values)
    assert window.used_bytes <= used * 1.1  # evicted subtrees are reused
    assert window.query() == fold(operator, by_time.tolist())


def test_groups_are_apart():
    rng = np.random.default_rng(2)
    window, plain = Fiba(SUM, 3), [PlainWindow(SUM) for _ in range(5)]
    window.add_groups(2)
    for step in range(20):
        groups, times = rng.integers(0, 5, 30), rng.integers(0, 30, 30) + 4 * step
        values = rng.integers(-9, 9, 30)
        if step % 2:
            order = np.lexsort((times, groups))
            groups, times, values = groups[order], times[order], values[order]
        window.insert(times, values, groups)
        for group, time, value in zip(
            groups.tolist(), times.tolist(), values.tolist(), strict=True
        ):
            plain[group].insert(time, value)
        window.evict([4 * step, 4 * step + 3], [1, 3])
        plain[1].evict_until(4 * step)
        plain[3].evict_until(4 * step + 3)
        states = [SUM.lower(*SUM.read(row)) for row in window.query_states()]
        assert states == [each.query() for each in plain]
        for group in range(5):
            check_tree(window, group)


def test_events_with_equal_times_combine_in_order_of_arrival():
    window = Fiba(AFFINE, slots=SLOTS)
    window.insert([7, 7, 3, 7], [1, 2, 3, 4])
    assert window.query() == fold(AFFINE, [3, 1, 2, 4])
    assert window.query_range(3, 7) == fold(AFFINE, [1, 2, 4])


def test_partial_aggregates_are_inserted_like_events():
    window = Fiba(AFFINE, slots=SLOTS)
    window.insert_states([5, 1], np.array([AFFINE.lift(8), AFFINE.lift(9)], np.int64))
    assert window.query() == fold(AFFINE, [9, 8])


def test_saved_windows_are_restored():
    rng = np.random.default_rng(4)
    window = Fiba(SUM, 2)
    window.insert(rng.integers(0, 500, 3_000), np.arange(3_000), np.arange(3_000) % 2)
    window.evict_until(100)
    copy = Fiba(SUM, reserve=False)
    copy.restore(window.save())
    for each in (window, copy):
        each.insert([600, 50], [1, 2], [0, 1])
        each.evict_until(300)
    assert copy.query_states().tolist() == window.query_states().tolist()
    check_tree(copy, 0)
    check_tree(copy, 1)


def test_pool_that_cannot_reserve_grows():
    window = Fiba(SUM, reserve=False)
    before = window._words.size
    count = 40_000 if COMPILED or SOAK else 12_000
    window.insert(np.arange(count), np.ones(count, np.int64))
    assert window._words.size > before
    assert window.query() == count


def test_refuses_what_does_not_fit():
    window = Fiba(SUM, 2)
    with pytest.raises(IndexError, match="from 0 to 1"):
        window.insert([1], [1], [2])
    with pytest.raises(ValueError, match="2 times for 1 values"):
        window.insert([1, 2], [1])
    with pytest.raises(TypeError, match="not float64"):
        window.insert([1], [1.5])
    with pytest.raises(TypeError, match="integers"):
        window.insert([1.5], [1])
    with pytest.raises(ValueError, match="positive"):
        window.slide([1], [1], 0)
