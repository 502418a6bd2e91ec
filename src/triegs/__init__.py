"""Standing graph-pattern queries over live event streams, with exact answers.

An `Engine` holds a graph. `Engine.register` takes the text of a query and returns a
`StandingQuery`, `Engine.apply` takes a batch of updates, and `StandingQuery.snapshot` returns a
`Snapshot`: the answers of one published epoch, each with its multiplicity, which no later update
changes.

Internally, `parse` turns a text into a `Query`, and `compile_query` turns that into a `Plan`.
`Reference` executes any plan from scratch. Names are loaded on first use, so that ``import triegs``
stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triegs.compiler import Plan, compile_query, legal_plans
    from triegs.durable.recovery import Recovery
    from triegs.engine import Engine
    from triegs.engine.report import Report
    from triegs.engine.standing_query import StandingQuery
    from triegs.engine.window_aggregate import AggregateResult, WindowAggregate
    from triegs.errors import (
        BadOption,
        BadTerm,
        CannotWrite,
        DirectoryInUse,
        HistoryGone,
        InputError,
        InvalidUpdate,
        LogDamaged,
        LogFailed,
        MappingError,
        MemoryLimitReached,
        MultiplicityOverflow,
        NotCopied,
        PlanError,
        QueryError,
        QueryWarning,
        RequestFailed,
        RuleError,
        SnapshotExpired,
        StateDamaged,
        StateError,
        TimeLimitReached,
        TriegsError,
        UnsupportedQuery,
        WindowError,
    )
    from triegs.lanes import Lanes
    from triegs.maintain.standing import Refused
    from triegs.read.changes import Change, Changes
    from triegs.read.handle import SnapshotHandle
    from triegs.read.snapshot import Answer, Snapshot
    from triegs.read.subscription import Progress, Subscription
    from triegs.sparql import Query, parse
    from triegs.sparql.window import Window
    from triegs.terms.term import Text, literal
    from triegs.testing.reference import Reference, solutions
    from triegs.windows.outcomes import Published, Pushed
    from triegs.windows.settings import EventTime

__version__ = "0.1.0"

_HOME = {
    "AggregateResult": "engine.window_aggregate",
    "Answer": "read.snapshot",
    "BadOption": "errors",
    "BadTerm": "errors",
    "CannotWrite": "errors",
    "Change": "read.changes",
    "Changes": "read.changes",
    "DirectoryInUse": "errors",
    "Engine": "engine",
    "EventTime": "windows.settings",
    "HistoryGone": "errors",
    "InputError": "errors",
    "InvalidUpdate": "errors",
    "Lanes": "lanes",
    "LogDamaged": "errors",
    "LogFailed": "errors",
    "MappingError": "errors",
    "MemoryLimitReached": "errors",
    "MultiplicityOverflow": "errors",
    "NotCopied": "errors",
    "Plan": "compiler",
    "PlanError": "errors",
    "Progress": "read.subscription",
    "Published": "windows.outcomes",
    "Pushed": "windows.outcomes",
    "Query": "sparql",
    "QueryError": "errors",
    "QueryWarning": "errors",
    "Recovery": "durable.recovery",
    "Reference": "testing.reference",
    "Refused": "maintain.standing",
    "Report": "engine.report",
    "RequestFailed": "errors",
    "RuleError": "errors",
    "Snapshot": "read.snapshot",
    "SnapshotExpired": "errors",
    "SnapshotHandle": "read.handle",
    "StandingQuery": "engine.standing_query",
    "StateDamaged": "errors",
    "StateError": "errors",
    "TimeLimitReached": "errors",
    "Subscription": "read.subscription",
    "Text": "terms.term",
    "TriegsError": "errors",
    "UnsupportedQuery": "errors",
    "Window": "sparql.window",
    "WindowAggregate": "engine.window_aggregate",
    "WindowError": "errors",
    "compile_query": "compiler",
    "legal_plans": "compiler",
    "literal": "terms.term",
    "parse": "sparql",
    "solutions": "testing.reference",
}

__all__ = [
    "AggregateResult",
    "Answer",
    "BadOption",
    "BadTerm",
    "CannotWrite",
    "Change",
    "Changes",
    "DirectoryInUse",
    "Engine",
    "EventTime",
    "HistoryGone",
    "InputError",
    "InvalidUpdate",
    "Lanes",
    "LogDamaged",
    "LogFailed",
    "MappingError",
    "MemoryLimitReached",
    "MultiplicityOverflow",
    "NotCopied",
    "Plan",
    "PlanError",
    "Progress",
    "Published",
    "Pushed",
    "Query",
    "QueryError",
    "QueryWarning",
    "Recovery",
    "Reference",
    "Refused",
    "Report",
    "RequestFailed",
    "RuleError",
    "Snapshot",
    "SnapshotExpired",
    "SnapshotHandle",
    "StandingQuery",
    "StateDamaged",
    "StateError",
    "Subscription",
    "Text",
    "TimeLimitReached",
    "TriegsError",
    "UnsupportedQuery",
    "Window",
    "WindowAggregate",
    "WindowError",
    "__version__",
    "compile_query",
    "legal_plans",
    "literal",
    "parse",
    "solutions",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"triegs.{_HOME[name]}"), name)
    raise AttributeError(f"module 'triegs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
