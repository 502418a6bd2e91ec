"""Sums applied in order, one set after the other: against a dict, in sets of every size."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise, permutations
from pathlib import Path
from random import Random

import pytest
from tests.maintain.rules import Bench, Fault, Given

from triegs.maintain.kernels.tables import COUNT
from triegs.maintain.kernels.work import LEVELS
from triegs.store.kernels.layout import BUMP, FULL, LIMIT, OVERFLOW, ROOM_WORDS

ROOT = Path(__file__).parents[2]
#: How many ids each column but the last is drawn from; the last has up to so many in a set.
SHAPES = {
    "one set": ([1], 100),
    "small sets": ([40], 6),
    "sets that become hubs and blocks again": ([3], 40),
    "hubs below hubs": ([2], 1_200),
    "sets that come and go": ([70, 2], 2),
    "three columns": ([5, 4], 40),
    "five columns": ([2, 2, 3, 2], 12),
    "hubs in the middle": ([1, 60], 3),
}


def copy_relation(arity, orders=()):
    """A rule whose output is its only input, so that an epoch applies the changes as they are."""
    bench = Bench([arity], buffer=1 << 14, log_words=1 << 16)
    columns = tuple(range(arity))
    bench.make_rule([Given(0, columns, COUNT)], columns, orders=orders, has_keys=True)
    return bench


def draw_tuple(random, widths, last, spread):
    return (
        *(spread * random.randrange(width) for width in widths),
        spread * random.randrange(last),
    )


def draw_orders(random, arity, seed):
    """No other order, the reverse, or several in any sequence."""
    if seed % 2 == 0:
        return []
    if seed % 4 == 1:
        return [tuple(reversed(range(arity)))]
    others = [order for order in permutations(range(arity)) if order != tuple(range(arity))]
    return random.sample(others, min(len(others), 3))


def exercise(shape, seed, epochs=8, most=400):
    """Epochs of insertions, changed counts and deletions, of single tuples and of whole sets."""
    random = Random(f"{shape} {seed}")
    widths, last = SHAPES[shape]
    arity = len(widths) + 1
    spread = random.choice([1, 1, 7, 32, 33 * 1024])
    bench = copy_relation(arity, draw_orders(random, arity, seed))
    rows = bench.bases[0].rows
    for _ in range(epochs):
        changes = {}
        for _ in range(random.choice([1, 5, most])):
            key = draw_tuple(random, widths, last, spread)
            known = rows[key]
            changes[key] = random.choice([-known, 1, 2**40] if known else [1, 3])
        if rows and random.random() < 0.6:  # all tuples below a prefix go, perhaps but one
            chosen = random.choice(sorted(rows))
            length = random.randrange(arity)
            gone = [key for key in sorted(rows) if key[:length] == chosen[:length]]
            for key in gone[random.randrange(2) :]:
                changes[key] = -rows[key]
        before = bench.found()
        told, keys = bench.run_epoch([(0, key, change) for key, change in changes.items()])
        bench.compare(before, told, keys)
        rows = bench.bases[0].rows
    return bench


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 11])
def test_sums_are_applied_to_sets_of_every_size(shape, seed):
    exercise(shape, seed)


@pytest.mark.parametrize("sizes", list(pairwise([0, 1, 2, 4, 5, 8, 9, 16, 17, 32, 33, 70])))
@pytest.mark.parametrize("spread", [1, 32, 1024])
def test_a_set_grows_and_shrinks_in_one_epoch(sizes, spread):
    """From each size to the next and back, then to nothing: every class of blocks, and hubs."""
    small, large = sizes
    bench = copy_relation(2)
    path = [range(small), range(large), range(large - small, large), range(large), ()]
    there: set[int] = set()
    for wanted in (set(each) for each in path):
        changes = [(0, (3, spread * n), 1) for n in sorted(wanted - there)]
        changes += [(0, (3, spread * n), -1) for n in sorted(there - wanted)]
        before = bench.found()
        bench.compare(before, *bench.run_epoch(changes))
        there = wanted
    assert bench.found() == {}


def test_a_prefix_that_goes_and_comes_again_in_one_epoch():
    """Its sets are empty for a moment, and the ways into them are no longer there."""
    for length in range(1, 5):
        bench = copy_relation(5)
        first, second = (1,) * 5, (*(1,) * length, *(2,) * (5 - length))
        bench.run_epoch([(0, first, 1), (0, (1, 0, 0, 0, 0), 1)])
        before = bench.found()
        bench.compare(before, *bench.run_epoch([(0, first, -1), (0, second, 1)]))


@pytest.mark.parametrize("count", [20, 300])  # sorted by insertion, and by digits
def test_every_order_of_four_columns_after_every_other(count):
    """Each is sorted from the one before, as far as that is not sorted already."""
    random = Random(count)
    orders = [order for order in permutations(range(4)) if order != (0, 1, 2, 3)]
    random.shuffle(orders)
    bench = copy_relation(4, orders)
    rows = sorted({tuple(random.randrange(9) << 7 for _ in range(4)) for _ in range(count)})
    for changes in (rows, rows[::2]):
        before = bench.found()
        sign = -1 if before else 1
        bench.compare(before, *bench.run_epoch([(0, row, sign) for row in changes]))


def test_an_arena_that_is_full_in_any_order_leaves_all_orders_as_they_were():
    """With more and more room, until there is enough: the fault comes later and later."""
    bench = copy_relation(2, [(1, 0)])
    bench.run_epoch([(0, (n, n % 7), 1) for n in range(50)])
    changes = [(0, (n, m), 1) for n in range(0, 200, 4) for m in range(8)]
    before, step = bench.found(), bench.run_step
    faults: list[int] = []

    def run_in(spare):
        def run(words, *arguments):
            limit, words[LIMIT] = int(words[LIMIT]), words[BUMP] + ROOM_WORDS + spare
            try:
                return step(words, *arguments)
            finally:
                words[LIMIT] = limit

        return run

    for spare in range(0, 1 << 16, 128):
        bench.run_step = run_in(spare)
        try:
            bench.compare(before, *bench.run_epoch(changes))
            break
        except Fault as fault:
            faults += fault.args
        for view in bench.outputs:
            columns = (1, 0) if view is bench.outputs[1] else (0, 1)
            moved = {tuple(key[c] for c in columns): n for key, n in before.items()}
            assert dict(view.relation.scan()) == moved
        bench.store.check()
    assert bench.found() != before
    assert len(faults) > 4
    assert set(faults) == {FULL}


def test_new_entries_of_one_set_stay_in_their_scratch():
    bench = copy_relation(2)
    bench.work[LEVELS : LEVELS + 1_000] = -5
    bench.run_epoch([(0, (3, n), 1) for n in range(200)])
    assert (bench.work[LEVELS : LEVELS + 1_000] == -5).all()


@pytest.mark.parametrize("others", [0, 3, 40])
def test_a_sum_that_does_not_fit_is_a_fault(others):
    """Beside others that fit, in a block and in a hub."""
    bench = Bench([3], buffer=1 << 14, log_words=1 << 16)
    bench.make_rule([Given(0, (0, 1, 2), COUNT)], (0, 1))
    large = 2**62
    bench.run_epoch([(0, (1, n, 0), large if n == others else 1) for n in range(others + 1)])
    before = bench.found()
    with pytest.raises(Fault) as caught:
        bench.run_epoch([(0, (1, n, 1), large) for n in range(others + 1)])
    assert caught.value.args == (OVERFLOW,)
    assert bench.found() == before
    bench.store.check()


PROGRAM = """
from tests.kernels.test_apply import SHAPES, exercise
from triegs.jit.jit import COMPILED
assert not COMPILED
for shape in SHAPES:
    exercise(shape, 0, epochs=3, most=60)
    exercise(shape, 1, epochs=3, most=60)
    exercise(shape, 3, epochs=3, most=60)
print("done")
"""


def test_the_same_as_plain_python():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, encoding="utf-8",
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, check=False,
    )  # fmt: skip
    assert run.stdout == "done\n", run.stderr
