"""DABA Lite against plain lists, after every step."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates.models import AFFINE, MIXED, PlainWindow, fold

from triegs.aggregates.swag.daba import DabaLite
from triegs.aggregates.swag.kernels.daba import COUNT as EVENTS
from triegs.aggregates.swag.kernels.daba import A, B, E, F, L, R
from triegs.aggregates.swag.operators import COUNT, MAX, MEAN, MIN, SUM, Operator
from triegs.jit.jit import COMPILED

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")

SLOTS = 2
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(1, 9)),
        st.tuples(st.just("evict"), st.integers(0, 9)),
    ),
    max_size=40,
)


def check_queue(window: DabaLite, slots: int, group: int = 0) -> None:
    """The invariants of `triegs.aggregates.swag.kernels.daba`."""
    header = window._headers[group * window._header_words :][: window._header_words].tolist()
    if header[EVENTS] == 0:
        assert header[E] == 0
        return
    order: list[tuple[int, int]] = []
    block, slot = header[F], header[F + 1]
    while (block, slot) != (header[E], header[E + 1]):
        order.append((block, slot))
        slot += 1
        if slot == slots:
            block, slot = int(window._words[block + 1]), 0
    order.append((block, slot))
    f, left, r, a, b, e = (order.index((header[p], header[p + 1])) for p in (F, L, R, A, B, E))
    assert f <= left <= r <= a <= b <= e == header[EVENTS]
    assert r - left == a - r  # invariant 1
    assert (b - left) + 1 == (b - f) - (e - b)  # invariant 2


@given(STEPS)
def test_equals_recomputation_after_every_step(steps):
    window, values = DabaLite(AFFINE, slots=SLOTS, reserve=False), []
    number = 0
    for name, count in steps:
        for _ in range(count):
            if name == "insert":
                window.insert([number // 2], [number])
                values.append(number)
                number += 1
            else:
                window.evict(1)
                del values[:1]
            check_queue(window, SLOTS)
            assert window.query() == fold(AFFINE, values)
            assert window.count() == len(values)


@pytest.mark.parametrize("operator", [SUM, MAX, MIN, MEAN, AFFINE, MIXED], ids=lambda op: op.name)
@pytest.mark.parametrize("width", [1, 7, 400])
def test_slides_like_recomputation(operator, width):
    rng = np.random.default_rng(width)
    count = 3_000 if COMPILED else 400
    times = np.cumsum(rng.integers(0, 3, count))
    values = rng.integers(-50, 50, count).astype(operator.values)
    window, plain = DabaLite(operator), PlainWindow(operator)
    states = window.slide(times, values, width, query=True)
    assert states is not None
    for row, (time, value) in enumerate(zip(times.tolist(), values.tolist(), strict=True)):
        plain.events.append((time, value))
        plain.evict_until(time - width)
        if row % 7 == 0 or row > count - 50:
            assert operator.lower(*operator.read(states[row])) == plain.query()


def test_groups_are_apart_and_share_memory():
    rng = np.random.default_rng(3)
    window, plain = DabaLite(SUM, 2), [PlainWindow(SUM) for _ in range(6)]
    window.add_groups(4)
    for step in range(30):
        groups, values = rng.integers(0, 6, 50), rng.integers(-9, 9, 50)
        window.insert(np.full(50, step), values, groups)
        for group, value in zip(groups.tolist(), values.tolist(), strict=True):
            plain[group].events.append((step, value))
        window.evict([3, 100], [2, 5])
        del plain[2].events[:3], plain[5].events[:]
        if step % 5 == 4:
            expected = sum(time <= step - 5 for each in plain for time, _ in each.events)
            assert window.evict_until(step - 5) == expected
            for each in plain:
                each.evict_until(step - 5)
        states = [SUM.lower(*SUM.read(row)) for row in window.query_states()]
        assert states == [each.query() for each in plain]
        for group in range(6):
            check_queue(window, 64, group)
    used = window.used_bytes
    window.evict_until(1_000)
    window.insert(np.full(600, 1_000), np.ones(600, np.int64), np.arange(600) % 6)
    assert window.used_bytes == used


def test_evicting_past_all_leaves_an_empty_window():
    window = DabaLite(MAX)
    window.insert([1, 2], [5, 6])
    assert window.evict_until(10) == 2
    window.evict([3])
    assert (window.count(), window.query()) == (0, MAX.lower(*MAX.identity))
    window.insert([2], [4])
    assert window.query() == 4


def test_refuses_disorder_and_keeps_what_came_before():
    window = DabaLite(COUNT, 2)
    with pytest.raises(ValueError, match="time 1 in group 1 after 2"):
        window.insert([1, 2, 1, 9], [0, 0, 0, 0], [0, 1, 1, 1])
    assert (window.count(0), window.count(1)) == (1, 1)


@pytest.mark.skipif(COMPILED, reason="compiled code cannot count calls")
@pytest.mark.parametrize("slots", [2, None])
def test_each_operation_takes_few_combinations(slots):
    """Three for an insertion, two for an eviction, one for a query; at any size."""
    calls = []

    def combine(a, b):
        calls.append(1)
        return (a[0] + b[0],)

    def count(most, work, *arguments):
        calls.clear()
        work(*arguments)
        assert len(calls) <= most

    window = DabaLite(Operator("counted", (0,), lambda value: (value,), combine), slots=slots)
    insert, arrays = window._kernels.insert_event, (window._words, window._headers)
    rng = np.random.default_rng(6)
    for chance in (0.9, 0.5, 0.1):
        for time in range(400):
            if rng.random() < chance:
                count(3, insert, *arrays, 0, time, 1)
            else:
                count(2, window.evict, 1)
            count(1, window.query)


def test_saved_windows_are_restored():
    window, copy = DabaLite(SUM, 2), DabaLite(SUM, reserve=False)
    window.insert(np.arange(900), np.arange(900), np.arange(900) % 2)
    window.evict([100, 7], [0, 1])
    copy.restore(window.save())
    for each in (window, copy):
        each.insert([900], [5], [1])
        each.evict([200, 300], [0, 1])
    assert copy.query_states().tolist() == window.query_states().tolist()
    with pytest.raises(ValueError, match="another operator"):
        DabaLite(COUNT).restore(window.save())


def test_pool_that_cannot_reserve_grows():
    window = DabaLite(SUM, reserve=False)
    before = window._words.size
    unit = 10_000 if COMPILED or SOAK else 4_000  # the first array has room for 8,000 events
    window.insert(np.arange(2 * unit), np.ones(2 * unit, np.int64))
    window.slide(np.arange(2 * unit, 6 * unit), np.ones(4 * unit, np.int64), 3 * unit)
    assert window._words.size > before
    assert window.query() == 3 * unit
