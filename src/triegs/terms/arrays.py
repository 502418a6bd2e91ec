"""The arrays of a dictionary and their invariants.

A *term* is either text, stored as the UTF-8 bytes of its N-Triples form in ``heap``, or a 64-bit
integer, stored as its value. By id:

==========  =====================================================================================
spans       start in the heap and length; for an integer, its value and `INTEGER`
counts      number of references from the engine
births      first epoch that references it, `UNBORN` before
stamps      first epoch that no longer references it; valid while the count is zero
states      `FREE`, `USED`, or `LISTED` (in limbo, or held by a pin)
cached      1 if the term is in a Python cache
==========  =====================================================================================

``texts`` and ``integers`` are hash tables with linear probing, at most half full. A word of
``texts`` is ``hash << 32 | id + 1``; a row of ``integers`` is ``value, id + 1``; zero means empty.

Invariants, numbered as in `triegs.terms.checks`:

1. Free, listed and other used ids are disjoint and make up ``0 … top - 1``.
2. Counts are never negative; an id with count zero is free or listed; ``NAMED`` counts the rest.
3. The tables contain exactly the terms that are not free, under their ids.
4. Heap bytes below ``HEAP_USED`` are never overwritten; all terms that are not free lie there.
5. A span changes only while its id is free. Growing and compacting create new arrays and leave the
   old ones unchanged, so a reader that holds an `Arrays` can keep reading its terms.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = NDArray[np.int64]  # rows of two words
# A 64-bit integer in compiled code; without compilation a NumPy scalar or a Python int.
Word: TypeAlias = Any

# These constants are compiled into kernels. Mentioning `triegs.jit.jit` here makes a change of
# this file invalidate the cache of compiled code.
INTEGER = -1
UNBORN = -1
FREE, USED, LISTED = 0, 1, 2

# Indices into `meta`.
TOP, FREE_IDS, HEAP_USED, HEAP_LIVE, TEXTS, INTEGERS, LIMBO, NAMED = range(8)

LEAST_IDS = 1 << 10
LEAST_HEAP = 1 << 16
MOST_IDS = (1 << 31) - 1


class Arrays(NamedTuple):
    """All arrays of a dictionary; see the module docstring."""

    heap: Bytes
    spans: Pairs
    texts: Words
    integers: Pairs
    counts: Words
    births: Words
    stamps: Words
    states: Bytes
    cached: Bytes
    free: Words
    limbo: Words
    meta: Words


def make_arrays() -> Arrays:
    """Empty arrays of minimum size.

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
