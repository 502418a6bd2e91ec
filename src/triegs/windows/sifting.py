"""Which events belong to a stream by their times: late events, and strays.

An event is *near* its stream if it is at most ``max_ahead`` after the largest time so far (or the
watermark) and, while there is no watermark, at most as much before the smallest. Any other event
is a *stray*. The events after it decide whether its time is wrong or the stream has moved:

1. `QUORUM` strays near each other are the stream from then on, and are accepted.
2. The next event that is near the stream shows that it has not moved: the strays are quarantined.
3. A stream has a time span once `QUORUM` events agree on it. Until then its first events may turn
   out to be the strays (by 1), and rule 2 does not apply.
4. Before the watermark moves, the larger group wins; of equal groups, the first. Strays ahead of
   the stream that a watermark comes near are accepted. Those behind that it passes are
   quarantined, as are all at the end of the stream.

So one wrong time, first or later, affects only its own event, and a gap in the data affects none.
The outcome of an event depends on the events of its stream in order and on the watermark between
them, never on how they are batched into pushes.
"""

from __future__ import annotations

from triegs.jit.jit import kernel, short_kernel
from triegs.jit.words import Words, load, store
from triegs.maintain.kernels.judging import NO_TIME, NONE
from triegs.maintain.kernels.slides import QUEUE_COLUMNS
from triegs.terms.arrays import Bytes
from triegs.terms.counting import count_rows

#: So many events must agree. Fewer may share one fault; more would delay the decision.
QUORUM = 3
#: At most this many events are undecided; beyond that the oldest stray is quarantined.
MOST_HELD = 16
# The outcome of an event.
LATE, KEPT, HELD, STRAY = range(4)
# The time span of a stream, as an array: least and largest time, and how many events agree.
LOW, HIGH, AGREED = range(3)
NO_SPAN = (NO_TIME, NO_TIME, 0)
# A few events as words: their number, the watermark or `NO_TIME`, ``max_ahead``, the epoch, the
# number of the first one in the stream, the slots of the queue with events, whether they have signs
# and ids of their own; then room for `MOST_FEW` rows, then for their times, signs and ids.
(
    FEW_COUNT, FEW_BOUND, FEW_AHEAD, FEW_EPOCH, FEW_FIRST, FEW_BEGIN, FEW_END, FEW_IS_MARKED,
    FEW_ROWS,
) = range(9)  # fmt: skip
MOST_FEW = 64
FEW_TIMES = FEW_ROWS + 4 * MOST_FEW
FEW_SIGNS = FEW_TIMES + MOST_FEW
FEW_IDS = FEW_SIGNS + MOST_FEW
FEW_WORDS = FEW_IDS + MOST_FEW
# The columns of undecided events. The first events of a stream without a sure span are included.
TIME, EVENT, IS_FIRST = range(3)


@kernel
def is_near(time: int, bound: int, span: Words, max_ahead: int) -> bool:
    highest = max(bound, span[HIGH])
    if highest == NO_TIME or time > highest + max_ahead:
        return False
    return bound != NO_TIME or time >= span[LOW] - max_ahead


@kernel
def extend_span(time: int, span: Words) -> None:
    span[LOW] = time if span[LOW] == NO_TIME else min(span[LOW], time)
    span[HIGH] = max(span[HIGH], time)


@kernel
def decide(at: int, outcome: int, outcomes: Words, earlier: Words) -> None:
    """Note the outcome of an event of this batch or, with a negative index, of an earlier one."""
    if at >= 0:
        outcomes[at] = outcome
    else:
        earlier[-at - 1] = outcome


@kernel
def mark_group(seed: int, held: Words, count: int, max_ahead: int, marks: Words) -> int:
    """Mark the strays near one of them, directly or through others; returns their number."""
    low = high = held[seed, TIME]
    for at in range(count):
        marks[at] = 0
    size = 0
    is_growing = True
    while is_growing:
        is_growing = False
        for at in range(count):
            time = held[at, TIME]
            if marks[at] or held[at, IS_FIRST]:
                continue
            if low - max_ahead <= time <= high + max_ahead:
                marks[at] = 1
                size += 1
                low, high = min(low, time), max(high, time)
                is_growing = True
    return size


@kernel
def move_span(
    held: Words, count: int, marks: Words, span: Words, outcomes: Words, earlier: Words
) -> None:
    """The marked strays are the stream; the other undecided events are stray."""
    if span[AGREED] < QUORUM:
        span[LOW] = span[HIGH] = NO_TIME
    for at in range(count):
        decide(held[at, EVENT], KEPT if marks[at] else STRAY, outcomes, earlier)
        if marks[at]:
            extend_span(held[at, TIME], span)
    span[AGREED] = QUORUM


@kernel
def move_entry(held: Words, source: int, target: int) -> None:
    for column in range(3):
        held[target, column] = held[source, column]


@kernel
def drop_strays(held: Words, count: int, most: int, outcomes: Words, earlier: Words) -> int:
    """Quarantine up to `most` strays, oldest first; returns how many events stay undecided."""
    left = 0
    for at in range(count):
        if most > 0 and not held[at, IS_FIRST]:
            decide(held[at, EVENT], STRAY, outcomes, earlier)
            most -= 1
        else:
            move_entry(held, at, left)
            left += 1
    return left


@short_kernel
def admit_events(
    times: Words, rows: Words, ids: Words, limits: tuple[int, int], span: Words
) -> bool:
    """Whether all events are simple: in order of time, near a stream whose span is sure, after the
    watermark, insertions, and without ids. Only then the span follows them.

    So the usual push is one pass; `sift_events` would keep all of these, too.
    """
    if not are_near(times, limits[0], limits[1], span):
        return False
    for at in range(len(times)):
        if ids[at] != NONE or rows[at, 0] < 0:
            return False
    follow_times(times, span)
    return True


