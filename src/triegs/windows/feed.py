"""A feed: one window over one stream, as two positions in the stream's log.

What a slide changes is read off the positions: `head` to the new head expires, `tail` to the new
tail arrives, and what was deleted in between since the last slide goes too. A slide is worked out
first and committed after its epoch was published, so a failed epoch can be tried again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triegs.sparql.window import LARGEST_TIME, Kind, Window
from triegs.windows.judging import Words
from triegs.windows.log import Log

FOREVER = -2 * LARGEST_TIME  # before every time


class Slide(NamedTuple):
    """Where a window stands after a slide, and the rows that go and come."""

    head: int
    tail: int
    low: int
    live: int
    kills: int
    gaps: int
    rows: Words


class Feed:
    """A window at work.

    `due` is the time of the next slide, None while it is not known. `low` is the time at and
    before which events have expired; `live` counts events, for a window of the last n.
    """

    def __init__(self, window: Window, log: Log) -> None:
        self.window = window
        self.head = self.tail = log.end
        self.low = FOREVER
        self.live = 0
        self.gaps = 0
        self.due: int | None = None
        self.has_begun = False
        self._log = log
        self._kills: list[int] = []

    @property
    def is_by_event(self) -> bool:
        """Whether each event is an epoch."""
        return self.window.kind is Kind.TRIPLES

    @property
    def is_driven(self) -> bool:
        """Whether the times of events, and not a period, say when it slides."""
        return self.window.slide is None

    def edge(self, time: int) -> int:
        """The last tick that belongs to the window at a published time."""
        return time - self.window.shift

    def expire(self, time: int) -> int:
        """The time at and before which nothing is in the window at a published time."""
        width = self.window.width
        if width is None or self.is_by_event:
            return FOREVER
        return self.edge(time) - width

    def note_kills(self, positions: list[int], head: int, tail: int) -> None:
        """Events that the window shows and that were deleted: they go at its next slide."""
        self._kills += [p for p in positions if head <= p < tail]

    def slide(self, time: int) -> Slide:
        """What the window at a published time changes. Cost: the change."""
        log = self._log
        tail = log.find(self.edge(time)) if not self.is_by_event else log.end
        kills = np.array([p for p in self._kills if p < self.tail], np.int64)
        gone = [log.pick(kills, -1)] if len(kills) else []
        if self.is_by_event:
            head, live, expired = self._cut(tail, self.live - len(kills))
            rows = [*gone, log.pick(expired, -1), log.read(self.tail, tail, 1)]
            return Slide(head, tail, FOREVER, live, len(self._kills), 0, np.concatenate(rows))
        low = self.expire(time)
        head = self.head if low == FOREVER else max(self.head, log.find(low))
        rows = [*gone, log.read(self.head, min(head, self.tail), -1)]
        rows.append(log.read(max(head, self.tail), tail, 1))
        gaps = max(0, min(head, tail) - self.tail)
        return Slide(head, tail, low, 0, len(self._kills), gaps, np.concatenate(rows))

    def _cut(self, tail: int, live: int) -> tuple[int, int, Words]:
        """The last n events: the new head, how many are live, and which expire."""
        log, width = self._log, self.window.width
        assert width is not None
        live += len(log.find_live(self.tail, tail))
        if live <= width:
            return self.head, live, np.empty(0, np.int64)
        oldest = log.find_live(self.head, min(tail, self.head + self._reach(live - width)))
        if len(oldest) < live - width:
            oldest = log.find_live(self.head, tail)
        oldest = oldest[: live - width]
        return int(oldest[-1]) + 1, width, oldest[oldest < self.tail]

    def _reach(self, count: int) -> int:
        """So many positions most likely have so many live events."""
        return 2 * count + len(self._kills)

    def commit(self, slide: Slide, time: int) -> None:
        """The slide was published."""
        self.head, self.tail, self.low, self.live = slide[:4]
        del self._kills[: slide.kills]
        self.gaps += slide.gaps
        self.has_begun = True
        period = self.window.slide
        self.due = None if period is None else time + period

    def begin_late(self, time: int) -> Words:
        """Stand where the window stood at its last slide up to a time; returns what it holds."""
        log = self._log
        if self.is_by_event:
            positions = log.find_live(log.start, log.end)[-(self.window.width or 0) :]
            self.tail, self.live = log.end, len(positions)
            self.head = int(positions[0]) if len(positions) else log.end
            rows = log.pick(positions, 1)
        else:
            last = self.window.last_slide(time)
            self.low = self.expire(last)
            self.tail = log.find(self.edge(last))
            self.head = log.start if self.low == FOREVER else min(log.find(self.low), self.tail)
            period = self.window.slide
            self.due = None if period is None else last + period
            rows = log.read(self.head, self.tail, 1)
        self.has_begun = True
        return rows

    def read(self) -> Words:
        """Everything that the window shows now. Cost: its size."""
        rows = [self._log.read(self.head, self.tail, 1)]
        if self._kills:
            rows.append(self._log.pick(np.array(self._kills, np.int64), 1))
        return np.concatenate(rows)
