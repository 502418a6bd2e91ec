"""The shared snapshots of one engine: what their readers need, and when nobody reads any more.

Each has a small file in memory (`triegs.shared_memory`): its state, its number, and a description
of the snapshot. A reader opens the file and takes a shared lock (``flock``), which the kernel drops
when the reader ends, however it ends. Who closes the handle writes that into the file. Then nobody
new reads, and as soon as an exclusive lock is granted nobody does, and the epoch is unpinned. A
reader that comes in between sees the state once it has its lock.

Files are used again, because making one takes as long as all the rest; the number tells a handle
whether its snapshot is still there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from struct import Struct
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
from triegs.shared_memory import FileRef, Mapping, MemoryFile, find_mapping
from triegs.store.packed import PackedRelation, PackedStore, PackedVersion
from triegs.terms.arrays import Arrays
from triegs.terms.dictionary import Dictionary
from triegs.terms.shared_terms import TermsRef, refer_to_arrays

MAGIC = b"triegs 1"
#: How a file begins: this, the state, the number, and the sizes of what follows: what is the
#: snapshot's own, and what it has in common with others of its query.
HEAD = Struct("<8sc7xqqq")
STATE_AT = len(MAGIC)
OPEN, CLOSED, RELEASED = b"o", b"c", b"r"
#: Files are sparse, so a large one costs nothing.
FILE_BYTES, FREE_FILES = 1 << 20, 16
#: The seconds between two looks at readers of closed handles, and the plans that are kept pickled.
PAUSE, PLANS = 0.01, 64

NOT_SHARED = "share needs an engine in shared memory: Engine(shared_memory=True)"


class QueryVersion(NamedTuple):
    """A version as a query shows it."""

    query: str
    plan: Plan
    enumeration: EnumerationPlan
    version: PackedVersion


class Description(NamedTuple):
    """What a reader in another process needs of one snapshot."""

    facts: Facts
    version: int
    roots: bytes
    expires: float | None  # by the monotonic clock, which all processes share
    #: Equal keys are equal `Common`.
    key: int


class Common(NamedTuple):
    """What it needs besides, which is the same for all snapshots until the plan, or the arrays of
    terms, are replaced.
    """

    arena: FileRef
    terms: TermsRef
    base: str
    plan_key: int
    plan: bytes


class Shared(Uncopied):
    """A shared snapshot in the process of its engine; it is an `Owned`."""

    def __init__(
        self, handles: Handles, number: int, file: MemoryFile, shown: QueryVersion,
        description: Description, kept: object, taken: str | None,
    ) -> None:  # fmt: skip
        self._handles = handles
        self.number = number
        self.file = file
        self.shown = shown
        self.epoch = description.facts.epoch
        self.since = monotonic()
        self.expires = description.expires
        self.taken = taken
        #: The arrays whose files readers open.
        self.kept = kept
        self.is_open = True

    @property
    def query(self) -> str:
        return self.shown.query

    @property
    def version(self) -> PackedVersion:
        return self.shown.version

    def open(self) -> Snapshot:
        return self._handles.open(self)

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
            os.pwrite(self.file.descriptor, CLOSED, STATE_AT)

    def is_read(self) -> bool:
        """Whether a process reads it. If not, none will, once it is closed."""
        if not lock_file(self.file):
            return True
        os.pwrite(self.file.descriptor, RELEASED, STATE_AT)
        unlock_file(self.file)
        return False


def lock_file(file: MemoryFile) -> bool:
    """Whether nobody else has a lock on it."""
    import fcntl

    try:
        fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock_file(file: MemoryFile) -> None:
    import fcntl

    fcntl.flock(file.descriptor, fcntl.LOCK_UN)


_OWNED: WeakValueDictionary[tuple[str, int], Shared] = WeakValueDictionary()


def find_owned(name: str, number: int) -> Shared | None:
    """The shared snapshot of this process in such a file, unless it is released."""
    return _OWNED.get((name, number))


class Handles(Uncopied):
    """The shared snapshots of one engine. From any thread.

    `make` makes a snapshot of this process, of a version that is pinned for it.
    """

    def __init__(
        self, store: PackedStore, words: Dictionary,
        make: Callable[[QueryVersion, float | None], Snapshot],
    ) -> None:  # fmt: skip
        self._store = store
        self._words = words
        self._make = make
        self._lock = RLock()  # reentrant, because a finaliser may close a handle at any moment
        self._open: dict[int, Shared] = {}
        #: Those that are closed or have a lease.
        self.watched: dict[int, Shared] = {}
        self._looked = 0.0
        self._count = 0
        self._free: list[MemoryFile] = []
        self._arena: Mapping | None = None
        self._arrays: Arrays | None = None
        self._terms = TermsRef(0, (), ())
        self._plans: dict[int, tuple[EnumerationPlan, Any, int, bytes]] = {}
        #: By plan: for which arrays it was written, its key, and what was written.
        self._common: dict[int, tuple[TermsRef, int, bytes]] = {}
        if store.is_shared:
            store.on_shortage.append(self._look)

    def lose(self) -> None:
        """Forget all, in a process that was forked from the one of the engine."""
        self._lock = RLock()
        self._open, self.watched, self._free = {}, {}, []

    def share(
        self, shown: QueryVersion, facts: Facts, expires: float | None, taken: str | None
    ) -> SnapshotHandle:
        """Share a version, which the caller has pinned for that. Cost: constant; the first time a
        plan is shared also its size.
        """
        try:
            with self._lock:
                self.follow(at_once=False)
                shared = self._share(shown, facts, expires, taken)
        except BaseException:
            self._store.unpin(shown.version)
            raise
        return SnapshotHandle(shared.file.refer(), shared.number, facts, shared)

    def _share(
        self, shown: QueryVersion, facts: Facts, expires: float | None, taken: str | None
    ) -> Shared:
        version = shown.version
        if self._arena is None:
            self._arena = find_mapping(version.words)
            if self._arena is None:
                raise StateError(NOT_SHARED)
        arrays = self._words.arrays
        key, common = self._write_common(shown, arrays)
        description = Description(facts, version.number, version.roots.tobytes(), expires, key)
        own = pickle.dumps(description, pickle.HIGHEST_PROTOCOL)
        self._count = number = self._count + 1
        head = HEAD.pack(MAGIC, OPEN, number, len(own), len(common))
        file = self._write_file(head + own + common)
        shared = Shared(self, number, file, shown, description, (arrays, version.words), taken)
        _OWNED[file.name, number] = self._open[number] = shared
        if expires is not None:
            self.watched[number] = shared
        return shared

    def _write_file(self, data: bytes) -> MemoryFile:
        while self._free:
            file = self._free.pop()
            # Who has just found its snapshot released may still have a lock.
            if len(data) <= file.size and lock_file(file):
                os.pwrite(file.descriptor, data, 0)
                unlock_file(file)
                return file
        file = MemoryFile("snapshot", max(FILE_BYTES, len(data)))
        os.pwrite(file.descriptor, data, 0)
        return file

    def _write_common(self, shown: QueryVersion, arrays: Arrays) -> tuple[int, bytes]:
        if arrays is not self._arrays:
            self._terms = refer_to_arrays(arrays, self._terms.number + 1)
            self._arrays = arrays
        plan_key, plan = self._write_plan(shown.plan, shown.enumeration)
        terms, key, data = self._common.get(plan_key, (None, 0, b""))
        if terms is not self._terms:
            assert self._arena is not None
            self._count = key = self._count + 1
            common = Common(self._arena.file.refer(), self._terms, self._words.base, plan_key, plan)
            data = pickle.dumps(common, pickle.HIGHEST_PROTOCOL)
            self._common[plan_key] = self._terms, key, data
        return key, data

    def _write_plan(self, plan: Plan, enumeration: EnumerationPlan) -> tuple[int, bytes]:
        found, overflow, key, data = self._plans.get(id(enumeration), (None, None, 0, b""))
        if found is enumeration and overflow is enumeration.overflow:
            return key, data
        bare = replace(enumeration, tables=None, phases=None, roots=None, count_table=None)
        self._count = key = self._count + 1
        data = write_plan(plan, bare)
        if len(self._plans) >= PLANS:
            _, _, oldest, _ = self._plans.pop(next(iter(self._plans)))
            self._common.pop(oldest, None)
        self._plans[id(enumeration)] = enumeration, bare.overflow, key, data
        return key, data

    def open(self, shared: Shared) -> Snapshot:
        """A snapshot of this process."""
        self.follow(at_once=True)
        with self._lock:
            if not shared.is_open:
                raise SnapshotExpired(f"the shared snapshot of epoch {shared.epoch} is closed")
            self._store.pin(shared.version)
            return self._make(shared.shown, shared.expires)

    def close(self, shared: Shared) -> None:
        with self._lock:
            if shared.number in self._open:
                shared.refuse_readers()
                self.watched[shared.number] = shared
                self._look()

    def follow(self, *, at_once: bool) -> None:
        """End leases, and release what nobody reads any more. Cost: a system call for each closed
        handle, unless that was a moment ago.
        """
        if self.watched and (at_once or monotonic() >= self._looked + PAUSE):
            self._look()

    def _look(self) -> None:
        with self._lock:
            self._looked = now = monotonic()
            for number, shared in list(self.watched.items()):
                if shared.expires is not None and now >= shared.expires:
                    shared.refuse_readers()
                if not shared.is_open and not shared.is_read():
                    del self.watched[number]
                    del self._open[number]
                    _OWNED.pop((shared.file.name, number), None)
                    self._store.unpin(shared.version)
                    shared.kept = None
                    if len(self._free) < FREE_FILES:
                        self._free.append(shared.file)

    def list_shared(self) -> list[Shared]:
        """All that pin an epoch."""
        with self._lock:
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
