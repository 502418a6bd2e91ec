"""The peer: an interval join in plain Python.

Each side is a list in order of time, and `bisect` finds the matches of an event.
"""

from __future__ import annotations

from bisect import bisect_left, insort

Event = tuple[int, int]  # time, name
Change = tuple[int, int, int]  # the names of a pair, and +1 or -1


class IntervalBisect:
    """Pairs of a first and a second event with ``first < second <= first + width``."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._first: list[Event] = []
        self._second: list[Event] = []

    def change(self, is_first: bool, time: int, name: int, sign: int) -> list[Change]:
        """Insert or delete an event; returns the pairs that come or go."""
        own = self._first if is_first else self._second
        if sign > 0:
            insort(own, (time, name))
        else:
            del own[bisect_left(own, (time, name))]
        if is_first:
            start = bisect_left(self._second, (time + 1,))
            end = bisect_left(self._second, (time + self._width + 1,))
            return [(name, other, sign) for _, other in self._second[start:end]]
        start = bisect_left(self._first, (time - self._width,))
        end = bisect_left(self._first, (time,))
        return [(other, name, sign) for _, other in self._first[start:end]]
