"""Opens a snapshot of an engine in another process; `triegs.read.handles` is the other side.

The arena and the arrays of terms are mapped once for all snapshots of an engine. The engine that
was read last stays mapped, so that the next snapshot finds its memory, terms and plans; another
process's memory is otherwise mapped only while a snapshot of it is open.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from datetime import timedelta
from functools import lru_cache
from threading import Event, Lock, RLock, Thread
from time import monotonic
from typing import NamedTuple, NoReturn
from weakref import WeakSet, WeakValueDictionary, ref

import numpy as np

from triegs.compiler.plan import Plan
from triegs.copying import Uncopied
from triegs.errors import SnapshotExpired, StateError
from triegs.jit.words import Words
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.groups import GroupReader
from triegs.read.handles import HEAD, MAGIC, OPEN, Common, Description, read_plan
from triegs.read.rows import RowReader
from triegs.read.snapshot import Snapshot
from triegs.shared_memory import FileRef, ReadMapping, call_after_fork, is_there, open_file
from triegs.store.contract import Key
from triegs.store.packed import PackedRelation, PackedVersion
from triegs.terms.shared_terms import SharedTerms

PLANS = 64


class OtherStore:
    """The store of an engine in another process, as versions and relations need it."""

    def __init__(self, words: Words) -> None:
        self.words = words

    @property
    def newest(self) -> PackedVersion:
        """No version that a reader has: those are held, or closed."""
        return PackedVersion(self, -1, np.empty(0, np.int64), frozenset())

    def read_slot(self, relation: PackedRelation) -> tuple[int, int]:
        raise AssertionError(f"{relation.name}: only its engine sees what it changes")

    def put(self, relation: PackedRelation, key: Key, count: int) -> int:
        raise AssertionError(f"{relation.name}{key}: only its engine changes it to {count}")

    def check_relation(self, relation: PackedRelation) -> None:
        raise AssertionError(f"{relation.name}: only its engine checks it")


class ReadPlan(NamedTuple):
    plan: Plan
    enumeration: EnumerationPlan
    relations: frozenset[PackedRelation]


class OtherEngine:
    """What this process has mapped and derived of an engine in another one."""

    def __init__(self, arena: FileRef) -> None:
        self.arena = arena
        self._mapping = ReadMapping(arena)
        self.store = OtherStore(self._mapping.view(np.int64, (arena.size // 8,)))
        self.terms = SharedTerms()
        self.lock = RLock()
        self._plans: OrderedDict[int, ReadPlan] = OrderedDict()

    def find_plan(self, found: Common) -> ReadPlan:
        """The same objects for the same plan, which `Snapshot.diff` needs."""
        key = found.plan_key
        if key not in self._plans:
            self._plans[key] = self._read_plan(found.plan)
            if len(self._plans) > PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return self._plans[key]

    def _read_plan(self, data: bytes) -> ReadPlan:
        relations: dict[int, PackedRelation] = {}

        def make(name: str, arity: int, slot: int, layout: int) -> PackedRelation:
            if slot not in relations:
                relations[slot] = PackedRelation(self.store, name, arity, slot, layout)
            return relations[slot]

        plan, enumeration = read_plan(data, make)
        return ReadPlan(plan, enumeration, frozenset(relations.values()))


class _Engines:
    """Those that this process reads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._mapped: WeakValueDictionary[str, OtherEngine] = WeakValueDictionary()
        self._last: OtherEngine | None = None

    def find(self, arena: FileRef) -> OtherEngine:
        with self._lock:
            found = self._mapped.get(arena.name)
            if found is None:
                found = self._mapped[arena.name] = OtherEngine(arena)
            self._last = found
            return found

    def forget_ended(self) -> None:
        """Let the memory of an engine go that is gone."""
        with self._lock:
            if self._last is not None and not is_there(self._last.arena):
                self._last = None

    def lose(self) -> None:
        self._lock = RLock()


ENGINES = _Engines()


@lru_cache(PLANS)
def read_common(data: bytes) -> Common:
    found: Common = pickle.loads(data)
    return found


