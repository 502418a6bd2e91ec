"""Kernels on the two hash tables: find, intern and remove terms; rebuild and compact.

Only the writer runs them. `intern_*` requires room (`triegs.terms.room`). Invariants are
numbered as in `triegs.terms.arrays`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import prefetch, release_lock, take_lock
from triegs.terms.arrays import (
    FREE,
    FREE_IDS,
    HEAP_LIVE,
    HEAP_USED,
    INTEGER,
    INTEGERS,
    LIMBO,
    LISTED,
    TEXTS,
    TOP,
    UNBORN,
    Arrays,
    Bytes,
    Word,
    Words,
)
from triegs.terms.spelling import (
    copy_bytes,
    equal_bytes,
    hash_bytes,
    hash_integer,
    is_canonical,
    may_be_integer,
    read_integer,
)

# Special values in a column of ids.
BAD = -1  # null or malformed, reported
MISSING = -2  # not in the dictionary
UNSURE = -3  # not canonical at a glance
NO_ROOM = -4

_ID = 0xFFFFFFFF
# Up to this many rows are processed without releasing the interpreter lock: releasing and
# reacquiring it would cost readers and the writer more than the work itself.
FEW = 4096
AHEAD = 16  # prefetch distance in terms


@inlined
def find_text(
    texts: Words, spans: Words, heap: Bytes, data: Bytes, start: Word, end: Word, tag: Word
) -> Word:
    mask = len(texts) - 1
    slot = tag & mask
    length = end - start
    while texts[slot] != 0:
        word = texts[slot]
        if word >> 32 == tag:
            term = (word & _ID) - 1
            if spans[term, 1] == length and equal_bytes(heap, spans[term, 0], data, start, length):
                return term
        slot = (slot + 1) & mask
    return MISSING


@inlined
def seek_integer(integers: Words, value: Word) -> Word:
    """The table row of a value, or the empty row where it belongs."""
    mask = len(integers) - 1
    slot = hash_integer(value) & mask
    while integers[slot, 1] != 0 and integers[slot, 0] != value:
        slot = (slot + 1) & mask
    return slot


@inlined
def prefetch_integer(integers: Words, value: Word) -> None:
    """Prefetch the memory where a value will be looked up."""
    prefetch(integers, 2 * (hash_integer(value) & (len(integers) - 1)))


@inlined
def find_integer(integers: Words, value: Word) -> Word:
    slot = seek_integer(integers, value)
    return integers[slot, 1] - 1 if integers[slot, 1] != 0 else MISSING


@inlined
def take_id(arrays: Arrays) -> Word:
    """Allocate an id, listed at once: the next collection frees it unless it is acquired."""
    meta = arrays.meta
    if meta[FREE_IDS] > 0:
        meta[FREE_IDS] -= 1
        term = arrays.free[meta[FREE_IDS]]
    else:
        term = meta[TOP]
        meta[TOP] += 1
    arrays.counts[term] = 0
    arrays.births[term] = UNBORN
    arrays.stamps[term] = UNBORN
    arrays.states[term] = LISTED
    arrays.limbo[meta[LIMBO]] = term
    meta[LIMBO] += 1
    return term


@inlined
def add_integer(arrays: Arrays, slot: Word, value: Word) -> Word:
    """Add an integer at the row found by `seek_integer`."""
    term = take_id(arrays)
    arrays.spans[term, 0] = value
    arrays.spans[term, 1] = INTEGER
    arrays.integers[slot, 0] = value
    arrays.integers[slot, 1] = term + 1
    arrays.meta[INTEGERS] += 1
    return term


@inlined
def add_text(arrays: Arrays, data: Bytes, start: Word, end: Word, tag: Word) -> Word:
    meta = arrays.meta
    texts = arrays.texts
    mask = len(texts) - 1
    slot = tag & mask
    while texts[slot] != 0:
        slot = (slot + 1) & mask
    term = take_id(arrays)
    used = meta[HEAP_USED]
    copy_bytes(arrays.heap, used, data, start, end - start)
    arrays.spans[term, 0] = used
    arrays.spans[term, 1] = end - start
    texts[slot] = (tag << 32) | (term + 1)
    meta[HEAP_USED] = used + end - start
    meta[HEAP_LIVE] += end - start
    meta[TEXTS] += 1
    return term


@kernel
def find_texts(arrays: Arrays, data: Bytes, offsets: Words, valid: Bytes, out: Words) -> Word:
    """Look up a column: ids, `BAD` for null, or `MISSING`; returns the number of misses.

    ``valid`` is one byte per row, or empty if there are no nulls.
    """
    texts, spans, heap, integers = arrays.texts, arrays.spans, arrays.heap, arrays.integers
    misses = 0
    for row in range(len(out)):
        if len(valid) != 0 and valid[row] == 0:
            out[row] = BAD
            continue
        start, end = offsets[row], offsets[row + 1]
        whole = False
        term = np.int64(MISSING)
        if may_be_integer(data, start, end):
            whole, value = read_integer(data, start, end)
            if whole:
                term = find_integer(integers, value)
        if not whole:
            term = find_text(texts, spans, heap, data, start, end, hash_bytes(data, start, end))
        out[row] = term
        if term < 0:
            misses += 1
    return misses


@kernel
def intern_texts(arrays: Arrays, data: Bytes, offsets: Words, out: Words, row: Word) -> Word:
    """Assign ids, or `UNSURE`, to `MISSING` rows from ``row`` on; stops when out of room."""
    while row < len(out):
        if out[row] == MISSING:
            term = intern_bytes(arrays, data, offsets[row], offsets[row + 1], True, False)
            if term == NO_ROOM:
                return row
            out[row] = term
        row += 1
    return row


@kernel
def intern_bytes(
    arrays: Arrays, data: Bytes, start: Word, end: Word, create: bool, trusted: bool
) -> Word:
    """The id of one term, or `MISSING`, `UNSURE` or `NO_ROOM`; ``trusted`` means canonical."""
    whole, value = False, np.int64(0)
    if may_be_integer(data, start, end):
        whole, value = read_integer(data, start, end)
    tag = np.int64(0)
    if whole:
        term = find_integer(arrays.integers, value)
    else:
        tag = hash_bytes(data, start, end)
        term = find_text(arrays.texts, arrays.spans, arrays.heap, data, start, end, tag)
    if term >= 0:
        return term
    if not whole and not trusted and not is_canonical(data, start, end):
        return np.int64(UNSURE)
    if not create:
        return np.int64(MISSING)
    if not has_room(arrays, end - start):
        return np.int64(NO_ROOM)
    if whole:
        return add_integer(arrays, seek_integer(arrays.integers, value), value)
    return add_text(arrays, data, start, end, tag)


@short_kernel
def intern_one(data: Bytes, create: bool, trusted: bool, *arrays: Any) -> Word:
    """`intern_bytes` of all the data, for calls from Python: passing single arrays takes half the
    time of a named tuple.
    """
    return intern_bytes(Arrays(*arrays), data, 0, len(data), create, trusted)


@short_kernel
def intern_one_integer(value: Word, create: bool, *arrays: Any) -> Word:
    words = Arrays(*arrays)
    return intern_integer(words, value) if create else find_integer(words.integers, value)


@inlined
def intern_integer(arrays: Arrays, value: Word) -> Word:
    """The id of an integer, created if needed, or `NO_ROOM`."""
    slot = seek_integer(arrays.integers, value)
    found = arrays.integers[slot, 1]
    if found != 0:
        return found - 1
    if not has_room(arrays, 0):
        return NO_ROOM
    return add_integer(arrays, slot, value)


@inlined
def has_room(arrays: Arrays, size: Word) -> bool:
    """Whether one more term of ``size`` bytes fits, with each table at most half full."""
    meta = arrays.meta
    return bool(
        (meta[FREE_IDS] > 0 or meta[TOP] < len(arrays.counts))
        and meta[HEAP_USED] + size <= len(arrays.heap)
        and 2 * (meta[TEXTS] + 1) <= len(arrays.texts)
        and 2 * (meta[INTEGERS] + 1) <= len(arrays.integers)
    )


@kernel
def find_integers(integers: Words, values: Words, out: Words) -> Word:
    """Look up a column of integers; returns how many are `MISSING`."""
    misses = 0
    for row in range(len(out)):
        term = find_integer(integers, values[row])
        out[row] = term
        misses += term < 0
    return misses


@short_kernel
def take_ids(ids: Words, indices: Any, out: Words) -> None:
    """``out[row] = ids[indices[row]]``; the indices must be valid."""
    for row in range(len(out)):
        out[row] = ids[np.uint64(indices[row])]


@kernel
def intern_values(arrays: Arrays, values: Words, out: Words, row: Word) -> Word:
    """Assign ids to all rows from ``row`` on, in one pass; stops when out of room."""
    while row < len(out):
        if row + AHEAD < len(out):
            prefetch_integer(arrays.integers, values[row + AHEAD])
        term = intern_integer(arrays, values[row])
        if term == NO_ROOM:
            return row
        out[row] = term
        row += 1
    return row


@short_kernel
def intern_integers(values: Words, out: Words, row: Word, *all_arrays: Any) -> Word:
    """`intern_values` for calls from Python."""
    arrays = Arrays(*all_arrays)
    if len(out) <= FEW:
        return intern_values(arrays, values, out, row)
    lock = release_lock()
    row = intern_values(arrays, values, out, row)
    take_lock(lock)
    return row


@inlined
def drop_id(arrays: Arrays, term: Word) -> None:
    """Remove a term from its table and free its id; later entries close the gap."""
    meta = arrays.meta
    start, length = arrays.spans[term, 0], arrays.spans[term, 1]
    if length == INTEGER:
        integers = arrays.integers
        mask = len(integers) - 1
        slot = hash_integer(start) & mask
        while integers[slot, 1] != term + 1:
            slot = (slot + 1) & mask
        after = (slot + 1) & mask
        while integers[after, 1] != 0:
            home = hash_integer(integers[after, 0]) & mask
            if ((after - home) & mask) >= ((after - slot) & mask):
                integers[slot, 0] = integers[after, 0]
                integers[slot, 1] = integers[after, 1]
                slot = after
            after = (after + 1) & mask
        integers[slot, 1] = 0
        meta[INTEGERS] -= 1
    else:
        texts = arrays.texts
        mask = len(texts) - 1
        slot = hash_bytes(arrays.heap, start, start + length) & mask
        while (texts[slot] & _ID) != term + 1:
            slot = (slot + 1) & mask
        after = (slot + 1) & mask
        while texts[after] != 0:
            home = (texts[after] >> 32) & mask
            if ((after - home) & mask) >= ((after - slot) & mask):
                texts[slot] = texts[after]
                slot = after
            after = (after + 1) & mask
        texts[slot] = 0
        meta[TEXTS] -= 1
        meta[HEAP_LIVE] -= length
    arrays.counts[term] = 0
    arrays.states[term] = FREE
    arrays.free[meta[FREE_IDS]] = term
    meta[FREE_IDS] += 1


@kernel
def fill_texts(old: Words, new: Words) -> None:
    mask = len(new) - 1
    for word in old:
        if word != 0:
            slot = (word >> 32) & mask
            while new[slot] != 0:
                slot = (slot + 1) & mask
            new[slot] = word


@kernel
def fill_integers(old: Words, new: Words) -> None:
    mask = len(new) - 1
    for row in range(len(old)):
        if old[row, 1] != 0:
            slot = hash_integer(old[row, 0]) & mask
            while new[slot, 1] != 0:
                slot = (slot + 1) & mask
            new[slot, 0] = old[row, 0]
            new[slot, 1] = old[row, 1]


@kernel
def move_heap(arrays: Arrays, heap: Bytes, spans: Words) -> None:
    """Copy the terms that are not free into a new heap, with new spans (invariant 5)."""
    used = 0
    for term in range(arrays.meta[TOP]):
        start, length = arrays.spans[term, 0], arrays.spans[term, 1]
        if arrays.states[term] != FREE and length != INTEGER:
            copy_bytes(heap, used, arrays.heap, start, length)
            spans[term, 0] = used
            used += length
        else:
            spans[term, 0] = start
        spans[term, 1] = length
    arrays.meta[HEAP_USED] = used
