"""The events that a window contains or will contain, as columns in order of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triegs.jit.words import Words

SMALLEST = 1 << 10


class EventColumns(NamedTuple):
    """Columns of some events. Values are words: integers, or the bits of doubles."""

    times: Words
    positions: Words
    codes: Words
    values: Words


class EventQueue:
    """Events by index, counted from the first ever; `start` to `end` are there.

    `positions` are those of the source, and ascend like the times. A slice is contiguous: when the
    end of the arrays is reached, what is left moves to the front. Amortised constant per event.
    """

    def __init__(self) -> None:
        self.start = self.end = 0
        self._base = 0
        self._columns = np.zeros((4, SMALLEST), np.int64)

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def used_bytes(self) -> int:
        return self._columns.nbytes

    def measure(self, count: int) -> int:
        """The bytes that so many more events take: none, or another array."""
        size = self._columns.shape[1]
        if self.end - self._base + count <= size:
            return 0
        while size < 2 * (len(self) + count):
            size *= 2
        return 32 * size - self.used_bytes

    def append(self, times: Words, positions: Words, codes: Words, values: Words) -> None:
        count = len(times)
        size = self._columns.shape[1]
        if self.end - self._base + count > size:
            needed = len(self) + count
            while size < 2 * needed:
                size *= 2
            columns = np.zeros((4, size), np.int64)
            columns[:, : len(self)] = self._columns[
                :, self.start - self._base : self.end - self._base
            ]
            self._columns, self._base = columns, self.start
        at = self.end - self._base
        for column, given in zip(self._columns, (times, positions, codes, values), strict=True):
            column[at : at + count] = given
        self.end += count

    def read(self, first: int, end: int) -> EventColumns:
        """A view of the events from one index up to another."""
        times, positions, codes, values = self._columns[:, first - self._base : end - self._base]
        return EventColumns(times, positions, codes, values)

    def find(self, time: int) -> int:
        """The index of the first event later than a time."""
        times = self.read(self.start, self.end).times
        return self.start + int(np.searchsorted(times, time, side="right"))

    def find_positions(self, positions: Words) -> Words:
        """The indexes of those of these positions that are there."""
        found = self.read(self.start, self.end).positions
        at = np.searchsorted(found, positions)
        is_in = at < len(found)
        is_in[is_in] = found[at[is_in]] == positions[is_in]
        return self.start + at[is_in]

    def retire(self, until: int) -> Words:
        """Drop the oldest events, up to an index; returns a copy of their codes."""
        codes = self.read(self.start, until).codes.copy()
        self.start = until
        return codes
