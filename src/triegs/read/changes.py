"""The answers that changed between two snapshots of one query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, overload

from triegs.copying import Uncopied
from triegs.errors import MultiplicityOverflow, StateError
from triegs.read.columns import Columns, Integers, NotIntegers, Sizes
from triegs.read.differences import Side, is_shared
from triegs.read.result import Result, Row
from triegs.sparql.model import Query

if TYPE_CHECKING:
    from triegs.read.snapshot import Snapshot

FEW_ROWS = 64
NO_CHANGES = "a query with LIMIT or OFFSET has no changes; read its snapshots"


class Change(Row):
    """An answer, and how much its multiplicity grew (or shrank, if negative).

    >>> change = Change(("x",), ("<http://ex/a>",), -2)
    >>> change.x, change.change
    ('<http://ex/a>', -2)
    """

    __slots__ = ()
    _count_name = "change"

    @property
    def change(self) -> int:
        return self._count


class Changes(Result):
    """Each answer whose multiplicity differs between two epochs of a query, once, with the signed
    difference. ``since`` and ``epoch`` are the two epochs; `Snapshot.diff` and
    `StandingQuery.changes` create it. Changes are computed when read, and again on each reading.

    With DISTINCT, and for ASK, a change is 1 for an added and -1 for a removed answer.
    """

    _row = Change

    def __init__(self, old: Snapshot, new: Snapshot) -> None:
        query = new._reader.plan.query
        if old._reader.plan is not new._reader.plan:
            raise StateError("changes are between snapshots of one query, not of two queries")
        refuse_limits(query)
        self._old = old
        self._new = new
        self._decoder = new._decoder
        self._decoders = new._decoders
        self.since = old.epoch
        self.epoch = new.epoch
        self.names = new.names
        #: Whether reading it has met a multiplicity that does not fit.
        self.is_overflown = False

    def is_empty(self) -> bool:
        """Whether no answer changed. Cost: that of reading the first changes."""
        self._check_open()
        old, new = self._old, self._new
        # The roots belong to the version object, so nothing has to be pinned to compare them.
        if is_shared(_find_side(old), _find_side(new)):
            return True
        return next(self._read(lambda: FEW_ROWS, len), None) is None

    @contextmanager
    def _hold(self) -> Iterator[None]:
        # In the order of their epochs, so that two threads cannot deadlock.
        first, second = sorted((self._old, self._new), key=lambda each: (each.epoch, id(each)))
        with first._hold():
            if second is first:
                yield
            else:
                with second._hold():
                    yield

    def _check_open(self) -> None:
        self._old._check_open()
        self._new._check_open()

    def _columns(self, sizes: Sizes, integers: Integers | None = None) -> Iterator[Columns]:
        old, new = self._old, self._new
        if integers is not None and not new._reader.is_plain:
            raise NotIntegers
        found = new._reader.changes(_find_side(old), _find_side(new), sizes, integers)
        return self._watch(found)

    def _watch(self, columns: Iterator[Columns]) -> Iterator[Columns]:
        try:
            yield from columns
        except MultiplicityOverflow:
            self.is_overflown = True
            raise

    def __repr__(self) -> str:
        return f"<Changes from epoch {self.since} to {self.epoch}>"


def refuse_limits(query: Query) -> None:
    """Raise `StateError` for a query that has no changes."""
    if query.limit is not None or query.offset:
        raise StateError(NO_CHANGES)


def _find_side(snapshot: Snapshot) -> Side:
    return Side(snapshot._reader.enumeration, snapshot._version)


class Steps(Uncopied, Sequence[Changes]):
    """The changes from one held epoch to the next, oldest first. Close it to release the epochs.

    `StandingQuery.changes` creates it.
    """

    _instead = Changes._instead

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots
        self._steps = [Changes(old, new) for old, new in pairwise(snapshots)]

    @overload
    def __getitem__(self, index: int) -> Changes: ...

    @overload
    def __getitem__(self, index: slice) -> list[Changes]: ...

    def __getitem__(self, index: int | slice) -> Changes | list[Changes]:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    def close(self) -> None:
        """Release the epochs. Idempotent."""
        for snapshot in self._snapshots:
            snapshot.close()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Steps over epochs {', '.join(str(each.epoch) for each in self._snapshots)}>"
