"""The answers of a pipeline as a DataFrame: the reader behind ``spark.read.format("triegs")``.

Each scan shows one epoch: the newest when it runs, unless ``asOf`` names another. Two scans in one
Spark query may show different epochs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any

from triegs.errors import InputError
from triegs.spark.driver.snapshot_client import send_request

try:
    from pyspark.sql.datasource import DataSourceReader, InputPartition
except ImportError:  # never used without Spark
    DataSourceReader = InputPartition = object

if TYPE_CHECKING:
    import pyarrow as pa

#: Options; Spark ignores their case.
ADDRESS, SECRET, QUERY, AS_OF = "pipeline", "secret", "query", "asOf"


def find_schema(options: Mapping[str, str]) -> str:
    """The columns of a DataFrame with these options."""
    if missing := [name for name in (ADDRESS, SECRET, QUERY) if name not in options]:
        raise InputError(
            f'format("triegs") needs the option {missing[0]!r} to read; use Pipeline.table'
        )
    with SnapshotRequest(options).send("schema") as (response, _):
        columns: str = response["columns"]
        return columns


class SnapshotRequest(InputPartition):  # type: ignore[misc]
    """Which answers to read, and from which pipeline."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._server = options[ADDRESS], options[SECRET]
        self._query = options[QUERY]
        #: As JSON: a number is an epoch, and a name may consist of digits.
        self._as_of: int | str | None = json.loads(options.get(AS_OF, "null"))

    def send(self, what: str) -> AbstractContextManager[tuple[dict[str, Any], IO[bytes]]]:
        return send_request(*self._server, do=what, query=self._query, as_of=self._as_of)


class SnapshotReader(DataSourceReader):  # type: ignore[misc]
    """Reads the answers of one epoch, in one task. Spark plans a DataFrame once and may read it
    many times, so the epoch is chosen at each read.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._request = SnapshotRequest(options)

    def partitions(self) -> list[SnapshotRequest]:
        return [self._request]

    def read(self, partition: SnapshotRequest) -> Iterator[pa.RecordBatch]:
        """On an executor: the answers."""
        import pyarrow as pa

        with partition.send("read") as (_, stream):
            yield from pa.ipc.open_stream(stream)
