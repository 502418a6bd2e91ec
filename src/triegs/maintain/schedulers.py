"""Schedulers: in which order a worker looks at the morsels of a stage.

A morsel runs once, whoever claims it first, so an order decides who is likely to run it and nothing
else: no scheduler can change an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

#: Looks at a stage without a morsel of the own node, before those of others are taken.
PATIENCE = 2_000


class Workers(NamedTuple):
    """How many there are, on which NUMA nodes, and of how many stripes their morsels are."""

    number: int
    stripes: int
    nodes: Sequence[int]


class Schedule(NamedTuple):
    """What a scheduler decides about the morsels of one stage: the home of each, the order of each
    worker, and the patience with which a worker waits for morsels of its own NUMA node.
    """

    homes: list[int]
    orders: list[list[int]]
    patience: int = 0


#: Gets the stripe of each morsel, negative for one without.
Scheduler = Callable[[Sequence[int], Workers], Schedule]


def schedule_fifo(stripes: Sequence[int], workers: Workers) -> Schedule:
    """One queue: every worker takes the first morsel that is left.

    >>> schedule_fifo([0, 1, 0, 1], Workers(2, 2, [0, 0])).orders
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    every = list(range(len(stripes)))
    return Schedule([0] * len(every), [every] * workers.number)


def schedule_stealing(stripes: Sequence[int], workers: Workers) -> Schedule:
    """A queue for each worker, dealt in turn; who has none left takes the last ones of others.

    >>> schedule_stealing([0, 1, 0, 1], Workers(2, 2, [0, 0])).orders
    [[0, 2, 3, 1], [1, 3, 2, 0]]
    """
    return _queue([number % workers.number for number in range(len(stripes))], workers)


def schedule_prefix(stripes: Sequence[int], workers: Workers) -> Schedule:
    """Each worker owns stripes, and runs all their morsels before it takes others.

    >>> schedule_prefix([0, 1, -1, 1], Workers(2, 2, [0, 0])).homes
    [0, 1, 0, 1]
    """
    whole = iter(range(len(stripes)))
    homes = [
        next(whole) % workers.number if stripe < 0 else stripe * workers.number // workers.stripes
        for stripe in stripes
    ]
    return _queue(homes, workers)


def schedule_numa(stripes: Sequence[int], workers: Workers) -> Schedule:
    """As `schedule_prefix`, but others' morsels of the own NUMA node come first, and a worker waits
    before it takes those of another node, whose memory is far.

    >>> schedule_numa([0, 1, 2], Workers(3, 3, [0, 1, 0])).orders[0]
    [0, 2, 1]
    """
    homes, orders, _ = schedule_prefix(stripes, workers)
    nodes = workers.nodes
    orders = [
        sorted(order, key=lambda at, own=own: nodes[homes[at]] != nodes[own])  # type: ignore[misc]
        for own, order in enumerate(orders)
    ]
    return Schedule(homes, orders, PATIENCE if len(set(nodes)) > 1 else 0)


def _queue(homes: list[int], workers: Workers) -> Schedule:
    """Each worker takes its own morsels in order, then those of the next ones, last first."""
    numbers, count = range(len(homes)), workers.number
    orders = [
        [at for at in numbers if homes[at] == own]
        + [
            at for step in range(1, count) for at in reversed(numbers)
            if homes[at] == (own + step) % count
        ]
        for own in range(count)
    ]  # fmt: skip
    return Schedule(homes, orders)


#: `serial` takes no morsels; `adaptive` is `prefix` for the epochs for which that pays.
BY_NAME: dict[str, Scheduler] = {
    "fifo": schedule_fifo,
    "stealing": schedule_stealing,
    "prefix": schedule_prefix,
    "numa": schedule_numa,
    "adaptive": schedule_prefix,
}
