"""What a caller of `triegs.spark.start` or `triegs.spark.changes` asks for, after validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triegs.mode import Mode
from triegs.names import BASE
from triegs.options import ModeName
from triegs.reason.model import RuleSet
from triegs.spark.answers import Sink
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime


@dataclass(frozen=True)
class PipelineRequest:
    """``columns`` maps our column names to those of ``events``; ``queries`` has the registration
    options of each query, with ``text``. `triegs.spark.start` documents the other fields.
    """

    events: Any
    columns: Mapping[str, str]
    queries: Mapping[str, Mapping[str, Any]]
    #: The checkpoint directory; None for `triegs.spark.changes`, whose checkpoint is the caller's.
    home: Path | None = None
    sinks: Mapping[str, list[Sink]] = field(default_factory=dict)
    static: Any = None
    mode: Mode | ModeName | None = None
    window: Window | None = None
    event_time: EventTime | None = None
    stream: str | None = None
    prefixes: Mapping[str, str] | None = None
    trigger: Mapping[str, Any] | None = None
    name: str | None = None
    views: bool = True
    on_progress: Callable[[dict[str, Any]], object] | None = None
    #: Rules of a partitioned pipeline; the driver's are among the options of its engine.
    rules: RuleSet = field(default_factory=RuleSet)
    #: The base of IRIs that cells name, and the empty prefix of queries.
    base: str = BASE
    #: The base that is removed from results; empty if results are terms.
    shown_base: str = ""

    @property
    def session(self) -> Any:
        return self.events.sparkSession

    @property
    def checkpoint(self) -> Path:
        assert self.home is not None
        return self.home
