"""The engine: register queries, apply epochs, read snapshots. Read this first.

```
updates ──► dictionary (terms to ids) ──► maintain (one pass of differences) ──► publish ──► read
```
One thread updates at a time; any number of readers hold snapshots meanwhile.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from os import PathLike
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from triegs.compiler import Plan, compile_query
from triegs.copying import Uncopied
from triegs.dictionary import Dictionary
from triegs.durable.files import DiskFiles
from triegs.durable.inbox import Taken
from triegs.durable.journal import Journal, Kind
from triegs.durable.keeper import Keeper
from triegs.durable.source import QuerySource
from triegs.errors import (
    InvalidUpdate,
    LogFailed,
    QueryWarning,
    StateError,
    UnsupportedQuery,
)
from triegs.events import Batch, check_many, encode_table, encode_tuples
from triegs.exercise import call_everything
from triegs.holds import Holds
from triegs.inputs import open_input
from triegs.inputs.signs import CHANGES
from triegs.kernels.warmth import warm_up
from triegs.load import read_statements
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.judges import Judges
from triegs.maintain.standing import Refused, Standing
from triegs.mapping.rows import SAME_ROW
from triegs.mode import Mode
from triegs.names import BASE, check_base
from triegs.notebook import MOST_SHOWN, write_card, write_table
from triegs.options import (
    MODES,
    KeepName,
    ModeName,
    check_number,
    check_prefixes,
    check_text,
    check_word,
)
from triegs.pins import Pins
from triegs.report import LoggedReport, Report
from triegs.sizes import read_size
from triegs.sparql import Query
from triegs.sparql.model import is_variable
from triegs.sparql.window import EVERY, Window, name_stream
from triegs.standing_query import StandingQuery
from triegs.store.contract import VersionGone
from triegs.store.packed import PackedStore
from triegs.subscription import Publications
from triegs.windows.clock import Clock
from triegs.windows.encoding import read_time
from triegs.windows.manager import Published, Pushed, Windows
from triegs.windows.rows import RowReading, judge_rows, read_rows
from triegs.windows.settings import EventTime

if TYPE_CHECKING:
    from triegs.durable.opening import Recovery

log_messages = logging.getLogger("triegs")
# So many terms without a name may wait until they are freed together.
FEW_TERMS = 64


class Engine(Uncopied):
    """A graph under updates, and standing queries over it with exact answers.

    `mode` is ``"multigraph"`` (an assertion weighs as many events as state it) or ``"rdf"`` (it
    weighs 1). `prefixes` hold for all queries, beside those that a query declares itself. `base` is
    where plain names are, such as cells of a table that `push` or `apply` maps: an IRI before
    them, and the empty prefix of queries unless that is given.
    `memory_limit` bounds the bytes of graph and views, dictionary aside (an integer, or
    ``"512MiB"``, ``"1GB"``): an epoch that finds no room is refused by `MemoryLimitReached` and
    changes nothing, but deletions and what expires are never refused; see `docs/engine.md`.
    `retain_epochs` is how many epochs before the newest stay readable. `store` is one with
    other settings than the default.
    With `debug` (by default in Python's development mode) a snapshot that is dropped without being
    closed warns, with the place where it was taken.

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

    _instead = "each process makes its own; Engine.open keeps one in a directory, backup copies it"

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
    ) -> None:
        if memory_limit is not None and store is not None:
            raise StateError("memory_limit is for the default store; give it to yours")
        limit = None if memory_limit is None else read_size(memory_limit, "memory_limit")
        check_number("retain_epochs", retain_epochs)
        check_prefixes(prefixes or {})
        if not isinstance(mode, Mode):
            check_word("mode", mode, MODES)
        warm_up(partial(call_everything, Engine, open_input))
        self.mode = Mode(mode)
        self.base = check_base(base)
        self._prefixes = {"": self.base, **(prefixes or {})}
        self._dictionary = Dictionary()
        self._dictionary.base = self.base
        self._decode_one = self._dictionary.decode_one
        self._store = PackedStore(memory_limit=limit) if store is None else store
        judges = Judges(self._decode_one, self._dictionary.read_terms)
        self._dictionary.on_free = judges.forget
        self._core = CompiledCore(self._store, self._encode, judges, self.mode)
        self._clock = Clock(self._store)
        self._windows = Windows(
            self._core, self._dictionary, self._store, self._clock, event_time, window
        )
        self._queries: dict[str, StandingQuery] = {}
        self._holds = Holds(self._store, retain_epochs)
        is_debug = sys.flags.dev_mode if debug is None else debug
        self._pins = Pins(
            self._store, self._core, self._dictionary, self._clock, self._holds, is_debug
        )
        self._core.tell_pins = self._pins.tell_retained
        self._publications = Publications()
        self._subscribed: set[str] = set()  # the names of subscriptions
        self._row = np.zeros((1, 4), np.int64)  # of an epoch of one update
        self._flat_row = self._row.reshape(4)
        self._row_words = self._flat_row.data
        #: None without a directory; `triegs.durable.opening` gives it one.
        self._journal: Journal | None = None
        self._keeper: Keeper | None = None
        self._updating = Lock()
        self._published: tuple[Published, ...] = ()
        self._updates = 0
        self._refused = 0
        self._is_closed = False

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
        """The engine that is kept in a directory, as it was; or a new one that is kept there.

        Each epoch is in the log before the call that makes it returns, and so survives the death of
        the process; `Report.durable` says that it survives a loss of power, too. `sync` says when
        the log is synced: ``"always"`` before a call returns, or at least so often, such as
        ``"100ms"``, or ``"never"``. A checkpoint is taken when the log since the last one has so
        many bytes, 64 MiB unless given. Mode, window and event time are kept; other options are as
        for `Engine`. `Engine.recovery` says what was found.

        Raises `DirectoryInUse` if another process has it open, and `StateDamaged` or `LogDamaged`
        if a file is not what was written; `StateError` for a directory with other things in it,
        which is left as it is. Cost: the state, and what was done since the last
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

        if mode is not None and not isinstance(mode, Mode):
            check_word("mode", mode, MODES)
        size = None
        if checkpoint_bytes is not None:
            size = read_size(checkpoint_bytes, "checkpoint_bytes")
        given = Settings(None if mode is None else Mode(mode).value, window, event_time)
        make = partial(cls, **options)
        return open_engine(make, Path(directory), given, DiskFiles(), sync, size)

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
        out. If that fails they are not kept, and are to be noted again. With `now` they are a
        record of their own, which is written before this returns; the updater calls it. Values are
        what JSON can say. Without a directory nothing is kept.
        """
        if self._journal is not None:
            self._journal.note(positions)
            if now:
                try:
                    self._journal.flush(self.epoch)
                except BaseException:
                    self._drop_notes()
                    raise

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
        if not if_due:
            keeper.settle()
        with self._update():
            if if_due:
                keeper.follow()
                return
            keeper.begin()
        keeper.finish()

    def sync(self) -> None:
        """Wait until everything so far survives a loss of power; nothing without a directory.

        From any thread. Cost: a sync of the log, unless there was one since.
        """
        if self._journal is not None:
            self._journal.log.sync()

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
        return self._store.newest.number - self._clock.first

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
        keep: KeepName | Iterable[KeepName] = (),
        window: Window | None = None,
    ) -> StandingQuery:
        """Compile a query, fill its views from the current graph, and keep it from now on.

        Publishes an epoch, so the query is readable on return. `root` names the head variable at
        the root of the plan, instead of the cheapest. `keep` takes ``"count"``, for
        `Snapshot.count` and `Snapshot.support` in constant time, and ``"slice"``, for answers by
        their places; both cost updates. Cost: the size of its views, and of the labels that no
        query named before.

        A variable in a filter or in the head that no pattern binds is a `QueryWarning`. The text is
        parsed and compiled before the engine is touched, so that another thread's epochs go on.

        Raises `QueryError` for a text that is wrong, `UnsupportedQuery` for one that is outside
        the fragment, or aggregates; `PlanError` for a root that the plan cannot have;
        `MultiplicityOverflow` and `MemoryLimitReached` if its views do not fit. Then nothing is
        registered.

        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> report = engine.apply([("+", 1, "<http://ex/p>", 2), ("+", 1, "<http://ex/p>", 3)])
        >>> with engine.register("SELECT ?x { ?x :p ?y }").snapshot() as snap:
        ...     snap.epoch, [(answer.x, answer.multiplicity) for answer in snap.answers("python")]
        (2, [(1, 2)])
        """
        check_text(text)
        kept = (keep,) if isinstance(keep, str) else tuple(keep)
        source = QuerySource(text, name, root, kept, window, self._prefixes)
        warn_about(source.parse(), stacklevel=3)
        return self._register(source)

    def _register(self, source: QuerySource, *, refuse_patterns: bool = True) -> StandingQuery:
        name = source.name
        parsed = source.parse(refuse_patterns=refuse_patterns)
        query, spaces = self._windows.resolve(parsed, source.window)
        plan = compile_query(query, root=source.root, keep=list(source.keep))
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
        self,
        updates: Iterable[Sequence[Any]],
        *,
        strict: bool = False,
        time: Any = None,
        map: str | Iterable[str] | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
    ) -> Report:
        """One epoch: a batch of ``(sign, subject, predicate, object)``, judged in its order.

        Or an Arrow table (anything with ``__arrow_c_stream__``) with the columns subject,
        predicate, object and perhaps op. A deletion that finds no event, and an update with a
        malformed term, is refused and reported, and the rest holds; with `strict` the whole epoch
        is refused by `InvalidUpdate`. Cost: the affected state.

        With `time` (milliseconds, or a date and time) the epoch has that logical time, which never
        goes back. In an engine with windows this changes the static graph, and takes no time.

        With `map` each row of a table is what templates make of it, as for `push`; a deletion takes
        back all triples of a row or none. `columns` names those of ``op`` and ``id``.

        >>> engine = Engine()
        >>> engine.apply([("+", 1, "<http://ex/p>", 2), ("-", 2, "<http://ex/p>", 1)])
        Report(epoch=1, refused=(Refused(place=1, reason='no live event states this'),))
        """
        self._begin()
        few = 1
        try:
            if time is not None:
                self._windows.take_times()
                batch = self._encode_updates(updates, strict, map, columns)
                self._clock.begin(time)
                try:
                    return self._apply(batch, strict, read_time(time))
                finally:
                    self._clock.end()
            if type(updates) is list and len(updates) == 1 and not strict and map is None:
                few = FEW_TERMS
                report = self._apply_one(updates[0])
                if report is not None:
                    return report
            batch = self._encode_updates(updates, strict, map, columns)
            if len(batch.rows) <= FEW_TERMS:
                few = FEW_TERMS
            return self._apply(batch, strict)
        except BaseException:
            self._drop_notes()
            raise
        finally:
            self._end_update(few)

    def _drop_notes(self) -> None:
        if self._journal is not None:
            self._journal.drop()

    def _end_update(self, few: int, *, checkpoints: bool = True) -> None:
        """Free what is to be freed, begin a checkpoint if one is due, and let others update."""
        try:
            if self._dictionary.is_due(few) or self._windows.identities.is_due(few):
                self._free_terms()
            if checkpoints and self._keeper is not None:
                self._keeper.follow()
        finally:
            self._updating.release()

    def _encode_updates(
        self,
        updates: Any,
        strict: bool,
        mapping: str | Iterable[str] | None,
        columns: Mapping[str, str] | None,
    ) -> Batch:
        read = None
        if mapping is not None or columns:
            reading = RowReading(mapping, columns, self.base, self._prefixes)
            read = read_rows(updates, reading, f"epoch {self.epoch + 1}", 0, is_timed=False)
            updates = read.table
        if not hasattr(updates, "__arrow_c_stream__"):
            check_many(updates, "updates", "load reads a file")
            return encode_tuples(self._dictionary, updates)
        batch = encode_table(self._dictionary, updates)
        if isinstance(updates, pa.Table) and SAME_ROW in updates.schema.names:
            batch = judge_rows(batch, updates, self._core.count, strict)
        return batch if read is None else read.place_batch(batch)

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
        return Report(version.number - self._clock.first, refused)

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
            except BaseException:
                self._drop_notes()
                raise
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
            columns = self._journal.describe_rows(rows)
            with self._journal.record(Kind.APPLY, self.epoch, fields, columns):
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
        return self._report(version.number - self._clock.first, refused)

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
        columns = self._journal.define(np.array(constants, np.int64))
        return self._journal.record(Kind.REGISTER, self.epoch, source.write(), columns)

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
            number = None if epoch is None else epoch + self._clock.first
            found = self._holds.hold(name, number).number - self._clock.first
        except VersionGone:
            raise self._pins.refuse(epoch) from None
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
        return {name: number - self._clock.first for name, number in self._holds.named.items()}

    def push(
        self,
        events: Iterable[Sequence[Any]],
        stream: str | None = None,
        *,
        map: str | Iterable[str] | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        time_unit: str | None = None,
    ) -> Pushed:
        """Take timed events in; they wait until the watermark brings their slide.

        Tuples ``(time, subject, predicate, object[, op[, id]])``, or an Arrow table with these
        columns. A time is an integer of milliseconds, a date and time, or either as a text; op is
        ``"+"`` unless given; the id names the event. What is malformed, late or too far ahead is
        counted and reported; see `EventTime`. Cost: the events.

        With `map` the rows of a table (Arrow, pandas, Polars, anything with
        ``__arrow_c_stream__``) become events by templates over its columns: see
        `triegs.mapping.parser`. A row is one event, whose triples come and go together, and is
        counted as one. `columns` says which columns are ``time``, ``op`` and ``id``; `time_unit`
        what times count that are numbers: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.

        >>> engine = Engine(window=Window("10s"))
        >>> engine.push([(1_000, 1, "<http://ex/p>", 2), (None, 1, "<http://ex/p>", 3)])
        Pushed(first=0, accepted=1, late=0, refused=(Refused(place=1, reason='no time'),))
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
        stream = name_stream(stream)
        self._begin()
        windows, journal = self._windows, self._journal
        try:
            read = None
            if map is not None or columns or time_unit is not None:
                reading = RowReading(map, columns, self.base, self._prefixes, stream, time_unit)
                first = windows.count_arrivals(stream)
                read = read_rows(events, reading, f"stream {stream or ''}", first, is_timed=True)
                events = read.table
            found = windows.encode(events, stream)
            if read is not None:
                found = read.place_events(found)
            if journal is None:
                return windows.push(found, stream)
            fields = {"stream": stream, "given": found.given}
            described = journal.describe_events(found)
            with journal.record(Kind.PUSH, self.epoch, fields, described):
                return windows.push(found, stream)
        except BaseException:
            self._drop_notes()
            raise
        finally:
            self._end_update(FEW_TERMS)

    def advance(self, to: Any = None, stream: str | None = EVERY) -> list[Published]:
        """Move the watermark, and publish every slide up to it, in order.

        `to` is a time; without it each stream goes to its largest event time less the allowed
        lateness. `stream` moves one stream alone: what is published is bound by the slowest.
        Cost: what the slides change.

        With a directory the call is one record: after a crash all of its slides are there, or none
        and the watermark is where it was; so it is if the log does not take it (`LogFailed`). What
        was published by a call that did not return is in `published`. A slide that
        finds no room under the memory limit refuses its events; only if held epochs leave no room
        to expire anything does it fail: then those before it are published, and the next call
        goes on with it.

        >>> engine = Engine(window=Window("10s", slide="5s"))
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> engine.advance(to=16_000)
        [Published(epoch=2, time=5000, ...), ..., Published(epoch=4, time=15000, refused=())]
        >>> with query.snapshot() as snapshot:
        ...     snapshot.time, len(snapshot)
        (15000, 0)
        """
        return self._advance(to, stream, close=False)

    def close_stream(self, stream: str | None = EVERY) -> list[Published]:
        """No more events will come, of one stream or of all: publish everything that waits.

        The last epoch is the first slide that can hold the last event.

        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(11_000, 1, "<http://ex/p>", 2)])
        >>> [published.time for published in engine.close_stream()]
        [20000]
        """
        return self._advance(None, stream, close=True)

    def _advance(self, to: Any, stream: str | None, close: bool) -> list[Published]:
        """Move the watermark and publish what is due: one record tells of all of it."""
        stream = stream if stream == EVERY else name_stream(stream)
        self._begin()
        windows = self._windows
        found: list[Published] = []
        problems: list[Exception] = []
        try:
            if self._keeper is not None:
                # Before, not after: the slides that it publishes are to be found in the log for as
                # long as nobody was told of them.
                self._keeper.follow()
            time = to if to is None else read_time(to)
            with self._record(Kind.ADVANCE, to=time, stream=stream, end=close):
                windows.move(to, stream, close)
            begin, record = self._store.newest.number, self._last_record
            refusing: list[int] = []
            try:
                for each in windows.publish_due():
                    if windows.has_refused:
                        refusing.append(len(found))
                    found.append(each._replace(epoch=each.epoch - self._clock.first))
                    self._tell(found[-1], problems)
            except BaseException:
                self._stop_slides(record, self._store.newest.number - begin)
                raise
            finally:
                self._note_refusing(record, refusing)
                self._published = tuple(found)
        except BaseException:
            self._drop_notes()
            raise
        finally:
            self._end_update(1, checkpoints=False)
        if problems:
            raise problems[0]
        return found

    @property
    def _last_record(self) -> int:
        return 0 if self._journal is None else self._journal.last

    def _note_refusing(self, record: int, slides: list[int]) -> None:
        """Say in the log which slides of a record had no room for what they would bring."""
        if self._journal is not None and slides:
            self._journal.note_refusing(record, slides)
            with suppress(LogFailed):  # then it goes with the next record
                self._journal.flush(self.epoch)

    def _stop_slides(self, record: int, slides: int) -> None:
        """Say in the log that a call has published so many slides and then failed."""
        self._windows.judge_due()
        if self._journal is not None:
            self._journal.note_stop(record, slides)
            with suppress(LogFailed):  # then it goes with the next record
                self._journal.flush(self.epoch)

    def _tell(self, published: Published, problems: list[Exception]) -> None:
        """A slide was published: tell emitters and who waits, and free terms."""
        found = self._windows.follow(published.epoch, published.time)
        if found:
            message = "an emitter failed after epoch %d"
            log_messages.error(message, published.epoch, exc_info=found[0])
            problems += found
        if self._is_watched:
            self._end_epoch()
        if self._dictionary.is_due(FEW_TERMS):
            self._free_terms()

    @property
    def published(self) -> tuple[Published, ...]:
        """What the last `advance` or `close_stream` has published; of `each_slide`, the last slide.

        For whoever was not told, because the call raised or the process died: after opening a
        directory these are the slides of the last such call that the log behind the checkpoint
        tells of. `positions` that were noted with it say whether that is the one.

        >>> engine = Engine(window=Window("10s"))
        >>> pushed = engine.push([(1_000, 1, "<http://ex/p>", 2)])
        >>> published = engine.advance(to=20_000)
        >>> [published.time for published in engine.published]
        [10000, 20000]
        """
        return self._published

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

        This is no call that is there whole or not at all. With a directory the watermark is one
        record, and each slide is one: after a crash, an error, or if nobody iterates to the end,
        the watermark is there and so are the slides up to some slide, at most one more than was
        handed out (`published` has it). The rest is due, and comes first with the next
        `each_slide` or `advance`.

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
        stream = stream if stream == EVERY else name_stream(stream)
        self._begin()
        windows = self._windows
        problems: list[Exception] = []
        try:
            time = to if to is None else read_time(to)
            with self._record(Kind.MOVE, to=time, stream=stream, end=close):
                windows.move(to, stream, close)
            slides = windows.publish_due(lambda time: self._record(Kind.SLIDE, time=time))
            for each in slides:
                self._note_refusing(self._last_record, [0] if windows.has_refused else [])
                published = each._replace(epoch=each.epoch - self._clock.first)
                self._published = (published,)
                self._tell(published, problems)
                yield published
        except Exception:
            self._drop_notes()
            raise
        finally:
            self._end_update(1)
        if problems:
            raise problems[0]

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
          syncs of the log, and record, bytes, seconds and pause of the last checkpoint, and
          whether one is written now;
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
        self._pins.end_leases()
        core = self._core
        more: dict[str, Any] = {}
        if relations:
            measured = self._store.measure_relations()
            more["relations"] = {name: found._asdict() for name, found in measured.items()}
        return {
            "epochs": self.epoch,
            "updates": self._updates,
            "refused": self._refused,
            "affected_bindings": core.affected,
            "stored_answers": core.count_stored(),
            "queries": len(self._queries),
            "stalled": sorted(n for n, q in self._queries.items() if q.error is not None),
            "pins": self._pins.describe(measure=relations),
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
        count = len(self._queries)
        return (
            f"<Engine {self.mode.value}, {state}, {count} {'query' if count == 1 else 'queries'}>"
        )

    def _repr_html_(self) -> str:
        """For a notebook: what there is, and the first queries. Cost: those."""
        windows = self._windows.metrics()
        facts = [
            ("mode", self.mode.value),
            ("epoch", f"{self.epoch:,}" + (", closed" if self._is_closed else "")),
            ("updates", f"{self._updates:,} taken, {self._refused:,} refused"),
        ]
        if self._windows.is_used:
            facts.append(("watermark", windows["watermark"]))
            shown = ", ".join(
                f"{windows[name]:,} {name}" for name in ("retained", "pending", "late")
            )
            facts.append(("events", shown))
        if self._keeper is not None:
            facts.append(("directory", str(self._keeper.directory)))
        queries = list(self._queries.values())
        rows = [(q.name, q.describe_state(), " ".join(q.query.head)) for q in queries[:MOST_SHOWN]]
        left = len(queries) - len(rows)
        note = f"and {left:,} more" if left > 0 else ""
        return write_card("Engine", facts) + (
            write_table(("query", "class", "head"), rows, note) if rows else ""
        )

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
        told = self._publications
        return bool(told.waiting or told.followers or self._pins.leases or self._holds.retain)

    def _end_epoch(self) -> None:
        """An epoch was published: retain it, end leases that are over, wake who waits."""
        self._holds.follow()
        self._pins.end_leases()
        for follow in tuple(self._publications.followers):
            follow()
        if self._publications.waiting:
            self._publications.announce()

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
                self._holds.move(hold, epoch + self._clock.first)
                if self._journal is not None:
                    self._journal.note_hold(hold, epoch)

        def end() -> None:
            self._subscribed.discard(name)

        return hold if hold in self._holds.named else None, keep, end

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


def warn_about(query: Query, stacklevel: int) -> None:
    """A `QueryWarning` for each of the query's, at the caller that many frames up."""
    for message in query.warnings:
        warnings.warn(message, QueryWarning, stacklevel)


def _constants(query: Query) -> list[str]:
    """The terms that the query's atoms and VALUES rows name."""
    terms = [term for atom in query.atoms for term in atom if not is_variable(term)]
    return terms + [term for block in query.values for row in block.rows for term in row]


def _refuse_for_now(plan: Plan) -> None:
    """What compiles but does not run on the engine yet."""
    if plan.query.grouping is not None:
        raise UnsupportedQuery(
            "aggregates: this compiles, but the engine does not run it yet",
            line=1, column=1, construct="aggregates",
            hint="triegs.Reference answers it from scratch",
        )  # fmt: skip
