"""Which events belong to a stream by their times: what is late, and what is far from the rest.

An event is *near* its stream if it is at most ``max_ahead`` after the largest time so far (or the
watermark), and, while there is no watermark, at most as much before the smallest. One that is not
near is a *stray*. Whether its time is wrong or the stream has moved, the events after it show:

1. `QUORUM` strays near each other are the stream from then on, and are taken.
2. The next event that is near the stream shows that it has not moved: the strays are quarantined.
3. A stream has a place once `QUORUM` events agree on it. Until then its first events may turn out
   to be the strays (by 1), and no event does what 2 says.
4. Who moves the watermark asks before that: the larger group wins, the first one where two are
   equal. A watermark comes near strays ahead of the stream, and they are taken. It passes those
   behind, and they are quarantined, as all are at the end of the stream.

So one bad time, first or later, costs itself only, and a gap in the data costs nothing. What
becomes of an event depends on the events of its stream in their order and on the watermark between
them, never on how they are cut into pushes.
"""

from __future__ import annotations

from triegs.kernels.jit import brief, kernel
from triegs.windows.judging import NO_TIME, Word, Words

#: So many events that agree make a place. Fewer may share one fault; more would wait for long.
QUORUM = 3
#: So many events are undecided at a time; of more the oldest stray goes.
MOST_HELD = 16
# What became of an event.
LATE, KEPT, HELD, STRAY = range(4)
# The place of a stream, as an array: its times, and how many agree on it.
LOW, HIGH, AGREED = range(3)
NOWHERE = (NO_TIME, NO_TIME, 0)
# The columns of what is undecided: an event of a stream without a sure place is there as well.
TIME, PLACE, IS_FIRST = range(3)


@kernel
def is_near(time: Word, bound: Word, place: Words, max_ahead: Word) -> bool:
    highest = max(bound, place[HIGH])
    if highest == NO_TIME or time > highest + max_ahead:
        return False
    return bound != NO_TIME or time >= place[LOW] - max_ahead


@kernel
def extend_place(time: Word, place: Words) -> None:
    place[LOW] = time if place[LOW] == NO_TIME else min(place[LOW], time)
    place[HIGH] = max(place[HIGH], time)


@kernel
def decide(at: Word, outcome: Word, outcomes: Words, earlier: Words) -> None:
    """Note what became of an event: one of this batch, or with a negative place an earlier one."""
    if at >= 0:
        outcomes[at] = outcome
    else:
        earlier[-at - 1] = outcome


@kernel
def mark_group(seed: Word, held: Words, count: Word, max_ahead: Word, marks: Words) -> Word:
    """Mark the strays that are near one of them, directly or by way of others; their number."""
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
def move_place(
    held: Words, count: Word, marks: Words, place: Words, outcomes: Words, earlier: Words
) -> None:
    """The stream is where the marked strays are; what else was undecided is astray."""
    if place[AGREED] < QUORUM:
        place[LOW] = place[HIGH] = NO_TIME
    for at in range(count):
        decide(held[at, PLACE], KEPT if marks[at] else STRAY, outcomes, earlier)
        if marks[at]:
            extend_place(held[at, TIME], place)
    place[AGREED] = QUORUM


@kernel
def move_entry(held: Words, source: Word, target: Word) -> None:
    for column in range(3):
        held[target, column] = held[source, column]


@kernel
def drop_strays(held: Words, count: Word, most: Word, outcomes: Words, earlier: Words) -> Word:
    """Send up to so many strays astray, the oldest first; how many events are still undecided."""
    left = 0
    for at in range(count):
        if most > 0 and not held[at, IS_FIRST]:
            decide(held[at, PLACE], STRAY, outcomes, earlier)
            most -= 1
        else:
            move_entry(held, at, left)
            left += 1
    return left


@brief
def sift_events(
    times: Words, bound: Word, max_ahead: Word, place: Words, held: Words, count: Word,
    outcomes: Words, earlier: Words, marks: Words,
) -> Word:  # fmt: skip
    """Judge events in the order of arrival: ``outcomes`` says what became of each, and ``earlier``
    of those that were undecided before. ``bound`` is the watermark, or `NO_TIME`. Returns how many
    are undecided now; those are in ``held``. ``marks`` is room for as many.
    """
    for at in range(len(times)):
        time = times[at]
        if time <= bound:
            outcomes[at] = LATE
            continue
        is_begun = bound != NO_TIME or place[HIGH] != NO_TIME
        is_kept = not is_begun or is_near(time, bound, place, max_ahead)
        outcomes[at] = KEPT if is_kept else HELD
        if is_kept:
            extend_place(time, place)
            place[AGREED] += 1 if bound == NO_TIME else QUORUM
            if place[AGREED] >= QUORUM:
                for other in range(count):
                    outcome = KEPT if held[other, IS_FIRST] else STRAY
                    decide(held[other, PLACE], outcome, outcomes, earlier)
                count, place[AGREED] = 0, QUORUM
                continue
        if count == MOST_HELD:
            count = drop_strays(held, count, 1, outcomes, earlier)
        held[count, TIME], held[count, PLACE], held[count, IS_FIRST] = time, at, is_kept
        count += 1
        if not is_kept and mark_group(count - 1, held, count, max_ahead, marks) >= QUORUM:
            move_place(held, count, marks, place, outcomes, earlier)
            count = 0
    return count


@brief
def settle_events(
    bound: Word, max_ahead: Word, is_end: bool, place: Words, held: Words, count: Word,
    earlier: Words, marks: Words,
) -> Word:  # fmt: skip
    """Let a stream have a place, as its watermark moves: ``bound`` is that watermark. The rest is
    as for `sift_events`; all events are earlier ones.
    """
    if place[HIGH] != NO_TIME and place[AGREED] < QUORUM:
        largest, size = -1, place[AGREED]
        for at in range(count):
            if not held[at, IS_FIRST]:
                found = mark_group(at, held, count, max_ahead, marks)
                if found > size:
                    largest, size = at, found
        if largest >= 0:
            mark_group(largest, held, count, max_ahead, marks)
            move_place(held, count, marks, place, earlier, earlier)
            return 0
        place[AGREED] = QUORUM
    left = 0
    low = place[LOW]
    for at in range(count):
        time = held[at, TIME]
        is_behind = low != NO_TIME and time < low - max_ahead
        if held[at, IS_FIRST] or (not is_behind and is_near(time, bound, place, max_ahead)):
            decide(held[at, PLACE], KEPT, earlier, earlier)
            extend_place(time, place)
        elif is_end or (bound != NO_TIME and time <= bound):
            decide(held[at, PLACE], STRAY, earlier, earlier)
        else:
            move_entry(held, at, left)
            left += 1
    return left
