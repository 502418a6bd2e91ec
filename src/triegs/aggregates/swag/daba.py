"""Windows over events in order of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.groups import FIRST_TIME, NO_GROUPS, GroupedWindows, cast_words
from triegs.aggregates.swag.kernels import daba
from triegs.jit.words import Words


class DabaLite(GroupedWindows):
    """DABA Lite: inserting, evicting and querying take constant time each, in the worst case.

    Times of a group must not decrease. Windows can be bounded by time (`evict_until`, `slide`) or
    by number of events (`evict`). Memory: one word for the time of an event and the words of a
    state; freed blocks are reused.

    >>> from triegs.aggregates.swag.operators import MAX
    >>> window = DabaLite(MAX)
    >>> window.insert([1, 2, 3], [30, 10, 20])
    >>> window.query()
    30
    >>> window.evict_until(1)
    1
    >>> window.query(), window.count()
    (20, 2)
    """

    modules = (daba,)

    def _clear_headers(self, headers: npt.NDArray[np.int64]) -> None:
        headers[:] = 0
        headers[:, daba.LAST_TIME] = FIRST_TIME

    def insert(
        self, times: npt.ArrayLike, values: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> None:
        """Append events in order; without `groups`, to group 0.

        Raises ValueError at the first event that is older than the last of its group. The events
        before it stay.
        """
        moments, lifted = cast_words(times), self.operator.cast(values)
        if len(moments) != len(lifted):
            raise ValueError(f"{len(moments)} times for {len(lifted)} values")
        chosen = self._check_groups(groups, len(moments))
        done = 0
        while done < len(moments):
            done += self._kernels.insert_rows(
                self._words, self._headers, chosen[done:], moments[done:], lifted[done:]
            )
            if done < len(moments):
                self._resume(int(chosen[done]) if len(chosen) else 0, int(moments[done]))

    def _resume(self, group: int, time: int) -> None:
        """Raise if an event was refused, else make room."""
        last = int(self._headers[group * self._header_words + daba.LAST_TIME])
        if time < last:
            raise ValueError(f"time {time} in group {group} after {last}: use Fiba for disorder")
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
        """Append events one by one; after each, evict those at or before its time minus `width`.

        With `query`, returns the state after each event, a row of words each.

        >>> from triegs.aggregates.swag.operators import COUNT
        >>> DabaLite(COUNT).slide([1, 2, 4], [0, 0, 0], 2, query=True).tolist()
        [[1], [2], [1]]
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
                self._resume(group, int(moments[done]))
        return out if query else None

    def evict(self, counts: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> None:
        """Evict the given number of oldest events per row, at most as many as there are."""
        numbers = np.atleast_1d(cast_words(counts))
        chosen = NO_GROUPS if groups is None else np.atleast_1d(cast_words(groups))
        if groups is not None:
            chosen = self._check_groups(chosen, len(numbers))
        self._kernels.evict_rows(self._words, self._headers, chosen, numbers)

    def evict_until(self, time: int) -> int:
        """Evict the events of all groups at or before a time. Returns how many. Visits each group:
        with many groups, `evict` by row is cheaper.
        """
        return int(self._kernels.evict_until(self._words, self._headers, self.groups, time))

    def count(self, group: int = 0) -> int:
        """The number of events."""
        return int(self._headers[self._get_header(group) + daba.COUNT])

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
