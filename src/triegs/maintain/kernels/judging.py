"""Kernels over a log of events: judge what is due, index what deletions look up.

A log is a ring: the event at position p, counted from the first event ever, is in slot
``p & mask``. Positions grow with (time, arrival). Two indexes find an event again: ``holder[id]``
is the position of the last event with that id; ``first`` and ``last`` are the ends of a chain of
ascending positions for each hash bucket of triples, and ``following`` has, by slot, the next
position of its chain. They exist only once a stream has ids, or deletions.

An event may be a table row of several triples: each has a position, in sequence, and all but the
first have the id `SAME_ROW`. A row enters, repeats and dies as a whole.

Rows are flat, four words each. Kernels take related arrays as plain tuples: a call with a
NamedTuple takes five microseconds more.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from triegs.jit.jit import kernel
from triegs.jit.words import Words, load, store
from triegs.terms.jit import wrapping

#: Of the events that are due: times, rows ``(1 or -1, s, p, o)``, ids, arrivals.
Due: TypeAlias = tuple[Words, Words, Words, Words]
#: The columns of a log by slot: times, rows ``(1 or 0 if dead, s, p, o)``, ids, arrivals; and
#: holders by id.
Ring: TypeAlias = tuple[Words, Words, Words, Words, Words]
#: Following positions by slot; the first and last position by bucket.
Chains: TypeAlias = tuple[Words, Words, Words]
#: What is retained: the first position of the log, the time horizon, the least position. An event
#: is retained if it is later than the horizon, or at or behind the least position.
Kept: TypeAlias = tuple[int, int, int]

NONE = -1
SAME_ROW = -2
NO_TIME = -(1 << 63)
# The outcome of judging an event.
ENTERED, DELETED, REPEATED, OTHER_CONTENT, NO_EVENT, NO_ID = range(6)


@wrapping
def mix_words(a: int, b: int, c: int) -> int:
    """A hash of three ids, not negative."""
    found = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(29)) ^ np.uint64(b)) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(32)) ^ np.uint64(c)) * np.uint64(0x94D049BB133111EB)
    return np.int64((found ^ (found >> np.uint64(31))) >> np.uint64(1))  # type: ignore[return-value]


@kernel
def find_bucket(rows: Words, slot: int, first: Words) -> int:
    row = 4 * slot
    return mix_words(load(rows, row + 1), load(rows, row + 2), load(rows, row + 3)) & (
        first.size - 1
    )


@kernel
def link_event(position: int, rows: Words, following: Words, first: Words, last: Words) -> None:
    """Append an event to its chain."""
    mask = following.size - 1
    slot = position & mask
    bucket = find_bucket(rows, slot, first)
    store(following, slot, NONE)
    if load(first, bucket) == NONE:
        store(first, bucket, position)
    else:
        store(following, load(last, bucket) & mask, position)
    store(last, bucket, position)


@kernel
def link_all(
    start: int, end: int, rows: Words, following: Words, first: Words, last: Words
) -> None:
    """Rebuild the chains of a log; ``first`` and ``last`` are empty."""
    for position in range(start, end):
        link_event(position, rows, following, first, last)


@kernel
def unlink_oldest(
    start: int, end: int, rows: Words, following: Words, first: Words, last: Words
) -> None:
    """Remove the oldest events of a log from their chains, where they come first."""
    mask = following.size - 1
    for position in range(start, end):
        bucket = find_bucket(rows, position & mask, first)
        if load(first, bucket) == position:
            after = load(following, position & mask)
            store(first, bucket, after)
            if after == NONE:
                store(last, bucket, NONE)


@kernel
def is_retained(position: int, ring: Ring, kept: Kept) -> bool:
    """Whether an event is live, and some window contains it or will."""
    times, rows, _, _, _ = ring
    start, horizon, floor = kept
    if position < start:
        return False
    slot = position & (times.size - 1)
    return load(rows, 4 * slot) == 1 and (load(times, slot) > horizon or position >= floor)


@kernel
def measure_row(due_ids: Words, at: int) -> int:
    """The number of triples of the row that begins at an index."""
    end = at + 1
    while end < due_ids.size and load(due_ids, end) == SAME_ROW:
        end += 1
    return end - at


@kernel
def is_same_row(position: int, end: int, ring: Ring, due_rows: Words, at: int, size: int) -> bool:
    """Whether the row at a position of the log has exactly the triples of one that is due."""
    times, rows, ids, _, _ = ring
    mask = times.size - 1
    for step in range(size):
        slot = (position + step) & mask
        if position + step >= end or (load(ids, slot) == SAME_ROW) != (step > 0):
            return False
        for column in range(1, 4):
            if load(rows, 4 * slot + column) != load(due_rows, 4 * (at + step) + column):
                return False
    behind = position + size
    return behind >= end or load(ids, behind & mask) != SAME_ROW


@kernel
def find_oldest(
    due_rows: Words, at: int, size: int, end: int, ring: Ring, chains: Chains, kept: Kept
) -> int:
    """The oldest retained event with the same triples, taken out of its chain; dead events that
    are met on the way are taken out, too.
    """
    times, rows, _, _, _ = ring
    following, first, last = chains
    mask = times.size - 1
    bucket = find_bucket(due_rows, at, first)
    before, here = NONE, load(first, bucket)
    while here != NONE:
        slot = here & mask
        after = load(following, slot)
        found = is_retained(here, ring, kept) and is_same_row(here, end, ring, due_rows, at, size)
        if found or load(rows, 4 * slot) == 0:
            if before == NONE:
                store(first, bucket, after)
            else:
                store(following, before & mask, after)
            if after == NONE:
                store(last, bucket, before)
        else:
            before = here
        if found:
            return here
        here = after
    return NONE


@kernel
def mark_row(outcomes: Words, at: int, behind: int, outcome: int) -> None:
    for each in range(at, behind):
        store(outcomes, each, outcome)


@kernel
def judge_events(
    due: Due, end: int, ring: Ring, chains: Chains, kept: Kept, outcomes: Words, killed: Words
) -> int:
    """Judge events in order; those that enter are appended at the end of the log.

    ``outcomes`` gets the outcome of each triple, ``killed`` the position that it deleted. The
    holders of ``ring`` are empty while there are no ids, ``chains`` while there was no deletion.
    Returns the new end.
    """
    due_times, due_rows, due_ids, due_arrivals = due
    times, rows, ids, arrivals, holder = ring
    following, first, last = chains
    mask = times.size - 1
    behind = 0
    for at in range(due_times.size):
        if at < behind:  # part of a row that is judged already
            continue
        identity = load(due_ids, at)
        size = measure_row(due_ids, at)
        behind = at + size
        mark_row(killed, at, behind, NONE)
        known = NONE
        if identity != NONE:
            known = load(holder, identity)
            if known != NONE and not (
                is_retained(known, ring, kept) and load(ids, known & mask) == identity
            ):
                known = NONE
        is_same = known != NONE and is_same_row(known, end, ring, due_rows, at, size)
        if load(due_rows, 4 * at) > 0:
            if known != NONE:
                mark_row(outcomes, at, behind, REPEATED if is_same else OTHER_CONTENT)
                continue
            if identity != NONE:
                store(holder, identity, end)
            for each in range(at, behind):
                slot = end & mask
                store(times, slot, load(due_times, each))
                store(ids, slot, load(due_ids, each))
                store(arrivals, slot, load(due_arrivals, each))
                store(rows, 4 * slot, 1)
                for column in range(1, 4):
                    store(rows, 4 * slot + column, load(due_rows, 4 * each + column))
                if first.size > 0:
                    link_event(end, rows, following, first, last)
                end += 1
            mark_row(outcomes, at, behind, ENTERED)
            continue
        if identity == NONE:
            known = find_oldest(due_rows, at, size, end, ring, chains, kept)
        elif known != NONE and not is_same:
            mark_row(outcomes, at, behind, OTHER_CONTENT)
            continue
        if known == NONE:
            mark_row(outcomes, at, behind, NO_EVENT if identity == NONE else NO_ID)
            continue
        for step in range(size):
            store(rows, 4 * ((known + step) & mask), 0)
            store(killed, at + step, known + step)
        mark_row(outcomes, at, behind, DELETED)
    return end
