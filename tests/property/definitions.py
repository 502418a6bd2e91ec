"""Acyclicity by its definition, for tests: a join tree exists. Knows nothing of elimination."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product


def is_join_tree(edges: Sequence[frozenset[str]], links: Iterable[tuple[int, int]]) -> bool:
    """Every variable's edges are connected in the tree."""
    near: dict[int, list[int]] = {i: [] for i in range(len(edges))}
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    for variable in frozenset().union(*edges):
        holders = {i for i, edge in enumerate(edges) if variable in edge}
        start = min(holders)
        seen, stack = {start}, [start]
        while stack:
            for other in near[stack.pop()]:
                if other in holders and other not in seen:
                    seen.add(other)
                    stack.append(other)
        if seen != holders:
            return False
    return True


def some_join_tree(edges: Sequence[frozenset[str]]) -> bool:
    """Try every spanning tree (by its Prüfer code): for up to six edges."""
    n = len(edges)
    if n <= 2:
        return True
    return any(is_join_tree(edges, _tree(code, n)) for code in product(range(n), repeat=n - 2))


def heaviest_join_tree(edges: Sequence[frozenset[str]]) -> bool:
    """Maier's theorem: the spanning trees of the largest overlaps are the join trees, if any is.

    `some_join_tree` checks this shortcut where it can.
    """
    pairs = sorted(
        combinations(range(len(edges)), 2), key=lambda p: -len(edges[p[0]] & edges[p[1]])
    )
    group = list(range(len(edges)))
    links = []
    for a, b in pairs:
        if group[a] != group[b]:
            links.append((a, b))
            old, new = group[b], group[a]
            group = [new if g == old else g for g in group]
    return is_join_tree(edges, links)


def class_by_definition(edges: Sequence[Iterable[str]], head: Iterable[str]) -> str:
    """The class of a query from its atoms' variables and its head alone."""
    sets = [frozenset(edge) for edge in edges]
    shown = frozenset(head)
    if not heaviest_join_tree(sets):
        return "cyclic"
    if shown == frozenset().union(*sets):
        return "full-acyclic"
    return "free-connex" if heaviest_join_tree([*sets, shown]) else "materialized"


def _tree(code: Sequence[int], n: int) -> list[tuple[int, int]]:
    degree = [1 + code.count(i) for i in range(n)]
    links = []
    for node in code:
        leaf = degree.index(1)
        links.append((leaf, node))
        degree[leaf] -= 1
        degree[node] -= 1
    a, b = (i for i in range(n) if degree[i] == 1)
    return [*links, (a, b)]
