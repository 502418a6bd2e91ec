"""One stream: the events that wait, the log of those that were judged, and its windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from triegs.dictionary import Dictionary
from triegs.maintain.standing import Refused
from triegs.reasons import Reason
from triegs.windows.encoding import Events
from triegs.windows.feed import Feed
from triegs.windows.judging import (
    DELETED,
    ENTERED,
    NO_EVENT,
    NO_ID,
    NO_TIME,
    NONE,
    OTHER_CONTENT,
    REPEATED,
    SAME_ROW,
    Words,
)
from triegs.windows.log import Log
from triegs.windows.pending import Pending, Timed
from triegs.windows.sifting import (
    HIGH,
    LATE,
    LOW,
    MOST_HELD,
    NOWHERE,
    PLACE,
    STRAY,
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
    """What became of a push: the number of its first event, how many were accepted, and the
    numbers of those that were not; those astray may be of earlier pushes.
    """

    first: int
    accepted: int
    late: Words
    astray: list[int]


class Stream:
    """What was pushed under one name.

    `watermark` is the stream's own; `judged` is the time up to which events are in the log.
    `place` and `held` are those of `triegs.windows.sifting`; what is undecided waits as if it were
    accepted, and ``held`` has its number in the stream. Every event that waits or is retained holds
    its terms, and its id.
    """

    def __init__(
        self, name: str | None, words: Dictionary, identities: Dictionary, epoch: Callable[[], int]
    ) -> None:
        self.name = name
        self.pending = Pending()
        self.log = Log()
        self.feeds: list[Feed] = []
        self.watermark: int | None = None
        self.judged: int | None = None
        self.place = np.array(NOWHERE, np.int64)
        self.held = np.empty((0, 3), np.int64)
        self.is_closed = False
        self.has_ids = self.has_deletions = False
        self.arrivals = 0
        self.repeated = 0
        #: The time of an event that is in the log and not yet in an epoch of its own.
        self.unshown: int | None = None
        #: Refused by judging, and not yet reported with an epoch.
        self.refused: list[Refused] = []
        #: Found to be astray when the watermark moved, and not yet reported.
        self.astray: list[Refused] = []
        self._marks = np.zeros(MOST_HELD, np.int64)
        self._words = words
        self._identities = identities
        self._epoch = epoch

    @property
    def title(self) -> str:
        return "the stream without a name" if self.name is None else f"the stream {self.name}"

    @property
    def first(self) -> int | None:
        """The least time that was accepted."""
        return None if self.place[LOW] == NO_TIME else int(self.place[LOW])

    @property
    def newest(self) -> int | None:
        """The largest time that was accepted."""
        return None if self.place[HIGH] == NO_TIME else int(self.place[HIGH])

    def add(self, events: Events, bound: int | None, max_ahead: int) -> Sifted:
        """Let events wait for their slide, but those that are late or astray."""
        first = self.arrivals
        self.arrivals += events.given
        arrivals = np.arange(first, self.arrivals)
        if events.places is not None:
            arrivals = arrivals[events.places]
        # A row is one event, whatever the number of its triples: it is sifted once.
        is_first = events.ids != SAME_ROW
        is_plain = bool(is_first.all())
        times, numbers = events.times, arrivals
        if not is_plain:
            times, numbers = times[is_first], arrivals[is_first]
        outcomes, earlier, held = np.empty(len(times), np.int64), *self._copy_held()
        limit = NO_TIME if bound is None else bound
        left = sift_events(
            times, limit, max_ahead, self.place, held, len(earlier), outcomes, earlier, self._marks
        )
        astray = self._decide(held[:left], earlier, numbers)
        if not is_plain:
            outcomes = outcomes[np.cumsum(is_first) - 1]
        timed = Timed(events.times, events.rows, events.ids, arrivals)
        late: Words = arrivals[:0]
        is_out = (outcomes == LATE) | (outcomes == STRAY)
        if is_out.any():
            late = arrivals[(outcomes == LATE) & is_first]
            astray += arrivals[(outcomes == STRAY) & is_first].tolist()
            timed = timed.pick(np.flatnonzero(~is_out))
        if len(timed.times):
            has_deletions = bool((timed.rows[:, 0] < 0).any())
            self.has_deletions |= has_deletions
            self._hold(timed, has_deletions)
            is_ordered = bool((timed.times[:-1] <= timed.times[1:]).all())
            self.pending.add(timed if is_ordered else timed.sort())
        return Sifted(first, int(np.count_nonzero(timed.ids != SAME_ROW)), late, astray)

    def settle(self, bound: int | None, max_ahead: int, is_end: bool) -> int:
        """The watermark moves, or the stream ends: decide what can be; how many are astray."""
        if not len(self.held):
            return 0
        earlier, held = self._copy_held()
        limit = NO_TIME if bound is None else bound
        left = settle_events(
            limit, max_ahead, is_end, self.place, held, len(earlier), earlier, self._marks
        )
        numbers = self._decide(held[:left], earlier, self.held[:0, PLACE], is_told=True)
        return len(numbers)

    def _copy_held(self) -> tuple[Words, Words]:
        """Room for what becomes of events that are undecided; and these, by negative places."""
        count = len(self.held)
        held = np.empty((MOST_HELD, 3), np.int64)
        held[:count] = self.held
        held[:count, PLACE] = np.arange(-1, -count - 1, -1)
        return np.empty(count, np.int64), held

    def _decide(
        self, left: Words, earlier: Words, arrivals: Words, is_told: bool = False
    ) -> list[int]:
        """Take notice of what is still undecided, and let go of what is astray; its numbers."""
        numbers = self.held[:, PLACE]
        astray: list[int] = numbers[earlier == STRAY].tolist()
        if len(left):
            places = left[:, PLACE]
            both = np.concatenate([numbers[::-1], arrivals])
            left[:, PLACE] = both[places + len(numbers)]
        self.held = left.copy()
        if astray:
            gone = self.pending.remove(np.array(astray))
            if is_told:
                self.astray += sorted(
                    Refused(number, Reason.TOO_EARLY.describe(self._describe(gone, place)))
                    for place, number in enumerate(gone.arrivals.tolist())
                    if gone.ids[place] != SAME_ROW
                )
            self._let_go(gone, self._epoch())
        return astray

    def _describe(self, events: Timed, place: int) -> str:
        terms = " ".join(map(self._words.decode_one, events.rows[place, 1:].tolist()))
        return f"{terms} at {events.times[place]}"

    def restore(self, start: int, log: Timed, pending: Timed) -> None:
        """Take events as they were retained, from a position on, and as they waited."""
        for events in (log, pending):
            if len(events.times):
                self._hold(events._replace(rows=mark_live(events.rows)), False)
        self.log.restore(start, log)
        if len(pending.times):
            self.pending.add(pending)

    # Slides

    def judge_until(self, time: int, one: bool, lows: dict[Feed, int]) -> list[int]:
        """Judge all events up to a time, or `one`; returns the positions that were deleted.

        What is judged is not judged again if the epoch fails: so the windows that events drive are
        told here when they are due.
        """
        if one and self.unshown is not None:
            return []
        due = self.pending.take_one() if one else self.pending.take(time)
        for feed in self.feeds:
            if feed.is_driven and not feed.is_by_event and len(due.times):
                feed.due = int(due.times[-1])
        if one:
            self.unshown = time
        is_whole = not one or self.pending.first_time != time
        final = time if is_whole else time - 1
        self.judged = final if self.judged is None else max(self.judged, final)
        return self._judge(due, lows)

    def _judge(self, due: Timed, lows: dict[Feed, int]) -> list[int]:
        if len(due.times) == 0:
            return []
        if not self.has_ids and not self.has_deletions:
            self.log.append(due)
            return []
        by_time = [lows[feed] for feed in self.feeds if not feed.is_by_event]
        floor = min((feed.head for feed in self.feeds if feed.is_by_event), default=NEVER)
        horizon = min(by_time, default=NEVER)
        outcomes, killed = self.log.judge(due, horizon, floor)
        self._report(due, outcomes)
        gone = outcomes != ENTERED
        if gone.any():
            # The epoch in the making: who copies the newest version has the terms for as long.
            self._let_go(due.pick(np.flatnonzero(gone)), self._epoch() + 1)
        found: list[int] = killed[outcomes == DELETED].tolist()
        return found

    def _report(self, due: Timed, outcomes: Words) -> None:
        is_first = due.ids != SAME_ROW
        self.repeated += int(np.count_nonzero((outcomes == REPEATED) & is_first))
        for place in np.flatnonzero((outcomes > REPEATED) & is_first).tolist():
            reason = REASONS[int(outcomes[place])].describe(self._describe(due, place))
            self.refused.append(Refused(int(due.arrivals[place]), reason))

    def refuse(self, first: int, end: int, reason: Reason) -> list[int]:
        """Refuse events of the log, which are then as if they had been deleted; returns where they
        were.
        """
        found = self.log.kill(first, end)
        slots = found[self.log.mark_firsts(found)] & (len(self.log.times) - 1)
        for slot in slots.tolist():
            terms = " ".join(map(self._words.decode_one, self.log.rows[slot, 1:].tolist()))
            place = int(self.log.arrivals[slot])
            why = reason.describe(f"{terms} at {self.log.times[slot]}")
            self.refused.append(Refused(place, why))
        positions: list[int] = found.tolist()
        return positions

    def take_back(self, positions: list[int]) -> None:
        """The last events that were refused are not, after all."""
        found = np.array(positions, np.int64)
        self.log.revive(found)
        events = int(np.count_nonzero(self.log.mark_firsts(found)))
        del self.refused[len(self.refused) - events :]

    def retire(self) -> None:
        """Forget what no window holds, or will."""
        until = min((feed.head for feed in self.feeds), default=self.log.end)
        if until > self.log.start:
            self._release(*self.log.retire(until), self._epoch())

    def clear(self) -> None:
        """Forget everything."""
        self._let_go(self.pending.take(NEVER), self._epoch())
        self._release(*self.log.retire(self.log.end), self._epoch())

    # Terms

    def _hold(self, events: Timed, has_deletions: bool) -> None:
        rows = np.abs(events.rows) if has_deletions else events.rows
        self._words.settle(rows, self._epoch())
        if len(events.ids) and (events.ids != NONE).any():
            self.has_ids = True
            self._identities.acquire(events.ids[events.ids >= 0], self._epoch())

    def _let_go(self, events: Timed, epoch: int) -> None:
        rows = events.rows.copy()
        rows[:, 0] = -1
        self._release(rows, events.ids, epoch)

    def _release(self, rows: Words, ids: Words, epoch: int) -> None:
        self._words.settle(rows, epoch)
        named = ids[ids >= 0] if self.has_ids else ids[:0]
        if len(named):
            self._identities.release(named, epoch)


def mark_live(rows: Words) -> Words:
    """Rows of which each holds its terms, also if it is dead or a deletion."""
    found = rows.copy()
    found[:, 0] = 1
    return found
