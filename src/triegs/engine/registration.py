"""Registering and closing queries."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from itertools import count
from time import monotonic

import numpy as np

from triegs.compiler import compile_query
from triegs.durable.journal import Kind
from triegs.durable.source import QuerySource
from triegs.engine.standing_query import StandingQuery
from triegs.engine.state import EngineState
from triegs.errors import LogFailed, QueryWarning, StateError
from triegs.maintain.standing import RegisteredPlan
from triegs.options import check_name
from triegs.sparql import Query
from triegs.sparql.model import is_variable
from triegs.sparql.window import read_span


class Registration:
    """Adds standing queries to an engine and removes them."""

    def __init__(self, state: EngineState) -> None:
        self.queries: dict[str, StandingQuery] = {}
        self._state = state

    def register(
        self,
        source: QuerySource,
        *,
        refuse_patterns: bool = True,
        time_limit: str | int | timedelta | None = None,
    ) -> StandingQuery:
        """Compile a query, fill its views, publish. The text is parsed and compiled before the
        engine is locked, so that another thread's epochs continue.
        """
        deadline = None if time_limit is None else monotonic() + read_span(time_limit) / 1000
        state = self._state
        name = source.name
        if name is not None:
            check_name(name)
        parsed = source.parse(refuse_patterns=refuse_patterns)
        query, graph_keys = state.windows.resolve(parsed, source.window)
        plan = compile_query(query, root=source.root, keep=list(source.keep))
        with state.update():
            if name is None:
                numbered = (f"query{number}" for number in count(len(self.queries) + 1))
                name = next(each for each in numbered if each not in self.queries)
            elif name in self.queries:
                raise StateError(f"a query {name!r} is already registered")
            source, begun = source._replace(name=name), state.epoch
            constants = [state.dictionary.encode_one(term) for term in list_constants(query)]
            try:
                with self._record(source, constants), state.windows.use(query, graph_keys):
                    state.store.deadline = deadline
                    try:
                        registered = state.core.register(plan)
                    finally:
                        state.store.deadline = None
                state.dictionary.acquire(constants, state.store.newest.number)
            except BaseException:
                self._keep_epoch(begun)
                raise
            finally:
                state.free_terms()
            found = StandingQuery(state, self.queries, self._close, source, query, registered)
            found._constants, found._graph_keys = constants, graph_keys
            self.queries[name] = found
            state.end_epoch()
            return found

    def _keep_epoch(self, begun: int) -> None:
        """A query was refused: if filling its window had published epochs, log their number."""
        state = self._state
        if state.journal is not None and state.epoch > begun:
            with suppress(LogFailed):  # then the next record has it
                state.journal.note_epoch(state.epoch)

    def _close(self, query: StandingQuery, registered: RegisteredPlan) -> None:
        """Drop what only this query used, and publish."""
        state = self._state
        with state.update(), state.record(Kind.CLOSE, name=query.name):
            for emitter in query._emitters:
                emitter.close()
            state.aggregating.drop_query(query.name)
            state.core.release(registered)
            state.windows.release(query.query, query._graph_keys)
            state.dictionary.release(query._constants, state.store.newest.number)
            state.free_terms()
            del self.queries[query.name]
            state.end_epoch()
            state.publications.announce()

    def _record(self, source: QuerySource, constants: list[int]) -> AbstractContextManager[None]:
        journal = self._state.journal
        if journal is None:
            return nullcontext()
        columns = journal.define(np.array(constants, np.int64))
        return journal.record(Kind.REGISTER, self._state.epoch, source.write(), columns)


def warn_about(query: Query, stacklevel: int) -> None:
    """Issue the query's warnings as `QueryWarning`, attributed to a caller that many frames up."""
    for message in query.warnings:
        warnings.warn(message, QueryWarning, stacklevel)


def list_constants(query: Query) -> list[str]:
    """The terms that the query's atoms and VALUES rows name."""
    terms = [term for atom in query.atoms for term in atom if not is_variable(term)]
    return terms + [term for block in query.values for row in block.rows for term in row]
