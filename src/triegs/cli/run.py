"""``triegs run``: its options. The work is in `triegs.cli.run_command`, imported late."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from triegs.cli.output import quiet_exit
from triegs.errors import QueryWarning


class FormatOption(StrEnum):
    """`triegs.outputs.Format`, repeated here so that ``--help`` need not load it; so below."""

    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"
    SRJ = "srj"
    SRX = "srx"
    SPARQL_CSV = "sparql-csv"
    SPARQL_TSV = "sparql-tsv"


class EmitOption(StrEnum):
    SNAPSHOT = "snapshot"
    CHANGES = "changes"
    BOTH = "both"


class MultiplicityOption(StrEnum):
    COLUMN = "column"
    EXPAND = "expand"
    NONE = "none"


class ResultTermsOption(StrEnum):
    NTRIPLES = "ntriples"
    PLAIN = "plain"
    SHORT = "short"


class TermsOption(StrEnum):
    NTRIPLES = "ntriples"
    PLAIN = "plain"
    INTEGERS = "integers"


class TimeUnitOption(StrEnum):
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


class ModeOption(StrEnum):
    MULTIGRAPH = "multigraph"
    RDF = "rdf"


class EngineOption(StrEnum):
    DIRECT = "direct"
    SPARK = "spark"


class LevelOption(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Request:
    """The options as they were given, by the names of `run`."""

    queries: list[str]
    inputs: list[str] | None
    streams: list[str] | None
    input_format: str | None
    graph_time: str | None
    columns: list[str] | None
    map: list[str] | None
    base: str | None
    time_unit: str | None
    delimiter: str | None
    encoding: str | None
    terms: str
    prefixes: list[str] | None
    static: list[str] | None
    follow: bool
    engine: str
    state: str | None
    sync: str | None
    mode: str | None
    window: str | None
    slide: str | None
    lateness: str | None
    max_ahead: str | None
    idle_timeout: str | None
    batch: int | None
    emit: str | None
    every: str | None
    output_format: str | None
    output: str | None
    multiplicity: str | None
    result_terms: str | None
    stamps: bool
    rows: int
    strict: bool
    quarantine: str | None
    stats: bool
    progress: bool
    log_level: str


def _list(*names: str, metavar: str, help: str) -> Any:  # noqa: A002
    return typer.Option(
        *names, metavar=metavar, help=f"{help} May be repeated.", show_default=False
    )


def _text(*names: str, metavar: str, help: str) -> Any:  # noqa: A002
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


def _choice(name: str, kind: type[StrEnum], help: str) -> Any:  # noqa: A002
    return typer.Option(name, metavar="|".join(kind), help=help, show_default=False)


def run(
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="A file with a SPARQL query, or its text; name=QUERY gives it a name.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        _list("--input", "-i", metavar="FILE|DIR|-", help="Events; - is standard input."),
    ] = None,
    streams: Annotated[
        list[str] | None,
        _list(
            "--stream", metavar="NAME=FILE", help="Events of a stream that windows read by name."
        ),
    ] = None,
    input_format: Annotated[
        str | None,
        _text(
            "--input-format", metavar="NAME",
            help="csv, tsv, jsonl, parquet, arrow, nt, nq, ttl, trig, rdf or jelly, where names "
            "of files do not tell.",
        ),
    ] = None,
    graph_time: Annotated[
        str | None,
        _text(
            "--graph-time", metavar="IRI",
            help="The property that tells the time of a graph in N-Quads or TriG.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        _list(
            "--columns", metavar="OURS=THEIRS,…",
            help="Columns of the input under other names: time=ts,id=event.",
        ),
    ] = None,
    map: Annotated[  # noqa: A002
        list[str] | None,
        _list(
            "--map", metavar="TEMPLATE",
            help="What a row of a table says: '{from} :paid {to}'; several with . ; and , as in "
            "Turtle. {column} is a node, {column:decimal} a value, [] the row itself.",
        ),
    ] = None,
    base: Annotated[
        str | None,
        _text(
            "--base", metavar="IRI",
            help="What stands before names of --map, and for the empty prefix. Default: "
            "urn:triegs:",
        ),
    ] = None,
    time_unit: Annotated[
        TimeUnitOption | None,
        _choice("--time-unit", TimeUnitOption, "What times count that are numbers. Default: ms."),
    ] = None,
    delimiter: Annotated[
        str | None,
        _text("--delimiter", metavar="SIGN", help="Between cells of CSV, such as ; or tab."),
    ] = None,
    encoding: Annotated[
        str | None,
        _text("--encoding", metavar="NAME", help="Of CSV, such as latin-1. Default: UTF-8."),
    ] = None,
    terms: Annotated[
        TermsOption,
        _choice(
            "--terms", TermsOption,
            "What cells of the input are: N-Triples terms (default), plain words, or integers.",
        ),
    ] = TermsOption.NTRIPLES,
    prefixes: Annotated[
        list[str] | None,
        _list(
            "--prefix", metavar="NAME=IRI",
            help="A prefix for queries, plain cells and tables.",
        ),
    ] = None,
    static: Annotated[
        list[str] | None,
        _list("--static", metavar="FILE", help="RDF that is there from the start and stays."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on reading as the input file grows.")
    ] = False,
    engine: Annotated[
        EngineOption,
        _choice(
            "--engine", EngineOption,
            "Who reads the files: this process (direct, the default), or Spark in local mode.",
        ),
    ] = EngineOption.DIRECT,
    state: Annotated[
        str | None,
        _text(
            "--state", metavar="DIR",
            help="Keep the engine there, and go on where the last run with it stopped.",
        ),
    ] = None,
    sync: Annotated[
        str | None,
        _text(
            "--sync", metavar="always|100ms|never",
            help="When the log of --state is safe from a loss of power. Default: 100ms.",
        ),
    ] = None,
    mode: Annotated[
        ModeOption | None,
        _choice(
            "--mode", ModeOption,
            "An assertion weighs as many events as state it (multigraph, the default), or 1 (rdf).",
        ),
    ] = None,
    window: Annotated[
        str | None,
        _text(
            "--window", metavar="10s",
            help="Events expire after so long. For queries that have no window in their text.",
        ),
    ] = None,
    slide: Annotated[
        str | None,
        _text("--slide", metavar="5s", help="Publish so often. Default: the width of the window."),
    ] = None,
    lateness: Annotated[
        str | None,
        _text("--lateness", metavar="2s", help="Wait so long for events that are late."),
    ] = None,
    max_ahead: Annotated[
        str | None,
        _text(
            "--max-ahead", metavar="30d",
            help="Refuse events that are further ahead of their stream. Default: 1d.",
        ),
    ] = None,
    idle_timeout: Annotated[
        str | None,
        _text(
            "--idle-timeout", metavar="1m",
            help="Do not wait for a stream that is so far behind the others.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch", metavar="N", min=1, show_default=False,
            help="Without a window: events per epoch. Default: those of equal time.",
        ),
    ] = None,
    emit: Annotated[
        EmitOption | None,
        _choice("--emit", EmitOption, "Write all answers (default), what changed, or both."),
    ] = None,
    every: Annotated[
        str | None,
        _text(
            "--every", metavar="slide|epoch|end|10s",
            help="When to write. Default: each slide, else each epoch, and at the end for events "
            "without times.",
        ),
    ] = None,
    output_format: Annotated[
        FormatOption | None,
        _choice(
            "--format", FormatOption, "Default: what the name of the output tells, else table."
        ),
    ] = None,
    output: Annotated[
        str | None,
        _text(
            "--output", metavar="FILE",
            help="Where to write, instead of standard output. {query}, {kind}, {epoch} and {time} "
            "in it make a file for each.",
        ),
    ] = None,
    multiplicity: Annotated[
        MultiplicityOption | None,
        _choice(
            "--multiplicity", MultiplicityOption,
            "How often an answer counts: a column (default), so many equal rows (default of "
            "SPARQL formats), or nothing.",
        ),
    ] = None,
    result_terms: Annotated[
        ResultTermsOption | None,
        _choice(
            "--result-terms", ResultTermsOption,
            "How to write terms: exact, their names and values alone (default with --map), or with "
            "prefixes (default of tables).",
        ),
    ] = None,
    stamps: Annotated[
        bool,
        typer.Option("--stamps/--no-stamps", help="Columns epoch and time.", show_default=False),
    ] = True,
    rows: Annotated[
        int,
        typer.Option("--rows", metavar="N", min=0, help="Rows of a table at most; 0 for all."),
    ] = 100,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="End at the first malformed record or invalid deletion."),
    ] = False,
    quarantine: Annotated[
        str | None,
        _text("--quarantine", metavar="FILE", help="Write what was refused there, with reasons."),
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="Figures of the run at its end, on standard error.")
    ] = False,
    progress: Annotated[
        bool,
        typer.Option(
            "--progress/--no-progress", show_default=False,
            help="A line that says how far the run is, if standard error is a terminal.",
        ),
    ] = True,
    log_level: Annotated[
        LevelOption,
        typer.Option(
            "--log-level", metavar="|".join(LevelOption), help="Which messages are shown."
        ),
    ] = LevelOption.WARNING,
) -> None:  # fmt: skip
    """Run queries over events and write their answers as they change.

    The exit code is 0, or 1 if the work failed, or 2 for a wrong call; Ctrl-C ends
    the run after the epoch at hand with 130, SIGTERM with 143, and a run with
    --follow, which has no other end, with 0. With --state the next run goes on.
    """
    request = Request(**locals())
    from triegs.run.stop import exiting_on_interrupt

    with quiet_exit(), exiting_on_interrupt(), warnings.catch_warnings():
        from triegs.cli.run_command import run_queries

        warnings.simplefilter("ignore", QueryWarning)  # they are messages of this command
        code = run_queries(request)
    raise typer.Exit(code)
