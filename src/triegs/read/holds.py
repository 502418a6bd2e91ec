"""Held epochs: the last few of an engine, and those held under a name."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Lock

from triegs.errors import HistoryGone, StateError
from triegs.store.packed import PackedStore, PackedVersion


class Holds:
    """Versions of a store that stay readable. From any thread.

    `retain` is how many epochs before the newest are kept; each costs what later epochs replaced.
    """

    def __init__(self, store: PackedStore, retain: int) -> None:
        if retain < 0:
            raise ValueError(f"retain_epochs must be at least 0, not {retain}")
        self.retain = retain
        self._store = store
        self._last: deque[PackedVersion] = deque()
        self._named: dict[str, PackedVersion] = {}
        self._lock = Lock()

    def follow(self) -> None:
        """A version was published: retain it, and release the oldest. Cost: constant."""
        if not self.retain:
            return
        with self._lock:
            if self._last and self._last[-1] is self._store.newest:
                return
            self._last.append(self._store.pin())
            gone = self._last.popleft() if len(self._last) > self.retain + 1 else None
        if gone is not None:
            self._store.unpin(gone)

    def hold(self, name: str, number: int | None) -> PackedVersion:
        """Hold a version under a name, by default the newest."""
        with self._lock:
            if name in self._named:
                raise StateError(f"a hold {name!r} already exists; release it first")
            version = self._named[name] = self._store.pin(number)
        return version

    def move(self, name: str, number: int) -> None:
        """Hold a version under a name, in place of the version held before, if any."""
        with self._lock:
            version = self._store.pin(number)
            before = self._named.get(name)
            self._named[name] = version
        if before is not None:
            self._store.unpin(before)

    def release(self, name: str) -> None:
        with self._lock:
            version = self._named.pop(name, None)
        if version is None:
            raise StateError(f"there is no hold {name!r}")
        self._store.unpin(version)

    def find(self, name: str) -> int:
        """The number of the version held under a name."""
        with self._lock:
            if name not in self._named:
                raise HistoryGone(f"there is no hold {name!r}")
            return self._named[name].number

    @property
    def named(self) -> Mapping[str, int]:
        with self._lock:
            return {name: version.number for name, version in self._named.items()}

    def clear(self) -> None:
        """Release all."""
        with self._lock:
            gone = [*self._last, *self._named.values()]
            self._last.clear()
            self._named.clear()
        for version in gone:
            self._store.unpin(version)
