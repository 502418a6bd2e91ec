"""Closures of graphs: what rules derive from the static graph and from each window, in one epoch
with what they are derived from.

Without rules, statements go to the core as they are. With rules, a closure per graph stands before
it: it takes the statements and passes on the changes of the triples that hold, stated and derived.
An event holds until it leaves its window, so a slide needs no rule to remove what leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from triegs.errors import InvalidUpdate, MemoryLimitReached, StateError
from triegs.jit.words import Words
from triegs.maintain.label_graphs import STATIC
from triegs.maintain.standing import NO_EVENT, Epoch, Refused
from triegs.reason.closure import NO_TIME_YET, Closure
from triegs.reason.kernels.layout import NO_LEAVING, STATIC_ROW
from triegs.reason.model import RuleSet
from triegs.reason.tables import Program, write_program
from triegs.sparql.window import Kind, Window
from triegs.store.packed import PackedStore
from triegs.terms.dictionary import Dictionary
from triegs.windows.cursor import FOREVER, NOTHING, Slide, WindowCursor
from triegs.windows.slide_rows import (
    LEAVES_AT_ONCE,
    LEAVES_BY_POSITION,
    LEAVES_BY_SLIDE,
    LEAVES_NEVER,
    find_leaving,
    read_slide,
)
from triegs.windows.window_graphs import WindowGraph, WindowGraphs

_NO_ROWS: Words = np.empty((0, 4), np.int64)
Labelled = list[tuple[WindowGraph, Words]]
Range = tuple[int, int]


#: Closures run without the interpreter's lock, so with rules an epoch waits for it in any case, and
#: a core that held it would only keep other threads waiting.
LONG_NS = 40_000


class ClosureCore(Protocol):
    """What closures need of the core."""

    long_ns: int

    def apply(self, rows: Words, is_strict: bool = False) -> Epoch: ...

    def count(self, subject: int, predicate: int, obj: int) -> int: ...

    def static_rows(self) -> Iterator[tuple[tuple[int, ...], int]]: ...


def describe_leaving(window: Window) -> Words:
    """For kernels, when events leave a window: of the last n events a position in the log, else the
    published time at which the window does not contain them any more.
    """
    if window.kind is Kind.TRIPLES:
        return np.array([LEAVES_BY_POSITION, 0, 0, 1])
    if window.width is None:
        return np.array([LEAVES_NEVER, NO_LEAVING, 0, 1])
    delay = window.shift + window.width
    if window.slide is None:
        return np.array([LEAVES_AT_ONCE, delay, 0, 1])
    return np.array([LEAVES_BY_SLIDE, delay, window.start, window.slide])


def find_time(cursor: WindowCursor) -> int:
    """The time of a window's last slide, as `describe_leaving` counts."""
    window = cursor.window
    if window.kind is Kind.TRIPLES:
        return cursor.head
    if cursor.low == FOREVER or window.width is None:
        return NO_TIME_YET
    return cursor.low + window.shift + window.width


def net_rows(rows: Words) -> Words:
    """Rows ``(change, s, p, o)`` with one row per triple, without those that change nothing."""
    if len(rows) == 0:
        return rows
    rows = rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 1]))]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (rows[1:, 1:] != rows[:-1, 1:]).any(axis=1)
    starts = np.flatnonzero(is_first)
    found = rows[starts]
    found[:, 0] = np.add.reduceat(rows[:, 0], starts)
    changed: Words = found[found[:, 0] != 0]
    return changed


def negate(rows: Words) -> Words:
    found = rows.copy()
    found[:, 0] = -found[:, 0]
    return found


