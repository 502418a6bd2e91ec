"""``df.writeStream.format("triegs")`` and ``df.write.format("triegs")``: events into an inbox.

Tasks check their rows and write them beside the inbox of an engine directory (see
`triegs.spark.inbox.staging`). The commit turns them into one batch of the inbox, with Spark's batch
number, which `triegs.Engine.take_inbox` applies exactly once. Spark runs tasks and commits in
different processes, so all of them, and the engine, must reach the directory under the same path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from triegs.errors import InputError
from triegs.spark.tasks import BATCH_ID, QUERY_ID

try:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
except ImportError:  # never used without Spark
    DataSourceArrowWriter = DataSourceStreamArrowWriter = WriterCommitMessage = object

if TYPE_CHECKING:
    import pyarrow as pa

    from triegs.spark.inbox.staging import Reading, StagedFile

OUR_COLUMNS = ("time", "op", "subject", "predicate", "object", "id")
TERMS = ("ntriples", "plain", "integers")
ALLOWED = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True)
class Target:
    """The options of a writer."""

    directory: Path
    source: str | None
    default: str
    stream: str | None
    number: int | None
    reading: Reading


@dataclass(frozen=True)
class Staged(WriterCommitMessage):  # type: ignore[misc]
    """The message of a task to the commit."""

    query: str
    file: StagedFile


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Each micro-batch becomes the batch of that number, exactly once."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """On an executor: one partition of a micro-batch."""
        from pyspark import TaskContext

        from triegs.spark.inbox.staging import StagingArea, find_folder, stage_rows

        task = TaskContext.get()
        query, number = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or number is None:
            raise InputError("Spark did not set the query id and the batch number of this task")
        folder = find_folder(self._target.directory, _name_writer(query), int(number))
        area = StagingArea(folder, f"batch {number}", query)
        return Staged(query, stage_rows(iterator, task.partitionId(), area, self._target.reading))

    def commit(self, messages: list[Staged | None], batchId: int) -> None:  # noqa: N803
        """Near the driver: all partitions are written."""
        from triegs.spark.inbox.staging import deliver_batch

        target = self._target
        staged = [message for message in messages if message is not None]
        if not staged:  # even an empty batch has a task
            raise InputError(f"Spark commits batch {batchId} without a message from any task")
        deliver_batch(
            target.directory,
            [message.file for message in staged],
            batchId,
            writer=_name_writer(staged[0].query),
            source=target.source,
            default=target.default or f"spark-{staged[0].query}",
            stream=target.stream,
        )

    def abort(self, messages: list[Staged | None], batchId: int) -> None:  # noqa: N803
        """Near the driver: a task has failed, and with it the micro-batch."""
        from triegs.spark.inbox.staging import remove_staged

        for message in messages:
            if message is not None:
                remove_staged(self._target.directory, _name_writer(message.query), batchId)
                return


class JobWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """All rows of a DataFrame become one batch."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._job = token_hex(8)

    @property
    def _folder(self) -> Path:
        from triegs.spark.inbox.staging import find_job_folder

        return find_job_folder(self._target.directory, self._job)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """On an executor: one partition."""
        from pyspark import TaskContext

        from triegs.spark.inbox.staging import StagingArea, stage_rows

        partition = TaskContext.get().partitionId()
        area = StagingArea(self._folder, f"job {self._job}", self._job)
        return Staged("", stage_rows(iterator, partition, area, self._target.reading))

    def commit(self, messages: list[Staged | None]) -> None:
        """Near the driver: all partitions are written."""
        from triegs.spark.inbox.staging import deliver_job

        target = self._target
        deliver_job(
            target.directory,
            [message.file for message in messages if message is not None],
            self._folder,
            source=target.source,
            default="spark-jobs",
            number=target.number,
            stream=target.stream,
        )

    def abort(self, messages: list[Staged | None]) -> None:  # noqa: ARG002
        """Near the driver: a task has failed, and with it the job."""
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)


def _name_writer(query: str) -> str:
    return f"query {query}"


def read_target(options: Mapping[str, str], schema: Any, overwrite: bool) -> Target:
    """The validated options; also checks the columns of the DataFrame."""
    from triegs.spark.inbox.staging import Reading, require_columns

    if overwrite:
        raise InputError(
            'format("triegs") only appends events; overwrite and complete are not supported'
        )
    path = options.get("path")
    if not path or "://" in path:
        raise InputError(
            "the option 'path' must be the directory of an engine, on a disk that all executors "
            f"share, not {path!r}"
        )
    columns = _read_mapping(options, "columns")
    columns |= {name: options[name] for name in OUR_COLUMNS if name in options}
    if unknown := columns.keys() - set(OUR_COLUMNS):
        raise InputError(
            f"columns maps {min(unknown)!r}, which is not one of {', '.join(OUR_COLUMNS)}"
        )
    terms = options.get("terms", TERMS[0])
    if terms not in TERMS:
        raise InputError(f"terms must be one of {', '.join(TERMS)}, not {terms!r}")
    source = options.get("source")
    if source is not None and not (source and set(source) <= ALLOWED):
        raise InputError(
            f"a source name has only letters, digits, '.', '_' and '-', not {source!r}"
        )
    prefixes = _read_mapping(options, "prefixes")
    reading = Reading(columns, terms, prefixes, _read_flag(options, "strict"))
    names = schema.fieldNames()
    require_columns(schema, reading)
    if columns.get("id", "id") in names and columns.get("time", "time") not in names:
        raise InputError(
            "ids need timed events, but the DataFrame has no column "
            f"{columns.get('time', 'time')!r}; its columns: {', '.join(names)}"
        )
    checkpoint = options.get("checkpointLocation")
    default = "" if checkpoint is None else _name_default(checkpoint)
    stream, number = options.get("stream"), _read_number(options, "batch")
    return Target(Path(path).absolute(), source, default, stream, number, reading)


def _name_default(checkpoint: str) -> str:
    """The default source of a query: the same for the same checkpoint.

    It is derived from the path of the checkpoint, not from the query id: if a checkpoint is deleted
    and recreated, the path is the same and the id is not, which is how that is detected.
    """
    area = checkpoint if ":" in checkpoint else str(Path(checkpoint).absolute())
    return f"spark-{sha256(area.encode()).hexdigest()[:16]}"


def _read_mapping(options: Mapping[str, str], name: str) -> dict[str, str]:
    try:
        found = json.loads(options.get(name, "{}"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise InputError(
            f"the option {name!r} must be a JSON object of strings, such as "
            f'{{"subject": "s"}}, not {options.get(name)}'
        )
    return found


def _read_flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InputError(f"the option {name!r} must be true or false, not {text!r}")
    return text == "true"


def _read_number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError(f"the option {name!r} must be an integer of at least 0, not {text!r}")
    return int(text)
