"""The queries of ``triegs run``: texts, windows and registration."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import typer

from triegs.cli.output import fail
from triegs.cli.queries import is_text, read_text, show_query_error
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import QueryError, WindowError
from triegs.lanes import Lanes
from triegs.outputs import Head, Kind
from triegs.run.reporter import Emit, RunQuery, Sign
from triegs.sparql import Query, parse
from triegs.sparql.model import Form, Operator
from triegs.sparql.window import Window

LOG = logging.getLogger("triegs.run")
_NAMED = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
SIGNS = {Operator.ISTREAM: Sign.POSITIVE, Operator.DSTREAM: Sign.NEGATIVE}


class QueryArgument(NamedTuple):
    """A query argument: name, text, source of the text, and parsed query."""

    name: str
    text: str
    source: str
    query: Query


def read_queries(given: Iterable[str], prefixes: Mapping[str, str]) -> list[QueryArgument]:
    """Read queries from files or texts; names must be unique."""
    found: list[QueryArgument] = []
    for number, argument in enumerate(given, 1):
        named = _NAMED.fullmatch(argument)
        name, rest = (named[1], named[2]) if named else ("", argument)
        if is_text(rest):
            name, text, source = name or f"query{number}", rest, f"query {number}"
        else:
            name, text, source = name or Path(rest).stem, read_text(rest), rest
        try:
            query = parse(text, prefixes)
        except QueryError as error:
            fail(show_query_error(error, text, source))
        found.append(QueryArgument(name, text, source, query))
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(
                f"two queries are named {name}; rename one with name=QUERY", param_hint="QUERY"
            )
    return found


def read_window(width: str | None, slide: str | None) -> Window | None:
    """The window of the options, for queries without their own."""
    if width is None:
        if slide is not None:
            raise typer.BadParameter("requires --window", param_hint="--slide")
        return None
    option = "--window"
    try:
        window = Window(width)
        option = "--slide"
        return window if slide is None else Window(width, slide)
    except WindowError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def find_windows(
    queries: list[QueryArgument], window: Window | None
) -> dict[str, tuple[Window, ...]]:
    """The windows of each query; either all queries have windows, or none."""
    given = () if window is None else (window,)
    found = {each.name: tuple(own for _, own in each.query.windows) or given for each in queries}
    if window is not None and all(each.query.windows for each in queries):
        raise typer.BadParameter("all queries define windows in their text", param_hint="--window")
    without = [name for name, windows in found.items() if not windows]
    if without and len(without) < len(found):
        raise typer.BadParameter(
            f"{without[0]} has no window, but others have; give it one",
            param_hint="--window",
        )
    return found


def choose_kinds(query: Query, emit: str | None) -> tuple[tuple[Kind, ...], Sign]:
    """What to write for a query: as requested, else as its text says."""
    if emit is not None or query.output is None:
        return Emit(emit or Emit.SNAPSHOT).kinds, Sign.ALL
    sign = SIGNS.get(query.output.operator)
    return (Emit.SNAPSHOT.kinds, Sign.ALL) if sign is None else (Emit.CHANGES.kinds, sign)


def check_changes(given: QueryArgument, kinds: tuple[Kind, ...]) -> None:
    """Reject changes of a query with LIMIT or OFFSET, which apply to lists of rows."""
    if Kind.CHANGES in kinds and (given.query.limit is not None or given.query.offset):
        raise typer.BadParameter(
            f"{given.name} has LIMIT or OFFSET, which apply only to snapshots", param_hint="--emit"
        )


def register(
    engine: Engine | Lanes, given: QueryArgument, emit: str | None, windows: tuple[Window, ...]
) -> RunQuery:
    """Register a query; exits if the engine does not support it."""
    try:
        query = engine.register(given.text, given.name, window=find_own(given, windows))
    except QueryError as error:
        fail(show_query_error(error, given.text, given.source))
    return make_run_query(query, given, emit, windows)


def find_own(given: QueryArgument, windows: tuple[Window, ...]) -> Window | None:
    """The window of the options, for a query without one in its text."""
    return windows[0] if windows and not given.query.windows else None


def make_run_query(
    query: StandingQuery, given: QueryArgument, emit: str | None, windows: tuple[Window, ...]
) -> RunQuery:
    kinds, sign = choose_kinds(given.query, emit)
    LOG.info("registered %s: %s", query.name, query.plan.plan_class.value)
    return RunQuery(query, kinds, sign, windows)


def describe_head(run_query: RunQuery, prefixes: dict[str, str], base: str = "") -> Head:
    query = run_query.query.query
    names = tuple(name.lstrip("?") for name in query.head)
    return Head(
        run_query.query.name, names, query.form is Form.ASK, run_query.kinds, prefixes, base
    )
