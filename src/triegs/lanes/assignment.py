"""Which thread runs which lane: lanes of known costs, divided among a number of threads.

The wall clock of an epoch is that of the slowest thread, the *makespan*. To find the least one is
NP-hard. Longest processing time first (LPT) is within 4/3 - 1/(3m) of it on m threads (Graham,
1969).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

Assignment = tuple[tuple[int, ...], ...]


def assign_longest_first(
    costs: Sequence[float], threads: int, loads: Sequence[float] = ()
) -> Assignment:
    """LPT: the items in decreasing order of cost, each to the thread with the least so far. With
    `loads` that is what threads have to do besides. Cost: O(n log n).

    >>> assign_longest_first([3.0, 1.0, 2.0, 4.0], 2)
    ((3, 1), (0, 2))
    """
    found: list[list[int]] = [[] for _ in range(threads)]
    queue = [(loads[thread] if loads else 0.0, 0, thread) for thread in range(threads)]
    heapify(queue)
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        load, count, thread = queue[0]
        found[thread].append(item)
        # Items without a cost yet are spread by number.
        heapreplace(queue, (load + costs[item], count + 1, thread))
    return tuple(map(tuple, found))


def assign_round_robin(count: int, threads: int) -> Assignment:
    """Item i to thread i modulo their number, whatever it costs.

    >>> assign_round_robin(5, 2)
    ((0, 2, 4), (1, 3))
    """
    return tuple(tuple(range(thread, count, threads)) for thread in range(threads))


def assign(costs: Sequence[float], threads: int) -> Assignment:
    """LPT, or round robin where that is better by chance: so it is never worse than either.

    >>> costs = [2.0, 3.0, 2.0, 3.0, 2.0]
    >>> find_makespan(costs, assign_longest_first(costs, 2)), find_makespan(costs, assign(costs, 2))
    (7.0, 6.0)
    """
    longest_first = assign_longest_first(costs, threads)
    in_turn = assign_round_robin(len(costs), threads)
    is_better = find_makespan(costs, in_turn) < find_makespan(costs, longest_first)
    return in_turn if is_better else longest_first


def find_makespan(costs: Sequence[float], assignment: Assignment) -> float:
    """The cost of the slowest thread."""
    return max((sum(costs[item] for item in items) for items in assignment), default=0.0)
