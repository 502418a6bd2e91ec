"""Bags for a cyclic core: a tree decomposition of least width.

The width of a bag is the least number of edges that cover it, so a bag over *n*-row relations
has at most *n* to the width rows. Up to `EXHAUSTIVE` variables every elimination order is
considered (dynamic programming over sets of eliminated variables); beyond, the order that adds the
fewest links is taken. Neighbouring bags are then joined as long as the width does not grow: fewer
bags store fewer rows that no answer needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations

from triegs.compiler.hypergraph import Edge

EXHAUSTIVE = 10
SEARCHED = 14


def cover_width(bag: Edge, edges: Sequence[Edge]) -> int:
    """The least number of edges whose union holds the bag.

    Edges that alone hold a variable are taken first, which settles every acyclic case. The rest is
    searched exhaustively up to `SEARCHED` edges, and greedily, widest first, beyond.

    >>> cover_width(frozenset("abc"), [frozenset("ab"), frozenset("bc"), frozenset("ca")])
    2
    """
    missing, chosen = set(bag), 0
    while missing:
        useful = _holders({edge & missing for edge in edges})
        if len(useful) < len(missing):
            raise ValueError(f"no edges cover {sorted(bag)}")
        largest = [
            edge
            for edge in set().union(*useful.values())
            if not any(edge < other for other in min((useful[v] for v in edge), key=len))
        ]
        holders = _holders(largest)
        forced = {edges_with[0] for edges_with in holders.values() if len(edges_with) == 1}
        if not forced and len(largest) <= SEARCHED:
            return chosen + _least_cover(frozenset(missing), largest)
        picked = forced or {max(largest, key=lambda edge: (len(edge), sorted(edge)))}
        missing.difference_update(*picked)
        chosen += len(picked)
    return chosen


def _holders(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        for variable in edge:
            found.setdefault(variable, []).append(edge)
    return found


def _least_cover(missing: Edge, edges: Sequence[Edge]) -> int:
    sizes = range(1, len(edges) + 1)
    covers = (n for n in sizes for some in combinations(edges, n) if missing <= _union(some))
    return next(covers)


def _union(edges: Iterable[Edge]) -> Edge:
    return frozenset().union(*edges)


def decompose(edges: Sequence[Edge], covers: Sequence[Edge]) -> list[Edge]:
    """Acyclic bags of least width such that every edge lies in one of them.

    `covers` are the edges that may cover a bag. A filter is an edge to be assigned to a bag, but it
    binds no variable.

    >>> square = [frozenset("ab"), frozenset("bc"), frozenset("cd"), frozenset("da")]
    >>> [sorted(bag) for bag in decompose(square, square)]
    [['a', 'b', 'c', 'd']]
    >>> hexagon = [frozenset("abcdef"[i] + "bcdefa"[i]) for i in range(6)]
    >>> max(cover_width(bag, hexagon) for bag in decompose(hexagon, hexagon))
    2
    """
    variables = sorted(_union(edges))
    links = {v: _union(e for e in edges if v in e) - {v} for v in variables}

    def reached(variable: str, gone: Edge) -> Edge:
        """The bag of eliminating `variable` after `gone`: itself and its remaining neighbours."""
        seen, stack = {variable}, [variable]
        while stack:
            for other in links[stack.pop()] - seen:
                seen.add(other)
                if other in gone:
                    stack.append(other)
        return frozenset(seen) - gone

    @cache
    def width(bag: Edge) -> int:
        return cover_width(bag, covers)

    @cache
    def best(gone: Edge) -> tuple[int, int, tuple[str, ...]]:
        """Least (largest width, sum of widths, order) of eliminating the remaining variables."""
        rest = [v for v in variables if v not in gone]
        if not rest:
            return (0, 0, ())
        options = []
        for variable in rest:
            cost = width(reached(variable, gone))
            largest, total, order = best(gone | {variable})
            options.append((max(cost, largest), cost + total, (variable, *order)))
        return min(options)

    def fewest_links() -> tuple[str, ...]:
        order: list[str] = []
        while len(order) < len(variables):
            gone = frozenset(order)
            rest = [v for v in variables if v not in gone]
            order.append(min(rest, key=lambda v: (len(reached(v, gone)), v)))
        return tuple(order)

    order = best(frozenset())[2] if len(variables) <= EXHAUSTIVE else fewest_links()
    bags = [reached(v, frozenset(order[:i])) for i, v in enumerate(order)]
    bags = [bag for i, bag in enumerate(bags) if not _inside_another(i, bag, bags)]
    return _join_neighbours(bags, covers)


def _inside_another(index: int, bag: Edge, bags: Sequence[Edge]) -> bool:
    return any(bag < other or (bag == other and i < index) for i, other in enumerate(bags))


def _join_neighbours(bags: list[Edge], covers: Sequence[Edge]) -> list[Edge]:
    largest = max(cover_width(bag, covers) for bag in bags)
    while True:
        for a, b in _join_tree(bags):
            union = bags[a] | bags[b]
            if cover_width(union, covers) <= largest:
                bags = [bag for i, bag in enumerate(bags) if i not in (a, b)]
                bags = [bag for bag in bags if not bag <= union] + [union]
                break
        else:
            return bags


def _join_tree(bags: Sequence[Edge]) -> list[tuple[int, int]]:
    """The links of a join tree: a spanning tree of the largest overlaps."""
    pairs = sorted(
        combinations(range(len(bags)), 2), key=lambda pair: -len(bags[pair[0]] & bags[pair[1]])
    )
    group = list(range(len(bags)))
    tree = []
    for a, b in pairs:
        if group[a] != group[b] and bags[a] & bags[b]:
            tree.append((a, b))
            old, new = group[b], group[a]
            group = [new if g == old else g for g in group]
    return tree
