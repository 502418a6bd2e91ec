"""triegs as the benchmarks use it: an engine, a query, the stream under it, and a judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
from pyarrow.compute import run_end_decode

from bench.answers import Digest, Numbers, check, digest_columns, imply_digest
from bench.calls import Engine, apply_table, read_batches, read_table
from bench.window import Window
from triegs.options import KeepName
from triegs.workloads import Slide, Workload

__all__ = ["Bed", "Engine", "apply_table", "digest_table", "read_batches", "read_table"]

LOAD_ROWS = 100_000


class Bed:
    """One workload on one engine, loaded. The window beside it is what the judge knows."""

    def __init__(
        self,
        workload: Workload,
        keep: Sequence[KeepName] = (),
        *,
        retain_epochs: int = 0,
        engine: Engine | None = None,
    ) -> None:
        self.workload = workload
        self.engine = engine or Engine("multigraph", retain_epochs=retain_epochs)
        self.query = self.engine.register(workload.query, keep=keep)
        self.window = Window(workload)
        self._stream = workload.slides()
        self._load = next(self._stream)

    def load(self) -> Bed:
        for _ in self.load_parts():
            pass
        return self

    def load_parts(self) -> Iterator[None]:
        """Load the window in parts, so that a caller may lose patience in between."""
        table = self._load.table
        for start in range(0, table.num_rows, LOAD_ROWS):
            apply_table(self.engine, table.slice(start, LOAD_ROWS))
            yield
        self.window.apply(self._load)

    def count_bytes(self) -> int:
        """The bytes of the live state."""
        found = self.engine.metrics()
        return int(found["live_bytes"] + found["shared_bytes"])

    def draw(self, count: int) -> list[Slide]:
        """The next slides of the stream, with their columns made, so that no clock sees that."""
        slides = list(islice(self._stream, count))
        for slide in slides:
            _ = slide.table, slide.deletions, slide.insertions
        return slides

    def apply(self, slide: Slide) -> None:
        apply_table(self.engine, slide.table)

    def apply_and_read(self, slide: Slide, terms: str) -> pa.Table:
        self.apply(slide)
        return self.read(terms)

    def read(self, terms: str) -> pa.Table:
        with self.query.snapshot() as snapshot:
            return read_table(snapshot, terms)

    def apply_and_read_runs(self, slide: Slide) -> pa.Table:
        self.apply(slide)
        return self.read_runs()

    def read_runs(self) -> pa.Table:
        with self.query.snapshot() as snapshot:
            return snapshot.to_arrow("python", layout="factorised")

    def digest(self) -> Digest:
        """Of the newest answers, batch by batch, so that large results fit."""
        with self.query.snapshot() as snapshot:
            return digest_batches(snapshot)

    def check(self, found: Digest | None = None) -> None:
        """Raise `WrongAnswer` unless the answers are those of the window."""
        workload = self.workload
        expected = imply_digest(workload.atoms, workload.head, self.window.edges)
        check(self.digest() if found is None else found, expected, workload.name)


def digest_batches(snapshot: object) -> Digest:
    parts = (digest_table(batch) for batch in read_batches(snapshot, "python"))
    total = Digest(0, 0)
    for part in parts:
        total += part
    return total


def digest_table(table: pa.Table | pa.RecordBatch) -> Digest:
    """Of answers with integer terms: all columns but the last, which is the multiplicity."""
    *columns, counts = (to_numbers(column) for column in table.columns)
    return digest_columns(columns, counts)


def to_numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """A column of integers, plain, as a dictionary or as runs, in NumPy."""
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [
        run_end_decode(part) if pa.types.is_run_end_encoded(part.type) else part for part in parts
    ]
    plain = [
        part.dictionary.cast(pa.int64()).to_numpy(zero_copy_only=False)[part.indices.to_numpy()]
        if pa.types.is_dictionary(part.type)
        else part.cast(pa.int64()).to_numpy()
        for part in parts
    ]
    return plain[0] if len(plain) == 1 else np.concatenate([np.zeros(0, np.int64), *plain])
