"""A source: one relation with the indexes that its readers need, and what an epoch changed in it.

Sources are what nodes read and write: base relations, selections of them, `VALUES` rows,
materialised joins, marginals and live tuples. All of a source's indexes change together, entry by
entry; the changes of the current epoch are kept net, with the value before and the value now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from triegs.errors import MultiplicityOverflow
from triegs.store.contract import Key, Store, Version, VersionedRelation

LARGEST = 2**63 - 1


class Source:
    """A relation over numbered columns; `primary` has them in order, an index has some first."""

    def __init__(
        self, store: Store, name: str, arity: int, primary: VersionedRelation | None = None
    ) -> None:
        self.name = name
        self.arity = arity
        self.changes: dict[Key, tuple[int, int]] = {}
        self._store = store
        self._primary = store.create(name, arity) if primary is None else primary
        self._indexes: dict[tuple[int, ...], VersionedRelation] = {}

    @property
    def primary(self) -> VersionedRelation:
        return self._primary

    def get(self, key: Key) -> int:
        return self._primary.get(key)

    def before(self, key: Key) -> int:
        """The value at the last published version."""
        change = self.changes.get(key)
        return self._primary.get(key) if change is None else change[0]

    def set(self, key: Key, count: int) -> None:
        """Give an entry its new value in every index. Refuses what 64 bits cannot hold."""
        if not -LARGEST - 1 <= count <= LARGEST:
            raise MultiplicityOverflow(f"a count of {self.name} does not fit 64 bits", self.name)
        before = self._primary.set(key, count)
        if before == count:
            return
        for order, index in self._indexes.items():
            index.set(tuple(key[c] for c in order), count)
        first = self.changes.get(key, (before, count))[0]
        if first == count:
            del self.changes[key]
        else:
            self.changes[key] = (first, count)

    def add(self, key: Key, delta: int) -> None:
        self.set(key, self._primary.get(key) + delta)

    def scan(self) -> Iterator[tuple[Key, int]]:
        return self._primary.scan()

    def require(self, columns: Sequence[int]) -> None:
        """Have an index that lists entries by these columns; built from what is there.

        Cost: the size of the source, once; then one more write per change.
        """
        order = self._order(columns)
        if order == tuple(range(self.arity)) or order in self._indexes:
            return
        index = self._store.create(f"{self.name} by {order}", self.arity)
        for key, count in self._primary.scan():
            index.set(tuple(key[c] for c in order), count)
        self._indexes[order] = index

    def matching(
        self, columns: Sequence[int], values: Key, was: bool = False
    ) -> Iterator[tuple[Key, int]]:
        """Every entry with these values in these columns, now or at the last version.

        `require` must have been called for the columns, before the last version for `was`.
        """
        index, order = self.find_index(columns)
        given = dict(zip(columns, values, strict=True))
        prefix = tuple(given[c] for c in order[: len(columns)])
        found = self._store.newest.scan(index, prefix) if was else index.scan(prefix)
        place = [order.index(c) for c in range(self.arity)]
        for key, count in found:
            yield tuple(key[p] for p in place), count

    def find_index(self, columns: Sequence[int]) -> tuple[VersionedRelation, tuple[int, ...]]:
        """The relation that lists entries by these columns, and the order of its columns."""
        order = self._order(columns)
        return self._indexes.get(order, self._primary), order

    def read(self, version: Version, prefix: Key) -> Iterator[tuple[Key, int]]:
        """The entries that start with the prefix, in a published version."""
        return version.scan(self._primary, prefix)

    def clear(self) -> None:
        """Empty the source; cost: its size."""
        for key, _ in list(self._primary.scan()):
            self.set(key, 0)

    def end_epoch(self) -> None:
        self.changes.clear()

    def save(self) -> Any:
        """What `restore` needs after the store has aborted."""
        return dict(self._indexes)

    def restore(self, saved: Any) -> None:
        """Forget the indexes that were made since."""
        self._indexes = dict(saved)

    def drop(self) -> None:
        self._store.drop(self._primary)
        for index in self._indexes.values():
            self._store.drop(index)

    def _order(self, columns: Sequence[int]) -> tuple[int, ...]:
        first = sorted(columns)
        return (*first, *(c for c in range(self.arity) if c not in first))
