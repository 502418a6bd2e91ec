"""The number and the logical time of each epoch that can still be read."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from triegs.errors import InvalidUpdate
from triegs.maintain.kernels.judging import NO_TIME
from triegs.store.packed import PackedStore
from triegs.windows.encoding import read_time

#: Times are pruned to those of readable epochs once there are this many.
MANY = 1 << 12


class Clock:
    """Times by version number. A version without its own time has that of the one before.

    The updater writes a time before its version is published, so every reader finds it.
    """

    def __init__(self, store: PackedStore) -> None:
        self._store = store
        #: The version that is epoch 0.
        self.first = store.newest.number
        self._noted: tuple[list[int], list[int]] = ([], [])

    def begin(self, time: Any) -> None:
        """Set the time of the next epoch, which must not decrease. Always followed by `end`."""
        found = read_time(time)
        numbers, times = self._noted
        if found == NO_TIME:
            raise InvalidUpdate(f"the time of an epoch cannot be {time!r}; nothing changed")
        if times and found < times[-1]:
            reason = f"the time {found} is before {times[-1]}, that of the last epoch"
            raise InvalidUpdate(f"{reason}; nothing changed")
        if len(numbers) >= MANY:
            numbers, times = self._noted = self._prune()
        # The time comes first: a reader that finds the number finds its time.
        times.append(found)
        numbers.append(self._store.newest.number + 1)

    def end(self) -> None:
        """The epoch was published, or it failed and its time is removed."""
        numbers, times = self._noted
        if numbers[-1] > self._store.newest.number:
            numbers.pop()
            times.pop()

    def restore(self, time: int | None) -> None:
        """Set the time of the newest version; those of older versions are unknown."""
        if time is not None:
            self._noted = ([self._store.newest.number], [time])

    def find(self, number: int) -> int | None:
        """The time of a held version. From any thread."""
        numbers, times = self._noted
        at = bisect_right(numbers, number)
        return times[at - 1] if at else None

    def _prune(self) -> tuple[list[int], list[int]]:
        """The times of the versions that can still be read."""
        numbers, times = self._noted
        readable = [*self._store.held(), self._store.newest.number]
        kept = sorted({bisect_right(numbers, number) - 1 for number in readable} - {-1})
        return [numbers[at] for at in kept], [times[at] for at in kept]
