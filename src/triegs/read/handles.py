"""The shared snapshots of one engine: what their readers need, and when nobody reads any more.

Each has a small file in memory (`triegs.shared_memory`): its state, and a description of the
snapshot. A reader opens the file and takes a shared lock (``flock``), which the kernel drops when
the reader ends, however it ends. Who closes the handle writes that into the file. Then nobody new
reads, and as soon as an exclusive lock is granted nobody does, and the epoch is unpinned. A reader
that comes in between sees the state once it has its lock.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from triegs.compiler.plan import Plan
from triegs.copying import Uncopied
from triegs.errors import SnapshotExpired, StateError
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.handle import Facts, SnapshotHandle
from triegs.read.snapshot import Snapshot
from triegs.shared_memory import FileRef, MemoryFile, find_mapping
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion
from triegs.terms.arrays import Arrays
from triegs.terms.dictionary import Dictionary
from triegs.terms.shared_terms import TermsRef, refer_to_arrays

#: How a file begins: this, the state, the description.
MAGIC, STATE_AT, STATE_BYTES = b"triegs 1", 8, 1
OPEN, CLOSED, RELEASED = b"o", b"c", b"r"
START = STATE_AT + STATE_BYTES
#: The seconds between two looks at readers of closed handles, and the plans that are kept pickled.
PAUSE, PLANS = 0.01, 64

NOT_SHARED = "share needs an engine in shared memory: Engine(shared_memory=True)"


class PlanRef(NamedTuple):
    """A plan and its enumeration, as bytes; equal keys are equal plans of an engine."""

    key: int
    data: bytes


class Description(NamedTuple):
    """What a reader in another process needs of a snapshot."""

    facts: Facts
    arena: FileRef
    terms: TermsRef
    base: str
    plan: PlanRef
    version: int
    roots: bytes
    expires: float | None  # by the monotonic clock, which all processes share


class Shared(Uncopied):
    """A shared snapshot in the process of its engine; it is an `Owned`."""

    def __init__(
        self, handles: Handles, query: str, version: PackedVersion, description: Description,
        reopen: Callable[[PackedVersion], Snapshot], taken: str | None,
    ) -> None:  # fmt: skip
        self._handles = handles
        self._reopen = reopen
        self.query = query
        self.version = version
        self.epoch = description.facts.epoch
        self.since = monotonic()
        self.expires = description.expires
        self.taken = taken
        data = pickle.dumps(description)
        self._file = MemoryFile("snapshot", START + len(data))
        os.pwrite(self._file.descriptor, MAGIC + OPEN + data, 0)
        self.ref = self._file.refer()
        self.is_open = True
        #: The files of the arrays must stay open for those who open it.
        self.kept: Any = None

    def open(self) -> Snapshot:
        self._handles.follow(at_once=True)
        with self._handles.lock:
            if not self.is_open:
                raise SnapshotExpired(f"the shared snapshot of epoch {self.epoch} is closed")
            return self._reopen(self.version)

    def close(self) -> None:
        self._handles.close(self)

    def describe(self, first: int, now: float) -> dict[str, Any]:
        """As a pin; `shared` says whether others may still open it."""
        found = {
            "epoch": self.version.number - first,
            "query": self.query,
            "age_s": now - self.since,
            "shared": "open" if self.is_open else "closed",
        }
        if self.expires is not None:
            found["expires_s"] = self.expires - now
        if self.taken is not None:
            found["taken"] = self.taken
        return found

    def refuse_readers(self) -> None:
        if self.is_open:
            self.is_open = False
            os.pwrite(self._file.descriptor, CLOSED, STATE_AT)

    def end(self) -> bool:
        """Release the file if nobody reads; returns whether that is so."""
        import fcntl

        try:
            fcntl.flock(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.pwrite(self._file.descriptor, RELEASED, STATE_AT)
        self._file.close()
        self.kept = None
        return True


_OWNED: WeakValueDictionary[str, Shared] = WeakValueDictionary()


def find_owned(name: str) -> Shared | None:
    """The shared snapshot of this process with such a file, unless it is released."""
    return _OWNED.get(name)


class Handles(Uncopied):
    """The shared snapshots of one engine. From any thread."""

    def __init__(self, store: PackedStore, words: Dictionary) -> None:
        self._store = store
        self._words = words
        self.lock = RLock()  # reentrant, because a finaliser may close a handle at any moment
        self._open: dict[str, Shared] = {}
        #: Those that are closed or have a lease.
        self.watched: dict[str, Shared] = {}
        self._looked = 0.0
        self._plans: dict[int, tuple[EnumerationPlan, Any, PlanRef]] = {}
        self._count = 0
        self._arrays: Arrays | None = None
        self._terms = TermsRef(0, (), ())
        if store.is_shared:
            store.on_shortage.append(self._look)

    def lose(self) -> None:
        """Forget all, in a process that was forked from the one of the engine."""
        self.lock = RLock()
        self._open, self.watched, self._plans = {}, {}, {}

    def share(
        self, query: str, snapshot: Snapshot, reopen: Callable[[PackedVersion], Snapshot],
        expires: float | None, taken: str | None,
    ) -> SnapshotHandle:  # fmt: skip
        """Share a snapshot, which the caller holds. Cost: constant; the first time a plan is shared
        also its size.
        """
        mapping = find_mapping(snapshot._version.words)
        if mapping is None:
            raise StateError(NOT_SHARED)
        reader = snapshot._reader
        facts = Facts(snapshot.epoch, snapshot.time, snapshot.names)
        with self.lock:
            self.follow(at_once=False)
            arrays = self._words.arrays
            version = snapshot._version
            description = Description(
                facts, mapping.file.refer(), self._refer_to_terms(arrays), self._words.base,
                self._write_plan(reader.plan, reader.enumeration), version.number,
                version.roots.tobytes(), expires,
            )  # fmt: skip
            shared = Shared(self, query, version, description, reopen, taken)
            shared.kept = arrays, version.words
            self._store.pin(version)
            _OWNED[shared.ref.name] = self._open[shared.ref.name] = shared
            if expires is not None:
                self.watched[shared.ref.name] = shared
        return SnapshotHandle(shared.ref, facts, shared)

    def _refer_to_terms(self, arrays: Arrays) -> TermsRef:
        if arrays is not self._arrays:
            self._arrays = arrays
            self._terms = refer_to_arrays(arrays, self._terms.number + 1)
        return self._terms

    def _write_plan(self, plan: Plan, enumeration: EnumerationPlan) -> PlanRef:
        found, overflow, ref = self._plans.get(id(enumeration), (None, None, None))
        if found is enumeration and overflow is enumeration.overflow and ref is not None:
            return ref
        self._count += 1
        bare = replace(enumeration, tables=None, phases=None, roots=None, count_table=None)
        ref = PlanRef(self._count, write_plan(plan, bare))
        if len(self._plans) >= PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[id(enumeration)] = enumeration, bare.overflow, ref
        return ref

    def close(self, shared: Shared) -> None:
        with self.lock:
            if shared.ref.name in self._open:
                shared.refuse_readers()
                self.watched[shared.ref.name] = shared
                self._look()

    def follow(self, *, at_once: bool) -> None:
        """End leases, and release what nobody reads any more. Cost: a system call for each closed
        handle, unless that was a moment ago.
        """
        if self.watched and (at_once or monotonic() >= self._looked + PAUSE):
            self._look()

    def _look(self) -> None:
        with self.lock:
            self._looked = now = monotonic()
            for name, shared in list(self.watched.items()):
                if shared.expires is not None and now >= shared.expires:
                    shared.refuse_readers()
                if not shared.is_open and shared.end():
                    del self.watched[name]
                    del self._open[name]
                    _OWNED.pop(name, None)
                    self._store.unpin(shared.version)

    def list_shared(self) -> list[Shared]:
        """All that pin an epoch."""
        with self.lock:
            return list(self._open.values())


# Plans


class _Writer(pickle.Pickler):
    """Relations belong to the store; what readers need of them does not."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, PackedRelation):
            return value.name, value.arity, value.slot, value.layout
        return None


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, make: Callable[[str, int, int, int], PackedRelation]) -> None:
        super().__init__(BytesIO(data))
        self._make = make

    def persistent_load(self, found: Any) -> PackedRelation:
        return self._make(*found)


def write_plan(plan: Plan, enumeration: EnumerationPlan) -> bytes:
    buffer = BytesIO()
    _Writer(buffer, pickle.HIGHEST_PROTOCOL).dump((plan, enumeration))
    return buffer.getvalue()


def read_plan(
    data: bytes, make: Callable[[str, int, int, int], PackedRelation]
) -> tuple[Plan, EnumerationPlan]:
    """The plan; `make` makes each relation once, of its name, arity, slot and layout."""
    found: tuple[Plan, EnumerationPlan] = _Reader(data, make).load()
    return found
