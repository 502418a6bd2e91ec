"""The workloads of `triegs.workloads`, written by Spark's executors as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from triegs.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

#: Of a record batch on its way from a worker to Spark.
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
    """Write a workload to a folder of Parquet files, and give it back as a DataFrame.

    The events, and their order by the names of the files, are those that ``triegs generate``
    writes for the same seed, whatever the number of partitions; `options` are those of
    `triegs.workloads.TimedWorkload.events`. `path` is one of Spark's; a local one is an input of
    ``triegs run``. There must be nothing at that path.

    A workload remembers what it has drawn: its deletes take back its own events. So each task
    draws the stream from its beginning, and gives its own part of it to Spark. Only that and the
    writing of Parquet is parallel, and drawing is a large share of the work, one or two
    microseconds for an event: a few partitions help, many repeat each other. Cost: the drawing of
    all events in the last task, on average of half of them in each. `partitions` are as many as
    Spark has cores unless given.
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
        raise InputError(f"there is at least one partition, not {count}")
    batches = -(-events // options["batch_size"])
    write = partial(_write_part, workload, events, seed, options, batches, count)
    node = "bigint" if options.get("integers") else "string"
    schema = f"time bigint, op tinyint, subject {node}, predicate string, object {node}, id bigint"
    # One number for each partition, in their order: the names of files have the numbers.
    numbers = spark.range(0, count, 1, count)
    numbers.mapInArrow(write, schema).write.mode("error").parquet(path)
    return spark.read.schema(schema).parquet(path)


def _write_part(
    workload: str,
    events: int,
    seed: int,
    options: dict[str, Any],
    batches: int,
    count: int,
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """On an executor: the batches of one part, terms as plain strings."""
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
            for part in islice(found, last - first):
                yield part.cast(schema)
