"""Search for the cheapest legal plan of a component, by `cost`.

Up to `EXHAUSTIVE` relations every list of picks is tried, at most `TRIED` of them. Beyond, only the
root varies and the first absorption is always taken. Candidates are all head variables if there are
few, else the middle of the longest path through the query and the variables of highest degree: a
path is rooted in its middle, a star at its centre.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice

from triegs.compiler.choices import Chooser, run_all
from triegs.compiler.component import Built, QueryComponent, build_component
from triegs.compiler.cost import plan_cost

EXHAUSTIVE = 6
TRIED = 500
FEW_ROOTS = 8
HIGHEST_DEGREE = 2

Priced = tuple[float, tuple[int, ...], Built]


def cheapest(
    component: QueryComponent, position: dict[str, int], root: str | None = None
) -> Priced:
    """The cheapest build found, with its cost and its picks."""
    is_small = len(component.guards) <= EXHAUSTIVE
    builds = every_build if is_small else _some_roots
    tried = islice(builds(component, position, root), TRIED)
    return min(tried, key=lambda priced: priced[0])


def every_build(
    component: QueryComponent, position: dict[str, int], root: str | None = None
) -> Iterator[Priced]:
    """All builds of a component, one per list of picks; different picks may give equal rules."""
    builds = run_all(lambda chooser: build_component(component, position, chooser, root))
    for picks, built in builds:
        yield price(component, built), picks, built


def one_build(
    component: QueryComponent, position: dict[str, int], chooser: Chooser, root: str | None = None
) -> Priced:
    """The build that the chooser's picks lead to."""
    built = build_component(component, position, chooser, root)
    return price(component, built), chooser.picks, built


def price(component: QueryComponent, built: Built) -> float:
    return plan_cost(built.drafts, built.top, frozenset(component.head))


def _some_roots(
    component: QueryComponent, position: dict[str, int], root: str | None
) -> Iterator[Priced]:
    candidates: list[str | None] = [root]
    if root is None and component.head:
        candidates = [*_root_candidates(component)]
    for candidate in candidates:
        yield one_build(component, position, Chooser(), candidate)


def _root_candidates(component: QueryComponent) -> list[str]:
    if len(component.head) <= FEW_ROOTS:
        return list(component.head)
    degree = Counter(v for guard in component.guards for v in guard.variables)
    hubs = sorted(component.head, key=lambda v: -degree[v])[:HIGHEST_DEGREE]
    middle = [v for v in _longest_path(component) if v in component.head]
    return list(dict.fromkeys(middle[len(middle) // 2 : len(middle) // 2 + 1] + hubs))


def _longest_path(component: QueryComponent) -> list[str]:
    """The variables along a longest shortest path, by two breadth-first searches."""
    near: dict[str, set[str]] = {}
    for guard in component.guards:
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
        path = [last]
        while path[-1] != start:
            path.append(came_from[path[-1]])
        return path

    return search(search(component.guards[0].variables[0])[0])
