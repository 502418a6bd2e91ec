"""Registering stored queries when a directory is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triegs.durable.protocol import RecoverableEngine
from triegs.durable.source import QuerySource
from triegs.errors import QueryError


def register_again(engine: RecoverableEngine, fields: Mapping[str, Any]) -> dict[str, str]:
    """Register a stored query; by its name, why this version refuses it, if it does.

    A regular expression that an earlier version accepted may be refused by this one. Such a query
    is registered with a pattern that matches nothing, so that its windows have their epochs while
    the log is replayed; opening closes it before anybody can read it.
    """
    source = QuerySource.read(fields)
    try:
        source.parse()
    except QueryError as problem:
        engine.register(source, refuse_patterns=False)
        return {str(source.name): str(problem)}
    engine.register(source)
    return {}