class Reasoning:
    """The rules of an engine, and the closure of each of its graphs."""

    def __init__(
        self, core: ClosureCore, words: Dictionary, store: PackedStore, graphs: WindowGraphs
    ) -> None:
        self.rules = RuleSet()
        self._core = core
        self._words = words
        self._store = store
        self._graphs = graphs
        self._program: Program | None = None
        self._constants: list[int] = []
        self._closures: dict[int, Closure] = {}
        #: The closures that the current epoch has changed.
        self._open: list[Closure] = []
        self._is_bounded = True
        self._leaving: dict[Window, Words] = {}
        #: What queries see of changed triples, if not all: see `triegs.spark.partitioned.owned`.
        self.select: Callable[[Words], Words] | None = None
        # Rows that leave have no time here, but must not look like static statements.
        self._rows, self._leaves = np.empty(256, np.int64), np.zeros(64, np.int64)

    @property
    def is_used(self) -> bool:
        return self._program is not None

    # Rules

    def load(self, rules: RuleSet) -> None:
        """Add rules, and publish what they derive. Cost: the closures, which are derived again."""
        wanted = self.rules + rules
        if wanted == self.rules:
            return
        constants = [self._words.encode_one(term) for term in wanted.constants]
        # Held before the epoch is published, which frees terms that nothing refers to.
        self._words.acquire(constants, self._graphs.newest)
        program = write_program(wanted, self._words.encode_one)
        static = self.read_static()
        before = {number: self._read_shown(number) for number in [STATIC, *self._list_graphs()]}
        saved = self._program, self._closures
        self._program, self._closures = program, {}
        changes: list[Words] = []
        labelled: Labelled = []
        try:
            shown = self._fill_static(static)
            changes.append(net_rows(np.concatenate([negate(before[STATIC]), shown])))
            for number, graph in self._list_graphs().items():
                shown = self._fill_graph(graph, static)
                rows = net_rows(np.concatenate([negate(before[number]), shown]))
                labelled.append((graph, graph.translate(rows, self._graphs.newest)))
            version = self._publish(changes, labelled)
        except BaseException:
            self.undo()
            for graph, rows in labelled:
                graph.forget(rows, self._graphs.newest)
            self._program, self._closures = saved
            self._words.release(constants, self._graphs.newest)
            raise
        self._words.release(self._constants, version)
        self._constants, self.rules = constants, wanted
        self._core.long_ns = LONG_NS

    def _list_graphs(self) -> dict[int, WindowGraph]:
        """The window graphs that have a closure; events with their times have none."""
        return {n: graph for n, graph in self._graphs.by_number.items() if not graph.key.timed}

    def has(self, graph: WindowGraph) -> bool:
        """Whether rules apply to a graph."""
        return self._program is not None and not graph.key.timed

    # Statements

    def apply_static(self, rows: Words, is_strict: bool) -> Epoch:
        """An epoch of the static graph, which every window's closure takes part in."""
        labelled: Labelled = []
        try:
            self._is_bounded = bool((rows[:, 0] > 0).any())
            change = self._run(STATIC, rows, None, None)
            refused = tuple(Refused(row, NO_EVENT) for row in change[1])
            if refused and is_strict:
                message = f"{len(refused)} updates of a strict epoch were invalid"
                raise InvalidUpdate(f"{message}; nothing changed", refused)
            kept = np.delete(rows, change[1], axis=0) if refused else rows
            for number, graph in self._list_graphs().items():
                found = self._run(number, kept, None, None)[0]
                labelled.append((graph, graph.translate(found, self._graphs.newest)))
            version, _ = self._core.apply(_join([change[0], *(rows for _, rows in labelled)]))
        except BaseException:
            self.undo()
            for graph, found in labelled:
                graph.forget(found, self._graphs.newest)
            raise
        self.keep()
        for graph, found in labelled:
            graph.count(found, version.number)
        return Epoch(version, refused)

    def slide(self, graph: WindowGraph, slide: Slide, time: int) -> Words:
        """The changes of a graph when its window slides, with its labels; `keep` or `undo` follows.

        Cost: the events that arrive, with what they derive, and what leaves.
        """
        cursor = graph.cursor
        (arrived, end), now = slide.arrived, time
        if cursor.is_by_event:
            now = slide.head
        rows, leaves = self._read(cursor, slide.expired, slide.single, slide.arrived)
        self._is_bounded = end > arrived
        found, refused = self._run(graph.number, rows, leaves, now)
        assert not refused, "a window removed what it had not added"
        return graph.translate(found, self._graphs.newest)

    def _read(
        self, cursor: WindowCursor, expired: Range, single: Words, arrived: Range
    ) -> tuple[Words, Words]:
        """The rows that leave a window and those that arrive, and when these leave."""
        size = max(0, expired[1] - expired[0]) + len(single) + max(0, arrived[1] - arrived[0])
        if len(self._leaves) < size:
            self._rows = np.empty(8 * size, np.int64)
            self._leaves = np.zeros(2 * size, np.int64)
        leaving = self._leaving.get(cursor.window)
        if leaving is None:
            leaving = self._leaving[cursor.window] = describe_leaving(cursor.window)
        log = cursor.log
        count = read_slide(
            log.times, log.rows, *expired, single, *arrived, leaving, self._rows, self._leaves
        )
        return self._rows[:count].reshape(-1, 4), self._leaves

    def keep(self) -> None:
        """The epoch was published."""
        for closure in self._open:
            closure.keep()
        self._open.clear()

    def undo(self) -> None:
        """The epoch failed: every closure is as before it."""
        for closure in self._open:
            closure.undo()
        self._open.clear()

    def _run(
        self, number: int, rows: Words, leaves: Words | None, time: int | None
    ) -> tuple[Words, list[int]]:
        closure = self._closures[number]
        self._open.append(closure)
        found, refused = closure.change(np.ascontiguousarray(rows), leaves, time)
        return (found if self.select is None else self.select(found)), refused

    def _publish(self, static: Iterable[Words], labelled: Labelled) -> int:
        """Publish an epoch of changes; the closures follow."""
        newest = self._graphs.newest
        try:
            version, _ = self._core.apply(_join([*static, *(rows for _, rows in labelled)]))
        except BaseException:
            self.undo()
            for graph, rows in labelled:
                graph.forget(rows, newest)
            raise
        self.keep()
        for graph, rows in labelled:
            graph.count(rows, version.number)
        return version.number

    # Graphs

    def fill(self, graph: WindowGraph) -> None:
        """Derive the closure of a new graph, and publish it. Cost: the closure."""
        try:
            rows = graph.translate(self._fill_graph(graph, self.read_static()), self._graphs.newest)
            self._publish([], [(graph, rows)])
        except BaseException:
            self.undo()
            self._closures.pop(graph.number, None)
            raise

    def fill_all(self, static: Words) -> None:
        """Derive the closures of all graphs of an empty engine, in one epoch."""
        # What the rules' own facts derive is published, since rules are loaded before.
        before = {number: negate(self._read_shown(number)) for number in self._closures}
        shown = self._fill_static(static)
        changes = [before[STATIC], shown]
        labelled: Labelled = []
        for number, graph in self._list_graphs().items():
            rows = np.concatenate([before[number], self._fill_graph(graph, static)])
            labelled.append((graph, graph.translate(rows, self._graphs.newest)))
        for graph in self._graphs.by_number.values():
            if graph.key.timed:
                labelled.append((graph, graph.translate(graph.read(), self._graphs.newest)))
        self._publish(changes, labelled)

    def read_graph(self, graph: WindowGraph) -> Words:
        """All triples of a graph that has a closure, as rows ``(weight, s, p, o)``."""
        return self._read_shown(graph.number)

    def drop(self, graph: WindowGraph) -> None:
        """Forget the closure of a graph, if it has one."""
        self._closures.pop(graph.number, None)

    def _fill_static(self, static: Words) -> Words:
        self._make(STATIC, shows_static=True)
        return self._run(STATIC, static, None, None)[0].copy()

    def _fill_graph(self, graph: WindowGraph, static: Words) -> Words:
        self._make(graph.number, shows_static=graph.key.has_static)
        cursor = graph.cursor
        live, leaving = self._read(cursor, (0, 0), NOTHING, (cursor.head, cursor.tail))
        leaves = leaving[: len(live)]
        if cursor.kills:  # deleted since the last slide: the window contains them until the next
            killed = cursor.list_kills()
            live = np.concatenate([live, cursor.log.pick(killed, 1)])
            times, known = cursor.log.read_times(killed), self._leaving[cursor.window]
            pairs = zip(killed.tolist(), times.tolist(), strict=True)
            later = [find_leaving(position, time, known) for position, time in pairs]
            leaves = np.concatenate([leaves, np.array(later, np.int64)])
        rows = np.concatenate([live, static])
        leaves = np.concatenate([leaves, np.full(len(static), STATIC_ROW)])
        return self._run(graph.number, rows, leaves, find_time(cursor))[0].copy()

    def _make(self, number: int, *, shows_static: bool) -> None:
        assert self._program is not None
        self._is_bounded = True
        self._closures[number] = Closure(self._program, self._check_room, shows_static=shows_static)

    def _check_room(self, more: int) -> None:
        """Raise `MemoryLimitReached` if closures may not grow by so many bytes. What only removes
        is never refused.
        """
        limit = self._store.current_limit
        if limit is None or not self._is_bounded:
            return
        used = self._store.statistics()
        needed = used.used_bytes + self.used_bytes + more
        if needed > limit:
            raise MemoryLimitReached(
                f"the facts of rules and the graph need {needed:,} bytes: no room under "
                f"{limit:,} bytes"
            )

    # Reading

    @property
    def used_bytes(self) -> int:
        return sum(closure.bytes for closure in self._closures.values())

    def count(self, subject: int, predicate: int, obj: int) -> int:
        """The number of static statements of a triple."""
        closure = self._closures.get(STATIC)
        if closure is None:
            return self._core.count(subject, predicate, obj)
        return closure.count(subject, predicate, obj)

    def read_static(self) -> Words:
        """The static statements, as rows ``(count, s, p, o)``. Cost: all of them."""
        closure = self._closures.get(STATIC)
        if closure is not None:
            return closure.read_stated()
        found = [(count, *key) for key, count in self._core.static_rows()]
        return np.array(found, np.int64).reshape(-1, 4)

    def _read_shown(self, number: int) -> Words:
        """The triples of a graph as the core has them."""
        closure = self._closures.get(number)
        if closure is not None:
            shown = closure.read_shown()
            return shown if self.select is None else self.select(shown)
        if number == STATIC:
            return self.read_static()
        graph = self._graphs.by_number[number]
        rows = [graph.read(), *([self.read_static()] if graph.key.has_static else [])]
        return np.concatenate(rows)

    def read_facts(self, predicate: str, graph: WindowGraph | None) -> Words:
        """The facts of a named predicate, one row of ids each. Cost: the closure."""
        program = self._program
        if program is None or predicate not in program.predicates:
            known = ", ".join(program.predicates[1:]) if program else ""
            hint = f"they have {known}" if known else "they name none"
            raise StateError(f"the rules have no predicate {predicate!r}; {hint}")
        closure = self._closures[STATIC if graph is None else graph.number]
        return closure.read_facts(program.predicates.index(predicate))

    def measure(self) -> dict[str, Any]:
        """The ``rules`` figures of `triegs.Engine.metrics`."""
        found: Mapping[str, int] = {}
        for closure in list(self._closures.values()):
            more = closure.measure()
            found = {name: found.get(name, 0) + count for name, count in more.items()}
        return {"rules": len(self.rules.rules), "closures": len(self._closures), **found}


def _join(rows: list[Words]) -> Words:
    if not rows:
        return _NO_ROWS
    return rows[0] if len(rows) == 1 else np.concatenate(rows)
