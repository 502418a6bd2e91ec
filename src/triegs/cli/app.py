"""The commands and their options; each one's work is in a module of its own, imported late."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from triegs.cli.generate import generate
from triegs.cli.output import quiet_exit, write_result
from triegs.cli.run import EngineOption, run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


class FormatOption(Enum):
    """`triegs.explain.Format`, repeated here so that ``--help`` need not load it."""

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


@app.command()
def explain(
    query: Annotated[
        Path | None,
        typer.Argument(
            metavar="QUERY.rq",
            help="A file with a SPARQL query; - reads standard input.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="SPARQL", help="The query itself, instead of a file."),
    ] = None,
    output: Annotated[
        FormatOption,
        typer.Option("--format", metavar="text|mermaid|svg|json", help="How to show the plan."),
    ] = FormatOption.TEXT,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="VAR", help="Put this head variable at the root."),
    ] = None,
    keep: Annotated[
        list[KeepOption] | None,
        typer.Option(
            "--keep",
            metavar="count|slice",
            help="Also keep the total (count) or positions (slice). May be repeated.",
            show_default=False,
        ),
    ] = None,
    all_plans: Annotated[
        bool, typer.Option("--all-plans", help="List all legal plans, not only the chosen one.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            help="Show the keys by which N parts could keep it apart from each other.",
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            metavar="FILE",
            help="Events that say what the stream is like, for --partitions.",
        ),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix",
            metavar="NAME=IRI",
            help="Declare a prefix for the query. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show how a query is kept: class, promise, join tree, views, indexes."""
    with quiet_exit():
        from triegs.cli.explain_command import run_explain

        kept = [option.value for option in keep or ()]
        write_result(
            run_explain(
                query, text, prefix or (), output.value, root, kept, all_plans, partitions, sample
            )
        )


@app.command()
def demo(
    example: Annotated[
        bool, typer.Option("--example", help="A small example step by step instead, with its plan.")
    ] = False,
    engine: Annotated[
        EngineOption | None,
        typer.Option(
            "--engine",
            metavar="direct|spark",
            help="Who reads the files. Default: Spark, if it is installed.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show standing queries at work on a generated stream of events."""
    with quiet_exit():
        if example:
            from triegs.cli.example import run_example

            run_example()
        else:
            from triegs.cli.demo import run_demo

            run_demo(engine)


@app.command()
def check(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory of triegs run --state.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Verify a directory with the state of an engine, and say what is recoverable.

    Reads every file and restores the engine in memory; nothing on disk is changed.
    The exit code is 0 if all is good, 1 if something is damaged, 2 for a wrong call.
    """
    with quiet_exit():
        from triegs.cli.state_commands import run_check

        code = run_check(directory, as_json)
    raise typer.Exit(code)


@app.command()
def backup(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory of triegs run --state.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new directory.")],
) -> None:
    """Copy the state of an engine, also while a process has it open.

    The copy is verified as by triegs check. Nothing is ever overwritten.
    """
    with quiet_exit():
        from triegs.cli.state_commands import run_backup

        run_backup(directory, target)


@app.command()
def warm() -> None:
    """Compile everything now, so that no later process has to wait for it.

    For images and for the workers of a cluster. TRIEGS_CACHE says where compiled
    code is kept; the same directory must be there, and writable, later on.
    """
    with quiet_exit():
        from triegs.cli.warm_command import run_warm

        write_result(run_warm())


app.command()(generate)
