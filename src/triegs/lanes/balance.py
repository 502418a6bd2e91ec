"""Which lane has which query: new ones go to the lane with the least to do, later some move."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from triegs.lanes.assignment import Assignment, assign_longest_first

LEAST_GAIN = 0.1  # of the slowest lane's cost: less does not pay for filling views again


class Move(NamedTuple):
    """A query that went from one lane to another."""

    query: str
    source: int
    target: int


def choose_lane(costs: Sequence[float], counts: Sequence[int], unknown: Sequence[int]) -> int:
    """The lane for a new query: one without any, else by cost, where each query that was not
    measured yet counts as the average, then by the number of queries.

    >>> choose_lane([3.0, 1.0, 0.0], [1, 1, 2], [0, 0, 2])
    1
    >>> choose_lane([0.0, 0.0], [1, 0], [1, 0])
    1
    """
    known = sum(counts) - sum(unknown)
    usual = sum(costs) / known if known > 0 else 0.0
    loads = [(costs[lane] + usual * unknown[lane], counts[lane]) for lane in range(len(costs))]
    return min(range(len(loads)), key=lambda lane: (counts[lane] > 0, *loads[lane], lane))


def split_cost(cost: float, weights: Mapping[str, float]) -> dict[str, float]:
    """The cost of a lane by query, in proportion to what each touched; shared work counts for
    each of those that share it.

    >>> split_cost(4.0, {"a": 1.0, "b": 3.0}), split_cost(1.0, {"a": 0.0, "b": 0.0})
    ({'a': 1.0, 'b': 3.0}, {'a': 0.5, 'b': 0.5})
    """
    total = sum(weights.values())
    if not total:
        return dict.fromkeys(weights, cost / len(weights)) if weights else {}
    return {name: cost * weight / total for name, weight in weights.items()}


def plan_moves(
    costs: Mapping[str, float],
    lanes: Mapping[str, int],
    count: int,
    fixed: Collection[str] = (),
    least_gain: float = LEAST_GAIN,
) -> list[Move]:
    """The moves to an assignment by LPT, or none if that gains too little. Queries in `fixed` stay.

    >>> plan_moves({"a": 5.0, "b": 4.0, "c": 1.0}, {"a": 0, "b": 0, "c": 1}, 2)
    [Move(query='b', source=0, target=1)]
    """
    before = [0.0] * count
    bound = [0.0] * count
    for name, lane in lanes.items():
        before[lane] += costs[name]
        bound[lane] += costs[name] if name in fixed else 0.0
    free = [name for name in sorted(costs) if name not in fixed]
    groups = assign_longest_first([costs[name] for name in free], count, bound)
    if not fixed:
        groups = _match(groups, [lanes[name] for name in free], [costs[name] for name in free])
    after = [bound[lane] + sum(costs[free[item]] for item in groups[lane]) for lane in range(count)]
    if max(after) > (1 - least_gain) * max(before):
        return []
    targets = {free[item]: lane for lane in range(count) for item in groups[lane]}
    moves = (Move(name, lanes[name], targets[name]) for name in free)
    return [move for move in moves if move.source != move.target]


def _match(groups: Assignment, lanes: Sequence[int], costs: Sequence[float]) -> Assignment:
    """The groups in an order in which each has the lane where most of its cost is already, as far
    as no other group has more there.
    """
    found: dict[int, tuple[int, ...]] = {}
    stays = sorted(
        (
            (-sum(costs[item] for item in group if lanes[item] == lane), number, lane)
            for number, group in enumerate(groups)
            for lane in range(len(groups))
        )
    )
    placed: set[int] = set()
    for _, number, lane in stays:
        if number not in placed and lane not in found:
            found[lane] = groups[number]
            placed.add(number)
    return tuple(found[lane] for lane in range(len(groups)))
