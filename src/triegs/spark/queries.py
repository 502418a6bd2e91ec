"""A query as the caller of a pipeline wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triegs.durable.source import QuerySource
from triegs.errors import StateError

OPTIONS = ("text", "root", "keep", "window")


def read_source(
    name: str, given: Mapping[str, Any], prefixes: Mapping[str, str] | None
) -> QuerySource:
    """The source of a query; `StateError` for an unknown option."""
    if unknown := given.keys() - set(OPTIONS):
        raise StateError(
            f"the query {name!r} has the unknown option {min(unknown)!r}; "
            f"known are {', '.join(OPTIONS)}"
        )
    keep = tuple(given.get("keep", ()))
    window = given.get("window")
    return QuerySource(given["text"], name, given.get("root"), keep, window, dict(prefixes or {}))
