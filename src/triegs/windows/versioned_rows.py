"""The rows of an aggregate by version: readers of any thread, one updater."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import NamedTuple

from triegs.aggregates.windowed.aggregation import Rows


class Kept(NamedTuple):
    """The rows of the versions from one number up to another."""

    first: int
    end: int
    rows: Rows


class VersionedRows:
    """Rows of the newest version, and copies for those older versions that are held.

    The updater calls `begin` before it publishes, `replace` after that and before it changes the
    rows, and `end`. A version that is held can only have been held before it was replaced, so a
    copy made by `replace` is never missing. A reader of the version in the making waits for `end`.
    """

    def __init__(self, read: Callable[[], Rows], since: int) -> None:
        self._read = read
        self._since = since
        self._kept: list[Kept] = []
        self._newest: int | None = None  # before the version in the making
        self._changed = Condition()

    @property
    def used_bytes(self) -> int:
        kept = list(self._kept)
        return sum(each.rows.keys.nbytes + each.rows.states.nbytes for each in kept)

    def begin(self, newest: int) -> None:
        """A version after this one is being made."""
        with self._changed:
            self._newest = newest

    def replace(self, version: int, held: Sequence[int]) -> None:
        """A version was published whose rows differ; others are held. Cost: the groups, if an
        older version with the current rows is held.
        """
        with self._changed:
            self._kept = [
                each for each in self._kept if any(each.first <= n < each.end for n in held)
            ]
            if any(self._since <= number < version for number in held):
                self._kept.append(Kept(self._since, version, self._read()))
            self._since = version

    def end(self) -> None:
        with self._changed:
            self._newest = None
            self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block nobody reads: rows are moved, and do not change."""
        with self._changed:
            yield

    def read(self, version: int) -> Rows | None:
        """The rows of a version that the caller holds; None if it is older than the aggregate."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest is None or version <= self._newest)
            if version >= self._since:
                return self._read()
            kept = (each.rows for each in self._kept if each.first <= version < each.end)
            return next(kept, None)
