"""A slide of windows as the frame of an epoch.

`begin_slide` makes the updates of the epoch: it takes the events that are due from a queue into a
log, finds what expires and what arrives, and writes that as rows with labels. `finish_slide`
follows the published epoch: it counts the rows of each label, retires the events that no window
contains any more, releases their terms and frees some of those that nothing references.

Live insertions without ids need not be judged. Nothing that `begin_slide` writes for them counts
before the epoch is published: the queue keeps its events, and the log ends where it ended. So an
epoch that fails is made again in another way. Events that had to be judged stay judged: `DUE` says
how many are decided.

With rules the caller takes the events and makes the updates, and the epoch finds them `MADE`.

One array of words describes the slide, with the addresses of all others: a call of the kernel takes
a tenth of a microsecond for each array that it is passed, and a slide needs some for each window.
The log is a ring of so many slots: their times, their arrivals, their rows. Its indexes, of a
stream with ids or deletions, are arrays of their own. The queue has the times, arrivals, ids and
rows of its slots. The table of a graph has its labels by predicate, then
their counts.
"""

from __future__ import annotations

from triegs.jit.jit import inlined, kernel, short_kernel
from triegs.jit.words import Words, edit_words, load, store
from triegs.maintain.kernels.judging import DELETED, ENTERED, judge_events, unlink_oldest
from triegs.terms.arrays import LIMBO, NAMED, Arrays
from triegs.terms.counting import enter_limbo, sift_last

# The words of a slide. Of the log: address, slots, the first position that must not be overwritten,
# its start and end. Of the queue: address, slots, the events in it. `IS_ONE`: take one event only;
# otherwise those up to `UNTIL`. `OTHERS`: the least position of windows that do not slide.
# `MOST` updates fit; beyond `LONG` the kernel releases the lock of the interpreter. `STAGE` is how
# far it is. To judge events, if `INDEXES` is not 0: its address, the time after which events are
# retained, and room for the outcomes of those that are due, then for the positions that they
# deleted. Then results:
# events due, and those that entered the log, that deleted one, or that have another outcome;
# updates, the new start of the log, and the dead events before that.
(
    RING, SLOTS, KEPT, START, END, QUEUE, QUEUE_SLOTS, QUEUE_AT, QUEUE_END, IS_ONE, UNTIL, OTHERS,
    CURSORS, GRAPHS, MOST, LONG, STAGE, INDEXES, HORIZON, OUTCOMES, OUTCOME_ROOM, DUE,
    TAKEN, KILLED, ODD, SIZE, NEW_START, DEAD, SLIDE_WORDS,
) = range(29)  # fmt: skip
# The indexes of a log: the addresses of ids by slot, of holders by id, and of chains; the number of
# holders, and of slots and buckets in chains.
IDS, HOLDERS, FOLLOWING, FIRST, LAST_OF, HOLDERS_SIZE, CHAIN_SIZE, INDEX_WORDS = range(8)
# Stages: its events are to be taken; the updates are to be written; both is done.
TAKE, WRITE, MADE = range(3)
# A window: the positions of its first event and of the end, the last time that it includes, the
# time at or before which events have expired, and the number of events that it keeps, or 0; the
# positions of events that it contains although they were deleted, by address and number. Then
# results: the positions after the slide, and the events that fall into a gap between windows.
HEAD, TAIL, EDGE, LOW, LAST, KILLS, KILLS_SIZE, NEW_HEAD, NEW_TAIL, GAPS, CURSOR_WORDS = range(11)
# A graph: the number of its window, the address of its table, the size of each half of that. Then
# results: its first update and their end, and how many of these have a label without rows.
CURSOR, TABLE, TABLE_SIZE, FROM, TO, EMPTY, GRAPH_WORDS = range(7)

RING_COLUMNS, QUEUE_COLUMNS = 6, 7
NO_LABEL = -1
#: Terms that an event may leave without references, and terms that it may bring.
TERMS = 3
FREED_BESIDE = 2  # terms that a call frees beside as many as its updates may add
# Returned instead of the number of updates, with nothing changed.
NEEDS_LABELS, NEEDS_ROOM, TOO_MANY = -(1 << 40) - 1, -(1 << 40) - 2, -(1 << 40) - 3


@kernel
def find_after(times: Words, mask: int, first: int, end: int, time: int) -> int:
    """The first position from `first` on that is later than a time. Cost: the logarithm of what it
    passes.
    """
    if first >= end or load(times, first & mask) > time:
        return first
    low, step = first, 1
    while low + step < end and load(times, (low + step) & mask) <= time:
        low += step
        step += step
    high = min(low + step, end)
    while high - low > 1:
        middle = (low + high) >> 1
        if load(times, middle & mask) <= time:
            low = middle
        else:
            high = middle
    return high


