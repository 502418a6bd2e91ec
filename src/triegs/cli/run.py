"""Options of ``triegs run``; `triegs.cli.run_command`, the implementation, is imported late."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from triegs.cli.options import (
    Base,
    EngineOption,
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
from triegs.cli.output import quiet_exit
from triegs.errors import QueryWarning


class FormatOption(StrEnum):
    """`triegs.outputs.Format`, repeated like those below so that ``--help`` need not load it."""

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


@dataclass(frozen=True)
class Request:
    """The options as given, under the names of `run`."""

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
    rules: list[str] | None
    follow: bool
    engine: str
    workers: int
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


def run(
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY",
            help="SPARQL query file or text; name=QUERY names it.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        list_option(
            "--input", "-i", metavar="FILE|DIR|-", help="Event files; - is standard input."
        ),
    ] = None,
    streams: Annotated[
        list[str] | None,
        list_option(
            "--stream", metavar="NAME=FILE", help="Event files of a named stream."
        ),
    ] = None,
    input_format: Annotated[
        str | None,
        text_option(
            "--input-format", metavar="NAME",
            help="csv, tsv, jsonl, parquet, arrow, nt, nq, ttl, trig, rdf or jelly. Default: by "
            "file extension.",
        ),
    ] = None,
    graph_time: Annotated[
        str | None,
        text_option(
            "--graph-time", metavar="IRI",
            help="Property with the time of a graph, in N-Quads or TriG.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        list_option(
            "--columns", metavar="OURS=THEIRS,…",
            help="Input columns with other names: time=ts,id=event.",
        ),
    ] = None,
    map: Annotated[  # noqa: A002
        list[str] | None,
        list_option(
            "--map", metavar="TEMPLATE",
            help="Triples of a table row: '{from} :paid {to}', combined with . ; and , as in "
            "Turtle. {column} is a node, {column:decimal} a value, [] the row.",
        ),
    ] = None,
    base: Base = None,
    time_unit: Annotated[
        TimeUnitOption | None,
        choice_option("--time-unit", TimeUnitOption, "Unit of numeric times. Default: ms."),
    ] = None,
    delimiter: Annotated[
        str | None,
        text_option(
            "--delimiter", metavar="SIGN", help="Delimiter of CSV cells, such as ; or tab."
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        text_option(
            "--encoding", metavar="NAME", help="CSV encoding, such as latin-1. Default: UTF-8."
        ),
    ] = None,
    terms: Annotated[
        TermsOption,
        choice_option(
            "--terms", TermsOption,
            "Contents of input cells: N-Triples terms (default), plain text, or integers.",
        ),
    ] = TermsOption.NTRIPLES,
    prefixes: Prefixes = None,
    static: Annotated[
        list[str] | None,
        list_option("--static", metavar="FILE", help="RDF to load at the start; it never expires."),
    ] = None,
    rules: RuleFiles = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep reading as the input file grows.")
    ] = False,
    engine: Annotated[
        EngineOption,
        choice_option(
            "--engine", EngineOption,
            "What reads the files: this process (direct, the default) or Spark in local mode.",
        ),
    ] = EngineOption.DIRECT,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", metavar="N", min=1,
            help="Divide several queries among up to N threads, in lanes; not with --state.",
        ),
    ] = 1,
    state: Annotated[
        str | None,
        text_option(
            "--state", metavar="DIR",
            help="Store state in this directory, and resume the last run from it.",
        ),
    ] = None,
    sync: Sync = None,
    mode: Mode = None,
    window: WindowWidth = None,
    slide: WindowSlide = None,
    lateness: Annotated[
        str | None,
        text_option("--lateness", metavar="2s", help="How long to wait for late events."),
    ] = None,
    max_ahead: Annotated[
        str | None,
        text_option(
            "--max-ahead", metavar="30d",
            help="Refuse events further ahead of their stream. Default: 1d.",
        ),
    ] = None,
    idle_timeout: Annotated[
        str | None,
        text_option(
            "--idle-timeout", metavar="1m",
            help="Stop waiting for a stream this far behind the others.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch", metavar="N", min=1, show_default=False,
            help="Events per epoch without a window. Default: events of equal time.",
        ),
    ] = None,
    emit: Annotated[
        EmitOption | None,
        choice_option("--emit", EmitOption, "Write all answers (default), changes, or both."),
    ] = None,
    every: Annotated[
        str | None,
        text_option(
            "--every", metavar="slide|epoch|end|10s",
            help="When to write. Default: every slide; without windows every epoch, or the end "
            "if events have no times.",
        ),
    ] = None,
    output_format: Annotated[
        FormatOption | None,
        choice_option(
            "--format", FormatOption, "Default: by extension of --output, else table."
        ),
    ] = None,
    output: Annotated[
        str | None,
        text_option(
            "--output", metavar="FILE",
            help="Output file; - is standard output, the default. The placeholders {query}, "
            "{kind}, {epoch} and {time} create several files.",
        ),
    ] = None,
    multiplicity: Annotated[
        MultiplicityOption | None,
        choice_option(
            "--multiplicity", MultiplicityOption,
            "Multiplicity of answers: as a column (default), as repeated rows (default of SPARQL "
            "formats), or omitted.",
        ),
    ] = None,
    result_terms: Annotated[
        ResultTermsOption | None,
        choice_option(
            "--result-terms", ResultTermsOption,
            "Form of terms: exact, plain names and values (default with --map), or prefixed "
            "(default of tables).",
        ),
    ] = None,
    stamps: Annotated[
        bool,
        typer.Option("--stamps/--no-stamps", help="Write epoch and time.", show_default=False),
    ] = True,
    rows: Annotated[
        int,
        typer.Option("--rows", metavar="N", min=0, help="Maximum rows of a table; 0 for all."),
    ] = 100,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail at the first malformed record or invalid deletion."),
    ] = False,
    quarantine: Annotated[
        str | None,
        text_option(
            "--quarantine", metavar="FILE", help="Write rejected records to FILE, with reasons."
        ),
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="Print statistics of the run to standard error.")
    ] = False,
    progress: Annotated[
        bool,
        typer.Option(
            "--progress/--no-progress", show_default=False,
            help="Show a progress line if standard error is a terminal.",
        ),
    ] = True,
    log_level: LogLevel = LevelOption.WARNING,
) -> None:  # fmt: skip
    """Run queries over events and write their answers as they change.

    The exit code is 0 for success, 1 for failure, and 2 for a usage error. Ctrl-C
    stops the run after the current epoch with code 130, SIGTERM with 143; with
    --follow both exit with 0. With --state, the next run resumes.
    """
    output = None if output == "-" else output
    request = Request(**locals())
    from triegs.run.stop import exiting_on_interrupt

    with quiet_exit(), exiting_on_interrupt(), warnings.catch_warnings():
        from triegs.cli.run_command import run_queries

        warnings.simplefilter("ignore", QueryWarning)  # shown as messages of this command
        code = run_queries(request)
    raise typer.Exit(code)
