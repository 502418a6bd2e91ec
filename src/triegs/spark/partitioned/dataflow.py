"""The DataFrames of a partitioned pipeline: events to partitions, their output to changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from triegs.durable.source import QuerySource
from triegs.read.merging import GroupMerger
from triegs.spark.answers import free_name
from triegs.spark.cells import select_columns
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.merge_processor import SLOT, MergeProcessor
from triegs.spark.partitioned.partition import CHANGES, COUNTED, REPORT
from triegs.spark.partitioned.processor import OUTPUT_SCHEMA, PartitionProcessor
from triegs.spark.partitioned.results import make_merger, make_summer, make_unpacker
from triegs.spark.partitioned.routing import BAD, SPARK_SCHEMA, make_router

#: State store settings that a partitioned pipeline requires, whatever the session has.
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch then costs the state store what it changes, not the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
MULTIPLICITY, CHANGE = "multiplicity", "change"


def make_stream(events: Any, job: Job, columns: Mapping[str, str]) -> Any:
    """The output of the partitions, as a streaming DataFrame."""
    router = make_router(columns, job)
    routed = select_columns(events, columns).mapInArrow(router, SPARK_SCHEMA)
    return routed.groupBy("slot").transformWithStateInPandas(
        statefulProcessor=PartitionProcessor(job), outputStructType=OUTPUT_SCHEMA,
        outputMode="Append", timeMode="None",
    )  # fmt: skip


def make_changes(stream: Any, job: Job, name: str, quarantine: str | None = None) -> Any:
    """The changes of a query from the output of the partitions, as a streaming DataFrame.
    Quarantined events go to files in `quarantine`.
    """
    (placement,) = (each for each in job.layout.queries if each.name == name)
    schema = find_schema(job, name, CHANGE)
    merger = job.make_merger(name)
    cells = schema if merger is None else pa.schema([("time", pa.int64()), *merger.schema])
    # Reports reach every task that merges, also one without changes.
    kinds = (CHANGES, BAD) if merger is None else (CHANGES, BAD, REPORT)
    rows = stream.where(stream["kind"].isin(*kinds)).select("partition", "kind", "payload")
    found = rows.mapInArrow(make_unpacker(cells, quarantine), write_schema(cells))
    if merger is not None:
        return merge_stream(found, job, name, merger, schema)
    if placement.is_summed:
        found = add_up(found, schema, job.layout.partitions)
    return found


def merge_stream(frame: Any, job: Job, name: str, merger: GroupMerger, schema: pa.Schema) -> Any:
    """The changes of groups that span partitions, from those of their entries, as a streaming
    DataFrame.
    """
    from pyspark.sql import functions

    keys = [each for each in merger.schema.names if each.startswith("key")]
    slots = job.layout.partitions if merger.is_separable else 1
    slot = functions.pmod(functions.hash(*keys), functions.lit(slots)) if keys else (
        functions.lit(0))  # fmt: skip
    processor = MergeProcessor(job, name, schema.serialize().to_pybytes())
    return frame.withColumn(SLOT, slot.cast("int")).groupBy(SLOT).transformWithStateInPandas(
        statefulProcessor=processor, outputStructType=write_schema(schema),
        outputMode="Append", timeMode="None",
    )  # fmt: skip


def observe_figures(stream: Any, name: str) -> Any:
    """Report the partitions' counts to Spark as observed metrics, by batch."""
    from pyspark.sql import functions

    report = functions.when(stream["kind"] == REPORT, stream["payload"].cast("string"))
    sums = [
        functions.sum(functions.get_json_object(report, f"$.{each}").cast("long")).alias(each)
        for each in COUNTED
    ]
    return stream.observe(name, *sums)


def add_up(frame: Any, schema: pa.Schema, partitions: int) -> Any:
    """Sum over all partitions; the DataFrame may be static or streaming."""
    keys = [f"`{column}`" for column in schema.names[:-1]]
    grouped = frame.repartition(partitions, *keys) if keys else frame.coalesce(1)
    return grouped.mapInArrow(make_summer(schema, schema.names[-1]), write_schema(schema))


def merge(frame: Any, job: Job, name: str, merger: GroupMerger, schema: pa.Schema) -> Any:
    """The rows of groups from the partial groups of all partitions, as a static DataFrame. Groups
    that can share a row are merged in one task.
    """
    keys = [each for each in merger.schema.names if each.startswith("key")]
    tasks = job.layout.partitions if merger.is_separable else 1
    moved = frame.repartition(tasks, *keys) if keys else frame.repartition(1)
    return moved.mapInArrow(make_merger(job, name, schema), write_schema(schema))


def find_schema(job: Job, name: str, weight: str) -> pa.Schema:
    """The columns of a query's answers, or of its changes with their time in front."""
    heads = [variable[1:] for variable in QuerySource.read(job.queries[name]).parse().head]
    fields = [(head, pa.string()) for head in heads]
    weight = free_name(weight, heads)
    fields.append((weight, pa.int64()))
    if weight.startswith(CHANGE):
        fields.insert(0, (free_name("time", [*heads, weight]), pa.int64()))
    return pa.schema(fields)


def write_schema(schema: pa.Schema) -> str:
    """A schema in Spark's DDL syntax."""
    kinds = {pa.string(): "string", pa.int64(): "long"}
    return ", ".join(f"`{field.name}` {kinds[field.type]}" for field in schema)
