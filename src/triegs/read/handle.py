"""The handle with which other processes open a snapshot."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from triegs.closing import Closing
from triegs.errors import SnapshotExpired
from triegs.shared_memory import FileRef

if TYPE_CHECKING:
    from triegs.read.snapshot import Snapshot


class Facts(NamedTuple):
    """What a handle tells about its snapshot."""

    epoch: int
    time: int | None
    names: tuple[str, ...]


class Owned(Protocol):
    """A shared snapshot in the process of its engine."""

    taken: str | None
    expires: float | None

    def open(self) -> Snapshot:
        """A snapshot of this process."""

    def close(self) -> None:
        """Admit no more readers."""

    @property
    def is_open(self) -> bool: ...


class SnapshotHandle(Closing):
    """A snapshot that other processes can open, with `open`; `Snapshot.share` creates it.

    It can be pickled, and so sent through queues, pools and pipes, any number of times. ``epoch``,
    ``time`` and ``names`` are those of the snapshot. It pins the epoch until it is closed *and*
    every process that opened it has closed its snapshots or has ended, in whatever way.

    A context manager. Only closing the handle that `share` returned has an effect; closing its
    copies, which other processes get, has none. If the original is dropped, it is closed, unless it
    has a lease.

    >>> from multiprocessing import get_context
    >>> from operator import methodcaller
    >>> from triegs import Engine
    >>> engine = Engine(shared_memory=True)
    >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
    >>> report = engine.apply([("+", 7, "<http://ex/p>", 1)])
    >>> with query.snapshot() as snapshot:
    ...     handle = snapshot.share()
    >>> handle.epoch, handle.names
    (2, ('x',))
    >>> def count(handle):  # a function of a module, for another process
    ...     with handle.open() as snapshot:
    ...         return len(snapshot)
    >>> count(handle)
    1
    >>> handle.close()
    """

    def __init__(self, ref: FileRef, number: int, facts: Facts, owned: Owned | None = None) -> None:
        self._ref = ref
        self._number = number
        self._facts = facts
        self._owned = owned
        self.epoch, self.time, self.names = facts

    def open(self) -> Snapshot:
        """The snapshot, in this process; the caller closes it.

        From any thread and any process of the same user. Nothing is copied, and the engine's
        process does no work for it, now or when it is read. It is read like any `Snapshot`, but
        cannot be shared again; pass on the handle. `diff` works between snapshots of one query that
        this process has opened.

        Raises `SnapshotExpired` once the handle is closed, or its lease or process has ended.
        Snapshots opened before stay readable, unless a lease ends them, too. Cost: constant; the
        first time also the plan, and mapping the memory.
        """
        if self._ref.process == os.getpid():
            from triegs.read.handles import find_owned

            owned = find_owned(self._ref.name, self._number)
            if owned is None:
                raise SnapshotExpired(f"{self._describe()} is closed")
            return owned.open()
        from triegs.read.opening import open_snapshot

        return open_snapshot(self._ref, self._number, self._describe())

    def close(self) -> None:
        """Refuse further readers; current readers are not disturbed. Idempotent.

        The epoch is released when the last of them is done. The updater notices that when it
        publishes, in `Engine.metrics`, or when memory is short. No effect on a copy.
        """
        owned, self._owned = self._owned, None
        if owned is not None and self._ref.process == os.getpid():
            owned.close()

    def __del__(self) -> None:
        owned = self._owned
        if owned is None or sys.is_finalizing() or self._ref.process != os.getpid():
            return
        if owned.expires is not None or not owned.is_open:
            return
        if owned.taken is not None:
            warnings.warn(
                f"{self._describe()} was not closed; it was shared at {owned.taken}",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
        self.close()

    def _describe(self) -> str:
        return f"the shared snapshot of epoch {self.epoch}, of process {self._ref.process},"

    def __reduce__(self) -> tuple[Any, ...]:
        return SnapshotHandle, (self._ref, self._number, self._facts)

    def __repr__(self) -> str:
        head = " ".join(f"?{name}" for name in self.names) or "ASK"
        return f"<SnapshotHandle of epoch {self.epoch}: {head}>"
