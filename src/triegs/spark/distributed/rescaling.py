"""Another number of parts, or another layout: what the old parts hold is dealt to new ones.

The state of the last batch is read part by part, on executors; each event that a part holds for all
of them is routed by the new layout, to files in the checkpoint that the new parts begin with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.compiler.layout import Layout, Route
from triegs.durable.state import capture_state, list_events
from triegs.engine import Engine
from triegs.spark.distributed.job import Job
from triegs.spark.distributed.parts import Part
from triegs.spark.distributed.reading import Mapper, open_parts
from triegs.spark.distributed.routing import FIRST, deliver, split_table
from triegs.spark.parcels import write_stream

SEED_SCHEMA = "part int, payload binary"
SEEDS = pa.schema([("part", pa.int32()), ("payload", pa.binary())])
TERMS = ("subject", "predicate", "object")


def make_dealer(job: Job, layout: Layout) -> Mapper:
    """For `mapInArrow`: the pieces of old parts, to events for the parts of a new layout."""
    fields = layout.write()

    def deal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new = Layout.read(fields)
        for part in open_parts(job, batches):
            for table in export(part):
                for number, rows in split_table(table, new):
                    row = {"part": number, "payload": write_stream(rows.drop_columns([FIRST]))}
                    yield pa.RecordBatch.from_pylist([row], SEEDS)

    return deal


def export(part: Part) -> Iterator[pa.Table]:
    """The events that a part holds, under their own labels; those that others hold as well, only if
    it was the first to get them.
    """
    engine = part.engine
    taken = capture_state(engine._internals, 0)
    try:
        for times, rows in list_events(taken):
            table = decode_events(engine, times, rows)
            for route in list_firsts(part.job.layout):
                yield from pick(table, route, part.number, part.job.layout.partitions)
    finally:
        taken.close()


def decode_events(engine: Engine, times: Any, rows: Any) -> pa.Table:
    columns = {"op": pa.array(np.sign(rows[:, 0]).astype(np.int8))}
    if times is not None:
        columns = {"time": pa.array(times), **columns}
    for place, name in enumerate(TERMS, 1):
        columns[name] = engine._dictionary.decode(rows[:, place]).cast(pa.string())
    return pa.table(columns)


def list_firsts(layout: Layout) -> Iterator[Route]:
    """The first route of each label: by it every event of the label is somewhere."""
    seen = set()
    for route in layout.routes:
        if route.label not in seen:
            seen.add(route.label)
            yield route


def pick(table: pa.Table, route: Route, part: int, partitions: int) -> Iterator[pa.Table]:
    """The events of a route, under the label that they came with, that this part got first."""
    mine = table.filter(pc.equal(table.column("predicate"), route.tag)).combine_chunks()
    if mine.num_rows:
        labels = pa.array([route.label] * mine.num_rows).dictionary_encode()
        place = mine.schema.get_field_index("predicate")
        mine = mine.set_column(place, "predicate", labels)
        found = deliver(mine, Layout(partitions, (route,), ()))[part]
        yield mine.take(pa.array(found.rows[found.first > 0]))
