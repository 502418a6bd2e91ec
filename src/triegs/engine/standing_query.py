"""A registered query, as users see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from triegs.aggregates.swag.operators import Operator
from triegs.aggregates.windowed.functions import FunctionName, NumbersName
from triegs.compiler import Plan
from triegs.copying import Uncopied
from triegs.durable.source import QuerySource
from triegs.engine.aggregate_options import AggregateOptions
from triegs.engine.state import EngineState
from triegs.errors import MultiplicityOverflow, StateError
from triegs.maintain.lowered import describe_registered
from triegs.maintain.standing import RegisteredPlan
from triegs.notebook import write_card
from triegs.options import ArrowTerms, ExplainName, OperatorName, PolicyName, check_name
from triegs.read.changes import Steps, refuse_limits
from triegs.read.handle import SnapshotHandle
from triegs.read.snapshot import Snapshot
from triegs.read.subscription import EpochHolder, Event, Subscription, SubscriptionOptions
from triegs.sparql import Query
from triegs.sparql.window import Window
from triegs.windows.emission import Emission, EmitOptions, Emitter
from triegs.windows.window_graphs import GraphKey

if TYPE_CHECKING:
    from triegs.engine.window_aggregate import WindowAggregate


class StandingQuery(Uncopied):
    """A registered query: take snapshots, follow changes, explain it, close it.

    `Engine.register` creates it. ``query`` is the parsed text, ``plan`` how it is maintained.

    >>> from triegs import Engine
    >>> with Engine() as engine, engine.register("ASK { ?x ?p ?y }", name="any") as query:
    ...     query
    <StandingQuery 'any', free-connex, ASK>
    """

    _instead = "it belongs to its engine; send its text, or what snapshot().to_arrow() gives"

    def __init__(
        self,
        state: EngineState,
        queries: Mapping[str, StandingQuery],
        close: Callable[[StandingQuery, RegisteredPlan], None],
        source: QuerySource,
        query: Query,
        registered: RegisteredPlan,
    ) -> None:
        self._state = state
        self._queries = queries
        self._close = close
        self._registered: RegisteredPlan | None = registered
        self._source = source
        #: What it references in the dictionary and in the windows.
        self._constants: list[int] = []
        self._graph_keys: list[GraphKey] = []
        self._emitters: list[Emitter] = []
        self.name = str(source.name)
        self.query = query
        self.plan: Plan = registered.plan

    @property
    def keep(self) -> tuple[str, ...]:
        """What is maintained besides the answers: ``"count"``, ``"slice"``."""
        return self._source.keep

    @property
    def error(self) -> MultiplicityOverflow | None:
        """Why the query is stalled at an older epoch; None while it is up to date."""
        return self._open().error

    def snapshot(
        self, *, epoch: int | str | None = None, lease: str | int | timedelta | None = None
    ) -> Snapshot:
        """Pin a published result of this query, by default the newest.

        From any thread, at constant cost. A snapshot retains memory until it is closed, so use it
        in a ``with`` statement. While the query is stalled this is its last good epoch;
        `Snapshot.epoch` has its number.

        `epoch` is the number of a held epoch (by `Engine.hold`, `retain_epochs` or another
        snapshot) or the name of a hold; any other raises `HistoryGone`. `lease`, such as ``"30s"``
        or milliseconds, bounds how long the epoch is pinned: later reads raise `SnapshotExpired`.
        """
        return self._state.pins.take(self.name, self._open(), epoch, lease)

    def share(
        self, *, epoch: int | str | None = None, lease: str | int | timedelta | None = None
    ) -> SnapshotHandle:
        """A handle with which other processes read a published result of this query; see
        `Snapshot.share`. Like ``snapshot(…).share()``, but cheaper.

        >>> from triegs import Engine
        >>> engine = Engine(shared_memory=True)
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> with query.share() as handle:
        ...     handle  # another process calls handle.open()
        <SnapshotHandle of epoch 1: ?x>
        """
        return self._state.pins.share(self.name, self._open(), epoch, lease)

    def changes(self, since: int | str, *, lease: str | int | timedelta | None = None) -> Steps:
        """The signed changes since an epoch, one step from each held epoch to the next.

        `since` is as `epoch` of `snapshot`. If no epochs are held in between there is one step, to
        the newest; `Engine(retain_epochs=n)` holds the last n. ORDER BY has no effect on changes;
        with LIMIT or OFFSET there are none (`StateError`). Cost: constant per step; reading a step
        costs what changed. `lease` is as for `snapshot`.

        >>> from triegs import Engine
        >>> engine = Engine(retain_epochs=2)
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> for number in range(2):
        ...     report = engine.apply([("+", 7, "<http://ex/p>", number)])
        >>> with query.changes(since=1) as steps:
        ...     [(step.since, step.epoch, *step.answers("python")) for step in steps]
        [(1, 2, Change(x=7, change=1)), (2, 3, Change(x=7, change=1))]
        """
        refuse_limits(self.query)
        return Steps(self._state.pins.take_since(self.name, self._open(), since, lease))

    def subscribe(
        self,
        since: int | str | None = None,
        *,
        snapshot: bool | None = None,
        progress: bool = True,
        callback: Callable[[Event], object] | None = None,
        name: str | None = None,
        merge: bool | None = None,
    ) -> Subscription:
        """Follow the query: a `Snapshot`, then `Changes` as epochs are published, each followed by
        a `Progress` with the number of the epoch that is complete.

        `since` resumes from a held epoch or from a hold, without the snapshot; `HistoryGone` means
        that the epoch is gone and the caller must start over. `snapshot` overrides whether the
        initial result comes first. `callback` is called with each event in a thread of its own.
        See `triegs.read.subscription.Subscription`.

        With `merge` a subscriber that falls behind gets the epochs it missed as one step, and
        holds one epoch. Without, it gets a step per epoch, and every epoch that it has not read
        yet is held in memory. The default is no merging with a callback, and merging otherwise.

        With a `name` the subscription resumes where the last one of that name stopped, and starts
        with a snapshot if there was none. Its position is held as ``"subscription NAME"``, and an
        engine with a directory stores it there.

        >>> from triegs import Engine
        >>> engine = Engine()
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> with query.subscribe() as subscription:
        ...     report = engine.apply([("+", 7, "<http://ex/p>", 1)])
        ...     for _ in range(4):
        ...         subscription.poll()
        <Snapshot of epoch 1: ?x>
        Progress(epoch=1)
        <Changes from epoch 1 to 2>
        Progress(epoch=2)
        """
        state = self._state
        refuse_limits(self.query)
        is_merging = callback is None if merge is None else merge
        keep = end = None
        if name is not None:
            check_name(name)
            hold, keep, end = state.name_subscription(name)
            since = hold if since is None else since
        holder = None
        try:
            if not is_merging:  # before the start is taken, so that no epoch is missed
                holder = EpochHolder(state.publications, self._pin_newest)
            start = state.pins.take(self.name, self._open(), since)
        except BaseException:
            if holder is not None:
                holder.close()
            if end is not None:
                end()
            raise
        is_first = since is None if snapshot is None else snapshot
        return Subscription(
            state.publications,
            lambda epoch: state.pins.take_since(self.name, self._open(), epoch)[1:],
            lambda: state.epoch,
            start,
            SubscriptionOptions(is_first, progress, callback, keep, end, holder),
        )

    def emit(
        self,
        sink: Callable[[Emission], object],
        operator: OperatorName | None = None,
        *,
        report: PolicyName = "slide",
        every: str | int | timedelta | None = None,
        terms: ArrowTerms = "ntriples",
    ) -> Emitter:
        """Pass the answers of a windowed query to a function after its slides.

        `operator` is ``"RSTREAM"`` (all answers), ``"ISTREAM"`` (answers added since the last
        emission) or ``"DSTREAM"`` (answers removed); the default is the operator in the text, else
        RSTREAM. `report` says when: after each ``"slide"``, after a ``"change"`` of an answer, when
        the emission is ``"non-empty"``, or ``"periodic"`` with `every`. `Engine.advance` calls the
        function, epoch by epoch. An exception is logged, and raised by that call once all slides
        are published; the missed answers come with the next emission. Raises `StateError` if it
        needs the changes of a query with LIMIT or OFFSET. Cost: reading the answers, or what
        changed in them.

        >>> from triegs import Engine, Window
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
        windows = self._state.windows
        found = windows.emit(self.snapshot, self.query, self._graph_keys, sink, options)
        self._emitters.append(found)
        return found

    def aggregate(
        self,
        group: str | Iterable[str] = (),
        function: FunctionName | Operator = "count",
        window: Window | None = None,
        *,
        value: str | None = None,
        numbers: NumbersName = "double",
        name: str | None = None,
        changes: Literal["ISTREAM", "DSTREAM"] = "ISTREAM",
    ) -> WindowAggregate:
        """Aggregate the answers that this query gains, as events in a window of their own.

        An answer whose multiplicity grows by n in an epoch is n events at the epoch's time; with
        ``changes="DSTREAM"`` lost answers count instead. Answers that already exist are not events,
        nor are those of epochs before the first one with a time. The other options are as for
        `Engine.aggregate`, with columns of the query for variables; `window` has no stream. An
        operator must be commutative, because the answers of one epoch have no order. The window
        moves with the time of the engine's epochs.

        Closing the query closes the aggregate. A directory stores its events. Cost: what changes in
        the answers; the memory limit does not refuse these events.

        >>> from triegs import Engine, Window
        >>> engine = Engine(prefixes={"": "http://ex/"})
        >>> query = engine.register("SELECT ?x ?z { ?x :knows ?y . ?y :knows ?z }")
        >>> fresh = query.aggregate("?x", "count", Window("1m", slide="1s"))
        >>> knows = "<http://ex/knows>"
        >>> report = engine.apply([("+", 1, knows, 2), ("+", 2, knows, 3)], time=1_000)
        >>> report = engine.apply([("+", 2, knows, 4), ("-", 2, knows, 3)], time=30_000)
        >>> fresh.value(1)
        2
        >>> report = engine.apply([], time=62_000)
        >>> fresh.value(1)
        1
        """
        options = AggregateOptions(group, function, window, value, numbers, name)
        return self._state.aggregating.aggregate_answers(self, options, changes)

    def explain(self, output: ExplainName = "text") -> str:
        """The plan and its program as ``"text"``, ``"mermaid"``, ``"svg"`` or ``"json"``: views and
        indexes, which queries share them, their sizes, and the work of each step so far.

        From any thread; figures that an update is changing may be slightly old. Cost: the size of
        the query, not of its data.

        >>> from triegs import Engine
        >>> query = Engine().register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> print(query.explain().splitlines()[1])
        Class      free-connex: acyclic, and what the head hides can be summed out
        """
        from triegs.explain import explain

        if self._registered is None:
            return explain(self.plan, output)
        others = {
            query._registered: name
            for name, query in list(self._queries.items())
            if query._registered is not None
        }
        return explain(describe_registered(self._state.core, self._registered, others), output)

    def close(self) -> None:
        """Close the query and free everything that only it used; snapshots stay readable.

        Cost: the size of what is freed.
        """
        if self._registered is not None:
            self._close(self, self._registered)
            self._registered = None

    def _measure(self) -> float:
        """About the seconds that the last epoch spent on it; shared work counts for each query."""
        return self._state.core.measure(self._open())

    def _pin_newest(self) -> Snapshot:
        if self._queries.get(self.name) is not self:  # it is being closed
            raise StateError(f"the query {self.name!r} is closed")
        return self.snapshot()

    def _open(self) -> RegisteredPlan:
        if self._registered is None:
            raise StateError(f"the query {self.name!r} is closed")
        return self._registered

    def __enter__(self) -> StandingQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe_state(self) -> str:
        """The class of its plan, and whether it is stalled or closed."""
        if self._registered is None:
            return "closed"
        stalled = "" if self.error is None else ", stalled"
        return f"{self.plan.plan_class.value}{stalled}"

    def __repr__(self) -> str:
        head = " ".join(self.query.head) or self.query.form.value
        return f"<StandingQuery {self.name!r}, {self.describe_state()}, {head}>"

    def _repr_html_(self) -> str:
        """A card for notebooks: the text, the class, and the first answers. Cost: those."""
        facts: list[tuple[str, object]] = [
            ("class", self.describe_state()),
            ("text", self.query.text.strip()),
        ]
        facts += [("window", window) for _, window in self.query.windows]
        if self._registered is not None and self.error is not None:
            facts.append(("error", self.error))
        card = write_card(f"StandingQuery {self.name}", facts)
        if self._registered is None:
            return card
        with self.snapshot() as snapshot:
            return card + snapshot._repr_html_()
