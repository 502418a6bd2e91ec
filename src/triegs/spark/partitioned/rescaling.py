"""Rescaling: the events held by the old partitions are repartitioned for a new layout.

Executors read the state after the last batch, partition by partition. Each live event is routed by
the new layout into seed files in the checkpoint, from which the new partitions start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.durable.state import capture_state, list_events
from triegs.engine import Engine
from triegs.partition.layout import Layout, Route
from triegs.spark.encoded_batch import write_stream
from triegs.spark.partitioned.job import Job
from triegs.spark.partitioned.partition import Partition
from triegs.spark.partitioned.results import Mapper, open_partitions
from triegs.spark.partitioned.routing import FIRST, deliver, split_table
from triegs.spark.partitioned.seeds import PART
from triegs.terms.partition_hash import find_partitions

SEED_SCHEMA = f"{PART} int, payload binary"
SEEDS = pa.schema([(PART, pa.int32()), ("payload", pa.binary())])
TERMS = ("subject", "predicate", "object")


def make_repartitioner(job: Job, layout: Layout) -> Mapper:
    """For `mapInArrow`: from the chunks of old partitions to events for the partitions of a new
    layout.
    """
    fields = layout.write()

    def repartition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new = Layout.read(fields)
        for partition in open_partitions(job, batches):
            for table in export(partition):
                for number, rows in split_table(table, new):
                    row = {PART: number, "payload": write_stream(rows.drop_columns([FIRST]))}
                    yield pa.RecordBatch.from_pylist([row], SEEDS)

    return repartition


def export(partition: Partition) -> Iterator[pa.Table]:
    """The events that a partition holds, under their original labels. Of replicated events, only
    those that it received first.
    """
    engine = partition.engine
    taken = capture_state(engine._internals, 0)
    try:
        for times, rows in list_events(taken):
            table = decode_events(engine, times, rows)
            if partition.job.layout.statements:
                yield pick_owned(table, partition.number, partition.job.layout.partitions)
                continue
            for route in list_firsts(partition.job.layout):
                yield from pick(table, route, partition.number, partition.job.layout.partitions)
    finally:
        taken.close()


def pick_owned(table: pa.Table, partition: int, partitions: int) -> pa.Table:
    """With rules, the events whose subject this partition owns: it has all of them."""
    owners = find_partitions([table.column("subject")], partitions)
    return table.filter(pa.array(owners == partition))


def decode_events(engine: Engine, times: Any, rows: Any) -> pa.Table:
    columns = {"op": pa.array(np.sign(rows[:, 0]).astype(np.int8))}
    if times is not None:
        columns = {"time": pa.array(times), **columns}
    for column, name in enumerate(TERMS, 1):
        columns[name] = engine._dictionary.decode(rows[:, column]).cast(pa.string())
    return pa.table(columns)


def list_firsts(layout: Layout) -> Iterator[Route]:
    """The first route of each label; it alone covers every event of the label."""
    seen = set()
    for route in layout.routes:
        if route.label not in seen:
            seen.add(route.label)
            yield route


def pick(table: pa.Table, route: Route, partition: int, partitions: int) -> Iterator[pa.Table]:
    """The events of a route, under their original label, that this partition received first."""
    mine = table.filter(pc.equal(table.column("predicate"), route.tag)).combine_chunks()
    if mine.num_rows:
        labels = pa.array([route.label] * mine.num_rows).dictionary_encode()
        column = mine.schema.get_field_index("predicate")
        mine = mine.set_column(column, "predicate", labels)
        found = deliver(mine, Layout(partitions, (route,), ()))[partition]
        yield mine.take(pa.array(found.rows[found.first > 0]))
