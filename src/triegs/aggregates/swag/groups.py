"""What the window structures share: one window per group, in one pool."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from triegs.aggregates.swag.kernels.pool import BUMP, grow_pool, make_pool
from triegs.aggregates.swag.operators import Operator
from triegs.aggregates.swag.templates import specialise
from triegs.jit.words import Words

NO_GROUPS = np.zeros(0, np.int64)
FIRST_TIME = np.iinfo(np.int64).min


def cast_words(column: npt.ArrayLike) -> Words:
    """Integers as words; refuses anything else."""
    found = np.asarray(column)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"times and groups must be integers, not {found.dtype}")
    return np.ascontiguousarray(found, np.int64)


class GroupedWindows:
    """Windows of one operator, one per group. Groups are numbered from 0. Not thread-safe.

    Without `reserve`, or if the system refuses the address space, memory doubles by copying.
    """

    modules: ClassVar[tuple[ModuleType, ...]]

    def __init__(
        self,
        operator: Operator,
        groups: int = 1,
        *,
        reserve: bool = True,
        slots: int | None = None,
    ) -> None:
        self.operator = operator
        self.groups = 0
        self._kernels: Any = specialise(operator, *self.modules, slots=slots)
        self._header_words: int = self._kernels.get_header_words()
        self._words = make_pool(reserve=reserve)
        self._headers = np.zeros(0, np.int64)
        self.add_groups(groups)

    def add_groups(self, count: int) -> None:
        """Add groups with empty windows. Amortised constant per group."""
        size = self._header_words
        wanted = (self.groups + count) * size
        if wanted > self._headers.size:
            headers = np.zeros(max(wanted, 2 * self._headers.size), np.int64)
            headers[: self._headers.size] = self._headers
            self._headers = headers
        fresh = self._headers[self.groups * size : wanted].reshape(count, size)
        self._clear_headers(fresh)
        self.groups += count

    def _clear_headers(self, headers: npt.NDArray[np.int64]) -> None:
        raise NotImplementedError

    @property
    def used_bytes(self) -> int:
        """Memory in use, including free blocks kept for reuse."""
        return (int(self._words[BUMP]) + self.groups * self._header_words) * 8

    def measure(self, groups: int, events: int, started: int) -> int:
        """At most the bytes that more groups take, `started` of which get their first event, and
        that more events take.
        """
        wanted = (self.groups + groups) * self._header_words
        headers = max(0, wanted - self.groups * self._header_words)
        return 8 * (headers + self._measure_blocks(events, started))

    def _measure_blocks(self, events: int, started: int) -> int:
        raise NotImplementedError

    def save(self) -> tuple[Words, Words]:
        """A copy of all windows, for `restore` into a structure of the same operator."""
        used = int(self._words[BUMP])
        return self._words[:used].copy(), self._headers[: self.groups * self._header_words].copy()

    def restore(self, saved: tuple[Words, Words]) -> None:
        """Replace all windows by those of `save`."""
        words, headers = saved
        if len(headers) % self._header_words:
            raise ValueError("these windows were saved with another operator")
        while self._words.size < len(words):
            self._grow()
        self._words[: len(words)] = words
        self._headers = headers.copy()
        self.groups = len(headers) // self._header_words

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

        >>> from triegs.aggregates.swag.daba import DabaLite
        >>> from triegs.aggregates.swag.operators import COUNT
        >>> DabaLite(COUNT).slide([1, 2, 4], [0, 0, 0], 2, query=True).tolist()
        [[1], [2], [1]]
        """
        if width <= 0:
            raise ValueError(f"the width of a window must be positive, not {width}")
        at = self._get_header(group)
        moments, lifted = self._check_events(times, values)
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

    def _check_events(
        self, times: npt.ArrayLike, values: npt.ArrayLike
    ) -> tuple[Words, npt.NDArray[Any]]:
        moments, lifted = cast_words(times), self.operator.cast(values)
        if len(moments) != len(lifted):
            raise ValueError(f"{len(moments)} times for {len(lifted)} values")
        return moments, lifted

    def _insert(
        self,
        kernel: Any,
        times: Words,
        column: npt.NDArray[Any],
        width: int,
        groups: npt.ArrayLike | None,
    ) -> None:
        """Insert rows by a kernel that stops where there is no room; `width` is the number of words
        of a row in the column.
        """
        chosen = self._check_groups(groups, len(times))
        done = 0
        while done < len(times):
            done += kernel(
                self._words, self._headers, chosen[done:], times[done:], column[done * width :]
            )
            if done < len(times):
                self._resume(int(chosen[done]) if len(chosen) else 0, int(times[done]))

    def _resume(self, _group: int, _time: int) -> None:
        """Make room for a row that found none."""
        self._grow()

    def _get_header(self, group: int) -> int:
        if not 0 <= group < self.groups:
            raise IndexError(f"group {group} of {self.groups}")
        return group * self._header_words

    def _check_groups(self, groups: npt.ArrayLike | None, rows: int) -> Words:
        if groups is None:
            return NO_GROUPS
        found = cast_words(groups)
        if len(found) != rows:
            raise ValueError(f"{len(found)} groups for {rows} rows")
        if rows and not 0 <= int(found.min()) <= int(found.max()) < self.groups:
            raise IndexError(f"groups must be from 0 to {self.groups - 1}")
        return found

    def _grow(self) -> None:
        self._words = grow_pool(self._words)

    def _lower(self, words: Words) -> Any:
        return self.operator.lower(*self.operator.read(words))