@kernel
def are_near(times: Words, bound: int, max_ahead: int, span: Words) -> bool:
    """Whether events are in order of time, after the watermark, and near a stream whose span is
    sure.
    """
    if len(times) == 0 or (bound == NO_TIME and span[AGREED] < QUORUM):
        return False
    last, highest = times[0], max(bound, span[HIGH])
    if last <= bound or (bound == NO_TIME and last < span[LOW] - max_ahead):
        return False
    for at in range(len(times)):
        time = times[at]
        if time < last or time > highest + max_ahead:
            return False
        last = time
        highest = max(highest, time)
    return True


@kernel
def follow_times(times: Words, span: Words) -> None:
    """The span of a stream includes these times, which are in order."""
    extend_span(times[0], span)
    extend_span(times[-1], span)
    span[AGREED] = QUORUM


@short_kernel
def take_few(
    few: Words, span: Words, queue: Words, counts: Words, births: Words, stamps: Words,
    states: Bytes, limbo: Words, meta: Words,
) -> bool:  # fmt: skip
    """Take in a few events: count their terms, and add them to the queue. Without a mark all are
    insertions without ids. False, with nothing changed, if their times are not all simple (see
    `admit_events`), do not follow the queue, or find no room there.
    """
    count, begin, end = load(few, FEW_COUNT), load(few, FEW_BEGIN), load(few, FEW_END)
    room = len(queue) // QUEUE_COLUMNS
    times = few[FEW_TIMES : FEW_TIMES + count]
    if end + count > room or (end > begin and load(queue, end - 1) > times[0]):
        return False
    if not are_near(times, load(few, FEW_BOUND), load(few, FEW_AHEAD), span):
        return False
    rows = few[FEW_ROWS : FEW_ROWS + 4 * count]
    epoch = load(few, FEW_EPOCH)
    if count_rows(rows, epoch, counts, births, stamps, states, limbo, meta) >= 0:
        return False
    follow_times(times, span)
    for at in range(count):
        store(queue, end + at, times[at])
        store(queue, room + end + at, load(few, FEW_FIRST) + at)
        store(queue, 2 * room + end + at, NONE)
        for column in range(4):
            store(queue, 3 * room + 4 * (end + at) + column, rows[4 * at + column])
    if load(few, FEW_IS_MARKED) != 0:
        for at in range(count):
            store(queue, 2 * room + end + at, load(few, FEW_IDS + at))
            store(queue, 3 * room + 4 * (end + at), load(few, FEW_SIGNS + at))
    return True


@short_kernel
def sift_events(
    times: Words, limits: tuple[int, int], span: Words, held: Words, count: int,
    outcomes: Words, earlier: Words, marks: Words,
) -> int:  # fmt: skip
    """Judge events in order of arrival. ``outcomes`` gets the outcome of each, ``earlier`` those of
    events that were undecided before. ``limits`` are the watermark, or `NO_TIME`, and
    ``max_ahead``. Returns how many are undecided now; those are in ``held``. ``marks`` is scratch.
    """
    bound, max_ahead = limits
    for at in range(len(times)):
        time = times[at]
        if time <= bound:
            outcomes[at] = LATE
            continue
        is_begun = bound != NO_TIME or span[HIGH] != NO_TIME
        is_kept = not is_begun or is_near(time, bound, span, max_ahead)
        outcomes[at] = KEPT if is_kept else HELD
        if is_kept:
            extend_span(time, span)
            span[AGREED] += 1 if bound == NO_TIME else QUORUM
            if span[AGREED] >= QUORUM:
                for other in range(count):
                    outcome = KEPT if held[other, IS_FIRST] else STRAY
                    decide(held[other, EVENT], outcome, outcomes, earlier)
                count, span[AGREED] = 0, QUORUM
                continue
        if count == MOST_HELD:
            count = drop_strays(held, count, 1, outcomes, earlier)
        held[count, TIME], held[count, EVENT], held[count, IS_FIRST] = time, at, is_kept
        count += 1
        if not is_kept and mark_group(count - 1, held, count, max_ahead, marks) >= QUORUM:
            move_span(held, count, marks, span, outcomes, earlier)
            count = 0
    return count


@short_kernel
def settle_events(
    bound: int, max_ahead: int, is_end: bool, span: Words, held: Words, count: int,
    earlier: Words, marks: Words,
) -> int:  # fmt: skip
    """Decide the span of a stream as its watermark, ``bound``, moves. The other parameters are as
    for `sift_events`; all events are earlier ones.
    """
    if span[HIGH] != NO_TIME and span[AGREED] < QUORUM:
        largest, size = -1, span[AGREED]
        for at in range(count):
            if not held[at, IS_FIRST]:
                found = mark_group(at, held, count, max_ahead, marks)
                if found > size:
                    largest, size = at, found
        if largest >= 0:
            mark_group(largest, held, count, max_ahead, marks)
            move_span(held, count, marks, span, earlier, earlier)
            return 0
        span[AGREED] = QUORUM
    left = 0
    low = span[LOW]
    for at in range(count):
        time = held[at, TIME]
        is_behind = low != NO_TIME and time < low - max_ahead
        if held[at, IS_FIRST] or (not is_behind and is_near(time, bound, span, max_ahead)):
            decide(held[at, EVENT], KEPT, earlier, earlier)
            extend_span(time, span)
            span[AGREED] = QUORUM  # it cannot be revoked, so neither can the span
        elif is_end or (bound != NO_TIME and time <= bound):
            decide(held[at, EVENT], STRAY, earlier, earlier)
        else:
            move_entry(held, at, left)
            left += 1
    return left
