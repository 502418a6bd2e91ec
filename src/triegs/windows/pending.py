"""Events that wait for their slide, ordered by (time, arrival).

They are kept as sorted runs, each at least twice as long as the next. So a push costs O(log n) per
event however far the stream is ahead of the watermark, and taking the oldest costs what is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triegs.windows.judging import SAME_ROW, Words


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


class Pending:
    """Sorted runs of events; the oldest event is the first of one of them."""

    def __init__(self) -> None:
        self._runs: list[Timed] = []

    def __len__(self) -> int:
        return sum(len(run.times) for run in self._runs)

    @property
    def first_time(self) -> int | None:
        """The time of the oldest event."""
        return min((int(run.times[0]) for run in self._runs), default=None)

    def add(self, events: Timed) -> None:
        """Add events that are in order. Cost: O(log n) for each."""
        runs = self._runs
        runs.append(events)
        while len(runs) > 1 and len(runs[-2].times) < 2 * len(runs[-1].times):
            runs[-2:] = [merge(runs[-2:])]

    def copy(self) -> Timed:
        """All events, in order. Cost: their number."""
        return merge(self._runs) if self._runs else NOTHING

    def take(self, until: int) -> Timed:
        """Remove and return, in order, every event up to and including a time."""
        due: list[Timed] = []
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
        gone: list[Timed] = []
        left: list[Timed] = []
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
        first = self.first_time
        assert first is not None
        oldest = min(
            (r for r in self._runs if r.times[0] == first), key=lambda r: int(r.arrivals[0])
        )
        number = next(i for i, run in enumerate(self._runs) if run is oldest)
        end = 1
        while end < len(oldest.ids) and oldest.ids[end] == SAME_ROW:
            end += 1
        self._runs[number] = oldest.pick(slice(end, None))
        self._runs = [run for run in self._runs if len(run.times)]
        return oldest.pick(slice(0, end))
