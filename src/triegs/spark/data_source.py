"""The data source ``triegs``: reads query results from a pipeline, writes events to an inbox.

``pyspark_triegs`` registers it with Spark by name.
"""

from __future__ import annotations

from typing import Any

from triegs.spark.driver import snapshot_reader
from triegs.spark.inbox.sink import JobWriter, StreamWriter, read_target

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # never used without Spark
    DataSource = object

NAME = "triegs"


class TriegsDataSource(DataSource):  # type: ignore[misc]
    """The data source ``triegs``: reads answers from a pipeline, and writes events."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """For reading: the projected variables, and the multiplicity."""
        return snapshot_reader.find_schema(self.options)

    def reader(self, schema: Any) -> snapshot_reader.SnapshotReader:  # noqa: ARG002
        """For ``spark.read``; `triegs.spark.Pipeline.table` sets the options."""
        return snapshot_reader.SnapshotReader(self.options)

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
        """For ``df.writeStream``: each micro-batch is one batch of the inbox."""
        return StreamWriter(read_target(self.options, schema, overwrite))

    def writer(self, schema: Any, overwrite: bool) -> JobWriter:
        """For ``df.write.mode("append")``: the whole job is one batch of the inbox."""
        return JobWriter(read_target(self.options, schema, overwrite))
