"""Slides in one call of the kernel, which takes events from the queue of a stream, publishes the
epoch and forgets what no window needs: see `triegs.maintain.kernels.slides`.

The usual slide qualifies: windows of one stream by time, or by the number of events of a stream
without ids and deletions, whose graphs are made of events alone or with the static graph. What does
not qualify, or finds no room, is published by `triegs.windows.publication` in several calls, with
the same result.

With rules the call gets what these derive: the updates are made before, by the closure of each
graph.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from triegs.errors import MemoryLimitReached
from triegs.jit.words import Words
from triegs.maintain.at_once import SlideWords
from triegs.maintain.kernels.judging import ENTERED
from triegs.maintain.kernels.slides import (
    CURSOR,
    CURSOR_WORDS,
    CURSORS,
    DEAD,
    DUE,
    EDGE,
    EMPTY,
    END,
    FROM,
    GAPS,
    GRAPH_WORDS,
    GRAPHS,
    HEAD,
    HORIZON,
    INDEXES,
    IS_ONE,
    KEPT,
    KILLED,
    KILLS,
    KILLS_SIZE,
    LAST,
    LOW,
    MADE,
    NEEDS_LABELS,
    NEW_HEAD,
    NEW_START,
    NEW_TAIL,
    ODD,
    OTHERS,
    OUTCOME_ROOM,
    OUTCOMES,
    QUEUE,
    QUEUE_AT,
    QUEUE_END,
    QUEUE_SLOTS,
    RING,
    SIZE,
    SLIDE_WORDS,
    SLOTS,
    STAGE,
    START,
    TABLE,
    TABLE_SIZE,
    TAIL,
    TAKE,
    TAKEN,
    TO,
    UNTIL,
    take_events,
)
from triegs.store.packed import PackedVersion
from triegs.windows.cursor import NOTHING, Slide, WindowCursor
from triegs.windows.reasoning import Labelled, Reasoning
from triegs.windows.stream import NEVER, Stream
from triegs.windows.window_graphs import WindowGraph, WindowGraphs


class SlideCore(Protocol):
    """What a slide in one call needs of the core."""

    @property
    def updates(self) -> Words: ...

    def expect_slide(self, count: int) -> bool: ...

    def slide_at_once(self, slide: SlideWords) -> tuple[int, PackedVersion]: ...


class SlidesAtOnce:
    """Makes slides in one call each; `count` is their number so far."""

    def __init__(self, graphs: WindowGraphs, core: SlideCore, reasoning: Reasoning) -> None:
        self.count = 0
        self._graphs = graphs
        self._core = core
        self._reasoning = reasoning
        self._slide = SlideWords(SLIDE_WORDS + CURSOR_WORDS + GRAPH_WORDS)
        self._outcomes, self._outcomes_address = NOTHING, 0
        #: Of the windows that slide, events that they contain although they were deleted.
        self._kills: dict[WindowCursor, Words] = {}

    def publish(self, time: int, stream: Stream, cursors: list[WindowCursor]) -> int | None:
        """Slide these windows of a stream; returns the number of the version. None, with nothing
        changed, if that does not qualify.
        """
        if stream.unshown is not None:
            return None
        graphs: list[WindowGraph] = []
        for graph in self._graphs.by_number.values():
            if graph.cursor in cursors:
                if type(graph) is not WindowGraph:
                    return None
                graphs.append(graph)
        until = self._describe(time, stream, cursors, graphs)
        if until is None or (stream.is_judged and not self._describe_judging(stream, cursors)):
            return None
        version = None
        try:
            if self._reasoning.is_used:
                version = self._derive(time, cursors, graphs)
            else:
                version = self._make(stream, cursors, graphs)
        finally:
            if version is None and stream.is_judged and self._slide.told[STAGE] != TAKE:
                # What is judged stays judged, as if the slide had been tried the other way.
                self._follow_judging(stream, stream.cursors, is_published=False)
                self._follow_events(until, stream)
        if version is None:
            return None
        if stream.is_judged:
            others = [each for each in stream.cursors if each not in cursors]
            self._follow_judging(stream, others, is_published=True)
        self._follow_events(until, stream)
        self._follow(time, stream, cursors)
        self._count_labels(len(cursors), graphs, version)
        self.count += 1
        return version

    def _describe(
        self, time: int, stream: Stream, cursors: list[WindowCursor], graphs: list[WindowGraph]
    ) -> int | None:
        """Write the words of the slide; returns up to when events are due, or None if they are not
        all in the queue.
        """
        log, queue = stream.log, stream.pending.queue
        size = SLIDE_WORDS + CURSOR_WORDS * len(cursors) + GRAPH_WORDS * len(graphs)
        if size > len(self._slide.told):
            self._slide = SlideWords(2 * size)
        told = self._slide.told
        told[STAGE], told[INDEXES], told[DUE], told[KILLED] = TAKE, 0, 0, 0
        told[IS_ONE] = is_one = cursors[0].is_by_event
        told[RING], told[SLOTS] = log.address, len(log.times)
        told[KEPT], told[START], told[END] = log.kept, log.start, log.end
        told[QUEUE], told[QUEUE_SLOTS] = queue.address, queue.size
        told[QUEUE_AT], told[QUEUE_END] = queue.begin, queue.end
        told[CURSORS], told[GRAPHS] = len(cursors), len(graphs)
        until = -NEVER
        self._kills.clear()
        at = SLIDE_WORDS
        for cursor in cursors:
            edge = cursor.edge(time)
            until = max(until, edge)
            told[at + HEAD], told[at + TAIL] = head, tail = cursor.head, cursor.tail
            told[at + EDGE], told[at + LOW] = edge, cursor.expire(time)
            told[at + LAST] = 0
            if is_one:
                told[at + LAST] = cursor.window.width or 0
                if cursor.live != tail - head:
                    return None
            told[at + KILLS_SIZE] = 0
            if cursor.kills:
                kills = np.array(cursor.kills, np.int64)
                if is_one or (kills >= tail).any():
                    return None
                self._kills[cursor] = kills
                told[at + KILLS], told[at + KILLS_SIZE] = int(kills.ctypes.data), len(kills)
            at += CURSOR_WORDS
        told[UNTIL] = until
        told[OTHERS] = NEVER
        if len(stream.cursors) > len(cursors):
            told[OTHERS] = min(each.head for each in stream.cursors if each not in cursors)
        for graph in graphs:
            told[at + CURSOR] = cursors.index(graph.cursor)
            told[at + TABLE], told[at + TABLE_SIZE] = graph.address, graph.size
            at += GRAPH_WORDS
        return until if stream.pending.is_queued(until) else None

    def _describe_judging(self, stream: Stream, cursors: list[WindowCursor]) -> bool:
        """Write the words for judging events; false if they cannot be judged at once."""
        told, log, queue = self._slide.told, stream.log, stream.pending.queue
        # A window of the last n events slides by each event, so it judges them all before.
        if log.is_frozen or any(each.is_by_event for each in stream.cursors):
            return False
        low = NEVER
        for at in range(SLIDE_WORDS, SLIDE_WORDS + CURSOR_WORDS * len(cursors), CURSOR_WORDS):
            if told[at + EDGE] != told[UNTIL]:  # then there are events behind the end of a window
                return False
            low = min(low, told[at + LOW])
        low = min([low, *(each.low for each in stream.cursors if each not in cursors)])
        log.prepare(stream.known_ids, stream.has_deletions)
        due = queue.find(told[UNTIL]) - queue.begin
        if 2 * due > len(self._outcomes):
            self._outcomes = np.empty(4 * due, np.int64)
            self._outcomes_address = int(self._outcomes.ctypes.data)
        told[INDEXES], told[HORIZON] = log.indexes_address, low
        told[OUTCOMES], told[OUTCOME_ROOM] = self._outcomes_address, len(self._outcomes)
        return True

    def _make(
        self, stream: Stream, cursors: list[WindowCursor], graphs: list[WindowGraph]
    ) -> int | None:
        """Call the core; new predicates get their labels first. Returns the version."""
        found, version = self._core.slide_at_once(self._slide)
        if found == NEEDS_LABELS:
            newest = self._graphs.newest
            arriving = [self._read_predicates(graph, stream, cursors) for graph in graphs]
            try:
                at = SLIDE_WORDS + CURSOR_WORDS * len(cursors)
                for graph, predicates in zip(graphs, arriving, strict=True):
                    graph.make_labels(predicates, newest)
                    told = self._slide.told
                    told[at + TABLE], told[at + TABLE_SIZE] = graph.address, graph.size
                    at += GRAPH_WORDS
                found, version = self._core.slide_at_once(self._slide)
            except BaseException:
                for graph, predicates in zip(graphs, arriving, strict=True):
                    graph.forget_labels(predicates, newest)
                raise
        assert found <= 0, "a window removed what it had not added"
        return None if found < 0 else version.number

    def _derive(
        self, time: int, cursors: list[WindowCursor], graphs: list[WindowGraph]
    ) -> int | None:
        """As `_make`, of what rules derive."""
        core = self._core
        if not core.expect_slide(1) or take_events(self._slide.words) < 0:
            return None
        derived: Labelled = []
        version = None
        newest = self._graphs.newest
        try:
            for graph in graphs:
                slide = self._read_slide(graph.cursor, cursors)
                derived.append((graph, self._reasoning.slide(graph, slide, time)))
            if core.expect_slide(sum(len(rows) for _, rows in derived)):
                self._give(derived, SLIDE_WORDS + CURSOR_WORDS * len(cursors))
                found, newer = core.slide_at_once(self._slide)
                assert found <= 0, "rules removed what they had not added"
                version = newer.number if found == 0 else None
        except MemoryLimitReached:
            pass  # the other way says so, or has the events refused
        finally:
            if version is None:
                self._reasoning.undo()
                for graph, rows in derived:
                    graph.forget(rows, newest)
        if version is not None:
            self._reasoning.keep()
        return version

    def _read_slide(self, cursor: WindowCursor, cursors: list[WindowCursor]) -> Slide:
        """The slide of a window whose events have been taken."""
        at, told = SLIDE_WORDS + CURSOR_WORDS * cursors.index(cursor), self._slide.told
        head, tail = told[at + NEW_HEAD], told[at + NEW_TAIL]
        before, behind = told[at + HEAD], told[at + TAIL]
        killed = NOTHING
        if told[KILLED]:
            killed = self._outcomes[told[DUE] : told[DUE] + told[KILLED]]
            killed = killed[(killed >= before) & (killed < behind)]
        if cursor in self._kills:
            killed = np.concatenate([self._kills[cursor], killed])
        expired, arrived = (before, min(head, behind)), (max(head, behind), tail)
        return Slide(head, tail, told[at + LOW], 0, 0, 0, expired, arrived, killed, NOTHING)

    def _give(self, derived: Labelled, at: int) -> None:
        """Write the updates of the graphs whose words begin there."""
        told, updates, end = self._slide.told, self._core.updates, 0
        for graph, rows in derived:
            told[at + TABLE], told[at + TABLE_SIZE] = graph.address, graph.size
            told[at + FROM], told[at + TO] = end, end + rows.size
            updates[end : end + rows.size] = rows.reshape(-1)
            end += rows.size
            at += GRAPH_WORDS
        told[SIZE], told[STAGE] = end >> 2, MADE

    def _read_predicates(
        self, graph: WindowGraph, stream: Stream, cursors: list[WindowCursor]
    ) -> Words:
        """The predicates of the events that arrive in a graph; they are behind the log already."""
        at, told = SLIDE_WORDS + CURSOR_WORDS * cursors.index(graph.cursor), self._slide.told
        first = max(told[at + NEW_HEAD], told[at + TAIL])
        arrived = stream.log.find_live(first, told[at + NEW_TAIL])
        return stream.log.pick(arrived, 1)[:, 2]

    def _follow_judging(
        self, stream: Stream, cursors: list[WindowCursor], *, is_published: bool
    ) -> None:
        """Report the outcomes, and note what was deleted for windows that still contain it. If the
        slide was published, it has released the terms of events that did not enter the log.
        """
        told, log, queue = self._slide.told, stream.log, stream.pending.queue
        due, killed = told[DUE], told[KILLED]
        if told[TAKEN] < due:
            events = queue.columns.pick(slice(queue.begin, queue.begin + due))
            outcomes = self._outcomes[:due]
            if told[ODD]:
                stream.report(events, outcomes)
            if not is_published:
                stream.release_others(events, outcomes)
            elif stream.has_ids:
                stream.release_ids(events.ids[outcomes != ENTERED])
        if killed and cursors:
            positions = self._outcomes[due : due + killed].tolist()
            for cursor in cursors:
                cursor.note_kills(positions, cursor.head, cursor.tail)
        if is_published and stream.has_ids:
            stream.release_ids(log.read_ids(log.start, told[NEW_START]))
        log.count_dead(killed - told[DEAD] if is_published else killed)

    def _follow_events(self, until: int, stream: Stream) -> None:
        """The events up to a time are decided."""
        told, queue = self._slide.told, stream.pending.queue
        if due := told[DUE]:
            last = queue.read_time(queue.begin + due - 1)
            queue.drop(due)
            stream.log.end += told[TAKEN]
            for cursor in stream.cursors:
                # It slides at the time of these events, now or after the others of that time.
                if cursor.is_driven and not cursor.is_by_event:
                    cursor.due = last
        if told[IS_ONE] and stream.pending.first_time == until:
            until -= 1
        if stream.judged is None or until > stream.judged:
            stream.judged = until

    def _follow(self, time: int, stream: Stream, cursors: list[WindowCursor]) -> None:
        """The slide was published: move on its windows."""
        told = self._slide.told
        stream.log.start = told[NEW_START]
        at = SLIDE_WORDS
        for cursor in cursors:
            cursor.head, cursor.tail = head, tail = told[at + NEW_HEAD], told[at + NEW_TAIL]
            cursor.gaps += told[at + GAPS]
            if cursor.kills:
                cursor.kills = []
            if cursor.is_by_event:
                cursor.live = tail - head
            cursor.low = told[at + LOW]
            period = cursor.window.slide
            cursor.due = None if period is None else time + period
            at += CURSOR_WORDS

    def _count_labels(self, cursors: int, graphs: list[WindowGraph], version: int) -> None:
        """Free the labels of which no row is left."""
        at = SLIDE_WORDS + CURSOR_WORDS * cursors
        for graph in graphs:
            if self._slide.told[at + EMPTY]:
                first, end = self._slide.told[at + FROM], self._slide.told[at + TO]
                graph.forget(self._core.updates[first:end].reshape(-1, 4), version)
            at += GRAPH_WORDS
