"""Relations that several workers change at once are as if one had changed them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from tests.store.uncompiled import check_uncompiled

from triegs.errors import StateError
from triegs.store.kernels.layout import APART, BITS, FAULTS, FULL, SLOT_WORDS, SLOTS
from triegs.store.kernels.relations import tuple_change
from triegs.store.kernels.stripes import MERGE_WORDS, find_stripe, merge_stripes, open_stripes
from triegs.store.kernels.workers import make_pages
from triegs.store.packed import PackedRelation, PackedStore
from triegs.store.workers import WorkerArenas

Key = tuple[int, ...]
#: Ids around the powers of 32, where tries become taller.
CORNERS = [n + d for n in (0, 32, 64, 1024, 2048, 2**15, 2**20, 2**25) for d in (-2, -1, 0, 1, 5)]


class Striped:
    """A store with workers, and what each relation should contain."""

    def __init__(self, random: Random, workers: int, limit: int | None = None) -> None:
        self.random, self.workers = random, workers
        self.stripes = random.randint(1, 2 * workers)
        self.store = PackedStore(shared_memory=True, memory_limit=limit)
        self.arenas = WorkerArenas(self.store, workers)
        self.relations = [self.store.create(name, arity) for name, arity in (("m", 1), ("a", 2))]
        self.relations.append(self.store.create("t", 3))
        self.live: list[Counter[Key]] = [Counter() for _ in self.relations]
        self.store.publish()

    def draw(self, ids: list[int], relation: int, count: int) -> list[tuple[Key, int]]:
        random, live = self.random, self.live[relation]
        found: list[tuple[Key, int]] = []
        for _ in range(count):
            if live and random.random() < 0.5:
                key = random.choice(list(live))
                found.append((key, -live[key]))
            else:
                key = tuple(random.choice(ids) for _ in range(relation + 1))
                found.append((key, random.choice([1, 1, 2])))
        return found

    def change(self, shift: int, ids: list[int], most: int) -> None:
        """One stage: each stripe of each relation by one worker, then all of them merged."""
        arenas = [self.store.words, *self.arenas.words]
        for each in ids:  # they may be few and far between
            assert make_pages(self.store.words, each, each)
        assert self.arenas.equip(most)
        slots = slice(SLOTS, SLOTS + SLOT_WORDS * len(self.relations))
        for words in arenas:
            words[slots] = self.store.words[slots]
            words[APART] = shift
        for number, relation in enumerate(self.relations):
            changes = self.draw(ids, number, self.random.randint(0, most))
            self.apply(arenas, relation, shift, changes)
            for key, by in changes:
                self.live[number][key] = max(0, self.live[number][key] + by)
                self.live[number] += Counter()
        for words in arenas[1:]:
            assert words[FAULTS] == 0
        self.arenas.end_epoch()

    def apply(
        self, arenas: list, relation: PackedRelation, shift: int, changes: list[tuple[Key, int]]
    ) -> None:
        at, stripes = SLOTS + SLOT_WORDS * relation.slot, self.stripes
        owners = np.full(stripes, -1, np.int64)
        before = int(self.store.words[at]), int(self.store.words[at + 1])
        opened = set()
        for key, by in changes:
            stripe = find_stripe(key[0], shift, stripes)
            if owners[stripe] < 0:
                owners[stripe] = self.random.randrange(self.workers)
            own = int(owners[stripe])
            if own not in opened:
                opened.add(own)
                open_stripes(arenas[own], at)
            array = np.array(key, np.int64)
            _, now = tuple_change(arenas[own], at, array, len(key), by, False)
            if now < 0:
                tuple_change(arenas[own], at, array, len(key), -now, False)
        roots = np.full(self.workers, before[0], np.int64)
        count = before[1]
        for own in opened:
            roots[own] = arenas[own][at]
            count += int(arenas[own][at + 1])
        merging = arenas[self.random.randrange(self.workers)]
        merging[at] = before[0]
        merge_stripes(
            merging, np.zeros(MERGE_WORDS, np.int64), at, shift, owners, roots, self.workers
        )
        for words in arenas:
            words[at], words[at + 1] = merging[at], count

    def check(self) -> None:
        self.store.check()
        for relation, live in zip(self.relations, self.live, strict=True):
            assert dict(relation.scan(())) == dict(live)


def run_stripes(seed: int, epochs: int, most: int) -> int:
    """Epochs of random changes, some of them aborted, some held; returns those that were made."""
    random = Random(seed)
    striped = Striped(random, random.randint(2, 6))
    shift = BITS * random.randint(1, 3)
    base = random.choice([0, 0, 2**10, 2**20])
    ids = random.sample(CORNERS, 8) if random.random() < 0.5 else list(range(base, base + 3000, 7))
    ids = [each for each in ids if each >= 0]
    held: list = []
    made = 0
    for _ in range(epochs):
        saved = [Counter(live) for live in striped.live]
        striped.change(shift, ids, random.choice([2, most]))
        if random.random() < 0.2:
            striped.store.abort()
            striped.live = saved
        else:
            version = striped.store.publish()
            made += 1
            if random.random() < 0.3:
                striped.store.pin(version)
                held.append((version, [Counter(live) for live in striped.live]))
        striped.check()
        if held and random.random() < 0.3:
            version, lives = held.pop(random.randrange(len(held)))
            for relation, live in zip(striped.relations, lives, strict=True):
                assert dict(version.scan(relation, ())) == dict(live)
            striped.store.unpin(version)
    for version, _ in held:
        striped.store.unpin(version)
    striped.check()
    assert striped.store.statistics().retained_bytes == 0
    return made


@pytest.mark.parametrize("seed", range(40))
def test_stripes_merge_to_what_one_worker_would_have_made(seed):
    assert run_stripes(seed, 12, 60) > 0


def test_the_same_uncompiled():
    check_uncompiled("tests.store.test_stripes", "run_stripes(3, 6, 20) > 0")


def test_every_id_has_one_stripe_and_stripes_are_about_equal():
    for stripes in range(1, 17):
        found = Counter(find_stripe(key, 5, stripes) for key in range(0, 64 * 32, 32))
        assert set(found) == set(range(stripes))
        assert max(found.values()) - min(found.values()) <= 1
        assert all(find_stripe(key, 5, stripes) == find_stripe(key & ~31, 5, stripes)
                   for key in (31, 1000, 2**31 - 1))  # fmt: skip


def test_workers_need_shared_memory():
    with pytest.raises(StateError, match="shared memory"):
        WorkerArenas(PackedStore(), 2)


def test_what_workers_take_is_under_the_limit():
    random = Random(1)
    striped = Striped(random, 2, limit=700_000)
    assert not striped.arenas.equip(100_000)
    striped.check()


def test_pages_take_at_most_an_eighth_of_the_limit():
    """They are made for ids that may never need them, and so must not leave others without."""
    striped = Striped(Random(1), 2, limit=1_000_000)
    assert striped.arenas.make_pages(5_000)
    assert not striped.arenas.make_pages(20_000)
    striped.store.publish()
    assert 80_000 < striped.store.statistics().shared_bytes < 125_000
    assert not striped.arenas.make_pages(20_000)
    assert striped.arenas.make_pages(5_000)


def test_a_worker_makes_no_page():
    """Pages of shared blocks exist before workers begin; without one its epoch is given up."""
    random = Random(2)
    striped = Striped(random, 2)
    assert striped.arenas.equip(10)
    striped.store.words[APART] = BITS
    worker = striped.arenas.words[0]
    worker[APART] = BITS
    at = SLOTS + SLOT_WORDS
    tuple_change(worker, at, np.array([7, 9]), 2, 1, False)
    assert worker[FAULTS] == FULL
    striped.arenas.drop(int(worker[at]), striped.relations[1].shape)
    striped.arenas.end_epoch()
    striped.store.abort()
    striped.check()


def test_what_workers_hold_is_counted_as_free():
    random = Random(3)
    striped = Striped(random, 3)
    for _ in range(6):
        striped.change(BITS, list(range(0, 4000, 3)), 300)
        striped.store.publish()
    held = striped.arenas.count_held()
    assert held > 0
    before = striped.store.statistics()
    assert striped.arenas.settle()
    assert striped.arenas.count_held() == 0
    assert striped.store.statistics() == before
