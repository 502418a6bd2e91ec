"""Options of ``triegs serve``; `triegs.cli.serve_command`, the implementation, is imported late."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from triegs.cli.options import (
    Base,
    LevelOption,
    LogLevel,
    Mode,
    Prefixes,
    RuleFiles,
    Sync,
    WindowSlide,
    WindowWidth,
    choice_option,
    list_option,
    text_option,
)
from triegs.cli.output import fail, quiet_exit

#: Packages of the extra.
NEEDED = frozenset({"prometheus_client", "starlette", "uvicorn", "websockets"})


class LogOption(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class ServeRequest:
    """The options as given, under the names of `serve`."""

    state: Path | None
    queries: list[str] | None
    prefixes: list[str] | None
    rules: list[str] | None
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
    origins: list[str] | None
    epoch_every: str
    epoch_rows: int
    queue_bytes: str
    body_bytes: str
    lease: str
    rate: float
    adhoc: bool
    adhoc_time: str
    demo: bool
    log_format: str
    log_level: str
    config: Path | None


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Options from a TOML file become the defaults of those that are not given."""
    if path is None:
        return None
    import tomllib

    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise typer.BadParameter(f"cannot read {path}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(f"{path}: {error}") from None
    known = {
        option.removeprefix("--"): each.name
        for each in context.command.params
        for option in each.opts
        if each.name not in ("config", "help")
    }
    if unknown := sorted(found.keys() - known.keys()):
        raise typer.BadParameter(f"{path}: unknown option {unknown[0]!r}")
    given = {known[name]: value for name, value in found.items()}
    context.default_map = {**(context.default_map or {}), **given}
    return path


def serve(
    state: Annotated[
        Path | None,
        text_option("--state", metavar="DIR", help="Keep the engine in this directory."),
    ] = None,
    queries: Annotated[
        list[str] | None,
        list_option("--query", metavar="[NAME=]QUERY", help="Query file or text to register."),
    ] = None,
    prefixes: Prefixes = None,
    rules: RuleFiles = None,
    base: Base = None,
    mode: Mode = None,
    window: WindowWidth = None,
    slide: WindowSlide = None,
    sync: Sync = None,
    memory_limit: Annotated[
        str | None,
        text_option("--memory-limit", metavar="SIZE", help="Memory limit of graph and views."),
    ] = None,
    retain_epochs: Annotated[
        int, typer.Option("--retain-epochs", metavar="N", min=0, help="Older epochs to keep.")
    ] = 16,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0 for any."),
    ] = 7077,
    token_file: Annotated[
        Path | None,
        text_option(
            "--token-file", metavar="FILE", help="Lines of ROLE TOKEN [NAME]: read, write, admin."
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        list_option(
            "--cors-origin", metavar="ORIGIN", help="Let pages of this origin call the server."
        ),
    ] = None,
    epoch_every: Annotated[
        str,
        typer.Option(
            "--epoch-every", metavar="TIME", help="Minimum interval of epochs under load."
        ),
    ] = "20ms",
    epoch_rows: Annotated[
        int,
        typer.Option(
            "--epoch-rows", metavar="N", min=1, help="Rows that publish an epoch at once."
        ),
    ] = 65_536,
    queue_bytes: Annotated[
        str, typer.Option("--queue-bytes", metavar="SIZE", help="Limit of queued events.")
    ] = "256MiB",
    body_bytes: Annotated[
        str, typer.Option("--body-bytes", metavar="SIZE", help="Limit of a request body.")
    ] = "64MiB",
    lease: Annotated[
        str, typer.Option("--lease", metavar="TIME", help="How long a response holds its epoch.")
    ] = "60s",
    rate: Annotated[
        float,
        typer.Option(
            "--rate", metavar="N", min=0, help="Requests per second per client; 0: no limit."
        ),
    ] = 0,
    adhoc: Annotated[
        bool,
        typer.Option("--adhoc/--no-adhoc", help="Answer SPARQL queries that are not registered."),
    ] = True,
    adhoc_time: Annotated[
        str,
        typer.Option("--adhoc-time", metavar="TIME", help="Time limit of such a query."),
    ] = "5s",
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a generated stream with queries.")
    ] = False,
    log_format: Annotated[
        LogOption, choice_option("--log-format", LogOption, "Form of log lines. Default: text.")
    ] = LogOption.TEXT,
    log_level: LogLevel = LevelOption.INFO,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Read options from a file; the command line takes precedence.",
            is_eager=True,
            callback=read_config,
        ),
    ] = None,
) -> None:
    """Serve an engine over HTTP: events in, answers and changes out.

    Needs the extra server: pip install 'triegs[server]'. Open the address in a browser for its
    status page. Without --token-file it listens on the loopback interface only.
    """
    request = ServeRequest(**locals())
    with quiet_exit():
        try:
            from triegs.cli.serve_command import run_serve
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in NEEDED:
                raise
            fail("error: triegs serve needs the extra server: pip install 'triegs[server]'")
        run_serve(request)
