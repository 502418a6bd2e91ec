"""Seed files: the initial events of partitions, from a static graph or from rescaling."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from triegs.engine import Engine
from triegs.errors import InputError, InvalidUpdate
from triegs.events.load import list_statements
from triegs.partition.layout import Layout
from triegs.spark.encoded_batch import check_columns, make_checker, write_stream
from triegs.spark.partitioned.routing import FIRST, split_table

TIME = "time"
#: The partition column of seed files, fixed by the checkpoint format.
PART = "part"


def read_static(given: Any) -> Iterator[pa.Table]:
    """The events of a static graph, an Arrow table or the path of an RDF file, in order.
    `InvalidUpdate` if it is malformed.
    """
    if isinstance(given, (str, PathLike)):
        for batch in list_statements(given):
            yield pa.Table.from_batches([batch.drop_columns([TIME])])
        return
    if not isinstance(given, pa.Table):
        kind = type(given).__name__
        raise InputError(f"static must be an Arrow table or the path of an RDF file, not {kind}")
    columns = check_columns(given.schema.names, None)
    names = {name: name for name in columns if name not in (TIME, "id")}
    check = make_checker(names, is_timed=False, has_zones=True)
    for table, is_bad in check(iter(given.to_batches())):
        if is_bad:
            first = table.to_pylist()[0]
            raise InvalidUpdate(f"static graph: {first['reason']} in {first['record']}")
        yield table


def write_seed(folder: Path, layout: Layout, tables: Iterable[pa.Table]) -> None:
    """Write the seed files of a layout, one payload per row."""
    shutil.rmtree(folder, ignore_errors=True)
    payloads: dict[int, list[bytes]] = {}
    for table in tables:
        for partition, rows in split_table(table, layout):
            payloads.setdefault(partition, []).append(write_stream(rows.drop_columns([FIRST])))
    for partition, found in payloads.items():
        path = folder / f"{PART}={partition}"
        path.mkdir(parents=True)
        pq.write_table(pa.table({"payload": pa.array(found, pa.binary())}), path / "0.parquet")


def load_seed(
    engine: Engine, folder: Path, partition: int, stream: str | None, watermark: int | None
) -> None:
    """Load the seed of a new partition, and advance it to the old partitions' watermark."""
    path = folder / f"{PART}={partition}"
    payloads = pq.read_table(path, columns=["payload"]).column("payload") if path.exists() else []
    tables = [pa.ipc.open_stream(payload.as_buffer()).read_all() for payload in payloads]
    timed = [table for table in tables if TIME in table.schema.names]
    untimed = [table for table in tables if TIME not in table.schema.names]
    if untimed:
        engine.apply(pa.concat_tables(untimed), strict=True)
    if timed:
        whole = pa.concat_tables(timed)
        # Events of equal time keep their order.
        order = np.argsort(whole.column(TIME).to_numpy(), kind="stable")
        engine.push(whole.take(pa.array(order)), stream)
    if watermark is not None:
        for _ in engine.each_slide(to=watermark):
            pass
