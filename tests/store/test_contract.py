"""One suite over every store: whatever keeps the contract passes it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from tests.store.machine import StoreMachine, check_version

from triegs.store.contract import RelationUnknown, Store, VersionGone
from triegs.store.packed import PackedStore
from triegs.testing.plain_store import PlainStore

STORES: list[Callable[[], Store]] = [PlainStore, PackedStore]


@pytest.fixture(params=STORES, ids=lambda make: make.__name__)
def store(request: pytest.FixtureRequest) -> Store:
    made: Store = request.param()
    return made


class PlainMachine(StoreMachine):
    make_store = PlainStore


TestPlain = PlainMachine.TestCase
TestPlain.settings = settings(stateful_step_count=25)


class PackedMachine(StoreMachine):
    make_store = PackedStore


TestPacked = PackedMachine.TestCase
TestPacked.settings = settings(stateful_step_count=25)


def test_worked_example(store: Store) -> None:
    """The example of docs/trie.md."""
    knows = store.create("knows", 2)
    for key, count in [((7, 5), 2), ((7, 3), 1), ((9, 3), 1)]:
        assert knows.set(key, count) == 0
    first = store.pin(store.publish())
    assert knows.set((7, 5), 0) == 2
    store.publish()
    assert list(knows.scan((7,))) == [((7, 3), 1)]
    assert sorted(first.scan(knows, (7,))) == [((7, 3), 1), ((7, 5), 2)]
    store.unpin(first)
    assert store.statistics().retained_bytes == 0
    store.check()


@pytest.mark.parametrize("stride", [1, 32, 2**16])
def test_hub_grows_and_shrinks(store: Store, stride: int) -> None:
    """Thousands of neighbours, over several versions, and back to nothing."""
    knows = store.create("knows", 2)
    size, random = 5_000, Random(stride)
    neighbours = [(i * stride) % 2**31 for i in range(size)]
    random.shuffle(neighbours)
    versions = []
    rows = {}
    for at, each in enumerate(neighbours):
        knows.set((3, each), at + 1)
        rows[3, each] = at + 1
        if at % 1_000 == 999:
            versions.append((store.pin(store.publish()), dict(rows)))
    random.shuffle(neighbours)
    for at, each in enumerate(neighbours):
        assert knows.set((3, each), 0) == rows.pop((3, each))
        if at % 1_000 == 999:
            versions.append((store.pin(store.publish()), dict(rows)))
    assert len(knows) == 0
    store.check()
    for version, expected in versions:
        assert version.size(knows) == len(expected)
        assert dict(version.scan(knows, (3,))) == expected
    random.shuffle(versions)
    for version, expected in versions:
        assert dict(version.scan(knows)) == expected
        store.unpin(version)
    assert store.statistics()[:3] == (0, 0, 0)
    store.check()


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_far_ids_come_and_go(store: Store, arity: int) -> None:
    """A large id makes a trie high; when it goes, nothing of that is left."""
    relation = store.create("r", arity)
    near = (1,) * arity
    relation.set(near, 1)
    store.publish()
    before = store.statistics().live_bytes
    for far in [32, 1_024, 2**20, 2**31 - 1]:
        key = (far, *near[1:])
        for published in (False, True):
            relation.set(key, 5)
            if published:
                store.publish()
            store.check()
            assert dict(relation.scan()) == {near: 1, key: 5}
            relation.set(key, 0)
            store.check()
            assert dict(relation.scan()) == {near: 1}
        store.publish()
        assert store.statistics().live_bytes == before


@pytest.mark.parametrize("arity", range(5))
def test_random_stream(store: Store, arity: int) -> None:
    """A sliding stream with versions held in any order."""
    random = Random(arity)
    relation = store.create("r", arity)
    rows: dict[tuple[int, ...], int] = {}
    held = []
    for _ in range(60):
        for _ in range(random.choice([1, 5, 60])):
            key = tuple(random.choice([random.randrange(9), random.randrange(2**31)])
                        for _ in range(arity))  # fmt: skip
            if rows and random.random() < 0.5:
                key = random.choice(list(rows))
            count = random.choice([0, 1, -1, 2**62])
            assert relation.set(key, count) == rows.get(key, 0)
            rows[key] = count
            if not count:
                del rows[key]
        version = store.publish()
        if random.random() < 0.4:
            held.append((store.pin(version), {relation: dict(rows)}))
        if held and random.random() < 0.35:
            version, model = held.pop(random.randrange(len(held)))
            check_version(version, model)
            store.unpin(version)
    store.check()
    for version, model in held:
        check_version(version, model)
        store.unpin(version)
    assert store.statistics().retained_bytes == 0
    store.check()


def test_wrong_keys_and_counts_change_nothing(store: Store) -> None:
    knows = store.create("knows", 2)
    knows.set((1, 2), 2**63 - 1)
    for key in [(1,), (1, 2, 3), (1, -1), (2**31, 0)]:
        with pytest.raises(ValueError, match="knows"):
            knows.set(key, 1)
        with pytest.raises(ValueError, match="knows"):
            knows.get(key)
    for count in [2**63, -(2**63) - 1]:
        with pytest.raises(OverflowError, match="64 bits"):
            knows.set((1, 2), count)
    with pytest.raises(TypeError):
        knows.set((1, "2"), 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="columns"):
        knows.scan((1, 2, 3))
    with pytest.raises(ValueError, match="columns"):
        store.create("wide", 17)
    assert list(knows.scan()) == [((1, 2), 2**63 - 1)]
    store.check()


def test_versions_that_are_gone(store: Store) -> None:
    knows = store.create("knows", 2)
    first = store.publish()
    assert first.get(knows, (0, 0)) == 0
    store.publish()
    with pytest.raises(VersionGone):
        store.pin(first)
    with pytest.raises(VersionGone):
        store.unpin(first)
    with pytest.raises(VersionGone):
        first.get(knows, (0, 0))
    with pytest.raises(VersionGone):
        list(first.scan(knows))
    with pytest.raises(VersionGone):
        first.size(knows)


def test_relations_that_are_gone(store: Store) -> None:
    empty = store.newest
    knows = store.create("knows", 2)
    with pytest.raises(RelationUnknown):
        empty.get(knows, (1, 2))
    knows.set((1, 2), 3)
    held = store.pin(store.publish())
    store.drop(knows)
    with pytest.raises(RelationUnknown):
        knows.get((1, 2))
    with pytest.raises(RelationUnknown):
        store.drop(knows)
    other = store.create("other", 2)
    other.set((1, 2), 7)
    store.publish()
    assert held.get(knows, (1, 2)) == 3
    with pytest.raises(RelationUnknown):
        held.get(other, (1, 2))
    store.unpin(held)
    store.check()


def test_abort_restores_dropped_and_forgets_created(store: Store) -> None:
    knows = store.create("knows", 2)
    knows.set((1, 2), 3)
    store.publish()
    store.drop(knows)
    created = store.create("created", 1)
    created.set((1,), 1)
    store.abort()
    assert knows.get((1, 2)) == 3
    with pytest.raises(RelationUnknown):
        created.get((1,))
    store.check()
    assert store.newest.number == 1
