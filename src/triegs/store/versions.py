"""Versions of a packed store: which one is newest, which are held, and what they retain.

One thread writes. Any thread may pin, read what it has pinned, and unpin. `_memory` guards changes
of the arena, `_pins` the set of held versions; code that needs both takes `_memory` first.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, NoReturn

import numpy as np

from triegs.copying import Uncopied
from triegs.errors import StateError
from triegs.jit.words import Words
from triegs.store.contract import Key, RelationUnknown, Version, VersionGone
from triegs.store.kernels.epochs import WALK_WORDS, change_holds
from triegs.store.kernels.layout import SLOT_WORDS, SLOTS
from triegs.store.relations import PackedRelation, PackedVersion


class LostLock:
    """Refuses every change of an arena."""

    def __init__(self, why: str) -> None:
        self._why = why

    def acquire(self, *, blocking: bool = True) -> bool:
        if blocking:
            raise StateError(self._why)
        return False

    def __enter__(self) -> NoReturn:
        raise StateError(self._why)

    def __exit__(self, *_: object) -> None:
        raise AssertionError


class VersionedArena(Uncopied):
    """An arena with its relations and the versions that readers hold."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.members: frozenset[PackedRelation] = frozenset()
        self.holds = np.empty(0, np.int64)  # the held versions, in the form of the kernels
        self._walk = np.empty(WALK_WORDS, np.int64)
        self._shapes: list[int] = []  # of every slot ever used
        self._memory: Any = Lock()
        self._pins = RLock()  # reentrant, because a finaliser may unpin at any moment
        self._newest = PackedVersion(self, 0, np.empty(0, np.int64), self.members)
        self._held: dict[int, PackedVersion] = {}
        self._held_changed = False
        #: Each may unpin versions that nobody reads any more. Called when memory is short.
        self.on_shortage: list[Callable[[], None]] = []
        self._lost = ""

    def lose(self, why: str) -> None:
        """In a process that was forked from the one of the arena: refuse everything from now on,
        for other threads may have been changing it. Its memory is that of the other process.
        """
        self._lost = why
        self._memory, self._pins = LostLock(why), RLock()
        for version in [self._newest, *self._held.values()]:
            version.holders = 0
        self._newest = PackedVersion(self, -1, np.empty(0, np.int64), frozenset())
        self._held, self.on_shortage = {}, []

    @property
    def newest(self) -> PackedVersion:
        return self._newest

    @property
    def slots_used(self) -> int:
        return len(self._shapes)

    def read_slot(self, relation: PackedRelation) -> tuple[int, int]:
        """Root and number of entries, as the writer sees them."""
        if relation not in self.members:
            raise RelationUnknown(f"{relation.name} is not in this store")
        at = SLOTS + SLOT_WORDS * relation.slot
        return int(self.words[at]), int(self.words[at + 1])

    def put(self, relation: PackedRelation, key: Key, count: int) -> int:
        """Set the count of a tuple; returns the previous count."""
        raise NotImplementedError

    def check_relation(self, relation: PackedRelation) -> None:
        """Verify the invariants of one relation."""
        raise NotImplementedError

    def pin(self, version: Version | int | None = None) -> PackedVersion:
        if self._lost:
            raise StateError(self._lost)
        with self._pins:
            held = self._newest if version is None else version
            if isinstance(held, int):
                held = self._held.get(held, self._newest if held == self._newest.number else held)
            if isinstance(held, int):
                raise VersionGone(f"version {held} is not held")
            held = self._own(held)
            if not held.holders and held is not self._newest:
                raise VersionGone(f"version {held.number} is not held")
            held.holders += 1
            if held.holders == 1:
                self._held[held.number] = held
                self._held_changed = True
            return held

    def _own(self, version: Version) -> PackedVersion:
        if not isinstance(version, PackedVersion) or not version.belongs_to(self):
            raise VersionGone("the version belongs to another store")
        return version

    def unpin(self, version: Version) -> None:
        """Frees what only this version reaches, at once or, if the arena is busy, on publishing."""
        with self._pins:
            held = self._held.get(version.number)
            if held is None or held is not version:
                raise VersionGone(f"version {version.number} is not held")
            held.holders -= 1
            if held.holders:
                return
            del self._held[held.number]
            self._held_changed = True
        if self._memory.acquire(blocking=False):
            try:
                self._follow_pins()
            finally:
                self._memory.release()

    def _release_gone(self) -> None:
        for release in self.on_shortage:
            release()

    def _follow_pins(self) -> bool:
        """Free retired nodes that no held version reaches; returns whether the holds changed.

        The caller has locked `_memory`.
        """
        with self._pins:
            if not self._held_changed:
                return False
            self._held_changed = False
            numbers = sorted(self._held)
        if numbers == self.holds[::2].tolist():
            return False
        holds = np.zeros(2 * len(numbers), np.int64)
        holds[::2] = numbers
        if self.holds.size:
            change_holds(self.words, self.holds, holds)
        self.holds = holds
        return True

    def held(self) -> list[int]:
        with self._pins:
            return sorted(self._held)
