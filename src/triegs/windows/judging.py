"""Kernels over a log of events: judge what is due, index what deletions look for.

A log is a ring: the event at position p, counted from the first event ever, stands in slot
``p & mask``. Positions grow with (time, arrival). Links find an event again: ``holder[id]`` is the
position of the last event of that id; ``first`` and ``last`` are the ends of a chain of positions
for each bucket of assertions, in ascending order, and ``following`` leads from one slot to the next
position of its chain. They are kept only once a stream has ids, or deletions.

An event may be a row of a table with several triples: then each has a position, one after the
other, and all but the first have `SAME_ROW` for an id. A row enters, repeats and dies as a whole.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from triegs.dictionary.jit import wrapping
from triegs.kernels.jit import brief, kernel

Words: TypeAlias = NDArray[np.int64]
Word: TypeAlias = int

NONE = -1
SAME_ROW = -2
NO_TIME = -(1 << 63)
# What became of an event that was judged.
ENTERED, DELETED, REPEATED, OTHER_CONTENT, NO_EVENT, NO_ID = range(6)


@wrapping
def mix_words(a: Word, b: Word, c: Word) -> Word:
    """A hash of three ids, not negative."""
    found = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(29)) ^ np.uint64(b)) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(32)) ^ np.uint64(c)) * np.uint64(0x94D049BB133111EB)
    return np.int64((found ^ (found >> np.uint64(31))) >> np.uint64(1))  # type: ignore[return-value]


@kernel
def find_bucket(rows: Words, slot: Word, first: Words) -> Word:
    return mix_words(rows[slot, 1], rows[slot, 2], rows[slot, 3]) & (len(first) - 1)


@kernel
def link_event(position: Word, rows: Words, following: Words, first: Words, last: Words) -> None:
    """Put an event at the end of its chain."""
    mask = len(following) - 1
    slot = position & mask
    bucket = find_bucket(rows, slot, first)
    following[slot] = NONE
    if first[bucket] == NONE:
        first[bucket] = position
    else:
        following[last[bucket] & mask] = position
    last[bucket] = position


@kernel
def link_all(
    start: Word, end: Word, rows: Words, following: Words, first: Words, last: Words
) -> None:
    """Chain all events of a log anew; ``first`` and ``last`` have been emptied."""
    for position in range(start, end):
        link_event(position, rows, following, first, last)


@kernel
def unlink_oldest(
    start: Word, end: Word, rows: Words, following: Words, first: Words, last: Words
) -> None:
    """Take the oldest events of a log out of their chains, where they come first."""
    mask = len(following) - 1
    for position in range(start, end):
        bucket = find_bucket(rows, position & mask, first)
        if first[bucket] == position:
            first[bucket] = following[position & mask]
            if first[bucket] == NONE:
                last[bucket] = NONE


@kernel
def is_retained(
    position: Word, start: Word, times: Words, rows: Words, horizon: Word, floor: Word
) -> bool:
    """Whether an event is live and some window holds it, or will."""
    if position < start:
        return False
    slot = position & (len(times) - 1)
    return rows[slot, 0] == 1 and (times[slot] > horizon or position >= floor)


@kernel
def measure_row(due_ids: Words, place: Word) -> Word:
    """How many triples the row has that begins at a place."""
    end = place + 1
    while end < len(due_ids) and due_ids[end] == SAME_ROW:
        end += 1
    return end - place


@kernel
def is_same_row(
    position: Word, end: Word, rows: Words, ids: Words, due_rows: Words, place: Word, size: Word
) -> bool:
    """Whether the row at a position of the log says what one that is due says, no more, no less."""
    mask = len(rows) - 1
    for step in range(size):
        slot = (position + step) & mask
        if position + step >= end or (ids[slot] == SAME_ROW) != (step > 0):
            return False
        for column in range(1, 4):
            if rows[slot, column] != due_rows[place + step, column]:
                return False
    behind = position + size
    return behind >= end or ids[behind & mask] != SAME_ROW


@kernel
def find_oldest(
    due_rows: Words, place: Word, size: Word, start: Word, end: Word, times: Words, rows: Words,
    ids: Words, following: Words, first: Words, last: Words, horizon: Word, floor: Word,
) -> Word:  # fmt: skip
    """The oldest retained event that says the same, taken out of its chain; dead ones go too."""
    mask = len(times) - 1
    s, p, o = due_rows[place, 1], due_rows[place, 2], due_rows[place, 3]
    bucket = mix_words(s, p, o) & (len(first) - 1)
    before, at = NONE, first[bucket]
    while at != NONE:
        slot = at & mask
        after = following[slot]
        found = (
            rows[slot, 1] == s
            and rows[slot, 2] == p
            and rows[slot, 3] == o
            and is_retained(at, start, times, rows, horizon, floor)
            and is_same_row(at, end, rows, ids, due_rows, place, size)
        )
        if found or rows[slot, 0] == 0:
            if before == NONE:
                first[bucket] = after
            else:
                following[before & mask] = after
            if after == NONE:
                last[bucket] = before
        else:
            before = at
        if found:
            return at  # type: ignore[no-any-return]
        at = after
    return NONE


@kernel
def judge_events(
    due_times: Words, due_rows: Words, due_ids: Words, start: Word, end: Word, times: Words,
    rows: Words, ids: Words, holder: Words, following: Words, first: Words, last: Words,
    horizon: Word, floor: Word, outcomes: Words, killed: Words,
) -> Word:  # fmt: skip
    """Judge events in their order; those that enter stand at the end of the log.

    ``outcomes`` says what became of each triple, and ``killed`` which position it deleted.
    ``holder`` is empty while there are no ids, ``first`` while there was no deletion. Returns the
    new end.
    """
    mask = len(times) - 1
    behind = 0
    for place in range(len(due_times)):
        if place < behind:  # of a row that was judged
            continue
        identity = due_ids[place]
        size = measure_row(due_ids, place)
        behind = place + size
        killed[place:behind] = NONE
        known = NONE
        if identity != NONE:
            known = holder[identity]
            if known != NONE and not (
                is_retained(known, start, times, rows, horizon, floor)
                and ids[known & mask] == identity
            ):
                known = NONE
        is_same = known != NONE and is_same_row(known, end, rows, ids, due_rows, place, size)
        if due_rows[place, 0] > 0:
            if known != NONE:
                outcomes[place:behind] = REPEATED if is_same else OTHER_CONTENT
                continue
            if identity != NONE:
                holder[identity] = end
            for due in range(place, behind):
                slot = end & mask
                times[slot] = due_times[due]
                ids[slot] = due_ids[due]
                rows[slot, 0] = 1
                for column in range(1, 4):
                    rows[slot, column] = due_rows[due, column]
                if len(first) > 0:
                    link_event(end, rows, following, first, last)
                end += 1
            outcomes[place:behind] = ENTERED
            continue
        if identity == NONE:
            known = find_oldest(
                due_rows, place, size, start, end, times, rows, ids, following, first, last,
                horizon, floor,
            )  # fmt: skip
        elif known != NONE and not is_same:
            outcomes[place:behind] = OTHER_CONTENT
            continue
        if known == NONE:
            outcomes[place:behind] = NO_EVENT if identity == NONE else NO_ID
            continue
        for step in range(size):
            rows[(known + step) & mask, 0] = 0
            killed[place + step] = known + step
        outcomes[place:behind] = DELETED
    return end


@kernel
def emit_row(rows: Words, slot: Word, change: Word, labels: Words, out: Words, at: Word) -> bool:
    """Write one row with a label for its predicate; False if there is none yet."""
    predicate = rows[slot, 2]
    if predicate >= len(labels) or labels[predicate] == NONE:
        return False
    out[at, 0] = change
    out[at, 1] = rows[slot, 1]
    out[at, 2] = labels[predicate]
    out[at, 3] = rows[slot, 3]
    return True


@brief
def emit_slide(
    rows: Words, gone: Word, gone_end: Word, single: Words, come: Word, come_end: Word,
    labels: Words, out: Words,
) -> Word:  # fmt: skip
    """Write what a slide changes: live rows that go, single ones that go, live ones that come.

    Returns how many were written, or `NONE` if a predicate has no label yet.
    """
    mask = len(rows) - 1
    at = 0
    for position in range(gone, gone_end):
        if rows[position & mask, 0] != 0:
            if not emit_row(rows, position & mask, -1, labels, out, at):
                return NONE
            at += 1
    for position in single:
        if not emit_row(rows, position & mask, -1, labels, out, at):
            return NONE
        at += 1
    for position in range(come, come_end):
        if rows[position & mask, 0] != 0:
            if not emit_row(rows, position & mask, 1, labels, out, at):
                return NONE
            at += 1
    return at


@brief
def count_labels(rows: Words, counts: Words) -> Word:
    """Count the rows of each label; returns how many rows have one that is now without any."""
    for row in range(len(rows)):
        counts[rows[row, 2]] += rows[row, 0]
    empty = 0
    for row in range(len(rows)):
        empty += counts[rows[row, 2]] == 0
    return empty
