"""The engine's calls that the benchmarks time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from triegs.engine import Engine

__all__ = ["Engine", "apply_table", "read_batches", "read_table"]

BATCH_ROWS = 65_536


def apply_table(engine: Any, table: pa.Table) -> None:
    engine.apply(table)


def read_table(snapshot: Any, terms: str) -> pa.Table:
    return snapshot.to_arrow(terms=terms)


def read_batches(snapshot: Any, terms: str) -> Iterator[pa.RecordBatch]:
    return snapshot.batches(rows=BATCH_ROWS, terms=terms)  # type: ignore[no-any-return]
