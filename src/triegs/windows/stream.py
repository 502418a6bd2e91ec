"""One stream: the events that wait, the log of those that were judged, and its windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from triegs.dictionary import Dictionary
from triegs.maintain.standing import NO_EVENT as NO_EVENT_REASON
from triegs.maintain.standing import Refused
from triegs.windows.encoding import Events
from triegs.windows.feed import Feed
from triegs.windows.judging import (
    DELETED,
    DELETIONS,
    DISORDERED,
    ENTERED,
    FOUND_WORDS,
    KEPT,
    LEAST,
    MOST,
    NO_EVENT,
    NO_ID,
    NO_TIME,
    NONE,
    OTHER_CONTENT,
    REPEATED,
    SAME_ROW,
    Words,
    survey_events,
)
from triegs.windows.log import Log
from triegs.windows.pending import Pending, Timed

REASONS = {
    NO_EVENT: NO_EVENT_REASON,
    NO_ID: "no live event has this id",
    OTHER_CONTENT: "a live event has this id and other content",
}
NEVER = 1 << 62  # a position that no event has, a time after all


class Sifted(NamedTuple):
    """What became of a push: the number of its first event, how many were accepted, and the
    numbers of those that were not.
    """

    first: int
    accepted: int
    late: Words
    ahead: Words


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
        self.has_ids = self.has_deletions = False
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

    def add(self, events: Events, bound: int | None, max_ahead: int) -> Sifted:
        """Let events wait for their slide, but those that are late or too far ahead."""
        first, count = self.arrivals, len(events.times)
        self.arrivals += events.given
        arrivals = np.arange(first, self.arrivals)
        if events.places is not None:
            arrivals = arrivals[events.places]
        kept, found = np.empty(count, np.int64), np.empty(FOUND_WORDS, np.int64)
        limit = NO_TIME if bound is None else bound
        newest = NO_TIME if self.newest is None else self.newest
        survey_events(events.times, events.rows, limit, newest, max_ahead, kept, found)
        timed = Timed(events.times, events.rows, events.ids, arrivals)
        late: Words = arrivals[:0]
        ahead = late
        is_first = events.ids != SAME_ROW
        if found[KEPT] < count:
            is_late = events.times <= limit
            late = arrivals[is_late & is_first]
            ahead = arrivals[(kept == 0) & ~is_late & is_first]
            timed = timed.pick(np.flatnonzero(kept))
        if found[KEPT]:
            self.has_deletions |= bool(found[DELETIONS])
            self._hold(timed, bool(found[DELETIONS]))
            self.pending.add(timed.sort() if found[DISORDERED] else timed)
            least, most = int(found[LEAST]), int(found[MOST])
            self.first = least if self.first is None else min(self.first, least)
            self.newest = most if self.newest is None else max(self.newest, most)
        return Sifted(first, int(np.count_nonzero(is_first & (kept != 0))), late, ahead)

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
            terms = " ".join(map(self._words.decode_one, due.rows[place, 1:].tolist()))
            reason = f"{REASONS[int(outcomes[place])]}: {terms} at {due.times[place]}"
            self.refused.append(Refused(int(due.arrivals[place]), reason))

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
