"""What a part begins with, if there is a static graph, or parts were dealt anew: files in the
checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from triegs.compiler.layout import Layout
from triegs.engine import Engine
from triegs.errors import InputError, InvalidUpdate
from triegs.load import list_statements
from triegs.spark.distributed.routing import FIRST, split_table
from triegs.spark.parcels import check_columns, make_checker, write_stream

TIME = "time"


def read_static(given: Any) -> Iterator[pa.Table]:
    """The events of a static graph, an Arrow table or the path of an RDF file, in their order; what
    is malformed in it is `InvalidUpdate`.
    """
    if isinstance(given, (str, PathLike)):
        for batch in list_statements(given):
            yield pa.Table.from_batches([batch.drop_columns([TIME])])
        return
    if not isinstance(given, pa.Table):
        kind = type(given).__name__
        raise InputError(f"a static graph is an Arrow table or the path of an RDF file, not {kind}")
    columns = check_columns(given.schema.names, None)
    names = {name: name for name in columns if name not in (TIME, "id")}
    check = make_checker(names, is_timed=False, has_zones=True)
    for table, is_bad in check(iter(given.to_batches())):
        if is_bad:
            first = table.to_pylist()[0]
            raise InvalidUpdate(f"the static graph: {first['reason']} in {first['record']}")
        yield table


def write_seed(folder: Path, layout: Layout, tables: Iterable[pa.Table]) -> None:
    """Files for the parts of a layout, a piece in each row."""
    shutil.rmtree(folder, ignore_errors=True)
    pieces: dict[int, list[bytes]] = {}
    for table in tables:
        for part, rows in split_table(table, layout):
            pieces.setdefault(part, []).append(write_stream(rows.drop_columns([FIRST])))
    for part, found in pieces.items():
        path = folder / f"part={part}"
        path.mkdir(parents=True)
        pq.write_table(pa.table({"payload": pa.array(found, pa.binary())}), path / "0.parquet")


def load_seed(
    engine: Engine, folder: Path, part: int, stream: str | None, mark: int | None
) -> None:
    """Let a new part stand where the old ones did: what was dealt to it, up to the watermark."""
    path = folder / f"part={part}"
    payloads = pq.read_table(path, columns=["payload"]).column("payload") if path.exists() else []
    tables = [pa.ipc.open_stream(payload.as_buffer()).read_all() for payload in payloads]
    timed = [table for table in tables if TIME in table.schema.names]
    rest = [table for table in tables if TIME not in table.schema.names]
    if rest:
        engine.apply(pa.concat_tables(rest), strict=True)
    if timed:
        whole = pa.concat_tables(timed)
        # Of one time, they stay in the order in which they came.
        order = np.argsort(whole.column(TIME).to_numpy(), kind="stable")
        engine.push(whole.take(pa.array(order)), stream)
    if mark is not None:
        for _ in engine.each_slide(to=mark):
            pass
