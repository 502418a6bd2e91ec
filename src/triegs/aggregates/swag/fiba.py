"""Windows over events out of order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.groups import GroupedWindows, cast_words
from triegs.aggregates.swag.kernels import eviction, insertion, ranges, replacement, tree
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

    modules = (tree, insertion, eviction, ranges, replacement)

    def _clear_headers(self, headers: npt.NDArray[np.int64]) -> None:
        headers[:] = 0

    def _measure_blocks(self, events: int, started: int) -> int:
        # Nodes are half full at least, so there are fewer inner nodes than leaves.
        words: int = self._kernels.get_node_words(1)
        leaves = started + 2 * (events // tree.SLOTS) + min(events - started, self.groups)
        return 2 * leaves * words

    def insert(
        self, times: npt.ArrayLike, values: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> None:
        """Insert events; without `groups`, into group 0. Runs that are sorted by time within a
        group are inserted in bulk, so it pays to sort a batch.
        """
        self._insert(self._kernels.insert_rows, *self._check_events(times, values), 1, groups)

    def insert_states(
        self, times: npt.ArrayLike, states: Words, groups: npt.ArrayLike | None = None
    ) -> None:
        """Insert states like events: partial aggregates of other windows, a row of words each."""
        moments = cast_words(times)
        if states.shape != (len(moments), self.operator.width):
            raise ValueError(f"states of shape {states.shape} for {len(moments)} times")
        flat = np.ascontiguousarray(states).reshape(-1)
        self._insert(self._kernels.insert_states, moments, flat, self.operator.width, groups)

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

    def query_groups(self, groups: npt.ArrayLike, after: int, until: int) -> npt.NDArray[np.int64]:
        """The states of one range in the windows of some groups, a row of words each."""
        chosen = cast_words(groups)
        chosen = self._check_groups(chosen, len(chosen))
        out = np.empty((len(chosen), self.operator.width), np.int64)
        if len(chosen):
            self._kernels.query_groups(
                self._words, self._headers, chosen, after, until, out.reshape(-1)
            )
        return out

    def fold(self, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The state of values that are in no window, oldest first. Cost: the values."""
        out = np.empty(self.operator.width, np.int64)
        self._kernels.fold_rows(self.operator.cast(values), out)
        return out

    def replace(self, times: npt.ArrayLike, states: Words, groups: npt.ArrayLike) -> None:
        """Replace the entries at some times by other states, a row of words each. Costs a
        logarithm of the window for each. Raises KeyError for a time without an entry.

        >>> from triegs.aggregates.swag.operators import SUM
        >>> window = Fiba(SUM)
        >>> window.insert([1, 2, 3], [10, 20, 30])
        >>> window.replace([2], window.fold([5]).reshape(1, -1), [0])
        >>> window.query()
        45
        """
        moments = cast_words(times)
        chosen = self._check_groups(groups, len(moments))
        flat = np.ascontiguousarray(states).reshape(-1)
        done = self._kernels.replace_rows(self._words, self._headers, chosen, moments, flat)
        if done < len(moments):
            raise KeyError(f"group {chosen[done]} has no entry at {moments[done]}")