@kernel
def take_due(slide: Words, ring: Words, slots: int) -> int:
    """Copy the events that are due behind the end of the log; returns their number, or
    `NEEDS_ROOM`.
    """
    room, first, end = load(slide, QUEUE_SLOTS), load(slide, QUEUE_AT), load(slide, QUEUE_END)
    queue = edit_words(load(slide, QUEUE), QUEUE_COLUMNS * room)
    last = end
    if load(slide, IS_ONE) != 0:
        last = min(first + 1, end)
    else:
        last = find_after(queue, -1, first, end, load(slide, UNTIL))
    position = load(slide, END)
    if position - load(slide, KEPT) + last - first > slots:
        return NEEDS_ROOM
    for at in range(first, last):
        slot = position & (slots - 1)
        store(ring, slot, load(queue, at))
        store(ring, slots + slot, load(queue, room + at))
        row, source = 2 * slots + 4 * slot, 3 * room + 4 * at
        for column in range(4):
            store(ring, row + column, load(queue, source + column))
        position += 1
    return last - first


@inlined
def move_cursor(slide: Words, at: int, ring: Words, slots: int, end: int) -> None:
    """Find the positions of a window after the slide."""
    head, tail, mask = load(slide, at + HEAD), load(slide, at + TAIL), slots - 1
    if load(slide, at + LAST) != 0:
        store(slide, at + NEW_HEAD, max(head, end - load(slide, at + LAST)))
        store(slide, at + NEW_TAIL, end)
        store(slide, at + GAPS, 0)
        return
    to = find_after(ring, mask, tail, end, load(slide, at + EDGE))
    low = find_after(ring, mask, head, end, load(slide, at + LOW))
    store(slide, at + NEW_HEAD, low)
    store(slide, at + NEW_TAIL, to)
    store(slide, at + GAPS, max(0, min(low, to) - tail))


@inlined
def write_row(ring: Words, row: int, change: int, table: Words, updates: Words, at: int) -> int:
    """Write an event as an update with the label of a graph; returns its end, or `NEEDS_LABELS`."""
    predicate, label = load(ring, row + 2), NO_LABEL
    if predicate < table.size >> 1:
        label = load(table, predicate)
    if label == NO_LABEL:
        return NEEDS_LABELS
    store(updates, at, change)
    store(updates, at + 1, load(ring, row + 1))
    store(updates, at + 2, label)
    store(updates, at + 3, load(ring, row + 3))
    return at + 4


@kernel
def write_rows(
    ring: Words, slots: int, first: int, end: int, change: int, table: Words, updates: Words,
    at: int,
) -> int:  # fmt: skip
    """Write the live events of a range; returns the end of their updates, or `NEEDS_LABELS`."""
    for position in range(first, end):
        row = 2 * slots + 4 * (position & (slots - 1))
        if load(ring, row) != 0:
            at = write_row(ring, row, change, table, updates, at)
            if at < 0:
                break
    return at


@kernel
def write_killed(
    slide: Words, ring: Words, slots: int, cursor: int, table: Words, updates: Words, at: int
) -> int:  # fmt: skip
    """Write the deleted events that a window contained."""
    head, tail = load(slide, cursor + HEAD), load(slide, cursor + TAIL)
    kills = edit_words(load(slide, cursor + KILLS), load(slide, cursor + KILLS_SIZE))
    due, killed = load(slide, DUE), load(slide, KILLED)
    outcomes = edit_words(load(slide, OUTCOMES), due + killed if killed != 0 else 0)
    for index in range(kills.size + killed):
        if index < kills.size:
            position = load(kills, index)
        else:
            position = load(outcomes, due + index - kills.size)
        if head <= position < tail:
            row = 2 * slots + 4 * (position & (slots - 1))
            at = write_row(ring, row, -1, table, updates, at)
            if at < 0:
                break
    return at


