"""The forms that an epoch of several lanes can take on a number of threads.

- ``serial``: every lane on the calling thread, one after the other.
- ``inline``: each thread owns some lanes, by LPT.
- ``round-robin``: each thread owns some lanes, by number: the straw man for comparisons.
- ``pooled``: all threads take lanes from one queue, the longest first.
- ``hybrid``: some threads own the cheap lanes, the others take the expensive ones from a queue,
  where an inline thread helps once its own lanes are done.

The budget is static: inline threads and pool workers together are at most the threads given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from triegs.lanes.assignment import (
    Assignment,
    assign,
    assign_longest_first,
    assign_round_robin,
)


class Form(StrEnum):
    """How lanes get to threads."""

    SERIAL = "serial"
    INLINE = "inline"
    ROUND_ROBIN = "round-robin"
    POOLED = "pooled"
    HYBRID = "hybrid"


class Schedule(NamedTuple):
    """The lanes of each inline thread in order, and those of the pool, which has some workers."""

    form: Form
    inline: Assignment = ()
    pooled: tuple[int, ...] = ()
    workers: int = 0

    @property
    def threads(self) -> int:
        """Inline threads and pool workers; the form ``serial`` has one of the former."""
        return len(self.inline) + self.workers

    def predict(self, costs: Sequence[float]) -> float:
        """The makespan by these costs, without any overhead."""
        owned = [sum(costs[lane] for lane in lanes) for lanes in self.inline]
        loads = [*owned, *(0.0 for _ in range(self.workers))]
        queue = [costs[lane] for lane in self.pooled]
        taken = assign_longest_first(queue, len(loads), loads)
        return max(
            load + sum(queue[item] for item in items)
            for load, items in zip(loads, taken, strict=True)
        )


def make_schedule(form: Form, costs: Sequence[float], threads: int) -> Schedule:
    """A form for lanes of these costs. Cost: O(threads · n log n) for a hybrid, else O(n log n).

    >>> make_schedule(Form.HYBRID, [1.0, 8.0, 1.0, 9.0], 2)
    Schedule(form=<Form.HYBRID: 'hybrid'>, inline=((1, 0, 2),), pooled=(3,), workers=1)
    """
    count = len(costs)
    threads = max(1, min(threads, count))
    if form is Form.SERIAL or threads == 1:
        return Schedule(Form.SERIAL, (tuple(range(count)),))
    if form is Form.INLINE:
        return Schedule(form, assign(costs, threads))
    if form is Form.ROUND_ROBIN:
        return Schedule(form, assign_round_robin(count, threads))
    if form is Form.POOLED:
        return Schedule(form, (), _sort(costs), threads)
    hybrids = [each for workers in range(1, threads) for each in _mix(costs, threads, workers)]
    return min(hybrids, key=lambda each: each.predict(costs))


def list_candidates(count: int, threads: int) -> tuple[Form, ...]:
    """The forms worth measuring for that many lanes and threads."""
    threads = min(threads, count)
    if threads <= 1:
        return (Form.SERIAL,)
    if count == threads:  # each lane has a thread to itself in any form
        return Form.SERIAL, Form.INLINE
    return Form.SERIAL, Form.INLINE, Form.POOLED, Form.HYBRID


def _sort(costs: Sequence[float]) -> tuple[int, ...]:
    return tuple(sorted(range(len(costs)), key=lambda lane: (-costs[lane], lane)))


def _mix(costs: Sequence[float], threads: int, workers: int) -> Iterator[Schedule]:
    """So many workers for the most expensive lanes that make up about their share of the cost: just
    less and just more of it. Each thread has at least one lane.
    """
    order = _sort(costs)
    share = sum(costs) * workers / threads
    below = sum(total <= share for total in accumulate(costs[lane] for lane in order))
    most = len(order) - (threads - workers)
    for count in {max(workers, min(below + more, most)) for more in (0, 1)}:
        pooled, rest = order[:count], order[count:]
        inline = assign([costs[lane] for lane in rest], threads - workers)
        named = tuple(tuple(rest[item] for item in items) for items in inline)
        yield Schedule(Form.HYBRID, named, pooled, workers)
