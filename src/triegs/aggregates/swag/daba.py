"""Windows over events in order of time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.groups import FIRST_TIME, NO_GROUPS, GroupedWindows, cast_words
from triegs.aggregates.swag.kernels import daba


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

    def _measure_blocks(self, events: int, started: int) -> int:
        # A full block is followed by an empty one, so a single event can take a block.
        words: int = self._kernels.get_block_words()
        return (started + events // daba.SLOTS + min(events - started, self.groups)) * words

    def insert(
        self, times: npt.ArrayLike, values: npt.ArrayLike, groups: npt.ArrayLike | None = None
    ) -> None:
        """Append events in order; without `groups`, to group 0.

        Raises ValueError at the first event that is older than the last of its group. The events
        before it stay.
        """
        self._insert(self._kernels.insert_rows, *self._check_events(times, values), 1, groups)

    def _resume(self, group: int, time: int) -> None:
        """Raise if an event was refused, else make room."""
        last = int(self._headers[group * self._header_words + daba.LAST_TIME])
        if time < last:
            raise ValueError(f"time {time} in group {group} after {last}: use Fiba for disorder")
        self._grow()

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
