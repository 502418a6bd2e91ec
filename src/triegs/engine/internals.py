"""The components of an engine: its state, and the modules that work on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triegs.durable.aggregate_source import AggregateSource, SavedEvents
from triegs.durable.journal import Kind
from triegs.durable.source import QuerySource
from triegs.engine.aggregates import Aggregates
from triegs.engine.epochs import Epochs, UpdateOptions
from triegs.engine.event_time import PushOptions, TimedEvents
from triegs.engine.prepared import PreparedChanges
from triegs.engine.registration import Registration
from triegs.engine.report import Report
from triegs.engine.standing_query import StandingQuery
from triegs.engine.state import EngineOptions, EngineState
from triegs.engine.window_aggregate import WindowAggregate
from triegs.events.updates import Batch
from triegs.reason.model import RuleSet
from triegs.store.packed import PackedStore
from triegs.windows.outcomes import Pushed


class EngineInternals(EngineState):
    """An engine without its public methods; a `triegs.durable.protocol.RecoverableEngine`."""

    def __init__(self, options: EngineOptions, store: PackedStore) -> None:
        super().__init__(options, store)
        self.registration = Registration(self)
        self.aggregating = Aggregates(self, self.registration.queries)
        self.epochs = Epochs(self)
        self.timed_events = TimedEvents(self)
        self.prepared = PreparedChanges(self, self.epochs, self.timed_events)

    @property
    def queries(self) -> Mapping[str, StandingQuery]:
        return self.registration.queries

    def register(self, source: QuerySource, *, refuse_patterns: bool = True) -> StandingQuery:
        return self.registration.register(source, refuse_patterns=refuse_patterns)

    def list_sources(self) -> list[QuerySource]:
        return [query._source for query in self.queries.values()]

    def close_query(self, name: str) -> None:
        self.queries[name].close()

    def list_aggregates(self) -> list[dict[str, Any]]:
        return self.aggregating.list_sources()

    def aggregate(self, fields: Mapping[str, Any]) -> WindowAggregate:
        return self.aggregating.make(AggregateSource.read(fields))

    def close_aggregate(self, name: str) -> None:
        self.aggregates[name].close()

    def save_answers(self) -> dict[str, SavedEvents]:
        return self.aggregating.save_answers()

    def restore_aggregates(self, saved: Mapping[str, SavedEvents]) -> None:
        self.aggregating.restore(saved)

    def load_rules(self, rules: RuleSet) -> None:
        """Add rules, and publish what they derive; nothing if all are known."""
        known = self.windows.reasoning.rules
        if known + rules == known:
            return
        with self.update():
            with self.record(Kind.RULES, rules=str(rules)):
                self.windows.reasoning.load(rules)
            self.free_terms()
            self.end_epoch()

    def list_rules(self) -> str:
        return str(self.windows.reasoning.rules)

    def apply(self, updates: object) -> Report:
        return self.epochs.apply(updates, UpdateOptions())

    def apply_again(self, batch: Batch, strict: bool, time: int | None, malformed: int) -> None:
        self.epochs.apply_again(batch, strict, time, malformed)

    def push(self, events: object, stream: str | None) -> Pushed:
        return self.timed_events.push(events, PushOptions(stream))
