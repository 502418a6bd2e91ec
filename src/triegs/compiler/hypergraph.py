"""Hypergraphs of variables: connectivity, and the core that elimination cannot remove."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Edge = frozenset[str]


def connected_groups(edges: Sequence[Iterable[str]]) -> list[list[int]]:
    """Group edges that share variables, directly or not; an edge without variables is alone.

    >>> connected_groups([{"?x", "?y"}, {"?z"}, {"?y", "?w"}, set()])
    [[0, 2], [1], [3]]
    """
    leader = list(range(len(edges)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    owner: dict[str, int] = {}
    for i, edge in enumerate(edges):
        for variable in edge:
            a, b = sorted((find(i), find(owner.setdefault(variable, i))))
            leader[b] = a
    groups: dict[int, list[int]] = {}
    for i in range(len(edges)):
        groups.setdefault(find(i), []).append(i)
    return list(groups.values())


def cyclic_core(edges: Sequence[Edge]) -> dict[int, Edge]:
    """The GYO reduction: remove variables of a single edge, and edges inside others, until none is
    left. The result is empty exactly if the hypergraph is acyclic.

    Every order of removals leaves the same core. Returns the remaining variables by edge number.

    >>> cyclic_core([frozenset("xy"), frozenset("yz")])
    {}
    >>> triangle = [frozenset("xy"), frozenset("yz"), frozenset("zx"), frozenset("zw")]
    >>> sorted(cyclic_core(triangle))
    [0, 1, 2]
    """
    rest = {i: set(edge) for i, edge in enumerate(edges)}
    where: dict[str, set[int]] = {}
    for i, edge in rest.items():
        for variable in edge:
            where.setdefault(variable, set()).add(i)
    queue = list(rest)
    while queue:
        i = queue.pop()
        if i not in rest:
            continue
        edge = rest[i]
        for variable in [v for v in edge if where[v] == {i}]:
            edge.discard(variable)
            del where[variable]
        holders = set.intersection(*(where[v] for v in edge)) - {i} if edge else set()
        if holders or not edge:
            for variable in edge:
                where[variable].discard(i)
                if len(where[variable]) == 1:  # only then can another edge shrink
                    queue += where[variable]
            del rest[i]
    return {i: frozenset(edge) for i, edge in rest.items()}
