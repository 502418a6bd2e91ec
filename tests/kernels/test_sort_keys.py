"""Sort keys have the order of values, and ranges of a set are exactly those of its keys."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates.drawing import KINDS, typed

from triegs.maintain.kernels.sort_keys import (
    KIND_SHIFT,
    NUMBERS,
    PAYLOAD,
    bound_range,
    make_sort_key,
    range_next,
    read_number,
    reverse_digits,
    sort_number,
    start_range,
)
from triegs.maintain.kernels.work import HIGH_BOUND, LEVEL_STATE, LOW_BOUND, NEXT_HIGH, NEXT_LOW
from triegs.maintain.model import Range, find_address
from triegs.maintain.tables import write_range
from triegs.maintain.value_words import value_words
from triegs.sparql.comparisons import find_comparison
from triegs.sparql.expressions import holds
from triegs.sparql.model import Call
from triegs.store.kernels.cursors import KEY as CURSOR_KEY
from triegs.store.kernels.relations import adjacency_change, tuple_get
from triegs.store.packed import PackedStore

#: With and without a time zone, less and more than the 14 hours apart that decide.
TIMES = [
    typed(f"2020-01-0{day}T{hour}:00:00{zone}", "dateTime")
    for day in (1, 2)
    for hour in ("00", "09", "13", "15")
    for zone in ("", "Z")
]
TIMES += [
    typed(f"2020-01-0{day}{zone}", "date") for day in (1, 2, 3) for zone in ("", "Z", "+13:00")
]
TERMS_OF_ALL_KINDS = [*TIMES, *(term for terms in KINDS.values() for term in terms)]
keys = st.integers(0, (1 << 60) - 1)


@given(keys)
def test_digits_are_reversed(key):
    back = int(reverse_digits(key))
    digits = [(key >> 5 * n) & 31 for n in range(12)]
    assert [(back >> 5 * n) & 31 for n in range(12)] == digits[::-1]
    assert reverse_digits(back) == key


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_numbers_have_the_order_of_their_sort_keys(x, y):
    first, second = sort_number(x, NUMBERS), sort_number(y, NUMBERS)
    assert (first <= second) if x <= y else (first >= second)
    if abs(x) < 1e308:
        assert read_number(first) <= x
        assert abs(read_number(first) - x) <= abs(x) * 2.0**-43 + 1e-307


def sort_key_of(term: str) -> int:
    return int(make_sort_key(np.array(value_words(term), np.int64), 0))


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_every_comparison_that_holds_is_in_its_range(operator):
    """And what is certainly in it holds: for all pairs of terms, also after arithmetic."""
    five = '"0.5"^^<http://www.w3.org/2001/XMLSchema#float>'
    two = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
    expressions = [
        Call(operator, ("?v", "?u")),
        Call(operator, (Call("-", ("?v", "?u")), two)),
        Call(operator, (Call("*", (two, "?v")), Call("+", ("?u", five)))),
    ]
    for expression in expressions:
        found = find_comparison(expression)
        assert found is not None
        table = np.array(write_range(Range(0, found.solve("?v"))), np.int64)
        for u in TERMS_OF_ALL_KINDS:
            for v in TERMS_OF_ALL_KINDS:
                key, is_true = sort_key_of(v), holds(expression, {"?v": v, "?u": u})
                low, high, sure_low, sure_high = bound_range(
                    table, 0, sort_key_of(u), key >> KIND_SHIFT
                )
                assert low <= key <= high or not is_true, (expression, v, u)
                assert is_true or not sure_low <= key <= sure_high, (expression, v, u)


def test_ranges_of_close_numbers_are_narrow():
    """A range does not reach far beyond what holds."""
    number = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    found = find_comparison(Call("<=", (Call("-", ("?v", "?u")), number.format(600_000))))
    assert found is not None
    table = np.array(write_range(Range(0, found.solve("?v"))), np.int64)
    start = 1_700_000_000_000
    _, high, _, sure = bound_range(table, 0, sort_key_of(number.format(start)), NUMBERS)
    assert sort_key_of(number.format(start + 600_000)) <= high
    assert high < sort_key_of(number.format(start + 600_010))
    assert sort_key_of(number.format(start + 599_990)) <= sure


@pytest.mark.parametrize("seed", range(30))
def test_walks_equal_a_filter_of_all_keys(seed):
    """Sets of any size, with keys that share many digits, between random bounds."""
    random = Random(seed)
    kind = random.choice([2, 4, 10]) << KIND_SHIFT
    base = random.randrange(PAYLOAD)
    size = random.choice([1, 5, 32, 33, 200, 3_000])
    spread = 1 << random.choice([4, 12, 20, 30, 56])
    chosen = {kind | (base + random.randrange(spread)) & PAYLOAD for _ in range(size)}
    chosen |= {random.randrange(1 << 60) for _ in range(size // 4)}
    other = (kind >> KIND_SHIFT ^ 1) << KIND_SHIFT
    chosen |= {other | random.randrange(spread) for _ in range(size // 4)}
    store = PackedStore()
    relation = store.create("sorted", 2)
    words_of = {int(reverse_digits(key)): key for key in chosen}
    address = find_address(relation)

    def fill(words, _):
        for stored in words_of:
            adjacency_change(words, address, 0, stored, 1, False)

    store.run(fill)
    store.check()
    reference = int(tuple_get(store.words, int(store.words[address]), np.zeros(1, np.int64), 1))
    own = sorted(key for key in chosen if key >> KIND_SHIFT == kind >> KIND_SHIFT)
    for _ in range(20):
        low, high = sorted(random.choice(own) + random.randint(-1, 1) for _ in "ab")
        low, high = max(low, kind), min(high, kind | PAYLOAD)
        second = other, other | spread // 2
        work = np.zeros(LEVEL_STATE, np.int64)
        work[[LOW_BOUND, HIGH_BOUND, NEXT_LOW, NEXT_HIGH]] = low, high, *second
        start_range(store.words, work, 0, reference)
        found = []
        while range_next(store.words, work, 0):
            found.append(int(reverse_digits(int(work[CURSOR_KEY]))))
        expected = [key for key in chosen if low <= key <= high or second[0] <= key <= second[1]]
        assert sorted(found) == sorted(expected)
