"""The difference of two versions of a relation, in tries and sets of every shape."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from triegs.read.kernels.differences import (
    KEY,
    NEW,
    OLD,
    column_at,
    difference_words,
    next_difference,
    open_difference,
)
from triegs.read.kernels.expansion import weigh
from triegs.store.kernels.layout import SLOT_WORDS
from triegs.store.packed import PackedStore

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
pytestmark = pytest.mark.property


def differences(relation, old, new, columns, weighs):
    at = SLOT_WORDS * relation.slot
    state = np.zeros(difference_words(columns), np.int64)
    open_difference(new.words, state, 0, int(old.roots[at]), int(new.roots[at]))
    found = []
    while next_difference(new.words, state, 0, columns, weighs):
        key = tuple(int(state[column_at(0, column) + KEY]) for column in range(columns))
        last = column_at(0, columns - 1)
        found.append((key, int(state[last + OLD]), int(state[last + NEW])))
    return found


def draw_key(random, arity, spread):
    """Few first ids, so that sets grow into hubs; now and then one from far away."""
    first = random.randrange(3) if random.random() < 0.9 else random.randrange(spread)
    return (first, *(random.randrange(random.choice([4, 60, spread])) for _ in range(arity - 1)))


@pytest.mark.parametrize("arity", [1, 2, 3])
@pytest.mark.parametrize("seed", range(40 if SOAK else 6))
def test_differences_are_those_of_the_contents(arity, seed):
    random = Random(f"{arity} {seed}")
    store = PackedStore()
    relation = store.create("r", arity)
    spread = random.choice([20, 2_000, 2**25])
    versions = []
    known: dict = {}
    for _ in range(6):
        for _ in range(random.choice([0, 1, 5, 150])):
            if known and random.random() < 0.45:
                key = random.choice(list(known))
                count = random.choice([0, 0, known[key] + 1])
            else:
                if arity == 1:
                    key = (random.randrange(random.choice([40, spread])),)
                else:
                    key = draw_key(random, arity, spread)
                count = random.randint(1, 3)
            relation.set(key, count)
            known[key] = count
            if not count:
                del known[key]
        versions.append((store.pin(store.publish()), dict(known)))
    for old, before in versions:
        for new, after in versions:
            keys = before.keys() | after.keys()
            expected = sorted((key, before.get(key, 0), after.get(key, 0)) for key in keys)
            expected = [each for each in expected if each[1] != each[2]]
            found = differences(relation, old, new, arity, True)
            assert sorted(found) == expected
            only = [each for each in expected if not each[1] or not each[2]]
            assert sorted(differences(relation, old, new, arity, False)) == only
            if arity == 2:  # as a list of first ids, of which only presence counts
                firsts = {key[0] for key in before} ^ {key[0] for key in after}
                found = differences(relation, old, new, 1, False)
                assert sorted(key for key, _, _ in found) == sorted((x,) for x in firsts)


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [(3, 5, 15), (2**40, 2**40, None), (-1, 7, None), (7, -1, None), (-1, -1, None), (-1, 0, 0)],
)
def test_a_product_of_what_does_not_fit_does_not_fit(a, b, fits):
    product = weigh(a, b)
    assert product < 0 if fits is None else product == fits
