"""A registered query of a lane, as users see it: it may move to another lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from triegs.compiler import Plan
from triegs.durable.source import QuerySource
from triegs.engine.standing_query import StandingQuery
from triegs.engine.state import EngineState
from triegs.errors import MultiplicityOverflow, StateError
from triegs.maintain.standing import RegisteredPlan
from triegs.options import ExplainName
from triegs.read.changes import Steps
from triegs.read.snapshot import Snapshot
from triegs.read.subscription import Subscription
from triegs.sparql import Query
from triegs.windows.emission import Emitter

if TYPE_CHECKING:
    from triegs.engine.window_aggregate import WindowAggregate

Result = TypeVar("Result")


class LaneQuery(StandingQuery):
    """A standing query in one of several lanes; `lane` is its number.

    It has the methods of `triegs.StandingQuery`. `triegs.Lanes.rebalance` may move it, unless it
    was followed by a subscription, an emitter or an aggregate. Snapshots stay readable then, but
    changes do not reach back beyond the move.
    """

    _instead = "it belongs to its lanes; send its text, or what snapshot().to_arrow() gives"

    def __init__(
        self, current: StandingQuery, lane: int, close: Callable[[LaneQuery], None]
    ) -> None:
        self.lane = lane
        self.name = current.name
        self.query: Query = current.query
        #: Whether something follows it where it is.
        self.is_followed = False
        self._current = current
        self._close_everywhere = close

    def move(self, current: StandingQuery, lane: int) -> None:
        """Continue as the same query in another lane."""
        self._current, self.lane = current, lane

    @property
    def plan(self) -> Plan:  # type: ignore[override]
        return self._current.plan

    @property
    def error(self) -> MultiplicityOverflow | None:
        """Why the query is stalled at an older epoch; None while it is up to date."""
        return self._call(lambda current: current.error)

    def snapshot(self, **options: Any) -> Snapshot:
        """As `triegs.StandingQuery.snapshot`; several queries at one epoch: `Lanes.snapshot`."""
        return self._call(lambda current: current.snapshot(**options))

    def changes(self, since: int | str, **options: Any) -> Steps:
        """As `triegs.StandingQuery.changes`, for epochs since the query is in this lane."""
        return self._call(lambda current: current.changes(since, **options))

    def subscribe(self, since: int | str | None = None, **options: Any) -> Subscription:
        """As `triegs.StandingQuery.subscribe`. The query then stays in its lane."""
        self.is_followed = True
        return self._call(lambda current: current.subscribe(since, **options))

    def emit(self, *given: Any, **options: Any) -> Emitter:
        """As `triegs.StandingQuery.emit`. The query then stays in its lane."""
        self.is_followed = True
        return self._call(lambda current: current.emit(*given, **options))

    def aggregate(self, *given: Any, **options: Any) -> WindowAggregate:
        """As `triegs.StandingQuery.aggregate`. The query then stays in its lane."""
        self.is_followed = True
        return self._call(lambda current: current.aggregate(*given, **options))

    def explain(self, output: ExplainName = "text") -> str:
        """As `triegs.StandingQuery.explain`."""
        return self._call(lambda current: current.explain(output))

    def close(self) -> None:
        """Free everything that only this query used; publishes an epoch in every lane."""
        if self._registered is not None:
            self._close_everywhere(self)

    def _call(self, work: Callable[[StandingQuery], Result]) -> Result:
        """Ask the current lane; once more if the query moved meanwhile."""
        while True:
            current = self._current
            try:
                return work(current)
            except StateError:
                if self._current is current:
                    raise

    # What `StandingQuery` keeps, as the lane that has the query has it.

    @property
    def _state(self) -> EngineState:  # type: ignore[override]
        return self._current._state

    @property
    def _registered(self) -> RegisteredPlan | None:  # type: ignore[override]
        return self._current._registered

    @property
    def _source(self) -> QuerySource:  # type: ignore[override]
        return self._current._source

    @property
    def _queries(self) -> Mapping[str, StandingQuery]:  # type: ignore[override]
        return self._current._queries

    def _measure(self) -> float:
        return self._current._measure()
