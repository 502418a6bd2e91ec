"""Slides in one call of the kernel, which takes events from the queue of a stream, publishes the
epoch and forgets what no window needs: see `triegs.maintain.kernels.slides`.

The usual slide qualifies: windows of one stream whose events have no ids and are not deleted, and
whose graphs are made of events alone or with the static graph. What does not qualify, or finds no
room, is published by `triegs.windows.publication` in several calls, with the same result.
"""

from __future__ import annotations

from typing import Protocol

from triegs.jit.words import Words
from triegs.maintain.at_once import SlideWords
from triegs.maintain.kernels.slides import (
    CURSOR,
    CURSOR_WORDS,
    CURSORS,
    EDGE,
    EMPTY,
    END,
    FROM,
    GAPS,
    GRAPH_WORDS,
    GRAPHS,
    HEAD,
    IS_ONE,
    KEPT,
    LAST,
    LOW,
    NEEDS_LABELS,
    NEW_HEAD,
    NEW_START,
    NEW_TAIL,
    OTHERS,
    QUEUE,
    QUEUE_AT,
    QUEUE_END,
    QUEUE_SLOTS,
    RING,
    SLIDE_WORDS,
    SLOTS,
    START,
    TABLE,
    TABLE_SIZE,
    TAIL,
    TAKEN,
    TO,
    UNTIL,
)
from triegs.store.packed import PackedVersion
from triegs.windows.cursor import WindowCursor
from triegs.windows.stream import NEVER, Stream
from triegs.windows.window_graphs import WindowGraph, WindowGraphs


class SlideCore(Protocol):
    """What a slide in one call needs of the core."""

    @property
    def updates(self) -> Words: ...

    def slide_at_once(self, slide: SlideWords) -> tuple[int, PackedVersion]: ...


class SlidesAtOnce:
    """Makes slides in one call each; `count` is their number so far."""

    def __init__(self, graphs: WindowGraphs, core: SlideCore) -> None:
        self.count = 0
        self._graphs = graphs
        self._core = core
        self._slide = SlideWords(SLIDE_WORDS + CURSOR_WORDS + GRAPH_WORDS)

    def publish(self, time: int, stream: Stream, cursors: list[WindowCursor]) -> int | None:
        """Slide these windows of a stream; returns the number of the version. None, with nothing
        changed, if that does not qualify.
        """
        if (
            stream.has_ids or stream.has_deletions or stream.log.has_dead
            or stream.unshown is not None
        ):  # fmt: skip
            return None
        graphs: list[WindowGraph] = []
        for graph in self._graphs.by_number.values():
            if graph.cursor in cursors:
                if type(graph) is not WindowGraph:
                    return None
                graphs.append(graph)
        until = self._describe(time, stream, cursors, graphs)
        if until is None:
            return None
        version = self._make(stream, cursors, graphs)
        if version is None:
            return None
        self._follow(time, until, stream, cursors)
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
        told[IS_ONE] = is_one = cursors[0].is_by_event
        told[RING], told[SLOTS] = log.address, len(log.times)
        told[KEPT], told[START], told[END] = log.kept, log.start, log.end
        told[QUEUE], told[QUEUE_SLOTS] = queue.address, queue.size
        told[QUEUE_AT], told[QUEUE_END] = queue.begin, queue.end
        told[CURSORS], told[GRAPHS] = len(cursors), len(graphs)
        until = -NEVER
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
            if cursor.kills:
                return None
            at += CURSOR_WORDS
        told[UNTIL] = until
        told[OTHERS] = NEVER
        if len(stream.cursors) > len(cursors):
            others = [each for each in stream.cursors if each not in cursors]
            if any(each.kills for each in others):
                return None
            told[OTHERS] = min(each.head for each in others)
        for graph in graphs:
            told[at + CURSOR] = cursors.index(graph.cursor)
            told[at + TABLE], told[at + TABLE_SIZE] = graph.address, graph.size
            at += GRAPH_WORDS
        return until if stream.pending.is_queued(until) else None

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

    def _read_predicates(
        self, graph: WindowGraph, stream: Stream, cursors: list[WindowCursor]
    ) -> Words:
        """The predicates of the events that arrive in a graph; they are behind the log already."""
        at, told = SLIDE_WORDS + CURSOR_WORDS * cursors.index(graph.cursor), self._slide.told
        first = max(told[at + NEW_HEAD], told[at + TAIL])
        return stream.log.read(first, told[at + NEW_TAIL], 1)[:, 2]

    def _follow(self, time: int, until: int, stream: Stream, cursors: list[WindowCursor]) -> None:
        """The slide was published: move on the stream and its windows."""
        told, log = self._slide.told, stream.log
        if taken := told[TAKEN]:
            stream.pending.queue.drop(taken)
            log.end += taken
            for cursor in stream.cursors:
                # It slides at the time of these events, now or after the others of that time.
                if cursor.is_driven and not cursor.is_by_event:
                    cursor.due = log.last_time
        log.start = told[NEW_START]
        if told[IS_ONE] and stream.pending.first_time == until:
            until -= 1
        if stream.judged is None or until > stream.judged:
            stream.judged = until
        at = SLIDE_WORDS
        for cursor in cursors:
            cursor.head, cursor.tail = head, tail = told[at + NEW_HEAD], told[at + NEW_TAIL]
            cursor.gaps += told[at + GAPS]
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
