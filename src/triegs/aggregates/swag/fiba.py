"""Windows over events out of order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.groups import GroupedWindows, cast_words
from triegs.aggregates.swag.kernels import eviction, insertion, ranges, tree
from triegs.jit.words import Words


class Fiba(GroupedWindows):
    """A finger B-tree: events in any order of time, ranges of time, evictions in bulk.

    Inserting costs a logarithm of the distance to the nearer end of the window, amortised constant
    for events in order; evicting any number of events a logarithm of it; querying all of the window
    is constant after an insertion at its end. Events with equal times are combined in order of
    arrival.

    >>> from triegs.aggregates.swag.operators import SUM
    >>> window = Fiba(SUM)
    >>> window.insert([5, 1, 3], [10, 30, 20])
    >>> window.query(), window.query_range(1, 5)
    (60, 30)
    >>> window.evict_until(3)
    >>> window.query()
    10
    """

    modules = (tree, insertion, eviction, ranges)

    def _clear_headers(self, headers: npt.NDArray[np.int64]) -> None:
        headers[:] = 0

    def insert(
        self, times: npt.ArrayLike, values: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> None:
        """Insert events; without `groups`, into group 0. Runs that are sorted by time within a
        group are inserted in bulk, so it pays to sort a batch.
        """
        moments, lifted = cast_words(times), self.operator.cast(values)
        if len(moments) != len(lifted):
            raise ValueError(f"{len(moments)} times for {len(lifted)} values")
        self._insert(self._kernels.insert_rows, moments, lifted, 1, groups)

    def insert_states(
        self, times: npt.ArrayLike, states: Words, groups: npt.ArrayLike | None = None
    ) -> None:
        """Insert states like events: partial aggregates of other windows, a row of words each."""
        moments = cast_words(times)
        if states.shape != (len(moments), self.operator.width):
            raise ValueError(f"states of shape {states.shape} for {len(moments)} times")
        flat = np.ascontiguousarray(states).reshape(-1)
        self._insert(self._kernels.insert_states, moments, flat, self.operator.width, groups)

    def _insert(
        self,
        kernel: Any,
        times: Words,
        column: npt.NDArray[Any],
        width: int,
        groups: npt.ArrayLike | None,
    ) -> None:
        chosen = self._check_groups(groups, len(times))
        done = 0
        while done < len(times):
            done += kernel(
                self._words, self._headers, chosen[done:], times[done:], column[done * width :]
            )
            if done < len(times):
                self._grow()

    def slide(
        self,
        times: npt.ArrayLike,
        values: npt.ArrayLike,
        width: int,
        *,
        group: int = 0,
        query: bool = False,
    ) -> Words | None:
        """Insert events one by one; after each, evict those at or before the newest time minus
        `width`. An event that is so late itself has no effect.

        With `query`, returns the state after each event, a row of words each.
        """
        if width <= 0:
            raise ValueError(f"the width of a window must be positive, not {width}")
        at = self._get_header(group)
        moments, lifted = cast_words(times), self.operator.cast(values)
        if len(moments) != len(lifted):
            raise ValueError(f"{len(moments)} times for {len(lifted)} values")
        rows = len(moments) if query else 0
        out = np.empty((rows, self.operator.width), np.int64)
        done = 0
        while done < len(moments):
            done += self._kernels.slide_rows(
                self._words, self._headers, at, moments[done:], lifted[done:], width,
                out[done:].reshape(-1),
            )  # fmt: skip
            if done < len(moments):
                self._grow()
        return out if query else None

    def evict_until(self, time: int) -> None:
        """Evict the events of all groups at or before a time. Visits each group."""
        self._kernels.evict_until(self._words, self._headers, self.groups, time)

    def evict(self, times: npt.ArrayLike, groups: npt.ArrayLike) -> None:
        """For each row, evict the events of its group at or before a time."""
        moments = cast_words(times)
        chosen = self._check_groups(groups, len(moments))
        self._kernels.evict_rows(self._words, self._headers, chosen, moments)

    def is_empty(self, group: int = 0) -> bool:
        return int(self._headers[self._get_header(group) + tree.ROOT]) == 0

    def query(self, group: int = 0) -> Any:
        """The aggregate of the window, lowered; that of the identity if it is empty."""
        return self._lower(self.query_states([group])[0])

    def query_states(self, groups: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """The states of some groups, by default all: a row of words each."""
        chosen = np.arange(self.groups) if groups is None else cast_words(groups)
        chosen = self._check_groups(chosen, len(chosen))
        out = np.empty((len(chosen), self.operator.width), np.int64)
        if len(chosen):
            self._kernels.query_rows(self._words, self._headers, chosen, out.reshape(-1))
        return out

    def query_range(self, after: int, until: int, group: int = 0) -> Any:
        """The aggregate of the events after one time, and at or before another, lowered.

        Costs a logarithm of the number of events after `after`.
        """
        return self._lower(self.query_ranges([(after, until)], group)[0])

    def query_ranges(self, bounds: npt.ArrayLike, group: int = 0) -> npt.NDArray[np.int64]:
        """The states of several ranges of one window, a row of words each."""
        found = cast_words(bounds).reshape(-1)
        out = np.empty((len(found) // 2, self.operator.width), np.int64)
        at = self._get_header(group)
        self._kernels.query_ranges(self._words, self._headers, at, found, out.reshape(-1))
        return out
