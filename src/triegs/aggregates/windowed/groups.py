"""Numbers for groups, by key."""

from __future__ import annotations

import numpy as np

from triegs.aggregates.kernels.grouping import (
    MADE,
    SIZES,
    USED,
    assign_groups,
    link_groups,
    release_groups,
)
from triegs.jit.words import Words

SMALLEST = 64


class GroupTable:
    """Groups by key, numbered from 0. A group exists while events refer to it; then its number is
    free for another key. Cost: constant per event.

    >>> table = GroupTable(1)
    >>> codes, fresh = table.assign(np.array([[7], [9], [7]]))
    >>> codes.tolist(), fresh.tolist(), table.release(codes[1:2]).tolist()
    ([0, 1, 0], [0, 1], [1])
    """

    def __init__(self, width: int) -> None:
        self.members = np.zeros((SMALLEST, width), np.int64)
        self._events = np.zeros(SMALLEST, np.int64)
        self._free = np.zeros(SMALLEST, np.int64)
        self._table = np.zeros(2 * SMALLEST, np.int64)
        self._sizes = np.zeros(SIZES, np.int64)

    @property
    def capacity(self) -> int:
        """More than the largest number of a group."""
        return len(self._events)

    @property
    def used_bytes(self) -> int:
        arrays = (self.members, self._events, self._free, self._table)
        return sum(array.nbytes for array in arrays)

    def measure(self, count: int) -> int:
        """The capacity after so many more groups."""
        size = self.capacity
        while size < len(self) + count:
            size *= 2
        return size

    def __len__(self) -> int:
        return int(self._sizes[USED])

    def assign(self, keys: Words) -> tuple[Words, Words]:
        """The group of each key, and which groups are new. Each key counts as an event."""
        keys = np.ascontiguousarray(keys, np.int64)
        codes = np.empty(len(keys), np.int64)
        made = []
        done = 0
        while True:
            fresh = np.empty(min(len(keys) - done, self.capacity), np.int64)
            more, count = assign_groups(
                keys[done:], self._table, self.members, self._events, self._free, self._sizes,
                codes[done:], fresh,
            )  # fmt: skip
            done += more
            made.append(fresh[:count])
            if done == len(keys):
                return codes, np.concatenate(made)
            self._grow()

    def release(self, codes: Words) -> Words:
        """Take back an event of each code; returns the groups that are freed."""
        gone = np.empty(min(len(codes), self.capacity), np.int64)
        count = release_groups(
            codes, self._table, self.members, self._events, self._free, self._sizes, gone
        )
        return gone[:count]

    def _grow(self) -> None:
        size = 2 * self.capacity
        made = int(self._sizes[MADE])
        self.members = np.concatenate([self.members, np.zeros_like(self.members)])
        self._events = np.concatenate([self._events, np.zeros_like(self._events)])
        self._free = np.concatenate([self._free, np.zeros_like(self._free)])
        self._table = np.zeros(2 * size, np.int64)
        link_groups(self._table, self.members, np.flatnonzero(self._events[:made] > 0))
