"""Kernels over a log of events: judge what is due, index what deletions look up.

A log is a ring: the event at position p, counted from the first event ever, is in slot
``p & mask``. Positions grow with (time, arrival). Two indexes find an event again: ``holder[id]``
is the position of the last event with that id; ``first`` and ``last`` are the ends of a chain of
ascending positions for each hash bucket of triples, and ``following`` has, by slot, the next
position of its chain. They exist only once a stream has ids, or deletions.

An event may be a table row of several triples: each has a position, in sequence, and all but the
first have the id `SAME_ROW`. A row enters, repeats and dies as a whole.

Kernels take related arrays as plain tuples: a call with a NamedTuple takes five microseconds more.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from triegs.jit.jit import kernel, short_kernel
from triegs.terms.jit import wrapping

Words: TypeAlias = NDArray[np.int64]
Word: TypeAlias = int

#: Of the events that are due: times, rows ``(1 or -1, s, p, o)``, ids.
Due: TypeAlias = tuple[Words, Words, Words]
#: The columns of a log by slot: times, rows ``(1 or 0 if dead, s, p, o)``, ids; and holders by id.
Ring: TypeAlias = tuple[Words, Words, Words, Words]
#: Following positions by slot; the first and last position by bucket.
Chains: TypeAlias = tuple[Words, Words, Words]
#: What is retained: the first position of the log, the time horizon, the least position. An event
#: is retained if it is later than the horizon, or at or behind the least position.
Kept: TypeAlias = tuple[Word, Word, Word]

NONE = -1
SAME_ROW = -2
NO_TIME = -(1 << 63)
# How the time at which an event leaves its window is found.
LEAVES_BY_POSITION, LEAVES_NEVER, LEAVES_AT_ONCE, LEAVES_BY_SLIDE = range(4)
# The outcome of judging an event.
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
    """Append an event to its chain."""
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
    """Rebuild the chains of a log; ``first`` and ``last`` are empty."""
    for position in range(start, end):
        link_event(position, rows, following, first, last)


@kernel
def unlink_oldest(
    start: Word, end: Word, rows: Words, following: Words, first: Words, last: Words
) -> None:
    """Remove the oldest events of a log from their chains, where they come first."""
    mask = len(following) - 1
    for position in range(start, end):
        bucket = find_bucket(rows, position & mask, first)
        if first[bucket] == position:
            first[bucket] = following[position & mask]
            if first[bucket] == NONE:
                last[bucket] = NONE


@kernel
def is_retained(position: Word, ring: Ring, kept: Kept) -> bool:
    """Whether an event is live, and some window contains it or will."""
    times, rows, _, _ = ring
    start, horizon, floor = kept
    if position < start:
        return False
    slot = position & (len(times) - 1)
    return rows[slot, 0] == 1 and (times[slot] > horizon or position >= floor)


@kernel
def measure_row(due_ids: Words, at: Word) -> Word:
    """The number of triples of the row that begins at an index."""
    end = at + 1
    while end < len(due_ids) and due_ids[end] == SAME_ROW:
        end += 1
    return end - at


@kernel
def is_same_row(
    position: Word, end: Word, ring: Ring, due_rows: Words, at: Word, size: Word
) -> bool:
    """Whether the row at a position of the log has exactly the triples of one that is due."""
    _, rows, ids, _ = ring
    mask = len(rows) - 1
    for step in range(size):
        slot = (position + step) & mask
        if position + step >= end or (ids[slot] == SAME_ROW) != (step > 0):
            return False
        for column in range(1, 4):
            if rows[slot, column] != due_rows[at + step, column]:
                return False
    behind = position + size
    return behind >= end or ids[behind & mask] != SAME_ROW


@kernel
def find_oldest(
    due_rows: Words, at: Word, size: Word, end: Word, ring: Ring, chains: Chains, kept: Kept
) -> Word:
    """The oldest retained event with the same triples, taken out of its chain; dead events that
    are met on the way are taken out, too.
    """
    times, rows, _, _ = ring
    following, first, last = chains
    mask = len(times) - 1
    s, p, o = due_rows[at, 1], due_rows[at, 2], due_rows[at, 3]
    bucket = mix_words(s, p, o) & (len(first) - 1)
    before, here = NONE, first[bucket]
    while here != NONE:
        slot = here & mask
        after = following[slot]
        found = (
            rows[slot, 1] == s
            and rows[slot, 2] == p
            and rows[slot, 3] == o
            and is_retained(here, ring, kept)
            and is_same_row(here, end, ring, due_rows, at, size)
        )
        if found or rows[slot, 0] == 0:
            if before == NONE:
                first[bucket] = after
            else:
                following[before & mask] = after
            if after == NONE:
                last[bucket] = before
        else:
            before = here
        if found:
            return here  # type: ignore[no-any-return]
        here = after
    return NONE


@kernel
def judge_events(
    due: Due, end: Word, ring: Ring, chains: Chains, kept: Kept, outcomes: Words, killed: Words
) -> Word:
    """Judge events in order; those that enter are appended at the end of the log.

    ``outcomes`` gets the outcome of each triple, ``killed`` the position that it deleted. The
    holders of ``ring`` are empty while there are no ids, ``chains`` while there was no deletion.
    Returns the new end.
    """
    due_times, due_rows, due_ids = due
    times, rows, ids, holder = ring
    following, first, last = chains
    mask = len(times) - 1
    behind = 0
    for at in range(len(due_times)):
        if at < behind:  # part of a row that is judged already
            continue
        identity = due_ids[at]
        size = measure_row(due_ids, at)
        behind = at + size
        killed[at:behind] = NONE
        known = NONE
        if identity != NONE:
            known = holder[identity]
            if known != NONE and not (
                is_retained(known, ring, kept) and ids[known & mask] == identity
            ):
                known = NONE
        is_same = known != NONE and is_same_row(known, end, ring, due_rows, at, size)
        if due_rows[at, 0] > 0:
            if known != NONE:
                outcomes[at:behind] = REPEATED if is_same else OTHER_CONTENT
                continue
            if identity != NONE:
                holder[identity] = end
            for each in range(at, behind):
                slot = end & mask
                times[slot] = due_times[each]
                ids[slot] = due_ids[each]
                rows[slot, 0] = 1
                for column in range(1, 4):
                    rows[slot, column] = due_rows[each, column]
                if len(first) > 0:
                    link_event(end, rows, following, first, last)
                end += 1
            outcomes[at:behind] = ENTERED
            continue
        if identity == NONE:
            known = find_oldest(due_rows, at, size, end, ring, chains, kept)
        elif known != NONE and not is_same:
            outcomes[at:behind] = OTHER_CONTENT
            continue
        if known == NONE:
            outcomes[at:behind] = NO_EVENT if identity == NONE else NO_ID
            continue
        for step in range(size):
            rows[(known + step) & mask, 0] = 0
            killed[at + step] = known + step
        outcomes[at:behind] = DELETED
    return end


@kernel
def emit_row(rows: Words, slot: Word, change: Word, labels: Words, out: Words, at: Word) -> bool:
    """Write one row with a label for its predicate; False if it has no label yet."""
    predicate = rows[slot, 2]
    if predicate >= len(labels) or labels[predicate] == NONE:
        return False
    out[at, 0] = change
    out[at, 1] = rows[slot, 1]
    out[at, 2] = labels[predicate]
    out[at, 3] = rows[slot, 3]
    return True


@short_kernel
def emit_slide(
    rows: Words, expired: Word, expired_end: Word, single: Words, arrived: Word, arrived_end: Word,
    labels: Words, out: Words,
) -> Word:  # fmt: skip
    """Write what a slide changes: live rows that expire, single rows to remove, live rows that
    arrive. Returns how many were written, or `NONE` if a predicate has no label yet.
    """
    mask = len(rows) - 1
    at = 0
    for position in range(expired, expired_end):
        if rows[position & mask, 0] != 0:
            if not emit_row(rows, position & mask, -1, labels, out, at):
                return NONE
            at += 1
    for position in single:
        if not emit_row(rows, position & mask, -1, labels, out, at):
            return NONE
        at += 1
    for position in range(arrived, arrived_end):
        if rows[position & mask, 0] != 0:
            if not emit_row(rows, position & mask, 1, labels, out, at):
                return NONE
            at += 1
    return at


@short_kernel
def label_rows(rows: Words, labels: Words, out: Words) -> bool:
    """Write rows with labels for their predicates; False if one has none yet."""
    for row in range(len(rows)):
        predicate = rows[row, 2]
        if predicate >= len(labels) or labels[predicate] == NONE:
            return False
        out[row, 0] = rows[row, 0]
        out[row, 1] = rows[row, 1]
        out[row, 2] = labels[predicate]
        out[row, 3] = rows[row, 3]
    return True


@kernel
def find_leaving(position: Word, time: Word, leaving: Words) -> Word:
    """When an event leaves its window; see `triegs.windows.reasoning.describe_leaving`."""
    kind: Word = leaving[0]
    delay: Word = leaving[1]
    start: Word = leaving[2]
    slide: Word = leaving[3]
    if kind == LEAVES_BY_POSITION:
        return position + 1
    if kind == LEAVES_NEVER:
        return delay
    if kind == LEAVES_AT_ONCE:
        return time + delay
    return start - (start - time - delay) // slide * slide


@short_kernel
def read_slide(
    times: Words, rows: Words, expired: Word, expired_end: Word, single: Words, arrived: Word,
    arrived_end: Word, leaving: Words, out: Words, leaves: Words,
) -> Word:  # fmt: skip
    """As `emit_slide`, with plain predicates, and for each row that arrives when it leaves."""
    mask = len(rows) - 1
    at = 0
    for position in range(expired, expired_end):
        slot = position & mask
        if rows[slot, 0] != 0:
            out[at] = -1
            out[at + 1] = rows[slot, 1]
            out[at + 2] = rows[slot, 2]
            out[at + 3] = rows[slot, 3]
            at += 4
    for position in single:
        slot = position & mask
        out[at] = -1
        out[at + 1] = rows[slot, 1]
        out[at + 2] = rows[slot, 2]
        out[at + 3] = rows[slot, 3]
        at += 4
    for position in range(arrived, arrived_end):
        slot = position & mask
        if rows[slot, 0] != 0:
            out[at] = 1
            out[at + 1] = rows[slot, 1]
            out[at + 2] = rows[slot, 2]
            out[at + 3] = rows[slot, 3]
            leaves[at >> 2] = find_leaving(position, times[slot], leaving)
            at += 4
    return at


@short_kernel
def count_labels(rows: Words, counts: Words) -> Word:
    """Count the rows of each label; returns how many rows have a label whose count is now 0."""
    for row in range(len(rows)):
        counts[rows[row, 2]] += rows[row, 0]
    empty = 0
    for row in range(len(rows)):
        empty += counts[rows[row, 2]] == 0
    return empty
