"""Answers out of parts: changes as they stream, and the full result of a batch from the state.

The state of a batch is in Spark's state store until Spark forgets that batch, so the result of one
moment can be read, on executors and part by part, while the stream goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import MultiplicityOverflow
from triegs.spark.answers import write_once
from triegs.spark.distributed.job import Job
from triegs.spark.distributed.keeping import Piece
from triegs.spark.distributed.parts import Part
from triegs.spark.distributed.routing import BAD, find_batch
from triegs.spark.sink import QUERY_ID

COUNT = "count"
COUNTS = pa.schema([(COUNT, pa.int64())])
Mapper: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def sum_rows(table: pa.Table, weight: str) -> pa.Table:
    """Rows that differ in their weight only become one; those that sum up to nothing go.

    >>> table = pa.table({"x": ["a", "b", "a"], "change": [2, 1, -1]})
    >>> sum_rows(table, "change").to_pylist()
    [{'x': 'a', 'change': 1}, {'x': 'b', 'change': 1}]
    """
    keys = [name for name in table.schema.names if name != weight]
    # Two sums of 32 bits each, which cannot overflow, and then one that tells if it does.
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
        raise MultiplicityOverflow("the sum over all parts does not fit 64 bits", "sum") from None
    found = sums.select(keys).append_column(weight, total)
    return found.filter(pc.not_equal(total, 0)).select(table.schema.names)


def make_summer(schema: pa.Schema, weight: str) -> Mapper:
    """For `mapInArrow`: sums of the rows of a task."""

    def add_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch.cast(schema) for batch in batches]
        yield from sum_rows(pa.Table.from_batches(rows, schema), weight).to_batches()

    return add_up


def make_unpacker(schema: pa.Schema, quarantine: str | None) -> Mapper:
    """For `mapInArrow`: the changes that lie in cells. What a part has set aside is a file of the
    batch, in a directory of that part.
    """

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        aside: dict[int, list[pa.Table]] = {}
        for batch in batches:
            parts, kinds = batch.column("part").to_pylist(), batch.column("kind").to_pylist()
            for part, kind, cell in zip(parts, kinds, batch.column("payload"), strict=True):
                table = pa.ipc.open_stream(cell.as_buffer()).read_all()
                if kind == BAD:
                    aside.setdefault(part, []).append(table)
                else:
                    yield from table.cast(schema).to_batches()
        if quarantine is not None:
            for part, tables in aside.items():
                # Another query, and so another checkpoint, has other batches of these numbers.
                folder = Path(quarantine) / f"query={find_query()}" / f"part={part}"
                write_once(folder, find_batch() or 0, pa.concat_tables(tables))

    return unpack


def find_query() -> str:
    """The id of the streaming query that a task is of, which is that of its checkpoint."""
    from pyspark import TaskContext

    return str(TaskContext.get().getLocalProperty(QUERY_ID))


def make_reader(job: Job, query: str, schema: pa.Schema) -> Mapper:
    """For `mapInArrow`: the pieces of parts, to their answers. Cost: the state of the parts."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in open_parts(job, batches):
            for batch in part.read(query):
                yield batch.cast(schema)

    return read


def make_counter(job: Job, query: str) -> Mapper:
    """For `mapInArrow`: the pieces of parts, to how many answers each has."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in open_parts(job, batches):
            yield pa.RecordBatch.from_pylist([{COUNT: part.count(query)}], COUNTS)

    return count


def open_parts(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[Part]:
    """The parts whose pieces these are, one after the other."""
    pieces: dict[int, list[Piece]] = {}
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("slot", "file", "number", "data")]
        for slot, file, number, data in zip(*columns, strict=True):
            pieces.setdefault(slot, []).append(Piece(file, number, bytes(data)))
    for slot, found in pieces.items():
        part = Part(job, job.slots.index(slot), found)
        try:
            yield part
        finally:
            part.close()
