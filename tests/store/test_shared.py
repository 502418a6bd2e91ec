"""Sets of one id that counts once share a block, whatever else happens to them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from tests.store.uncompiled import check_uncompiled

from triegs import Engine
from triegs.jit.jit import COMPILED
from triegs.store.kernels.layout import (
    DIRECTORY,
    HEAD,
    NODE_WORDS,
    SLOT_WORDS,
    SLOTS,
    UNSHARED,
)
from triegs.store.kernels.order_statistics import summed_change
from triegs.store.kernels.shared import PAGE_IDS
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion

NODE_BYTES = 8 * NODE_WORDS
Tuples = dict[tuple[int, ...], int]


def add(store: PackedStore, relation: PackedRelation, key: tuple[int, ...], by: int) -> None:
    """Add to a count, as the kernels of relations with summed hubs do."""
    at = SLOTS + SLOT_WORDS * relation.slot
    store.run(lambda words, _: summed_change(words, at, np.array(key, np.int64), len(key), by))
    assert store.faults == 0


def run_small_sets(seed: int, steps: int) -> int:
    """Sets of up to three ids, most of which count once, in two relations that share blocks;
    returns how many sets of one id were seen.
    """
    random = Random(seed)
    store = PackedStore()
    relations = [store.create("pairs", 2), store.create("triples", 3)]
    ids = [
        random.choice([0, 7, 15, 16, 31, 255, 2**20, 2**30, 2**31 - 1]) + n for n in range(-1, 2)
    ]
    ids = [each for each in ids if 0 <= each < 2**31]
    live: list[Tuples] = [{}, {}]
    saved: list[Tuples] = [{}, {}]
    pins: list[tuple[PackedVersion, list[Tuples]]] = []
    is_summed = random.random() < 0.5
    store.publish()
    seen = 0
    for _ in range(steps):
        for _ in range(random.randrange(12)):
            which = random.randrange(2)
            middle = [random.choice([3, 40])] if which else []
            key = (random.randrange(4), *middle, random.choice(ids))
            count = random.choice([0, 0, 1, 1, 1, 2])
            if is_summed:
                add(store, relations[which], key, count - live[which].get(key, 0))
            else:
                relations[which].set(key, count)
            live[which].pop(key, None)
            if count:
                live[which][key] = count
        choice = random.random()
        if choice < 0.2:
            store.abort()
            live = [dict(each) for each in saved]
        elif choice < 0.7:
            store.publish()
            saved = [dict(each) for each in live]
            if random.random() < 0.3 and len(pins) < 3:
                pins.append((store.pin(), [dict(each) for each in saved]))
        store.check()
        for relation, tuples in zip(relations, live, strict=True):
            assert dict(relation.scan()) == tuples
            prefixes = [key[:-1] for key in tuples]
            seen += sum(
                prefixes.count(key[:-1]) == 1 and count == 1 for key, count in tuples.items()
            )
        if pins and random.random() < 0.3:
            version, old = pins.pop(random.randrange(len(pins)))
            for relation, tuples in zip(relations, old, strict=True):
                assert dict(version.scan(relation)) == tuples
            store.unpin(version)
        if not pins and random.random() < 0.2:
            store.publish()
            saved = [dict(each) for each in live]
            store._compact(again=True)
            store.check()
    return seen


@pytest.mark.parametrize("seed", range(12))
def test_small_sets_equal_dictionaries(seed: int) -> None:
    assert run_small_sets(seed, 60 if COMPILED else 12) > 0


def test_the_same_uncompiled() -> None:
    check_uncompiled(__name__, "sum(run_small_sets(seed, 15) for seed in range(6)) > 0")


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_sets_that_get_another_single_id(seed: int) -> None:
    """That the new block is an old one does not mean that the set had it before."""
    random = Random(seed)
    engine = Engine()
    forks = engine.register("SELECT * { ?a <u:p> ?b . ?a <u:q> ?c . ?c <u:p> ?d }")
    edges = [(n, label, n % 3) for n in range(6) for label in ("<u:p>", "<u:q>")]
    engine.apply([("+", *edge) for edge in edges])
    old = forks.snapshot()
    for _ in range(20 if COMPILED else 5):
        for _ in range(random.randrange(1, 4)):
            index = random.randrange(len(edges))
            subject, label, _ = edges[index]
            new = (subject, label, random.randrange(6))
            engine.apply([("-", *edges[index]), ("+", *new)])
            edges[index] = new
        now = forks.snapshot()
        rows = [Counter({tuple(row): row.multiplicity for row in each}) for each in (old, now)]
        expected = {
            row: rows[1][row] - rows[0][row]
            for row in rows[0] | rows[1]
            if rows[1][row] != rows[0][row]
        }
        assert {tuple(row): row.change for row in now.diff(old)} == expected
        assert {tuple(row): -row.change for row in old.diff(now)} == expected
        old.close()
        old = now


def test_sets_of_the_same_id_take_no_memory_of_their_own() -> None:
    store = PackedStore()
    likes = store.create("likes", 2)
    for each in range(32):
        likes.set((each, 5), 1)
    store.publish()
    assert store.measure(likes) == NODE_BYTES  # the leaf that leads to them
    page, directory = NODE_BYTES, NODE_BYTES
    assert store.statistics().live_bytes == NODE_BYTES
    assert store.statistics().shared_bytes == page + directory
    for each in range(32):
        likes.set((each, 5), 0)
        likes.set((each, 6), 1)
    store.publish()
    assert store.statistics().used_bytes == NODE_BYTES + page + directory
    for each in range(32):
        likes.set((each, 6), 0)
    store.publish()
    assert store.statistics().used_bytes == page + directory


@pytest.mark.parametrize("is_held", [False, True], ids=["compacted", "held"])
def test_pages_that_no_set_uses_are_removed(is_held: bool) -> None:
    store = PackedStore(memory_limit=2_000_000)
    likes = store.create("likes", 2)
    for each in range(0, 1_000 * PAGE_IDS, PAGE_IDS):
        likes.set((each, each), 1)
    store.publish()
    for each in range(PAGE_IDS, 1_000 * PAGE_IDS, PAGE_IDS):
        likes.set((each, each), 0)
    store.publish()
    before = store.statistics().shared_bytes
    assert before > 900 * NODE_BYTES
    held = [store.pin()] if is_held else []
    assert store._sweep_pages() if is_held else store._compact(again=True)
    store.check()
    assert store.statistics().shared_bytes < before / 10
    assert int(store.words[DIRECTORY]) != 0
    assert list(likes.scan()) == [((0, 0), 1)]
    likes.set((1, 3), 1)  # of the page that is left
    likes.set((2, 4_000), 1)  # of one that was removed
    store.publish()
    store.check()
    assert sorted(likes.scan()) == [((0, 0), 1), ((1, 3), 1), ((2, 4_000), 1)]
    for version in held:
        assert list(version.scan(likes)) == [((0, 0), 1)]
        store.unpin(version)


def test_a_held_version_keeps_its_pages() -> None:
    store = PackedStore(memory_limit=2_000_000)
    likes = store.create("likes", 2)
    other = store.create("other", 3)
    for each in range(0, 1_000 * PAGE_IDS, PAGE_IDS):
        likes.set((each, each), 1)
    held = store.pin(store.publish())
    store.clear(likes)
    store.drop(other)
    store.publish()
    another = store.create("another", 1)  # in the slot of `other`
    another.set((7,), 1)
    assert not store._sweep_pages()
    store.check()
    assert list(held.scan(likes)) == [
        ((each, each), 1) for each in range(0, 1_000 * PAGE_IDS, PAGE_IDS)
    ]
    store.unpin(held)


def test_a_page_outlives_the_epoch_that_made_it() -> None:
    store = PackedStore()
    likes = store.create("likes", 2)
    store.publish()
    likes.set((1, 5), 1)
    store.abort()
    store.check()
    likes.set((2, 5), 1)
    store.publish()
    store.check()
    assert list(likes.scan()) == [((2, 5), 1)]


def test_sets_that_an_epoch_leaves_are_counted() -> None:
    """Also those of an aborted one, whatever the place of their blocks in the page."""
    store = PackedStore()
    likes = store.create("likes", 2)
    store.publish()
    for each in range(PAGE_IDS):
        likes.set((each, each), 1)
    store.abort()
    assert int(store.words[UNSHARED]) == PAGE_IDS
    for each in range(PAGE_IDS):
        likes.set((each, each), 1)
    store.publish()
    store.clear(likes)
    assert int(store.words[UNSHARED]) == 2 * PAGE_IDS


def test_two_relations_refer_to_the_same_block() -> None:
    store = PackedStore()
    one, other = store.create("one", 2), store.create("other", 3)
    one.set((1, 9), 1)
    other.set((2, 3, 9), 1)
    leaf = int(store.words[SLOTS + SLOT_WORDS * one.slot])
    block = int(store.words[leaf + HEAD + 1])
    leaf = int(store.words[SLOTS + SLOT_WORDS * other.slot])
    middle = int(store.words[leaf + HEAD + 2])
    assert block in store.words[middle : middle + 6].tolist()
