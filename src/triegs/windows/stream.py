"""One stream: the events that wait, the log of those that were judged, and its windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from triegs.dictionary import Dictionary
from triegs.maintain.standing import NO_EVENT as NO_EVENT_REASON
from triegs.maintain.standing import Refused
from triegs.windows.encoding import Events
from triegs.windows.feed import Feed
from triegs.windows.judging import (
    DELETED,
    ENTERED,
    NO_EVENT,
    NO_ID,
    OTHER_CONTENT,
    REPEATED,
    Words,
)
from triegs.windows.log import Log
from triegs.windows.pending import Pending, Timed

Flags = NDArray[np.bool_]
REASONS = {
    NO_EVENT: NO_EVENT_REASON,
    NO_ID: "no live event has this id",
    OTHER_CONTENT: "a live event has this id and other content",
}
NEVER = 1 << 62  # a position that no event has, a time after all


class Stream:
    """What was pushed under one name.

    `watermark` is the stream's own; `judged` is the time up to which events are in the log.
    Every event that waits or is retained holds its terms, and its id.
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
        self.first: int | None = None
        self.newest: int | None = None
        self.is_closed = False
        self.arrivals = 0
        self.repeated = 0
        #: The time of an event that is in the log and not yet in an epoch of its own.
        self.unshown: int | None = None
        #: Refused by judging, and not yet reported with an epoch.
        self.refused: list[Refused] = []
        self._words = words
        self._identities = identities
        self._epoch = epoch

    @property
    def title(self) -> str:
        return "the stream without a name" if self.name is None else f"the stream {self.name}"

    def add(self, events: Events, kept: Words, arrivals: Words) -> None:
        """Let events wait for their slide."""
        if len(kept) == 0:
            return
        timed = Timed(events.times[kept], events.rows[kept], events.ids[kept], arrivals[kept])
        self._hold(timed)
        self.pending.add(timed)
        least, most = int(timed.times.min()), int(timed.times.max())
        self.first = least if self.first is None else min(self.first, least)
        self.newest = most if self.newest is None else max(self.newest, most)

    def find_ahead(self, times: Words, floor: int | None, max_ahead: int) -> Flags:
        """Which events, in the order of arrival, are further ahead than they may be.

        Each is compared with the watermark and with the events before it that were accepted.
        """
        ahead = np.zeros(len(times), np.bool_)
        known = [time for time in (floor, self.newest) if time is not None]
        if len(times) == 0:
            return ahead
        highest = max(known) if known else int(times[0])
        before = np.maximum.accumulate(np.concatenate([[highest], times[:-1]]))
        if (times <= before + max_ahead).all():
            return ahead
        for place, time in enumerate(times.tolist()):
            ahead[place] = time > highest + max_ahead
            highest = highest if ahead[place] else max(highest, time)
        return ahead

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
        by_time = [lows[feed] for feed in self.feeds if not feed.is_by_event]
        floor = min((feed.head for feed in self.feeds if feed.is_by_event), default=NEVER)
        horizon = min(by_time, default=NEVER)
        known_ids = int(due.ids.max()) + 1
        outcomes, killed = self.log.judge(due, horizon, floor, known_ids)
        if self.log.is_plain:
            return []
        self._report(due, outcomes)
        gone = outcomes != ENTERED
        if gone.any():
            self._let_go(due.pick(np.flatnonzero(gone)))
        found: list[int] = killed[outcomes == DELETED].tolist()
        return found

    def _report(self, due: Timed, outcomes: Words) -> None:
        self.repeated += int(np.count_nonzero(outcomes == REPEATED))
        for place in np.flatnonzero(outcomes > REPEATED).tolist():
            terms = " ".join(map(self._words.decode_one, due.rows[place, 1:].tolist()))
            reason = f"{REASONS[int(outcomes[place])]}: {terms} at {due.times[place]}"
            self.refused.append(Refused(int(due.arrivals[place]), reason))

    def retire(self) -> None:
        """Forget what no window holds, or will."""
        until = min((feed.head for feed in self.feeds), default=self.log.end)
        if until > self.log.start:
            rows, ids = self.log.retire(until)
            self._release(rows, ids)

    def clear(self) -> None:
        """Forget everything."""
        self._let_go(self.pending.take(NEVER))
        self._release(*self.log.retire(self.log.end))

    # Terms

    def _hold(self, events: Timed) -> None:
        rows = events.rows
        if rows[:, 0].min() < 0:
            rows = np.abs(rows)
        self._words.settle(np.ascontiguousarray(rows), self._epoch())
        named = events.ids[events.ids >= 0]
        if len(named):
            self._identities.acquire(named)

    def _let_go(self, events: Timed) -> None:
        rows = events.rows.copy()
        rows[:, 0] = -1
        self._release(rows, events.ids)

    def _release(self, rows: Words, ids: Words) -> None:
        self._words.settle(rows, self._epoch())
        named = ids[ids >= 0]
        if len(named):
            self._identities.release(named)
            self._identities.collect(0)