@kernel
def judge_due(slide: Words, ring: Words, slots: int) -> int:
    """Judge the events that are due; returns how many enter, or `NEEDS_ROOM`."""
    room, first, end = load(slide, QUEUE_SLOTS), load(slide, QUEUE_AT), load(slide, QUEUE_END)
    queue = edit_words(load(slide, QUEUE), QUEUE_COLUMNS * room)
    last = find_after(queue, -1, first, end, load(slide, UNTIL))
    count, position = last - first, load(slide, END)
    if position - load(slide, KEPT) + count > slots or 2 * count > load(slide, OUTCOME_ROOM):
        return NEEDS_ROOM
    index = edit_words(load(slide, INDEXES), INDEX_WORDS)
    chained = load(index, CHAIN_SIZE)
    outcomes = edit_words(load(slide, OUTCOMES), 2 * count)
    new_end = judge_events(
        (
            queue[first:last], queue[3 * room + 4 * first : 3 * room + 4 * last],
            queue[2 * room + first : 2 * room + last], queue[room + first : room + last],
        ),
        position,
        (
            ring[:slots], ring[2 * slots :], edit_words(load(index, IDS), slots),
            ring[slots : 2 * slots],
            edit_words(load(index, HOLDERS), load(index, HOLDERS_SIZE)),
        ),
        (
            edit_words(load(index, FOLLOWING), chained), edit_words(load(index, FIRST), chained),
            edit_words(load(index, LAST_OF), chained),
        ),
        (load(slide, START), load(slide, HORIZON), 1 << 62),
        outcomes, outcomes[count:],
    )  # fmt: skip
    killed = odd = 0
    for at in range(count):
        outcome = load(outcomes, at)
        if outcome == DELETED:
            store(outcomes, count + killed, load(outcomes, count + at))
            killed += 1
        elif outcome != ENTERED:
            odd += 1
    store(slide, DUE, count)
    store(slide, KILLED, killed)
    store(slide, ODD, odd)
    return new_end - position


@short_kernel
def take_events(slide: Words) -> int:
    """Take the events of a slide and move its windows; returns 0, or `NEEDS_ROOM`."""
    slots = load(slide, SLOTS)
    ring = edit_words(load(slide, RING), RING_COLUMNS * slots)
    if load(slide, INDEXES) != 0:
        taken = judge_due(slide, ring, slots)
    else:
        taken = take_due(slide, ring, slots)
        store(slide, DUE, taken)
    if taken < 0:
        return taken
    store(slide, TAKEN, taken)
    for number in range(load(slide, CURSORS)):
        at = SLIDE_WORDS + CURSOR_WORDS * number
        move_cursor(slide, at, ring, slots, load(slide, END) + taken)
    store(slide, STAGE, WRITE)
    return 0


@kernel
def begin_slide(slide: Words, updates: Words) -> int:
    """Write the updates of a slide; returns their number, or why that is not possible."""
    if load(slide, STAGE) == MADE:
        return load(slide, SIZE)
    if load(slide, STAGE) == TAKE:
        found = take_events(slide)
        if found < 0:
            return found
    slots = load(slide, SLOTS)
    ring = edit_words(load(slide, RING), RING_COLUMNS * slots)
    graphs = SLIDE_WORDS + CURSOR_WORDS * load(slide, CURSORS)
    size = 0
    for number in range(load(slide, GRAPHS)):
        graph = graphs + GRAPH_WORDS * number
        cursor = SLIDE_WORDS + CURSOR_WORDS * load(slide, graph + CURSOR)
        head, tail = load(slide, cursor + HEAD), load(slide, cursor + TAIL)
        new_head, new_tail = load(slide, cursor + NEW_HEAD), load(slide, cursor + NEW_TAIL)
        size += max(0, min(new_head, tail) - head) + max(0, new_tail - max(new_head, tail))
        size += load(slide, KILLED) + load(slide, cursor + KILLS_SIZE)
    store(slide, SIZE, size)
    if size > load(slide, MOST):
        return TOO_MANY
    at = 0
    for number in range(load(slide, GRAPHS)):
        graph = graphs + GRAPH_WORDS * number
        cursor = SLIDE_WORDS + CURSOR_WORDS * load(slide, graph + CURSOR)
        head, tail = load(slide, cursor + HEAD), load(slide, cursor + TAIL)
        new_head, new_tail = load(slide, cursor + NEW_HEAD), load(slide, cursor + NEW_TAIL)
        table = edit_words(load(slide, graph + TABLE), 2 * load(slide, graph + TABLE_SIZE))
        store(slide, graph + FROM, at)
        at = write_rows(ring, slots, head, min(new_head, tail), -1, table, updates, at)
        if at >= 0:
            first = max(new_head, tail)
            at = write_rows(ring, slots, first, new_tail, 1, table, updates, at)
        if at >= 0:
            at = write_killed(slide, ring, slots, cursor, table, updates, at)
        if at < 0:
            return NEEDS_LABELS
        store(slide, graph + TO, at)
    store(slide, SIZE, at >> 2)
    store(slide, STAGE, MADE)
    return at >> 2


