"""Workloads of `triegs.workloads`, written by Spark's executors as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from triegs.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

#: The size of a record batch from a worker to Spark.
BATCH_EVENTS = 65_536


def generate(
    spark: Any,
    workload: str,
    path: str,
    *,
    events: int,
    seed: int = 1,
    partitions: int | None = None,
    **options: Any,
) -> Any:
    """Write a workload to a directory of Parquet files; returns it as a DataFrame.

    The events, and their order by file name, are those that ``triegs generate`` writes for the same
    seed, whatever the number of partitions. `options` are those of
    `triegs.workloads.TimedWorkload.events`. `path` is a path of Spark's, which must not exist; a
    local one can be an input of ``triegs run``.

    A workload depends on its own past: its deletes take back its own events. So each task generates
    the stream from the beginning, and keeps only its own range. Only the conversion and the writing
    of Parquet are parallel, while generating takes one or two microseconds per event: a few
    partitions help, many repeat each other's work. Cost: on average half of the events per task,
    all of them in the last. `partitions` defaults to the number of cores.
    """
    from triegs import workloads
    from triegs.spark.session import register

    register(spark)
    try:
        chosen = workloads.get(workload)
        options = {"batch_size": BATCH_EVENTS, **options}
        chosen.events(events, seed, **options)  # checks them
    except (TypeError, ValueError) as problem:
        raise InputError(str(problem)) from None
    count = spark.sparkContext.defaultParallelism if partitions is None else partitions
    if count < 1:
        raise InputError(f"partitions must be at least 1, not {count}")
    batches = -(-events // options["batch_size"])
    write = partial(_write_partition, workload, events, seed, options, batches, count)
    node = "bigint" if options.get("integers") else "string"
    schema = f"time bigint, op tinyint, subject {node}, predicate string, object {node}, id bigint"
    # One number per partition, in order: file names contain the partition number.
    numbers = spark.range(0, count, 1, count)
    numbers.mapInArrow(write, schema).write.mode("error").parquet(path)
    return spark.read.schema(schema).parquet(path)


def _write_partition(
    workload: str,
    events: int,
    seed: int,
    options: dict[str, Any],
    batches: int,
    count: int,
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """On an executor: the batches of one partition, terms as plain strings."""
    import pyarrow as pa

    from triegs import workloads

    chosen = workloads.get(workload)
    integers = bool(options.get("integers"))
    label = chosen.schema(integers).get_field_index("predicate")
    schema = chosen.schema(integers).set(label, pa.field("predicate", pa.string()))
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            first, last = number * batches // count, (number + 1) * batches // count
            found = chosen.events(events, seed, skip=first, **options)
            for piece in islice(found, last - first):
                yield piece.cast(schema)
