"""Pinned epochs: which snapshot pins which epoch, since when, and for how long at most."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, Protocol
from weakref import ReferenceType, ref

from triegs.errors import HistoryGone
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.maintain.standing import RegisteredPlan
from triegs.read.groups import GroupReader
from triegs.read.handle import Facts, SnapshotHandle
from triegs.read.handles import Handles, QueryVersion, Shared
from triegs.read.holds import Holds
from triegs.read.rows import RowReader
from triegs.read.snapshot import Snapshot
from triegs.sparql.window import read_span
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedStore, PackedVersion
from triegs.terms.dictionary import Dictionary

FEW = 4  # epochs, and holders of each, that an error message lists


class EpochTimes(Protocol):
    """The numbers and the times of epochs."""

    @property
    def first(self) -> int:
        """The version that is epoch 0."""

    def find(self, number: int) -> int | None:
        """The time of a held version."""


class Pin(NamedTuple):
    """A pinned epoch: by which query's snapshot, since when, and until when at most."""

    version: PackedVersion
    query: str
    since: float
    expires: float | None
    taken: str | None
    snapshot: ReferenceType[Snapshot]

    def describe(self, first: int, now: float) -> dict[str, Any]:
        found: dict[str, Any] = {
            "epoch": self.version.number - first,
            "query": self.query,
            "age_s": now - self.since,
        }
        if self.expires is not None:
            found["expires_s"] = self.expires - now
        if self.taken is not None:
            found["taken"] = self.taken
        return found


