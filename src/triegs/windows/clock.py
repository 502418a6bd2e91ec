"""The number and the logical time of each epoch that somebody may still read."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from triegs.errors import InvalidUpdate
from triegs.store.packed import PackedStore
from triegs.windows.encoding import read_time
from triegs.windows.judging import NO_TIME

# So many times are kept before those that nobody can ask for are dropped.
MANY = 1 << 12


class Clock:
    """Times by the number of a version; a version without its own has that of the one before.

    The updater writes a time before its version is published, so any reader finds it.
    """

    def __init__(self, store: PackedStore) -> None:
        self._store = store
        #: The version that is epoch 0.
        self.first = store.newest.number
        self._noted: tuple[list[int], list[int]] = ([], [])

    def begin(self, time: Any) -> None:
        """The next epoch has this time, which must not go back; `end` follows in any case."""
        found = read_time(time)
        numbers, times = self._noted
        if found == NO_TIME:
            raise InvalidUpdate(f"the time of an epoch is not {time!r}; nothing changed")
        if times and found < times[-1]:
            reason = f"the time {found} is before {times[-1]}, that of the last epoch"
            raise InvalidUpdate(f"{reason}; nothing changed")
        if len(numbers) >= MANY:
            numbers, times = self._noted = self._keep_needed()
        # The time comes first: a reader that finds the number finds its time.
        times.append(found)
        numbers.append(self._store.newest.number + 1)

    def end(self) -> None:
        """The epoch was published, or it failed and its time is taken back."""
        numbers, times = self._noted
        if numbers[-1] > self._store.newest.number:
            numbers.pop()
            times.pop()

    def restore(self, time: int | None) -> None:
        """The newest version has this time, and nothing is known of those before."""
        if time is not None:
            self._noted = ([self._store.newest.number], [time])

    def find(self, number: int) -> int | None:
        """The time of a version that is held; from any thread."""
        numbers, times = self._noted
        place = bisect_right(numbers, number)
        return times[place - 1] if place else None

    def _keep_needed(self) -> tuple[list[int], list[int]]:
        numbers, times = self._noted
        asked = [*self._store.held(), self._store.newest.number]
        places = sorted({bisect_right(numbers, number) - 1 for number in asked} - {-1})
        return [numbers[p] for p in places], [times[p] for p in places]
