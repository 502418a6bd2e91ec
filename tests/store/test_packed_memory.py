"""Room: limits, growth by copying, and what is freed when versions are released."""

from __future__ import annotations

import os
from random import Random

import pytest

from triegs.errors import MemoryLimitReached
from triegs.store.kernels.free import AHEAD
from triegs.store.kernels.layout import CLASSES, FREE
from triegs.store.packed import SMALLEST_LIMIT, PackedRelation, PackedStore

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
LIMIT = 2_000_000


def fill(store: PackedStore, keys: range) -> None:
    knows = next(iter(store.members))
    for each in keys:
        knows.set((each % 1_000, each), 1)


def test_a_limit_below_the_reserve_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {SMALLEST_LIMIT:,} bytes"):
        PackedStore(memory_limit=100_000)


@pytest.mark.parametrize("reserve", [True, False])
def test_limit_refuses_and_recovers(reserve: bool) -> None:
    store = PackedStore(memory_limit=LIMIT, reserve=reserve)
    knows = store.create("knows", 2)
    fill(store, range(5_000))
    store.publish()
    with pytest.raises(MemoryLimitReached, match="2,000,000 bytes"):
        fill(store, range(5_000, 10**6))
    store.check()
    reached = len(knows)
    assert reached > 10_000
    used = store.statistics()
    assert used.live_bytes + used.retained_bytes + used.debt_bytes <= LIMIT
    store.abort()
    store.check()
    assert len(knows) == 5_000
    fill(store, range(5_000, 9_000))
    store.publish()
    store.check()
    assert len(knows) == 9_000


def test_a_window_slides_near_the_limit() -> None:
    """With the array used up, changes live on freed nodes."""
    store = PackedStore(memory_limit=LIMIT)
    knows = store.create("knows", 2)
    random = Random(1)
    window: list[tuple[int, int]] = []
    for _ in range(150):
        for _ in range(200):
            key = (random.randrange(500), random.randrange(10**6))
            knows.set(key, 1)
            window.append(key)
        while len(window) > 8_000:
            knows.set(window.pop(0), 0)
        store.publish()
    store.check()
    assert dict(knows.scan()) == dict.fromkeys(window, 1)


def test_releasing_a_reader_makes_room() -> None:
    store = PackedStore(memory_limit=LIMIT)
    knows = store.create("knows", 2)
    fill(store, range(4_000))
    held = store.pin(store.publish())

    def rewrite(count: int) -> None:
        for each in range(4_000):
            knows.set((each % 1_000, each), count)
        store.pin(store.publish())

    with pytest.raises(MemoryLimitReached):
        list(map(rewrite, range(2, 100)))
    store.abort()
    for version in list(store._held.values()):
        store.unpin(version)
    assert store.statistics().retained_bytes == 0
    rewrite(100)
    store.check()
    assert held.number == 1


def test_dropping_without_room_requires_an_abort() -> None:
    store = PackedStore(memory_limit=LIMIT)
    big = store.create("big", 1)

    def add(each: int) -> None:
        big.set((each * 1024,), 1)
        if each % 1_000 == 999:
            store.pin(store.publish())

    with pytest.raises(MemoryLimitReached):
        list(map(add, range(10**6)))
    store.abort()
    rows = dict(big.scan())
    refused = False
    try:
        store.drop(big)
    except MemoryLimitReached:
        refused = True
        with pytest.raises(MemoryLimitReached, match="abort"):
            store.publish()
    store.abort()
    store.check()
    assert dict(big.scan()) == rows
    assert refused or store.statistics().retained_bytes > 0


def test_array_that_grows_moves_under_readers() -> None:
    store = PackedStore(reserve=False)
    knows = store.create("knows", 2)
    fill(store, range(1_000))
    held = store.pin(store.publish())
    rows = dict(held.scan(knows))
    first = store.words
    scan = held.scan(knows)
    begun = dict([next(scan)])
    fill(store, range(1_000, 120_000))
    store.publish()
    assert store.words is not first
    assert store.words.size > first.size
    begun.update(scan)
    assert begun == rows
    assert dict(held.scan(knows)) == rows
    assert len(knows) == 120_000
    store.unpin(held)
    store.check()


def test_an_epoch_in_place_copies_once() -> None:
    """Within an epoch a node is copied on the first touch only."""
    store = PackedStore()
    numbers = store.create("numbers", 1)
    for each in range(32):
        numbers.set((each,), 1)
    store.publish()
    before = store.statistics().copied_nodes
    for each in range(32):
        numbers.set((each,), 2)
        numbers.set((each,), 3)
    assert store.statistics().copied_nodes - before == 1
    store.publish()
    assert store.statistics().retired_nodes == 1


