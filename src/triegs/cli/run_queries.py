"""The queries of ``triegs run``: their texts, their windows, and their place in the engine."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import typer

from triegs.cli.output import fail
from triegs.cli.queries import show_query_error
from triegs.engine import Engine
from triegs.errors import QueryError, WindowError
from triegs.outputs import Head, Kind
from triegs.run.reporter import Emit, RunQuery, Sign
from triegs.sparql import Query, parse
from triegs.sparql.model import Form, Operator
from triegs.sparql.window import Window
from triegs.standing_query import StandingQuery

LOG = logging.getLogger("triegs.run")
_NAMED = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
SIGNS = {Operator.ISTREAM: Sign.POSITIVE, Operator.DSTREAM: Sign.NEGATIVE}


class Given(NamedTuple):
    """A query as it was given: its name, its text, where that is from, and what it means."""

    name: str
    text: str
    source: str
    query: Query


def read_queries(given: Iterable[str], prefixes: Mapping[str, str]) -> list[Given]:
    """The queries of files, or of what was given itself if it is a text; names are unique."""
    found: list[Given] = []
    for number, argument in enumerate(given, 1):
        named = _NAMED.fullmatch(argument)
        name, rest = (named[1], named[2]) if named else ("", argument)
        if "{" in rest and not is_file(rest):
            name, text, source = name or f"query{number}", rest, f"query {number}"
        else:
            name, text, source = name or Path(rest).stem, read_text(rest), rest
        try:
            query = parse(text, prefixes)
        except QueryError as error:
            fail(show_query_error(error, text, source))
        found.append(Given(name, text, source, query))
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(
                f"two queries are called {name}; name=QUERY gives another name", param_hint="QUERY"
            )
    return found


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        fail(f"error: {path} is not UTF-8 text (byte {error.start})")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise typer.BadParameter(
            f"cannot read {path}: {reason}; a query is a file or a text", param_hint="QUERY"
        ) from None


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def read_window(width: str | None, slide: str | None) -> Window | None:
    """The window that options give to queries without their own."""
    if width is None:
        if slide is not None:
            raise typer.BadParameter("a slide needs a window", param_hint="--slide")
        return None
    try:
        return Window(width, slide)
    except WindowError as error:
        raise typer.BadParameter(str(error), param_hint="--window") from None


def find_windows(queries: list[Given], window: Window | None) -> dict[str, tuple[Window, ...]]:
    """The windows of each query; either all have some, or none."""
    given = () if window is None else (window,)
    found = {each.name: tuple(own for _, own in each.query.windows) or given for each in queries}
    if window is not None and all(each.query.windows for each in queries):
        raise typer.BadParameter("all queries have windows in their text", param_hint="--window")
    without = [name for name, windows in found.items() if not windows]
    if without and len(without) < len(found):
        raise typer.BadParameter(
            f"{without[0]} has no window in its text, as others have; this is for it",
            param_hint="--window",
        )
    return found


def choose_kinds(query: Query, emit: str | None) -> tuple[tuple[Kind, ...], Sign]:
    """What to write of a query: what was asked for, or else what its text says."""
    if emit is not None or query.output is None:
        return Emit(emit or Emit.SNAPSHOT).kinds, Sign.ALL
    sign = SIGNS.get(query.output.operator)
    return (Emit.SNAPSHOT.kinds, Sign.ALL) if sign is None else (Emit.CHANGES.kinds, sign)


def check_changes(given: Given, kinds: tuple[Kind, ...]) -> None:
    """LIMIT and OFFSET cut a list of rows; there is no such list of changes."""
    if Kind.CHANGES in kinds and (given.query.limit is not None or given.query.offset):
        raise typer.BadParameter(
            f"{given.name} has LIMIT or OFFSET, which are for snapshots only", param_hint="--emit"
        )


def register(
    engine: Engine, given: Given, emit: str | None, windows: tuple[Window, ...]
) -> RunQuery:
    """Register a query; one that the engine does not run ends the command."""
    try:
        query = engine.register(given.text, given.name, window=find_own(given, windows))
    except QueryError as error:
        fail(show_query_error(error, given.text, given.source))
    return ask(query, given, emit, windows)


def find_own(given: Given, windows: tuple[Window, ...]) -> Window | None:
    """The window that options give to a query that has none in its text."""
    return windows[0] if windows and not given.query.windows else None


def ask(
    query: StandingQuery, given: Given, emit: str | None, windows: tuple[Window, ...]
) -> RunQuery:
    kinds, sign = choose_kinds(given.query, emit)
    LOG.info("registered %s: %s", query.name, query.plan.plan_class.value)
    return RunQuery(query, kinds, sign, windows)


def describe_head(asked: RunQuery, prefixes: dict[str, str], base: str = "") -> Head:
    query = asked.query.query
    names = tuple(name.lstrip("?") for name in query.head)
    return Head(asked.query.name, names, query.form is Form.ASK, asked.kinds, prefixes, base)
