"""Which windows queries use: their graphs are filled when first used, and dropped after the last.

A *stream* has pending events and a log of judged ones. A *window cursor* is one window over one
stream: two positions in its log. A *window graph* has the labels under which the events of a
cursor, optionally with the static graph, are in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import numpy as np

from triegs.errors import MemoryLimitReached, QueryError, UnsupportedQuery, WindowError
from triegs.jit.words import Words
from triegs.maintain.standing import Epoch
from triegs.sparql.lexer import Lexer, tokens
from triegs.sparql.model import Query, is_variable, name_event_graph, split_event_graph
from triegs.sparql.stream_clauses import WHOLE
from triegs.sparql.window import Window
from triegs.terms.dictionary import Dictionary
from triegs.windows.cursor import WindowCursor
from triegs.windows.outcomes import EventCounts
from triegs.windows.reasoning import Reasoning
from triegs.windows.stream import Stream
from triegs.windows.window_graphs import GraphKey, WindowGraph, WindowGraphs, read_number


class GraphCore(Protocol):
    """What window graphs need of the core."""

    def apply(self, rows: Words, is_strict: bool = False) -> Epoch: ...

    def static_rows(self) -> Iterator[tuple[tuple[int, ...], int]]: ...


class WindowUsage:
    """Counts the users of each window graph, and keeps the streams and cursors behind them.

    `default` is the window of queries without their own, `time` that of the newest epoch.
    """

    def __init__(
        self, core: GraphCore, words: Dictionary, graphs: WindowGraphs, counts: EventCounts,
        default: Window | None, reasoning: Reasoning, time: Callable[[], int | None],
    ) -> None:  # fmt: skip
        check_window(default)
        self.default = default
        self.streams: dict[str | None, Stream] = {}
        self.cursors: dict[Window, WindowCursor] = {}
        self.identities = Dictionary()
        #: Whether a graph without users remains because there was no room to drop it.
        self.has_unused = False
        #: How many aggregates read each window.
        self._aggregates: dict[Window, int] = {}
        self._core = core
        self._words = words
        self._graphs = graphs
        self._counts = counts
        self._reasoning = reasoning
        self._time = time

    def open_cursor(self, window: Window) -> WindowCursor:
        """The cursor of a window that an aggregate reads, without a graph."""
        check_window(window)
        cursor = self._make_cursor(window)
        self._aggregates[window] = self._aggregates.get(window, 0) + 1
        return cursor

    def close_cursor(self, window: Window) -> None:
        """An aggregate does not read the window any more."""
        self._aggregates[window] -= 1
        if not self._aggregates[window]:
            del self._aggregates[window]
        self._drop_cursor(window)

    def resolve(self, query: Query, window: Window | None) -> tuple[Query, list[GraphKey]]:
        """The query with a graph for each atom that reads a window, and the keys of these graphs.

        A window in the text applies to its own blocks; atoms outside read the static graph. A
        window that is given, or else the engine's, applies to the whole query, with the static
        graph.
        """
        check_window(window)
        if query.windows and window is not None:
            raise WindowError("the query has windows in its text; give it no other")
        named = dict(query.windows)
        if window is None and not named:
            window = self.default
        outside = named.pop(WHOLE, window)
        # A window that no atom reads has epochs all the same.
        keys = {name: GraphKey(each, False) for name, each in named.items()}
        if outside is not None:
            keys[WHOLE] = GraphKey(outside, True)
        windows = tuple((name, key.window) for name, key in keys.items())
        read = [split_event_graph(name) for name in query.graphs or (WHOLE,) * len(query.atoms)]
        graphs: list[str] = []
        used: dict[GraphKey, None] = {}
        for name, predicate in read:
            key = keys.get(name)
            if key is not None and predicate:
                key = GraphKey(key.window, False, predicate)
            elif predicate:
                earlier = sum(bool(each) for _, each in read[: len(graphs)])
                raise refuse_time(query, earlier)
            graphs.append("" if key is None else self._name(key))
            used |= {} if key is None else {key: None}
        for key in keys.values():
            if all(key.window != other.window for other in used):
                used[key] = None
        found = replace(query, graphs=tuple(graphs) if any(graphs) else (), windows=windows)
        return found, list(used)

    def _name(self, key: GraphKey) -> str:
        number = f"#{self._graphs.number(key)}"
        return name_event_graph(number, key.timed) if key.timed else number

    @contextmanager
    def use(self, query: Query, keys: Sequence[GraphKey]) -> Iterator[None]:
        """Open the graphs of a query while it is registered; close them if that fails."""
        self.open(keys)
        self.hold(query, 1)
        try:
            yield
        except BaseException:
            self.hold(query, -1)
            self.close(keys)
            raise

    def open(self, keys: Iterable[GraphKey]) -> None:
        """Add a user to each graph; a new one is filled from what is retained.

        Cost of a new one: its window, and the static graph if it includes that.
        """
        opened: list[GraphKey] = []
        for key in keys:
            graph = self._graphs.by_number.get(self._graphs.number(key))
            if graph is None:
                graph = self._graphs.make(key, self._make_cursor(key.window))
                try:
                    self._fill(graph)
                except BaseException:
                    self._drop(graph)
                    self.close(opened)
                    raise
            graph.uses += 1
            opened.append(key)

    def close(self, keys: Iterable[GraphKey]) -> None:
        """Remove a user from each graph; graphs without users are dropped, with their events."""
        for key in keys:
            self._graphs.by_number[self._graphs.number(key)].uses -= 1
        self.drop_unused()

    def drop_unused(self) -> None:
        """Remove the graphs without users from the core.

        Closing must not fail for lack of memory: a graph that cannot be removed stays, up to date
        and unread, until the next call.
        """
        self.has_unused = False
        for graph in [each for each in self._graphs.by_number.values() if each.uses == 0]:
            rows = self._read(graph)
            rows[:, 0] = -rows[:, 0]
            try:
                if len(rows):
                    self._core.apply(graph.translate(rows, self._graphs.newest))
            except MemoryLimitReached:
                self.has_unused = True
            else:
                self._drop(graph)

    def hold(self, query: Query, change: int) -> None:
        """Add or remove a reference to each label that a query names."""
        for atom, graph_name in zip(query.atoms, query.graphs, strict=False):
            if graph_name and not is_variable(atom.predicate):
                graph = self._graphs.by_number[read_number(graph_name)]
                predicate = self._words.encode_one(atom.predicate)
                graph.hold(predicate, change, self._graphs.newest)

    def fill_all(self, static: Words) -> None:
        """Fill the static graph and every window graph of an empty engine, in one epoch. The first
        column of `static` is the number of events. Cost: all of it.
        """
        if self._reasoning.is_used:
            self._reasoning.fill_all(static)
            return
        graphs = list(self._graphs.by_number.values())
        newest = self._graphs.newest
        labelled = []
        for graph in graphs:
            rows = [graph.read(), *([static] if graph.key.has_static else [])]
            labelled.append(graph.translate(np.concatenate(rows), newest))
        self._core.apply(np.concatenate([static, *labelled]))
        for graph, found in zip(graphs, labelled, strict=True):
            graph.count(found, self._graphs.newest)

    def _make_cursor(self, window: Window) -> WindowCursor:
        """The cursor of a window; a new one starts from what is retained."""
        cursor = self.cursors.get(window)
        if cursor is None:
            name = window.stream
            stream = self.streams.get(name)
            if stream is None:
                stream = Stream(name, self._words, self.identities, lambda: self._graphs.newest)
                self.streams[name] = stream
            cursor = WindowCursor(window, stream.log)
            begin = self._reach_newest(stream, cursor)
            self.cursors[window] = cursor
            stream.cursors.append(cursor)
            if begin is not None:
                cursor.begin_late(begin)
        return cursor

    def _reach_newest(self, stream: Stream, cursor: WindowCursor) -> int | None:
        """The time at which a new window begins: that of the newest epoch, because it cannot
        publish before that. Judges the events that it then has, if no other window of the stream
        has needed them yet: other streams may have made that epoch. None before the first event.
        """
        time = self._time()
        if (
            time is None
            or stream.first is None
            or time < stream.first
            or stream.unshown is not None
        ):
            return stream.judged
        last = cursor.window.last_slide(time)
        edge = cursor.edge(last)
        if stream.judged is None or stream.judged < edge:
            lows = {each: each.low for each in stream.cursors}
            lows[cursor] = cursor.expire(last)
            killed = stream.judge_until(edge, one=False, lows=lows)
            for each in stream.cursors:
                each.note_kills(killed, each.head, each.tail)
        return time

    def _fill(self, graph: WindowGraph) -> None:
        if self._reasoning.has(graph):
            self._reasoning.fill(graph)
            return
        rows = self._read(graph)
        if len(rows):
            labelled = graph.translate(rows, self._graphs.newest)
            self._core.apply(labelled)
            graph.count(labelled, self._graphs.newest)

    def _read(self, graph: WindowGraph) -> Words:
        """All rows of a graph, with plain predicates; the change is the number of events."""
        if self._reasoning.has(graph):
            return self._reasoning.read_graph(graph)
        rows = [graph.read()]
        if graph.key.has_static:
            static = [(count, *key) for key, count in self._core.static_rows()]
            rows.append(np.array(static, np.int64).reshape(-1, 4))
        return np.concatenate(rows)

    def _drop(self, graph: WindowGraph) -> None:
        self._reasoning.drop(graph)
        self._graphs.drop(graph)
        self._drop_cursor(graph.key.window)

    def _drop_cursor(self, window: Window) -> None:
        """Drop the cursor of a window that nothing reads."""
        cursor = self.cursors[window]
        is_read = any(each.cursor is cursor for each in self._graphs.by_number.values())
        if is_read or window in self._aggregates:
            return
        del self.cursors[window]
        self._counts.gaps += cursor.gaps
        stream = self.streams[window.stream]
        stream.cursors.remove(cursor)
        if stream.cursors:
            stream.retire()
        else:
            stream.clear()
            self._counts.repeated += stream.repeated
            del self.streams[window.stream]


def refuse_time(query: Query, earlier: int) -> QueryError:
    """The error for a pattern with a time outside a window, where events have none; `earlier` is
    the number of such patterns before it.
    """
    starts = [each.start for each in tokens(query.text) if each.text == "{|"]
    line, column = Lexer(query.text).position(starts[earlier]) if starts else (1, 1)
    return UnsupportedQuery(
        "triegs:time without a window is not supported", line=line, column=column,
        construct="time without a window",
        hint="only events of a window have a time: give the query a window, such as "
        "Window.landmark('1s'), or put the pattern into a WINDOW block",
    )  # fmt: skip


def check_window(window: object) -> None:
    if window is not None and not isinstance(window, Window):
        hint = f"; write Window({window!r})" if isinstance(window, str | int | timedelta) else ""
        raise WindowError(f"a window must be a triegs.Window, not {window!r}{hint}")
