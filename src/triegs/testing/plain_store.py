"""A simple model of the store: one persistent map per prefix of a tuple.

A relation of arity 2 is a map from the first id to a map from the second id to the count:
`{7: {3: 1, 5: 2}}`. A change makes new maps along one path and shares the rest, so a version is
just the maps at its moment, and Python's reference counting reclaims them.

>>> store = PlainStore()
>>> knows = store.create("knows", 2)
>>> knows.set((7, 5), 2), knows.set((7, 3), 1), knows.set((9, 3), 1)
(0, 0, 0)
>>> held = store.pin(store.publish())
>>> knows.set((7, 5), 0)
2
>>> list(knows.scan((7,))), sorted(held.scan(knows, (7,)))
([((7, 3), 1)], [((7, 3), 1), ((7, 5), 2)])
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

from immutables import Map

from triegs.store.bounds import check_arity, check_count, check_key, check_prefix
from triegs.store.contract import (
    Key,
    RelationUnknown,
    Statistics,
    StoreCorrupt,
    Version,
    VersionedRelation,
    VersionGone,
)

Tree = Any  # a count, or a Map from ids to trees one level lower
BYTES_PER_ENTRY = 100  # a rough figure for a map entry with its two integers


class Contents(NamedTuple):
    """A relation at one moment: its tree, 0 if empty, and the number of its tuples."""

    tree: Tree
    entries: int


NOTHING = Contents(0, 0)


def find(tree: Tree, prefix: Key) -> Tree:
    """The subtree below a prefix; 0 if there is none. Logarithmic per id of the prefix."""
    for each in prefix:
        if not tree:
            return 0
        tree = tree.get(each, 0)
    return tree


def replace(tree: Tree, key: Key, count: int) -> Tree:
    """The tree with one count changed; an empty map becomes 0."""
    if not key:
        return count
    tree = tree or Map()
    below = replace(tree.get(key[0], 0), key[1:], count)
    if below:
        return tree.set(key[0], below)
    if key[0] in tree:
        tree = tree.delete(key[0])
    return tree or 0


def walk(tree: Tree, levels: int, prefix: Key) -> Iterator[tuple[Key, int]]:
    """Every tuple of a tree; linear in the result."""
    if not tree:
        return
    if levels == 0:
        yield prefix, tree
        return
    for each, below in tree.items():
        yield from walk(below, levels - 1, (*prefix, each))


def check_tree(where: str, contents: Contents, levels: int) -> None:
    """Check that counts are at the right depth and not zero, no map is empty, the size is right."""

    def count_entries(tree: Tree, levels: int) -> int:
        if levels == 0:
            if not isinstance(tree, int) or tree == 0:
                raise StoreCorrupt(f"{where}: {tree!r} instead of a count")
            return 1
        if not isinstance(tree, Map) or not tree:
            raise StoreCorrupt(f"{where}: {tree!r} instead of a map")
        return sum(count_entries(below, levels - 1) for below in tree.values())

    found = 0 if contents.tree == 0 else count_entries(contents.tree, levels)
    if found != contents.entries:
        raise StoreCorrupt(f"{where}: {found} tuples, but a size of {contents.entries}")


class PlainRelation:
    """A `VersionedRelation`; the store maps it to its contents."""

    def __init__(self, store: PlainStore, name: str, arity: int) -> None:
        self._store = store
        self.name = name
        self.arity = check_arity(arity)

    def get(self, key: Key) -> int:
        return int(find(self._store.now(self).tree, check_key(self.name, self.arity, key)))

    def set(self, key: Key, count: int) -> int:
        key = check_key(self.name, self.arity, key)
        count = check_count(self.name, key, count)
        tree, entries = self._store.now(self)
        before = int(find(tree, key))
        entries += (count != 0) - (before != 0)
        self._store.change(self, Contents(replace(tree, key, count), entries))
        return before

    def scan(self, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        prefix = check_prefix(self.name, self.arity, prefix)
        return walk(find(self._store.now(self).tree, prefix), self.arity - len(prefix), prefix)

    def __len__(self) -> int:
        return self._store.now(self).entries

    def check(self) -> None:
        check_tree(self.name, self._store.now(self), self.arity)


Relations = Map[PlainRelation, Contents]


class PlainVersion:
    """A `Version`: the contents of every relation at one moment."""

    def __init__(self, store: PlainStore, number: int, relations: Relations) -> None:
        self._store = store
        self.number = number
        self.relations = relations
        self.holders = 0

    def _read(self, relation: VersionedRelation) -> Contents:
        if not self.holders and self is not self._store.newest:
            raise VersionGone(f"version {self.number} is not held")
        if not isinstance(relation, PlainRelation) or relation not in self.relations:
            raise RelationUnknown(f"{relation.name} is not in version {self.number}")
        return self.relations[relation]

    def get(self, relation: VersionedRelation, key: Key) -> int:
        tree = self._read(relation).tree
        return int(find(tree, check_key(relation.name, relation.arity, key)))

    def scan(self, relation: VersionedRelation, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        prefix = check_prefix(relation.name, relation.arity, prefix)
        tree = find(self._read(relation).tree, prefix)
        return walk(tree, relation.arity - len(prefix), prefix)

    def size(self, relation: VersionedRelation) -> int:
        return self._read(relation).entries


class PlainStore:
    """A `Store` over persistent maps.

    >>> store = PlainStore()
    >>> total = store.create("total", 0)
    >>> total.set((), 3)
    0
    >>> store.publish().number
    1
    >>> total.set((), 4)
    3
    >>> store.abort()
    >>> total.get(())
    3
    """

    def __init__(self) -> None:
        self._relations: Relations = Map()
        self._newest = PlainVersion(self, 0, self._relations)
        self._held: dict[int, PlainVersion] = {}
        self._lock = Lock()  # guards `_newest`, `_held` and each version's `holders`

    def now(self, relation: PlainRelation) -> Contents:
        if relation not in self._relations:
            raise RelationUnknown(f"{relation.name} is not in this store")
        return self._relations[relation]

    def change(self, relation: PlainRelation, contents: Contents) -> None:
        self._relations = self._relations.set(relation, contents)

    def create(self, name: str, arity: int) -> PlainRelation:
        relation = PlainRelation(self, name, arity)
        self.change(relation, NOTHING)
        return relation

    def drop(self, relation: VersionedRelation) -> None:
        if not isinstance(relation, PlainRelation) or relation not in self._relations:
            raise RelationUnknown(f"{relation.name} is not in this store")
        self._relations = self._relations.delete(relation)

    def publish(self) -> PlainVersion:
        version = PlainVersion(self, self._newest.number + 1, self._relations)
        with self._lock:
            self._newest = version
        return version

    def abort(self) -> None:
        self._relations = self._newest.relations

    @property
    def newest(self) -> PlainVersion:
        return self._newest

    def pin(self, version: Version | int | None = None) -> PlainVersion:
        with self._lock:
            held = self._newest if version is None else version
            if isinstance(held, int):
                held = self._held.get(held, self._newest if held == self._newest.number else held)
            if isinstance(held, int):
                raise VersionGone(f"version {held} is not held")
            if not isinstance(held, PlainVersion) or held._store is not self:
                raise VersionGone("the version belongs to another store")
            if not held.holders and held is not self._newest:
                raise VersionGone(f"version {held.number} is not held")
            held.holders += 1
            self._held[held.number] = held
            return held

    def unpin(self, version: Version) -> None:
        with self._lock:
            held = self._held.get(version.number)
            if held is None or held is not version:
                raise VersionGone(f"version {version.number} is not held")
            held.holders -= 1
            if not held.holders:
                del self._held[held.number]

    def held(self) -> list[int]:
        with self._lock:
            return sorted(self._held)

    def statistics(self) -> Statistics:
        """Estimates, as if held versions shared nothing."""

        def count_entries(relations: Relations) -> int:
            return sum(contents.entries for contents in relations.values())

        with self._lock:
            older = [held for held in self._held.values() if held is not self._newest]
        entries = count_entries(self._relations)
        retained = sum(count_entries(version.relations) for version in older)
        return Statistics(
            entries, entries * BYTES_PER_ENTRY, retained * BYTES_PER_ENTRY, 0, 0, 0, 0
        )

    def check(self) -> None:
        with self._lock:
            versions = [self._newest, *self._held.values()]
        for relations in (self._relations, *(version.relations for version in versions)):
            for relation, contents in relations.items():
                check_tree(relation.name, contents, relation.arity)
