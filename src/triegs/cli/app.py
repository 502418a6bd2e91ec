"""The commands and their options. Implementations are imported late, for a fast ``--help``."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from triegs.cli.generate import generate
from triegs.cli.options import EngineOption, Prefixes, choice_option
from triegs.cli.output import quiet_exit, write_result
from triegs.cli.run import run
from triegs.cli.serve import serve

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


class FormatOption(Enum):
    """`triegs.explain.Format`, repeated so that ``--help`` need not load it."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"
    JSON = "json"


class KeepOption(Enum):
    """`triegs.compiler.plan.Keep`, repeated for the same reason."""

    COUNT = "count"
    SLICE = "slice"


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        with quiet_exit():
            write_result(f"triegs {version('triegs')}\n")
        raise typer.Exit


@app.callback()
def triegs(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Standing graph-pattern queries over live event streams."""


app.command()(run)
app.command()(serve)


@app.command()
def explain(
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help="SPARQL query: text, a file, or - for standard input.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="SPARQL", help="Query text that must not name a file."),
    ] = None,
    output: Annotated[
        FormatOption,
        typer.Option("--format", metavar="text|mermaid|svg|json", help="Output format."),
    ] = FormatOption.TEXT,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="VAR", help="Use this head variable as the root."),
    ] = None,
    keep: Annotated[
        list[KeepOption] | None,
        typer.Option(
            "--keep",
            metavar="count|slice",
            help="Also maintain the total (count) or order statistics (slice). Repeatable.",
            show_default=False,
        ),
    ] = None,
    all_plans: Annotated[
        bool, typer.Option("--all-plans", help="List all legal plans instead of the chosen one.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            help="Show how the query could be split over N partitions.",
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            metavar="FILE",
            help="Sample events for --partitions.",
        ),
    ] = None,
    prefix: Prefixes = None,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rules",
            metavar="FILE|rdfs|rdfs-plus",
            help="Show these rules instead of a query. Repeatable.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the plan of a query, or of rules.

    The class of the query, what it guarantees, its join tree, views and indexes.
    """
    with quiet_exit():
        from triegs.cli.explain_command import ExplainOptions, run_explain

        kept = [option.value for option in keep or ()]
        write_result(
            run_explain(
                ExplainOptions(
                    query,
                    text,
                    prefix or (),
                    output.value,
                    root,
                    kept,
                    all_plans,
                    partitions,
                    sample,
                    rules or (),
                )
            )
        )


@app.command()
def demo(
    example: Annotated[
        bool, typer.Option("--example", help="Show a small step-by-step example instead.")
    ] = False,
    engine: Annotated[
        EngineOption | None,
        choice_option(
            "--engine", EngineOption, "What reads the files. Default: Spark, if installed."
        ),
    ] = None,
) -> None:
    """Run standing queries on a generated event stream."""
    with quiet_exit():
        if example:
            from triegs.cli.example import run_example

            run_example()
        else:
            from triegs.cli.demo import run_demo

            run_demo(engine)
            offer_page()


def offer_page() -> None:
    """Ask the user at a terminal whether to serve the stream on the status page."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    if typer.confirm("\nServe it now, at http://127.0.0.1:7077, until Ctrl-C?", default=False):
        command = [sys.executable, "-c", "from triegs.cli import main; main()", "serve", "--demo"]
        with suppress(KeyboardInterrupt):
            subprocess.run(command, check=False)


@app.command()
def check(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="State directory of triegs run --state.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify a state directory and report what is recoverable.

    Reads every file and restores the engine in memory; never writes to disk. The
    exit code is 0 if the state is intact, 1 if it is damaged, 2 for a usage error.
    """
    with quiet_exit():
        from triegs.cli.state_commands import run_check

        code = run_check(directory, as_json)
    raise typer.Exit(code)


@app.command()
def backup(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="State directory of triegs run --state.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="New directory.")],
) -> None:
    """Copy a state directory, even while it is in use.

    The copy is verified as by triegs check. Nothing is overwritten.
    """
    with quiet_exit():
        from triegs.cli.state_commands import run_backup

        run_backup(directory, target)


@app.command()
def warm() -> None:
    """Compile all kernels now, so that later processes need not wait.

    For container images and cluster workers. TRIEGS_CACHE sets the cache directory,
    which must be present and writable later on.
    """
    with quiet_exit():
        from triegs.cli.warm_command import run_warm

        write_result(run_warm())


app.command()(generate)
