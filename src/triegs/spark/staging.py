"""Rows of a Spark job on their way into an inbox: checked and written by tasks, put in as one.

A task writes beside the inbox what it has, under a name of its own; a commit puts the files that
Spark names into one batch, in the order of partitions, and removes what lies in that folder and in
those of earlier batches. So what a dead attempt has left is never read, and goes with the next one.

::

    staging/<writer>/<number>/          what tasks have written: Arrow streams, JSON lines
    staging/job-<random>/               the same of a batch job
    quarantine/<source>@<number>.jsonl  the malformed rows of a batch
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pyarrow as pa

from triegs.durable.files import UNFINISHED, DiskFiles, write_safely
from triegs.durable.inbox import DEAD_SECONDS, commit_batch
from triegs.errors import InputError
from triegs.spark.cells import make_empty, read_instants
from triegs.spark.claims import (
    JOBS,
    Claim,
    find_claim,
    lock_claims,
    require_next,
    write_claim,
)

FOLDER, JOB, QUARANTINE = "staging", "job-", "quarantine"


@dataclass(frozen=True)
class Reading:
    """How the rows of a DataFrame are events: columns as for `triegs.inputs.open_input`."""

    columns: Mapping[str, str]
    terms: str = "ntriples"
    prefixes: Mapping[str, str] | None = None
    is_strict: bool = False


class Place(NamedTuple):
    """Where the tasks of a batch write, and what the batch is called in the quarantine."""

    folder: Path
    name: str
    scope: str


class Part(NamedTuple):
    """What a task has written; names of files are None where there was nothing to write."""

    partition: int
    rows: int
    quarantined: dict[str, int]
    events: str | None
    problems: str | None


def find_folder(directory: Path, writer: str, number: int) -> Path:
    """Of the tasks of a batch.

    >>> find_folder(Path("engine"), "query 7", 3).as_posix()
    'engine/staging/query-7/00000000000000000003'
    """
    return directory / FOLDER / writer.replace(" ", "-") / f"{number:020}"


def find_job_folder(directory: Path, job: str) -> Path:
    """Of the tasks of a batch job."""
    return directory / FOLDER / f"{JOB}{job}"


def require_columns(schema: Any, reading: Reading) -> None:
    """`InputError` unless a DataFrame of this schema has our columns, of types that they may have:
    what its first batch would say.
    """
    found = _find_columns(schema.fieldNames(), reading)
    columns = {ours: schema.fieldNames()[number] for ours, number in found.items()}
    empty = make_empty(schema, columns)
    place = Place(Path(), "the DataFrame", "")
    for _ in _shape([empty], 0, place, reading, _make_work(reading, None)):
        pass


def _find_columns(names: list[str], reading: Reading) -> dict[str, int]:
    from triegs.inputs.context import find_columns

    return find_columns(names, "the DataFrame", _make_work(reading, None).options)


def _make_work(reading: Reading, quarantine: Path | None) -> Any:
    from triegs.inputs.context import COLUMNS, Clock, Options, ReadContext, TermReading
    from triegs.inputs.report import InputReport, Quarantine

    options = Options(
        columns={name: reading.columns.get(name, name) for name in COLUMNS},
        given=frozenset(reading.columns),
        terms=TermReading(reading.terms),
        prefixes=dict(reading.prefixes or {}),
        batch_rows=0,
        graph_time=None,
    )
    report = InputReport()
    return ReadContext(
        options, Clock(0), Quarantine(report, quarantine, reading.is_strict, append=False), report
    )


def stage_rows(
    batches: Iterable[pa.RecordBatch], partition: int, place: Place, reading: Reading
) -> Part:
    """Check the rows of one task and write the events among them. Cost: the rows.

    Memory is that of the largest record batch.
    """
    files = DiskFiles()
    files.make_folder(place.folder)
    name = f"{partition:06}-{token_hex(8)}"
    problems = place.folder / f"{name}.jsonl"
    work = _make_work(reading, problems)
    rows = 0
    writer = None
    try:
        for batch in _shape(batches, partition, place, reading, work):
            if writer is None:
                writer = pa.ipc.new_stream(place.folder / f"{name}.arrow", batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    except BaseException:
        _close(work, writer)
        # Spark tells an abort of tasks that went well, not of this one.
        for path in (problems, place.folder / f"{name}.arrow"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            place.folder.rmdir()  # unless others have written there
        raise
    _close(work, writer)
    quarantined = dict(work.report.quarantined)
    if not quarantined:
        problems.unlink()
    return Part(
        partition,
        rows,
        quarantined,
        None if writer is None else f"{name}.arrow",
        problems.name if quarantined else None,
    )


def _close(work: Any, writer: Any) -> None:
    work.quarantine.close()
    if writer is not None:
        writer.close()


def _shape(
    batches: Iterable[pa.RecordBatch], partition: int, place: Place, reading: Reading, work: Any
) -> Iterator[pa.RecordBatch]:
    from triegs.inputs.event_columns import describe_row, shape_events

    file = f"{place.name}, partition {partition}"
    first = 1
    for batch in batches:
        numbers = _find_columns(batch.schema.names, reading)
        columns = {ours: read_instants(batch.column(n)) for ours, n in numbers.items()}

        def locate(
            row: int, first: int = first, columns: Mapping[str, Any] = columns
        ) -> tuple[int, str]:
            return first + row, describe_row(columns, row)

        found = shape_events(columns, batch.num_rows, work, file, place.scope, locate)
        first += batch.num_rows
        if "time" not in columns:
            found = found.drop_columns(["time"])  # a batch without times is one epoch
        if found.num_rows:
            yield found


def deliver_batch(
    directory: Path,
    parts: Iterable[Part],
    number: int,
    *,
    writer: str,
    source: str | None,
    default: str,
    stream: str | None,
) -> bool:
    """Put what the tasks of a batch of a streaming query have written into the inbox, once.

    False if it was put there before. On return it survives a loss of power. Cost: the rows, which
    are in memory as a whole.
    """
    folder = find_folder(directory, writer, number)
    with lock_claims(directory):
        claim = find_claim(directory, writer, source, default)
        is_new = require_next(claim, number, directory)
        if is_new:
            kept = sorted(parts)
            _commit(directory, claim.source, number, kept, folder, stream)
            write_claim(directory, _count(replace(claim, last=number), kept))
    remove_staged(directory, writer, number)
    return is_new


def deliver_job(
    directory: Path,
    parts: Iterable[Part],
    folder: Path,
    *,
    source: str | None,
    default: str,
    number: int | None,
    stream: str | None,
) -> bool:
    """The same for a batch job: the next batch of its source, or the one with that number.

    Numbers that are given grow; the last one again is the same job again, and puts in nothing.
    """
    with lock_claims(directory):
        claim = find_claim(directory, JOBS, source, default)
        if number is not None and number < claim.last:
            raise InputError(
                f"source {claim.source!r} of {directory} has batch {claim.last}, and numbers grow: "
                f"batch {number} would be left out"
            )
        is_new = number != claim.last
        if is_new:
            kept = sorted(parts)
            if number is None:
                # The number is used up before it is seen: a job that dies here has none, and the
                # next one another.
                number = claim.last + 1
                write_claim(directory, replace(claim, last=number))
            _commit(directory, claim.source, number, kept, folder, stream)
            write_claim(directory, _count(replace(claim, last=number), kept))
    shutil.rmtree(folder, ignore_errors=True)
    _remove_dead_jobs(directory)
    return is_new


def _remove_dead_jobs(directory: Path) -> None:
    """What jobs have left that have not written for a day."""
    files = DiskFiles()
    for folder in (directory / FOLDER).glob(f"{JOB}*"):
        if files.find_age(folder) > DEAD_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def remove_staged(directory: Path, writer: str, number: int) -> None:
    """What tasks of this batch and of earlier ones have left."""
    folder = find_folder(directory, writer, number)
    with suppress(FileNotFoundError):
        for each in sorted(folder.parent.iterdir()):
            if each.name <= folder.name:
                shutil.rmtree(each, ignore_errors=True)


def _count(claim: Claim, parts: list[Part]) -> Claim:
    quarantined: Counter[str] = Counter()
    for part in parts:
        quarantined.update(part.quarantined)
    return claim.count(sum(part.rows for part in parts), dict(quarantined))


def _commit(
    directory: Path, source: str, number: int, parts: list[Part], folder: Path, stream: str | None
) -> None:
    """The quarantine first: a batch that is in the inbox has told what was wrong with it."""
    problems = [folder / part.problems for part in parts if part.problems is not None]
    if problems:
        _write_problems(directory / QUARANTINE, f"{source}@{number:020}", problems)
    tables = [_read(folder / part.events) for part in parts if part.events is not None]
    if tables:
        # An Arrow file has one dictionary for a column.
        table = pa.concat_tables(tables).unify_dictionaries()
        commit_batch(directory, table, source, number, stream=stream)


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def _write_problems(folder: Path, name: str, parts: list[Path]) -> None:
    files = DiskFiles()
    files.make_folder(folder)
    beside = folder / f"{name}.{token_hex(8)}{UNFINISHED}"
    write_safely(files, folder / f"{name}.jsonl", ([p.read_bytes()] for p in parts), beside)
