"""What is free serves nodes of every size: runs that are joined and cut, and compaction."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from triegs.errors import MemoryLimitReached
from triegs.store.check import read_runs
from triegs.store.contract import Key
from triegs.store.kernels.free import join_runs
from triegs.store.kernels.layout import BUMP, LIMIT, NODE_WORDS, START
from triegs.store.kernels.shared import PAGE_IDS
from triegs.store.packed import SMALLEST_LIMIT, PackedRelation, PackedStore
from triegs.store.room import count_free

LIMIT_BYTES = SMALLEST_LIMIT + 200_000
# Each needs nodes of other sizes: pages of shared blocks, blocks of 8 ids, of 16, hubs, leaves that
# are far apart.
SHAPES: dict[str, Callable[[int], Key]] = {
    "single": lambda n: (n, n * PAGE_IDS),
    "small": lambda n: (n // 2, n % 2),
    "full": lambda n: (n // 13, n % 13),
    "hub": lambda n: (7, n * 5),
    "far": lambda n: (n * 1031, 3),
}


def fill(store: PackedStore, relation: PackedRelation, shape: str) -> list[Key]:
    """Insert and publish until there is no room; returns what is there."""
    size = 256
    keys: list[Key] = []
    while size:
        batch = [SHAPES[shape](n) for n in range(len(keys), len(keys) + size)]
        try:
            for key in batch:
                relation.set(key, 1)
        except MemoryLimitReached:
            store.abort()
            if not store.make_room():
                size //= 4
        else:
            store.publish()
            keys += batch
    return keys


def remove(store: PackedStore, relation: PackedRelation, keys: list[Key]) -> None:
    """Delete in one epoch, which may exceed the limit."""
    store.lift_limit()
    for key in keys:
        assert relation.set(key, 0) == 1
    store.publish()
    store.restore_limit()


@pytest.fixture(scope="module")
def alone() -> dict[str, int]:
    """How much of each shape an empty store takes."""
    found = {}
    for shape in SHAPES:
        store = PackedStore(memory_limit=LIMIT_BYTES)
        found[shape] = len(fill(store, store.create("r", 2), shape))
    return found


@pytest.mark.parametrize("is_held", [False, True])
def test_freed_words_of_one_shape_serve_another(alone, is_held):
    """Also while a version is held, when nothing can be moved."""
    store = PackedStore(memory_limit=LIMIT_BYTES)
    relation = store.create("r", 2)
    store.publish()
    held = [store.pin()] if is_held else []
    for shape in [*SHAPES, *reversed(SHAPES)]:
        keys = fill(store, relation, shape)
        assert len(keys) >= 0.95 * alone[shape]
        store.check()
        assert sorted(relation.scan()) == [(key, 1) for key in sorted(keys)]
        remove(store, relation, keys)
        store.check()
        used = store.statistics()
        assert used.live_bytes + used.retained_bytes == 0
    for version in held:
        store.unpin(version)


@pytest.mark.parametrize("first", SHAPES)
def test_what_is_free_here_and_there_serves_any_shape(alone, first):
    """Half of all keys go, by chance; while no version is held the rest moves together."""
    store = PackedStore(memory_limit=LIMIT_BYTES)
    relation = store.create("r", 2)
    keys = fill(store, relation, first)
    Random(1).shuffle(keys)
    kept = keys[len(keys) // 2 :]
    remove(store, relation, keys[: len(keys) // 2])
    live = store.statistics().live_bytes
    if first == "single":
        live += 8 * NODE_WORDS * len(kept)  # their pages
    other = store.create("s", 2)
    store.publish()
    for second in SHAPES:
        more = fill(store, other, second)
        store.check()
        # All but the sixteenth that is not worth a compaction.
        free = LIMIT_BYTES - live - SMALLEST_LIMIT // 2 - LIMIT_BYTES // 16
        assert len(more) >= 0.9 * alone[second] * free / (LIMIT_BYTES - SMALLEST_LIMIT // 2)
        assert sorted(relation.scan()) == [(key, 1) for key in sorted(kept)]
        assert sorted(other.scan()) == [(key, 1) for key in sorted(more)]
        remove(store, other, more)


def test_compaction_keeps_every_arity():
    """With sets of sets, hubs, tries of several heights, and relations that are empty."""
    random = Random(2)
    store = PackedStore(memory_limit=4_000_000)
    rows: dict[PackedRelation, dict[Key, int]] = {}
    for arity in range(6):
        relation = store.create(f"r{arity}", arity)
        rows[relation] = {}
        spans = [[2**31, 40, 8, 40, 300][(arity + place) % 5] for place in range(arity)]
        for count in range(1, 900 if arity else 2):
            key = tuple(random.randrange(span) for span in spans)
            relation.set(key, count)
            rows[relation][key] = count
    store.drop(store.create("empty", 2))
    store.publish()
    for relation, found in rows.items():
        for key in random.sample(sorted(found), 2 * len(found) // 3):
            relation.set(key, 0)
            del found[key]
    version = store.publish()
    assert store.statistics().debt_bytes > 4_000_000 // 16
    assert store._compact()
    store.check()
    assert store.statistics().debt_bytes == 0
    for relation, found in rows.items():
        assert dict(relation.scan()) == dict(version.scan(relation)) == found
        for key in list(found)[::9]:
            relation.set(key, 7)
            found[key] = 7
    store.publish()
    store.check()
    assert all(dict(relation.scan()) == found for relation, found in rows.items())


def test_an_epoch_of_deletions_exceeds_the_limit_by_a_stated_bound_and_repays():
    store = PackedStore(memory_limit=LIMIT_BYTES, reserve=False)
    relation = store.create("r", 2)
    keys = fill(store, relation, "full")
    Random(1).shuffle(keys)
    store.lift_limit()
    for key in keys[:-1]:
        relation.set(key, 0)
    words = store.words
    most = (int(words[BUMP]) - START) * 8
    assert LIMIT_BYTES < most <= 2 * LIMIT_BYTES + LIMIT_BYTES // 4
    store.publish()
    store.restore_limit()
    store.check()
    assert store.words[BUMP] < store.words[LIMIT] == START + LIMIT_BYTES // 8
    assert store.statistics().debt_bytes == 0
    assert list(relation.scan()) == [(keys[-1], 1)]


def test_what_exceeded_the_limit_is_used_again_before_anything_is_taken():
    """A reader holds the version before: nothing moves, and inserts wait for room."""
    store = PackedStore(memory_limit=LIMIT_BYTES)
    relation = store.create("r", 2)
    keys = fill(store, relation, "full")
    held = store.pin()
    Random(1).shuffle(keys)  # so that most blocks are copied before they are empty
    remove(store, relation, keys)
    end = int(store.words[BUMP])
    assert end > store.words[LIMIT]
    with pytest.raises(MemoryLimitReached):
        relation.set((1, 1), 1)
    store.abort()
    assert dict(held.scan(relation)) == dict.fromkeys(keys, 1)
    store.unpin(held)
    assert len(fill(store, relation, "small")) > 1_000
    assert store.words[BUMP] <= end
    store.check()


@pytest.mark.parametrize("seed", range(6))
def test_random_shapes_near_the_limit(seed):
    """Every invariant after every epoch, with versions held and let go."""
    random = Random(seed)
    store = PackedStore(memory_limit=SMALLEST_LIMIT + 15_000 * seed, reserve=seed % 2 == 0)
    rows: dict[PackedRelation, dict[Key, int]] = {store.create(f"r{n}", n): {} for n in (1, 2, 3)}
    store.publish()
    held: list = []
    refused = 0
    for _ in range(25):
        before = {relation: dict(found) for relation, found in rows.items()}
        is_removing = random.random() < 0.3
        spans = [random.choice([3, 40, 2**20]) for _ in range(3)]
        if is_removing:
            store.lift_limit()
        try:
            for relation, found in rows.items() if is_removing else ():
                for key in random.sample(list(found), int(len(found) * random.random())):
                    relation.set(key, 0)
                    del found[key]
            for _ in range(0 if is_removing else random.choice([50, 400, 1_000])):
                relation = random.choice(list(rows))
                key = tuple(random.randrange(span) for span in spans[: relation.arity])
                relation.set(key, 1)
                rows[relation][key] = 1
            store.check()
            store.publish()
        except MemoryLimitReached:
            refused += 1
            assert not is_removing
            store.abort()
            rows = before
        store.restore_limit()
        if random.random() < 0.4:
            free = count_free(store.words) - int(store.words[BUMP])
            join_runs(store.words)
            assert count_free(store.words) - int(store.words[BUMP]) == free
            ends = {run + size for run, size in read_runs(store.words).items()}
            assert not ends & {*read_runs(store.words), int(store.words[BUMP])}, "not joined"
        if random.random() < 0.3:
            held.append((store.pin(), {relation: dict(found) for relation, found in rows.items()}))
        if held and random.random() < 0.4:
            store.unpin(held.pop(random.randrange(len(held)))[0])
        store.check()
        for relation, found in rows.items():
            assert dict(relation.scan()) == found
        for version, model in held:
            assert all(dict(version.scan(relation)) == model[relation] for relation in rows)
    assert refused
