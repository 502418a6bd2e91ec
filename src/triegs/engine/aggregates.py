"""Making and closing window aggregates, following the answers of queries, and recovery."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any, get_args

import numpy as np

from triegs.aggregates.swag.operators import Operator
from triegs.aggregates.windowed.functions import (
    NAMES,
    Function,
    Method,
    NumbersName,
    find_function,
)
from triegs.durable.aggregate_source import AggregateSource, SavedEvents
from triegs.durable.journal import Kind
from triegs.durable.source import QuerySource
from triegs.engine.aggregate_options import AggregateOptions
from triegs.engine.answer_windows import AnswerColumns, AnswerWindow
from triegs.engine.standing_query import StandingQuery
from triegs.engine.state import EngineState
from triegs.engine.window_aggregate import WindowAggregate
from triegs.errors import BadOption, StateError, WindowError
from triegs.options import check_name, check_word
from triegs.read.changes import refuse_limits
from triegs.sparql.window import Window
from triegs.windows.matching import Pattern, read_pattern
from triegs.windows.stream_aggregates import AggregateWindow, find_grid
from triegs.windows.usage import check_window

CHANGES = ("ISTREAM", "DSTREAM")


class Aggregates:
    """The window aggregates of one engine, by name."""

    def __init__(self, state: EngineState, queries: Mapping[str, StandingQuery]) -> None:
        self._state = state
        self._queries = queries
        self._answers: list[AnswerWindow] = []

    # Making

    def aggregate_stream(self, pattern: str, options: AggregateOptions) -> WindowAggregate:
        window = options.window or self._state.windows.usage.default
        source = self._describe(pattern, None, options, window, CHANGES[0])
        return self.make(source, options.function)

    def aggregate_answers(
        self, query: StandingQuery, options: AggregateOptions, changes: str
    ) -> WindowAggregate:
        check_word("changes", changes, CHANGES)
        if self._queries.get(query.name) is not query:
            raise StateError(f"the query {query.name!r} is closed")
        refuse_limits(query.query)
        operator = options.function
        if isinstance(operator, Operator) and not operator.commutative:
            raise BadOption(
                f"the operator {operator.name!r} must be commutative: the answers of one epoch "
                "have no order"
            )
        source = self._describe(None, query.name, options, options.window, changes)
        return self.make(source, options.function)

    def _describe(
        self, pattern: str | None, query: str | None, options: AggregateOptions,
        window: Window | None, changes: str,
    ) -> AggregateSource:  # fmt: skip
        """The options of an aggregate, checked."""
        function, value, numbers = options.function, options.value, options.numbers
        if window is None:
            raise WindowError("an aggregate needs a window: Window('10m', slide='1m')")
        check_window(window)
        find_grid(window)
        check_word("numbers", numbers, get_args(NumbersName))
        if isinstance(function, Operator):
            name = function.name
            numbers = "double" if function.values is np.float64 else "integer"
        else:
            check_word("function", function, NAMES)
            name = function
        if value is None and (function != "count"):
            raise BadOption(f"{name} needs value=, the variable whose values are aggregated")
        group = (options.group,) if isinstance(options.group, str) else tuple(options.group)
        marked = tuple(map(mark_variable, group))
        if len(set(marked)) < len(marked):
            raise BadOption(f"a variable is given twice: {', '.join(marked)}")
        return AggregateSource(
            pattern, query, marked, name, None if value is None else mark_variable(value),
            numbers, window, self._name(options.name), dict(self._state.prefixes),
            isinstance(function, Operator), changes,
        )  # fmt: skip

    def _name(self, name: str | None) -> str:
        known = self._state.aggregates
        if name is None:
            numbered = (f"aggregate{number}" for number in count(len(known) + 1))
            return next(each for each in numbered if each not in known)
        check_name(name)
        found = known.get(name)
        if found is not None and found._function is not None:
            raise StateError(f"an aggregate {name!r} already exists")
        return name

    def make(self, source: AggregateSource, given: str | Operator | None = None) -> WindowAggregate:
        """Make an aggregate, log it, and aggregate what the window has. An aggregate of a directory
        that lacks its operator takes it from here.
        """
        state = self._state
        pattern = None if source.pattern is None else read_source(source)
        function = find_source_function(source, given)
        with state.update():
            detached = state.aggregates.get(source.name)
            if detached is not None:
                return self._attach(detached, source, pattern, function)
            terms = [] if pattern is None else pattern.constants
            constants = [state.dictionary.encode_one(term) for term in terms]
            try:
                with self._record(source, constants):
                    window = self._open(source, pattern, function)
                state.dictionary.acquire(constants, state.store.newest.number)
            finally:
                state.free_terms()
            found = WindowAggregate(state, source, self._close, window, function)
            found._constants = constants
            state.aggregates[source.name] = found
        return found

    def _record(
        self, source: AggregateSource, constants: list[int]
    ) -> AbstractContextManager[None]:
        journal = self._state.journal
        if journal is None:
            return nullcontext()
        columns = journal.define(np.array(constants, np.int64))
        return journal.record(Kind.AGGREGATE, self._state.epoch, source.write(), columns)

    def _open(
        self, source: AggregateSource, pattern: Pattern | None, function: Function | None
    ) -> AggregateWindow | AnswerWindow:
        state = self._state
        if function is None:  # its events are collected until the operator is there
            kind = np.float64 if source.numbers == "double" else np.int64
            function = Function(source.function, Method.COUNTS, kind)
        if pattern is not None:
            return state.windows.aggregates.open(pattern, function, source.window)
        query = self._queries[str(source.query)]
        columns = find_columns(query, source)
        window = AnswerWindow(state, query, columns, function, source.window)
        self._answers.append(window)
        return window

    def _attach(
        self, found: WindowAggregate, source: AggregateSource, pattern: Pattern | None,
        function: Function | None,
    ) -> WindowAggregate:  # fmt: skip
        """Give an aggregate of a directory its operator."""
        if source._replace(prefixes=found._source.prefixes) != found._source or function is None:
            raise StateError(
                f"the directory has another aggregate {source.name!r}: {found._source}"
            )
        window = found._window
        if isinstance(window, AnswerWindow):
            window.compute(function)
        else:
            assert pattern is not None
            streams = self._state.windows.aggregates
            found._window = streams.open(pattern, function, source.window)
            streams.close(window)
        found._function = function
        return found

    # Closing

    def _close(self, aggregate: WindowAggregate) -> None:
        state = self._state
        with state.update(), state.record(Kind.CLOSE_AGGREGATE, name=aggregate.name):
            self._drop(aggregate)
            state.free_terms()

    def _drop(self, aggregate: WindowAggregate) -> None:
        state, window = self._state, aggregate._window
        del state.aggregates[aggregate.name]
        if isinstance(window, AnswerWindow):
            self._answers.remove(window)
            window.close()
        else:
            state.windows.aggregates.close(window)
        state.dictionary.release(aggregate._constants, state.store.newest.number)

    def drop_query(self, name: str) -> None:
        """A query is being closed: drop the aggregates over its answers."""
        for aggregate in list(self._state.aggregates.values()):
            if aggregate._source.query == name:
                self._drop(aggregate)

    def end(self) -> None:
        """The engine is closed: release the held epochs."""
        for window in self._answers:
            window.close()
        self._answers.clear()

    # Answers

    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    def follow_answers(self) -> None:
        """An epoch was published: take the new answers as events. The updater calls it. Cost: what
        changed in the answers.
        """
        state = self._state
        version = state.store.newest.number
        behind = [window for window in self._answers if window.version < version]
        if not behind:
            return
        found = [window.read_changes() for window in behind]
        held = state.store.held()
        for window, answers in zip(behind, found, strict=True):
            window.follow(answers, version, held)
        windows = state.windows.aggregates
        windows.other_bytes = sum(window.used_bytes for window in self._answers)

    # Recovery

    def list_sources(self) -> list[dict[str, Any]]:
        return [each._source.write() for each in self._state.aggregates.values()]

    def save_answers(self) -> dict[str, SavedEvents]:
        """The events of the aggregates over answers, by name; those of streams are in the log."""
        return {
            name: each._window.save()
            for name, each in self._state.aggregates.items()
            if isinstance(each._window, AnswerWindow)
        }

    def restore(self, saved: Mapping[str, SavedEvents]) -> None:
        """Streams, graph and clock were restored: compute the results again."""
        self._state.windows.aggregates.rebuild_all()
        for each in self._state.aggregates.values():
            if isinstance(each._window, AnswerWindow):
                each._window.restart()
                if each.name in saved:
                    each._window.load(saved[each.name])


def mark_variable(name: str) -> str:
    """A variable with its question mark."""
    if not isinstance(name, str):
        raise BadOption(f"a variable must be a str such as '?x', not {name!r}")
    return name if name.startswith("?") else f"?{name}"


def read_source(source: AggregateSource) -> Pattern:
    """The pattern of a source; raises `QueryError` or `BadOption`."""
    text = f"SELECT * {{ {source.pattern} }}"
    query = QuerySource(text, None, None, (), None, source.prefixes).parse()
    return read_pattern(query, source.group, source.value)


def find_source_function(source: AggregateSource, given: str | Operator | None) -> Function | None:
    """The function of a source; None if it needs an operator that is not given."""
    if isinstance(given, Operator):
        return find_function(given, source.numbers)
    return None if source.is_custom else find_function(source.function, source.numbers)


def find_columns(query: StandingQuery, source: AggregateSource) -> AnswerColumns:
    """Which columns of a query's answers a source reads."""
    head = query.query.head
    if query.query.grouping is not None:
        raise BadOption("the answers of a query with aggregates cannot be aggregated again")
    for name in (*source.group, *(() if source.value is None else (source.value,))):
        if name not in head:
            raise BadOption(f"the query has no column {name}; its columns are {', '.join(head)}")
    value = None if source.value is None else head.index(source.value)
    sign = 1 if source.changes == "ISTREAM" else -1
    return AnswerColumns(tuple(map(head.index, source.group)), value, sign)
