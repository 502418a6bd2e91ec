"""Exact sums of doubles against fractions, bit by bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triegs.aggregates.exact import ExactSums, make_accumulator
from triegs.aggregates.kernels.exact import (
    ADDED,
    MOST_PENDING,
    OVERFLOW,
    PENDING,
    WIDE,
    add_value,
    carry_digits,
    merge_rows,
    round_row,
)
from triegs.jit.jit import COMPILED

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324
DOUBLES = st.one_of(
    st.floats(),
    st.floats(-1e6, 1e6),
    st.integers(-50, 50).map(float),
    st.sampled_from([LARGEST, -LARGEST, SMALLEST, -SMALLEST, 2.0**-1022, 1.0, -0.0, 0.0, 2.0**53]),
)
COUNTS = st.one_of(st.integers(1, 3), st.integers(1, 2**62), st.just(2**31), st.just(2**62))


def round_fraction(total: Fraction) -> float:
    try:
        return total.numerator / total.denominator  # correctly rounded, ties to even
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def add_up(values: list[float], counts: list[int] | None = None) -> float:
    """The sum by definition."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return math.nan
    for infinity in (math.inf, -math.inf):
        if infinity in values:
            return infinity
    if values and all(value == 0 and math.copysign(1, value) < 0 for value in values):
        return -0.0
    numbers = [1] * len(values) if counts is None else counts
    terms = (Fraction(value) * count for value, count in zip(values, numbers, strict=True))
    return round_fraction(sum(terms, Fraction()))


def same(a: float, b: float) -> bool:
    """Equal bits; all NaN are equal."""
    return (math.isnan(a) and math.isnan(b)) or np.float64(a).tobytes() == np.float64(b).tobytes()


@given(st.lists(DOUBLES, max_size=20))
@example([LARGEST, LARGEST, -LARGEST])
@example([SMALLEST] * 3)
@example([2.0**53, 1.0, SMALLEST])
@example([-(2.0**53), -1.0])
@example([-0.0, -0.0])
@example([-0.0, 0.0])
@example([1.0, -1.0])
@example([LARGEST, 2.0**970])
@example([LARGEST, 2.0**970, -SMALLEST])
def test_sum_is_correctly_rounded(values):
    sums = ExactSums()
    sums.add(values)
    assert same(sums.read()[0], add_up(values))


@given(st.lists(st.floats(-1e300, 1e300), max_size=30))
def test_sum_equals_fsum(values):
    sums = ExactSums()
    sums.add(values)
    expected = math.fsum(values)
    assert sums.read()[0] == expected


@given(st.lists(st.tuples(DOUBLES, COUNTS), max_size=8))
def test_multiplicities(rows):
    """Each value as often as its count says; then it is removed, in another order."""
    values, counts = [value for value, _ in rows], [count for _, count in rows]
    sums = ExactSums()
    fits = all(
        sum(c for v, c in rows if kind(v)) < 2**63
        for kind in (math.isfinite, math.isnan, math.isinf)
    )
    if not fits:
        return
    sums.add(values, counts=counts)
    assert same(sums.read()[0], add_up(values, counts))
    sums.add(values[::-1], counts=[-count for count in counts[::-1]])
    assert same(sums.read()[0], 0.0)


@given(st.lists(st.tuples(DOUBLES, st.integers(0, 2)), max_size=30), st.data())
def test_history_leaves_no_trace(rows, data):
    """Groups come and go; removals may come before the additions that they undo."""
    sums = ExactSums(3)
    present: list[list[float]] = [[], [], []]
    for value, group in rows:
        sums.add([value], [group])
        present[group].append(value)
        if present[group] and data.draw(st.booleans()):
            gone = present[group].pop(data.draw(st.integers(0, len(present[group]) - 1)))
            fresh = data.draw(DOUBLES)
            sums.add([gone, fresh, fresh], [group] * 3, [-1, -1, 1])
        for each, found in zip(present, sums.read(), strict=True):
            assert same(found, add_up(each))


