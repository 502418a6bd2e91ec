"""The arrays of a dictionary, and the invariants that hold over them.

A *term* is either text, the UTF-8 bytes of its N-Triples form in ``heap``, or an integer of 64
bits, which is its own value and takes no text. Both have an id, and by id:

==========  =====================================================================================
spans       start in the heap and length; for an integer its value and `INTEGER`
counts      how often the engine names the term
births      first epoch that named it, `UNBORN` before
stamps      first epoch that no longer names it; meaningful while the count is zero
states      `FREE`, `USED`, or `LISTED` (in limbo, or waiting for a pin to go)
cached      1 if the Python side keeps the term in one of its dicts
==========  =====================================================================================

``texts`` and ``integers`` are hash tables with linear probing, never more than half full. A word of
``texts`` is ``hash << 32 | id + 1``, a row of ``integers`` is ``value, id + 1``; zero is empty.

Invariants, as `triegs.dictionary.checks` numbers them:

1. Free, listed and merely used ids are disjoint and make up ``0 … top - 1``.
2. Counts are never negative; an id with count zero is free or listed; ``NAMED`` ids have more.
3. The tables find each term that is not free, under its id, and hold nothing else.
4. Heap bytes below ``HEAP_USED`` are never written again; terms that are not free lie there.
5. A span changes only while its id is free. Growing and compacting make new arrays and leave the
   old ones as they were, so whoever holds an `Arrays` can go on reading the terms it had.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.int64]
# A 64-bit integer in compiled code; without compilation a NumPy scalar or a Python int.
Word: TypeAlias = Any

# These numbers are compiled into kernels; naming `triegs.kernels.jit` makes this file one of those
# whose change empties the cache of compiled code.
INTEGER = -1
UNBORN = -1
FREE, USED, LISTED = 0, 1, 2

# Places in `meta`.
TOP, FREE_IDS, HEAP_USED, HEAP_LIVE, TEXTS, INTEGERS, LIMBO, NAMED = range(8)

LEAST_IDS = 1 << 10
LEAST_HEAP = 1 << 16
MOST_IDS = (1 << 31) - 1


class Arrays(NamedTuple):
    """Everything a kernel needs; see the module for what is where."""

    heap: Bytes
    spans: Words
    texts: Words
    integers: Words
    counts: Words
    births: Words
    stamps: Words
    states: Bytes
    cached: Bytes
    free: Words
    limbo: Words
    meta: Words


def make_arrays() -> Arrays:
    """Empty arrays of the least sizes.

    >>> make_arrays().counts.size
    1024
    """
    ids = LEAST_IDS
    return Arrays(
        heap=np.zeros(LEAST_HEAP, np.uint8),
        spans=np.zeros((ids, 2), np.int64),
        texts=np.zeros(2 * ids, np.int64),
        integers=np.zeros((2 * ids, 2), np.int64),
        counts=np.zeros(ids, np.int64),
        births=np.zeros(ids, np.int64),
        stamps=np.zeros(ids, np.int64),
        states=np.zeros(ids, np.uint8),
        cached=np.zeros(ids, np.uint8),
        free=np.zeros(ids, np.int64),
        limbo=np.zeros(ids, np.int64),
        meta=np.zeros(8, np.int64),
    )


def count_bytes(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays)
