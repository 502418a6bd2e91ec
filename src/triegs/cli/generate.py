"""``triegs generate``: its options; the work is in a module of its own, imported late."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from triegs.cli.output import quiet_exit


class EventFormat(Enum):
    """The names of `triegs.workloads.formats`, repeated so that ``--help`` need not load them."""

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
    """How a file is packed."""

    GZIP = "gzip"
    ZSTD = "zstd"


def generate(
    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD", help="Which stream; --list shows them all.", show_default=False
        ),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="Show the workloads and exit.")] = False,
    events: Annotated[
        int, typer.Option("--events", "-n", metavar="N", min=0, help="How many events.")
    ] = 100_000,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", min=0, help="The same seed, the same events.")
    ] = 1,
    file_format: Annotated[
        EventFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, jsonl, parquet, arrow, nt, nq, ttl, trig or jelly; without it what the "
            "name of the file tells, else csv.",
            show_default=False,
        ),
    ] = None,
    compression: Annotated[
        Compression | None,
        typer.Option("--compression", metavar="gzip|zstd", help="Pack the file."),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|DIR|-",
            help="A file, an empty directory for several files, or standard output.",
        ),
    ] = "-",
    per_file: Annotated[
        int,
        typer.Option("--per-file", metavar="N", min=1, help="Events in each file of a directory."),
    ] = 1_000_000,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="DIR", help="Write the queries there, a file for each."),
    ] = None,
    static: Annotated[
        Path | None,
        typer.Option(
            "--static", metavar="FILE.nt", help="Write the facts that never change (social)."
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="R", help="Events in a second of event time.")
    ] = 1000.0,
    start: Annotated[
        int | None,
        typer.Option(
            "--start",
            metavar="MS",
            help="When the stream starts, in ms since 1970; social: in 2010, blocks: 0.",
            show_default=False,
        ),
    ] = None,
    disorder: Annotated[
        int,
        typer.Option("--disorder", metavar="MS", min=0, help="Let events come late, up to this."),
    ] = 0,
    inserts_only: Annotated[
        bool, typer.Option("--inserts-only", help="Leave out the deletes.")
    ] = False,
    integers: Annotated[
        bool, typer.Option("--integers", help="Nodes of block workloads as integers, not IRIs.")
    ] = False,
) -> None:
    """Write a stream of events, seeded and of any size, and queries for it.

    The columns are time, op, subject, predicate, object and id. nq and trig have
    the time as a property of graphs; nt, ttl and jelly have no time. None of these
    five has deletes.
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
