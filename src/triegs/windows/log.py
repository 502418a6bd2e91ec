"""The retained events of one stream, ordered by (time, arrival): a ring of columns.

Windows are pairs of positions in it, so an event is stored once however many windows contain it,
and a slide touches only what arrives and what expires. A deleted event stays in its slot, marked
dead, until no window reaches back to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triegs.jit.words import Words
from triegs.maintain.kernels.judging import (
    DELETED,
    NONE,
    SAME_ROW,
    judge_events,
    link_all,
    unlink_oldest,
)
from triegs.maintain.kernels.slides import INDEX_WORDS, RING_COLUMNS
from triegs.windows.pending import Timed

SMALLEST = 1 << 10
_NOTHING: Words = np.empty(0, np.int64)


class Judged(NamedTuple):
    """The outcome of each event that was due, and the positions that were deleted."""

    outcomes: Words
    killed: Words


class Frozen:
    """The events retained at one moment, for another thread to copy.

    The ring does not overwrite them until this is closed; deletions meanwhile are noted.
    """

    def __init__(self, log: Log) -> None:
        self.start, self.end = log.start, log.end
        self._log = log
        self._columns = (log.times, log.rows, log.ids, log.arrivals)
        self._killed: list[Words] = []
        self.lock = Lock()

    def note(self, killed: Words) -> None:
        """Note that these positions are dead from now on."""
        self._killed.append(killed[killed < self.end])

    def read(self, first: int, end: int) -> Timed:
        """The events of a range of positions as they were; call it range by range, in order."""
        times, rows, ids, arrivals = self._columns
        size = len(times)
        slots = np.arange(first, end) & (size - 1)
        found = rows[slots]
        with self.lock:
            for killed in self._killed:
                inside = killed[(killed >= first) & (killed < end)]
                found[inside - first, 0] = 1
        named = ids[slots] if len(ids) else np.full(len(slots), -1, np.int64)
        return Timed(times[slots], found, named, arrivals[slots])

    def close(self) -> None:
        """Allow the ring to overwrite these events."""
        self._log.thaw(self)


class Log:
    """Positions `start` to `end` are retained; a row is ``(1 or 0 if dead, s, p, o)``."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self._allot(SMALLEST)
        self.ids = _NOTHING  # until an event has one
        self._holder = _NOTHING
        self._following = self._first = self._last = _NOTHING
        #: Where the indexes are, for `triegs.maintain.kernels.slides`.
        self._indexes = np.zeros(INDEX_WORDS, np.int64)
        self.indexes_address = int(self._indexes.ctypes.data)
        self._dead = 0
        self._frozen: Frozen | None = None

    def _allot(self, size: int) -> None:
        """Make the columns, as parts of one array: see `triegs.maintain.kernels.slides`."""
        words = np.zeros(RING_COLUMNS * size, np.int64)
        self.address = int(words.ctypes.data)
        self.times = words[:size]
        self.arrivals = words[size : 2 * size]  # the number of each in the stream
        self.rows = words[2 * size :].reshape(size, 4)

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def has_dead(self) -> bool:
        """Whether an event that is retained was deleted."""
        return self._dead > 0

    @property
    def is_frozen(self) -> bool:
        """Whether a copy of it is in progress."""
        return self._frozen is not None

    @property
    def last_time(self) -> int:
        """The time of the last event; there is one."""
        return int(self.times[(self.end - 1) & self._mask])

    @property
    def kept(self) -> int:
        """The first position that must not be overwritten."""
        frozen = self._frozen
        return self.start if frozen is None else min(self.start, frozen.start)

    @property
    def _mask(self) -> int:
        return len(self.times) - 1

    @property
    def bytes(self) -> int:
        links = (self._holder, self._following, self._first, self._last)
        return sum(
            array.nbytes for array in (self.times, self.rows, self.ids, self.arrivals, *links)
        )

    # Judging

    def append(self, due: Timed) -> None:
        """Append events without ids and deletions. Cost: O(1) for each."""
        self._make_room(len(due.times))
        self._append(due)

    def judge(self, due: Timed, horizon: int, floor: int) -> Judged:
        """Judge events that are due, in order.

        Events later than the time `horizon`, or from the position `floor` on, are retained. Cost:
        O(1) for each event.
        """
        count = len(due.times)
        self._make_room(count)
        self.prepare(int(due.ids.max()) + 1, bool((due.rows[:, 0] < 0).any()))
        outcomes, killed = np.empty(count, np.int64), np.empty(count, np.int64)
        frozen = self._frozen
        with nullcontext() if frozen is None else frozen.lock:
            self.end = judge_events(
                (due.times, due.rows.reshape(-1), due.ids, due.arrivals), self.end,
                (self.times, self.rows.reshape(-1), self.ids, self.arrivals, self._holder),
                (self._following, self._first, self._last),
                (self.start, horizon, floor), outcomes, killed,
            )  # fmt: skip
            is_deletion = outcomes == DELETED
            if frozen is not None:
                frozen.note(killed[is_deletion])
        self._dead += int(np.count_nonzero(is_deletion))
        return Judged(outcomes, killed)

    def prepare(self, known_ids: int, has_deletions: bool) -> None:
        """Make the indexes for ids below a number, and for deletions. Cost: amortised O(1) for each
        id; for the first deletion, the log.
        """
        if len(self.ids) < len(self.times):
            self.ids = np.full(len(self.times), -1, np.int64)
        elif len(self._holder) >= known_ids and (len(self._first) or not has_deletions):
            return
        if len(self._holder) < known_ids:
            holder = np.full(max(known_ids, 2 * len(self._holder)), -1, np.int64)
            holder[: len(self._holder)] = self._holder
            self._holder = holder
        if has_deletions and not len(self._first):
            self._link()
        self._note_indexes()

    def _note_indexes(self) -> None:
        arrays = self.ids, self._holder, self._following, self._first, self._last
        self._indexes[:] = [
            *(each.ctypes.data for each in arrays),
            len(self._holder),
            len(self._first),
        ]

    def count_dead(self, more: int) -> None:
        """So many more of the retained events are dead, or less."""
        self._dead += more

    def kill(self, first: int, end: int) -> Words:
        """Mark the events of a range of positions dead; returns those that were live. Cost: the
        range.
        """
        found = self.find_live(first, end)
        frozen = self._frozen
        with nullcontext() if frozen is None else frozen.lock:
            self.rows[found & self._mask, 0] = 0
            if frozen is not None:
                frozen.note(found)
        self._dead += len(found)
        return found

    def revive(self, positions: Words) -> None:
        """Undo `kill`. A copy in progress has them live already."""
        self.rows[positions & self._mask, 0] = 1
        self._dead -= len(positions)

    @contextmanager
    def revived(self, positions: Words) -> Iterator[None]:
        """Within the block these dead events are live."""
        self.rows[positions & self._mask, 0] = 1
        try:
            yield
        finally:
            self.rows[positions & self._mask, 0] = 0

    def freeze(self) -> Frozen:
        """What is retained now, for a thread that copies it. Cost: constant; until it is closed
        the ring may grow instead of overwriting it.
        """
        assert self._frozen is None
        self._frozen = Frozen(self)
        return self._frozen

    def thaw(self, frozen: Frozen) -> None:
        """The copy is complete."""
        if self._frozen is frozen:
            self._frozen = None

    def _append(self, due: Timed) -> None:
        mask = len(self.times) - 1
        count = len(due.times)
        at = self.end & mask
        here = min(count, len(self.times) - at)
        self.times[at : at + here] = due.times[:here]
        self.rows[at : at + here] = due.rows[:here]
        self.arrivals[at : at + here] = due.arrivals[:here]
        if here < count:
            self.times[: count - here] = due.times[here:]
            self.rows[: count - here] = due.rows[here:]
            self.arrivals[: count - here] = due.arrivals[here:]
        self.end += count

    def _make_room(self, count: int) -> None:
        """Grow to hold that many more events; amortised O(1) per event."""
        size = len(self.times)
        if self.end - self.kept + count <= size:
            return
        needed = len(self) + count
        while size < needed:
            size *= 2
        positions = np.arange(self.start, self.end)
        slots, before = positions & (size - 1), positions & self._mask
        times, arrivals, rows = self.times, self.arrivals, self.rows
        self._allot(size)
        self.times[slots] = times[before]
        self.arrivals[slots] = arrivals[before]
        self.rows[slots] = rows[before]
        if len(self.ids):
            ids = np.zeros(size, np.int64)
            ids[slots] = self.ids[before]
            self.ids = ids
        self._frozen = None  # it keeps the old arrays
        if len(self._first):
            self._link()
        self._note_indexes()

    def _link(self) -> None:
        """Chain all events by triple: once, and again when the ring has grown."""
        size = len(self.times)
        self._following = np.full(size, -1, np.int64)
        self._first, self._last = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        link_all(
            self.start, self.end, self.rows.reshape(-1), self._following, self._first, self._last
        )

    def restore(self, start: int, events: Timed) -> None:
        """Retain these events from a position on; for an empty log."""
        count = len(events.times)
        self.start = self.end = start
        self._make_room(count)
        self._append(events)
        self._dead = int(np.count_nonzero(events.rows[:, 0] == 0))
        if (events.ids != NONE).any():
            slots = (start + np.arange(count)) & (len(self.times) - 1)
            self.ids = np.full(len(self.times), NONE, np.int64)
            self.ids[slots] = events.ids
            named = np.flatnonzero(events.ids >= 0)
            self._holder = np.full(int(events.ids.max()) + 1, NONE, np.int64)
            self._holder[events.ids[named]] = start + named  # of several, the last one
            self._note_indexes()

    # Reading

    def find(self, time: int) -> int:
        """The position of the first event later than a time; the end if there is none."""
        size = len(self.times)
        if self.end == self.start or self.times[(self.end - 1) & (size - 1)] <= time:
            return self.end
        at, stop = self.start & (size - 1), (self.end - 1) & (size - 1)
        if at <= stop:
            return self.start + int(np.searchsorted(self.times[at : stop + 1], time, side="right"))
        if self.times[size - 1] > time:
            return self.start + int(np.searchsorted(self.times[at:], time, side="right"))
        found = int(np.searchsorted(self.times[: stop + 1], time, side="right"))
        return self.start + size - at + found

    def read(self, first: int, end: int, change: int) -> Words:
        """The live rows of a range, each with that change. Cost: the range."""
        rows = self._copy(self.rows, first, end)
        if self._dead:
            rows = rows[rows[:, 0] != 0]
        rows[:, 0] = change
        return rows

    def read_events(self, first: int, end: int) -> tuple[Words, Words, Words]:
        """The positions, times and rows of the live events of a range. Cost: the range."""
        positions = np.arange(first, end)
        times, rows = self._copy(self.times, first, end), self._copy(self.rows, first, end)
        if self._dead:
            is_live = rows[:, 0] != 0
            positions, times, rows = positions[is_live], times[is_live], rows[is_live]
        return positions, times, rows

    def read_ids(self, first: int, end: int) -> Words:
        """The ids of the events of a range, dead or not. Cost: the range."""
        return self._copy(self.ids, first, end)

    def find_dead(self, first: int, end: int) -> Words:
        """The positions of deleted events. Cost: the range, if any event was deleted."""
        if not self._dead or end <= first:
            return _NOTHING
        return first + np.flatnonzero(self._copy(self.rows, first, end)[:, 0] == 0)

    def pick(self, positions: Words, change: int) -> Words:
        """The rows of single positions, dead or not, each with that change."""
        rows: Words = self.rows[positions & (len(self.times) - 1)]
        rows[:, 0] = change
        return rows

    def find_live(self, first: int, end: int) -> Words:
        """The positions of live events, in order."""
        positions = np.arange(first, end)
        found: Words = positions[self.rows[positions & (len(self.times) - 1), 0] != 0]
        return found

    def find_events(self, first: int, end: int, predicate: int) -> Words:
        """The positions of live events of a predicate, in order. Cost: the range."""
        positions = np.arange(first, end)
        rows = self.rows[positions & (len(self.times) - 1)]
        found: Words = positions[(rows[:, 0] != 0) & (rows[:, 2] == predicate)]
        return found

    def read_times(self, positions: Words) -> Words:
        """The times of single positions."""
        found: Words = self.times[positions & (len(self.times) - 1)]
        return found

    def mark_firsts(self, positions: Words) -> NDArray[np.bool_]:
        """Which of these are the first triple of an event."""
        if not len(self.ids):
            return np.ones(len(positions), np.bool_)
        found: NDArray[np.bool_] = self.ids[positions & (len(self.times) - 1)] != SAME_ROW
        return found

    def find_end(self, position: int) -> int:
        """The position after an event and all of its triples."""
        position += 1
        while position < self.end and not self.mark_firsts(np.array([position]))[0]:
            position += 1
        return position

    # Expiry

    def retire(self, until: int) -> tuple[Words, Words]:
        """Drop the oldest events, up to a position; returns their rows and their ids."""
        until = min(until, self.end)
        rows = self._copy(self.rows, self.start, until)
        if self._dead:
            self._dead -= int(np.count_nonzero(rows[:, 0] == 0))
        if len(self._first):
            flat = self.rows.reshape(-1)
            unlink_oldest(self.start, until, flat, self._following, self._first, self._last)
        ids = self._copy(self.ids, self.start, until) if len(self.ids) else _NOTHING
        self.start = max(self.start, until)
        rows[:, 0] = -1
        return rows, ids

    def _copy(self, column: Words, first: int, end: int) -> Words:
        """A copy of a range of a column."""
        if end <= first:
            return column[:0].copy()
        size = len(self.times)
        at, stop = first & (size - 1), (end - 1) & (size - 1)
        if at <= stop:
            return column[at : stop + 1].copy()
        return np.concatenate([column[at:], column[: stop + 1]])
