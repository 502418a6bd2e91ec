"""Options of ``triegs generate``; the implementation is imported late."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from triegs.cli.output import quiet_exit


class EventFormat(Enum):
    """The formats of `triegs.workloads.formats`, repeated so that ``--help`` need not load them."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"
    NT = "nt"
    NQ = "nq"
    TTL = "ttl"
    TRIG = "trig"
    JELLY = "jelly"


class Compression(Enum):
    """Compression of a file."""

    GZIP = "gzip"
    ZSTD = "zstd"


def generate(
    workload: Annotated[
        str | None,
        typer.Argument(metavar="WORKLOAD", help="Workload name; see --list.", show_default=False),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="List the workloads and exit.")] = False,
    events: Annotated[
        int, typer.Option("--events", "-n", metavar="N", min=0, help="Number of events.")
    ] = 100_000,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="S", min=0, help="Random seed; equal seeds give equal events."
        ),
    ] = 1,
    file_format: Annotated[
        EventFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, jsonl, parquet, arrow, nt, nq, ttl, trig or jelly. Default: by file "
            "extension, else csv.",
            show_default=False,
        ),
    ] = None,
    compression: Annotated[
        Compression | None,
        typer.Option("--compression", metavar="gzip|zstd", help="Compress the file."),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|DIR|-",
            help="A file, an empty directory for several files, or - for standard output.",
        ),
    ] = "-",
    per_file: Annotated[
        int,
        typer.Option("--per-file", metavar="N", min=1, help="Events per file in a directory."),
    ] = 1_000_000,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="DIR", help="Write the queries to this directory."),
    ] = None,
    static: Annotated[
        Path | None,
        typer.Option("--static", metavar="FILE.nt", help="Write the static facts, if it has any."),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="R", help="Events per second of event time.")
    ] = 1000.0,
    start: Annotated[
        int | None,
        typer.Option(
            "--start",
            metavar="MS",
            help="Start of the stream in ms since 1970. Default: 2010 for social, 0 for blocks.",
            show_default=False,
        ),
    ] = None,
    disorder: Annotated[
        int,
        typer.Option("--disorder", metavar="MS", min=0, help="Delay events by up to this much."),
    ] = 0,
    inserts_only: Annotated[bool, typer.Option("--inserts-only", help="Omit deletions.")] = False,
    integers: Annotated[
        bool,
        typer.Option(
            "--integers", help="Write nodes of block workloads as integers instead of IRIs."
        ),
    ] = False,
) -> None:
    """Generate a seeded event stream of any size, with queries for it.

    The columns are time, op, subject, predicate, object and id. nq and trig store
    the time as a property of graphs; nt, ttl and jelly have no times. None of these
    five has deletions.
    """
    with quiet_exit():
        from triegs.cli.generate_command import GenerateOptions, list_workloads, run_generate

        if is_list:
            list_workloads()
            return
        options = GenerateOptions(
            workload=workload or "",
            events=events,
            seed=seed,
            format=file_format.value if file_format else None,
            compression=compression.value if compression else None,
            output=output,
            per_file=per_file,
            queries=queries,
            static=static,
            rate=rate,
            start=start,
            disorder=disorder,
            inserts_only=inserts_only,
            integers=integers,
        )
        run_generate(options)
