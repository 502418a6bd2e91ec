"""Slides: which are due, what they change, and the epoch that publishes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np

from triegs.errors import MemoryLimitReached
from triegs.jit.words import Words
from triegs.maintain.preparing import Preparing, finish
from triegs.maintain.standing import Epoch, Refused
from triegs.reasons import Reason
from triegs.windows.at_once import SlideCore, SlidesAtOnce
from triegs.windows.cursor import Slide, WindowCursor
from triegs.windows.outcomes import EventCounts, Published
from triegs.windows.reasoning import Reasoning
from triegs.windows.stream import Stream
from triegs.windows.stream_aggregates import StreamAggregates
from triegs.windows.watermarks import Watermarks
from triegs.windows.window_graphs import WindowGraph, WindowGraphs

log_messages = logging.getLogger("triegs")


class Due(NamedTuple):
    """A slide: its time, and the windows that slide then, by stream."""

    time: int
    cursors: dict[Stream, list[WindowCursor]]


#: Entered with the time of an epoch while it is made.
Record = Callable[[int], AbstractContextManager[None]]


def record_nothing(_: int) -> AbstractContextManager[None]:
    """For slides without records of their own."""
    return nullcontext()


class EpochCore(SlideCore, Protocol):
    """What publishing needs of the core."""

    def apply(self, rows: Words, is_strict: bool = False) -> Epoch: ...

    def prepare(self, rows: Words, is_strict: bool = False) -> Preparing[Epoch]: ...


class EventsRefused(Exception):
    """Another engine has no room for the events of a slide, so this one refuses them too. Thrown
    into a slide that pauses.
    """


class SlideClock(Protocol):
    """What publishing needs of the engine's clock."""

    def begin(self, time: int) -> None: ...

    def end(self) -> None: ...

    def find(self, number: int) -> int | None: ...


