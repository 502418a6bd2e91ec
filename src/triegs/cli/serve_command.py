"""Implementation of ``triegs serve``."""

from __future__ import annotations

import logging
from typing import Any

import typer

from triegs.cli.output import fail
from triegs.cli.queries import read_prefixes, show_query_error
from triegs.cli.rules import read_rule_files
from triegs.cli.run_queries import QueryArgument, read_queries, read_window
from triegs.cli.serve import ServeRequest
from triegs.durations import read_duration
from triegs.engine import Engine
from triegs.errors import BadOption, QueryError
from triegs.names import BASE, add_base
from triegs.reason.model import RuleSet
from triegs.server import demo
from triegs.server.main import listen, serve
from triegs.server.request_log import show_log
from triegs.server.security import Access, is_loopback
from triegs.server.service import ADHOC, Service
from triegs.server.settings import Settings
from triegs.sizes import read_size
from triegs.sparql.window import Window

LOG = logging.getLogger("triegs.server")


def run_serve(request: ServeRequest) -> None:
    """Check the options, open the engine, serve until a signal."""
    settings = read_settings(request)
    access = read_access(request)
    prefixes = read_prefixes(request.prefixes or [])
    if request.demo:
        if request.state is not None:
            raise typer.BadParameter("is in memory; leave out --state", param_hint="--demo")
        prefixes = {**demo.WORKLOAD.prefixes, **prefixes}
    prefixes = add_base(request.base or BASE, prefixes)
    queries = read_queries(request.queries or [], prefixes)
    window = read_window(request.window, request.slide)
    rules = read_rule_files(request.rules or (), prefixes)
    show_log(request.log_level, request.log_format == "json")
    try:
        bound = listen(request.host, request.port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        fail(f"error: cannot listen on {request.host}:{request.port}: {reason}")
    with bound:
        engine = open_engine(request, prefixes, window, rules)
        if request.demo:
            demo.fill_engine(engine)
        for each in queries:
            register(engine, each)
        bound.listen()  # from here on a connection waits for the server
        port = bound.getsockname()[1]
        host = f"[{request.host}]" if ":" in request.host else request.host
        LOG.info("serving http://%s:%d", host, port, extra={"facts": {"epoch": engine.epoch}})
        if access.is_open:
            LOG.info("no --token-file: loopback only, and everyone on this machine has full access")
        service = Service(engine, settings, prefixes)
        serve(service, bound, access, [lambda: demo.run_stream(service)] if request.demo else ())
    LOG.info("stopped")


def read_settings(request: ServeRequest) -> Settings:
    queue = read_bytes(request.queue_bytes, "--queue-bytes")
    body = read_bytes(request.body_bytes, "--body-bytes")
    if request.memory_limit is not None:
        read_bytes(request.memory_limit, "--memory-limit")
    if body > queue:
        raise typer.BadParameter("must not exceed --queue-bytes", param_hint="--body-bytes")
    return Settings(
        epoch_every_s=read_seconds(request.epoch_every, "--epoch-every"),
        epoch_rows=request.epoch_rows,
        queue_bytes=queue,
        body_bytes=body,
        retain_epochs=request.retain_epochs,
        lease_s=read_seconds(request.lease, "--lease"),
        rate=request.rate,
        is_adhoc=request.adhoc,
        adhoc_s=read_seconds(request.adhoc_time, "--adhoc-time"),
    )


def read_bytes(text: str, option: str) -> int:
    try:
        return read_size(text, "it")
    except BadOption as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def read_seconds(text: str, option: str) -> float:
    try:
        return read_duration(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def read_access(request: ServeRequest) -> Access:
    """The tokens. Without any, an address that others can reach is refused."""
    if request.token_file is None and not is_loopback(request.host):
        raise typer.BadParameter(
            f"{request.host} can be reached by others; give --token-file, or listen on 127.0.0.1",
            param_hint="--host",
        )
    try:
        return Access(request.token_file, tuple(request.origins or ()))
    except OSError as error:
        problem = f"cannot read {request.token_file}: {error.strerror}"
        raise typer.BadParameter(problem, param_hint="--token-file") from None
    except (BadOption, UnicodeDecodeError) as error:
        raise typer.BadParameter(str(error), param_hint="--token-file") from None


def open_engine(
    request: ServeRequest, prefixes: dict[str, str], window: Window | None, rules: RuleSet
) -> Engine:
    options: dict[str, Any] = {
        "prefixes": prefixes, "memory_limit": request.memory_limit, "window": window,
        "retain_epochs": request.retain_epochs, "base": request.base or BASE, "rules": rules,
    }  # fmt: skip
    mode: Any = request.mode
    if request.state is None:
        if request.sync is not None:
            raise typer.BadParameter("requires --state", param_hint="--sync")
        return Engine(mode or "multigraph", **options)
    engine = Engine.open(request.state, mode, sync=request.sync or "100ms", **options)
    found = engine.recovery
    assert found is not None
    LOG.info(
        "opened %s", request.state,
        extra={"facts": {"epoch": found.epoch, "replayed": found.replayed, "cut": found.cut}},
    )  # fmt: skip
    for problem in found.damaged:
        LOG.warning("skipped a checkpoint: %s", problem)
    for name in [name for name in engine.queries if name.startswith(ADHOC)]:
        engine.queries[name].close()  # its process died before it could
    for name, why in found.lost_queries.items():
        LOG.warning("the query %s is closed: %s", name, why)
    return engine


def register(engine: Engine, given: QueryArgument) -> None:
    """Register a query, unless the state has it; one with another text is replaced."""
    before = engine.queries.get(given.name)
    if before is not None:
        if before.query == given.query:
            return
        LOG.warning("the query %s has another text now, and starts again", given.name)
        before.close()
    try:
        query = engine.register(given.text, given.name)
    except QueryError as error:
        fail(show_query_error(error, given.text, given.source))
    LOG.info("registered %s: %s", query.name, query.plan.plan_class.value)
