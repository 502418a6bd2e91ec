"""What a pipeline rejects before it starts, because it would fail or mislead later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from triegs.errors import InputError, StateError
from triegs.spark.answers import CHANGES, EPOCH, TIME, Sink, free_name
from triegs.sparql import Query

#: Names in a checkpoint that belong to the pipeline.
RESERVED = ("engine", "spark", "quarantine", "seeds")
CASE = "spark.sql.caseSensitive"
REMEDY = f"rename one, or set {CASE} to true"


def require_outside(sinks: Mapping[str, list[Sink]], home: Path) -> None:
    """No sink overlaps the checkpoint's own files."""
    taken = [(home / name).resolve() for name in RESERVED]
    for name, several in sinks.items():
        for sink in several:
            if not callable(sink.target):
                path = Path(sink.target).resolve()
                inside = any(path == each or each in path.parents for each in taken)
                if inside or path == home.resolve():
                    raise StateError(
                        f"the sink {path} of {name!r} overlaps the checkpoint's own files in "
                        f"{home}; give it a directory of its own"
                    )


def require_changes(sinks: Mapping[str, list[Sink]], queries: Mapping[str, Query]) -> None:
    """Sinks of changes belong to queries that have changes."""
    for name, several in sinks.items():
        query = queries[name]
        is_cut = query.limit is not None or query.offset
        if is_cut and any(sink.what == CHANGES for sink in several):
            raise StateError(
                f"the sink of {name!r} needs changes, and a query with LIMIT or OFFSET has none; "
                f'remove these, or use snapshots: Sink(…, "snapshot")'
            )


def require_columns(session: Any, there: Iterable[str], used: Iterable[str]) -> None:
    """Spark can distinguish each used column from the others."""
    names = list(there)
    for name in used:
        twins = [each for each in names if _fold(session, each) == _fold(session, name)]
        if len(twins) > 1:
            both = " and ".join(map(repr, twins[:2]))
            raise InputError(f"Spark cannot distinguish the columns {both}; {REMEDY}")


def require_heads(session: Any, queries: Mapping[str, Query], *, views: bool) -> None:
    """Spark can distinguish the columns of each query's answers, and the views."""
    for name, query in queries.items():
        heads = [variable[1:] for variable in query.head]
        added = [free_name(each, heads) for each in (EPOCH, TIME, "change", "multiplicity")]
        if twins := _find_twins(session, [*heads, *added]):
            raise StateError(
                f"Spark cannot distinguish the columns {twins[0]!r} and {twins[1]!r} of the query "
                f"{name!r}; {REMEDY}"
            )
    if views and (twins := _find_twins(session, queries)):
        raise StateError(
            f"Spark cannot distinguish the views of the queries {twins[0]!r} and {twins[1]!r}; "
            f"{REMEDY}, or start with views=False"
        )


def _find_twins(session: Any, names: Iterable[str]) -> tuple[str, str] | None:
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(_fold(session, name), name)
        if other != name:
            return other, name
    return None


def _fold(session: Any, name: str) -> str:
    return name if session.conf.get(CASE, "false") == "true" else name.lower()
