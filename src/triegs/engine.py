"""The engine: register queries, apply epochs, read snapshots. Read this first.

```
updates ──► dictionary (terms to ids) ──► maintain (one pass of differences) ──► publish ──► read
```
One thread updates at a time; any number of readers hold snapshots meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from itertools import count
from os import PathLike
from pathlib import Path
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ReferenceType, ref

import numpy as np

from triegs.compiler import Plan, compile_query
from triegs.compiler.plan import PlanClass
from triegs.dictionary import Dictionary
from triegs.durable.files import DiskFiles
from triegs.durable.inbox import Taken
from triegs.durable.journal import Journal, Kind
from triegs.durable.keeper import Keeper
from triegs.durable.source import QuerySource
from triegs.durations import read_duration
from triegs.errors import (
    HistoryGone,
    InvalidUpdate,
    MultiplicityOverflow,
    StateError,
    UnsupportedQuery,
)
from triegs.events import CHANGES, Batch, encode_table, encode_tuples
from triegs.exercise import call_everything
from triegs.holds import Holds
from triegs.inputs import open_input
from triegs.kernels.warmth import warm_up
from triegs.load import read_statements
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.core import Core
from triegs.maintain.standing import Refused, Standing
from triegs.maintain.walk import Walk
from triegs.mode import Mode
from triegs.read.changes import NO_CHANGES, Steps
from triegs.read.rows import RowReader
from triegs.read.snapshot import Snapshot
from triegs.sparql import Query, parse
from triegs.sparql.model import is_variable
from triegs.sparql.window import EVERY, Window
from triegs.store.contract import Store, Version, VersionGone
from triegs.store.packed import PackedStore
from triegs.subscription import Event, Publications, Subscription
from triegs.windows.clock import Clock
from triegs.windows.emission import Emission, Emitter
from triegs.windows.encoding import read_time
from triegs.windows.manager import EmitOptions, Published, Pushed, Windows
from triegs.windows.settings import EventTime
from triegs.windows.spaces import SpaceKey

if TYPE_CHECKING:
    from triegs.durable.opening import Recovery

# So many terms without a name may wait until they are freed together.
FEW_TERMS = 64


class Report(NamedTuple):
    """What became of one epoch: its number, and what was refused, in the order of the batch."""

    epoch: int
    refused: tuple[Refused, ...]

    @property
    def durable(self) -> bool:
        """Whether the epoch survives the loss of power; never without a directory."""
        return False

    def wait_durable(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Wait, so many seconds at most, until it does; returns whether it does."""
        return False


class LoggedReport(Report):
    """The report of an engine with a directory."""

    _journal: Journal
    _sequence: int

    def __repr__(self) -> str:
        return f"Report(epoch={self.epoch}, refused={self.refused})"

    @property
    def durable(self) -> bool:
        return self._journal.log.synced >= self._sequence

    def wait_durable(self, timeout: float | None = None) -> bool:
        return self._journal.log.wait(self._sequence, timeout)


class Pin(NamedTuple):
    """Who holds an epoch, since when, and until when at most."""

    version: Version
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


