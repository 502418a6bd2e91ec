"""Aggregates over the events of a stream, without joins and without the store.

An aggregate reads its window through a cursor of the stream, as a window graph does. So it sees the
events that a query with the same window sees: sorted by time once the watermark has passed them,
without late and repeated ones, and less those that were deleted. Aggregates that differ only in
their windows share one `Aggregation`. It is rebuilt from the stream's log when a window is added,
and when a directory is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np

from triegs.aggregates.windowed.aggregation import Aggregation, Grid, Rows, WindowResults
from triegs.aggregates.windowed.functions import Function
from triegs.errors import BadOption, MemoryLimitReached
from triegs.jit.words import Words
from triegs.sparql.window import Kind, Window
from triegs.store.packed import PackedStore
from triegs.terms.dictionary import Dictionary
from triegs.windows.cursor import NOTHING, Slide, WindowCursor
from triegs.windows.log import Log
from triegs.windows.matching import Matcher, Matches, Pattern
from triegs.windows.usage import WindowUsage
from triegs.windows.versioned_rows import VersionedRows

log_messages = logging.getLogger("triegs")


class StreamKey(NamedTuple):
    """What aggregates share that differ only in their windows."""

    stream: str | None
    pattern: Pattern
    function: Function


def find_grid(window: Window) -> Grid:
    """The times at which a window can begin or end."""
    if window.kind is Kind.TRIPLES:
        raise BadOption("an aggregate needs a window of time, not of a number of events")
    if window.slide is None:
        return Grid(0, 1)
    step = window.slide
    if window.width is not None:
        step = int(np.gcd(step, window.width))
    return Grid(window.start - window.shift, step)


class Prepared(NamedTuple):
    """The matching events of the log up to a position."""

    end: int
    positions: Words
    times: Words
    matches: Matches


class AggregateWindow:
    """One window of an aggregation, with its readers."""

    def __init__(self, shared: SharedAggregation, cursor: WindowCursor, version: int) -> None:
        self.shared = shared
        self.cursor = cursor
        self.uses = 1
        self.results: WindowResults
        self.rows = VersionedRows(self._read, version)

    def _read(self) -> Rows:
        return self.results.read(self.shared.aggregation.groups.members)

    def find_edge(self) -> int | None:
        """The last time that the window includes; None before its first slide."""
        cursor, window = self.cursor, self.cursor.window
        if window.slide is not None:
            return None if cursor.due is None else cursor.edge(cursor.due - window.slide)
        log = cursor.log
        if cursor.tail == cursor.head:
            return None
        return int(log.times[(cursor.tail - 1) & (len(log.times) - 1)])

    def find_lost(self, deleted: Words) -> Words:
        """Those of some deleted events that the window would contain, but does no longer."""
        cursor = self.cursor
        inside = deleted[(deleted >= cursor.head) & (deleted < cursor.tail)]
        return np.setdiff1d(inside, cursor.list_kills())

    @property
    def structure_name(self) -> str:
        return self.shared.aggregation.structure_name

    @property
    def group_count(self) -> int:
        """The number of groups with values in the window."""
        return int(np.count_nonzero(self.results.counts))

    @property
    def used_bytes(self) -> int:
        """Including what it shares with other windows."""
        return self.shared.aggregation.used_bytes + self.rows.used_bytes


def order_windows(windows: list[AggregateWindow], deleted: Words) -> Iterator[AggregateWindow]:
    """Windows that still contain some deleted events before those that have lost them."""
    waiting = list(windows)
    while waiting:
        kills = np.concatenate([NOTHING, *(window.cursor.list_kills() for window in waiting)])
        free = (each for each in waiting if not np.isin(each.find_lost(deleted), kills).any())
        found = next(free, waiting[0])
        waiting.remove(found)
        yield found


class SharedAggregation:
    """The windows with one key: takes matching events from the log, and slides."""

    def __init__(self, key: StreamKey, words: Dictionary) -> None:
        self.key = key
        self.aggregation = Aggregation(key.function, len(key.pattern.group))
        self.windows: dict[Window, AggregateWindow] = {}
        self._matcher = Matcher(key.pattern, key.function.values, words)
        self._position = 0  # the log is read up to here
        self._prepared: Prepared | None = None
        self._has_warned = False

    def rebuild(self, log: Log) -> None:
        """Read all events of all windows again. Cost: those. The caller has paused readers."""
        aggregation, windows = self.aggregation, list(self.windows.values())
        self._prepared = None
        aggregation.windows = []
        aggregation.clear()
        for window in windows:
            window.results = aggregation.add_window(find_grid(window.cursor.window))
        heads = [window.cursor.head for window in windows]
        self._position = min(heads, default=log.end)
        # Deleted events are in a window until it slides.
        kills = np.concatenate([NOTHING, *(window.cursor.list_kills() for window in windows)])
        end = max((window.cursor.tail for window in windows), default=0)
        revived = np.unique(kills)
        self._take(log, end, revived)
        for window in order_windows(windows, revived):
            if (edge := window.find_edge()) is not None:
                aggregation.bury(window.find_lost(revived))
                aggregation.slide(window.results, edge, window.cursor.low)

    def measure(self, slides: Mapping[WindowCursor, Slide]) -> int:
        """At most the bytes that slides add. Cost: the events that arrive."""
        ends = [slides[w.cursor].tail for w in self.windows.values() if w.cursor in slides]
        end = max(ends, default=0)
        if end <= self._position:
            return 0
        log = next(iter(self.windows.values())).cursor.log
        self._prepared = self._match(log, end)
        keys = self._prepared.matches.keys
        return self.aggregation.measure(keys) if len(keys) else 0

    def follow(self, slides: Mapping[WindowCursor, Slide], time: int) -> None:
        """Slide those windows whose cursors slid. Cost: what the slides change."""
        moved = [window for window in self.windows.values() if window.cursor in slides]
        # A window that ends earlier still has what is deleted before the end of another.
        for edge in sorted({window.cursor.edge(time) for window in moved}):
            group = [window for window in moved if window.cursor.edge(time) == edge]
            self._slide(group, slides, time)
        self.aggregation.retire()

    def _slide(
        self, moved: list[AggregateWindow], slides: Mapping[WindowCursor, Slide], time: int
    ) -> None:
        aggregation, log = self.aggregation, moved[0].cursor.log
        end = max(slides[window.cursor].tail for window in moved)
        deleted = np.concatenate([NOTHING, *(slides[window.cursor].deleted for window in moved)])
        for window in moved:
            slide = slides[window.cursor]
            dead = log.find_dead(*slide.arrived)
            if len(deleted):
                dead = np.setdiff1d(dead, deleted)
            for gone in (slide.single, dead):
                if len(gone):
                    aggregation.bury(np.sort(gone))
        if len(deleted):
            self._prepared = None  # it was made without them
        self._take(log, end, np.unique(deleted[deleted >= self._position]))
        for window in moved:
            cursor, slide = window.cursor, slides[window.cursor]
            aggregation.slide(window.results, cursor.edge(time), slide.low, slide.single)

    def _take(self, log: Log, end: int, revived: Words = NOTHING) -> None:
        """Append the matching events of the log up to a position."""
        if end <= self._position:
            return
        prepared, self._prepared = self._prepared, None
        if prepared is None or prepared.end != end:
            prepared = self._match(log, end, revived)
        self._position = end
        found = prepared.matches
        if found.usable is not None and not self._has_warned and not found.usable.all():
            self._has_warned = True
            message = "an aggregate over %s met a value that is not a number; it is ignored"
            log_messages.warning(message, self.key.pattern.value)
        self.aggregation.append(
            prepared.times, found.keys, found.values, prepared.positions, found.usable
        )

    def _match(self, log: Log, end: int, revived: Words = NOTHING) -> Prepared:
        """The matching events of the log up to a position; deleted ones only if they are listed."""
        positions, times, rows = log.read_events(self._position, end)
        if len(revived):
            slots = revived & (len(log.times) - 1)
            order = np.argsort(np.concatenate([positions, revived]))
            positions = np.concatenate([positions, revived])[order]
            times = np.concatenate([times, log.times[slots]])[order]
            rows = np.concatenate([rows, log.rows[slots]])[order]
        found = self._matcher.match(rows)
        return Prepared(end, positions[found.rows], times[found.rows], found)


class StreamAggregates:
    """All aggregates of an engine's streams."""

    def __init__(self, usage: WindowUsage, words: Dictionary, store: PackedStore) -> None:
        self._usage = usage
        self._words = words
        self._store = store
        self._shared: dict[StreamKey, SharedAggregation] = {}
        #: The bytes of aggregates that are not of streams.
        self.other_bytes = 0

    @property
    def is_used(self) -> bool:
        """Whether there is any."""
        return bool(self._shared)

    @property
    def windows(self) -> list[AggregateWindow]:
        return [each for shared in self._shared.values() for each in shared.windows.values()]

    @property
    def used_bytes(self) -> int:
        aggregations = sum(each.aggregation.used_bytes for each in self._shared.values())
        return aggregations + sum(each.rows.used_bytes for each in self.windows)

    def open(self, pattern: Pattern, function: Function, window: Window) -> AggregateWindow:
        """Aggregate what the window has, from now on. Cost: the events that the stream retains."""
        find_grid(window)
        key = StreamKey(window.stream, pattern, function)
        shared = self._shared.get(key) or SharedAggregation(key, self._words)
        found = shared.windows.get(window)
        cursor = self._usage.open_cursor(window)
        if found is not None:
            found.uses += 1
            return found
        version = self._store.newest.number
        found = shared.windows[window] = AggregateWindow(shared, cursor, version)
        self._shared[key] = shared
        try:
            self._rebuild(shared, cursor.log)
            self._check_limit(0)
        except BaseException:
            self.close(found)
            raise
        return found

    def close(self, window: AggregateWindow) -> None:
        """Remove a reader of a window; a window without readers is dropped."""
        window.uses -= 1
        shared, cursor = window.shared, window.cursor
        if window.uses == 0:
            del shared.windows[cursor.window]
            if shared.windows:
                self._rebuild(shared, cursor.log)
            else:
                del self._shared[shared.key]
        self._usage.close_cursor(cursor.window)

    def rebuild_all(self) -> None:
        """The streams were restored: read all events."""
        for shared in self._shared.values():
            self._rebuild(shared, next(iter(shared.windows.values())).cursor.log)

    def _rebuild(self, shared: SharedAggregation, log: Log) -> None:
        with ExitStack() as stack:
            for window in shared.windows.values():
                stack.enter_context(window.rows.paused())
            shared.rebuild(log)

    # Slides

    def check_room(self, slides: Mapping[WindowCursor, Slide]) -> None:
        """Raise `MemoryLimitReached` if what slides add does not fit the limit of the store."""
        if self._shared and self._store.current_limit is not None:
            more = sum(shared.measure(slides) for shared in self._shared.values())
            if more:
                self._check_limit(more)

    def _check_limit(self, more: int) -> None:
        limit = self._store.current_limit
        if limit is None:
            return
        used = self._store.statistics()
        needed = used.used_bytes + self.used_bytes + self.other_bytes + more
        if needed > limit:
            raise MemoryLimitReached(
                f"the aggregates and the graph need {needed:,} bytes: no room under {limit:,} bytes"
            )

    @contextmanager
    def move(self) -> Iterator[None]:
        """Within the block a version is published, and the aggregates follow it."""
        rows = [window.rows for window in self.windows]
        for each in rows:
            each.begin(self._store.newest.number)
        try:
            yield
        finally:
            for each in rows:
                each.end()

    def follow(self, slides: Mapping[WindowCursor, Slide], time: int, version: int) -> None:
        """The slides were published as this version."""
        if not self._shared:
            return
        held = self._store.held()
        for shared in self._shared.values():
            moved = [window for window in shared.windows.values() if window.cursor in slides]
            for window in moved:
                window.rows.replace(version, held)
            if moved:
                shared.follow(slides, time)
