"""What the modules of an engine share: its components, its one updater, its journal.

One thread updates at a time, between `EngineState.begin_update` and `end_update`. Any number of
threads read snapshots meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from triegs.durable.checkpoint_manager import CheckpointManager
from triegs.durable.journal import Journal, Kind
from triegs.engine.clock import Clock
from triegs.errors import StateError
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.judges import Judges
from triegs.maintain.morsels import WorkerPool
from triegs.mode import Mode
from triegs.names import BASE
from triegs.options import SchedulerName, check_name, check_number
from triegs.placement import PlacementName, plan_placement
from triegs.read.holds import Holds
from triegs.read.pins import Pins
from triegs.read.subscription import Publications
from triegs.shared_memory import call_after_fork
from triegs.sparql.window import Window
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedStore
from triegs.terms.dictionary import Dictionary
from triegs.windows.outcomes import Published
from triegs.windows.settings import EventTime
from triegs.windows.windows import Windows

if TYPE_CHECKING:
    from triegs.engine.aggregates import Aggregates
    from triegs.engine.window_aggregate import WindowAggregate

#: Unreferenced terms are freed together once there are this many.
FEW_TERMS = 64
NO_DIRECTORY = "this engine has no directory; see Engine.open"


class EngineOptions(NamedTuple):
    """The options of `triegs.Engine`, checked."""

    mode: Mode = Mode.MULTIGRAPH
    base: str = BASE
    prefixes: Mapping[str, str] = {}
    retain_epochs: int = 0
    is_debug: bool | None = None
    window: Window | None = None
    event_time: EventTime | None = None
    workers: int = 1
    scheduler: SchedulerName = "adaptive"
    placement: PlacementName | Sequence[int] | None = None


class EngineState:
    """The components of one engine, and what happens around each update."""

    #: `triegs.engine.internals` sets it.
    aggregating: Aggregates

    def __init__(self, options: EngineOptions, store: PackedStore) -> None:
        self.mode = options.mode
        self.base = options.base
        self.prefixes = {"": options.base, **options.prefixes}
        self.dictionary = Dictionary(shared_memory=store.is_shared)
        self.dictionary.base = options.base
        self.store = store
        judges = Judges(self.dictionary.decode_one, self.dictionary.read_terms)
        self.core = CompiledCore(store, self._encode, judges, options.mode, self.dictionary)
        if options.workers > 1:
            self.core.share_epochs(
                WorkerPool(
                    store, judges, options.workers, options.scheduler,
                    plan_placement(options.placement, options.workers),
                )
            )  # fmt: skip
        self.dictionary.on_free.append(self.core.forget_terms)
        self.clock = Clock(store)
        self.windows = Windows(
            self.core, self.dictionary, store, self.clock, options.event_time, options.window
        )
        self.held = Holds(store, options.retain_epochs)
        is_debug = sys.flags.dev_mode if options.is_debug is None else options.is_debug
        self.pins = Pins(store, self.core, self.dictionary, self.clock, self.held, is_debug)
        self.core.describe_pins = self.pins.describe_retained
        self.publications = Publications()
        self.aggregates: dict[str, WindowAggregate] = {}
        #: None without a directory; `triegs.durable.opening` sets both.
        self.journal: Journal | None = None
        self.checkpoint_manager: CheckpointManager | None = None
        #: The slides of the last call that moved the watermark.
        self.published: tuple[Published, ...] = ()
        self.updates = 0
        self.refused = 0
        self.is_closed = False
        self._why_closed = "the engine is closed"
        self._updating = Lock()
        self._subscriptions: set[str] = set()
        if store.is_shared:
            self._process = os.getpid()
            call_after_fork(self._lose)

    def _lose(self) -> None:
        """In a forked process: its engine would change the memory of the other one's."""
        why = (
            f"the engine is in shared memory and belongs to process {self._process}, from which "
            f"this one was forked; snapshot.share() gives what other processes read"
        )
        self.is_closed, self._why_closed = True, why
        self.pins.forget(f"belongs to process {self._process}, from which this one was forked; "
                         f"snapshot.share() gives what other processes read")  # fmt: skip
        self.store.lose(why)
        self.dictionary.lose()

    @property
    def epoch(self) -> int:
        return self.store.newest.number - self.clock.first

    def _encode(self, term: str) -> int:
        """The id of a constant, or of a label in the graph of a window."""
        if term.startswith("#"):
            return self.windows.find_label(term)
        return self.dictionary.encode_one(term)

    # Updates

    def check_open(self) -> None:
        if self.is_closed:
            raise StateError(self._why_closed)

    def begin_update(self) -> None:
        """Become the one updater; a second thread gets an error instead of waiting."""
        self.check_open()
        if not self._updating.acquire(blocking=False):
            raise StateError(
                "another thread is updating this engine, or a loop over each_slide or an emitter's "
                "function has not finished; only one update may run at a time"
            )

    def end_update(self, few: int, *, checkpoints: bool = True) -> None:
        """Free terms, begin a checkpoint if one is due, and admit the next updater."""
        try:
            if self.dictionary.is_due(few) or self.windows.identities.is_due(few):
                self.free_terms()
            if checkpoints and self.checkpoint_manager is not None:
                self.checkpoint_manager.begin_if_due()
        finally:
            self._updating.release()

    @contextmanager
    def update(self) -> Iterator[None]:
        self.begin_update()
        try:
            yield
        finally:
            self._updating.release()

    def record(self, kind: Kind, **fields: Any) -> AbstractContextManager[None]:
        """Log a change that is made within a ``with``; nothing without a directory."""
        if self.journal is None:
            return nullcontext()
        return self.journal.record(kind, self.epoch, fields)

    def drop_notes(self) -> None:
        """Forget the named values that were to be committed with a change that failed."""
        if self.journal is not None:
            self.journal.drop()

    def free_terms(self) -> None:
        """Free the terms that no live event, query or held snapshot references."""
        newest, held = self.store.newest.number, self.store.held()
        self.dictionary.collect(newest, held)
        self.windows.identities.collect(newest, held)

    # Published epochs

    @property
    def is_watched(self) -> bool:
        """Whether publishing an epoch has anything to notify."""
        publications, pins = self.publications, self.pins
        return bool(
            publications.waiting or publications.followers or pins.leases or pins.handles.watched
            or self.held.retain or self.aggregating.has_answers
        )  # fmt: skip

    def end_epoch(self) -> None:
        """An epoch was published: retain it, end expired leases, notify subscribers."""
        self.aggregating.follow_answers()
        self.held.follow()
        self.pins.end_leases()
        for follow in tuple(self.publications.followers):
            follow()
        if self.publications.waiting:
            self.publications.announce()

    # Held epochs

    @property
    def holds(self) -> Mapping[str, int]:
        first = self.clock.first
        return {name: number - first for name, number in self.held.named.items()}

    def hold(self, name: str, epoch: int | None = None) -> int:
        check_name(name)
        if epoch is not None:
            check_number("epoch", epoch)
        self.check_open()
        try:
            number = None if epoch is None else epoch + self.clock.first
            found = self.held.hold(name, number).number - self.clock.first
        except VersionGone:
            raise self.pins.refuse(epoch) from None
        if self.journal is not None:
            self.journal.note_hold(name, found)
        return found

    def release(self, name: str) -> None:
        self.held.release(name)
        if self.journal is not None:
            self.journal.note_hold(name, None)

    def name_subscription(
        self, name: str
    ) -> tuple[str | None, Callable[[int], None], Callable[[], None]]:
        """Claim the name of a subscription. Returns the hold that has its position, if there is
        one, a function that moves that hold, and one that gives the name back.
        """
        if name in self._subscriptions:
            raise StateError(f"a subscription {name!r} is already open; close it first")
        self._subscriptions.add(name)
        hold = f"subscription {name}"

        def keep(epoch: int) -> None:
            with suppress(VersionGone):  # released meanwhile
                self.held.move(hold, epoch + self.clock.first)
                if self.journal is not None:
                    self.journal.note_hold(hold, epoch)

        def end() -> None:
            self._subscriptions.discard(name)

        return hold if hold in self.held.named else None, keep, end

    def require_directory(self) -> CheckpointManager:
        """The manager of the directory; `StateError` without one."""
        if self.checkpoint_manager is None:
            raise StateError(NO_DIRECTORY)
        return self.checkpoint_manager

    def close(self) -> None:
        """Refuse further updates, end subscriptions, close the directory."""
        if not self.is_closed:
            self.is_closed = True
            self.aggregating.end()
            self.held.clear()
            self.publications.end()
            if self.core.worker_pool is not None:
                self.core.worker_pool.close()
            if self.checkpoint_manager is not None:
                self.checkpoint_manager.close()
