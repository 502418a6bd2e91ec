"""Events that wait for their slide, ordered by (time, arrival).

Those that arrive in order, or nearly so, are in a *queue*, from which a slide takes them in its one
call. The others are kept as sorted runs, each at least twice as long as the next. So a push costs
O(log n) per event however far the stream is ahead of the watermark, and taking the oldest costs
what is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.kernels.judging import SAME_ROW
from triegs.maintain.kernels.slides import QUEUE_COLUMNS

SMALLEST = 1 << 8
#: A queue with more slots than this is given back once it is empty.
LARGE = 1 << 14
#: So many events of the queue, and twice as many as arrive, are moved to let others in between.
FEW_MOVED = 64


class Timed(NamedTuple):
    """Events by ids, one row each: ``rows`` is ``(1 or -1, subject, predicate, object)``, ``ids``
    the event's identity or -1, ``arrivals`` its number in the stream. An event of several triples
    has one row for each; all but the first have the id `SAME_ROW`.
    """

    times: Words
    rows: Words
    ids: Words
    arrivals: Words

    def pick(self, which: slice | Words) -> Timed:
        return Timed(*(column[which] for column in self))

    def sort(self) -> Timed:
        """By time, and by arrival where times are equal."""
        return self.pick(np.argsort(self.times, kind="stable"))


def merge(runs: list[Timed]) -> Timed:
    """Sorted runs as one; equal times keep the order of arrival."""
    if len(runs) == 1:
        return runs[0]
    whole = Timed(*(np.concatenate(column) for column in zip(*runs, strict=True)))
    if bool((whole.times[:-1] < whole.times[1:]).all()):
        return whole
    return whole.pick(np.lexsort((whole.arrivals, whole.times)))


NOTHING = Timed(
    np.empty(0, np.int64), np.empty((0, 4), np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
)


class Queue:
    """Events in order, those from the slot `begin` to the slot `end`."""

    def __init__(self) -> None:
        self.begin = self.end = 0
        self._allot(SMALLEST)

    def _allot(self, size: int) -> None:
        """Make the columns, as parts of one array: see `triegs.maintain.kernels.slides`."""
        self.size, self.words = size, np.zeros(QUEUE_COLUMNS * size, np.int64)
        self.address = int(self.words.ctypes.data)
        times, arrivals, ids = (self.words[size * n : size * (n + 1)] for n in range(3))
        self.columns = Timed(times, self.words[3 * size :].reshape(size, 4), ids, arrivals)
        self._times = times.data  # a memoryview is faster for single words

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def first_time(self) -> int | None:
        return self._times[self.begin] if self.end > self.begin else None

    def read_time(self, slot: int) -> int:
        return self._times[slot]

    def append(self, events: Timed) -> None:
        """Add events that are not before the last one. Cost: O(1) for each."""
        count = len(events.times)
        if self.end + count > self.size:
            self._make_room(count)
        for column, new in zip(self.columns, events, strict=True):
            column[self.end : self.end + count] = new
        self.end += count

    def _make_room(self, count: int) -> None:
        held, size = len(self), self.size
        while size < 2 * (held + count):
            size *= 2
        events = self.columns.pick(slice(self.begin, self.end))
        if size > self.size or self.begin < held:
            self._allot(size)
        for column, old in zip(self.columns, events, strict=True):
            column[:held] = old
        self.begin, self.end = 0, held

    def find(self, time: int) -> int:
        """The slot of the first event later than a time."""
        times = self.columns.times[self.begin : self.end]
        return self.begin + int(np.searchsorted(times, time, side="right"))

    def copy(self, begin: int, end: int) -> Timed:
        return Timed(*(column[begin:end].copy() for column in self.columns))

    def drop(self, count: int) -> None:
        """Forget the oldest events."""
        self.begin += count
        if self.begin == self.end:
            self.begin = self.end = 0
            if self.size > LARGE:
                self._allot(SMALLEST)


class Pending:
    """A queue and sorted runs of events; the oldest event is the first of one of them."""

    def __init__(self) -> None:
        self.queue = Queue()
        self._runs: list[Timed] = []

    def __len__(self) -> int:
        return len(self.queue) + sum(len(run.times) for run in self._runs)

    @property
    def first_time(self) -> int | None:
        """The time of the oldest event."""
        first = self.queue.first_time
        if not self._runs:
            return first
        firsts = [int(run.times[0]) for run in self._runs]
        return min(firsts) if first is None else min(first, *firsts)

    def is_queued(self, until: int) -> bool:
        """Whether all events up to and including a time are in the queue."""
        return not self._runs or all(run.times[0] > until for run in self._runs)

    def add(self, events: Timed) -> None:
        """Add events that are in order. Cost: O(log n) for each."""
        queue, runs, count = self.queue, self._runs, len(events.times)
        if count == 0:
            return
        cut = queue.find(int(events.times[0]))
        behind = queue.end - cut
        if behind == 0:
            queue.append(events)
            return
        if behind <= 2 * count + FEW_MOVED:
            events = merge([queue.copy(cut, queue.end), events])
            queue.end = cut
            queue.append(events)
            return
        runs.append(events)
        while len(runs) > 1 and len(runs[-2].times) < 2 * len(runs[-1].times):
            runs[-2:] = [merge(runs[-2:])]

    def copy(self) -> Timed:
        """All events, in order. Cost: their number."""
        queue = self.queue
        return merge([queue.copy(queue.begin, queue.end), *self._runs])

    def take(self, until: int) -> Timed:
        """Remove and return, in order, every event up to and including a time."""
        queue = self.queue
        due: list[Timed] = []
        if queue.end > queue.begin:
            cut = queue.find(until)
            if cut > queue.begin:
                due.append(queue.copy(queue.begin, cut))
                queue.drop(cut - queue.begin)
        left: list[Timed] = []
        for run in self._runs:
            if run.times[-1] <= until:
                due.append(run)
                continue
            cut = int(np.searchsorted(run.times, until, side="right"))
            if cut:
                due.append(run.pick(slice(0, cut)))
            left.append(run.pick(slice(cut, None)) if cut else run)
        self._runs = left
        return merge(due) if due else NOTHING

    def remove(self, arrivals: Words) -> Timed:
        """Remove and return the events with these numbers, in order. Cost: all pending events."""
        queue = self.queue
        gone: list[Timed] = []
        left: list[Timed] = []
        waiting = queue.copy(queue.begin, queue.end)
        is_gone = np.isin(waiting.arrivals, arrivals)
        if is_gone.any():
            gone.append(waiting.pick(np.flatnonzero(is_gone)))
            queue.end = queue.begin
            queue.append(waiting.pick(np.flatnonzero(~is_gone)))
        for run in self._runs:
            is_gone = np.isin(run.arrivals, arrivals)
            if is_gone.any():
                gone.append(run.pick(np.flatnonzero(is_gone)))
                run = run.pick(np.flatnonzero(~is_gone))
            left += [run] if len(run.times) else []
        self._runs = left
        return merge(gone) if gone else NOTHING

    def take_one(self) -> Timed:
        """Remove and return the oldest event, with all triples of its row."""
        queue, first = self.queue, self.first_time
        assert first is not None
        runs = [run for run in self._runs if run.times[0] == first]
        if queue.first_time == first:
            runs.append(queue.columns.pick(slice(queue.begin, queue.end)))
        oldest = min(runs, key=lambda run: int(run.arrivals[0]))
        end = 1
        while end < len(oldest.ids) and oldest.ids[end] == SAME_ROW:
            end += 1
        taken = Timed(*(column[:end].copy() for column in oldest))
        if queue.first_time == first and oldest is runs[-1]:
            queue.drop(end)
            return taken
        number = next(i for i, run in enumerate(self._runs) if run is oldest)
        self._runs[number] = oldest.pick(slice(end, None))
        self._runs = [run for run in self._runs if len(run.times)]
        return taken