class StandingQuery:
    """A registered query: take snapshots of it, explain it, close it.

    `Engine.register` makes it. ``query`` is what was read from its text, ``plan`` how it is kept.

    >>> with Engine() as engine, engine.register("ASK { ?x ?p ?y }", name="any") as query:
    ...     query
    <StandingQuery 'any', free-connex>
    """

    def __init__(
        self, engine: Engine, name: str, query: Query, standing: Standing, constants: list[int]
    ) -> None:
        self._engine = engine
        self._constants = constants
        self._spaces: list[SpaceKey] = []
        self._source: QuerySource
        self._emitters: list[Emitter] = []
        self._standing: Standing | None = standing
        self.name = name
        self.query = query
        self.plan: Plan = standing.plan

    @property
    def error(self) -> MultiplicityOverflow | None:
        """Why the query is stalled at an older epoch; None while it is up to date."""
        return self._open().error

    def snapshot(
        self, *, epoch: int | str | None = None, lease: str | int | timedelta | None = None
    ) -> Snapshot:
        """Hold a published result of this query, the newest unless `epoch` is given.

        From any thread, at constant cost. What it shows is retained until it is closed, so use it
        in a ``with`` statement. While the query is stalled this is its last good epoch;
        `Snapshot.epoch` says so.

        `epoch` is the number of an epoch that is still held (by `Engine.hold`, `retain_epochs` or
        another snapshot), or the name of a hold; `HistoryGone` for any other. `lease`, such as
        ``"30s"`` or milliseconds, bounds how long it is held: reading it later is
        `SnapshotExpired`, and its memory is freed.
        """
        return self._engine._hold(self, epoch, lease)

    def changes(self, since: int | str) -> Steps:
        """The signed changes since an epoch, one step from each held epoch to the next.

        `since` is as for `snapshot`. Without epochs held in between there is one step, to the
        newest; `Engine(retain_epochs=n)` keeps the last n. Cost: constant per step; reading costs
        what has changed.

        >>> engine = Engine(retain_epochs=2)
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> for number in range(2):
        ...     report = engine.apply([("+", 7, "<http://ex/p>", number)])
        >>> with query.changes(since=1) as steps:
        ...     [(step.since, step.epoch, *step.answers("python")) for step in steps]
        [(1, 2, Change(x=7, change=1)), (2, 3, Change(x=7, change=1))]
        """
        self._engine._refuse_limits(self.plan)
        return Steps(self._engine._hold_since(self, since))

    def subscribe(
        self,
        since: int | str | None = None,
        *,
        snapshot: bool | None = None,
        progress: bool = True,
        callback: Callable[[Event], object] | None = None,
        name: str | None = None,
    ) -> Subscription:
        """Follow the query: a `Snapshot`, then `Changes` as epochs are published, with a
        `Progress` after each epoch that was told.

        `since` goes on from an epoch that is still held, or from a hold, without a snapshot;
        `HistoryGone` says that it is not, and then one starts anew. `snapshot` says otherwise
        whether the result at the start comes first; without it nothing is read that is not asked
        for. `callback` is called with each event in a thread of its own. A subscriber that falls
        behind gets the epochs that it missed as one step. See `triegs.subscription.Subscription`.

        With a `name` it goes on where the last one of that name was, and otherwise begins with a
        snapshot. Its place is the epoch after which more was asked for; it is held, as
        ``"subscription "`` and the name, and in an engine with a directory it is kept there.

        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> with query.subscribe() as subscription:
        ...     report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        ...     for _ in range(4):
        ...         subscription.poll()
        <...Snapshot object at ...>
        Progress(epoch=1)
        <Changes from epoch 1 to 2>
        Progress(epoch=2)
        """
        engine = self._engine
        engine._refuse_limits(self.plan)
        keep = end = None
        if name is not None:
            place, keep, end = engine._name_subscription(name)
            since = place if since is None else since
        try:
            start = engine._hold(self, since)
        except BaseException:
            if end is not None:
                end()
            raise
        return Subscription(
            engine._publications,
            lambda epoch: engine._hold_since(self, epoch)[1:],
            lambda: engine.epoch,
            start,
            is_first=since is None if snapshot is None else snapshot,
            progress=progress,
            callback=callback,
            keep=keep,
            end=end,
        )

    def emit(
        self,
        sink: Callable[[Emission], object],
        operator: str | None = None,
        *,
        report: str = "slide",
        every: str | int | timedelta | None = None,
        terms: str = "ntriples",
    ) -> Emitter:
        """Hand the answers of a windowed query to a function, after its slides.

        `operator` is ``"RSTREAM"`` (all answers), ``"ISTREAM"`` (those that are new since the last
        emission) or ``"DSTREAM"`` (those that are gone); by default what the text registers, else
        RSTREAM. `report` says when: after each ``"slide"``, after a ``"change"`` of an answer, if
        what is emitted is ``"non-empty"``, or ``"periodic"`` with `every`. The function is called
        by `Engine.advance`, epoch by epoch; an exception of it ends that call, and the next one
        goes on. Cost: reading the answers, or what changed in them.

        >>> engine = Engine(window=Window("10s", slide="5s"))
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> def show(emission):
        ...     print(emission.time, emission.answers.to_pylist())
        >>> emitter = query.emit(show, "ISTREAM", report="non-empty", terms="python")
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2), (9_000, 2, "<http://ex/p>", 2)])
        >>> published = engine.advance(to=30_000)
        5000 [{'x': 1, 'multiplicity': 1}]
        10000 [{'x': 2, 'multiplicity': 1}]
        """
        options = EmitOptions(operator, report, every, terms)
        windows = self._engine._windows
        found = windows.emit(self.snapshot, self.query, self._spaces, sink, options)
        self._emitters.append(found)
        return found

    def explain(self, output: str = "text") -> str:
        """The plan as ``"text"``, ``"mermaid"``, ``"svg"`` or ``"json"``.

        >>> query = Engine().register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> print(query.explain().splitlines()[1])
        Class      free-connex: acyclic, and what the head hides can be summed out
        """
        from triegs.explain import explain

        return explain(self.plan, output)

    def close(self) -> None:
        """Give back everything that only this query used; snapshots stay readable.

        Cost: the size of what is given back.
        """
        if self._standing is not None:
            self._engine._close_query(self, self._standing, self._constants)
            self._standing = None

    def _open(self) -> Standing:
        if self._standing is None:
            raise StateError(f"the query {self.name!r} is closed")
        return self._standing

    def __enter__(self) -> StandingQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._standing is None else self.plan.plan_class.value
        return f"<StandingQuery {self.name!r}, {state}>"


