"""Bytes by relation and by held version, against a traversal in plain Python."""

from __future__ import annotations

import os
from random import Random

import pytest

from triegs.store.check import Visit, count_words
from triegs.store.contract import VersionGone
from triegs.store.kernels.layout import CHUNK_ENTRIES, NODE_WORDS, SLOT_WORDS
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


class Reached:
    """What versions hold at one moment. Each relation of each is traversed once."""

    def __init__(self, newest: PackedVersion) -> None:
        self.newest = newest
        self.found: dict[tuple[int, PackedRelation], dict[int, int]] = {}

    def reach(self, version: PackedVersion, relation: PackedRelation) -> dict[int, int]:
        """The nodes of a relation in a version, with their classes."""
        key = version.number, relation
        if key not in self.found:
            visit = Visit(version.words, "test", version.number)
            if relation in version.members:
                root = int(version.roots[SLOT_WORDS * relation.slot])
                visit.walk_relation(root, relation.shape)
            self.found[key] = visit.nodes
        return self.found[key]

    def expect_bytes(self, versions: list[PackedVersion]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for relation in {relation for version in versions for relation in version.members}:
            nodes: dict[int, int] = {}
            for version in versions:
                nodes |= self.reach(version, relation)
            for node in self.reach(self.newest, relation):
                nodes.pop(node, None)
            sizes[relation.name] = 8 * count_words(nodes)
        return sizes


def by_name(found: dict[PackedRelation, int]) -> dict[str, int]:
    return {relation.name: size for relation, size in found.items()}


@pytest.mark.parametrize("seed", range(40 if SOAK else 4))
def test_retained_bytes_equal_a_plain_traversal(seed: int) -> None:
    """All arities, ids that make tries higher and lower, hubs, relations that come and go."""
    random = Random(seed)
    store = PackedStore(reserve=seed % 2 == 0)
    names = iter(range(1_000))
    relations = [store.create(f"r{next(names)}", arity) for arity in (0, 1, 2, 2, 3, 4)]
    held: list[PackedVersion] = []
    for _ in range(25):
        for _ in range(random.choice([1, 10, 150])):
            relation = random.choice(relations)
            span = random.choice([3, 40, 2_000, 2**31])
            key = tuple(random.randrange(span) for _ in range(relation.arity))
            if relation.arity and random.random() < 0.7:
                key = (*(each % 3 for each in key[:-1]), key[-1])
            if random.random() < 0.4:
                key = next((key for key, _ in relation.scan()), key)
            relation.set(key, random.choice([0, 1, 2]))
        if random.random() < 0.15:
            store.drop(relations.pop(random.randrange(len(relations))))
        if random.random() < 0.3 or not relations:
            relations.append(store.create(f"r{next(names)}", random.randint(0, 4)))
        newest = store.publish()
        if random.random() < 0.5:
            held.append(store.pin(newest))
        while len(held) > 1 and random.random() < 0.3:
            store.unpin(held.pop(random.randrange(len(held))))
        reached = Reached(newest)
        for version in held:
            expected = reached.expect_bytes([version])
            assert by_name(store.measure_retained(version)) == expected
            assert store.measure_pin(version) == sum(expected.values())
        together = by_name(store.measure_retained())
        assert together == reached.expect_bytes(held)
        # Together with the lists of them that is all that is retained.
        lists = store.statistics().retained_bytes - sum(together.values())
        assert lists % (8 * NODE_WORDS) == 0
        assert lists // (8 * NODE_WORDS) <= sum(together.values()) // 80 // CHUNK_ENTRIES + len(
            held
        )
        measured = store.measure_relations()
        assert {name: one.retained_bytes for name, one in measured.items() if one.retained_bytes} \
            == {name: size for name, size in together.items() if size}  # fmt: skip
        used = store.statistics()
        assert sum(one.live_bytes for one in measured.values()) == used.live_bytes
        assert sum(one.entries for one in measured.values()) == used.entries
    for version in held:
        store.unpin(version)
    assert not any(store.measure_retained().values())
    store.publish()  # the newest version stays, although nobody holds it
    with pytest.raises(VersionGone):
        store.measure_retained(held[0])


def test_what_the_newest_version_shares_is_not_retained() -> None:
    store = PackedStore()
    numbers = store.create("numbers", 1)
    for each in range(64):
        numbers.set((each,), 1)
    held = store.pin(store.publish())
    assert store.measure_pin(held) == 0
    numbers.set((0,), 2)
    # Before the next version is out, this one shares all of itself with the newest.
    assert store.measure_pin(held) == 0
    store.publish()
    assert store.measure_pin(held) == 2 * 272  # the top, and one leaf of two
    # A trie that grows by a level: the old top hangs below the new one.
    held = store.pin()
    numbers.set((5_000,), 1)
    store.publish()
    assert store.measure_pin(held) == 0


def test_a_store_that_is_full_can_drop_everything_beyond_its_limit() -> None:
    store = PackedStore(memory_limit=1_000_000)
    relations = [store.create(f"r{arity}", arity) for arity in (1, 2, 3)]
    store.publish()
    full = False
    for each in range(10**6):
        relation = relations[each % 3]
        before = store.words[64]
        try:
            relation.set((each * 97 % 2**20, each, each)[: relation.arity], 1)
        except MemoryError:
            full = True
            break
        assert store.words[64] >= before
    assert full
    held = store.pin(store.publish())
    store.lift_limit()
    for relation in relations:
        store.drop(relation)
    store.publish()
    store.restore_limit()
    store.check()
    used = store.statistics()
    assert used.live_bytes == 0
    assert used.retained_bytes + used.debt_bytes <= 1_000_000 * 9 // 8 + 254_000
    store.unpin(held)
    store.check()
    again = store.create("again", 2)
    for each in range(2_000):
        again.set((each, each), 1)
    store.publish()
    store.check()
    used = store.statistics()
    assert used.live_bytes + used.debt_bytes <= 1_000_000 * 9 // 8 + 254_000
