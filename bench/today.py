"""A bridge to the engine as it is until terms can be chosen and signs can be integers.

When ``Snapshot.to_arrow`` takes `terms`, only the first branch is left; the rest can go.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.engine import Engine
from triegs.read.snapshot import Snapshot

__all__ = ["Engine", "apply_table", "read_batches", "read_table"]

BATCH_ROWS = 65_536

if "terms" in inspect.signature(Snapshot.to_arrow).parameters:

    def apply_table(engine: Any, table: pa.Table) -> None:
        engine.apply(table)

    def read_table(snapshot: Any, terms: str) -> pa.Table:
        return snapshot.to_arrow(terms=terms)

    def read_batches(snapshot: Any, terms: str) -> Iterator[pa.RecordBatch]:
        return snapshot.batches(rows=BATCH_ROWS, terms=terms)  # type: ignore[no-any-return]

else:

    def apply_table(engine: Any, table: pa.Table) -> None:
        signs = pc.if_else(pc.greater(table["op"], 0), "+", "-")
        engine.apply(table.set_column(0, "op", signs))

    def read_table(snapshot: Any, terms: str) -> pa.Table:
        if terms == "ntriples":
            return snapshot.to_arrow()
        return pa.Table.from_batches(read_batches(snapshot, terms))

    def read_batches(snapshot: Any, terms: str) -> Iterator[pa.RecordBatch]:
        names = [*snapshot.names, "multiplicity"]
        if terms == "ids" and not hasattr(snapshot, "_rows"):
            for ids, counts in snapshot._columns(lambda: BATCH_ROWS):
                part = [pa.array(column) for column in (*ids, counts)]
                yield pa.RecordBatch.from_arrays(part, names=names)
            return
        if terms == "ids":
            rows = [(*row, count) for row, count in snapshot._rows()]
            columns = np.array(rows, np.int64).reshape(-1, len(names)).T
            for start in range(0, len(rows), BATCH_ROWS):
                part = [pa.array(column[start : start + BATCH_ROWS]) for column in columns]
                yield pa.RecordBatch.from_arrays(part, names=names)
            return
        for batch in snapshot.batches(BATCH_ROWS):
            *columns, counts = batch.columns
            whole = [_read_integers(column) for column in columns]
            yield pa.RecordBatch.from_arrays([*whole, counts], names=names)

    def _read_integers(column: pa.DictionaryArray) -> pa.Array:
        # The dictionary has every term met before: only those of this batch are read.
        met = column.indices.unique()
        texts = pc.take(column.dictionary, met)
        texts = pc.replace_substring_regex(texts, r'^"(.*)"\^\^.*$', r"\1")
        values = np.zeros(len(column.dictionary), np.int64)
        values[met.to_numpy()] = texts.cast(pa.int64()).to_numpy()
        return pa.array(values[column.indices.to_numpy()])
