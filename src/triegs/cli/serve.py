"""Options of ``triegs serve``; `triegs.cli.serve_command`, the implementation, is imported late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from triegs.cli.output import fail, quiet_exit

#: Packages of the extra.
NEEDED = frozenset({"prometheus_client", "starlette", "uvicorn", "websockets"})


class ModeOption(StrEnum):
    """`triegs.mode.Mode`, repeated so that ``--help`` need not load it."""

    MULTIGRAPH = "multigraph"
    RDF = "rdf"


class LogOption(StrEnum):
    TEXT = "text"
    JSON = "json"


class LevelOption(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class ServeRequest:
    """What the command line asks for."""

    state: Path | None
    queries: list[str]
    prefixes: list[str]
    base: str | None
    mode: str | None
    window: str | None
    slide: str | None
    sync: str | None
    memory_limit: str | None
    retain_epochs: int
    host: str
    port: int
    token_file: Path | None
    origins: list[str]
    epoch_every: str
    epoch_rows: int
    queue_bytes: str
    body_bytes: str
    lease: str
    is_adhoc: bool
    log_format: str
    log_level: str


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Options from a TOML file become the defaults of those that are not given."""
    if path is None:
        return None
    import tomllib

    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(f"{path}: {error}") from None
    known = {each.name for each in context.command.params} - {"config", "help"}
    given = {name.replace("-", "_"): value for name, value in found.items()}
    if unknown := sorted(given.keys() - known):
        raise typer.BadParameter(f"{path}: unknown option {unknown[0].replace('_', '-')!r}")
    context.default_map = {**(context.default_map or {}), **given}
    return path


def serve(
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Keep the engine in this directory."),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            metavar="[NAME=]QUERY",
            help="Register a query, a file or a text. Repeatable.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix",
            metavar="NAME=IRI",
            help="Declare a prefix for all queries. Repeatable.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="IRI", help="IRI prefix of plain names.")
    ] = None,
    mode: Annotated[
        ModeOption | None,
        typer.Option("--mode", metavar="multigraph|rdf", help="How equal events count."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="TIME", help="Window of queries without their own."),
    ] = None,
    slide: Annotated[
        str | None, typer.Option("--slide", metavar="TIME", help="Slide of --window.")
    ] = None,
    sync: Annotated[
        str | None,
        typer.Option("--sync", metavar="always|TIME|never", help="When --state syncs its log."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option("--memory-limit", metavar="SIZE", help="Limit of graph and views."),
    ] = None,
    retain_epochs: Annotated[
        int,
        typer.Option("--retain-epochs", metavar="N", min=0, help="Older epochs to keep."),
    ] = 16,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free port.")
    ] = 7077,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="Lines of ROLE TOKEN [NAME]: read, write, admin."
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--cors-origin",
            metavar="ORIGIN",
            help="Let pages of this origin call the server. Repeatable.",
            show_default=False,
        ),
    ] = None,
    epoch_every: Annotated[
        str,
        typer.Option("--epoch-every", metavar="TIME", help="Least time between busy epochs."),
    ] = "20ms",
    epoch_rows: Annotated[
        int,
        typer.Option("--epoch-rows", metavar="N", min=1, help="Rows that do not wait for it."),
    ] = 65_536,
    queue_bytes: Annotated[
        str, typer.Option("--queue-bytes", metavar="SIZE", help="Events that may wait.")
    ] = "256MiB",
    body_bytes: Annotated[
        str, typer.Option("--body-bytes", metavar="SIZE", help="Largest body of a request.")
    ] = "64MiB",
    lease: Annotated[
        str, typer.Option("--lease", metavar="TIME", help="How long a response keeps its epoch.")
    ] = "60s",
    adhoc: Annotated[
        bool,
        typer.Option("--adhoc/--no-adhoc", help="Answer SPARQL queries that are not registered."),
    ] = True,
    log_format: Annotated[
        LogOption, typer.Option("--log-format", metavar="text|json", help="Form of log lines.")
    ] = LogOption.TEXT,
    log_level: Annotated[
        LevelOption,
        typer.Option("--log-level", metavar="LEVEL", help="debug, info, …"),
    ] = LevelOption.INFO,
    config: Annotated[  # noqa: ARG001
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Read options from a file; those given here come first.",
            is_eager=True,
            callback=read_config,
        ),
    ] = None,
) -> None:
    """Serve an engine over HTTP: events in, answers and changes out.

    Needs the extra server: pip install 'triegs[server]'. Without --token-file it
    listens on the loopback interface only.
    """
    with quiet_exit():
        try:
            from triegs.cli.serve_command import run_serve
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in NEEDED:
                raise
            fail("error: triegs serve needs the extra server: pip install 'triegs[server]'")
        run_serve(
            ServeRequest(
                state, query or [], prefix or [], base, mode and mode.value, window, slide, sync,
                memory_limit, retain_epochs, host, port, token_file, origin or [], epoch_every,
                epoch_rows, queue_bytes, body_bytes, lease, adhoc, log_format.value,
                log_level.value,
            )
        )  # fmt: skip
