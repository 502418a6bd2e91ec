"""``df.writeStream.format("triegs")`` and ``df.write.format("triegs")``: events into an inbox.

Tasks check their rows and write them beside the inbox of an engine's directory, see
`triegs.spark.staging`; the commit makes them one batch there, numbered as Spark numbers it, which
`triegs.Engine.take_inbox` takes exactly once. Spark runs each of this in processes of its own, so
the directory is on a disk that all of them, and the engine, see under one path.

``pyspark_triegs`` makes it known to Spark by its name.
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
from triegs.spark import frames

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
except ImportError:  # without Spark nobody asks for these classes
    DataSource = DataSourceArrowWriter = object
    DataSourceStreamArrowWriter = WriterCommitMessage = object

if TYPE_CHECKING:
    import pyarrow as pa

    from triegs.spark.staging import Part, Reading

NAME = "triegs"
OUR_COLUMNS = ("time", "op", "subject", "predicate", "object", "id")
TERMS = ("ntriples", "plain", "integers")
ALLOWED = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
#: What Spark tells each task of a micro-batch; the id of a query is that of its checkpoint.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


class TriegsDataSource(DataSource):  # type: ignore[misc]
    """The data source ``triegs``: reads the answers of a pipeline, and writes events."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """Of what is read: the variables of the query, and the multiplicity."""
        return frames.find_schema(self.options)

    def reader(self, schema: Any) -> frames.SnapshotReader:  # noqa: ARG002
        """For ``spark.read``; `triegs.spark.Pipeline.table` gives the options."""
        return frames.SnapshotReader(self.options)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
        """For ``df.writeStream``; each micro-batch is a batch of the inbox."""
        return StreamWriter(_read_target(self.options, schema, overwrite))

    def writer(self, schema: Any, overwrite: bool) -> JobWriter:
        """For ``df.write.mode("append")``; all of it is one batch of the inbox."""
        return JobWriter(_read_target(self.options, schema, overwrite))


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
    """What a task tells the commit."""

    query: str
    part: Part


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Each micro-batch is the batch of that number, exactly once."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """On an executor: one partition of a micro-batch."""
        from pyspark import TaskContext

        from triegs.spark.staging import Place, find_folder, stage_rows

        task = TaskContext.get()
        query, number = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or number is None:
            raise InputError("Spark does not tell which query and which batch this is")
        folder = find_folder(self._target.directory, _name_writer(query), int(number))
        place = Place(folder, f"batch {number}", query)
        return Staged(query, stage_rows(iterator, task.partitionId(), place, self._target.reading))

    def commit(self, messages: list[Staged | None], batchId: int) -> None:  # noqa: N803
        """Near the driver: all partitions are written."""
        from triegs.spark.staging import deliver_batch

        target = self._target
        staged = [message for message in messages if message is not None]
        if not staged:  # there is a task for a batch without rows, too
            raise InputError(f"Spark commits batch {batchId}, of which no task has told anything")
        deliver_batch(
            target.directory,
            [message.part for message in staged],
            batchId,
            writer=_name_writer(staged[0].query),
            source=target.source,
            default=target.default or f"spark-{staged[0].query}",
            stream=target.stream,
        )

    def abort(self, messages: list[Staged | None], batchId: int) -> None:  # noqa: N803
        """Near the driver: a task has failed, and the micro-batch with it."""
        from triegs.spark.staging import remove_staged

        for message in messages:
            if message is not None:
                remove_staged(self._target.directory, _name_writer(message.query), batchId)
                return


class JobWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """All rows of a DataFrame are one batch."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._job = token_hex(8)

    @property
    def _folder(self) -> Path:
        from triegs.spark.staging import find_job_folder

        return find_job_folder(self._target.directory, self._job)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """On an executor: one partition."""
        from pyspark import TaskContext

        from triegs.spark.staging import Place, stage_rows

        partition = TaskContext.get().partitionId()
        place = Place(self._folder, f"job {self._job}", self._job)
        return Staged("", stage_rows(iterator, partition, place, self._target.reading))

    def commit(self, messages: list[Staged | None]) -> None:
        """Near the driver: all partitions are written."""
        from triegs.spark.staging import deliver_job

        target = self._target
        deliver_job(
            target.directory,
            [message.part for message in messages if message is not None],
            self._folder,
            source=target.source,
            default="spark-jobs",
            number=target.number,
            stream=target.stream,
        )

    def abort(self, messages: list[Staged | None]) -> None:  # noqa: ARG002
        """Near the driver: a task has failed, and the job with it."""
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)


def _name_writer(query: str) -> str:
    return f"query {query}"


def _read_target(options: Mapping[str, str], schema: Any, overwrite: bool) -> Target:
    """The options, checked; the columns of the DataFrame, too."""
    from triegs.spark.staging import Reading, require_columns

    if overwrite:
        raise InputError("events are appended to an engine; overwrite and complete are not for it")
    path = options.get("path")
    if not path or "://" in path:
        raise InputError(
            "the option 'path' is the directory of an engine, on a disk that all executors see, "
            f"not {path!r}"
        )
    columns = _read_mapping(options, "columns")
    columns |= {name: options[name] for name in OUR_COLUMNS if name in options}
    if unknown := columns.keys() - set(OUR_COLUMNS):
        raise InputError(f"there is no column {min(unknown)!r}; ours are {', '.join(OUR_COLUMNS)}")
    terms = options.get("terms", TERMS[0])
    if terms not in TERMS:
        raise InputError(f"terms are one of {', '.join(TERMS)}; {terms!r} is none")
    source = options.get("source")
    if source is not None and not (source and set(source) <= ALLOWED):
        raise InputError(f"a source has letters, digits, '.', '_' and '-', not {source!r}")
    prefixes = _read_mapping(options, "prefixes")
    reading = Reading(columns, terms, prefixes, _read_flag(options, "strict"))
    names = schema.fieldNames()
    require_columns(schema, reading)
    if columns.get("id", "id") in names and columns.get("time", "time") not in names:
        raise InputError(
            "an id names a timed event, and the DataFrame has no column "
            f"{columns.get('time', 'time')!r}; its columns: {', '.join(names)}"
        )
    checkpoint = options.get("checkpointLocation")
    default = "" if checkpoint is None else _name_default(checkpoint)
    stream, number = options.get("stream"), _read_number(options, "batch")
    return Target(Path(path).absolute(), source, default, stream, number, reading)


def _name_default(checkpoint: str) -> str:
    """The source of a query that was given none: the same for the same checkpoint.

    It is the place and not the id of the query: of a checkpoint that was deleted and made anew the
    place is the same and the id is not, which is how that is noticed.
    """
    place = checkpoint if ":" in checkpoint else str(Path(checkpoint).absolute())
    return f"spark-{sha256(place.encode()).hexdigest()[:16]}"


def _read_mapping(options: Mapping[str, str], name: str) -> dict[str, str]:
    try:
        found = json.loads(options.get(name, "{}"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise InputError(
            f"the option {name!r} is a JSON object of texts, such as "
            f'{{"subject": "s"}}, not {options.get(name)}'
        )
    return found


def _read_flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InputError(f"the option {name!r} is true or false, not {text!r}")
    return text == "true"


def _read_number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError(f"the option {name!r} is a number from 0, not {text!r}")
    return int(text)
