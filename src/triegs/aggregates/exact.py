"""Exact sums of doubles: the correctly rounded sum of the values present, whatever the history.

A value that was added and removed leaves no trace, and the order of additions has no effect.
`kernels.exact` has the representation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from triegs.aggregates.kernels.exact import (
    DIGITS,
    FIRST,
    LINK,
    OUT_OF_RANGE,
    WIDE,
    add_rows,
    merge_groups,
    round_rows,
)
from triegs.jit.words import Words

NARROW = 8
ROW_WORDS, WIDE_WORDS = DIGITS + NARROW, DIGITS + WIDE


def make_accumulator(digits: int = WIDE) -> Words:
    """An empty accumulator, for the kernels."""
    return np.zeros(DIGITS + digits, np.int64)


class ExactSums:
    """A sum of doubles per group. Adding and removing cost about 10 ns each, reading up to 0.1 µs.

    A group takes 128 bytes while its values are within 64 binary orders of magnitude of the first
    one, and 624 more afterwards. Multiplicities of a group must add up to less than 2**63.

    >>> sums = ExactSums()
    >>> sums.add([1e100, 1.0, -1e100])
    >>> sums.read().tolist()
    [1.0]
    >>> sums.add([1.0], counts=[-1])
    >>> sums.read().tolist()
    [0.0]
    """

    def __init__(self, groups: int = 1) -> None:
        self.groups = 0
        self._rows = np.zeros(0, np.int64)
        self._wide = np.zeros(0, np.int64)
        self._wide_rows = 0
        self._free: list[int] = []
        self.add_groups(groups)

    def add_groups(self, count: int) -> None:
        """Add empty groups. Amortised constant per group."""
        self.groups += count
        self._rows = extend(self._rows, self.groups * ROW_WORDS)

    @property
    def used_bytes(self) -> int:
        return (self.groups * ROW_WORDS + self._wide_rows * WIDE_WORDS) * 8

    def add(
        self,
        values: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        counts: npt.ArrayLike | None = None,
    ) -> None:
        """Add each value as often as its count says, by default once; a negative count removes.

        Raises OverflowError at a count that does not fit 64 bits. The rows before it stay added.
        """
        column = np.ascontiguousarray(values, np.float64).view(np.int64)
        chosen_rows = self._check_groups(groups, len(column))
        times = np.ones(len(column), np.int64)
        if counts is not None:
            times = np.ascontiguousarray(counts, np.int64)
            if len(times) != len(column):
                raise ValueError(f"{len(times)} counts for {len(column)} values")
        done = 0
        while done < len(column):
            found = add_rows(self._rows, self._wide, NARROW, chosen_rows, column, times, done)
            result, done = found >> 48, found & ((1 << 48) - 1)
            if result == OUT_OF_RANGE:
                self._widen(int(chosen_rows[done]))
            elif result:
                raise OverflowError(f"a count of group {chosen_rows[done]} does not fit 64 bits")

    def clear(self, group: int) -> None:
        """Remove all values of a group, and its wide row."""
        at = group * ROW_WORDS
        if link := int(self._rows[at + LINK]):
            self._free.append(link - 1)
        self._rows[at : at + ROW_WORDS] = 0

    def merge(self, other: ExactSums) -> None:
        """Add all values of other groups with the same numbers, such as those of a partition."""
        if other.groups > self.groups:
            self.add_groups(other.groups - self.groups)
        done = 0
        while done < other.groups:
            found = merge_groups(
                self._rows, self._wide, NARROW, other._rows, other._wide, done, other.groups
            )
            result, done = found >> 48, found & ((1 << 48) - 1)
            if result == OUT_OF_RANGE:
                self._widen(done)
            elif result:
                raise OverflowError(f"a count of group {done} does not fit 64 bits")

    def read(self, groups: npt.ArrayLike | None = None) -> npt.NDArray[np.float64]:
        """The sums of some groups, by default all: correctly rounded, ties to even.

        A sum is NaN with a NaN or both infinities present, and −0 if all values are −0.
        """
        chosen = np.arange(self.groups) if groups is None else np.asarray(groups, np.int64)
        out = np.zeros(len(chosen), np.int64)
        chosen_rows = self._check_groups(chosen, len(chosen))
        round_rows(self._rows, self._wide, NARROW, chosen_rows, out)
        return out.view(np.float64)

    def save(self) -> tuple[Words, Words]:
        """A copy of all sums, for `restore`."""
        wide = self._wide[: self._wide_rows * WIDE_WORDS].copy()
        return self._rows[: self.groups * ROW_WORDS].copy(), wide

    def restore(self, saved: tuple[Words, Words]) -> None:
        """Replace all sums by those of `save`."""
        self._rows, self._wide = (words.copy() for words in saved)
        self.groups = len(self._rows) // ROW_WORDS
        self._wide_rows = len(self._wide) // WIDE_WORDS
        used = {int(link) - 1 for link in self._rows[LINK::ROW_WORDS]}
        self._free = [row for row in range(self._wide_rows) if row not in used]

    def _check_groups(self, groups: npt.ArrayLike | None, rows: int) -> Words:
        if groups is None:
            return np.zeros(rows, np.int64)
        found = np.ascontiguousarray(groups, np.int64)
        if len(found) != rows:
            raise ValueError(f"{len(found)} groups for {rows} rows")
        if rows and not 0 <= int(found.min()) <= int(found.max()) < self.groups:
            raise IndexError(f"groups must be from 0 to {self.groups - 1}")
        return found

    def _widen(self, group: int) -> None:
        """Move a group to a wide row, unless it has one."""
        at = group * ROW_WORDS
        if self._rows[at + LINK]:
            return
        number = self._free.pop() if self._free else self._wide_rows
        self._wide_rows = max(self._wide_rows, number + 1)
        self._wide = extend(self._wide, self._wide_rows * WIDE_WORDS)
        wide = self._wide[number * WIDE_WORDS : (number + 1) * WIDE_WORDS]
        wide[:] = 0
        source = self._rows[at : at + ROW_WORDS].copy()
        self._rows[at : at + ROW_WORDS] = 0
        self._rows[at + LINK] = number + 1
        first = int(source[FIRST])
        wide[1:DIGITS] = source[1:DIGITS]
        wide[DIGITS + first : DIGITS + first + NARROW] = source[DIGITS:]


def extend(words: Words, size: int) -> Words:
    """An array of at least this size, with the same first words."""
    if size <= words.size:
        return words
    larger = np.zeros(max(size, 2 * words.size), np.int64)
    larger[: words.size] = words
    return larger
