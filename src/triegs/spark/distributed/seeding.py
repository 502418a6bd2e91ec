"""What a part begins with, if parts were dealt anew: files in the checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from triegs.engine import Engine

TIME = "time"


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
        engine.apply(pa.concat_tables(rest))
    if timed:
        whole = pa.concat_tables(timed)
        # Of one time, they stay in the order in which they came.
        order = np.argsort(whole.column(TIME).to_numpy(), kind="stable")
        engine.push(whole.take(pa.array(order)), stream)
    if mark is not None:
        for _ in engine.each_slide(to=mark):
            pass
