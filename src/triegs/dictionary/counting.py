"""Kernels that count who names a term, and free the terms that nobody does.

`acquire` and `release` move counts. A term whose count falls to zero goes into limbo, stamped with
the first epoch that no longer names it; `sift` looks through limbo later. A term is visible in the
epochs from its birth up to, not including, its stamp, so it may go once its stamp is published and
no pin lies in between: the rule by which the store frees its nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triegs.dictionary.arrays import (
    FREE,
    LIMBO,
    LISTED,
    NAMED,
    TOP,
    UNBORN,
    USED,
    Arrays,
    Word,
    Words,
)
from triegs.dictionary.table import drop_id
from triegs.kernels.jit import kernel


@kernel
def find_stranger(arrays: Arrays, ids: Words) -> Word:
    """The first row whose id names no term, -1 if there is none."""
    top = arrays.meta[TOP]
    for row in range(len(ids)):
        if ids[row] < 0 or ids[row] >= top or arrays.states[ids[row]] == FREE:
            return row
    return -1


@kernel
def acquire_ids(ids: Words, epoch: Word, *all_arrays: Any) -> Word:
    """Count each id once more; the row of a bad one, and nothing changed, or -1."""
    arrays = Arrays(*all_arrays)
    stranger = find_stranger(arrays, ids)
    if stranger >= 0:
        return stranger
    for term in ids:
        arrays.meta[NAMED] += arrays.counts[term] == 0
        arrays.counts[term] += 1
        if arrays.births[term] == UNBORN:
            arrays.births[term] = epoch
    return -1


@kernel
def release_ids(ids: Words, epoch: Word, *all_arrays: Any) -> Word:
    """Count each id once less; the row of a bad one, and nothing changed, or -1."""
    arrays = Arrays(*all_arrays)
    stranger = find_stranger(arrays, ids)
    if stranger >= 0:
        return stranger
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
def sift(
    arrays: Arrays, ids: Words, horizon: Word, pins: Words, done: Words, holders: Words
) -> tuple[Word, Word]:
    """Free each listed id that may go; returns how many went, and how many a pin holds.

    Freed ids come first in ``done``, held ones fill it from the end, with the newest pin that
    sees them in ``holders`` at the same place. Those whose stamp is yet to be published go back
    into limbo, those that are named again leave it.
    """
    meta = arrays.meta
    freed = 0
    held = 0
    for term in ids:
        if arrays.counts[term] > 0:
            arrays.states[term] = USED
            continue
        stamp = arrays.stamps[term]
        if stamp > horizon:
            arrays.limbo[meta[LIMBO]] = term
            meta[LIMBO] += 1
            continue
        below = np.searchsorted(pins, stamp)
        if below > 0 and arrays.births[term] != UNBORN and pins[below - 1] >= arrays.births[term]:
            held += 1
            done[len(done) - held] = term
            holders[len(done) - held] = pins[below - 1]
            continue
        drop_id(arrays, term)
        done[freed] = term
        freed += 1
    return freed, held
