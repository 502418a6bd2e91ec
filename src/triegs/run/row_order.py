"""Sorts rows into an order that does not depend on the engine's history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS = 65_536


def sort_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of all batches, sorted by the texts of their columns, unbound first.

    The last column, a count, is not a key. Cost: all rows in memory.

    >>> batch = pa.record_batch({"x": ["b", "a", None], "multiplicity": [1, 2, 3]})
    >>> [part.to_pydict() for part in sort_rows([batch])]
    [{'x': [None, 'a', 'b'], 'multiplicity': [3, 2, 1]}]
    """
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found).unify_dictionaries().combine_chunks()
    keys = [_rank(column) for column in table.columns[:-1]]
    if keys and table.num_rows:
        table = table.take(pa.array(np.lexsort(keys[::-1])))
    yield from table.to_batches(BATCH_ROWS)


def _rank(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ranks of cells by text order; only the dictionary is sorted."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # without chunks
        return np.empty(0, np.int64)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    texts = array.dictionary
    ranks = np.empty(len(texts) + 1, np.int64)
    ranks[pc.sort_indices(texts).to_numpy()] = np.arange(len(texts))
    ranks[-1] = -1
    indices = pc.fill_null(array.indices.cast(pa.int64()), len(texts))
    return ranks.take(np.asarray(indices))
