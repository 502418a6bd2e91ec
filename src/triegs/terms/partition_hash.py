"""Hashes of terms that are equal in all processes, to assign terms to partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from triegs.jit.jit import kernel
from triegs.terms.arrays import Bytes, Word, Words
from triegs.terms.columns import buffer_texts, read_integers
from triegs.terms.spelling import hash_bytes, hash_integer, may_be_integer, read_integer


@kernel
def hash_texts(data: Bytes, offsets: Words, out: Words) -> None:
    """Hash texts; the text of an integer hashes like its value."""
    for row in range(len(out)):
        start, end = offsets[row], offsets[row + 1]
        whole, value = False, np.int64(0)
        if may_be_integer(data, start, end):
            whole, value = read_integer(data, start, end)
        out[row] = hash_integer(value) if whole else hash_bytes(data, start, end)


@kernel
def hash_values(values: Words, out: Words) -> None:
    for row in range(len(out)):
        out[row] = hash_integer(values[row])


@kernel
def join_hashes(left: Words, right: Words) -> None:
    """Combine hashes of pairs into ``left``; order matters."""
    for row in range(len(left)):
        left[row] = hash_integer((left[row] << 31) ^ right[row])


def hash_terms(column: Any) -> Words:
    """31-bit hashes of a column of canonical texts, dictionaries of them, or integers.

    Linear; hashes each dictionary text once.

    >>> five = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> texts = pa.array([five, "<a:b>"]).dictionary_encode()
    >>> bool(hash_terms(texts)[0] == hash_terms(pa.array([5]))[0])
    True
    """
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.int64), *map(hash_terms, column.chunks)])
    if pa.types.is_dictionary(column.type):
        found: Words = hash_terms(column.dictionary)[column.indices.to_numpy()]
        return found
    out = np.empty(len(column), np.int64)
    if pa.types.is_integer(column.type):
        hash_values(read_integers(column)[0], out)
    else:
        buffers = buffer_texts(column)
        hash_texts(buffers.data, buffers.offsets, out)
    return out


def find_partitions(columns: list[Any], partitions: Word) -> Words:
    """The partition of each row of one or two columns of terms.

    >>> set(find_partitions([pa.array(range(100))], 3).tolist())
    {0, 1, 2}
    """
    found = hash_terms(columns[0])
    for column in columns[1:]:
        join_hashes(found, hash_terms(column))
    numbers: Words = found % partitions
    return numbers
