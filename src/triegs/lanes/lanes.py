"""The public class: several engines behind the interface of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from os import PathLike
from threading import Lock
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa

from triegs.copying import Uncopied
from triegs.durable.source import QuerySource
from triegs.engine import Engine, warn_about
from triegs.engine.epochs import UpdateOptions
from triegs.engine.event_time import PushOptions
from triegs.engine.report import Report
from triegs.errors import BadOption, StateError
from triegs.events.load import list_statements
from triegs.lanes.balance import LEAST_GAIN, Move, choose_lane, plan_moves, split_cost
from triegs.lanes.controller import Controller
from triegs.lanes.crew import Crew
from triegs.lanes.lane_query import LaneQuery
from triegs.lanes.metrics import collect_metrics
from triegs.lanes.mirrors import Mirrors
from triegs.lanes.schedule import Form
from triegs.lanes.snapshots import LanesSnapshot
from triegs.lanes.together import Lane, Together
from triegs.mode import Mode
from triegs.options import KeepName, ModeName, check_text, check_word
from triegs.placement import PlacementName, count_cpus, plan_placement
from triegs.sparql.window import EVERY, Window, read_span
from triegs.windows.encoding import read_watermark
from triegs.windows.outcomes import Published, Pushed
from triegs.windows.windows import Windows

ScheduleName = Literal["auto", "serial", "inline", "round-robin", "pooled", "hybrid"]
AUTO = "auto"


class Lanes(Uncopied):
    """`n` engines that share nothing and publish the same epochs, each with some of the queries.

    The methods are those of `triegs.Engine`: one call reaches all lanes, each of which holds the
    whole graph and judges every update, so a query has the same answers as in one engine. A lane's
    epoch runs on one thread; `threads`, by default one for each usable CPU, run the lanes. Either
    all lanes publish an epoch or none does.

    `schedule` is how lanes are assigned to threads: ``"auto"`` measures the forms of
    `triegs.lanes.schedule` on the first epochs and picks one, and again when costs shift; a name
    fixes the form. The choice is for throughput, or with `latency` (``"5ms"``) for a bound of each
    epoch. `placement` pins threads: ``"cpus"``, ``"nodes"`` or numbers of CPUs. Other options are
    those of `triegs.Engine`; `memory_limit` bounds each lane. Lanes have no directory and no rules.

    One thread at a time updates. Any thread takes snapshots.

    >>> with Lanes(2, prefixes={"": "http://ex/"}) as lanes:
    ...     pairs = lanes.register("SELECT ?x ?y { ?x :p ?y }", name="pairs")
    ...     ends = lanes.register("SELECT ?y { ?x :p ?y }", name="ends")
    ...     report = lanes.apply([("+", 1, "<http://ex/p>", 2), ("+", 3, "<http://ex/p>", 2)])
    ...     with lanes.snapshot() as found:
    ...         found.epoch, len(found["pairs"]), len(found["ends"]), (pairs.lane, ends.lane)
    (3, 2, 1, (0, 1))
    """

    _instead = "each process makes its own"

    def __init__(
        self,
        n: int,
        mode: Mode | ModeName = "multigraph",
        *,
        threads: int | None = None,
        schedule: ScheduleName = "auto",
        latency: str | int | timedelta | None = None,
        placement: PlacementName | Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        _check_positive("n", n)
        _check_positive("threads", 1 if threads is None else threads)
        check_word("schedule", schedule, (AUTO, *Form))
        if "store" in options:
            raise BadOption("each lane has its own store; memory_limit bounds each of them")
        if options.get("rules"):
            raise BadOption("rules are not supported in lanes; they run in one triegs.Engine")
        if latency is not None and schedule != AUTO:
            raise BadOption("latency is a goal of schedule='auto'; the other schedules have none")
        used = min(n, count_cpus() if threads is None else threads)
        bound = None if latency is None else read_span(latency) / 1000
        form = None if schedule == AUTO else Form(schedule)
        self._controller = Controller(n, used, form, bound)
        self._crew = Crew(used, plan_placement(placement, used))
        engines = [Engine(mode, **options) for _ in range(n)]
        self._together = Together(engines, self._crew, self._controller)
        self._mirrors = Mirrors(self._together.lanes)
        self._queries: dict[str, LaneQuery] = {}
        self._unknown: set[str] = set()  # registered since costs were last measured
        self._updating = Lock()
        self._is_closed = False
        self._published: list[Published] = []
        self.mode = engines[0].mode
        self.base = engines[0].base

    def __len__(self) -> int:
        """The number of lanes."""
        return len(self._together.lanes)

    @property
    def epoch(self) -> int:
        """The number of the newest epoch, which all lanes have published; 0 before the first."""
        with self._together.gate:
            return self._first.epoch

    @property
    def queries(self) -> Mapping[str, LaneQuery]:
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
    ) -> LaneQuery:
        """Register a query in the lane with the least work; see `triegs.Engine.register`.

        Publishes an epoch in every lane. If it fails, nothing is registered.
        """
        check_text(text)
        kept = (keep,) if isinstance(keep, str) else tuple(keep)
        with self._update():
            if name is None:
                numbered = (f"query{number}" for number in count(len(self._queries) + 1))
                name = next(each for each in numbered if each not in self._queries)
            elif name in self._queries:
                raise StateError(f"a query {name!r} is already registered")
            source = QuerySource(text, name, root, kept, window, self._first._prefixes)
            warn_about(source.parse(), stacklevel=3)
            lane = self._together.lanes[self._choose_lane()]
            with self._aligning():
                current = lane.engine._register(source)
                try:
                    self._mirrors.open(source, lane)
                except BaseException:
                    current.close()
                    raise
            found = LaneQuery(current, lane.number, self._close_query)
            self._queries[name] = found
            self._unknown.add(name)
            self._controller.restart()
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
        """Apply a batch as one epoch of every lane; see `triegs.Engine.apply`.

        A refused update is refused by all lanes and reported once. If a lane cannot apply the
        batch, for example at its memory limit, its error is raised and no lane publishes.

        >>> with Lanes(2) as lanes:
        ...     lanes.apply([("+", 1, "<http://ex/p>", 2), ("-", 2, "<http://ex/p>", 1)])
        Report(epoch=1, refused=(Refused(row=1, reason='no live event states this'),))
        """
        options = UpdateOptions(strict, time, map if map is None else _once(map), columns)
        with self._update():
            given = _repeat(updates)
            report = self._together.run(lambda lane: lane.apply(given, options), _count(given))
            self._unknown.clear()
            return report

    def load(
        self,
        source: str | PathLike[str] | Any,
        *,
        format: str | None = None,  # noqa: A002
    ) -> Report:
        """Insert every statement of an RDF file as one epoch of every lane; see `Engine.load`."""
        with self._update():
            # Read once: the blank nodes of a file are the same in all lanes.
            batches = list(list_statements(source, format))
            rows = sum(batch.num_rows for batch in batches)
            return self._together.run(lambda lane: lane.load(batches), rows)

    def push(
        self,
        events: Iterable[Sequence[Any]],
        stream: str | None = None,
        *,
        map: str | Iterable[str] | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        time_unit: str | None = None,
    ) -> Pushed:
        """Take in timed events, in every lane; see `triegs.Engine.push`."""
        options = PushOptions(stream, map if map is None else _once(map), columns, time_unit)
        with self._update():
            given = _repeat(events)
            return self._together.run(
                lambda lane: lane.push(given, options), _count(given), is_epoch=False
            )

    def advance(self, to: Any = None, stream: str | None = EVERY) -> list[Published]:
        """Move the watermark, and publish every slide up to it in every lane, in order; see
        `triegs.Engine.advance`. If a slide fails, those before it are in `published`.
        """
        return list(self._slide(to, stream, close=False))

    def close_stream(self, stream: str | None = EVERY) -> list[Published]:
        """Declare the end of one stream or of all, and publish everything that is pending."""
        return list(self._slide(None, stream, close=True))

    def each_slide(
        self, to: Any = None, stream: str | None = EVERY, *, close: bool = False
    ) -> Iterator[Published]:
        """As `advance`, or with `close` as `close_stream`, but one slide at a time. The lanes take
        no other update until the iterator is exhausted or closed.
        """
        return self._slide(to, stream, close)

    @property
    def published(self) -> tuple[Published, ...]:
        """What the last `advance`, `close_stream` or `each_slide` published."""
        return tuple(self._published)

    def find_end(self) -> int | None:
        """The time up to which `close_stream` would publish; None before the first event."""
        return self._first.find_end()

    def snapshot(
        self,
        names: str | Iterable[str] | None = None,
        *,
        lease: str | int | timedelta | None = None,
    ) -> LanesSnapshot:
        """Pin the results of some queries, by default of all, at one epoch. From any thread.

        It waits while lanes publish, and while a query is registered, closed or moved, never for
        the rest of an update. Cost: constant for each query.

        >>> with Lanes(2) as lanes:
        ...     query = lanes.register("SELECT ?x { ?x ?p ?y }", name="subjects")
        ...     with lanes.snapshot(["subjects"]) as found:
        ...         found
        <LanesSnapshot of epoch 1: subjects>
        """
        with self._together.gate:
            self._check_open()
            if isinstance(names, str):
                names = [names]
            chosen = list(self._queries if names is None else names)
            for name in chosen:
                if name not in self._queries:
                    raise StateError(f"there is no query {name!r}")
            found = {}
            try:
                for name in chosen:
                    found[name] = self._queries[name].snapshot(lease=lease)
            except BaseException:
                for each in found.values():
                    each.close()
                raise
            state = self._first._internals
            return LanesSnapshot(state.epoch, state.clock.find(state.store.newest.number), found)

    def hold(self, name: str) -> int:
        """Keep the newest epoch readable under a name, in every lane; returns its number."""
        with self._together.gate:
            self._check_open()
            return max(lane.engine.hold(name) for lane in self._together.lanes)

    def release(self, name: str) -> None:
        """Release the epoch that is held under a name."""
        with self._together.gate:
            for lane in self._together.lanes:
                lane.engine.release(name)

    @property
    def holds(self) -> Mapping[str, int]:
        """The held epochs by name."""
        return self._first.holds

    def rebalance(self, least_gain: float = LEAST_GAIN) -> list[Move]:
        """Move queries between lanes so that the slowest lane has less work, by measured cost and
        LPT; returns the moves. Nothing moves unless the slowest lane's cost falls by `least_gain`.

        A move fills the query's views in the other lane and publishes two epochs, as registering
        and closing do; the query stays readable, but its `changes` do not reach back beyond the
        move. Queries with subscriptions, emitters or aggregates stay.
        """
        with self._update():
            lanes = self._together.lanes
            costs: dict[str, float] = {}
            for lane in lanes:
                own = [q for q in self._queries.values() if q.lane == lane.number]
                costs |= split_cost(lane.cost, {query.name: query._measure() for query in own})
            self._unknown.clear()
            places = {name: query.lane for name, query in self._queries.items()}
            fixed = {name for name, query in self._queries.items() if query.is_followed}
            moves = plan_moves(costs, places, len(self), fixed, least_gain)
            for name, source, target in moves:
                self._move(self._queries[name], lanes[source], lanes[target])
                lanes[source].cost -= costs[name]
                lanes[target].cost += costs[name]
            if moves:
                self._controller.restart()
            return moves

    def metrics(self) -> dict[str, Any]:
        """Current figures, from any thread: those of `triegs.Engine.metrics`, with figures of
        queries and memory added up, and in addition:

        - ``schedule``: the ``form`` in use and ``why``, the lanes of each ``inline`` thread, the
          ``pooled`` lanes and the ``pool_workers``, and what was ``measured`` of each form;
        - ``placement``: the CPUs of each thread, the NUMA nodes, and why nothing is pinned;
        - ``threads``: seconds of processor and wall clock that each has spent on lanes;
        - ``lanes``: epoch, queries, processor seconds of an epoch, bytes and terms of each;
        - ``problem``: why the lanes accept no more updates, else None.
        """
        queries = list(self._queries.values())
        return collect_metrics(self._together, queries, self._crew, self._controller)

    def close(self) -> None:
        """Refuse every further call, and end subscriptions and threads. Snapshots stay readable."""
        if not self._is_closed:
            self._is_closed = True
            for lane in self._together.lanes:
                lane.engine.close()
            self._crew.close()

    def __enter__(self) -> Lanes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"epoch {self._first.epoch}"
        queries = len(self._queries)
        word = "query" if queries == 1 else "queries"
        return f"<Lanes {len(self)}, {self.mode.value}, {state}, {queries} {word}>"

    @property
    def _windows(self) -> Windows:
        """Those of the first lane; all have the same."""
        return self._first._windows

    @property
    def _first(self) -> Engine:
        return self._together.lanes[0].engine

    def _check_open(self) -> None:
        if self._is_closed:
            raise StateError("the lanes are closed")

    @contextmanager
    def _update(self) -> Iterator[None]:
        """Become the one updater; a second thread gets an error instead of waiting."""
        self._check_open()
        if not self._updating.acquire(blocking=False):
            raise StateError(
                "another thread is updating these lanes, or a loop over each_slide or an emitter's "
                "function has not finished; only one update may run at a time"
            )
        try:
            self._together.check()
            yield
        finally:
            self._updating.release()

    @contextmanager
    def _aligning(self) -> Iterator[None]:
        """Change the queries of lanes; whatever that published, all lanes end at one epoch."""
        with self._together.gate:
            try:
                yield
            finally:
                self._together.align()

    def _slide(self, to: Any, stream: str | None, close: bool) -> Iterator[Published]:
        time = read_watermark(to)
        with self._update():
            with self._aligning():
                self._mirrors.follow()
            problems: list[Exception] = []
            published = self._published = []
            slides = self._together.slide(lambda lane: lane.slide(time, stream, close), problems)
            try:
                for slide in slides:
                    self._unknown.clear()
                    published.append(slide)
                    yield slide
            finally:
                slides.close()
        if problems:
            raise problems[0]

    def _choose_lane(self) -> int:
        lanes = self._together.lanes
        counts, unknown = [0] * len(lanes), [0] * len(lanes)
        for name, query in self._queries.items():
            counts[query.lane] += 1
            unknown[query.lane] += name in self._unknown
        return choose_lane(self._together.costs, counts, unknown)

    def _close_query(self, query: LaneQuery) -> None:
        with self._update():
            owner = self._together.lanes[query.lane]
            with self._aligning():
                query._current.close()
                self._mirrors.close(query._source, owner)
            del self._queries[query.name]
            self._unknown.discard(query.name)
            self._controller.restart()

    def _move(self, query: LaneQuery, source: Lane, target: Lane) -> None:
        with self._aligning():
            before = query._current
            current = target.engine._register(before._source)
            try:
                self._mirrors.move(before._source, source, target)
            except BaseException:
                current.close()
                raise
            query.move(current, target.number)
            before.close()


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadOption(f"{name} must be a positive integer, not {value!r}")


def _repeat(given: Any) -> Any:
    """Updates that every lane can read: an iterator or a stream of Arrow batches is read once."""
    if hasattr(given, "__arrow_c_stream__"):
        return given if isinstance(given, pa.Table | pa.RecordBatch) else pa.table(given)
    is_batch = isinstance(given, str | bytes | bytearray | memoryview | PathLike | Mapping)
    if is_batch or isinstance(given, list | tuple) or not isinstance(given, Iterable):
        return given  # or refused by the lanes
    return list(given)


def _once(templates: str | Iterable[str]) -> str | list[str]:
    return templates if isinstance(templates, str) else list(templates)


def _count(given: Any) -> int:
    if isinstance(given, list | tuple):
        return len(given)
    return int(getattr(given, "num_rows", 0))
