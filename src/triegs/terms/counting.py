"""Reference-counting kernels that free unreferenced terms.

`acquire`, `release` and `settle` change counts. A term whose count drops to zero enters limbo,
stamped with the first epoch that no longer references it; later epochs sift limbo, each some of it.
A term is visible in the epochs from its birth up to, but excluding, its stamp. It can be freed once
its stamp is published and no pin lies in between, by the same rule as nodes of the store.
"""

from __future__ import annotations

from typing import Any

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import release_lock, take_lock
from triegs.terms.arrays import (
    FREE,
    INTEGER,
    LIMBO,
    LISTED,
    NAMED,
    TOP,
    UNBORN,
    USED,
    Arrays,
    Bytes,
    Word,
    Words,
)
from triegs.terms.table import AHEAD, FEW, drop_id, prefetch_integer


@kernel
def find_unknown(arrays: Arrays, ids: Words) -> Word:
    """The first row whose id is not in use; -1 if there is none."""
    top = arrays.meta[TOP]
    for row in range(len(ids)):
        if ids[row] < 0 or ids[row] >= top or arrays.states[ids[row]] == FREE:
            return row
    return -1


@kernel
def acquire_ids(ids: Words, epoch: Word, *all_arrays: Any) -> Word:
    """Increment the count of each id. Returns -1, or the row of a bad id and changes nothing."""
    arrays = Arrays(*all_arrays)
    unknown = find_unknown(arrays, ids)
    if unknown >= 0:
        return unknown
    for term in ids:
        arrays.meta[NAMED] += arrays.counts[term] == 0
        arrays.counts[term] += 1
        if arrays.births[term] == UNBORN:
            arrays.births[term] = epoch
    return -1


@kernel
def release_ids(ids: Words, epoch: Word, *all_arrays: Any) -> Word:
    """Decrement the count of each id. Returns -1, or the row of a bad id and changes nothing."""
    arrays = Arrays(*all_arrays)
    unknown = find_unknown(arrays, ids)
    if unknown >= 0:
        return unknown
    counts, meta = arrays.counts, arrays.meta
    for row in range(len(ids)):
        if counts[ids[row]] == 0:
            for back in range(row):
                meta[NAMED] += counts[ids[back]] == 0
                counts[ids[back]] += 1
            return row
        counts[ids[row]] -= 1
        meta[NAMED] -= counts[ids[row]] == 0
    listed = meta[LIMBO]
    for term in ids:
        if counts[term] == 0:
            listed = enter_limbo(term, epoch, arrays.stamps, arrays.states, arrays.limbo, listed)
    meta[LIMBO] = listed
    return -1


@inlined
def enter_limbo(
    term: Word, epoch: Word, stamps: Words, states: Bytes, limbo: Words, listed: Word
) -> Word:
    """Stamp an unreferenced term, and add it to limbo if it is not there; returns the new size."""
    stamps[term] = epoch
    if states[term] != USED:
        return listed
    states[term] = LISTED
    limbo[listed] = term
    return listed + 1


@short_kernel
def settle_rows(
    rows: Words,
    epoch: Word,
    counts: Words,
    births: Words,
    stamps: Words,
    states: Bytes,
    limbo: Words,
    meta: Words,
) -> Word:
    """Count the ids of rows ``(change, s, p, o)…``: all insertions, then all deletions.

    Returns -1, or the index of a bad id in ``rows`` and changes nothing.
    """
    if len(rows) <= 4 * FEW:
        return count_rows(rows, epoch, counts, births, stamps, states, limbo, meta)
    lock = release_lock()
    bad = count_rows(rows, epoch, counts, births, stamps, states, limbo, meta)
    take_lock(lock)
    return bad


@kernel
def count_rows(
    rows: Words,
    epoch: Word,
    counts: Words,
    births: Words,
    stamps: Words,
    states: Bytes,
    limbo: Words,
    meta: Words,
) -> Word:
    """`settle_rows`, for calls from kernels."""
    named = meta[NAMED]
    bad = -1
    for row in range(0, len(rows), 4):
        if rows[row] > 0:
            for at in range(row + 1, row + 4):
                term = rows[at]
                if term < 0 or term >= len(counts):
                    bad = at
                    break
                count = counts[term]
                if count == 0:
                    if states[term] == FREE:
                        bad = at
                        break
                    meta[NAMED] += 1
                    if births[term] == UNBORN:
                        births[term] = epoch
                counts[term] = count + 1
            if bad >= 0:
                undo_rows(rows, bad, 1, counts, births, stamps)
                meta[NAMED] = named
                return bad
    empty = 0
    for row in range(0, len(rows), 4):
        if rows[row] < 0:
            for at in range(row + 1, row + 4):
                term = rows[at]
                if term < 0 or term >= len(counts) or counts[term] == 0:
                    bad = at
                    break
                counts[term] -= 1
                empty += counts[term] == 0
            if bad >= 0:
                undo_rows(rows, bad, -1, counts, births, stamps)
                undo_rows(rows, len(rows), 1, counts, births, stamps)
                meta[NAMED] = named
                return bad
    if empty > 0:
        meta[NAMED] -= empty
        list_empty(rows, epoch, counts, stamps, states, limbo, meta)
    return -1


