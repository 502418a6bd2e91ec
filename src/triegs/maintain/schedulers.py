"""Schedulers: in which order a worker looks at the morsels of a stage.

A morsel runs once, whoever claims it first, so an order decides who is likely to run it and nothing
else: no scheduler can change an answer. A `Schedule` has the home of each morsel, the order of each
worker, and the patience with which a worker waits for morsels of its own NUMA node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

#: Looks at a stage without a morsel of the own node, before those of others are taken.
PATIENCE = 2_000


class Schedule(NamedTuple):
    """What a scheduler decides about the morsels of one stage."""

    homes: list[int]
    orders: list[list[int]]
    patience: int = 0


Scheduler = Callable[[Sequence[int], int, int, Sequence[int]], Schedule]


def schedule_fifo(
    stripes: Sequence[int], stripe_count: int, workers: int, nodes: Sequence[int]
) -> Schedule:
    """One queue: every worker takes the first morsel that is left.

    >>> schedule_fifo([0, 1, 0, 1], 2, 2, [0, 0]).orders
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    every = list(range(len(stripes)))
    return Schedule([0] * len(every), [every] * workers)


def schedule_stealing(
    stripes: Sequence[int], stripe_count: int, workers: int, nodes: Sequence[int]
) -> Schedule:
    """A queue for each worker, dealt in turn; who has none left takes the last ones of others.

    >>> schedule_stealing([0, 1, 0, 1], 2, 2, [0, 0]).orders
    [[0, 2, 3, 1], [1, 3, 2, 0]]
    """
    homes = [number % workers for number in range(len(stripes))]
    return Schedule(homes, [_own_first(homes, own, workers) for own in range(workers)])


def schedule_prefix(
    stripes: Sequence[int], stripe_count: int, workers: int, nodes: Sequence[int]
) -> Schedule:
    """Each worker owns stripes, and runs all their morsels before it takes others.

    >>> schedule_prefix([0, 1, 0, 1], 2, 2, [0, 0]).homes
    [0, 1, 0, 1]
    """
    homes, whole = [], 0
    for stripe in stripes:
        if stripe < 0:  # a morsel without a stripe
            homes.append(whole % workers)
            whole += 1
        else:
            homes.append(stripe * workers // stripe_count)
    return Schedule(homes, [_own_first(homes, own, workers) for own in range(workers)])


def schedule_numa(
    stripes: Sequence[int], stripe_count: int, workers: int, nodes: Sequence[int]
) -> Schedule:
    """As `schedule_prefix`, but others' morsels of the own NUMA node come first, and a worker waits
    before it takes those of another node, whose memory is far.

    >>> schedule_numa([0, 1, 2], 3, 3, [0, 1, 0]).orders[0]
    [0, 2, 1]
    """
    homes = schedule_prefix(stripes, stripe_count, workers, nodes).homes
    orders = [
        sorted(_own_first(homes, own, workers), key=lambda at: nodes[homes[at]] != nodes[own])
        for own in range(workers)
    ]
    return Schedule(homes, orders, PATIENCE if len(set(nodes)) > 1 else 0)


def _own_first(homes: Sequence[int], own: int, workers: int) -> list[int]:
    """The morsels of a worker in order, then those of the next ones, last first."""
    own_ones = [number for number, home in enumerate(homes) if home == own]
    others = [
        number
        for step in range(1, workers)
        for number in reversed(range(len(homes)))
        if homes[number] == (own + step) % workers
    ]
    return own_ones + others


#: `serial` takes no morsels; `adaptive` is `prefix` for the epochs for which that pays.
BY_NAME: dict[str, Scheduler] = {
    "fifo": schedule_fifo,
    "stealing": schedule_stealing,
    "prefix": schedule_prefix,
    "numa": schedule_numa,
    "adaptive": schedule_prefix,
}
