"""Snapshots that are held: who holds which epoch, since when, and until when at most."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from triegs.dictionary import Dictionary
from triegs.errors import HistoryGone
from triegs.holds import Holds
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.standing import Standing
from triegs.maintain.walk import Walk
from triegs.read.rows import RowReader
from triegs.read.snapshot import Snapshot
from triegs.sparql.window import read_span
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedStore, PackedVersion
from triegs.windows.clock import Clock

FEW = 4  # that are told of


class Pin(NamedTuple):
    """Who holds an epoch, since when, and until when at most."""

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
    """The snapshots of one engine. From any thread.

    With `debug` a snapshot knows the place where it was taken.
    """

    def __init__(
        self, store: PackedStore, core: CompiledCore, words: Dictionary, clock: Clock,
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
        #: Those of the pins that have an end.
        self.leases: dict[object, Pin] = {}

    def take(
        self,
        query: str,
        standing: Standing,
        epoch: int | str | None = None,
        lease: str | int | timedelta | None = None,
    ) -> Snapshot:
        """Hold an epoch, the newest unless given. Cost: constant."""
        expires = None if lease is None else monotonic() + read_span(lease) / 1000
        version, walk = self._show(standing, epoch)
        token = object()

        def close() -> None:
            self._pins.pop(token, None)
            self.leases.pop(token, None)
            self._store.unpin(version)

        reader = RowReader(standing.plan, walk, self._decode_one)
        number = version.number - self._clock.first
        taken = find_caller() if self._debug else None
        decoder = self._words.decoder()
        time = self._clock.find(version.number)
        snapshot = Snapshot(
            reader, version, number, decoder, close, time, expires=expires, taken=taken
        )
        pin = Pin(version, query, monotonic(), expires, taken, ref(snapshot))
        self._pins[token] = pin
        if expires is not None:
            self.leases[token] = pin
        return snapshot

    def take_since(self, query: str, standing: Standing, since: int | str) -> list[Snapshot]:
        """Snapshots of an epoch and of all later ones that are held, and of the newest."""
        found = [self.take(query, standing, since)]
        for number in self._store.held():
            epoch = number - self._clock.first
            if epoch > found[-1].epoch:
                with suppress(HistoryGone):  # let go meanwhile
                    found.append(self.take(query, standing, epoch))
        found.append(self.take(query, standing))
        kept = [found[0]]
        for snapshot in found[1:]:
            if snapshot.epoch > kept[-1].epoch:
                kept.append(snapshot)
            else:
                snapshot.close()
        return kept

    def end_leases(self) -> None:
        """End those that are over."""
        for pin in list(self.leases.values()) if self.leases else ():
            snapshot = pin.snapshot()
            if snapshot is not None:
                snapshot.end_lease()

    def describe(self, *, measure: bool = False) -> list[dict[str, Any]]:
        """What is held; with `measure` also the bytes that each pin alone keeps."""
        now = monotonic()
        found = []
        for pin in list(self._pins.values()):
            described = pin.describe(self._clock.first, now)
            if measure:
                with suppress(VersionGone):  # let go meanwhile
                    described["bytes"] = self._store.measure_pin(pin.version)
            found.append(described)
        return found

    def tell_retained(self) -> str:
        """What held epochs keep from being freed, for whoever finds no room. Cost: a visit of what
        the oldest of them retain.
        """
        retained = self._store.statistics().retained_bytes
        if not retained:
            return ""
        holders: dict[int, list[str]] = {}
        for pin in list(self._pins.values()):
            holders.setdefault(pin.version.number, []).append(f"a snapshot of {pin.query!r}")
        for name, number in self._holds.named.items():
            holders.setdefault(number, []).append(f"the hold {name!r}")
        told = []
        for number in self._store.held()[:FEW]:
            with suppress(VersionGone):  # let go meanwhile
                version = self._store.pin(number)
                size = self._store.measure_pin(version)
                self._store.unpin(version)
                who = ", ".join(holders.get(number, ["retain_epochs or a stalled query"])[:FEW])
                told.append(f"epoch {number - self._clock.first} {size:,} ({who})")
        return f"; held epochs retain {retained:,} bytes, the oldest: {'; '.join(told)}"

    def refuse(self, epoch: int | str | None) -> HistoryGone:
        """What says that an epoch is not held, and which are."""
        held = sorted({*self._store.held(), self._store.newest.number})
        shown = ", ".join(str(number - self._clock.first) for number in held[-8:])
        return HistoryGone(
            f"epoch {epoch} is not held, or was before the query; held are {shown} "
            f"(retain_epochs and hold keep epochs)"
        )

    def _show(self, standing: Standing, epoch: int | str | None) -> tuple[PackedVersion, Walk]:
        if epoch is None:
            return self._core.show(standing)
        first = self._clock.first
        number = self._holds.find(epoch) if isinstance(epoch, str) else epoch + first
        try:
            return self._core.show_at(standing, number)
        except VersionGone:
            raise self.refuse(epoch) from None


def find_caller() -> str:
    """The place outside of this package from which it was called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("triegs."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
