"""Sets that grow into hubs and shrink again, against plain Python dictionaries."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from tests.store.uncompiled import check_uncompiled

from triegs.jit.jit import COMPILED
from triegs.store.check import check_relation
from triegs.store.kernels.free import needed_of
from triegs.store.kernels.layout import (
    BARE_MERGE_AT,
    EPOCH,
    FULL_BARE,
    FULL_BLOCK,
    GROWN_AT,
    HEAD,
    LOAD,
    LOAD_SHIFT,
    MERGE_AT,
    NODE_WORDS,
    SLOT_WORDS,
    SLOTS,
)
from triegs.store.kernels.order_statistics import summed_change
from triegs.store.packed import PackedRelation, PackedStore

GOALS = (
    7, 8, 9, MERGE_AT, MERGE_AT + 1, 31, 32, 33, GROWN_AT, GROWN_AT + 1, 56, 57, 63, 64, 65, 97
)  # fmt: skip
#: Distances between ids. Those of 32 share the lowest digit, those of 1,024 two digits, so that
#: hubs are below hubs.
STRIDES = (1, 3, 32, 1024, 2**20)


def put_summed(store: PackedStore, relation: PackedRelation, key: tuple[int, ...], by: int) -> None:
    """Add to a count of a relation with summed hubs."""
    at = SLOTS + SLOT_WORDS * relation.slot
    store.run(lambda words, _: summed_change(words, at, np.array(key, np.int64), len(key), by))
    assert store.faults == 0


def run_sets(seed: int, steps: int) -> int:
    """Sets whose sizes drift around those at which hubs appear and disappear, with counts that make
    their blocks bare or plain; returns how many hubs were seen.
    """
    random = Random(seed)
    store = PackedStore()
    arity = random.choice([2, 3])
    relation = store.create("r", arity)
    store.publish()
    is_summed = random.random() < 0.5
    sets: list[dict[int, int]] = [{} for _ in range(3)]
    strides = [random.choice([STRIDES, [1, 32], [random.choice(STRIDES)]]) for _ in sets]
    ids = [[n * random.choice(each) for n in range(160)] for each in strides]
    # How many entries count more than once.
    shares = [random.choice([0.0, 0.0, 0.02, 0.5, 1.0]) for _ in sets]
    saved = [dict(each) for each in sets]
    pins: list = []
    hubs = 0

    def put(number: int, pick: int, count: int) -> None:
        live = sets[number]
        key = (number, *[5] * (arity - 2), pick)
        if is_summed:
            put_summed(store, relation, key, count - live.get(pick, 0))
        else:
            relation.set(key, count)
        live[pick] = count
        if count == 0:
            del live[pick]

    for _ in range(steps):
        number = random.randrange(len(sets))
        goal = random.choice([0, *GOALS, *GOALS, 100])
        live = sets[number]
        first = random.choice([(), (0,), range(1, 32)])  # lowest digits; those of 0 make a hub
        while len(live) != goal:
            missing = sorted(set(ids[number]) - live.keys())
            choices = missing if len(live) < goal else sorted(live)
            pick = random.choice([each for each in choices if each % 32 in first] or choices)
            count = 1 + (random.random() < shares[number])
            put(number, pick, count if len(live) < goal else 0)
            if random.random() < 0.03:
                store.publish()
                saved = [dict(each) for each in sets]
            if random.random() < 0.02 and len(pins) < 4:
                pins.append((store.pin(), [dict(each) for each in saved]))
        for _ in range(random.choice([0, 0, 1, 3])):
            if live:
                put(number, random.choice(sorted(live)), random.choice([1, 2, 2**40]))
        if random.random() < 0.15:  # now all entries count once, and all blocks are bare
            for pick in sorted(live):
                put(number, pick, 1)
        if random.random() < 0.15:
            store.abort()
            for each, old in zip(sets, saved, strict=True):
                each.clear()
                each |= old
        store.check()  # which also compares every hub's load with its entries
        found: list[dict[int, int]] = [{} for _ in sets]
        for key, count in relation.scan():
            found[key[0]][key[-1]] = count
        assert found == sets
        for which, expected in enumerate(sets):
            for pick in ids[which][:8]:
                key = (which, *[5] * (arity - 2), pick)
                assert relation.get(key) == expected.get(pick, 0)
        hubs += sum(len(each) > FULL_BARE for each in sets)
        if pins and random.random() < 0.3:
            version, old = pins.pop(random.randrange(len(pins)))
            rows = {(key[0], key[-1]): count for key, count in version.scan(relation)}
            assert rows == {
                (number, pick): count
                for number, each in enumerate(old)
                for pick, count in each.items()
            }
            store.unpin(version)
        if not pins and random.random() < 0.3:
            store.publish()
            saved = [dict(each) for each in sets]
            store._compact(again=True)
    return hubs


@pytest.mark.parametrize("seed", range(12))
def test_sets_around_the_size_of_a_hub(seed: int) -> None:
    run_sets(seed, 30 if COMPILED else 4)


def test_enough_sets_become_hubs() -> None:
    assert sum(run_sets(seed, 20 if COMPILED else 4) for seed in range(12)) > 3


def test_the_same_uncompiled() -> None:
    check_uncompiled(__name__, "sum(run_sets(seed, 8) for seed in range(6)) > 0")


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize(
    ("most", "size", "count"),
    [
        (33, MERGE_AT, 2), (47, MERGE_AT, 2), (49, 31, 2), (64, 30, 2), (1_000, 31, 2),
        (65, 56, 1), (95, 56, 1), (97, 63, 1), (300, 63, 1), (1_000, 60, 1),
    ],
)  # fmt: skip
def test_a_set_that_shrank_takes_no_more_than_one_that_only_grew(
    stride: int, most: int, size: int, count: int
) -> None:
    ids = [n * stride for n in range(most)]
    Random(most).shuffle(ids)
    shrunk, grown = PackedStore(), PackedStore()
    relations = [store.create("r", 2) for store in (shrunk, grown)]
    for each in ids:
        relations[0].set((7, each), count)
    for each in ids[size:]:
        relations[0].set((7, each), 0)
    for each in ids[:size]:
        relations[1].set((7, each), count)
    for store in (shrunk, grown):
        store.publish()
        store.check()
    assert shrunk.measure(relations[0]) == grown.measure(relations[1])


@pytest.mark.parametrize(("full", "count"), [(FULL_BLOCK, 2), (FULL_BARE, 1)])
def test_a_set_at_the_threshold_does_not_change_its_form_at_every_update(
    full: int, count: int
) -> None:
    store = PackedStore()
    relation = store.create("r", 2)
    at = SLOTS + SLOT_WORDS * relation.slot

    def reference() -> int:
        return int(store.words[int(store.words[at]) + HEAD + 7])

    for each in range(full + 1):
        relation.set((7, each), count)
    hub = reference()
    assert hub & 1
    merged = MERGE_AT if full == FULL_BLOCK else BARE_MERGE_AT
    for size in range(full, merged, -1):
        relation.set((7, size), 0)
        assert reference() == hub
        assert int(store.words[hub]) >> LOAD_SHIFT & LOAD == size
    relation.set((7, merged), 0)
    assert reference() & 1 == 0
    for each in range(merged, full):
        relation.set((7, each), count)
        assert reference() & 1 == 0
    relation.set((7, 99), count)
    assert reference() & 1
    assert store.measure(relation) > 8 * NODE_WORDS
    store.check()


@pytest.mark.parametrize("is_summed", [False, True], ids=["plain", "summed"])
@pytest.mark.parametrize("seed", range(8))
def test_no_change_takes_more_nodes_than_it_reserves(seed: int, is_summed: bool) -> None:
    """A tuple of 16 ids through sets of all sizes, whose nodes are copied, split or merged."""
    random = Random(seed)
    store = PackedStore()
    relation = store.create("r", 16)
    path = tuple(random.randrange(2**31) for _ in range(16))

    def add(key: tuple[int, ...], by: int) -> None:
        if is_summed:
            put_summed(store, relation, key, by)
        else:
            relation.set(key, relation.get(key) + by)

    add(path, 1)
    for level in range(16):
        stride = random.choice([*STRIDES, 2**25])
        size = random.choice([0, 8, 16, MERGE_AT, 31, 32, 45, 63, 64])
        for number in range(1, size + 1):
            add((*path[:level], (path[level] + number * stride) % 2**31, *path[level + 1 :]), 1)
    store.pin(store.publish())
    level = random.randrange(16)
    far = (*path[:level], (path[level] + 46 * 2**25) % 2**31, *path[level + 1 :])
    for key, by in ((path, 1), (path, -1), (far, 1)):
        store.abort()
        add(key, by)
        nodes = check_relation(store, relation)
        born = Counter(
            size_class
            for node, size_class in nodes.items()
            if store.words[node] == store.words[EPOCH]
        )
        assert all(count <= needed_of(size_class) for size_class, count in born.items()), born
    store.abort()
    store.check()