@kernel
def undo_rows(
    rows: Words, end: Word, change: Word, counts: Words, births: Words, stamps: Words
) -> None:
    """Undo `settle_rows` for the rows with this change, up to an index."""
    for row in range(0, len(rows), 4):
        if rows[row] * change > 0:
            for at in range(row + 1, row + 4):
                if at >= end:
                    return
                term = rows[at]
                counts[term] -= change
                # Unreferenced and never released: it was not yet born.
                if counts[term] == 0 and stamps[term] == UNBORN:
                    births[term] = UNBORN


@kernel
def list_empty(
    rows: Words,
    epoch: Word,
    counts: Words,
    stamps: Words,
    states: Bytes,
    limbo: Words,
    meta: Words,
) -> None:
    """Stamp the terms that these rows left unreferenced, and add them to limbo."""
    listed = meta[LIMBO]
    for row in range(0, len(rows), 4):
        if rows[row] < 0:
            for at in range(row + 1, row + 4):
                term = rows[at]
                if counts[term] == 0:
                    listed = enter_limbo(term, epoch, stamps, states, limbo, listed)
    meta[LIMBO] = listed


@inlined
def find_pin(pins: Words, stride: Word, stamp: Word) -> Word:
    """The newest pin before a stamp, or -1. ``pins`` has one in every ``stride`` words."""
    low, high = 0, len(pins) // stride
    while low < high:
        middle = (low + high) // 2
        if pins[stride * middle] < stamp:
            low = middle + 1
        else:
            high = middle
    return pins[stride * (low - 1)] if low > 0 else -1


@kernel
def sift_last(
    most: Word, horizon: Word, pins: Words, stride: Word, kept: Words, arrays: Arrays
) -> tuple[Word, Word, Word]:
    """Free those of the last ``most`` ids in limbo that can be freed.

    Returns how many were freed, how many of those Python caches, and how many a pin holds. The
    cached ids are first in ``kept``; at its end are pairs of a held id and the newest pin that sees
    it. Twice ``most`` words are enough. Ids whose stamp is not published yet stay in limbo;
    referenced ids leave it.
    """
    freed, cached, held = 0, 0, 0
    limbo, end = arrays.limbo, arrays.meta[LIMBO]
    listed = max(0, end - most)
    for index in range(listed, end):
        if index + AHEAD < end:
            later = limbo[index + AHEAD]
            if arrays.spans[later, 1] == INTEGER:
                prefetch_integer(arrays.integers, arrays.spans[later, 0])
        term = limbo[index]
        if arrays.counts[term] > 0:
            arrays.states[term] = USED
            continue
        stamp = arrays.stamps[term]
        if stamp > horizon:
            limbo[listed] = term
            listed += 1
            continue
        birth = arrays.births[term]
        pin = find_pin(pins, stride, stamp) if birth != UNBORN else -1
        if pin >= 0 and pin >= birth:
            held += 1
            kept[len(kept) - 2 * held] = term
            kept[len(kept) - 2 * held + 1] = pin
            continue
        if arrays.cached[term] != 0:
            kept[cached] = term
            cached += 1
        drop_id(arrays, term)
        freed += 1
    arrays.meta[LIMBO] = listed
    return freed, cached, held


@short_kernel
def sift(horizon: Word, pins: Words, kept: Words, *all_arrays: Any) -> tuple[Word, Word, Word]:
    """`sift_last` of all of limbo, for calls from Python."""
    arrays = Arrays(*all_arrays)
    most = arrays.meta[LIMBO]
    if most <= FEW:
        return sift_last(most, horizon, pins, 1, kept, arrays)
    lock = release_lock()
    freed, cached, held = sift_last(most, horizon, pins, 1, kept, arrays)
    take_lock(lock)
    return freed, cached, held
