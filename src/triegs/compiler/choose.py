"""Which legal choice to take: the cheapest by `cost`, found by trying them.

Up to `EXHAUSTIVE` relations every list of picks is tried (at most `TRIED` of them). Beyond, only
the root is varied, and the first absorption is taken each time: over all head variables when
there are few, else over the middle of the longest way through the query and the busiest ones. A
path is then rooted in its middle and a star at its centre.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice

from triegs.compiler.choices import Chooser, run_all
from triegs.compiler.component import Built, Part, build_component
from triegs.compiler.cost import plan_cost

EXHAUSTIVE = 6
TRIED = 500
FEW_ROOTS = 8
BUSIEST = 2

Priced = tuple[float, tuple[int, ...], Built]


def cheapest(part: Part, position: dict[str, int], root: str | None = None) -> Priced:
    """The cheapest way found to compile a component, with its price and its picks."""
    is_small = len(part.guards) <= EXHAUSTIVE
    ways = every_way if is_small else _some_roots
    tried = islice(ways(part, position, root), TRIED)
    return min(tried, key=lambda priced: priced[0])


def every_way(part: Part, position: dict[str, int], root: str | None = None) -> Iterator[Priced]:
    """All ways to compile a component, each list of picks once; different picks may end in
    equal rules.
    """
    for picks, built in run_all(lambda chooser: build_component(part, position, chooser, root)):
        yield price(part, built), picks, built


def one_way(
    part: Part, position: dict[str, int], chooser: Chooser, root: str | None = None
) -> Priced:
    """The way that the chooser's picks lead."""
    built = build_component(part, position, chooser, root)
    return price(part, built), chooser.picks, built


def price(part: Part, built: Built) -> float:
    return plan_cost(built.drafts, built.top, frozenset(part.head))


def _some_roots(part: Part, position: dict[str, int], root: str | None) -> Iterator[Priced]:
    candidates: list[str | None] = [root]
    if root is None and part.head:
        candidates = [*_root_candidates(part)]
    for candidate in candidates:
        yield one_way(part, position, Chooser(), candidate)


def _root_candidates(part: Part) -> list[str]:
    if len(part.head) <= FEW_ROOTS:
        return list(part.head)
    degree = Counter(v for guard in part.guards for v in guard.variables)
    busiest = sorted(part.head, key=lambda v: -degree[v])[:BUSIEST]
    middle = [v for v in _longest_way(part) if v in part.head]
    return list(dict.fromkeys(middle[len(middle) // 2 : len(middle) // 2 + 1] + busiest))


def _longest_way(part: Part) -> list[str]:
    """The variables along a longest shortest path, by two searches breadth first."""
    near: dict[str, set[str]] = {}
    for guard in part.guards:
        for variable in guard.variables:
            near.setdefault(variable, set()).update(guard.variables)

    def search(start: str) -> list[str]:
        came_from = {start: start}
        queue = deque([start])
        last = start
        while queue:
            last = queue.popleft()
            for other in sorted(near[last]):
                if other not in came_from:
                    came_from[other] = last
                    queue.append(other)
        way = [last]
        while way[-1] != start:
            way.append(came_from[way[-1]])
        return way

    return search(search(part.guards[0].variables[0])[0])
