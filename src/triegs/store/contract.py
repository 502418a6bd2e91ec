"""The contract of a store: relations that change together, and versions that never change.

A *relation* maps fixed-length tuples of ids to counts; a count of zero means absence. All relations
of a store change together between two `Store.publish` calls. Publishing makes one immutable
`Version` of all of them, and `Store.abort` reverts the changes since the last one. Readers hold a
`Version` and see nothing else. `packed` implements the contract with tries in an arena,
`triegs.testing.plain_store` with a simple model; one test suite covers both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

Key = tuple[int, ...]


class Statistics(NamedTuple):
    """The current memory use of a store.

    `live_bytes` belongs to the newest version and to unpublished changes, `retained_bytes` only to
    older versions that are held; `debt_bytes` is free but not yet reused. `shared_bytes` belongs to
    blocks that all versions share, and remains when they are no longer used, until memory is short.
    """

    entries: int
    live_bytes: int
    retained_bytes: int
    debt_bytes: int
    copied_nodes: int
    retired_nodes: int
    shared_bytes: int

    @property
    def used_bytes(self) -> int:
        """All bytes that are not free."""
        return self.live_bytes + self.retained_bytes + self.shared_bytes


class Measured(NamedTuple):
    """The size of relations of one name: entries and bytes now, and bytes for held versions."""

    entries: int
    live_bytes: int
    retained_bytes: int


class VersionedRelation(Protocol):
    """One relation of a store, as its single writer sees it: changes are visible at once."""

    @property
    def name(self) -> str: ...

    @property
    def arity(self) -> int: ...

    def get(self, key: Key) -> int:
        """The count of a tuple; 0 if it is absent."""

    def set(self, key: Key, count: int) -> int:
        """Set the count of a tuple (0 removes it); returns the previous count."""

    def scan(self, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        """Every tuple with the prefix, once, with its count, in an order of the store's choice.

        The writer must not change anything during its scan.
        """

    def __len__(self) -> int: ...

    def check(self) -> None:
        """Raise `StoreCorrupt` if an invariant of the structure is violated."""


class Version(Protocol):
    """An immutable state of a whole store. Valid while it is the newest or pinned."""

    @property
    def number(self) -> int: ...

    def get(self, relation: VersionedRelation, key: Key) -> int: ...

    def scan(self, relation: VersionedRelation, prefix: Key = ()) -> Iterator[tuple[Key, int]]: ...

    def size(self, relation: VersionedRelation) -> int: ...


class Store(Protocol):
    """A set of relations with one writer and any number of readers."""

    def create(self, name: str, arity: int) -> VersionedRelation:
        """A new, empty relation; `arity` 0 is a single count."""

    def drop(self, relation: VersionedRelation) -> None:
        """Drop a relation from the next version on; held versions can still read it."""

    def publish(self) -> Version:
        """Publish all changes since the last version as one new version."""

    def abort(self) -> None:
        """Revert all changes since the last version, including created and dropped relations."""

    @property
    def newest(self) -> Version: ...

    def pin(self, version: Version | int | None = None) -> Version:
        """Hold a version, by default the newest, until `unpin`. A version may be given by number.
        Finding and holding it is atomic.
        """

    def unpin(self, version: Version) -> None: ...

    def held(self) -> list[int]:
        """The numbers of the held versions, in ascending order."""

    def statistics(self) -> Statistics: ...

    def check(self) -> None: ...


class StoreCorrupt(AssertionError):
    """A structure violates an invariant; the message says which, and where."""


class VersionGone(LookupError):
    """The version is neither the newest nor held, so its memory may have been reused."""


class RelationUnknown(LookupError):
    """The relation belongs to another store, was dropped, or is not in the version."""
