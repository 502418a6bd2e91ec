"""Results of a partitioned pipeline: changes as they stream, and the full result of a batch.

Spark's state store retains the state of recent batches, so executors can read the result after one
of them, partition by partition, while the stream continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import MultiplicityOverflow
from triegs.read.merging import Entry, GroupMerger
from triegs.read.partials import COUNT as ENTRY_COUNT
from triegs.read.partials import MARKER, MEASURE
from triegs.spark.answers import write_once
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.partition import CHANGES, Partition
from triegs.spark.partitioned.routing import BAD
from triegs.spark.partitioned.state_sync import Chunk
from triegs.spark.tasks import find_batch, find_query

COUNT = "count"
COUNTS = pa.schema([(COUNT, pa.int64())])
Mapper: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def sum_rows(table: pa.Table, weight: str) -> pa.Table:
    """Sum the weights of equal rows, and drop rows whose sum is zero.

    >>> table = pa.table({"x": ["a", "b", "a"], "change": [2, 1, -1]})
    >>> sum_rows(table, "change").to_pylist()
    [{'x': 'a', 'change': 1}, {'x': 'b', 'change': 1}]
    """
    keys = [name for name in table.schema.names if name != weight]
    # Sum the halves of 32 bits separately, which cannot overflow, then combine them with checks.
    low = pc.bit_wise_and(table.column(weight), 0xFFFFFFFF)
    high = pc.shift_right(table.column(weight), 32)
    halves = table.append_column("triegs_low", low).append_column("triegs_high", high)
    sums = halves.group_by(keys, use_threads=False).aggregate(
        [("triegs_low", "sum"), ("triegs_high", "sum")]
    )
    lows, highs = sums.column("triegs_low_sum"), sums.column("triegs_high_sum")
    try:
        carried = pc.add_checked(highs, pc.shift_right(lows, 32))
        total = pc.add_checked(
            pc.multiply_checked(carried, 1 << 32), pc.bit_wise_and(lows, 0xFFFFFFFF)
        )
    except pa.ArrowInvalid:
        raise MultiplicityOverflow(
            "the sum over all partitions does not fit in 64 bits", "sum"
        ) from None
    found = sums.select(keys).append_column(weight, total)
    return found.filter(pc.not_equal(total, 0)).select(table.schema.names)


def merge_changes(merger: GroupMerger, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The changes of rows, epoch by epoch, from those of partial groups with their time in front.
    `schema` is that of the changes.
    """
    table = table.filter(pc.not_equal(table.column(MEASURE), MARKER))
    epochs: dict[int | None, list[Entry]] = {}
    for time, entry in zip(table.column(0).to_pylist(), merger.read(table), strict=True):
        epochs.setdefault(time, []).append(entry)
    found = [
        (time, *row, change)
        for time in sorted(epochs, key=lambda time: (time is not None, time))
        for row, change in merger.apply(epochs[time])
    ]
    return write_rows(found, schema)


def write_rows(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(each, kind) for each, kind in zip(columns, schema.types, strict=True)]
    return pa.table(arrays, schema=schema)


def make_merger(job: Job, query: str, schema: pa.Schema) -> Mapper:
    """For `mapInArrow`: from the partial groups in a task to their rows."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        merger = job.make_merger(query)
        assert merger is not None
        for batch in batches:
            merger.add(merger.read(pa.Table.from_batches([batch])))
        merger.apply(())
        yield from write_rows(((*row, n) for row, n in merger.rows()), schema).to_batches()

    return merge


def make_summer(schema: pa.Schema, weight: str) -> Mapper:
    """For `mapInArrow`: sum the rows of a task."""

    def add_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch.cast(schema) for batch in batches]
        yield from sum_rows(pa.Table.from_batches(rows, schema), weight).to_batches()

    return add_up


def make_unpacker(schema: pa.Schema, quarantine: str | None) -> Mapper:
    """For `mapInArrow`: the changes in the cells. Quarantined rows of a partition become a file of
    the batch, in a directory of that partition.
    """

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        quarantined: dict[int, list[pa.Table]] = {}
        for batch in batches:
            numbers, kinds = batch.column("partition").to_pylist(), batch.column("kind").to_pylist()
            for partition, kind, cell in zip(numbers, kinds, batch.column("payload"), strict=True):
                if kind not in (CHANGES, BAD):
                    continue
                table = pa.ipc.open_stream(cell.as_buffer()).read_all()
                if kind == BAD:
                    quarantined.setdefault(partition, []).append(table)
                else:
                    yield from table.cast(schema).to_batches()
        if MEASURE in schema.names:  # so that a task with a row for no entries runs, too
            marker = dict.fromkeys(schema.names) | {MEASURE: MARKER, ENTRY_COUNT: 1}
            yield pa.RecordBatch.from_pylist([marker], schema)
        if quarantine is not None:
            for partition, tables in quarantined.items():
                # Batch numbers are unique only within one query, which has one checkpoint.
                folder = Path(quarantine) / f"query={find_query()}" / f"part={partition}"
                write_once(folder, find_batch() or 0, pa.concat_tables(tables))

    return unpack


def make_reader(job: Job, query: str, schema: pa.Schema) -> Mapper:
    """For `mapInArrow`: from the chunks of partitions to their answers. Cost: the state."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition in open_partitions(job, batches):
            for batch in partition.read(query):
                yield batch.cast(schema)

    return read


def make_counter(job: Job, query: str) -> Mapper:
    """For `mapInArrow`: from the chunks of partitions to the number of answers of each."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition in open_partitions(job, batches):
            yield pa.RecordBatch.from_pylist([{COUNT: partition.count(query)}], COUNTS)

    return count


def open_partitions(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[Partition]:
    """Open the partitions with these chunks, one after the other."""
    chunks: dict[int, list[Chunk]] = {}
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("slot", "file", "number", "data")]
        for slot, file, number, data in zip(*columns, strict=True):
            chunks.setdefault(slot, []).append(Chunk(file, number, bytes(data)))
    for slot, found in chunks.items():
        partition = Partition(job, job.slots.index(slot), found)
        try:
            yield partition
        finally:
            partition.close()
