"""Kernels that count who names a term, and free the terms that nobody does.

`acquire`, `release` and `settle` move counts. A term whose count falls to zero goes into limbo,
stamped with the first epoch that no longer names it; `sift` looks through limbo later. A term is
visible in the epochs from its birth up to, not including, its stamp, so it may go once its stamp is
published and no pin lies in between: the rule by which the store frees its nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triegs.dictionary.arrays import (
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
from triegs.dictionary.table import AHEAD, ask_integer, drop_id
from triegs.kernels.jit import brief, kernel


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
    """Count the ids of each row ``(change, s, p, o)``: first all that come, then all that go.

    Returns the place of a bad id in the rows, read one after the other, and has changed nothing,
    or -1. Single arrays, and no more than needed, because a batch is often one row.
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
                take_back(rows, bad, 1, counts, births, stamps)
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
                take_back(rows, bad, -1, counts, births, stamps)
                take_back(rows, 4 * len(rows), 1, counts, births, stamps)
                meta[NAMED] = named
                return bad
    if empty > 0:
        meta[NAMED] -= empty
        list_empty(rows, epoch, counts, stamps, states, limbo, meta)
    return -1


@kernel
def take_back(
    rows: Words, end: Word, change: Word, counts: Words, births: Words, stamps: Words
) -> None:
    """Undo what `settle_rows` did for rows of this change, up to a place in the rows."""
    for row in range(len(rows)):
        if rows[row, 0] * change > 0:
            for column in range(1, 4):
                if 4 * row + column >= end:
                    return
                term = rows[row, column]
                counts[term] -= change
                # Never released and named by nobody: it was not yet born.
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
    """Stamp the terms that the rows have left without a name, and put them into limbo."""
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


@brief
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
    """`settle_rows` for so few rows that other threads can wait."""
    return settle_rows(rows, epoch, counts, births, stamps, states, limbo, meta)


@kernel
def sift(
    ids: Words, horizon: Word, pins: Words, kept: Words, *all_arrays: Any
) -> tuple[Word, Word, Word]:
    """Free each listed id that may go; how many went, how many of them Python knows by heart, and
    how many a pin holds.

    Those that Python knows come first in ``kept[0]``; held ones fill it from the end, with the
    newest pin that sees them below. Ids whose stamp is yet to be published go back into limbo
    (over places of ``ids`` that were read already, if it is limbo itself), those that are named
    again leave it.
    """
    arrays = Arrays(*all_arrays)
    freed, known, held = 0, 0, 0
    listed = 0
    for place in range(len(ids)):
        if place + AHEAD < len(ids):
            later = ids[place + AHEAD]
            if arrays.spans[later, 1] == INTEGER:
                ask_integer(arrays.integers, arrays.spans[later, 0])
        term = ids[place]
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
            kept[0, known] = term
            known += 1
        drop_id(arrays, term)
        freed += 1
    arrays.meta[LIMBO] = listed
    return freed, known, held


@brief
def sift_few(
    ids: Words, horizon: Word, pins: Words, kept: Words, *all_arrays: Any
) -> tuple[Word, Word, Word]:
    """`sift` for so few ids that other threads can wait."""
    return sift(ids, horizon, pins, kept, *all_arrays)
