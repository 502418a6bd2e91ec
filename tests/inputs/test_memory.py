"""Memory is bounded by a batch, whatever the size of the file."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from triegs.events import open_input

LINES = {
    "nt": "<http://ex/{0}> <http://ex/p> <http://ex/o> .\n",
    "nq": "<http://ex/{0}> <http://ex/p> <http://ex/o> <http://ex/g> .\n",
    "csv": "{0},<http://ex/{0}>,<http://ex/p>,<http://ex/o>\n",
    "jsonl": '{{"time": {0}, "subject": "<http://ex/{0}>", "predicate": 1, "object": 2}}\n',
    "ttl": "<http://ex/{0}> <http://ex/p> <http://ex/o> .\n",
}
COUNT = 200_000
MOST_BYTES = 4_000_000


@pytest.mark.parametrize(
    ("ending", "packing"), [*((ending, "") for ending in LINES), ("nt", ".gz"), ("nt", ".zst")]
)
def test_a_large_file_in_small_batches(ending: str, packing: str, tmp_path: Path) -> None:
    text = "".join(LINES[ending].format(n) for n in range(COUNT)).encode()
    if ending == "csv":
        text = b"time,subject,predicate,object\n" + text
    if packing == ".gz":
        packed = gzip.compress(text, 1)
    else:
        packed = pa.Codec("zstd").compress(text, asbytes=True) if packing else text
    path = tmp_path / f"a.{ending}{packing}"
    path.write_bytes(packed)
    next(open_input(path, batch_rows=500))  # whatever is loaded or compiled on first use
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    most = count = 0
    for batch in open_input(path, batch_rows=500):
        count += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - arrow)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == COUNT
    assert peak + most < MOST_BYTES < len(text) / 2
