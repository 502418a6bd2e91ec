"""Arrow IPC and Parquet output. Terms are string columns.

Input batches have separate dictionaries, but an Arrow file allows one dictionary per column, so
texts are spelled out. Parquet encodes repeated texts again.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from triegs.errors import TriegsError
from triegs.outputs.lines import SPELLINGS, Columns, Speller
from triegs.outputs.result_batch import (
    ANSWER,
    Head,
    Kind,
    Multiplicity,
    ResultBatch,
    TermText,
    arrange,
)

#: Rows and bytes collected for a row group or file batch.
GROUP_ROWS = 131_072
GROUP_BYTES = 1 << 26


class ColumnWriter:
    """Writes batches of one schema, merging small ones."""

    def __init__(
        self,
        sink: BinaryIO,
        head: Head,
        columns: Columns,
        multiplicity: Multiplicity,
        terms: TermText,
    ) -> None:
        self.head = head
        self.columns = columns
        self.multiplicity = multiplicity
        self.spellers = [Speller(SPELLINGS[terms](head)) for _ in head.names]
        values = [(ANSWER, pa.bool_())] if head.is_ask else [(n, pa.string()) for n in head.names]
        numbers = pa.int64()
        epoch, time, query, multiplicity_name, change = columns
        fields = [(epoch, numbers), (time, numbers), (query, pa.string()), *values,
                  (multiplicity_name, numbers), (change, numbers)]  # fmt: skip
        self.schema = pa.schema([pa.field(name, kind) for name, kind in fields if name])
        if not self.schema.names:
            raise TriegsError(f"{head.query} has no columns to write; choose another format")
        self.buffered: list[pa.RecordBatch] = []
        self.buffered_rows = self.buffered_bytes = 0
        self.file = self.open(sink)

    def open(self, sink: BinaryIO) -> Any:
        raise NotImplementedError

    def write(self, result: ResultBatch) -> int:
        """Write the rows of a result batch; returns their number. Small batches are buffered."""
        written = 0
        for batch in arrange(result, self.head, self.multiplicity):
            made = self._make(batch, result)
            self.buffered.append(made)
            self.buffered_rows += made.num_rows
            self.buffered_bytes += made.nbytes
            written += made.num_rows
            if self.buffered_rows >= GROUP_ROWS or self.buffered_bytes >= GROUP_BYTES:
                self.put()
        return written

    def _make(self, batch: pa.RecordBatch, result: ResultBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        counts = batch.column(batch.num_columns - 1)
        none = pa.nulls(rows, pa.int64())
        time = pa.repeat(pa.scalar(result.time, pa.int64()), rows)
        is_snapshot = result.kind is Kind.SNAPSHOT
        stamps = [pa.repeat(pa.scalar(result.epoch, pa.int64()), rows), time,
                  pa.repeat(self.head.query, rows)]  # fmt: skip
        ends = [counts if is_snapshot else none, none if is_snapshot else counts]
        kept = [array for name, array in zip(self.columns[:3], stamps, strict=True) if name]
        kept += [batch.column(0)] if self.head.is_ask else self._spell(batch)
        kept += [array for name, array in zip(self.columns[3:], ends, strict=True) if name]
        return pa.RecordBatch.from_arrays(kept, schema=self.schema)

    def _spell(self, batch: pa.RecordBatch) -> list[Any]:
        columns = []
        for speller, column in zip(self.spellers, batch.columns, strict=False):
            texts, _ = speller.spell(column)
            columns.append(texts.take(column.indices))
        return columns

    def put(self) -> None:
        """Write the buffered batches."""
        if self.buffered:
            self.file.write_table(pa.Table.from_batches(self.buffered).combine_chunks())
        self.buffered.clear()
        self.buffered_rows = self.buffered_bytes = 0

    def close(self) -> None:
        self.put()
        self.file.close()


class ParquetWriter(ColumnWriter):
    """A Parquet file; readable once it is closed."""

    def open(self, sink: BinaryIO) -> Any:
        return pq.ParquetWriter(sink, self.schema, compression="zstd")


class ArrowFileWriter(ColumnWriter):
    """An Arrow IPC file; readable once it is closed."""

    def open(self, sink: BinaryIO) -> Any:
        return pa.ipc.new_file(sink, self.schema)


class ArrowStreamWriter(ColumnWriter):
    """An Arrow IPC stream; a reader gets each result batch as it is written."""

    def open(self, sink: BinaryIO) -> Any:
        return pa.ipc.new_stream(sink, self.schema)

    def write(self, result: ResultBatch) -> int:
        written = super().write(result)
        self.put()
        return written
