"""Encodes the columns of a table as rows of ids, in one kernel call where they are of usual kinds.

The kernel reads the buffers of Arrow at their addresses and checks all offsets and indices, which
may come from a damaged file or a faulty producer. UTF-8 needs no pass of its own: a text that the
dictionary has is valid, and a new one is added only if it is canonical at a glance, which includes
that. What the kernel cannot decide it leaves, a column at a time, to `triegs.terms.encoding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.errors import BadTerm
from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import (
    release_lock,
    take_lock,
    view_bytes,
    view_halves,
    view_signs,
    view_words,
)
from triegs.terms.arrays import Arrays, Bytes, Pairs, Word, Words
from triegs.terms.interning import Interner
from triegs.terms.table import (
    AHEAD,
    FEW,
    NO_ROOM,
    UNSURE,
    intern_bytes,
    intern_integer,
    prefetch_integer,
)

# Kinds of columns: left to Python, absent (all insertions), 8-bit signs, 64-bit integers, 32-bit
# indices of ids, texts by 32-bit and by 64-bit offsets.
LEFT, ABSENT, SIGNS, INTEGERS, INDICES, TEXTS, LARGE_TEXTS = range(7)
# The description of a column: its kind; the address of its numbers, indices or offsets; the address
# and size of its text or ids.
KIND, NUMBERS, DATA, DATA_SIZE, COLUMN_WORDS = range(5)
COLUMNS = 4
COLUMN, ROW = COLUMN_WORDS * COLUMNS, COLUMN_WORDS * COLUMNS + 1  # progress
DESCRIBED_WORDS = ROW + 1

KINDS = {
    pa.int8().id: (SIGNS, 1),
    pa.int64().id: (INTEGERS, 8),
    pa.string().id: (TEXTS, 4),
    pa.large_string().id: (LARGE_TEXTS, 8),
}
DICTIONARY = pa.dictionary(pa.int32(), pa.string()).id
INT32, STRING, LARGE_STRING = pa.int32().id, pa.string().id, pa.large_string().id
# A dictionary with more texts is encoded as a column of its own.
MOST_TEXTS = 64
DONE = -1


@inlined
def read_signs(values: Any, rows: Pairs, row: Word) -> Word:
    """All rows, or -1 at a sign that is not 1 or -1."""
    while row < len(rows):
        value = values[row]
        if value != 1 and value != -1:
            return -1
        rows[row, 0] = value
        row += 1
    return row


@inlined
def encode_integers(arrays: Arrays, values: Words, rows: Pairs, column: Word, row: Word) -> Word:
    """All rows, or the one for which there is no room."""
    while row < len(rows):
        if row + AHEAD < len(rows):
            prefetch_integer(arrays.integers, values[row + AHEAD])
        term = intern_integer(arrays, values[row])
        if term == NO_ROOM:
            return row
        rows[row, column] = term
        row += 1
    return row


@inlined
def take_indices(indices: Any, ids: Words, rows: Pairs, column: Word, row: Word) -> Word:
    """All rows, or -1 at an index that is beyond its dictionary."""
    while row < len(rows):
        index = np.int64(indices[row])
        if index < 0 or index >= len(ids):
            return -1
        rows[row, column] = ids[index]
        row += 1
    return row


@inlined
def encode_texts(
    arrays: Arrays, offsets: Any, data: Bytes, rows: Pairs, column: Word, row: Word
) -> Word:
    """All rows, the one for which there is no room, or -1 at a text that Python must see."""
    while row < len(rows):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end < start or end > len(data):
            return -1
        term = intern_bytes(arrays, data, start, end, True, False)
        if term == NO_ROOM:
            return row
        if term == UNSURE:
            return -1
        rows[row, column] = term
        row += 1
    return row


@kernel
def encode_column(arrays: Arrays, described: Words, column: Word, rows: Pairs, row: Word) -> Word:
    """Encode one column from a row on, see the functions for its kind."""
    at = COLUMN_WORDS * column
    kind, numbers, count = described[at + KIND], described[at + NUMBERS], len(rows)
    address, size = described[at + DATA], described[at + DATA_SIZE]
    if kind == ABSENT:
        for each in range(count):
            rows[each, column] = 1
        return count
    if kind == SIGNS:
        return read_signs(view_signs(numbers, count), rows, row)
    if kind == INTEGERS:
        return encode_integers(arrays, view_words(numbers, count), rows, column, row)
    if kind == INDICES:
        ids = view_words(address, size)
        return take_indices(view_halves(numbers, count), ids, rows, column, row)
    data = view_bytes(address, size)
    if kind == TEXTS:
        offsets = view_halves(numbers, count + 1)
        return encode_texts(arrays, offsets, data, rows, column, row)
    return encode_texts(arrays, view_words(numbers, count + 1), data, rows, column, row)


@kernel
def encode_columns(arrays: Arrays, described: Words, rows: Pairs) -> Word:
    """Encode all columns from the recorded progress on; `DONE`, or the bytes of a term for which
    there is no room. A column that Python must see becomes `LEFT`.
    """
    while described[COLUMN] < COLUMNS:
        column = described[COLUMN]
        at = COLUMN_WORDS * column
        if described[at + KIND] != LEFT:
            row = encode_column(arrays, described, column, rows, described[ROW])
            if row < 0:
                described[at + KIND] = LEFT
            elif row < len(rows):
                described[ROW] = row
                numbers = described[at + NUMBERS]
                if described[at + KIND] == TEXTS:
                    offsets = view_halves(numbers, len(rows) + 1)
                    return np.int64(offsets[row + 1]) - np.int64(offsets[row])
                if described[at + KIND] == LARGE_TEXTS:
                    larger = view_words(numbers, len(rows) + 1)
                    return larger[row + 1] - larger[row]
                return np.int64(0)
        described[COLUMN] = column + 1
        described[ROW] = 0
    return np.int64(DONE)


@short_kernel
def encode_rows(described: Words, rows: Pairs, *all_arrays: Any) -> Word:
    """`encode_columns`, for calls from Python."""
    arrays = Arrays(*all_arrays)
    if len(rows) <= FEW:
        return encode_columns(arrays, described, rows)
    lock = release_lock()
    result = encode_columns(arrays, described, rows)
    take_lock(lock)
    return result


class RowEncoder:
    """Encodes tables of updates into the arrays of an `Interner`."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._described = np.zeros(DESCRIBED_WORDS, np.int64)
        self._told = self._described.data

    def encode(self, columns: Sequence[Any], rows: Pairs) -> list[int]:
        """Write the columns change, subject, predicate, object into ``rows``; a column of changes
        may be None. Returns the numbers of those that are left, because they have nulls, several
        parts, an unusual type, or something that is wrong or must be parsed.
        """
        told, interner = self._told, self._interner
        owners = [self._describe(column, number) for number, column in enumerate(columns)]
        told[COLUMN] = told[ROW] = 0
        while (size := encode_rows(self._described, rows, *interner.arrays)) != DONE:
            interner.reserve(int(size))
        del owners  # whose buffers the kernel has read
        return [number for number in range(COLUMNS) if told[COLUMN_WORDS * number] == LEFT]

    def _describe(self, column: Any, number: int) -> Any:
        """Describe a column for the kernel; returns what must outlive the call."""
        told, at = self._told, COLUMN_WORDS * number
        if column is None:
            told[at + KIND] = ABSENT
            return None
        told[at + KIND] = LEFT
        if isinstance(column, pa.ChunkedArray):
            if column.num_chunks != 1:
                return None
            column = column.chunk(0)
        if column.null_count:
            return None
        kind, data = column.type.id, None
        if kind == DICTIONARY and number:
            ids = self._encode_dictionary(column.dictionary)
            if ids is None or column.type.index_type.id != INT32:
                return None
            told[at + DATA], told[at + DATA_SIZE] = ids.ctypes.data, len(ids)
            column, data, kind, width = column.indices, ids, INDICES, 4
        else:
            kind, width = KINDS.get(kind, (LEFT, 0))
            if kind == LEFT or (kind == SIGNS) != (number == 0):
                return None
        buffers = column.buffers()
        numbers, first = buffers[1], column.offset
        if numbers is None or numbers.size < (first + len(column) + (kind >= TEXTS)) * width:
            return None
        if kind >= TEXTS:
            text = buffers[2]
            told[at + DATA], told[at + DATA_SIZE] = (text.address, text.size) if text else (0, 0)
        told[at + NUMBERS] = numbers.address + first * width
        told[at + KIND] = kind
        return buffers, data

    def _encode_dictionary(self, texts: Any) -> Words | None:
        """The ids of a few texts, through the cache; None if Python must see them one by one."""
        if len(texts) > MOST_TEXTS or texts.type.id not in (STRING, LARGE_STRING):
            return None
        ids = []
        cached, seek = self._interner.cache.texts, self._interner.seek
        try:
            texts.validate(full=True)
            for text in texts.to_pylist():
                found = cached.get(text)
                ids.append(seek(text, "", create=True) if found is None else found)
        except (pa.ArrowException, BadTerm):
            return None
        return np.array(ids, np.int64)
