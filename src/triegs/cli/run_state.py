"""``triegs run --state``: opens the state directory and resumes its queries."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import typer

from triegs.cli.output import fail
from triegs.cli.queries import show_query_error
from triegs.cli.run import Request
from triegs.cli.run_inputs import reject
from triegs.cli.run_queries import QueryArgument, find_own, make_run_query
from triegs.durable.directory import read_settings
from triegs.durable.files import DiskFiles
from triegs.durable.opening import read_sync
from triegs.durable.recovery import Recovery
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import QueryError, TriegsError, WindowError
from triegs.mode import Mode
from triegs.names import BASE
from triegs.outputs import Kind
from triegs.reason.model import RuleSet
from triegs.run.bookmarks import QUERIES, STATIC, name_hold, note_epoch
from triegs.run.reporter import RunQuery
from triegs.sparql import parse
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

LOG = logging.getLogger("triegs")


def check_state(request: Request) -> None:
    """Check the options of --state before anything is opened."""
    if request.state is None:
        if request.sync is not None:
            reject("requires --state", "--sync")
        return
    if request.workers > 1:
        reject("not supported with --state: lanes have no directory; use --workers 1", "--workers")
    try:
        read_sync(request.sync or "100ms")
    except (ValueError, WindowError):
        reject(f"{request.sync!r} is not always, never, or a duration such as 100ms", "--sync")
    path = Path(request.state)
    if path.exists() and not path.is_dir():
        reject(f"{path} is a file, not a directory", "--state")


def open_state(
    request: Request, prefixes: Mapping[str, str], event_time: EventTime, rules: RuleSet
) -> Engine:
    """Open the engine in the directory, and log what was recovered."""
    assert request.state is not None
    path = Path(request.state)
    given = (request.lateness, request.max_ahead, request.idle_timeout)
    is_there = path.is_dir() and read_settings(DiskFiles(), path) is not None
    is_set = not is_there or any(value is not None for value in given)
    engine = Engine.open(
        path,
        None if request.mode is None else Mode(request.mode),
        sync=request.sync or "100ms",
        prefixes=dict(prefixes),
        base=request.base or BASE,
        event_time=event_time if is_set else None,
        rules=rules,
    )
    assert engine.recovery is not None
    log_recovery(path, engine.recovery)
    return engine


def log_recovery(directory: Path, found: Recovery) -> None:
    """Log the recovery of a directory; warns only if something was lost."""
    if found.cut is not None:
        file, offset, size, reason = found.cut
        LOG.warning(
            "%s: removed an incomplete record left by the last run: "
            "%d bytes at %d of %s (%s)",
            directory, size, offset, file.name, reason,
        )  # fmt: skip
    for problem in found.damaged:
        LOG.warning("%s: skipped a checkpoint: %s", directory, problem)
    for name, reason in found.lost_queries.items():
        LOG.warning(
            "%s: closed %s, which this version does not support: %s", directory, name, reason
        )
    LOG.info(
        "opened %s at epoch %d: replayed %d records after the checkpoint of record %d in %.3f s",
        directory, found.epoch, found.replayed, found.checkpoint, found.seconds,
    )  # fmt: skip


def register_again(
    engine: Engine,
    queries: Iterable[QueryArgument],
    emit: str | None,
    windows: dict[str, tuple[Window, ...]],
) -> list[RunQuery]:
    """The queries of this run: resumed if unchanged, else registered.

    Queries of earlier runs that are no longer requested are closed.
    """
    given = list(queries)
    names = [each.name for each in given]
    for name in engine.positions.get(QUERIES) or ():
        if name not in names and name in engine.queries:
            LOG.warning("%s is no longer requested and was closed", name)
            close(engine, engine.queries[name])
    return [_register(engine, each, emit, windows[each.name], names) for each in given]


def _register(
    engine: Engine,
    given: QueryArgument,
    emit: str | None,
    windows: tuple[Window, ...],
    names: list[str],
) -> RunQuery:
    own = find_own(given, windows)
    before = engine.queries.get(given.name)
    if before is not None and not is_same(before, given, own):
        LOG.warning("%s has changed and starts from scratch", given.name)
        close(engine, before)
        before = None
    if before is None:
        query = _make(engine, given, own, names)
        return make_run_query(query, given, emit, windows)
    run_query = make_run_query(before, given, emit, windows)
    hold = name_hold(given.name)
    assert engine.recovery is not None
    if Kind.CHANGES in run_query.kinds and hold in engine.holds:
        run_query.before = before.snapshot(epoch=hold)
    elif Kind.CHANGES in run_query.kinds and hold in engine.recovery.lost_holds:
        LOG.warning(
            "%s: the changes between epochs %d and %d were not written and are lost; "
            "changes continue from there",
            given.name, engine.recovery.lost_holds[hold], engine.epoch,
        )  # fmt: skip
        run_query.before = before.snapshot()
    return run_query


def _make(
    engine: Engine, given: QueryArgument, own: Window | None, names: list[str]
) -> StandingQuery:
    registered = [*(engine.positions.get(QUERIES) or ()), *names]
    try:
        found: StandingQuery = note_epoch(
            engine,
            {QUERIES: sorted(set(registered))},
            lambda: engine.register(given.text, given.name, window=own),
        )
    except QueryError as error:
        fail(show_query_error(error, given.text, given.source))
    return found


def is_same(query: StandingQuery, given: QueryArgument, own: Window | None) -> bool:
    """Whether a registered query is equivalent to a requested one."""
    source = query._source
    return source.window == own and parse(source.text, source.prefixes) == given.query


def close(engine: Engine, query: StandingQuery) -> None:
    """Close a query and release its hold."""
    if name_hold(query.name) in engine.holds:
        engine.release(name_hold(query.name))
    note_epoch(engine, {}, query.close)


def load_once(engine: Engine, paths: Iterable[str]) -> None:
    """Load the static files that no earlier run loaded."""
    for path in paths:
        full = Path(path).resolve()
        name, size = f"{STATIC}{full}", full.stat().st_size
        before = engine.positions.get(name)
        if before is not None and before != size:
            fail(
                f"error: {path} has changed since it was loaded: {size:,} bytes, not "
                f"{before:,}; restore it, or start with a new state directory"
            )
        if before is not None:
            continue
        try:
            report = note_epoch(engine, {name: size}, partial(engine.load, path))
        except TriegsError as error:
            fail(f"error: {error}")
        LOG.info("loaded %s as epoch %d", path, report.epoch)


def refuse_new_windows(engine: Engine, has_windows: bool) -> None:
    """Reject resuming a windowed run without windows, and vice versa."""
    kept = [n for n in engine.positions.get(QUERIES) or () if n in engine.queries]
    for name in kept:
        source = engine.queries[name]._source
        was = source.window is not None or bool(parse(source.text, source.prefixes).windows)
        if was != has_windows:
            raise typer.BadParameter(
                f"earlier runs had {'windows' if was else 'no window'}", param_hint="--state"
            )