class Lease(Uncopied):
    """The right to read a shared snapshot: a shared lock on its file."""

    def __init__(self, file: FileRef, number: int) -> None:
        import fcntl

        self._lock = Lock()
        self._descriptor = open_file(file)
        try:
            # Only who releases it has another kind of lock, for a moment.
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            magic, state, found, own, common = HEAD.unpack(os.pread(self._descriptor, HEAD.size, 0))
            if (magic, state, found) != (MAGIC, OPEN, number):
                raise SnapshotExpired("its handle is closed, or its lease is over")
            data = os.pread(self._descriptor, own + common, HEAD.size)
        except BaseException as problem:
            self.end()
            if isinstance(problem, BlockingIOError):
                raise SnapshotExpired("its handle is closed") from None
            raise
        self.description: Description = pickle.loads(data[:own])
        self._common = data[own:]

    def read_common(self) -> Common:
        return read_common(self._common)

    def end(self) -> None:
        """Idempotent."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def lose(self) -> None:
        self._lock = Lock()
        self.end()


class OpenedSnapshot(Snapshot):
    """A snapshot of an engine in another process; as any other, but it cannot be shared."""

    lease: Lease

    def share(self, *, lease: str | int | timedelta | None = None) -> NoReturn:  # noqa: ARG002
        """Raises `StateError`: the process of the engine shares."""
        raise StateError(
            "a snapshot of another process's engine cannot be shared; pass on its handle"
        )

    def lose(self) -> None:
        """A forked process must not keep the pin of the one that it was forked from."""
        self._forget("was opened by the process that this one was forked from; open its handle")
        self._version.holders = 0
        self.lease.lose()


OPENED: WeakSet[OpenedSnapshot] = WeakSet()


class _Forks:
    def lose(self) -> None:
        ENGINES.lose()
        for snapshot in list(OPENED):
            snapshot.lose()


_FORKS = _Forks()
call_after_fork(_FORKS.lose)


def open_snapshot(file: FileRef, number: int, what: str) -> Snapshot:
    """A snapshot of another process's engine; see `triegs.read.handle.SnapshotHandle.open`."""
    try:
        lease = Lease(file, number)
    except SnapshotExpired as problem:
        raise SnapshotExpired(f"{what} cannot be opened: {problem}") from None
    try:
        return _open(lease)
    except SnapshotExpired as problem:  # its process has just ended
        lease.end()
        raise SnapshotExpired(f"{what} cannot be opened: {problem}") from None
    except BaseException:
        lease.end()
        raise


def _open(lease: Lease) -> Snapshot:
    found = lease.description
    common = lease.read_common()
    engine = ENGINES.find(common.arena)
    with engine.lock:
        engine.terms.follow(common.terms)
        plan, enumeration, relations = engine.find_plan(common)
    roots = np.frombuffer(bytearray(found.roots), np.int64)
    version = PackedVersion(engine.store, found.version, roots, relations)
    version.holders = 1
    read = RowReader if plan.groups is None else GroupReader
    terms = engine.terms
    reader = read(plan, enumeration, terms.decode_one, terms.load)
    is_over = Event()

    def close() -> None:
        version.holders = 0
        lease.end()
        is_over.set()
        ENGINES.forget_ended()

    epoch, time, _ = found.facts
    snapshot = OpenedSnapshot(
        reader, version, epoch, terms.decoder(common.base), close, time, expires=found.expires
    )
    snapshot.lease = lease
    OPENED.add(snapshot)
    if found.expires is not None:
        # The pin must not wait for a reader that does nothing.
        waiting = (ref(snapshot), found.expires, is_over)
        Thread(target=_end_lease, args=waiting, daemon=True).start()
    return snapshot


def _end_lease(weak: ref[OpenedSnapshot], expires: float, is_over: Event) -> None:
    # Where waiting goes by the clock on the wall, it may end early.
    while (left := expires - monotonic()) > 0:
        if is_over.wait(left):
            return
    snapshot = weak()
    if snapshot is not None:
        snapshot.end_lease()
