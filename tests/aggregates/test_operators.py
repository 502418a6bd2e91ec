"""Operators: the built-in ones by definition, and those of users."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.aggregates.swag.daba import DabaLite
from triegs.aggregates.swag.operators import (
    BUILTIN,
    MAX_DOUBLE,
    MEAN,
    MIN_DOUBLE,
    SUM,
    Operator,
)
from triegs.jit.jit import COMPILED

WORDS = st.integers(-(2**63), 2**63 - 1)


def lift_plainly(operator, value):
    return tuple(map(int, operator.lift(operator.values(value))))


def fold_plainly(operator, values):
    states = (lift_plainly(operator, value) for value in values)
    return reduce(operator.combine, states, operator.identity)


@given(st.lists(WORDS, max_size=30))
def test_sums_and_means_of_integers_are_exact(values):
    total = sum(values)
    state = fold_plainly(SUM, values)
    if -(2**63) <= total < 2**63:
        assert SUM.lower(*state) == total
    else:
        with pytest.raises(OverflowError, match="64 bits"):
            SUM.lower(*state)
    mean = total / len(values) if values else None
    assert MEAN.lower(*fold_plainly(MEAN, values)) == mean


def test_overflow_is_judged_on_the_result():
    window = DabaLite(SUM)
    window.insert([1, 2, 3, 4], [2**62, 2**62, 2**62, -(2**62)])
    with pytest.raises(OverflowError):
        window.query()
    window.evict([1])
    assert window.query() == 2**62


@given(st.lists(st.floats(), min_size=1, max_size=10))
def test_extrema_of_doubles(values):
    """NaN is the largest value, and −0 is less than 0."""

    def rank(value):
        return (math.isnan(value), 0 if math.isnan(value) else value, math.copysign(1, value))

    for operator, choose in ((MIN_DOUBLE, min), (MAX_DOUBLE, max)):
        state = fold_plainly(operator, values)
        found, expected = operator.lower(*state), choose(values, key=rank)
        assert found == expected or (math.isnan(found) and math.isnan(expected))
        assert math.isnan(found) or math.copysign(1, found) == math.copysign(1, expected)


@pytest.mark.parametrize("operator", BUILTIN, ids=lambda operator: operator.name)
def test_identity_changes_nothing(operator):
    for value in (-7, 0, 12):
        state = lift_plainly(operator, value)
        assert operator.combine(operator.identity, state) == state
        assert operator.combine(state, operator.identity) == state


def test_compiled_functions_of_a_user():
    import numba

    product = Operator(
        "product",
        (1.0,),
        numba.njit(lambda value: (value,)),
        numba.njit(lambda a, b: (a[0] * b[0],)),
        values=np.float64,
    )
    window = DabaLite(product)
    window.insert([1, 2, 3], [2.0, 0.5, 8.0])
    assert window.query() == 8.0
    window.evict([1])
    assert window.query() == 4.0


def test_operators_of_one_name_are_apart():
    factor = 10
    one = Operator("same", (0,), lambda value: (value,), lambda a, b: (a[0] + b[0],))
    two = Operator("same", (0,), lambda value: (factor * value,), lambda a, b: (a[0] + b[0],))
    found = []
    for operator in (one, two):
        window = DabaLite(operator)
        window.insert([1, 2], [3, 4])
        found.append(window.query())
    assert found == [7, 70]


def test_refuses_an_identity_that_is_no_state():
    with pytest.raises(TypeError, match="tuple of int and float"):
        Operator("bad", (), lambda v: (v,), lambda a, b: a)
    with pytest.raises(TypeError, match="tuple of int and float"):
        Operator("bad", ("",), lambda v: (v,), lambda a, b: a)


@pytest.mark.skipif(not COMPILED, reason="nothing is cached")
def test_only_builtin_operators_are_cached():
    import subprocess
    import sys

    program = (
        "from triegs.aggregates.swag.daba import DabaLite\n"
        "from triegs.aggregates.swag.operators import SUM, Operator\n"
        "window = DabaLite(SUM)\n"
        "window.insert([1], [1])\n"
        "kernel = window._kernels.insert_rows\n"
        "print(sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))\n"
    )
    DabaLite(SUM).insert([1], [1])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split() == ["1", "0"]