@given(st.lists(DOUBLES, max_size=12), st.lists(DOUBLES, max_size=12))
def test_merged_sums(left, right):
    one, other = ExactSums(), ExactSums(2)
    one.add(left)
    other.add(right)
    other.add([2.5], [1])
    one.merge(other)
    assert same(one.read()[0], add_up(left + right))
    assert one.read()[1] == 2.5


def test_merged_sums_of_similar_size_stay_small():
    rng = np.random.default_rng(8)
    one, other = ExactSums(50), ExactSums(60)
    values, groups = rng.uniform(-500, 500, 2_000), rng.integers(0, 60, 2_000)
    one.add(values[groups < 50], groups[groups < 50])
    other.add(values, groups)
    one.merge(other)
    assert one.used_bytes < 60 * 128 + 20 * 624
    for group, found in enumerate(one.read()):
        mine = values[groups == group].tolist()
        assert found == math.fsum(mine * (2 if group < 50 else 1))


def test_ten_million_inserts_and_expiries():
    count, kept = (10_000_000, 1_000) if COMPILED else (5_000, 300)
    rng = np.random.default_rng(9)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-12, 12, count)
    sums = ExactSums()
    sums.add(values)
    sums.add(values[:-kept], counts=np.full(count - kept, -1))
    assert same(sums.read()[0], math.fsum(values[-kept:].tolist()))
    sums.add(-values[-kept:])
    assert same(sums.read()[0], 0.0)


def test_similar_values_need_little_memory():
    sums = ExactSums(100)
    sums.add(np.linspace(0.01, 1e9, 1_000), np.arange(1_000) % 100)
    assert sums.used_bytes == 100 * 128
    sums.add([1e-200], [7])
    assert sums.used_bytes == 100 * 128 + 624
    sums.clear(7)
    sums.add([1e200, 1.0], [8, 8])
    assert sums.used_bytes == 100 * 128 + 624
    assert sums.read([7]).tolist() == [0.0]


def test_saved_sums_are_restored():
    sums, copy = ExactSums(3), ExactSums()
    sums.add([1.5, 1e200, 1.0, 1e-200], [0, 1, 1, 2])
    sums.add([1.0, 1e300], [2, 2])
    sums.clear(1)
    copy.restore(sums.save())
    for each in (sums, copy):
        each.add([1e200, 1.0, -1e300], [1, 1, 2])
    assert copy.read().tolist() == sums.read().tolist() == [1.5, 1e200, 1.0]
    assert copy.used_bytes == sums.used_bytes


def test_carries_are_deferred_up_to_a_limit():
    row = make_accumulator()
    for value in (LARGEST, -SMALLEST, 1.5):
        assert add_value(row, 0, WIDE, value, 2**31 - 1) == ADDED
    row[PENDING] = MOST_PENDING
    assert add_value(row, 0, WIDE, -LARGEST, 2**31 - 1) == ADDED
    assert row[PENDING] == 1
    carry_digits(row, 0, WIDE)
    expected = round_fraction((Fraction(1.5) - Fraction(SMALLEST)) * (2**31 - 1))
    assert round_row(row, 0, WIDE) == expected


def test_counts_that_do_not_fit_change_nothing():
    row, other = make_accumulator(), make_accumulator()
    assert add_value(row, 0, WIDE, 1.0, 2**62) == ADDED
    before = row.copy()
    assert add_value(row, 0, WIDE, 2.0, 2**62) == OVERFLOW
    assert add_value(other, 0, WIDE, 2.0, 2**62) == ADDED
    assert merge_rows(row, 0, WIDE, other, 0, WIDE) == OVERFLOW
    assert row.tolist() == before.tolist()
    sums = ExactSums()
    sums.add([1.0], counts=[2**62])
    with pytest.raises(OverflowError, match="group 0"):
        sums.add([math.inf, 1.0], counts=[1, 2**62])
    assert sums.read()[0] == math.inf


def test_refuses_what_does_not_fit():
    sums = ExactSums(2)
    with pytest.raises(IndexError, match="from 0 to 1"):
        sums.add([1.0], [2])
    with pytest.raises(ValueError, match="2 groups for 1 rows"):
        sums.add([1.0], [0, 1])
    with pytest.raises(ValueError, match="2 counts for 1 values"):
        sums.add([1.0], counts=[0, 1])