@kernel
def count_labels_of(slide: Words, graph: int, updates: Words) -> None:
    """Count the rows of each label of a graph."""
    size = load(slide, graph + TABLE_SIZE)
    table = edit_words(load(slide, graph + TABLE), 2 * size)
    first, end = load(slide, graph + FROM), load(slide, graph + TO)
    for at in range(first, end, 4):
        label = size + load(updates, at + 2)
        store(table, label, load(table, label) + load(updates, at))
    empty = 0
    for at in range(first, end, 4):
        empty += load(table, size + load(updates, at + 2)) == 0
    store(slide, graph + EMPTY, empty)


@inlined
def release_event(
    rows: Words, row: int, version: int, arrays: Arrays, listed: int
) -> tuple[int, int]:
    """Release the terms of an event; returns the ids in limbo then, and an id that had no
    reference, or -1.
    """
    for column in range(1, 4):
        term = load(rows, row + column)
        count = arrays.counts[term] - 1
        if count < 0:
            return listed, term
        arrays.counts[term] = count
        if count == 0:
            arrays.meta[NAMED] -= 1
            listed = enter_limbo(term, version, arrays.stamps, arrays.states, arrays.limbo, listed)
    return listed, -1


@kernel
def retire_events(slide: Words, version: int, arrays: Arrays) -> int:
    """Release the terms of the events that no window contains any more, and of those that did not
    enter the log; returns how many those events are, or the complement of an id that has no
    reference.
    """
    slots, cursors, end = load(slide, SLOTS), load(slide, CURSORS), load(slide, END)
    ring = edit_words(load(slide, RING), RING_COLUMNS * slots)
    until = min(load(slide, OTHERS), end + load(slide, TAKEN))
    for number in range(cursors):
        until = min(until, load(slide, SLIDE_WORDS + CURSOR_WORDS * number + NEW_HEAD))
    start = load(slide, START)
    until = max(start, until)
    store(slide, NEW_START, until)
    listed, bad, dead, left = arrays.meta[LIMBO], -1, 0, 0
    for position in range(start, until):
        row = 2 * slots + 4 * (position & (slots - 1))
        dead += load(ring, row) == 0
        listed, bad = release_event(ring, row, version, arrays, listed)
        if bad >= 0:
            break
    store(slide, DEAD, dead)
    if load(slide, INDEXES) != 0 and bad < 0:
        index = edit_words(load(slide, INDEXES), INDEX_WORDS)
        chained = load(index, CHAIN_SIZE)
        if chained != 0:
            unlink_oldest(
                start, until, ring[2 * slots :], edit_words(load(index, FOLLOWING), chained),
                edit_words(load(index, FIRST), chained), edit_words(load(index, LAST_OF), chained),
            )  # fmt: skip
        room, first, due = load(slide, QUEUE_SLOTS), load(slide, QUEUE_AT), load(slide, DUE)
        queue = edit_words(load(slide, QUEUE), QUEUE_COLUMNS * room)
        outcomes = edit_words(load(slide, OUTCOMES), due)
        for at in range(due):
            if load(outcomes, at) != ENTERED:
                left += 1
                listed, bad = release_event(
                    queue, 3 * room + 4 * (first + at), version, arrays, listed
                )
                if bad >= 0:
                    break
    arrays.meta[LIMBO] = listed
    return -1 - bad if bad >= 0 else until - start + left


@kernel
def finish_slide(
    slide: Words, updates: Words, version: int, holds: Words, kept: Words, listed: int,
    arrays: Arrays,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Follow the published epoch; returns the results of `sift_last`, and an id that was released
    too often, or -1. Up to `listed` ids stay in limbo.
    """
    graphs = SLIDE_WORDS + CURSOR_WORDS * load(slide, CURSORS)
    for number in range(load(slide, GRAPHS)):
        count_labels_of(slide, graphs + GRAPH_WORDS * number, updates)
    retired = retire_events(slide, version, arrays)
    if retired < 0:
        return 0, 0, 0, -1 - retired
    freed, cached, held = 0, 0, 0
    if arrays.meta[LIMBO] > listed:
        # A few more than this slide and its pushes have added: limbo stays short, and no slide
        # pays for many others.
        most = min(TERMS * (retired + load(slide, TAKEN)) + FREED_BESIDE, kept.size // 2)
        freed, cached, held = sift_last(most, version, holds, 2, kept, arrays)
    return freed, cached, held, -1
