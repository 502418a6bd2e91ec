"""Grows and shrinks arrays. New arrays replace the old ones, which readers may still hold.

Sizes at least double, so growth costs amortized O(1) per term. A full heap is compacted: only terms
that are not free are copied, into a heap of twice their size, so the heap stays within a small
factor of the live bytes.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from triegs.terms.arrays import (
    FREE,
    FREE_IDS,
    HEAP_LIVE,
    HEAP_USED,
    INTEGERS,
    LEAST_HEAP,
    LEAST_IDS,
    MOST_IDS,
    TEXTS,
    TOP,
    Arrays,
)
from triegs.terms.table import fill_integers, fill_texts, move_heap

Number = TypeVar("Number", bound=np.generic)

# A heap or table is shrunk if it is this many times larger than its content.
SLACK = 16


def make_room(arrays: Arrays, size: int) -> Arrays:
    """Arrays with room for one more term of ``size`` bytes.

    Full arrays double. Raises `OverflowError` once 2**31 - 1 ids are in use.
    """
    meta = arrays.meta
    if meta[FREE_IDS] == 0 and meta[TOP] == len(arrays.counts):
        if meta[TOP] >= MOST_IDS:
            raise OverflowError(f"more than {MOST_IDS} terms are in use at once")
        arrays = _resize_ids(arrays, min(MOST_IDS, 2 * len(arrays.counts)))
    if meta[HEAP_USED] + size > len(arrays.heap):
        arrays = _replace_heap(arrays, size)
    if 2 * (meta[TEXTS] + 1) > len(arrays.texts):
        arrays = _replace_texts(arrays, 2 * len(arrays.texts))
    if 2 * (meta[INTEGERS] + 1) > len(arrays.integers):
        arrays = _replace_integers(arrays, 2 * len(arrays.integers))
    return arrays


def give_room_back(arrays: Arrays, meta: memoryview) -> Arrays:
    """Smaller arrays where the current ones are mostly empty; O(1) where they are not.

    ``meta`` is a memoryview of the arrays' meta, which Python reads faster.
    """
    used = meta[TOP] - meta[FREE_IDS]
    if SLACK * meta[HEAP_LIVE] < len(arrays.heap) > LEAST_HEAP:
        arrays = _replace_heap(arrays, 0)
    if SLACK * meta[TEXTS] < len(arrays.texts) > 2 * LEAST_IDS:
        arrays = _replace_texts(arrays, _round_up(max(2 * LEAST_IDS, 4 * meta[TEXTS])))
    if SLACK * meta[INTEGERS] < len(arrays.integers) > 2 * LEAST_IDS:
        arrays = _replace_integers(arrays, _round_up(max(2 * LEAST_IDS, 4 * meta[INTEGERS])))
    if SLACK * used < len(arrays.counts) > LEAST_IDS:
        arrays = _shrink_ids(arrays)
    return arrays


def _round_up(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _resize_ids(arrays: Arrays, ids: int) -> Arrays:
    def resize(old: NDArray[Number]) -> NDArray[Number]:
        new = np.zeros((ids, *old.shape[1:]), old.dtype)
        new[: len(old)] = old[:ids]
        return new

    return arrays._replace(
        spans=resize(arrays.spans),
        counts=resize(arrays.counts),
        births=resize(arrays.births),
        stamps=resize(arrays.stamps),
        states=resize(arrays.states),
        cached=resize(arrays.cached),
        free=resize(arrays.free),
        limbo=resize(arrays.limbo),
    )


def _shrink_ids(arrays: Arrays) -> Arrays:
    """Drop the free ids above the last used one, if that shrinks the arrays substantially."""
    used = np.flatnonzero(arrays.states[: arrays.meta[TOP]] != FREE)
    top = int(used[-1]) + 1 if len(used) else 0
    ids = _round_up(max(LEAST_IDS, 2 * top))
    if 2 * ids > len(arrays.counts):
        return arrays
    free = np.flatnonzero(arrays.states[:top] == FREE)
    smaller = _resize_ids(arrays, ids)
    smaller.free[: len(free)] = free
    smaller.meta[TOP], smaller.meta[FREE_IDS] = top, len(free)
    return smaller


def _replace_heap(arrays: Arrays, size: int) -> Arrays:
    capacity = _round_up(max(LEAST_HEAP, 2 * (int(arrays.meta[HEAP_LIVE]) + size)))
    heap = np.empty(capacity, np.uint8)
    spans = np.empty_like(arrays.spans)
    move_heap(arrays, heap, spans)
    return arrays._replace(heap=heap, spans=spans)


def _replace_texts(arrays: Arrays, capacity: int) -> Arrays:
    texts = np.zeros(capacity, np.int64)
    fill_texts(arrays.texts, texts)
    return arrays._replace(texts=texts)


def _replace_integers(arrays: Arrays, capacity: int) -> Arrays:
    integers = np.zeros((capacity, 2), np.int64)
    fill_integers(arrays.integers, integers)
    return arrays._replace(integers=integers)
