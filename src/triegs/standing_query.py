"""A registered query, as its user has it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from triegs.compiler import Plan
from triegs.copying import Uncopied
from triegs.durable.source import QuerySource
from triegs.errors import MultiplicityOverflow, StateError
from triegs.maintain.lowered import describe_standing
from triegs.maintain.standing import Standing
from triegs.notebook import write_card
from triegs.options import ArrowTerms, ExplainName, OperatorName, PolicyName
from triegs.read.changes import NO_CHANGES, Steps
from triegs.read.snapshot import Snapshot
from triegs.sparql import Query
from triegs.subscription import EpochHolder, Event, Subscription
from triegs.windows.emission import Emission, Emitter
from triegs.windows.manager import EmitOptions
from triegs.windows.spaces import SpaceKey

if TYPE_CHECKING:
    from triegs.engine import Engine


class StandingQuery(Uncopied):
    """A registered query: take snapshots of it, explain it, close it.

    `Engine.register` makes it. ``query`` is what was read from its text, ``plan`` how it is kept.

    >>> from triegs import Engine
    >>> with Engine() as engine, engine.register("ASK { ?x ?p ?y }", name="any") as query:
    ...     query
    <StandingQuery 'any', free-connex, ASK>
    """

    _instead = "it belongs to its engine; send its text, or what snapshot().to_arrow() gives"

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
        return self._engine._pins.take(self.name, self._open(), epoch, lease)

    def changes(self, since: int | str) -> Steps:
        """The signed changes since an epoch, one step from each held epoch to the next.

        `since` is as for `snapshot`. Without epochs held in between there is one step, to the
        newest; `Engine(retain_epochs=n)` keeps the last n. Cost: constant per step; reading costs
        what has changed.

        >>> from triegs import Engine
        >>> engine = Engine(retain_epochs=2)
        >>> query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> for number in range(2):
        ...     report = engine.apply([("+", 7, "<http://ex/p>", number)])
        >>> with query.changes(since=1) as steps:
        ...     [(step.since, step.epoch, *step.answers("python")) for step in steps]
        [(1, 2, Change(x=7, change=1)), (2, 3, Change(x=7, change=1))]
        """
        self._refuse_limits()
        return Steps(self._engine._pins.take_since(self.name, self._open(), since))

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
        """Follow the query: a `Snapshot`, then `Changes` as epochs are published, with a
        `Progress` after each epoch that was told.

        `since` goes on from an epoch that is still held, or from a hold, without a snapshot;
        `HistoryGone` says that it is not, and then one starts anew. `snapshot` says otherwise
        whether the result at the start comes first; without it nothing is read that is not asked
        for. `callback` is called with each event in a thread of its own. See
        `triegs.subscription.Subscription`.

        With `merge` a subscriber that falls behind gets the epochs that it missed as one step, and
        holds one epoch. Without, it gets a step for each epoch, and each is held until then: what a
        slow one has not read takes memory. A callback is called for each epoch unless `merge` is
        given; who iterates or polls gets merged steps unless it is False.

        With a `name` it goes on where the last one of that name was, and otherwise begins with a
        snapshot. Its place is the epoch after which more was asked for; it is held, as
        ``"subscription "`` and the name, and in an engine with a directory it is kept there.

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
        engine = self._engine
        self._refuse_limits()
        is_merging = callback is None if merge is None else merge
        keep = end = None
        if name is not None:
            place, keep, end = engine._name_subscription(name)
            since = place if since is None else since
        holder = None
        try:
            if not is_merging:  # before the start is taken, so that no epoch is missed
                holder = EpochHolder(engine._publications, self._hold_newest)
            start = engine._pins.take(self.name, self._open(), since)
        except BaseException:
            if holder is not None:
                holder.close()
            if end is not None:
                end()
            raise
        return Subscription(
            engine._publications,
            lambda epoch: engine._pins.take_since(self.name, self._open(), epoch)[1:],
            lambda: engine.epoch,
            start,
            is_first=since is None if snapshot is None else snapshot,
            progress=progress,
            callback=callback,
            keep=keep,
            end=end,
            holder=holder,
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
        """Hand the answers of a windowed query to a function, after its slides.

        `operator` is ``"RSTREAM"`` (all answers), ``"ISTREAM"`` (those that are new since the last
        emission) or ``"DSTREAM"`` (those that are gone); by default what the text registers, else
        RSTREAM. `report` says when: after each ``"slide"``, after a ``"change"`` of an answer, if
        what is emitted is ``"non-empty"``, or ``"periodic"`` with `every`. The function is called
        by `Engine.advance`, epoch by epoch. What it raises is logged, and raised by that call once
        all slides are published; what it was not told comes with the next emission. Cost: reading
        the answers, or what changed in them.

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
        windows = self._engine._windows
        found = windows.emit(self.snapshot, self.query, self._spaces, sink, options)
        self._emitters.append(found)
        return found

    def explain(self, output: ExplainName = "text") -> str:
        """The plan and its program as ``"text"``, ``"mermaid"``, ``"svg"`` or ``"json"``: what is
        kept and shared with which query, how large it is, and what each step has done so far.

        From any thread; a part that an update changes meanwhile may be shown as it was. Cost: the
        query, not what it holds.

        >>> from triegs import Engine
        >>> query = Engine().register("SELECT ?x { ?x <http://ex/p> ?y }")
        >>> print(query.explain().splitlines()[1])
        Class      free-connex: acyclic, and what the head hides can be summed out
        """
        from triegs.explain import explain

        if self._standing is None:
            return explain(self.plan, output)
        others = {
            query._standing: name
            for name, query in list(self._engine.queries.items())
            if query._standing is not None
        }
        return explain(describe_standing(self._engine._core, self._standing, others), output)

    def close(self) -> None:
        """Give back everything that only this query used; snapshots stay readable.

        Cost: the size of what is given back.
        """
        if self._standing is not None:
            self._engine._close_query(self, self._standing, self._constants)
            self._standing = None

    def _measure(self) -> float:
        """Seconds that the last epoch took for it, about; what queries share counts for each."""
        return self._engine._core.measure(self._open())

    def _hold_newest(self) -> Snapshot:
        if self._engine.queries.get(self.name) is not self:  # it is being closed
            raise StateError(f"the query {self.name!r} is closed")
        return self.snapshot()

    def _refuse_limits(self) -> None:
        if self.query.limit is not None or self.query.offset:
            raise StateError(NO_CHANGES)

    def _open(self) -> Standing:
        if self._standing is None:
            raise StateError(f"the query {self.name!r} is closed")
        return self._standing

    def __enter__(self) -> StandingQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe_state(self) -> str:
        """The class of its plan, or why it shows nothing new."""
        if self._standing is None:
            return "closed"
        stalled = "" if self.error is None else ", stalled"
        return f"{self.plan.plan_class.value}{stalled}"

    def __repr__(self) -> str:
        head = " ".join(self.query.head) or self.query.form.value
        return f"<StandingQuery {self.name!r}, {self.describe_state()}, {head}>"

    def _repr_html_(self) -> str:
        """For a notebook: what it asks, how it is kept, and its first answers. Cost: those."""
        facts: list[tuple[str, object]] = [
            ("class", self.describe_state()),
            ("text", self.query.text.strip()),
        ]
        facts += [("window", window) for _, window in self.query.windows]
        if self._standing is not None and self.error is not None:
            facts.append(("error", self.error))
        card = write_card(f"StandingQuery {self.name}", facts)
        if self._standing is None:
            return card
        with self.snapshot() as snapshot:
            return card + snapshot._repr_html_()
