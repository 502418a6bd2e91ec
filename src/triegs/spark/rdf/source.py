"""The data source ``rdf`` as Spark sees it.

Spark runs a source and its readers in separate Python processes: one to plan a batch, one that
lives as long as a stream and computes offsets, and workers that read. So readers are pickled, and
all state of a stream is in its offsets and the log of `triegs.spark.rdf.file_log`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from triegs.errors import InputError
from triegs.spark.rdf.batch_limits import Limits, find_batch_end, read_rate
from triegs.spark.rdf.file_log import FileLog, Offset, find_new_splits, read_offset
from triegs.spark.rdf.listing import list_files, require_paths
from triegs.spark.rdf.settings import Settings, read_settings
from triegs.spark.rdf.splits import FileSplit, plan_splits

# `triegs.spark` can be imported without Spark, and older versions lack stream limits.
try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
except ImportError:
    DataSource = DataSourceReader = DataSourceStreamReader = InputPartition = type(
        "Missing", (), {}
    )
try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:
    SupportsTriggerAvailableNow = object
    HAS_LIMITS = False

SCHEMA = {
    "subject": "string",
    "predicate": "string",
    "object": "string",
    "graph": "string",
    "file": "string",
    "position": "bigint",
    "problem": "string",
    "record": "string",
}
TIMED_SCHEMA = {"time": "bigint", **SCHEMA}
#: A placeholder limit: the real one is read with each offset.
UNKNOWN_ROWS = 1 << 62


class RdfSource(DataSource):  # type: ignore[misc]
    """RDF files as rows: ``spark.read.format("rdf")`` and ``spark.readStream.format("rdf")``.

    ``docs/spark.md`` lists columns and options.
    """

    @classmethod
    def name(cls) -> str:
        return "rdf"

    def schema(self) -> str:
        settings = read_settings(self.options)
        require_paths(settings)
        columns = TIMED_SCHEMA if settings.graph_time else SCHEMA
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: Any) -> RdfReader:
        return RdfReader(self._check(schema), list_columns(schema))

    def streamReader(self, schema: Any) -> RdfStreamReader:  # noqa: N802
        if not HAS_LIMITS:
            raise InputError("streaming rdf needs PySpark 4.2: pip install -U 'triegs[spark]'")
        return RdfStreamReader(self._check(schema), list_columns(schema))

    def _check(self, schema: Any) -> Settings:
        settings = read_settings(self.options)
        known = TIMED_SCHEMA if settings.graph_time else SCHEMA
        for field in schema.fields:
            if known.get(field.name) != field.dataType.simpleString():
                ours = ", ".join(f"{name} {kind}" for name, kind in known.items())
                raise InputError(
                    f"rdf has no column {field.name} {field.dataType.simpleString()}; "
                    f"its columns are {ours}"
                )
        require_paths(settings)
        return settings


def list_columns(schema: Any) -> list[tuple[str, bool]]:
    """The names of the requested columns, and whether they are nullable."""
    return [(field.name, field.nullable) for field in schema.fields]


class RdfReader(DataSourceReader):  # type: ignore[misc]
    """Reads the files that exist when the query is planned."""

    def __init__(self, settings: Settings, columns: list[tuple[str, bool]]) -> None:
        self._settings = settings
        self._columns = columns

    def partitions(self) -> list[Any]:
        files = list_files(self._settings)
        wanted = [FileSplit(path, 0, size, 1) for path, size in files.items()]
        return make_partitions(wanted, self._settings)

    def read(self, partition: Any) -> Iterator[Any]:
        return read_partition(partition, self._settings, self._columns)


class RdfStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads files as they appear and grow. Spark calls one object in one thread for offsets; copies
    of it read.
    """

    def __init__(self, settings: Settings, columns: list[tuple[str, bool]]) -> None:
        self._settings = settings
        self._columns = columns
        self._log: FileLog | None = None
        #: The files that existed when an availableNow query started; None once they are in the log.
        self._found: dict[str, int] | None = None
        self._is_ending = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset().as_dict()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """One of the limits that are set; `latestOffset` applies all of them."""
        settings = self._settings
        if settings.max_rows is not None:
            return ReadMaxRows(settings.max_rows)
        if settings.max_bytes is not None:
            return ReadMaxBytes(settings.max_bytes)
        if settings.max_files is not None:
            return ReadMaxFiles(settings.max_files)
        return ReadMaxRows(UNKNOWN_ROWS) if settings.has_limits else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._found = list_files(self._settings)
        self._is_ending = True

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; ``start`` itself if there is nothing new.

        Lists files only if the log does not fill the batch.
        """
        begin = read_offset(start)
        log = self._open(begin.log)
        limits = self._find_limits(limit)
        end, is_full = find_batch_end(log, begin, limits, self._settings)
        found = None if is_full else self._look()
        if found is not None and (new := find_new_splits(log, found, self._settings)):
            log.append(new)
            end, _ = find_batch_end(log, begin, limits, self._settings)
        return start if end[1:] == begin[1:] else end.as_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of the log, which shows how far the stream is behind."""
        if self._log is None or not self._log.entries:
            return None
        return Offset(self._log.name, len(self._log.entries)).as_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        last = read_offset(end)
        if not last.log:
            return []
        splits = self._open(last.log).list_splits(read_offset(start), last)
        return make_partitions(splits, self._settings)

    def read(self, partition: Any) -> Iterator[Any]:
        return read_partition(partition, self._settings, self._columns)

    def _open(self, name: str) -> FileLog:
        if self._log is None or (name and self._log.name != name):
            folder = self._settings.seen_folder
            self._log = FileLog.open(folder, name) if name else FileLog.make(folder)
        return self._log

    def _look(self) -> dict[str, int] | None:
        """The current files; None if the query takes no more."""
        if not self._is_ending:
            return list_files(self._settings)
        found, self._found = self._found, None
        return found

    def _find_limits(self, limit: Any) -> Limits:
        """All limits that are set, and Spark's; none if Spark wants everything."""
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        settings = self._settings
        return Limits(
            min(settings.max_files or math.inf, getattr(limit, "max_files", math.inf)),
            min(settings.max_bytes or math.inf, getattr(limit, "max_bytes", math.inf)),
            min(
                settings.max_rows or math.inf,
                _drop_unknown(getattr(limit, "max_rows", math.inf)),
                read_rate(settings.rate_file),
            ),
        )


def _drop_unknown(rows: float) -> float:
    return math.inf if rows >= UNKNOWN_ROWS else rows


def make_partitions(wanted: list[FileSplit], settings: Settings) -> list[Any]:
    return [InputPartition(splits) for splits in plan_splits(wanted, settings)]


def read_partition(
    partition: Any, settings: Settings, columns: list[tuple[str, bool]]
) -> Iterator[Any]:
    """Record batches of the splits of a task; without files, Spark runs a task without splits."""
    # Imported here: readers load the kernels, which planning does not need.
    from triegs.spark.rdf.reading import read_split

    for split in partition.value or ():
        yield from read_split(split, settings, columns)
