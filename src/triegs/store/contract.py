"""The contract of a store: relations that change together, and versions that never change.

A *relation* maps fixed-length tuples of ids to counts; a count of zero is absence. All relations of
a store change between two `Store.publish` calls; publishing makes one immutable `Version` of all of
them at once, and `Store.abort` takes the changes since the last one back. Readers hold a `Version`
and see nothing else. The store that keeps this contract is `packed`, of tries in an arena. Tests
hold it against a model of the same contract, `triegs.testing.plain_store`, by one suite over both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

Key = tuple[int, ...]


class Statistics(NamedTuple):
    """What a store costs now.

    `live_bytes` belongs to the newest version and to changes on their way; `retained_bytes` only to
    older versions that somebody holds; `debt_bytes` is free but not yet reused.
    """

    entries: int
    live_bytes: int
    retained_bytes: int
    debt_bytes: int
    copied_nodes: int
    retired_nodes: int


class Measured(NamedTuple):
    """What relations of one name cost: entries and bytes now, and bytes for held versions."""

    entries: int
    live_bytes: int
    retained_bytes: int


class VersionedRelation(Protocol):
    """One relation of a store, as its single writer sees it: changes show at once."""

    @property
    def name(self) -> str: ...

    @property
    def arity(self) -> int: ...

    def get(self, key: Key) -> int:
        """The count of a tuple; 0 if it is not there."""

    def set(self, key: Key, count: int) -> int:
        """Give a tuple a count (0 removes it); returns the count before."""

    def scan(self, prefix: Key = ()) -> Iterator[tuple[Key, int]]:
        """Every tuple that starts with the prefix, once, with its count; order is the store's.

        Nothing may change while a scan of the writer is under way.
        """

    def __len__(self) -> int: ...

    def check(self) -> None:
        """Raise `StoreCorrupt` if the structure breaks one of its invariants."""


class Version(Protocol):
    """An immutable moment of a whole store. Valid while it is the newest, or pinned."""

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
        """Forget a relation from the next version on; held versions still read it."""

    def publish(self) -> Version:
        """Make all changes since the last version one new version."""

    def abort(self) -> None:
        """Take back all changes since the last version, created and dropped relations too."""

    @property
    def newest(self) -> Version: ...

    def pin(self, version: Version | int | None = None) -> Version:
        """Hold a version (the newest unless given, perhaps by its number) until `unpin`; loading
        and holding are one step, so a version never vanishes in between.
        """

    def unpin(self, version: Version) -> None: ...

    def held(self) -> list[int]:
        """The numbers of the versions that somebody holds, in ascending order."""

    def statistics(self) -> Statistics: ...

    def check(self) -> None: ...


class StoreCorrupt(AssertionError):
    """A structure broke an invariant; says which, and where."""


class VersionGone(LookupError):
    """The version is neither the newest nor held: what it showed may be reused by now."""


class RelationUnknown(LookupError):
    """The relation is of another store, dropped, or not in the version asked for."""
