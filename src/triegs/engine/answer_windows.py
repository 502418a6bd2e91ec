"""Windows over the answers that a query gains or loses, each an event at the time of its epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from triegs.aggregates.windowed.aggregation import Aggregation, Rows
from triegs.aggregates.windowed.functions import Function
from triegs.durable.aggregate_source import SavedEvents
from triegs.engine.standing_query import StandingQuery
from triegs.engine.state import EngineState
from triegs.errors import MultiplicityOverflow
from triegs.jit.words import Words
from triegs.read.snapshot import Snapshot
from triegs.sparql.window import Window
from triegs.windows.cursor import FOREVER
from triegs.windows.matching import read_values
from triegs.windows.stream_aggregates import find_grid
from triegs.windows.versioned_rows import VersionedRows

CHUNK_ROWS = 1 << 16
#: Of one step. A step with more, or with a multiplicity beyond 64 bits, is part of a later one; the
#: bound is fixed, because a log must replay alike on every machine.
MOST_EVENTS = 1 << 24


class AnswerColumns(NamedTuple):
    """What an aggregate reads of an answer: the columns of its group, the column of its value, and
    the sign of the changes that are events.
    """

    group: tuple[int, ...]
    value: int | None
    sign: int


class AnswerWindow:
    """One window over the answers of one query.

    It holds the epoch of the query that it has followed. Its groups reference their terms.
    """

    def __init__(
        self, state: EngineState, query: StandingQuery, columns: AnswerColumns,
        function: Function, window: Window,
    ) -> None:  # fmt: skip
        self.query = query
        self.window = window
        self.function = function
        self.columns = columns
        self._state = state
        self._begin()
        self._snapshot: Snapshot | None = query.snapshot()
        #: The version that the rows are of.
        self.version = state.store.newest.number
        self.rows = VersionedRows(self._read, self.version)

    def _begin(self) -> None:
        self.aggregation = Aggregation(self.function, len(self.columns.group))
        self.results = self.aggregation.add_window(find_grid(self.window))

    def _read(self) -> Rows:
        return self.results.read(self.aggregation.groups.members)

    @property
    def structure_name(self) -> str:
        return self.aggregation.structure_name

    @property
    def group_count(self) -> int:
        return int(np.count_nonzero(self.results.counts))

    @property
    def used_bytes(self) -> int:
        return self.aggregation.used_bytes + self.rows.used_bytes

    # Following

    def read_changes(self) -> Words:
        """The answers since the last epoch that are events, a column each; holds the newest epoch
        instead. The updater calls it. Cost: what changed in the answers.
        """
        old, new = self._snapshot, self.query.snapshot()
        assert old is not None
        found = []
        if new.epoch > old.epoch:
            sign, left = self.columns.sign, float(MOST_EVENTS)
            try:
                for ids, counts in new.diff(old)._columns(lambda: CHUNK_ROWS):
                    number = np.maximum(sign * counts, 0)
                    left -= number.sum(dtype=np.float64)
                    if left < 0:
                        raise MultiplicityOverflow("a step has too many events", "answer")
                    found.append(np.repeat(ids, number, axis=1))
            except MultiplicityOverflow:
                new.close()
                return np.empty((len(self.query.query.head), 0), np.int64)
        old.close()
        self._snapshot = new
        if not found:
            return np.empty((len(self.query.query.head), 0), np.int64)
        return np.concatenate(found, axis=1)

    def follow(self, answers: Words, version: int, held: list[int]) -> None:
        """Take these answers as events of a version. Cost: those, and what the window loses."""
        state = self._state
        time = state.clock.find(version)
        self.rows.begin(self.version)
        self.rows.replace(version, held)
        try:
            if time is not None:
                self._append(answers, time, version)
                self._slide(time, version)
        finally:
            self.version = version
            self.rows.end()

    def _append(self, answers: Words, time: int, version: int) -> None:
        group, value, _ = self.columns
        count = answers.shape[1]
        if count == 0:
            return
        keys = answers[list(group)].T.copy()
        values: Any = None
        usable = None
        kind = self.function.values
        if value is not None and kind is not None:
            ids = answers[value]
            is_bound = ids >= 0
            terms = self._state.dictionary.read_terms(ids[is_bound])
            values, usable = np.zeros(count, kind), np.zeros(count, np.bool_)
            values[is_bound], usable[is_bound] = read_values(terms, kind)
        times = np.full(count, time)
        fresh = self.aggregation.append(times, keys, values, usable=usable)
        self._count_terms(self.aggregation.groups.members[fresh], 1, version)

    def _slide(self, time: int, version: int) -> None:
        window = self.window
        edge = window.last_slide(time) - window.shift
        low = FOREVER if window.width is None else edge - window.width
        self.aggregation.slide(self.results, edge, low)
        self._count_terms(self.aggregation.retire(), -1, version)

    def _count_terms(self, keys: Words, change: int, version: int) -> None:
        ids = keys[keys >= 0]
        if len(ids):
            words = self._state.dictionary
            (words.acquire if change > 0 else words.release)(ids, version)

    def restart(self) -> None:
        """The engine was restored: the answers that exist now are not events."""
        if self._snapshot is not None:
            self._snapshot.close()
        self._snapshot = self.query.snapshot()
        self.version = self._state.store.newest.number
        self.rows = VersionedRows(self._read, self.version)

    # Storing

    def save(self) -> SavedEvents:
        """A copy of all events. Cost: those."""
        queue = self.aggregation.events
        events = queue.read(queue.start, queue.end)
        is_usable = events.codes >= 0
        keys = np.full((len(queue), len(self.columns.group)), -1, np.int64)
        keys[is_usable] = self.aggregation.groups.members[events.codes[is_usable]]
        return SavedEvents(
            events.times.copy(), keys, events.values.copy(), is_usable.astype(np.int64)
        )

    def load(self, saved: SavedEvents) -> None:
        """Restore the events of a window without any; terms are by the dictionary's ids."""
        version, kind = self._state.store.newest.number, self.function.values
        usable = saved.usable.astype(np.bool_)
        values = saved.values if kind is None else saved.values.view(kind)
        with self.rows.paused():
            fresh = self.aggregation.append(saved.times, saved.keys, values, usable=usable)
            self._count_terms(self.aggregation.groups.members[fresh], 1, version)
            time = self._state.clock.find(version)
            if time is not None:
                self._slide(time, version)
        self.version = version

    def compute(self, function: Function) -> None:
        """Compute another function of the same events. Cost: those."""
        saved = self.save()
        with self.rows.paused():
            self._count_terms(self._list_keys(), -1, self.version)
            self.function = function
            self._begin()
        self.load(saved)

    def _list_keys(self) -> Words:
        queue, groups = self.aggregation.events, self.aggregation.groups
        codes = queue.read(queue.start, queue.end).codes
        return groups.members[np.unique(codes[codes >= 0])]

    def close(self) -> None:
        """Release the epoch and the terms."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
            self._count_terms(self._list_keys(), -1, self._state.store.newest.number)
