"""Standing graph-pattern queries over live event streams.

The way of the data, so far: query text → `parse` → `Query` → `compile_query` → `Plan`, which
`Reference` executes from scratch and `triegs explain` draws. Names are loaded on first use, so
that ``import triegs`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triegs.compiler import Plan, compile_query, legal_plans
    from triegs.errors import PlanError, QueryError, TriegsError, UnsupportedQuery
    from triegs.reference import Reference, solutions
    from triegs.sparql import Query, parse

__version__ = "0.1.0"

_HOME = {
    "Plan": "compiler",
    "PlanError": "errors",
    "Query": "sparql",
    "QueryError": "errors",
    "Reference": "reference",
    "TriegsError": "errors",
    "UnsupportedQuery": "errors",
    "compile_query": "compiler",
    "legal_plans": "compiler",
    "parse": "sparql",
    "solutions": "reference",
}

__all__ = [
    "Plan",
    "PlanError",
    "Query",
    "QueryError",
    "Reference",
    "TriegsError",
    "UnsupportedQuery",
    "__version__",
    "compile_query",
    "legal_plans",
    "parse",
    "solutions",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"triegs.{_HOME[name]}"), name)
    raise AttributeError(f"module 'triegs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