class SlidePublisher:
    """Publishes the slides up to the watermark, each as one epoch.

    `slid` are the windows that slid in the last epoch.
    """

    def __init__(
        self, streams: Mapping[str | None, Stream], graphs: WindowGraphs, core: EpochCore,
        clock: SlideClock, watermarks: Watermarks, counts: EventCounts,
        aggregates: StreamAggregates, reasoning: Reasoning,
    ) -> None:  # fmt: skip
        self.slid: Collection[WindowCursor] = ()
        #: Whether the next slide refuses its events, because it did so the first time.
        self.is_refusing = False
        #: Whether the last slide did.
        self.has_refused = False
        self._streams = streams
        self._graphs = graphs
        self._core = core
        self._clock = clock
        self._watermarks = watermarks
        self._counts = counts
        self._aggregates = aggregates
        self._reasoning = reasoning
        self.at_once = SlidesAtOnce(graphs, core, reasoning)

    def publish_due(self, record: Record = record_nothing) -> Iterator[Published]:
        """Publish all slides up to the watermark, in order; each is made within `record`."""
        while (due := self._find_due()) is not None:
            if record is record_nothing:
                yield self.publish(due)
                continue
            with record(due.time):
                found = self.publish(due)
            yield found

    def prepare_due(self) -> Iterator[Preparing[Published]]:
        """As `publish_due`, but each slide pauses before it is published. It must be finished
        before the next one is taken.
        """
        while (due := self._find_due()) is not None:
            yield self._follow(due, pauses=True)

    def count_slides(self, to: int) -> int:
        """How many slides this watermark would make due, at most: some may be of the same time.
        Those of windows without a period are not counted.
        """
        found = 0
        for stream in self._streams.values():
            for cursor in stream.cursors:
                first, period = _find_due_time(cursor, stream), cursor.window.slide
                if first is not None and period is not None and first <= to:
                    found += (to - first) // period + 1
        return found

    def judge_due(self) -> None:
        """Judge the events of the next due slide, as publishing it would. So an engine that failed
        to publish the slide and one that did not try have the same state.
        """
        due = self._find_due()
        if due is not None:
            self._compute(due)

    def publish(self, due: Due) -> Published:
        """One epoch: every due window slides, and the core takes all changes at once. Aggregates
        follow at once: nobody reads one that is behind.
        """
        if not (self.is_refusing or self._aggregates.is_used) and len(due.cursors) == 1:
            found = self._publish_at_once(due)
            if found is not None:
                return found
        return finish(self._follow(due, pauses=False))

    def _publish_at_once(self, due: Due) -> Published | None:
        """A slide in one call, or None if it does not qualify."""
        ((stream, cursors),) = due.cursors.items()
        self._clock.begin(due.time)
        try:
            version = self.at_once.publish(due.time, stream, cursors)
        finally:
            self._clock.end()
        if version is None:
            return None
        self.has_refused = False
        self.slid = cursors
        refused = self._report_refused(stream)
        return Published(version, due.time, tuple(refused) if refused else ())

    def _follow(self, due: Due, pauses: bool) -> Preparing[Published]:
        if not self._aggregates.windows:
            return (yield from self._publish(due, pauses))
        with self._aggregates.move():
            return (yield from self._publish(due, pauses))

    def _publish(self, due: Due, pauses: bool) -> Preparing[Published]:
        time, slides = due.time, self._compute(due)
        self.has_refused = False
        try:
            if self.is_refusing:
                raise MemoryLimitReached(str(Reason.NO_ROOM))
            changes, version = yield from self._apply(time, slides, pauses)
        except (MemoryLimitReached, EventsRefused) as problem:
            # Expiry must succeed, or the windows would never move again.
            kills = {c: list(c.kills) for stream in due.cursors for c in stream.cursors}
            refused = self._refuse_events(due, slides)
            if not any(refused.values()):
                raise
            self.has_refused = True
            try:
                changes, version = yield from self._apply(time, slides, pauses)
            except BaseException:  # held epochs leave no room even for that
                self.has_refused = False
                for stream, positions in refused.items():
                    stream.take_back(positions)
                for cursor, before in kills.items():
                    cursor.kills = before
                raise
            if isinstance(problem, MemoryLimitReached):
                log_messages.warning("slide at %d: its events were refused: %s", time, problem)
        for cursor, slide in slides.items():
            cursor.commit(slide, time)
        self.slid = slides.keys()
        self._aggregates.follow(slides, time, version)
        for graph, rows in changes:
            graph.count(rows, version)
        return Published(version, time, tuple(self._take_refused(due)))

    def _take_refused(self, due: Due) -> list[Refused]:
        """What the streams of a published slide refused; and forget what no window needs."""
        for stream in due.cursors:
            stream.unshown = None
            stream.retire()
        return self._report_refused(*due.cursors)

    def _report_refused(self, *streams: Stream) -> list[Refused]:
        reported: list[Refused] = []
        for stream in streams:
            if stream.refused:
                reported += stream.refused
                stream.refused = []
        self._counts.refused += len(reported)
        return reported + self._watermarks.take_strays()

    def _find_due(self) -> Due | None:
        """The next slide up to the watermark."""
        watermark = self._watermarks.watermark
        if watermark is None:
            return None
        due: list[tuple[int, int, WindowCursor, Stream]] = []
        for stream in self._streams.values():
            for cursor in stream.cursors:
                next_time = _find_due_time(cursor, stream)
                if next_time is not None and next_time <= watermark:
                    due.append((next_time, 0 if cursor.is_by_event else 1, cursor, stream))
        if not due:
            return None
        if len(due) == 1:
            time, _, cursor, stream = due[0]
            return Due(time, {stream: [cursor]})
        time, rank = min(each[:2] for each in due)
        group = [each for each in due if each[:2] == (time, rank)]
        if rank == 0:  # the events of several streams come one after the other
            group = [each for each in group if each[3] is group[0][3]]
        by_stream: dict[Stream, list[WindowCursor]] = {}
        for _, _, cursor, stream in group:
            by_stream.setdefault(stream, []).append(cursor)
        return Due(time, by_stream)

    def _compute(self, due: Due) -> dict[WindowCursor, Slide]:
        """Expire, judge what is due, and compute the slides of all due windows."""
        slides: dict[WindowCursor, Slide] = {}
        for stream, cursors in due.cursors.items():
            time = due.time
            lows = {c: c.expire(time) if c in cursors else c.low for c in stream.cursors}
            for edge in sorted({cursor.edge(time) for cursor in cursors}):
                if killed := stream.judge_until(edge, cursors[0].is_by_event, lows):
                    for each in stream.cursors:
                        if each in slides:
                            slides[each] = each.note_later(killed, slides[each])
                        else:
                            each.note_kills(killed, each.head, each.tail)
                for cursor in cursors:
                    if cursor.edge(time) == edge:
                        slides[cursor] = cursor.slide(time)
        return slides

    def _apply(
        self, time: int, slides: dict[WindowCursor, Slide], pauses: bool
    ) -> Preparing[tuple[list[tuple[WindowGraph, Words]], int]]:
        """Publish an epoch of slides; returns the rows of each graph, and the version's number."""
        newest = self._graphs.newest
        self._aggregates.check_room(slides)
        changes: list[tuple[WindowGraph, Words]] = []
        self._clock.begin(time)
        try:
            for graph in self._graphs.by_number.values():
                slide = slides.get(graph.cursor)
                if slide is None:
                    continue
                deleted = slide.deleted
                with graph.cursor.log.revived(deleted) if len(deleted) else nullcontext():
                    if self._reasoning.has(graph):
                        changes.append((graph, self._reasoning.slide(graph, slide, time)))
                    else:
                        changes.append((graph, graph.emit(slide, newest)))
            rows = changes[0][1] if changes else np.empty((0, 4), np.int64)
            if len(changes) > 1:
                rows = np.concatenate([rows for _, rows in changes])
            version, refused = (
                (yield from self._core.prepare(rows)) if pauses else self._core.apply(rows)
            )
        except BaseException:
            self._reasoning.undo()
            for graph, labelled in changes:
                graph.forget(labelled, newest)
            raise
        finally:
            self._clock.end()
        self._reasoning.keep()
        assert not refused, "a window removed what it had not added"
        return changes, version.number

    def _refuse_events(
        self, due: Due, slides: dict[WindowCursor, Slide]
    ) -> dict[Stream, list[int]]:
        """Refuse the events that slides add, and compute the slides again; returns the positions
        of these events.

        Where another window contains such an event already, it is removed as if deleted.
        """
        found: dict[Stream, list[int]] = {}
        for stream, cursors in due.cursors.items():
            killed = found[stream] = []
            for cursor in cursors:
                killed += stream.refuse(*slides[cursor].arrived, Reason.NO_ROOM)
            for cursor in stream.cursors:
                # Nothing arrives, so nothing that arrives has to be removed.
                cursor.kills = cursor.list_kills().tolist()
                cursor.note_kills(killed, cursor.head, cursor.tail)
            for cursor in cursors:
                slides[cursor] = cursor.slide(due.time)
        return found


def _find_due_time(cursor: WindowCursor, stream: Stream) -> int | None:
    """The time of a window's next slide; None while that is unknown."""
    if cursor.due is not None:
        return cursor.due
    if cursor.is_by_event and stream.unshown is not None:
        return stream.unshown
    if cursor.is_driven:
        return stream.pending.first_time
    return None if stream.first is None else cursor.window.first_slide(stream.first)
