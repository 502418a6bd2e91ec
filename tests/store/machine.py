"""A store against dictionaries: any order of changes, versions, holds and aborts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triegs.store.contract import Key, Store, Version, VersionedRelation

Model = dict[Any, dict[Key, int]]

ids = st.one_of(
    st.integers(0, 5),
    st.integers(0, 70),
    st.sampled_from([31, 32, 33, 1023, 1024, 2**15, 2**30, 2**31 - 1, 5 * 2**25, 7 * 2**25]),
)
counts = st.one_of(
    st.integers(-2, 3),
    st.sampled_from([0, 0, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
choices = st.integers(0, 2**16)


def copy_model(model: Model) -> Model:
    return {relation: dict(rows) for relation, rows in model.items()}


def check_equal(read: Any, relation: VersionedRelation, rows: dict[Key, int], prefix: Key) -> None:
    """A scan gives exactly the rows that start with the prefix, each once."""
    found = list(read(prefix))
    expected = {key: count for key, count in rows.items() if key[: len(prefix)] == prefix}
    assert len(found) == len(expected)
    assert dict(found) == expected


def check_version(version: Version, model: Model) -> None:
    for relation, rows in model.items():
        assert version.size(relation) == len(rows)
        check_equal(lambda p, r=relation: version.scan(r, p), relation, rows, ())
        for key, count in list(rows.items())[:5]:
            assert version.get(relation, key) == count
            for length in range(relation.arity + 1):
                prefix = key[:length]
                check_equal(lambda p, r=relation: version.scan(r, p), relation, rows, prefix)


class StoreMachine(RuleBasedStateMachine):
    make_store: Callable[[], Store]

    @initialize(arities=st.lists(st.integers(0, 4), min_size=1, max_size=4))
    def start(self, arities: list[int]) -> None:
        self.store = type(self).make_store()
        self.model: Model = {}
        self.known: dict[Any, list[Key]] = {}
        for number, arity in enumerate(arities):
            relation = self.store.create(f"r{number}", arity)
            self.model[relation] = {}
        self.published: Model = {}  # the newest version: nothing is published yet
        self.held: list[tuple[Version, Model]] = []
        self.number = 0

    def pick(self, choice: int) -> VersionedRelation | None:
        relations = list(self.model)
        return relations[choice % len(relations)] if relations else None

    @rule(choice=choices, words=st.lists(ids, min_size=4, max_size=4), count=counts)
    def set_any(self, choice: int, words: list[int], count: int) -> None:
        if (relation := self.pick(choice)) is None:
            return
        key = tuple(words[: relation.arity])
        rows = self.model[relation]
        assert relation.set(key, count) == rows.get(key, 0)
        if count:
            rows[key] = count
        else:
            rows.pop(key, None)
        assert relation.get(key) == count
        assert len(relation) == len(rows)

    @rule(choice=choices, words=st.lists(ids, min_size=3, max_size=3), first=ids,
          size=st.integers(10, 90), stride=st.sampled_from([1, 2, 32, 1024, 2**20]),
          count=st.sampled_from([0, 1, 1, 2]))  # fmt: skip
    def set_row(
        self, choice: int, words: list[int], first: int, size: int, stride: int, count: int
    ) -> None:
        """Many tuples with one prefix: blocks that grow, split, merge and vanish."""
        if (relation := self.pick(choice)) is None or not relation.arity:
            return
        rows = self.model[relation]
        for step in range(size):
            key = (*words[: relation.arity - 1], (first + step * stride) % 2**31)
            assert relation.set(key, count) == rows.get(key, 0)
            if count:
                rows[key] = count
            else:
                rows.pop(key, None)

    @rule(choice=choices, which=choices, count=counts)
    def set_known(self, choice: int, which: int, count: int) -> None:
        relation = self.pick(choice)
        if relation is None or not self.model[relation]:
            return
        rows = self.model[relation]
        key = list(rows)[which % len(rows)]
        assert relation.set(key, count) == rows[key]
        rows[key] = count
        if not count:
            del rows[key]

    @rule(choice=choices, keep=st.integers(0, 3))
    def remove_most(self, choice: int, keep: int) -> None:
        if (relation := self.pick(choice)) is None:
            return
        rows = self.model[relation]
        for key in list(rows)[keep:]:
            assert relation.set(key, 0) == rows.pop(key)

    @rule(choice=choices, words=st.lists(ids, min_size=4, max_size=4))
    def read_absent(self, choice: int, words: list[int]) -> None:
        if (relation := self.pick(choice)) is None:
            return
        key = tuple(words[: relation.arity])
        assert relation.get(key) == self.model[relation].get(key, 0)
        for length in range(relation.arity + 1):
            check_equal(relation.scan, relation, self.model[relation], key[:length])

    @rule(arity=st.integers(0, 4))
    def create(self, arity: int) -> None:
        if len(self.model) < 6:
            self.model[self.store.create("later", arity)] = {}

    @rule(choice=choices)
    def drop(self, choice: int) -> None:
        if (relation := self.pick(choice)) is not None:
            self.store.drop(relation)
            del self.model[relation]

    @rule()
    def publish(self) -> None:
        version = self.store.publish()
        self.number += 1
        assert version.number == self.number
        assert self.store.newest is version
        self.published = copy_model(self.model)
        check_version(version, self.published)

    @rule()
    def abort(self) -> None:
        self.store.abort()
        self.model = copy_model(self.published)
        for relation, rows in self.model.items():
            assert len(relation) == len(rows)
            check_equal(relation.scan, relation, rows, ())

    @rule()
    def pin_newest(self) -> None:
        self.held.append((self.store.pin(), copy_model(self.published)))

    @precondition(lambda self: self.held)
    @rule(choice=choices)
    def pin_again(self, choice: int) -> None:
        version, model = self.held[choice % len(self.held)]
        assert self.store.pin(version) is version
        self.held.append((version, model))

    @precondition(lambda self: self.held)
    @rule(choice=choices)
    def unpin(self, choice: int) -> None:
        version, model = self.held.pop(choice % len(self.held))
        check_version(version, model)
        self.store.unpin(version)

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "store"):
            return
        self.store.check()
        for version, model in self.held:
            check_version(version, model)
        assert self.store.statistics().entries == sum(map(len, self.model.values()))

    def teardown(self) -> None:
        """Unpin all, remove all: nothing is left."""
        if not hasattr(self, "store"):
            return
        for version, _ in self.held:
            self.store.unpin(version)
        assert self.store.statistics().retained_bytes == 0
        for relation, rows in self.model.items():
            for key, count in rows.items():
                assert relation.set(key, 0) == count
            assert list(relation.scan()) == []
        self.store.publish()
        self.store.check()
        left = self.store.statistics()
        assert (left.entries, left.live_bytes, left.retained_bytes) == (0, 0, 0)
