"""A window cursor: one window over one stream, as two positions in the stream's log.

The positions say what a slide changes: events from `head` to the new head expire, those from
`tail` to the new tail arrive, and those deleted in between since the last slide are removed. A
slide is computed first and committed after its epoch was published, so a failed epoch can be
retried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triegs.jit.words import Words
from triegs.sparql.window import LARGEST_TIME, Kind, Window
from triegs.windows.log import Log

FOREVER = -2 * LARGEST_TIME  # before every time


class Slide(NamedTuple):
    """The positions of a window after a slide, and what it removes and adds.

    ``expired`` and ``arrived`` are ranges of the log, whose live events count. ``single`` are
    single positions to remove. ``deleted`` are events that arrive although they are dead, because
    their deletion is later than the window, see `WindowCursor.note_later`.
    """

    head: int
    tail: int
    low: int
    live: int
    kills: int
    gaps: int
    expired: tuple[int, int]
    arrived: tuple[int, int]
    single: Words
    deleted: Words


NOTHING: Words = np.empty(0, np.int64)


class WindowCursor:
    """The state of one window.

    `due` is the time of the next slide, None while unknown. Events at or before `low` have expired.
    `live` counts events, for a window of the last n. `kills` are deleted events that the window
    still contains, or will with the slide under way.
    """

    def __init__(self, window: Window, log: Log) -> None:
        self.window = window
        self.head = self.tail = log.end
        self.low = FOREVER
        self.live = 0
        self.gaps = 0
        self.due: int | None = None
        #: Whether each event is an epoch.
        self.is_by_event = window.kind is Kind.TRIPLES
        #: Whether event times, not a period, determine when it slides.
        self.is_driven = window.slide is None
        self.log = log
        self._shift = window.shift
        self._width = None if self.is_by_event else window.width
        self.kills: list[int] = []

    def edge(self, time: int) -> int:
        """The last tick that belongs to the window at a published time."""
        return time - self._shift

    def expire(self, time: int) -> int:
        """The time at or before which events have expired at a published time."""
        return FOREVER if self._width is None else time - self._shift - self._width

    def note_kills(self, positions: list[int], head: int, tail: int) -> None:
        """Deleted events that the window contains: its next slide removes them."""
        self.kills += [p for p in positions if head <= p < tail]

    def note_later(self, positions: list[int], slide: Slide) -> Slide:
        """Events that were deleted in the epoch of a slide, but after the end of the window. Those
        that it shows are removed by the next slide; those that expire are removed by this one,
        though they are dead now. Returns the slide with these.
        """
        expired = [p for p in positions if self.head <= p < min(slide.head, self.tail)]
        shown = [p for p in positions if slide.head <= p < slide.tail]
        self.kills[slide.kills : slide.kills] = expired
        self.kills += shown
        arrived = [p for p in shown if p >= self.tail]
        return slide._replace(
            kills=slide.kills + len(expired),
            single=np.concatenate([slide.single, np.array(expired, np.int64)]),
            deleted=np.concatenate([slide.deleted, np.array(arrived, np.int64)]),
        )

    def slide(self, time: int) -> Slide:
        """The slide to a published time. Cost: O(log n)."""
        log = self.log
        kills = deleted = NOTHING
        if self.kills:
            kills = self.list_kills()
            # The slide was tried before, and failed.
            deleted = np.array([p for p in self.kills if p >= self.tail], np.int64)
        if self.is_by_event:
            tail = log.end
            gone = int(np.count_nonzero(log.mark_firsts(kills)))
            head, live, expired = self._cut(tail, self.live - gone)
            single = np.concatenate([kills, expired])
            return Slide(
                head, tail, FOREVER, live, len(self.kills), 0, (0, 0), (self.tail, tail), single,
                NOTHING,
            )  # fmt: skip
        tail = log.find(self.edge(time))
        low = self.expire(time)
        head = self.head if low == FOREVER else max(self.head, log.find(low))
        return Slide(
            head, tail, low, 0, len(self.kills), max(0, min(head, tail) - self.tail),
            (self.head, min(head, self.tail)), (max(head, self.tail), tail), kills, deleted,
        )  # fmt: skip

    def _cut(self, tail: int, live: int) -> tuple[int, int, Words]:
        """Of the last n events: the new head, the live ones, and those that expire."""
        log, width = self.log, self.window.width
        assert width is not None
        live += len(self._find_events(self.tail, tail))
        if live <= width:
            return self.head, live, np.empty(0, np.int64)
        oldest = self._find_events(self.head, min(tail, self.head + self._reach(live - width)))
        if len(oldest) < live - width:
            oldest = self._find_events(self.head, tail)
        head = log.find_end(int(oldest[live - width - 1]))
        gone = log.find_live(self.head, min(head, self.tail))
        return head, width, gone

    def _find_events(self, first: int, end: int) -> Words:
        """The positions of live events; of each, that of its first triple."""
        live = self.log.find_live(first, end)
        return live[self.log.mark_firsts(live)]

    def _reach(self, count: int) -> int:
        """A number of positions that most likely contains that many live events."""
        return 2 * count + len(self.kills)

    def commit(self, slide: Slide, time: int) -> None:
        """The slide was published."""
        arrived = [p for p in self.kills[: slide.kills] if p >= self.tail]
        self.head, self.tail, self.low, self.live = slide[:4]
        self.kills[: slide.kills] = arrived
        self.gaps += slide.gaps
        period = self.window.slide
        self.due = None if period is None else time + period

    def begin_late(self, time: int) -> None:
        """Take the positions of the window after its last slide up to a time."""
        log = self.log
        if self.is_by_event:
            positions = self._find_events(log.start, log.end)[-(self.window.width or 0) :]
            self.tail, self.live = log.end, len(positions)
            self.head = int(positions[0]) if len(positions) else log.end
        else:
            last = self.window.last_slide(time)
            self.low = self.expire(last)
            self.tail = log.find(self.edge(last))
            self.head = log.start if self.low == FOREVER else min(log.find(self.low), self.tail)
            period = self.window.slide
            self.due = None if period is None else last + period

    def read(self) -> Words:
        """All rows of the window now. Cost: its size."""
        rows = [self.log.read(self.head, self.tail, 1)]
        if self.kills:
            rows.append(self.log.pick(self.list_kills(), 1))
        return np.concatenate(rows)

    def list_kills(self) -> Words:
        """The deleted events that the window contains now."""
        return np.array([p for p in self.kills if p < self.tail], np.int64)
