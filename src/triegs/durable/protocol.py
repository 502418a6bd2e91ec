"""What checkpoints and recovery need of an engine. `triegs.engine.internals` provides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from triegs.durable.aggregate_source import SavedEvents
from triegs.durable.journal import Journal
from triegs.durable.source import QuerySource
from triegs.events.updates import Batch
from triegs.maintain.compiled import CompiledCore
from triegs.reason.model import RuleSet
from triegs.store.packed import PackedStore
from triegs.terms.dictionary import Dictionary
from triegs.windows.outcomes import Published
from triegs.windows.windows import Windows


class EpochClock(Protocol):
    """The numbers and the times of epochs."""

    #: The version that is epoch 0.
    first: int

    def find(self, number: int) -> int | None: ...

    def restore(self, time: int | None) -> None: ...


class RecoverableEngine(Protocol):
    """An engine whose state can be captured, restored and changed by replayed records."""

    journal: Journal | None
    published: tuple[Published, ...]
    #: Updates that were applied, and that were refused.
    updates: int
    refused: int

    @property
    def dictionary(self) -> Dictionary: ...

    @property
    def store(self) -> PackedStore: ...

    @property
    def core(self) -> CompiledCore: ...

    @property
    def windows(self) -> Windows: ...

    @property
    def clock(self) -> EpochClock: ...

    @property
    def epoch(self) -> int: ...

    @property
    def queries(self) -> Mapping[str, object]: ...

    @property
    def holds(self) -> Mapping[str, int]: ...

    @property
    def is_watched(self) -> bool: ...

    def list_sources(self) -> list[QuerySource]: ...

    def register(self, source: QuerySource, *, refuse_patterns: bool = True) -> object: ...

    def close_query(self, name: str) -> None: ...

    def list_aggregates(self) -> list[dict[str, Any]]: ...

    def aggregate(self, fields: Mapping[str, Any]) -> object: ...

    def close_aggregate(self, name: str) -> None: ...

    def load_rules(self, rules: RuleSet) -> None: ...

    def list_rules(self) -> str: ...

    def save_answers(self) -> dict[str, SavedEvents]: ...

    def restore_aggregates(self, saved: Mapping[str, SavedEvents]) -> None: ...

    def apply(self, updates: object) -> Any: ...

    def apply_again(self, batch: Batch, strict: bool, time: int | None, malformed: int) -> None: ...

    def push(self, events: object, stream: str | None) -> Any: ...

    def hold(self, name: str, epoch: int | None = None) -> int: ...

    def free_terms(self) -> None: ...

    def end_epoch(self) -> None: ...

    def close(self) -> None: ...
