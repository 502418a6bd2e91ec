"""Reference-counting kernels that free unreferenced terms.

`acquire`, `release` and `settle` change counts. A term whose count drops to zero enters limbo,
stamped with the first epoch that no longer references it; `sift` later processes limbo. A term is
visible in the epochs from its birth up to, but excluding, its stamp. It can be freed once its stamp
is published and no pin lies in between, by the same rule as nodes of the store.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triegs.jit.jit import kernel, short_kernel
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
from triegs.terms.table import AHEAD, drop_id, prefetch_integer


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
    for term in ids:
        if counts[term] == 0:
            arrays.stamps[term] = epoch
            if arrays.states[term] == USED:
                arrays.states[term] = LISTED
                arrays.limbo[meta[LIMBO]] = term
                meta[LIMBO] += 1
    return -1


@kernel
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
    """Count the ids of rows ``(change, s, p, o)``: all insertions, then all deletions.

    Returns -1, or the flat index of a bad id in ``rows`` and changes nothing. Takes single arrays
    and no others, because a batch is often a single row and argument passing dominates.
    """
    named = meta[NAMED]
    bad = -1
    for row in range(len(rows)):
        if rows[row, 0] > 0:
            for column in range(1, 4):
                term = rows[row, column]
                if term < 0 or term >= len(counts):
                    bad = 4 * row + column
                    break
                count = counts[term]
                if count == 0:
                    if states[term] == FREE:
                        bad = 4 * row + column
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
    for row in range(len(rows)):
        if rows[row, 0] < 0:
            for column in range(1, 4):
                term = rows[row, column]
                if term < 0 or term >= len(counts) or counts[term] == 0:
                    bad = 4 * row + column
                    break
                counts[term] -= 1
                empty += counts[term] == 0
            if bad >= 0:
                undo_rows(rows, bad, -1, counts, births, stamps)
                undo_rows(rows, 4 * len(rows), 1, counts, births, stamps)
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
    """Undo `settle_rows` for the rows with this change, up to a flat index."""
    for row in range(len(rows)):
        if rows[row, 0] * change > 0:
            for column in range(1, 4):
                if 4 * row + column >= end:
                    return
                term = rows[row, column]
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
    for row in range(len(rows)):
        if rows[row, 0] < 0:
            for column in range(1, 4):
                term = rows[row, column]
                if counts[term] == 0:
                    stamps[term] = epoch
                    if states[term] == USED:
                        states[term] = LISTED
                        limbo[listed] = term
                        listed += 1
    meta[LIMBO] = listed


@short_kernel
def settle_few(
    rows: Words,
    epoch: Word,
    counts: Words,
    births: Words,
    stamps: Words,
    states: Bytes,
    limbo: Words,
    meta: Words,
) -> Word:
    """`settle_rows` for a few rows, without releasing the interpreter lock."""
    return settle_rows(rows, epoch, counts, births, stamps, states, limbo, meta)


@kernel
def sift(
    ids: Words, horizon: Word, pins: Words, kept: Words, *all_arrays: Any
) -> tuple[Word, Word, Word]:
    """Free the listed ids that can be freed.

    Returns how many were freed, how many of those Python caches, and how many a pin holds. The
    cached ids come first in ``kept[0]``; held ids fill it from the end, with the newest pin that
    sees them in ``kept[1]``. Ids whose stamp is not published yet return to limbo (overwriting
    entries of ``ids`` that were already read, if it is limbo itself); referenced ids leave it.
    """
    arrays = Arrays(*all_arrays)
    freed, cached, held = 0, 0, 0
    listed = 0
    for index in range(len(ids)):
        if index + AHEAD < len(ids):
            later = ids[index + AHEAD]
            if arrays.spans[later, 1] == INTEGER:
                prefetch_integer(arrays.integers, arrays.spans[later, 0])
        term = ids[index]
        if arrays.counts[term] > 0:
            arrays.states[term] = USED
            continue
        stamp = arrays.stamps[term]
        if stamp > horizon:
            arrays.limbo[listed] = term
            listed += 1
            continue
        below = np.searchsorted(pins, stamp) if len(pins) > 0 else 0
        if below > 0 and arrays.births[term] != UNBORN and pins[below - 1] >= arrays.births[term]:
            held += 1
            kept[0, len(ids) - held] = term
            kept[1, len(ids) - held] = pins[below - 1]
            continue
        if arrays.cached[term] != 0:
            kept[0, cached] = term
            cached += 1
        drop_id(arrays, term)
        freed += 1
    arrays.meta[LIMBO] = listed
    return freed, cached, held


@short_kernel
def sift_few(
    ids: Words, horizon: Word, pins: Words, kept: Words, *all_arrays: Any
) -> tuple[Word, Word, Word]:
    """`sift` for a few ids, without releasing the interpreter lock."""
    return sift(ids, horizon, pins, kept, *all_arrays)