class Pins:
    """The open snapshots of one engine. From any thread.

    With `debug` a snapshot records where it was taken.
    """

    def __init__(
        self, store: PackedStore, core: CompiledCore, words: Dictionary, clock: EpochTimes,
        holds: Holds, debug: bool,
    ) -> None:  # fmt: skip
        self._store = store
        self._core = core
        self._words = words
        self._decode_one = words.decode_one
        self._clock = clock
        self._holds = holds
        self._debug = debug
        self._pins: dict[object, Pin] = {}
        self.handles = Handles(store, words, self._make)
        #: The pins with a lease.
        self.leases: dict[object, Pin] = {}

    def take(
        self,
        query: str,
        registered: RegisteredPlan,
        epoch: int | str | None = None,
        lease: str | int | timedelta | None = None,
    ) -> Snapshot:
        """Pin an epoch, by default the newest. Cost: constant."""
        expires = None if lease is None else monotonic() + read_span(lease) / 1000
        version, enumeration = self._show(registered, epoch)
        return self._make(QueryVersion(query, registered.plan, enumeration, version), expires)

    def _make(self, shown: QueryVersion, expires: float | None) -> Snapshot:
        """A snapshot of a version that was pinned for it."""
        query, plan, enumeration, version = shown
        token = object()

        def close() -> None:
            self._pins.pop(token, None)
            self.leases.pop(token, None)
            self._store.unpin(version)

        read = RowReader if plan.groups is None else GroupReader
        load = self._words.decoder().load
        reader = read(plan, enumeration, self._decode_one, load)
        number = version.number - self._clock.first
        taken = find_caller() if self._debug else None
        decoder = self._words.decoder(shared=True)
        time = self._clock.find(version.number)
        snapshot = Snapshot(
            reader, version, number, decoder, close, time, expires=expires, taken=taken
        )
        snapshot._share = partial(self._share_snapshot, query)
        pin = Pin(version, query, monotonic(), expires, taken, ref(snapshot))
        self._pins[token] = pin
        if expires is not None:
            self.leases[token] = pin
        return snapshot

    def share(
        self,
        query: str,
        registered: RegisteredPlan,
        epoch: int | str | None = None,
        lease: str | int | timedelta | None = None,
    ) -> SnapshotHandle:
        """Share an epoch, by default the newest. Cost: constant."""
        expires = None if lease is None else monotonic() + read_span(lease) / 1000
        version, enumeration = self._show(registered, epoch)
        return self._share(QueryVersion(query, registered.plan, enumeration, version), expires)

    def _share_snapshot(
        self, query: str, snapshot: Snapshot, lease: str | int | timedelta | None
    ) -> SnapshotHandle:
        expires = snapshot._expires if lease is None else monotonic() + read_span(lease) / 1000
        reader, version = snapshot._reader, self._store.pin(snapshot._version)
        return self._share(QueryVersion(query, reader.plan, reader.enumeration, version), expires)

    def _share(self, shown: QueryVersion, expires: float | None) -> SnapshotHandle:
        """Share a version that was pinned for it."""
        number = shown.version.number
        names = tuple(name.lstrip("?") for name in shown.plan.query.head)
        facts = Facts(number - self._clock.first, self._clock.find(number), names)
        taken = find_caller() if self._debug else None
        return self.handles.share(shown, facts, expires, taken)

    def forget(self, why: str) -> None:
        """In a process that was forked from the one of the engine."""
        for pin in self._pins.values():
            snapshot = pin.snapshot()
            if snapshot is not None:
                snapshot._forget(why)
        self._pins, self.leases = {}, {}
        self.handles.lose()

    def take_since(
        self,
        query: str,
        registered: RegisteredPlan,
        since: int | str,
        lease: str | int | timedelta | None = None,
    ) -> list[Snapshot]:
        """Snapshots of an epoch, of all later held ones, and of the newest."""
        found = [self.take(query, registered, since, lease)]
        for number in self._store.held():
            epoch = number - self._clock.first
            if epoch > found[-1].epoch:
                with suppress(HistoryGone):  # released meanwhile
                    found.append(self.take(query, registered, epoch, lease))
        found.append(self.take(query, registered, lease=lease))
        kept = [found[0]]
        for snapshot in found[1:]:
            if snapshot.epoch > kept[-1].epoch:
                kept.append(snapshot)
            else:
                snapshot.close()
        return kept

    def end_leases(self) -> None:
        """Close the snapshots whose leases have expired, and release what nobody in another process
        reads any more.
        """
        self.handles.follow(at_once=False)
        for pin in list(self.leases.values()) if self.leases else ():
            snapshot = pin.snapshot()
            if snapshot is not None:
                snapshot.end_lease()

    def describe(self, *, measure: bool = False) -> list[dict[str, Any]]:
        """The pins; with `measure` also the bytes that each alone retains."""
        self.handles.follow(at_once=True)
        now = monotonic()
        found = []
        pins: list[Pin | Shared] = [*self._pins.values(), *self.handles.list_shared()]
        for pin in pins:
            described = pin.describe(self._clock.first, now)
            if measure:
                with suppress(VersionGone):  # released meanwhile
                    described["bytes"] = self._store.measure_pin(pin.version)
            found.append(described)
        return found

    def describe_retained(self) -> str:
        """What held epochs retain, for the message of `MemoryLimitReached`. Cost: a visit of what
        the oldest of them retain.
        """
        retained = self._store.statistics().retained_bytes
        if not retained:
            return ""
        holders: dict[int, list[str]] = {}
        for pin in list(self._pins.values()):
            holders.setdefault(pin.version.number, []).append(f"a snapshot of {pin.query!r}")
        for shared in self.handles.list_shared():
            name = f"a shared snapshot of {shared.query!r}"
            holders.setdefault(shared.version.number, []).append(name)
        for name, number in self._holds.named.items():
            holders.setdefault(number, []).append(f"the hold {name!r}")
        described = []
        for number in self._store.held()[:FEW]:
            with suppress(VersionGone):  # released meanwhile
                version = self._store.pin(number)
                size = self._store.measure_pin(version)
                self._store.unpin(version)
                who = ", ".join(holders.get(number, ["retain_epochs or a stalled query"])[:FEW])
                described.append(f"epoch {number - self._clock.first} {size:,} ({who})")
        return f"; held epochs retain {retained:,} bytes, the oldest: {'; '.join(described)}"

    def refuse(self, epoch: int | str | None) -> HistoryGone:
        """The error for an epoch that is not held; it lists those that are."""
        held = sorted({*self._store.held(), self._store.newest.number})
        shown = ", ".join(str(number - self._clock.first) for number in held[-8:])
        return HistoryGone(
            f"epoch {epoch} is not held, or is older than the query; held epochs: {shown} "
            f"(retain_epochs and hold keep epochs)"
        )

    def _show(
        self, registered: RegisteredPlan, epoch: int | str | None
    ) -> tuple[PackedVersion, EnumerationPlan]:
        if epoch is None:
            return self._core.show(registered)
        first = self._clock.first
        number = self._holds.find(epoch) if isinstance(epoch, str) else epoch + first
        try:
            return self._core.show_at(registered, number)
        except VersionGone:
            raise self.refuse(epoch) from None


def find_caller() -> str:
    """The file and line outside this package that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("triegs."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
