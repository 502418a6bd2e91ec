"""One stream: pending events, the log of judged ones, and the windows over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.kernels.judging import (
    DELETED,
    ENTERED,
    NO_EVENT,
    NO_ID,
    NO_TIME,
    NONE,
    OTHER_CONTENT,
    REPEATED,
    SAME_ROW,
)
from triegs.maintain.standing import Refused
from triegs.reasons import Reason
from triegs.terms.dictionary import Dictionary
from triegs.windows.cursor import WindowCursor
from triegs.windows.encoding import Events
from triegs.windows.log import Log
from triegs.windows.pending import Pending, Timed
from triegs.windows.sifting import (
    EVENT,
    HIGH,
    LATE,
    LOW,
    MOST_HELD,
    NO_SPAN,
    STRAY,
    admit_events,
    settle_events,
    sift_events,
)

REASONS = {
    NO_EVENT: Reason.NO_EVENT,
    NO_ID: Reason.NO_ID,
    OTHER_CONTENT: Reason.OTHER_CONTENT,
}
NEVER = 1 << 62  # a position that no event has, a time after all


class Sifted(NamedTuple):
    """The outcome of a push: the number of its first event, how many were accepted, and the numbers
    of the others; strays may be of earlier pushes.
    """

    first: int
    accepted: int
    late: Words
    strays: list[int]


class Stream:
    """What was pushed under one name.

    `watermark` is the stream's own; `judged` is the time up to which events are in the log. `span`
    and `held` are those of `triegs.windows.sifting`: undecided events are pending like accepted
    ones, and ``held`` has their numbers in the stream. Every pending or retained event references
    its terms and its id.
    """

    def __init__(
        self, name: str | None, words: Dictionary, identities: Dictionary, epoch: Callable[[], int]
    ) -> None:
        self.name = name
        self.pending = Pending()
        self.log = Log()
        self.cursors: list[WindowCursor] = []
        self.watermark: int | None = None
        self.judged: int | None = None
        self.span = np.array(NO_SPAN, np.int64)
        self.held = np.empty((0, 3), np.int64)
        self.is_closed = False
        self.has_ids = self.has_deletions = False
        #: All ids of events so far are less.
        self.known_ids = 0
        self.arrivals = 0
        self.repeated = 0
        #: The time of an event in the log that awaits an epoch of its own.
        self.unshown: int | None = None
        #: Refused by judging, not yet reported with an epoch.
        self.refused: list[Refused] = []
        #: Found to be stray when the watermark moved, not yet reported.
        self.strays: list[Refused] = []
        self._marks = np.zeros(MOST_HELD, np.int64)
        self._words = words
        self._identities = identities
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        """The number of the newest version."""
        return self._epoch()

    @property
    def is_judged(self) -> bool:
        """Whether its events may repeat or delete others, or have done so."""
        return self.has_ids or self.has_deletions or self.log.has_dead

    @property
    def title(self) -> str:
        return "the stream without a name" if self.name is None else f"the stream {self.name}"

    @property
    def first(self) -> int | None:
        """The least time that was accepted."""
        return None if self.span[LOW] == NO_TIME else int(self.span[LOW])

    @property
    def newest(self) -> int | None:
        """The largest time that was accepted."""
        return None if self.span[HIGH] == NO_TIME else int(self.span[HIGH])

    def add(self, events: Events, bound: int | None, max_ahead: int) -> Sifted:
        """Add events to the pending ones, except late events and strays."""
        first = self.arrivals
        self.arrivals += events.given
        arrivals = np.arange(first, self.arrivals)
        if events.kept is not None:
            arrivals = arrivals[events.kept]
        limits = NO_TIME if bound is None else bound, max_ahead
        timed = Timed(events.times, events.rows, events.ids, arrivals)
        if not len(self.held) and admit_events(
            events.times, events.rows, events.ids, limits, self.span
        ):
            self._words.settle(events.rows, self._epoch())
            self.pending.add(timed)
            return Sifted(first, len(arrivals), arrivals[:0], [])
        # A row is one event, whatever the number of its triples, so it is sifted once.
        is_first = events.ids != SAME_ROW
        is_plain = bool(is_first.all())
        times, numbers = events.times, arrivals
        if not is_plain:
            times, numbers = times[is_first], arrivals[is_first]
        outcomes, earlier, held = np.empty(len(times), np.int64), *self._copy_held()
        left = sift_events(
            times, limits, self.span, held, len(earlier), outcomes, earlier, self._marks
        )
        strays = self._decide(held[:left], earlier, numbers)
        if not is_plain:
            outcomes = outcomes[np.cumsum(is_first) - 1]
        late: Words = arrivals[:0]
        is_out = (outcomes == LATE) | (outcomes == STRAY)
        if is_out.any():
            late = arrivals[(outcomes == LATE) & is_first]
            strays += arrivals[(outcomes == STRAY) & is_first].tolist()
            timed = timed.pick(np.flatnonzero(~is_out))
        if len(timed.times):
            has_deletions = bool((timed.rows[:, 0] < 0).any())
            self.has_deletions |= has_deletions
            self._hold(timed, has_deletions)
            is_ordered = bool((timed.times[:-1] <= timed.times[1:]).all())
            self.pending.add(timed if is_ordered else timed.sort())
        return Sifted(first, int(np.count_nonzero(timed.ids != SAME_ROW)), late, strays)

    def settle(self, bound: int | None, max_ahead: int, is_end: bool) -> int:
        """The watermark moves, or the stream ends: decide what is stray; returns how many are."""
        if not len(self.held):
            return 0
        earlier, held = self._copy_held()
        limit = NO_TIME if bound is None else bound
        left = settle_events(
            limit, max_ahead, is_end, self.span, held, len(earlier), earlier, self._marks
        )
        strays = self._decide(held[:left], earlier, self.held[:0, EVENT], reports=True)
        return len(strays)

    def _copy_held(self) -> tuple[Words, Words]:
        """Room for the outcomes of undecided events; and these events, by negative index."""
        count = len(self.held)
        held = np.empty((MOST_HELD, 3), np.int64)
        held[:count] = self.held
        held[:count, EVENT] = np.arange(-1, -count - 1, -1)
        return np.empty(count, np.int64), held

    def _decide(
        self, left: Words, earlier: Words, arrivals: Words, reports: bool = False
    ) -> list[int]:
        """Store what is still undecided, and remove the strays; returns their numbers."""
        numbers = self.held[:, EVENT]
        strays: list[int] = numbers[earlier == STRAY].tolist()
        if len(left):
            events = left[:, EVENT]
            both = np.concatenate([numbers[::-1], arrivals])
            left[:, EVENT] = both[events + len(numbers)]
        self.held = left.copy()
        if strays:
            removed = self.pending.remove(np.array(strays))
            if reports:
                self.strays += sorted(
                    Refused(number, Reason.TOO_EARLY.describe(self._describe(removed, row)))
                    for row, number in enumerate(removed.arrivals.tolist())
                    if removed.ids[row] != SAME_ROW
                )
            self._release_events(removed, self._epoch())
        return strays

    def _describe(self, events: Timed, row: int) -> str:
        terms = " ".join(map(self._words.decode_one, events.rows[row, 1:].tolist()))
        return f"{terms} at {events.times[row]}"

    def restore(self, start: int, log: Timed, pending: Timed) -> None:
        """Restore retained events, from a position on, and pending ones."""
        for events in (log, pending):
            if len(events.times):
                self._hold(events._replace(rows=mark_live(events.rows)), False)
        self.log.restore(start, log)
        if len(pending.times):
            self.pending.add(pending)

    # Slides

    def judge_until(self, time: int, one: bool, lows: dict[WindowCursor, int]) -> list[int]:
        """Judge all events up to a time, or `one`; returns the positions that were deleted.

        Events are not judged again if the epoch fails, so the due times of windows that events
        drive are set here.
        """
        if one and self.unshown is not None:
            return []
        due = self.pending.take_one() if one else self.pending.take(time)
        for cursor in self.cursors:
            if cursor.is_driven and not cursor.is_by_event and len(due.times):
                cursor.due = int(due.times[-1])
        if one:
            self.unshown = time
        is_whole = not one or self.pending.first_time != time
        final = time if is_whole else time - 1
        self.judged = final if self.judged is None else max(self.judged, final)
        return self._judge(due, lows)

    def _judge(self, due: Timed, lows: dict[WindowCursor, int]) -> list[int]:
        if len(due.times) == 0:
            return []
        if not self.is_judged:
            self.log.append(due)
            return []
        by_time = [lows[cursor] for cursor in self.cursors if not cursor.is_by_event]
        floor = min((each.head for each in self.cursors if each.is_by_event), default=NEVER)
        horizon = min(by_time, default=NEVER)
        outcomes, killed = self.log.judge(due, horizon, floor)
        self.report(due, outcomes)
        self.release_others(due, outcomes)
        found: list[int] = killed[outcomes == DELETED].tolist()
        return found

    def report(self, due: Timed, outcomes: Words) -> None:
        """Count the events that repeat others, and note those that are refused."""
        is_first = due.ids != SAME_ROW
        self.repeated += int(np.count_nonzero((outcomes == REPEATED) & is_first))
        for row in np.flatnonzero((outcomes > REPEATED) & is_first).tolist():
            reason = REASONS[int(outcomes[row])].describe(self._describe(due, row))
            self.refused.append(Refused(int(due.arrivals[row]), reason))

    def release_others(self, due: Timed, outcomes: Words) -> None:
        """Release the terms and ids of judged events that did not enter the log."""
        not_entered = outcomes != ENTERED
        if not_entered.any():
            # As of the epoch in the making: a copy of the newest version still needs the terms.
            self._release_events(due.pick(np.flatnonzero(not_entered)), self._epoch() + 1)

    def refuse(self, first: int, end: int, reason: Reason) -> list[int]:
        """Refuse events of the log, which then count as deleted; returns their positions."""
        found = self.log.kill(first, end)
        slots = found[self.log.mark_firsts(found)] & (len(self.log.times) - 1)
        for slot in slots.tolist():
            terms = " ".join(map(self._words.decode_one, self.log.rows[slot, 1:].tolist()))
            why = reason.describe(f"{terms} at {self.log.times[slot]}")
            self.refused.append(Refused(int(self.log.arrivals[slot]), why))
        positions: list[int] = found.tolist()
        return positions

    def take_back(self, positions: list[int]) -> None:
        """Undo the last `refuse`."""
        found = np.array(positions, np.int64)
        self.log.revive(found)
        events = int(np.count_nonzero(self.log.mark_firsts(found)))
        del self.refused[len(self.refused) - events :]

    def retire(self) -> None:
        """Drop the events that no window contains or will contain."""
        until = min((cursor.head for cursor in self.cursors), default=self.log.end)
        if until > self.log.start:
            self._release(*self.log.retire(until), self._epoch())

    def clear(self) -> None:
        """Drop all events."""
        self._release_events(self.pending.take(NEVER), self._epoch())
        self._release(*self.log.retire(self.log.end), self._epoch())

    # Terms

    def _hold(self, events: Timed, has_deletions: bool) -> None:
        rows = np.abs(events.rows) if has_deletions else events.rows
        self._words.settle(rows, self._epoch())
        if len(events.ids) and (events.ids != NONE).any():
            self.has_ids = True
            self.known_ids = max(self.known_ids, int(events.ids.max()) + 1)
            self._identities.acquire(events.ids[events.ids >= 0], self._epoch())

    def hold_marks(self, ids: Words, *, has_deletions: bool) -> None:
        """Hold the ids of events whose terms are held."""
        self.has_deletions |= has_deletions
        if named := ids[ids >= 0].tolist():
            self.has_ids = True
            self.known_ids = max(self.known_ids, max(named) + 1)
            self._identities.acquire(named, self._epoch())

    def _release_events(self, events: Timed, epoch: int) -> None:
        rows = events.rows.copy()
        rows[:, 0] = -1
        self._release(rows, events.ids, epoch)

    def _release(self, rows: Words, ids: Words, epoch: int) -> None:
        self._words.settle(rows, epoch)
        if self.has_ids:
            self.release_ids(ids, epoch)

    def release_ids(self, ids: Words, epoch: int | None = None) -> None:
        """Release the ids of events, those of them that have one."""
        named = ids[ids >= 0]
        if len(named):
            self._identities.release(named, self._epoch() if epoch is None else epoch)


def mark_live(rows: Words) -> Words:
    """The rows with change 1: dead events and deletions reference their terms, too."""
    found = rows.copy()
    found[:, 0] = 1
    return found
