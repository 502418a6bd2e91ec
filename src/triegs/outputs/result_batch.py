"""The input of writers: the answers of a query, or their changes, at one epoch.

Batches are Arrow record batches as from `triegs.Snapshot.batches`: a dictionary column of N-Triples
strings per head variable, and last the multiplicity or the signed change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Rows per batch when expanding.
MOST_ROWS = 65_536
#: Bytes of spelled-out terms per batch; larger batches are split.
MOST_BYTES = 1 << 26

ANSWER = "answer"


class Kind(StrEnum):
    """What the rows of a result batch are."""

    SNAPSHOT = "snapshot"
    CHANGES = "changes"


class Multiplicity(StrEnum):
    """How answers with a multiplicity are written."""

    COLUMN = "column"
    EXPAND = "expand"
    NONE = "none"


class TermText(StrEnum):
    """How a term is written; see `triegs.outputs.texts`."""

    NTRIPLES = "ntriples"
    PLAIN = "plain"
    SHORT = "short"


@dataclass(frozen=True, slots=True)
class Head:
    """A query as writers see it: its name, columns, whether it is an ASK, and the kinds of result
    batches to expect.
    """

    query: str
    names: tuple[str, ...]
    is_ask: bool = False
    kinds: tuple[Kind, ...] = (Kind.SNAPSHOT,)
    prefixes: dict[str, str] = field(default_factory=dict)
    base: str = ""  # of plain names, if any


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """The rows of a query at one epoch. ``time`` is in milliseconds, or None."""

    kind: Kind
    epoch: int
    time: int | None
    batches: Iterable[pa.RecordBatch]


def arrange(
    result: ResultBatch, head: Head, multiplicity: Multiplicity
) -> Iterator[pa.RecordBatch]:
    """The batches as they are written: expanded if requested, and split if large.

    An ASK becomes one row with the column ``answer``, its changes a row for each flip.
    """
    if head.is_ask:
        yield _answer_ask(result)
        return
    for batch in result.batches:
        if multiplicity is Multiplicity.EXPAND:
            parts = expand(batch)
        else:
            parts = iter([batch] if batch.num_rows else [])
        for part in parts:
            yield from cut(part)


def _answer_ask(result: ResultBatch) -> pa.RecordBatch:
    counts = [count for batch in result.batches for count in batch.column(0).to_pylist()]
    if result.kind is Kind.SNAPSHOT:
        verdicts = [bool(counts)]
    else:
        verdicts = [count > 0 for count in counts]
    return pa.record_batch(
        [pa.array(verdicts, pa.bool_()), pa.array([1 if v else -1 for v in verdicts], pa.int64())],
        [ANSWER, "change"],
    )


def expand(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Repeat each row by its last column, which becomes 1 or -1. Memory: `MOST_ROWS` rows.

    >>> batch = pa.record_batch({"x": ["a", "b", "c"], "n": [2, 1, -2]})
    >>> [part.to_pydict() for part in expand(batch)]
    [{'x': ['a', 'a', 'b', 'c', 'c'], 'n': [1, 1, 1, -1, -1]}]
    """
    counts = batch.column(batch.num_columns - 1).to_numpy()
    if len(counts) and counts.min() == counts.max() == 1:
        yield batch
        return
    signs = np.sign(counts)
    # The minimum has no positive counterpart in int64, but fits uint64.
    sizes = np.where(counts < 0, -counts.astype(np.object_), counts).astype(np.uint64)
    start = 0
    while start < len(sizes):
        many = sizes[start:] > MOST_ROWS
        stop = start + int(many.argmax()) if many.any() else len(sizes)
        if stop > start:
            ends = np.cumsum(sizes[start:stop].astype(np.int64))
            for low in range(0, int(ends[-1]), MOST_ROWS):
                wanted = np.arange(low, min(low + MOST_ROWS, int(ends[-1])))
                yield _repeat(batch, signs, start + np.searchsorted(ends, wanted, side="right"))
        if stop < len(sizes):
            left = int(sizes[stop])
            while left:
                rows = min(left, MOST_ROWS)
                yield _repeat(batch, signs, np.full(rows, stop))
                left -= rows
            stop += 1
        start = stop


def _repeat(
    batch: pa.RecordBatch, signs: NDArray[np.int64], rows: NDArray[np.int64]
) -> pa.RecordBatch:
    indices = pa.array(rows)
    columns = [column.take(indices) for column in batch.columns[:-1]]
    return pa.RecordBatch.from_arrays([*columns, pa.array(signs[rows])], schema=batch.schema)


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch so that its spelled-out terms take at most `MOST_BYTES`, or into single rows.

    A dictionary stores a long term once, but the output repeats it in every row.
    """
    coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    lengths = [pc.fill_null(pc.binary_length(column.dictionary), 0) for column in coded]
    longest = sum(pc.max(each).as_py() or 0 for each in lengths)
    if longest * batch.num_rows <= MOST_BYTES:
        yield batch
        return
    sizes = np.zeros(batch.num_rows, np.int64)
    for column, each in zip(coded, lengths, strict=True):
        sizes += each.take(column.indices).cast(pa.int64()).fill_null(0).to_numpy()
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + MOST_BYTES, side="right")))
        yield _shrink(batch.slice(start, stop - start))
        start = stop


def _shrink(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with dictionaries of only their terms."""
    columns = [
        column.dictionary.take(column.indices).dictionary_encode()
        if pa.types.is_dictionary(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def pick_name(name: str, taken: Iterable[str]) -> str:
    """A column name, with underscores appended if a variable has that name.

    >>> pick_name("time", ["x", "time"])
    'time_'
    """
    names = set(taken)
    while name in names:
        name = f"{name}_"
    return name