class Engine:
    """A graph under updates, and standing queries over it with exact answers.

    `mode` is ``"multigraph"`` (an assertion weighs as many events as state it) or ``"rdf"`` (it
    weighs 1). `prefixes` hold for all queries, beside those that a query declares itself.
    `memory_limit` bounds the bytes of graph and views, dictionary aside: an epoch that finds no
    room is refused by `MemoryLimitReached` and changes nothing. `retain_epochs` is how many epochs
    before the newest stay readable. `store` is for another store than the packed one, such as
    `triegs.store.plain.PlainStore`, which is slow and can be read. With `debug` (by default in
    Python's development mode) a snapshot that is dropped without being closed warns, with the
    place where it was taken.

    One thread at a time updates (`apply`, `load`, `register`, closing a query): a second one gets
    `StateError`. Any thread takes and reads snapshots, also while an update runs.

    >>> engine = Engine(prefixes={"": "http://ex/"})
    >>> fans = engine.register("SELECT ?post ?fan { ?post :hasReply ?r . ?r :likedBy ?fan }")
    >>> reply = ("+", "<http://ex/p1>", "<http://ex/hasReply>", "<http://ex/p2>")
    >>> report = engine.apply([reply, reply,
    ...     ("+", "<http://ex/p2>", "<http://ex/likedBy>", "<http://ex/Mia>")])
    >>> with fans.snapshot() as snap:
    ...     [(answer.post, answer.fan, answer.multiplicity) for answer in snap]
    [('<http://ex/p1>', '<http://ex/Mia>', 2)]
    """

    def __init__(
        self,
        mode: str = "multigraph",
        *,
        prefixes: Mapping[str, str] | None = None,
        memory_limit: int | None = None,
        retain_epochs: int = 0,
        store: Store | None = None,
        debug: bool | None = None,
        window: Window | None = None,
        event_time: EventTime | None = None,
    ) -> None:
        if memory_limit is not None and store is not None:
            raise StateError("memory_limit is for the default store; give it to yours")
        warm_up(partial(call_everything, Engine, open_input))
        self.mode = Mode(mode)
        self._prefixes = dict(prefixes or {})
        self._dictionary = Dictionary()
        self._decode_one = self._dictionary.decode_one
        self._store = PackedStore(memory_limit=memory_limit) if store is None else store
        make: Any = CompiledCore if isinstance(self._store, PackedStore) else Core
        self._core: CompiledCore | Core = make(
            self._store, self._encode, self._decode_one, self.mode
        )
        self._first = self._store.newest.number
        self._clock = Clock(self._store)
        self._windows = Windows(
            self._core, self._dictionary, self._store, self._clock, event_time, window
        )
        self._queries: dict[str, StandingQuery] = {}
        self._pins: dict[object, Pin] = {}
        self._holds = Holds(self._store, retain_epochs)
        self._publications = Publications()
        self._subscribed: set[str] = set()  # the names of subscriptions
        self._leases: dict[object, Pin] = {}  # those of the pins that have an end
        self._debug = sys.flags.dev_mode if debug is None else debug
        self._row = np.zeros((1, 4), np.int64)  # of an epoch of one update
        self._flat_row = self._row.reshape(4)
        self._row_words = self._flat_row.data
        #: None without a directory; `triegs.durable.opening` gives it one.
        self._journal: Journal | None = None
        self._keeper: Keeper | None = None
        self._updating = Lock()
        self._updates = 0
        self._refused = 0
        self._is_closed = False

    @classmethod
    def open(
        cls,
        directory: str | PathLike[str],
        mode: Mode | str | None = None,
        *,
        sync: str | float = "100ms",
        checkpoint_bytes: int | None = None,
        window: Window | None = None,
        event_time: EventTime | None = None,
        **options: Any,
    ) -> Engine:
        """The engine that is kept in a directory, as it was; or a new one that is kept there.

        Each epoch is in the log before the call that makes it returns, and so survives the death of
        the process; `Report.durable` says that it survives a loss of power, too. `sync` says when
        the log is synced: ``"always"`` before a call returns, or at least so often, such as
        ``"100ms"``, or ``"never"``. A checkpoint is taken when the log since the last one has so
        many bytes, 64 MiB unless given. Mode, window and event time are kept; other options are as
        for `Engine`. `Engine.recovery` says what was found.

        Raises `DirectoryInUse` if another process has it open, and `StateDamaged` or `LogDamaged`
        if a file is not what was written. Cost: the state, and what was done since the last
        checkpoint.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as directory:
        ...     with Engine.open(directory) as engine:
        ...         query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }", name="all")
        ...         report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        ...         report.epoch, report.wait_durable()
        ...     with Engine.open(directory) as engine:
        ...         with engine.queries["all"].snapshot() as snap:
        ...             snap.epoch, snap.to_arrow("python").to_pylist()
        (2, True)
        (2, [{'x': 7, 'multiplicity': 1}])
        """
        from triegs.durable.opening import Settings, open_engine

        given = Settings(None if mode is None else Mode(mode).value, window, event_time)
        make = partial(cls, **options)
        return open_engine(make, Path(directory), given, DiskFiles(), sync, checkpoint_bytes)

    @property
    def recovery(self) -> Recovery | None:
        """What opening the directory found; None without one."""
        return None if self._keeper is None else self._keeper.recovery

    @property
    def positions(self) -> Mapping[str, Any]:
        """The values that were noted with what is in the log; none without a directory."""
        return MappingProxyType({} if self._journal is None else self._journal.positions)

    def note(self, positions: Mapping[str, Any], *, now: bool = False) -> None:
        """Let values by name, such as where an input stands, go with the next change.

        They are one record with the next epoch, push or watermark: after a crash both are there or
        neither, so an input that goes on from its position gives nothing twice and leaves nothing
        out. With `now` they are a record of their own, which is written before this returns; the
        updater calls it. Values are what JSON can say. Without a directory nothing is kept.
        """
        if self._journal is not None:
            self._journal.note(positions)
            if now:
                self._journal.flush(self.epoch)

    def take_inbox(self) -> list[Taken]:
        """Take every batch that other processes have committed to the directory's inbox, each
        exactly once, source by source in the order of their numbers; see
        `triegs.durable.inbox.commit_batch`.

        A batch with times is pushed to its stream, any other is an epoch. One that is no table of
        updates is set aside under another name, and reported. Cost: the batches.

        >>> from tempfile import TemporaryDirectory
        >>> import pyarrow as pa
        >>> from triegs.durable.inbox import commit_batch
        >>> row = {"subject": 1, "predicate": "<http://ex/p>", "object": 2}
        >>> with TemporaryDirectory() as directory, Engine.open(directory, sync="always") as engine:
        ...     commit_batch(directory, pa.Table.from_pylist([row]), "feed", 1)
        ...     engine.take_inbox()
        ...     commit_batch(directory, pa.Table.from_pylist([row]), "feed", 1)
        ...     engine.take_inbox()
        True
        [Taken(source='feed', number=1, outcome=Report(epoch=1, refused=()), problem=None)]
        True
        []
        """
        keeper = self._keeper
        if keeper is None:
            raise StateError("this engine has no directory; see Engine.open")
        return keeper.take_inbox()

    def checkpoint(self, *, if_due: bool = False) -> None:
        """Write the whole state to the directory now, so that opening it again has less to do.

        It is done by itself, too, in the background; with `if_due` this begins one there if the
        log is long enough. Cost: the state; updates wait only while what is small is copied.
        """
        keeper = self._keeper
        if keeper is None:
            raise StateError("this engine has no directory; see Engine.open")
        with self._update():
            if if_due:
                keeper.follow()
                return
            keeper.begin()
        keeper.finish()

    def pace_checkpoints(self, is_ready: Callable[[], bool]) -> None:
        """Begin no checkpoint in the background while this says no.

        A held epoch from before a checkpoint is gone when the directory is opened again; who needs
        one says here whether that is the newest.
        """
        if self._keeper is not None:
            self._keeper.is_ready = is_ready

    def backup(self, target: str | PathLike[str]) -> None:
        """Copy the directory to a new one, as it is now; see ``triegs backup``.

        From any thread, while updates go on. Cost: the bytes of the directory, read and written.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, Engine.open(f"{folder}/kept") as engine:
        ...     report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        ...     engine.backup(f"{folder}/copy")
        ...     with Engine.open(f"{folder}/copy") as other:
        ...         other.epoch
        1
        """
        from triegs.durable.backup import back_up

        if self._keeper is None:
            raise StateError("this engine has no directory; see Engine.open")
        back_up(self._keeper.directory, Path(target))

    @property
    def epoch(self) -> int:
        """The number of the newest published epoch; 0 before the first."""
        return self._store.newest.number - self._first

    def _encode(self, term: str) -> int:
        """The id of a constant, or of a label in the space of a window."""
        if term.startswith("#"):
            return self._windows.find_label(term)
        return self._dictionary.encode_one(term)

    @property
    def queries(self) -> Mapping[str, StandingQuery]:
        """The registered queries by name."""
        return MappingProxyType(self._queries)

    def register(
        self,
        text: str,
        name: str | None = None,
        *,
        root: str | None = None,
        keep: Iterable[str] = (),
        window: Window | None = None,
    ) -> StandingQuery:
        """Compile a query, fill its views from the current graph, and keep it from now on.

        Publishes an epoch, so the query is readable on return. `root` names the head variable at
        the root of the plan, instead of the cheapest. `keep` takes ``"count"``, for
        `Snapshot.count` and `Snapshot.support` in constant time, and ``"slice"``, for answers by
        their places; both cost updates. Cost: the size of its views, and of the labels that no
        query named before.

        Raises `QueryError` for a text that is wrong, `UnsupportedQuery` for one that is outside
        the fragment, or cyclic, or aggregates; `PlanError` for a root that the plan cannot have;
        `MultiplicityOverflow` and `MemoryLimitReached` if its views do not fit. Then nothing is
        registered.

        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> report = engine.apply([("+", 1, "<http://ex/p>", 2), ("+", 1, "<http://ex/p>", 3)])
        >>> with engine.register("SELECT ?x { ?x :p ?y }").snapshot() as snap:
        ...     snap.epoch, [(answer.x, answer.multiplicity) for answer in snap.answers("python")]
        (2, [(1, 2)])
        """
        source = QuerySource(text, name, root, tuple(keep), window, self._prefixes)
        return self._register(source)

    def _register(self, source: QuerySource) -> StandingQuery:
        text, name, root, keep, window, prefixes = source
        query, spaces = self._windows.resolve(parse(text, prefixes), window)
        plan = compile_query(query, root=root, keep=list(keep))
        _refuse_for_now(plan)
        with self._update():
            if name is None:
                numbered = (f"query{number}" for number in count(len(self._queries) + 1))
                name = next(each for each in numbered if each not in self._queries)
            elif name in self._queries:
                raise StateError(f"there is a query {name!r} already")
            source = source._replace(name=name)
            constants = [self._dictionary.encode_one(term) for term in _constants(query)]
            try:
                with self._record_query(source, constants), self._windows.use(query, spaces):
                    standing = self._core.register(plan)
                self._dictionary.acquire(constants, self._store.newest.number)
            finally:
                self._free_terms()
            found = self._queries[name] = StandingQuery(self, name, query, standing, constants)
            found._spaces = spaces
            found._source = source
            self._end_epoch()
            return found

    def apply(
        self, updates: Iterable[Sequence[Any]], *, strict: bool = False, time: Any = None
    ) -> Report:
        """One epoch: a batch of ``(sign, subject, predicate, object)``, judged in its order.

        Or an Arrow table (anything with ``__arrow_c_stream__``) with the columns subject,
        predicate, object and perhaps op. A deletion that finds no event, and an update with a
        malformed term, is refused and reported, and the rest holds; with `strict` the whole epoch
        is refused by `InvalidUpdate`. Cost: the affected state.

        With `time` (milliseconds, or a date and time) the epoch has that logical time, which never
        goes back. In an engine with windows this changes the static graph, and takes no time.

        >>> engine = Engine()
        >>> engine.apply([("+", 1, "<http://ex/p>", 2), ("-", 2, "<http://ex/p>", 1)])
        Report(epoch=1, refused=(Refused(place=1, reason='no live event states this'),))
        """
        self._begin()
        few = 1
        try:
            if time is not None:
                self._windows.take_times()
                batch = self._encode_updates(updates)
                self._clock.begin(time)
                try:
                    return self._apply(batch, strict, read_time(time))
                finally:
                    self._clock.end()
            if type(updates) is list and len(updates) == 1 and not strict:
                few = FEW_TERMS
                report = self._apply_one(updates[0])
                if report is not None:
                    return report
            batch = self._encode_updates(updates)
            if len(batch.rows) <= FEW_TERMS:
                few = FEW_TERMS
            return self._apply(batch, strict)
        finally:
            self._end_update(few)

    def _end_update(self, few: int) -> None:
        """Free what is to be freed, begin a checkpoint if one is due, and let others update."""
        try:
            if self._dictionary.is_due(few) or self._windows.identities.is_due(few):
                self._free_terms()
            if self._keeper is not None:
                self._keeper.follow()
        finally:
            self._updating.release()

    def _encode_updates(self, updates: Any) -> Batch:
        if hasattr(updates, "__arrow_c_stream__"):
            return encode_table(self._dictionary, updates)
        return encode_tuples(self._dictionary, updates)

    def _apply_one(self, update: Sequence[Any]) -> Report | None:
        """An epoch of one good update, the quickest way; None if it must go the long way."""
        if self._windows.is_used or self._journal is not None:
            return None
        encode, row = self._dictionary.encode_one, self._row_words
        try:
            sign, subject, predicate, obj = update
            row[0] = CHANGES[sign]
            row[1], row[2], row[3] = encode(subject), encode(predicate), encode(obj)
        except (KeyError, TypeError, ValueError):
            return None  # there it is told why
        epoch = self._core.apply_one(self._flat_row)
        if epoch is None:
            return None
        version, refused = epoch
        if refused:
            self._refused += 1
        else:
            self._dictionary.settle(self._row, version.number)
            self._updates += 1
        if self._is_watched:
            self._end_epoch()
        return Report(version.number - self._first, refused)

    def load(
        self,
        source: str | PathLike[str] | Any,
        *,
        format: str | None = None,  # noqa: A002
    ) -> Report:
        """One epoch that inserts every statement of an RDF file: N-Triples, N-Quads, Turtle,
        TriG or RDF/XML, by the file's name or by `format` (``"n-triples"``, ``"n-quads"``,
        ``"turtle"``, ``"trig"`` or ``"rdf-xml"``).

        `source` is a path, or an open binary file with `format`. Graph names of quads are left
        out; blank nodes are the file's own. A file that is not well-formed is `InvalidUpdate` as a
        whole. Cost: about a second per 300,000 statements, and the affected state.

        >>> from io import BytesIO
        >>> Engine().load(BytesIO(b"<http://ex/a> <http://ex/p> 1, 2 ."), format="turtle")
        Report(epoch=1, refused=())
        """
        with self._update():
            try:
                batch = read_statements(self._dictionary, source, format)
                return self._apply(batch, strict=False)
            finally:
                self._free_terms()

    def _apply(self, batch: Batch, strict: bool, time: int | None = None) -> Report:
        rows, places, malformed = batch
        if malformed and strict:
            message = f"{len(malformed)} updates are malformed; nothing changed"
            raise InvalidUpdate(message, tuple(malformed))
        takes = self._windows.apply_static if self._windows.is_used else self._core.apply
        if self._journal is None:
            version, refused = takes(rows, strict)
        else:
            fields = {"strict": strict, "time": time, "malformed": len(malformed)}
            arrays = self._journal.describe_rows(rows)
            with self._journal.record(Kind.APPLY, self.epoch, fields, arrays):
                version, refused = takes(rows, strict)
        if refused:
            kept = np.delete(rows, [place for place, _ in refused], axis=0)
            self._dictionary.settle(kept, version.number)
        else:
            self._dictionary.settle(rows, version.number)
        self._updates += len(rows) - len(refused)
        if refused or malformed:
            if places is not None:
                refused = tuple(Refused(int(places[place]), why) for place, why in refused)
            refused = tuple(sorted([*malformed, *refused]))
            self._refused += len(refused)
        if self._is_watched:
            self._end_epoch()
        return self._report(version.number - self._first, refused)

    def _apply_again(self, batch: Batch, strict: bool, time: int | None, malformed: int) -> None:
        """An epoch that the log tells of."""
        with self._update():
            try:
                if time is None:
                    self._apply(batch, strict)
                else:
                    self._windows.take_times()
                    self._clock.begin(time)
                    try:
                        self._apply(batch, strict)
                    finally:
                        self._clock.end()
                self._refused += malformed
            finally:
                self._free_terms()

    def _report(self, epoch: int, refused: tuple[Refused, ...]) -> Report:
        if self._journal is None:
            return Report(epoch, refused)
        found = LoggedReport(epoch, refused)
        found._journal, found._sequence = self._journal, self._journal.last
        return found

    def _record_query(
        self, source: QuerySource, constants: list[int]
    ) -> AbstractContextManager[None]:
        if self._journal is None:
            return nullcontext()
        arrays = self._journal.define(np.array(constants, np.int64))
        return self._journal.record(Kind.REGISTER, self.epoch, source.write(), arrays)

    def _record(self, kind: Kind, **fields: Any) -> AbstractContextManager[None]:
        if self._journal is None:
            return nullcontext()
        return self._journal.record(kind, self.epoch, fields)

    def hold(self, name: str, epoch: int | None = None) -> int:
        """Keep an epoch readable under a name, the newest unless given; returns its number.

        It stays until `release`, and costs what later epochs replace. Every query has it:
        ``query.snapshot(epoch=name)``. From any thread.

        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> engine.hold("before the fair")
        1
        >>> report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        >>> [step.to_arrow("python").to_pylist() for step in query.changes("before the fair")]
        [[{'x': 7, 'change': 1}]]
        >>> engine.release("before the fair")
        """
        try:
            number = None if epoch is None else epoch + self._first
            found = self._holds.hold(name, number).number - self._first
        except VersionGone:
            raise self._gone(epoch) from None
        if self._journal is not None:
            self._journal.note_hold(name, found)
        return found

    def release(self, name: str) -> None:
        """Let the epoch go that is held under a name."""
        self._holds.release(name)
        if self._journal is not None:
            self._journal.note_hold(name, None)

    @property
    def holds(self) -> Mapping[str, int]:
        """The epochs that are held by name."""
        return {name: number - self._first for name, number in self._holds.named.items()}

    def push(self, events: Iterable[Sequence[Any]], stream: str | None = None) -> Pushed:
        """Take timed events in; they wait until the watermark brings their slide.

        Tuples ``(time, subject, predicate, object[, op[, id]])``, or an Arrow table with these
        columns. A time is an integer of milliseconds, a date and time, or its ISO 8601 text; op is
        ``"+"`` unless given; the id names the event. What is malformed, late or too far ahead is
        counted and reported; see `EventTime`. Cost: the events.

        >>> engine = Engine(window=Window("10s"))
        >>> engine.push([(1_000, 1, "<http://ex/p>", 2), (None, 1, "<http://ex/p>", 3)])
        Pushed(first=0, accepted=1, late=0, refused=(Refused(place=1, reason='a time is ...'),))
        """
        self._begin()
        windows, journal = self._windows, self._journal
        try:
            found = windows.encode(events, stream)
            if journal is None:
                return windows.push(found, stream)
            fields = {"stream": stream, "given": found.given}
            arrays = journal.describe_events(found)
            with journal.record(Kind.PUSH, self.epoch, fields, arrays):
                return windows.push(found, stream)
        finally:
            self._end_update(FEW_TERMS)

    def advance(self, to: Any = None, stream: str | None = EVERY) -> list[Published]:
        """Move the watermark, and publish every slide up to it, in order.

        `to` is a time; without it each stream goes to its largest event time less the allowed
        lateness. `stream` moves one stream alone: what is published is bound by the slowest.
        Cost: what the slides change.

        >>> engine = Engine(window=Window("10s", slide="5s"))
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> engine.advance(to=16_000)
        [Published(epoch=2, time=5000, ...), ..., Published(epoch=4, time=15000, refused=())]
        >>> with query.snapshot() as snapshot:
        ...     snapshot.time, len(snapshot)
        (15000, 0)
        """
        return list(self.each_slide(to, stream))

    def close_stream(self, stream: str | None = EVERY) -> list[Published]:
        """No more events will come, of one stream or of all: publish everything that waits.

        The last epoch is the first slide that can hold the last event.

        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(11_000, 1, "<http://ex/p>", 2)])
        >>> [published.time for published in engine.close_stream()]
        [20000]
        """
        return list(self.each_slide(stream=stream, close=True))

    def find_end(self) -> int | None:
        """The time up to which `close_stream` would publish: the first slide that can hold the
        last event. None before there is any event.

        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(11_000, 1, "<http://ex/p>", 2)])
        >>> engine.find_end()
        20000
        """
        return self._windows.find_end()

    def each_slide(
        self, to: Any = None, stream: str | None = EVERY, *, close: bool = False
    ) -> Iterator[Published]:
        """As `advance`, or with `close` as `close_stream`, but one slide at a time.

        Whoever iterates can read the answers of a slide before the next one is published. The
        engine takes no other update until the iterator is done or closed.

        >>> engine = Engine(window=Window("10s", slide="5s"))
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> for published in engine.each_slide(to=16_000):
        ...     with query.snapshot() as snapshot:
        ...         published.time, len(snapshot)
        (5000, 1)
        (10000, 1)
        (15000, 0)
        """
        self._begin()
        windows = self._windows
        try:
            time = to if to is None else read_time(to)
            with self._record(Kind.MOVE, to=time, stream=stream, end=close):
                windows.move(to, stream, close)
            for number, time, refused in windows.publish_due():
                epoch = number - self._first
                windows.follow(epoch, time)
                if self._is_watched:
                    self._end_epoch()
                if self._dictionary.is_due(FEW_TERMS):
                    self._free_terms()
                yield Published(epoch, time, refused)
        finally:
            self._end_update(1)

    def metrics(self, *, relations: bool = False) -> dict[str, Any]:
        """Figures of the moment: what was done, what it takes, and who holds what. Any thread.

        - ``epochs``, ``updates``, ``refused``: since the engine was made;
        - ``affected_bindings``: the entries of indexes and views that epochs touched so far;
        - ``stored_answers``: tuples of materialised parts, none while all queries are free-connex;
        - ``queries``, ``stalled``: how many are registered, and the names of those that stall;
        - ``pins``: the epoch, query and age of each snapshot that is held, with ``expires_s`` if
          it has a lease, and in debug mode ``taken``, the place;
        - ``holds``: the epochs that are held by name; ``held_epochs``: how many are held at all;
        - ``durable``, with a directory: the last ``record``, the last that is synced, bytes and
          syncs of the log, and record, bytes, seconds and pause of the last checkpoint;
        - ``windows``: the ``watermark``; events that were ``late``, too far ``ahead``, ``refused``,
          ``repeated`` or ``in_gaps``; how many are ``pending`` and ``retained``, in ``bytes``;
        - ``terms``: of the dictionary; ``live`` are named by events and queries, ``held`` only by
          snapshots;
        - ``entries``, ``live_bytes``, ``retained_bytes``, ``debt_bytes``, ``copied_nodes``,
          ``retired_nodes``: of the store, see `triegs.store.contract.Statistics`.

        Cost: the registered queries and their relations. With `relations` also ``relations``, the
        entries, live and retained bytes of each by name, and the ``bytes`` that each pin alone
        keeps from being freed: a visit of every node, and an epoch waits while the retained ones
        are visited.
        """
        self._end_leases()
        now = monotonic()
        core = self._core
        held = list(self._pins.values())
        pins: list[dict[str, Any]] = [pin.describe(self._first, now) for pin in held]
        more: dict[str, Any] = {}
        if relations:
            measured = self._store.measure_relations()
            more["relations"] = {name: found._asdict() for name, found in measured.items()}
            for pin, described in zip(held, pins, strict=True):
                with suppress(VersionGone):  # let go meanwhile
                    described["bytes"] = self._store.measure_pin(pin.version)
        return {
            "epochs": self.epoch,
            "updates": self._updates,
            "refused": self._refused,
            "affected_bindings": core.affected,
            "stored_answers": core.program.stored_answers(),
            "queries": len(self._queries),
            "stalled": sorted(n for n, q in self._queries.items() if q.error is not None),
            "pins": pins,
            "holds": dict(self.holds),
            "held_epochs": len(self._store.held()),
            "windows": self._windows.metrics(),
            **({} if self._keeper is None else {"durable": self._keeper.metrics()}),
            "terms": self._dictionary.metrics()._asdict(),
            **self._store.statistics()._asdict(),
            **more,
        }

    def close(self) -> None:
        """Refuse every further call, and end subscriptions. Snapshots stay readable."""
        if not self._is_closed:
            self._is_closed = True
            self._holds.clear()
            self._publications.end()
            if self._keeper is not None:
                self._keeper.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"epoch {self.epoch}"
        return f"<Engine {self.mode.value}, {state}, {len(self._queries)} queries>"

    def _begin(self) -> None:
        """One updater at a time; a second is told so instead of waiting in the dark."""
        if self._is_closed:
            raise StateError("the engine is closed")
        if not self._updating.acquire(blocking=False):
            raise StateError("another thread is updating this engine; updates come from one thread")

    @contextmanager
    def _update(self) -> Iterator[None]:
        self._begin()
        try:
            yield
        finally:
            self._updating.release()

    def _free_terms(self) -> None:
        """Let go of terms that no live event, query or held snapshot names."""
        newest, held = self._store.newest.number, self._store.held()
        self._dictionary.collect(newest, held)
        self._windows.identities.collect(newest, held)

    @property
    def _is_watched(self) -> bool:
        """Whether anybody wants to know that an epoch was published."""
        return bool(self._publications.waiting or self._leases or self._holds.retain)

    def _end_epoch(self) -> None:
        """An epoch was published: retain it, end leases that are over, wake who waits."""
        self._holds.follow()
        self._end_leases()
        if self._publications.waiting:
            self._publications.announce()

    def _end_leases(self) -> None:
        for pin in list(self._leases.values()) if self._leases else ():
            snapshot = pin.snapshot()
            if snapshot is not None:
                snapshot.end_lease()

    def _hold(
        self,
        query: StandingQuery,
        epoch: int | str | None = None,
        lease: str | int | timedelta | None = None,
    ) -> Snapshot:
        standing = query._open()
        expires = None if lease is None else monotonic() + read_duration(lease) / 1000
        version, walk = self._show(standing, epoch)
        token = object()

        def close() -> None:
            self._pins.pop(token, None)
            self._leases.pop(token, None)
            self._store.unpin(version)

        reader = RowReader(standing.plan, walk, self._decode_one)
        number = version.number - self._first
        taken = find_caller() if self._debug else None
        decoder = self._dictionary.decoder()
        time = self._clock.find(version.number)
        snapshot = Snapshot(
            reader, version, number, decoder, close, time, expires=expires, taken=taken
        )
        pin = Pin(version, query.name, monotonic(), expires, taken, ref(snapshot))
        self._pins[token] = pin
        if expires is not None:
            self._leases[token] = pin
        return snapshot

    def _show(self, standing: Standing, epoch: int | str | None) -> tuple[Version, Walk]:
        if epoch is None:
            return self._core.show(standing)
        number = self._holds.find(epoch) if isinstance(epoch, str) else epoch + self._first
        try:
            return self._core.show_at(standing, number)
        except VersionGone:
            raise self._gone(epoch) from None

    def _gone(self, epoch: int | str | None) -> HistoryGone:
        held = sorted({*self._store.held(), self._store.newest.number})
        shown = ", ".join(str(number - self._first) for number in held[-8:])
        return HistoryGone(
            f"epoch {epoch} is not held, or was before the query; held are {shown} "
            f"(retain_epochs and hold keep epochs)"
        )

    def _hold_since(self, query: StandingQuery, since: int | str) -> list[Snapshot]:
        """Snapshots of an epoch and of all later ones that are held, and of the newest."""
        found = [self._hold(query, since)]
        for number in self._store.held():
            if number - self._first > found[-1].epoch:
                with suppress(HistoryGone):  # let go meanwhile
                    found.append(self._hold(query, number - self._first))
        found.append(self._hold(query))
        kept = [found[0]]
        for snapshot in found[1:]:
            if snapshot.epoch > kept[-1].epoch:
                kept.append(snapshot)
            else:
                snapshot.close()
        return kept

    def _name_subscription(
        self, name: str
    ) -> tuple[str | None, Callable[[int], None], Callable[[], None]]:
        """The hold with the place of a subscription, if there is one; how to move it, and what to
        do at the end. One of a name at a time.
        """
        if name in self._subscribed:
            raise StateError(f"there is a subscription {name!r} already; close it first")
        self._subscribed.add(name)
        hold = f"subscription {name}"

        def keep(epoch: int) -> None:
            with suppress(VersionGone):  # it was released meanwhile
                self._holds.move(hold, epoch + self._first)
                if self._journal is not None:
                    self._journal.note_hold(hold, epoch)

        def end() -> None:
            self._subscribed.discard(name)

        return hold if hold in self._holds.named else None, keep, end

    @staticmethod
    def _refuse_limits(plan: Plan) -> None:
        if plan.query.limit is not None or plan.query.offset:
            raise StateError(NO_CHANGES)

    def _close_query(self, query: StandingQuery, standing: Standing, constants: list[int]) -> None:
        with self._update(), self._record(Kind.CLOSE, name=query.name):
            for emitter in query._emitters:
                emitter.close()
            self._core.release(standing)
            self._windows.hold(query.query, -1)
            self._windows.close(query._spaces)
            self._dictionary.release(constants, self._store.newest.number)
            self._free_terms()
            del self._queries[query.name]
            self._end_epoch()
            self._publications.announce()


def _constants(query: Query) -> list[str]:
    """The terms that the query's atoms and VALUES rows name."""
    terms = [term for atom in query.atoms for term in atom if not is_variable(term)]
    return terms + [term for block in query.values for row in block.rows for term in row]


def _refuse_for_now(plan: Plan) -> None:
    """What compiles but does not run on the engine yet."""
    query = plan.query
    construct = ""
    if query.grouping is not None:
        construct = "aggregates"
    elif plan.plan_class is PlanClass.CYCLIC:
        construct = "a cyclic pattern"
    if construct:
        raise UnsupportedQuery(
            f"{construct}: this compiles, but the engine does not run it yet",
            line=1, column=1, construct=construct,
            hint="triegs.Reference answers it from scratch",
        )  # fmt: skip


def find_caller() -> str:
    """The place outside of this package from which it was called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("triegs."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
