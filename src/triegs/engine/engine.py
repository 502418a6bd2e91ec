"""The public class. Every method delegates; see `triegs.engine` for the map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from triegs.copying import Uncopied
from triegs.durable.files import DiskFiles, Files
from triegs.durable.inbox import Taken
from triegs.durable.log import SEGMENT_BYTES
from triegs.durable.opening import Settings, open_engine
from triegs.durable.recovery import Recovery
from triegs.durable.source import QuerySource
from triegs.engine.aggregating import Aggregating
from triegs.engine.epochs import PLAIN, UpdateOptions
from triegs.engine.event_time import PLAIN_PUSH, PushOptions
from triegs.engine.exercise import call_everything
from triegs.engine.internals import EngineInternals
from triegs.engine.metrics import collect_metrics, render_html
from triegs.engine.registration import warn_about
from triegs.engine.report import Report
from triegs.engine.rules import RuleKeeping
from triegs.engine.sliding import Sliding
from triegs.engine.standing_query import StandingQuery
from triegs.engine.state import EngineOptions
from triegs.engine.warmth import warm_up, warm_up_workers
from triegs.errors import BadOption, StateError
from triegs.events import open_input
from triegs.mode import Mode
from triegs.names import BASE, add_base, check_base
from triegs.options import (
    MODES,
    SCHEDULERS,
    KeepName,
    ModeName,
    SchedulerName,
    check_number,
    check_text,
    check_word,
    check_workers,
)
from triegs.placement import PlacementName
from triegs.reason.sets import RuleSources, read_rules
from triegs.shared_memory import IS_AVAILABLE
from triegs.sizes import read_size
from triegs.sparql.window import EVERY, Window
from triegs.store.packed import PackedStore
from triegs.windows.outcomes import Published, Pushed
from triegs.windows.settings import EventTime, check_event_time
from triegs.windows.usage import check_window


class Engine(Aggregating, RuleKeeping, Sliding, Uncopied):
    """A graph under updates, with standing queries that have exact answers.

    `mode` is ``"multigraph"`` (an assertion counts once per event that states it) or ``"rdf"`` (it
    counts once). `prefixes` apply to all queries, in addition to those that a query declares.
    `base` is the IRI prefix of plain names, such as the cells of a mapped table, and the empty
    prefix of queries unless that is given. `memory_limit` bounds the bytes of graph and views,
    without the dictionary (an integer, ``"512MiB"`` or ``"1GB"``): an epoch that does not fit
    raises `MemoryLimitReached` and changes nothing; deletions and expiry are refused only if held
    epochs leave no room, see `docs/engine.md`. `retain_epochs` is how many epochs before the newest
    stay readable. `rules` are ``"rdfs"``, ``"rdfs-plus"``, a file or rule text, or several of
    these: queries also read what they derive (`docs/reasoning.md`). With `shared_memory` (Linux)
    other processes can read its snapshots (`Snapshot.share`), but a process forked from this one
    cannot use the engine. `workers` threads (Linux) share each epoch that is large enough, as
    `scheduler` decides (`docs/scaling.md`); `placement` pins them as in `Lanes`. `store` replaces
    the default store. With `debug` (the default in Python's development mode) a snapshot that is
    dropped without being closed warns, and says where it was taken.

    One thread at a time updates (`apply`, `load`, `register`, closing a query); a second one gets
    `StateError`. Any thread takes and reads snapshots, also during an update.

    >>> engine = Engine(prefixes={"": "http://ex/"})
    >>> fans = engine.register("SELECT ?post ?fan { ?post :hasReply ?r . ?r :likedBy ?fan }")
    >>> reply = ("+", "<http://ex/p1>", "<http://ex/hasReply>", "<http://ex/p2>")
    >>> report = engine.apply([reply, reply,
    ...     ("+", "<http://ex/p2>", "<http://ex/likedBy>", "<http://ex/Mia>")])
    >>> with fans.snapshot() as snap:
    ...     [(answer.post, answer.fan, answer.multiplicity) for answer in snap]
    [('<http://ex/p1>', '<http://ex/Mia>', 2)]
    """

    _instead = (
        "each process makes its own; Engine.open keeps one in a directory, and backup copies that"
    )

    def __init__(
        self,
        mode: Mode | ModeName = "multigraph",
        *,
        prefixes: Mapping[str, str] | None = None,
        memory_limit: int | str | None = None,
        retain_epochs: int = 0,
        store: PackedStore | None = None,
        debug: bool | None = None,
        window: Window | None = None,
        event_time: EventTime | None = None,
        base: str = BASE,
        rules: RuleSources | None = None,
        shared_memory: bool = False,
        workers: int = 1,
        scheduler: SchedulerName = "adaptive",
        placement: PlacementName | Sequence[int] | None = None,
    ) -> None:
        check_word("scheduler", scheduler, SCHEDULERS)
        check_workers(workers)
        if shared_memory and store is not None:
            raise StateError(
                "shared_memory applies only to the default store; make your own store with it"
            )
        if workers > 1 and store is not None:
            raise StateError("workers apply only to the default store; leave out store")
        if workers > 1 and not IS_AVAILABLE:
            raise StateError("several workers need memory files, which only Linux has")
        if memory_limit is not None and store is not None:
            raise StateError(
                "memory_limit applies only to the default store; configure your own store instead"
            )
        limit = None if memory_limit is None else read_size(memory_limit, "memory_limit")
        check_number("retain_epochs", retain_epochs)
        check_event_time(event_time)
        wanted = read_rules(rules, add_base(base, prefixes))
        if not isinstance(mode, Mode):
            check_word("mode", mode, MODES)
        warm_up(partial(call_everything, Engine, open_input))
        if workers > 1:
            warm_up_workers()
        options = EngineOptions(
            Mode(mode), check_base(base), prefixes or {}, retain_epochs, debug, window, event_time,
            workers, scheduler, placement,
        )  # fmt: skip
        self._internals = internals = EngineInternals(
            options,
            PackedStore(memory_limit=limit, shared_memory=shared_memory or workers > 1)
            if store is None
            else store,
        )
        self.mode = internals.mode
        self.base = internals.base
        self._store = internals.store
        self._core = internals.core
        self._windows = internals.windows
        self._dictionary = internals.dictionary
        self._publications = internals.publications
        internals.load_rules(wanted)

    @classmethod
    def open(
        cls,
        directory: str | PathLike[str],
        mode: Mode | ModeName | None = None,
        *,
        sync: str | float = "100ms",
        checkpoint_bytes: int | str | None = None,
        window: Window | None = None,
        event_time: EventTime | None = None,
        **options: Any,
    ) -> Engine:
        """Open the engine that is stored in a directory, or create one there.

        Each epoch is in the log before the call that makes it returns, and so survives a crash of
        the process; `Report.durable` is true once it also survives a power loss. `sync` is when the
        log is synced: ``"always"`` before a call returns, at an interval such as ``"100ms"``, or
        ``"never"``. A checkpoint is taken when the log since the last one has `checkpoint_bytes`,
        64 MiB by default. Mode, window, event time and rules are stored; other options are as for
        `Engine`. `Engine.recovery` says what was found.

        Raises `DirectoryInUse` if another process has it open, `StateDamaged` or `LogDamaged` if a
        file differs from what was written, and `StateError` for a directory with other content,
        which is left unchanged. Cost: the state, and the changes since the last checkpoint.

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
        if mode is not None and not isinstance(mode, Mode):
            check_word("mode", mode, MODES)
        check_window(window)
        check_event_time(event_time)
        size = None
        if checkpoint_bytes is not None:
            size = read_size(checkpoint_bytes, "checkpoint_bytes")
        given = Settings(None if mode is None else Mode(mode).value, window, event_time)
        known = add_base(options.get("base", BASE), options.get("prefixes"))
        rules = read_rules(options.pop("rules", None), known)
        opened = cls._open(Path(directory), given, DiskFiles(), sync, size, **options)
        return opened._agree_rules(rules)

    @classmethod
    def _open(
        cls, directory: Path, settings: Settings, files: Files, sync: str | float,
        checkpoint_bytes: int | None, segment_bytes: int = SEGMENT_BYTES, **options: Any,
    ) -> Engine:  # fmt: skip
        made: list[Engine] = []

        def make(settings: Settings) -> EngineInternals:
            made[:] = [cls._make(settings, **options)]
            return made[0]._internals

        manager = open_engine(
            make, directory, settings, files, sync, checkpoint_bytes, segment_bytes
        )
        made[0]._internals.checkpoint_manager = manager
        return made[0]

    @classmethod
    def _make(cls, settings: Settings, **options: Any) -> Engine:
        """An empty engine with the settings of a directory."""
        mode = Mode(settings.mode or Mode.MULTIGRAPH)
        return cls(mode, window=settings.window, event_time=settings.event_time, **options)

    @property
    def recovery(self) -> Recovery | None:
        """What opening the directory found; None without one."""
        manager = self._internals.checkpoint_manager
        return None if manager is None else manager.recovery

    @property
    def positions(self) -> Mapping[str, Any]:
        """The committed named values, see `note`; empty without a directory."""
        journal = self._internals.journal
        return MappingProxyType({} if journal is None else journal.positions)

    def note(self, positions: Mapping[str, Any], *, now: bool = False) -> None:
        """Commit named values, such as input offsets, with the next change.

        They go into one record with the next epoch, push or watermark: after a crash both are there
        or neither, so an input that resumes from its offset repeats and omits nothing. If that
        change fails, they are dropped and must be noted again. With `now` they are written as a
        record of their own before the call returns; only the updater may do so. Values are anything
        that JSON can represent. Without a directory nothing is stored.
        """
        if not isinstance(positions, Mapping):
            raise BadOption(f"positions must map names to values, not {positions!r}")
        self._internals.check_open()
        journal = self._internals.journal
        if journal is not None:
            journal.note(positions)
            if now:
                try:
                    journal.flush(self.epoch)
                except BaseException:
                    journal.drop()
                    raise

    def take_inbox(self) -> list[Taken]:
        """Take every batch that other processes committed to the directory's inbox, each exactly
        once, by source in the order of their numbers; see `triegs.durable.inbox.commit_batch`.

        A batch with times is pushed to its stream, any other is an epoch. A file that is not a
        table of updates is renamed and reported. Cost: the batches.

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
        return self._internals.require_directory().take_inbox()

    def checkpoint(self, *, if_due: bool = False) -> None:
        """Write the whole state to the directory now, so that opening it takes less time.

        The engine also does this by itself, in the background; with `if_due` this starts a
        background checkpoint if the log is long enough. Cost: the state; updates wait only while
        small parts are copied.
        """
        manager = self._internals.require_directory()
        if not if_due:
            manager.sync_log()
        with self._internals.update():
            if if_due:
                manager.begin_if_due()
                return
            manager.begin()
        manager.finish()

    def sync(self) -> None:
        """Wait until everything so far survives a power loss; no effect without a directory.

        From any thread. Cost: one sync of the log, unless it is synced already.
        """
        journal = self._internals.journal
        if journal is not None:
            journal.log.sync()

    def pace_checkpoints(self, is_ready: Callable[[], bool]) -> None:
        """Start background checkpoints only while `is_ready` returns true.

        A held epoch from before a checkpoint is lost when the directory is reopened. A caller that
        depends on a hold returns false until the newest epoch is held.
        """
        manager = self._internals.checkpoint_manager
        if manager is not None:
            manager.is_ready = is_ready

    def backup(self, target: str | PathLike[str]) -> None:
        """Copy the directory to a new one, as it is now; see ``triegs backup``.

        From any thread, during updates. Cost: the bytes of the directory, read and written.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, Engine.open(f"{folder}/kept") as engine:
        ...     report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        ...     engine.backup(f"{folder}/copy")
        ...     with Engine.open(f"{folder}/copy") as other:
        ...         other.epoch
        1
        """
        from triegs.durable.backup import back_up

        directory = self._internals.require_directory().directory
        back_up(directory, Path(target), lambda settings: Engine._make(settings)._internals)

    @property
    def epoch(self) -> int:
        """The number of the newest published epoch; 0 before the first."""
        return self._internals.epoch

    @property
    def queries(self) -> Mapping[str, StandingQuery]:
        """The registered queries by name."""
        return MappingProxyType(self._internals.registration.queries)

    def register(
        self,
        text: str,
        name: str | None = None,
        *,
        root: str | None = None,
        keep: KeepName | Iterable[KeepName] = (),
        window: Window | None = None,
        time_limit: str | int | timedelta | None = None,
    ) -> StandingQuery:
        """Compile a query, fill its views from the current graph, and maintain it from now on.

        Publishes an epoch, so the query is readable on return. `root` names the head variable at
        the root of the plan, instead of the cheapest. `keep` takes ``"count"``, for
        `Snapshot.count` and `Snapshot.support` in constant time, and ``"slice"``, for answers by
        position; both make updates slower. Cost: the size of its views, and of the labels that no
        query used before.

        A variable in a filter or in the head that no pattern binds is a `QueryWarning`. Parsing and
        compiling do not block the updates of another thread. After a `time_limit` such as ``"5s"``,
        filling is abandoned at the end of the current step.

        Raises `QueryError` for a malformed text, `UnsupportedQuery` for one outside the supported
        fragment, `PlanError` for an impossible root, and `MultiplicityOverflow`,
        `MemoryLimitReached` or `TimeLimitReached`. Then nothing is registered.

        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> report = engine.apply([("+", 1, "<http://ex/p>", 2), ("+", 1, "<http://ex/p>", 3)])
        >>> with engine.register("SELECT ?x { ?x :p ?y }").snapshot() as snap:
        ...     snap.epoch, [(answer.x, answer.multiplicity) for answer in snap.answers("python")]
        (2, [(1, 2)])
        """
        check_text(text)
        kept = (keep,) if isinstance(keep, str) else tuple(keep)
        source = QuerySource(text, name, root, kept, window, self._internals.prefixes)
        warn_about(source.parse(), stacklevel=3)
        return self._internals.registration.register(source, time_limit=time_limit)

    def _register(self, source: QuerySource) -> StandingQuery:
        return self._internals.registration.register(source)

    @property
    def _prefixes(self) -> Mapping[str, str]:
        return self._internals.prefixes

    def apply(
        self,
        updates: Iterable[Sequence[Any]],
        *,
        strict: bool = False,
        time: Any = None,
        map: str | Iterable[str] | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
    ) -> Report:
        """Apply a batch of ``(sign, subject, predicate, object)`` in order, as one epoch.

        Or an Arrow table (anything with ``__arrow_c_stream__``) with the columns subject,
        predicate, object and optionally op. A deletion that matches no event and an update with a
        malformed term are refused and reported, and the rest is applied; with `strict` the whole
        epoch raises `InvalidUpdate` instead. Cost: the affected state.

        With `time` (milliseconds, or a date and time) the epoch has that logical time, which never
        decreases. In an engine with windows this changes the static graph, and `time` is an error.

        With `map`, templates turn each row of a table into triples, as for `push`; a deletion
        removes all triples of a row or none. `columns` renames ``op`` and ``id``.

        >>> engine = Engine()
        >>> engine.apply([("+", 1, "<http://ex/p>", 2), ("-", 2, "<http://ex/p>", 1)])
        Report(epoch=1, refused=(Refused(row=1, reason='no live event states this'),))
        """
        options = PLAIN
        if strict or not time is map is columns is None:
            options = UpdateOptions(strict, time, map, columns)
        return self._internals.epochs.apply(updates, options)

    def load(
        self,
        source: str | PathLike[str] | Any,
        *,
        format: str | None = None,  # noqa: A002
    ) -> Report:
        """Insert every statement of an RDF file as one epoch: N-Triples, N-Quads, Turtle, TriG or
        RDF/XML, by file name or by `format` (``"n-triples"``, ``"n-quads"``, ``"turtle"``,
        ``"trig"`` or ``"rdf-xml"``).

        `source` is a path, or an open binary file with `format`. Graph names of quads are ignored;
        blank nodes are local to the file. A malformed file raises `InvalidUpdate` and changes
        nothing. Cost: about a second per 300,000 statements, and the affected state.

        >>> from io import BytesIO
        >>> Engine().load(BytesIO(b"<http://ex/a> <http://ex/p> 1, 2 ."), format="turtle")
        Report(epoch=1, refused=())
        """
        return self._internals.epochs.load(source, format)

    def hold(self, name: str, epoch: int | None = None) -> int:
        """Keep an epoch readable under a name, by default the newest; returns its number.

        It stays until `release`, and costs the memory that later epochs replace. It holds for every
        query: ``query.snapshot(epoch=name)``. From any thread.

        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> engine.hold("before the fair")
        1
        >>> report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        >>> [step.to_arrow("python").to_pylist() for step in query.changes("before the fair")]
        [[{'x': 7, 'change': 1}]]
        >>> engine.release("before the fair")
        """
        return self._internals.hold(name, epoch)

    def release(self, name: str) -> None:
        """Release the epoch that is held under a name."""
        self._internals.release(name)

    @property
    def holds(self) -> Mapping[str, int]:
        """The held epochs by name."""
        return self._internals.holds

    def push(
        self,
        events: Iterable[Sequence[Any]],
        stream: str | None = None,
        *,
        map: str | Iterable[str] | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        time_unit: str | None = None,
    ) -> Pushed:
        """Take in timed events; they wait until the watermark reaches their slide.

        Tuples ``(time, subject, predicate, object[, op[, id]])``, or an Arrow table with these
        columns. A time is an integer of milliseconds, a date and time, or a string of either; op is
        ``"+"`` by default; the id identifies the event. Malformed, late and stray events are
        counted and reported; see `EventTime`. Cost: the events.

        With `map`, templates over the columns of a table (Arrow, pandas, Polars, anything with
        ``__arrow_c_stream__``) turn each row into one event: see `triegs.events.mapping.parser`.
        The triples of a row come and go together. `columns` says which columns are ``time``, ``op``
        and ``id``; `time_unit` is the unit of numeric times: ``"s"``, ``"ms"``, ``"us"`` or
        ``"ns"``.

        >>> engine = Engine(window=Window("10s"))
        >>> engine.push([(1_000, 1, "<http://ex/p>", 2), (None, 1, "<http://ex/p>", 3)])
        Pushed(first=0, accepted=1, late=0, refused=(Refused(row=1, reason='no time'),))
        >>> import pyarrow as pa
        >>> paid = engine.register("SELECT ?who ?whom { ?who :paid ?whom }")
        >>> table = pa.table({"ts": [2, 3], "from": ["Ann", "Bob"], "to": ["Bob", "Cy"]})
        >>> pushed = engine.push(table, map="{from} :paid {to}", columns={"time": "ts"},
        ...                      time_unit="s")
        >>> published = engine.advance(to=10_000)
        >>> with paid.snapshot() as snapshot:
        ...     sorted((answer.who, answer.whom) for answer in snapshot.answers("plain"))
        [('Ann', 'Bob'), ('Bob', 'Cy')]
        """
        options = PLAIN_PUSH
        if not (stream is None and map is None and columns is None and time_unit is None):
            options = PushOptions(stream, map, columns, time_unit)
        return self._internals.timed_events.push(events, options)

    def advance(self, to: Any = None, stream: str | None = EVERY) -> list[Published]:
        """Move the watermark, and publish every slide up to it, in order.

        `to` is a time; the default for each stream is its largest event time minus the allowed
        lateness. `stream` moves one stream alone; the slowest stream bounds what is published.
        Cost: what the slides change.

        With a directory the call is one record: after a crash all of its slides are there, or none
        and the watermark is where it was. The same holds if the log refuses it (`LogFailed`). If a
        call did not return, `published` has what it published. A slide that does not fit the memory
        limit refuses its events. If held epochs leave no room even to expire events, the call fails
        after the slides before it, and the next call continues there.

        >>> engine = Engine(window=Window("10s", slide="5s"))
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> engine.advance(to=16_000)
        [Published(epoch=2, time=5000, ...), ..., Published(epoch=4, time=15000, refused=())]
        >>> with query.snapshot() as snapshot:
        ...     snapshot.time, len(snapshot)
        (15000, 0)
        """
        return self._internals.timed_events.advance(to, stream, close=False)

    def close_stream(self, stream: str | None = EVERY) -> list[Published]:
        """Declare the end of one stream or of all, and publish everything that is pending.

        The last epoch is the first slide that can contain the last event.

        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(11_000, 1, "<http://ex/p>", 2)])
        >>> [published.time for published in engine.close_stream()]
        [20000]
        """
        return self._internals.timed_events.advance(None, stream, close=True)

    def metrics(self, *, relations: bool = False) -> dict[str, Any]:
        """Current figures: work done, memory used, and what holds it. From any thread.

        - ``epochs``, ``updates``, ``refused``: since the engine was created;
        - ``affected_bindings``: entries of indexes and views that epochs have touched;
        - ``stored_answers``: tuples of materialised joins, 0 while all queries are free-connex;
        - ``queries``, ``stalled``: the number registered, and the names of those that are stalled;
        - ``pins``: epoch, query and age of each held snapshot, with ``expires_s`` if it has a
          lease, and in debug mode ``taken``, where it was taken; shared ones also have ``shared``:
          ``"open"``, or ``"closed"`` while other processes still read it;
        - ``holds``: the epochs held by name; ``held_epochs``: the number of all held epochs;
        - ``durable``, with a directory: the last ``record``, the last synced one, bytes and syncs
          of the log, record, bytes, seconds and pause of the last checkpoint, and whether one is
          being written;
        - ``windows``: the ``watermark``; events that were ``late``, too far ``ahead``, ``refused``,
          ``repeated`` or ``in_gaps``; the number ``pending`` and ``retained``, in ``bytes``;
        - ``workers``, with several: their number and scheduler, the ``epochs`` that they shared,
          those ``given_up`` and left to one worker, the ``hand_off_us`` of a thread, ``placement``;
        - ``aggregates``: for each window aggregate its ``name``, how it is ``kept``, its
          ``groups``, the ``unusable`` events in its window, and ``bytes``, including shared ones;
        - ``rules``, with rules: the number of ``rules`` and ``closures``, their ``facts`` and
          ``bytes``, and so far ``derivations``, and facts ``joined`` and ``retracted``;
        - ``terms``: the dictionary; ``live`` are used by events and queries, ``held`` only by
          snapshots;
        - ``entries``, ``live_bytes``, ``retained_bytes``, ``debt_bytes``, ``copied_nodes``,
          ``retired_nodes``, ``shared_bytes``: of the store, see `triegs.store.contract.Statistics`.

        Cost: the registered queries and their relations. With `relations` also ``relations``
        (entries, live and retained bytes of each by name), and the ``bytes`` that each pin alone
        retains: this visits every node, and epochs wait while retained nodes are visited.
        """
        return collect_metrics(self._internals, relations=relations)

    def close(self) -> None:
        """Refuse every further call, and end subscriptions. Snapshots stay readable."""
        self._internals.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._internals.is_closed else f"epoch {self.epoch}"
        count = len(self.queries)
        return (
            f"<Engine {self.mode.value}, {state}, {count} {'query' if count == 1 else 'queries'}>"
        )

    def _repr_html_(self) -> str:
        return render_html(self._internals)