def test_interval_reclamation() -> None:
    """A version held for long retains what it sees, and nothing born after it."""
    store = PackedStore()
    numbers = store.create("numbers", 1)
    numbers.set((0,), 1)
    held = store.pin(store.publish())
    for count in range(2, 1_000):
        numbers.set((0,), count)
        store.publish()
    assert store.statistics().retained_bytes == 2 * 272  # the one node it sees, and its list
    assert store.statistics().debt_bytes <= 3 * 272
    second = store.pin()
    numbers.set((0,), 1_000)
    store.publish()
    assert store.statistics().retained_bytes == 4 * 272
    store.unpin(second)
    assert store.statistics().retained_bytes == 2 * 272
    assert held.get(numbers, (0,)) == 1
    store.unpin(held)
    assert store.statistics().retained_bytes == 0
    store.check()


def test_a_node_of_two_readers_is_freed_with_the_last() -> None:
    """Whichever of them is released first."""
    for newest_first in (True, False):
        store = PackedStore()
        numbers = store.create("numbers", 1)
        numbers.set((0,), 1)
        pins = [store.pin(store.publish())]
        store.publish()
        pins.append(store.pin(store.publish()))
        numbers.set((0,), 2)
        store.publish()
        store.check()
        for version in reversed(pins) if newest_first else pins:
            assert store.statistics().retained_bytes == 2 * 272
            assert version.get(numbers, (0,)) == 1
            store.unpin(version)
            store.check()
        assert store.statistics().retained_bytes == 0


@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_a_refused_change_changes_nothing(seed: int) -> None:
    """Random changes of all arities under a tight limit, with versions held and let go."""
    random = Random(seed)
    store = PackedStore(memory_limit=SMALLEST_LIMIT + 30_000 * seed, reserve=seed % 2 == 0)
    rows: dict[PackedRelation, dict[tuple[int, ...], int]] = {}
    for arity in range(5):
        rows[store.create(f"r{arity}", arity)] = {}
    published = {relation: dict(found) for relation, found in rows.items()}
    store.publish()
    refused = 0
    for _ in range(30):
        for _ in range(random.choice([5, 50, 500])):
            relation = random.choice(list(rows))
            span = random.choice([4, 60, 2**31])
            key = tuple(random.randrange(span) for _ in range(relation.arity))
            count = random.choice([0, 1, 2])
            try:
                before = relation.set(key, count)
            except MemoryLimitReached:
                refused += 1
                break
            assert before == rows[relation].pop(key, 0)
            if count:
                rows[relation][key] = count
        store.check()
        for relation, found in rows.items():
            assert dict(relation.scan()) == found
        if random.random() < 0.3:
            store.abort()
            rows = {relation: dict(found) for relation, found in published.items()}
        else:
            published = {relation: dict(found) for relation, found in rows.items()}
            version = store.publish()
            if random.random() < 0.3:
                store.pin(version)
        while store._held and random.random() < 0.5:
            store.unpin(random.choice(list(store._held.values())))
        store.check()
        for relation, found in rows.items():
            assert dict(relation.scan()) == found
    assert refused


def test_bytes_of_relations_add_up() -> None:
    store = PackedStore()
    relations = [store.create(f"r{arity}", arity) for arity in range(5)]
    for each in range(2_000):
        for relation in relations:
            relation.set((each % 3, each % 7, each % 11, each)[4 - relation.arity :], 1)
    first = store.pin(store.publish())
    assert store.statistics().live_bytes == sum(map(store.measure, relations))
    size = store.measure(relations[4])
    for each in range(0, 2_000, 2):
        relations[4].set((each % 3, each % 7, each % 11, each), 0)
    store.publish()
    assert store.measure(relations[4], first) == size > store.measure(relations[4])
    assert store.measure(relations[0]) == 0


@pytest.mark.parametrize("seed", range(40 if SOAK else 4))
def test_free_nodes_link_to_the_next_ones(seed: int) -> None:
    """Allocations prefetch by these links; wrong ones would cost time and nothing else."""
    random = Random(seed)
    store = PackedStore(memory_limit=LIMIT if seed % 2 else None)
    relations = [store.create(f"r{arity}", arity) for arity in (1, 2, 2, 3)]
    held, longest = [], 0
    for _ in range(30):
        for _ in range(random.choice([1, 30, 300])):
            relation = random.choice(relations)
            key = tuple(random.randrange(60) for _ in range(relation.arity))
            relation.set(key, random.choice([0, 1, 1, 2]))
        version = store.publish()
        if random.random() < 0.3:
            held.append(store.pin(version))
        while len(held) > 2:
            store.unpin(held.pop(random.randrange(len(held))))
        for size_class in range(CLASSES):
            nodes = []
            node = int(store.words[FREE + size_class])
            while node:
                nodes.append(node)
                node = int(store.words[node])
            longest = max(longest, len(nodes))
            following = [*nodes, *[0] * AHEAD]
            for at, node in enumerate(nodes, 1):
                assert store.words[node : node + AHEAD].tolist() == following[at : at + AHEAD]
    assert longest > 2 * AHEAD
