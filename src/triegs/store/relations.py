"""Relations and versions of a packed store: handles on roots in its arena.

A relation owns a slot of the arena. A version is a copy of all slots at one moment. Both read the
tries through the kernels; only the store changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from triegs.copying import Uncopied
from triegs.jit.words import Words
from triegs.store.bounds import check_count, check_key, check_prefix
from triegs.store.contract import Key, RelationUnknown, VersionedRelation, VersionGone
from triegs.store.kernels.cursors import CURSOR_WORDS, fill_scan, open_scan
from triegs.store.kernels.layout import LAYOUT_SHIFT, SLOT_WORDS
from triegs.store.kernels.relations import adjacency_get, map_get, tuple_get

SCAN_ROWS = 512  # tuples fetched per kernel call of a scan


def shape_of(arity: int, layout: int) -> int:
    return arity | layout << LAYOUT_SHIFT


def read_count(words: Words, root: int, key: Key) -> int:
    """The count of a tuple below a root. One kernel call."""
    if len(key) == 2:
        return int(adjacency_get(words, root, *key))
    if len(key) == 1:
        return int(map_get(words, root, *key))
    return int(tuple_get(words, root, np.array(key, np.int64), len(key)))


def read_rows(
    words: Words, root: int, arity: int, prefix: Key, check: Callable[[], object]
) -> Iterator[tuple[Key, int]]:
    """The tuples below a prefix, `SCAN_ROWS` per kernel call; `check` runs before each call."""
    below = int(tuple_get(words, root, np.array(prefix, np.int64), len(prefix)))
    levels = arity - len(prefix)
    if below == 0:
        return
    if levels == 0:
        yield prefix, below
        return
    scan = np.zeros(CURSOR_WORDS * (levels + 1), np.int64)
    columns = np.empty((levels + 1) * SCAN_ROWS, np.int64)
    open_scan(words, scan, below, not prefix)
    found = SCAN_ROWS
    while found == SCAN_ROWS:
        check()
        found = fill_scan(words, scan, levels, not prefix, columns, SCAN_ROWS)
        *keys, counts = columns.reshape(levels + 1, SCAN_ROWS)[:, :found].tolist()
        for key, count in zip(zip(*keys, strict=True), counts, strict=True):
            yield (*prefix, *key), count


class SlotOwner(Protocol):
    """What relations and versions need of their store."""

    words: Words

    @property
    def newest(self) -> PackedVersion: ...

    def read_slot(self, relation: PackedRelation) -> tuple[int, int]: ...

    def put(self, relation: PackedRelation, key: Key, count: int) -> int: ...

    def check_relation(self, relation: PackedRelation) -> None: ...


class PackedRelation(Uncopied):
    """A `VersionedRelation`: a name for a slot of the arena."""

    def __init__(self, store: SlotOwner, name: str, arity: int, slot: int, layout: int) -> None:
        self._store = store
        self.name = name
        self.arity = arity
        self.slot = slot
        self.layout = layout

    @property
    def shape(self) -> int:
        """Arity and layout, packed for the kernels that visit all nodes."""
        return shape_of(self.arity, self.layout)

    @property
    def root_at(self) -> int:
        """The index of its root among the roots of a version."""
        return SLOT_WORDS * self.slot

    def get(self, key: Key) -> int:
        key = check_key(self.name, self.arity, key)
        return read_count(self._store.words, self._store.read_slot(self)[0], key)

    def set(self, key: Key, count: int) -> int:
        key = check_key(self.name, self.arity, key)
        return self._store.put(self, key, check_count(self.name, key, count))

    def scan(self, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        prefix = check_prefix(self.name, self.arity, prefix)
        root, _ = self._store.read_slot(self)
        return read_rows(self._store.words, root, self.arity, prefix, lambda: None)

    def __len__(self) -> int:
        return self._store.read_slot(self)[1]

    def check(self) -> None:
        self._store.check_relation(self)


class PackedVersion(Uncopied):
    """A `Version`: the roots of all relations at one moment, and the arena they point into."""

    __slots__ = (
        "__weakref__",
        "_store",
        "digest",
        "holders",
        "members",
        "number",
        "roots",
        "words",
    )

    def __init__(
        self,
        store: SlotOwner,
        number: int,
        roots: Words,
        members: frozenset[PackedRelation],
    ) -> None:
        self._store = store
        self.words = store.words
        self.number = number
        self.roots = roots
        self.members = members
        self.holders = 0
        self.digest: bytes | None = None  # of all reachable nodes, set by the first check

    def belongs_to(self, store: SlotOwner) -> bool:
        return self._store is store

    def check_held(self) -> None:
        if not self.holders and self is not self._store.newest:
            raise VersionGone(f"version {self.number} is not held")

    def read_root(self, relation: VersionedRelation) -> tuple[int, int]:
        """Root and number of entries of a relation."""
        self.check_held()
        if not isinstance(relation, PackedRelation) or relation not in self.members:
            raise RelationUnknown(f"{relation.name} is not in version {self.number}")
        at = relation.root_at
        return int(self.roots[at]), int(self.roots[at + 1])

    def list_shapes(self) -> Words:
        """The shapes of all slots; 0 for those without a relation."""
        shapes = np.zeros(self.roots.size // SLOT_WORDS, np.int64)
        for relation in self.members:
            shapes[relation.slot] = relation.shape
        return shapes

    def get(self, relation: VersionedRelation, key: Key) -> int:
        root, _ = self.read_root(relation)
        return read_count(self.words, root, check_key(relation.name, relation.arity, key))

    def scan(self, relation: VersionedRelation, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        root, _ = self.read_root(relation)
        prefix = check_prefix(relation.name, relation.arity, prefix)
        return read_rows(self.words, root, relation.arity, prefix, self.check_held)

    def size(self, relation: VersionedRelation) -> int:
        return self.read_root(relation)[1]
