"""Rows of a Spark job on their way into an inbox: written by tasks, committed together.

Tasks write to files of their own beside the inbox. A commit puts the files that Spark names into
one batch, in partition order, and removes that staging directory and those of earlier batches. So
files of a failed attempt are never read, and the next commit removes them.

::

    staging/<writer>/<number>/          files of tasks: Arrow streams, JSON lines
    staging/job-<random>/               the same for a batch job
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
from triegs.spark.inbox.claims import (
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
    """How rows of a DataFrame become events; columns are as for `triegs.events.open_input`."""

    columns: Mapping[str, str]
    terms: str = "ntriples"
    prefixes: Mapping[str, str] | None = None
    is_strict: bool = False


class StagingArea(NamedTuple):
    """Where the tasks of a batch write, and the name of the batch in the quarantine."""

    folder: Path
    name: str
    scope: str


class StagedFile(NamedTuple):
    """What a task has written; file names are None if there was nothing to write."""

    partition: int
    rows: int
    quarantined: dict[str, int]
    events: str | None
    problems: str | None


def find_folder(directory: Path, writer: str, number: int) -> Path:
    """The staging directory of a micro-batch.

    >>> find_folder(Path("engine"), "query 7", 3).as_posix()
    'engine/staging/query-7/00000000000000000003'
    """
    return directory / FOLDER / writer.replace(" ", "-") / f"{number:020}"


def find_job_folder(directory: Path, job: str) -> Path:
    """The staging directory of a batch job."""
    return directory / FOLDER / f"{JOB}{job}"


def require_columns(schema: Any, reading: Reading) -> None:
    """Raise the `InputError` that the first batch would raise if a DataFrame of this schema lacks
    one of our columns, or has it with an unsupported type.
    """
    found = _find_columns(schema.fieldNames(), reading)
    columns = {ours: schema.fieldNames()[number] for ours, number in found.items()}
    empty = make_empty(schema, columns)
    area = StagingArea(Path(), "the DataFrame", "")
    for _ in _shape([empty], 0, area, reading, _make_work(reading, None)):
        pass


def _find_columns(names: list[str], reading: Reading) -> dict[str, int]:
    from triegs.events.context import find_columns

    return find_columns(names, "the DataFrame", _make_work(reading, None).options)


def _make_work(reading: Reading, quarantine: Path | None) -> Any:
    from triegs.events.context import COLUMNS, Clock, Options, ReadContext, TermReading
    from triegs.events.report import InputReport, Quarantine

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
    batches: Iterable[pa.RecordBatch], partition: int, area: StagingArea, reading: Reading
) -> StagedFile:
    """Check the rows of one task, and write its events. Cost: the rows.

    Memory: the largest record batch.
    """
    disk = DiskFiles()
    disk.make_folder(area.folder)
    name = f"{partition:06}-{token_hex(8)}"
    problems = area.folder / f"{name}.jsonl"
    work = _make_work(reading, problems)
    rows = 0
    writer = None
    try:
        for batch in _shape(batches, partition, area, reading, work):
            if writer is None:
                writer = pa.ipc.new_stream(area.folder / f"{name}.arrow", batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    except BaseException:
        _close(work, writer)
        # An abort learns only of tasks that succeeded, not of this one.
        for path in (problems, area.folder / f"{name}.arrow"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            area.folder.rmdir()  # unless other tasks have written there
        raise
    _close(work, writer)
    quarantined = dict(work.report.quarantined)
    if not quarantined:
        problems.unlink()
    return StagedFile(
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
    batches: Iterable[pa.RecordBatch],
    partition: int,
    area: StagingArea,
    reading: Reading,
    work: Any,
) -> Iterator[pa.RecordBatch]:
    from triegs.events.event_columns import describe_row, shape_events

    file = f"{area.name}, partition {partition}"
    first = 1
    for batch in batches:
        indexes = _find_columns(batch.schema.names, reading)
        columns = {ours: read_instants(batch.column(n)) for ours, n in indexes.items()}

        def locate(
            row: int, first: int = first, columns: Mapping[str, Any] = columns
        ) -> tuple[int, str]:
            return first + row, describe_row(columns, row)

        found = shape_events(columns, batch.num_rows, work, file, area.scope, locate)
        first += batch.num_rows
        if "time" not in columns:
            found = found.drop_columns(["time"])  # a batch without times is one epoch
        if found.num_rows:
            yield found


def deliver_batch(
    directory: Path,
    files: Iterable[StagedFile],
    number: int,
    *,
    writer: str,
    source: str | None,
    default: str,
    stream: str | None,
) -> bool:
    """Put the staged files of a micro-batch into the inbox, once.

    Returns False if the inbox had it already. Durable on return. Cost: the rows, all in memory.
    """
    folder = find_folder(directory, writer, number)
    with lock_claims(directory):
        claim = find_claim(directory, writer, source, default)
        is_new = require_next(claim, number, directory)
        if is_new:
            kept = sorted(files)
            _commit(directory, claim.source, number, kept, folder, stream)
            write_claim(directory, _count(replace(claim, last=number), kept))
    remove_staged(directory, writer, number)
    return is_new


def deliver_job(
    directory: Path,
    files: Iterable[StagedFile],
    folder: Path,
    *,
    source: str | None,
    default: str,
    number: int | None,
    stream: str | None,
) -> bool:
    """The same for a batch job: the next batch of its source, or the one with the given number.

    Given numbers must increase; repeating the last one repeats the job, and adds nothing.
    """
    with lock_claims(directory):
        claim = find_claim(directory, JOBS, source, default)
        if number is not None and number < claim.last:
            raise InputError(
                f"source {claim.source!r} of {directory} has batch {claim.last}, and batch numbers "
                f"must increase: batch {number} would be lost"
            )
        is_new = number != claim.last
        if is_new:
            kept = sorted(files)
            if number is None:
                # Reserve the number first: if this job dies here, the next one gets another number.
                number = claim.last + 1
                write_claim(directory, replace(claim, last=number))
            _commit(directory, claim.source, number, kept, folder, stream)
            write_claim(directory, _count(replace(claim, last=number), kept))
    shutil.rmtree(folder, ignore_errors=True)
    _remove_dead_jobs(directory)
    return is_new


def _remove_dead_jobs(directory: Path) -> None:
    """Remove files of jobs that have not written for a day."""
    disk = DiskFiles()
    for folder in (directory / FOLDER).glob(f"{JOB}*"):
        if disk.find_age(folder) > DEAD_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def remove_staged(directory: Path, writer: str, number: int) -> None:
    """Remove the staged files of this batch and of earlier ones."""
    folder = find_folder(directory, writer, number)
    with suppress(FileNotFoundError):
        for each in sorted(folder.parent.iterdir()):
            if each.name <= folder.name:
                shutil.rmtree(each, ignore_errors=True)


def _count(claim: Claim, files: list[StagedFile]) -> Claim:
    quarantined: Counter[str] = Counter()
    for staged in files:
        quarantined.update(staged.quarantined)
    return claim.count(sum(staged.rows for staged in files), dict(quarantined))


def _commit(
    directory: Path,
    source: str,
    number: int,
    files: list[StagedFile],
    folder: Path,
    stream: str | None,
) -> None:
    """The quarantine comes first: a batch in the inbox has reported its malformed rows."""
    problems = [folder / staged.problems for staged in files if staged.problems is not None]
    if problems:
        _write_problems(directory / QUARANTINE, f"{source}@{number:020}", problems)
    tables = [_read(folder / staged.events) for staged in files if staged.events is not None]
    if tables:
        # An Arrow file allows one dictionary per column.
        table = pa.concat_tables(tables).unify_dictionaries()
        commit_batch(directory, table, source, number, stream=stream)


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def _write_problems(folder: Path, name: str, staged: list[Path]) -> None:
    files = DiskFiles()
    files.make_folder(folder)
    beside = folder / f"{name}.{token_hex(8)}{UNFINISHED}"
    write_safely(files, folder / f"{name}.jsonl", ([each.read_bytes()] for each in staged), beside)
