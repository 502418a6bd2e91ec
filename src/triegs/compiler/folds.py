"""Folds: a bag whose halves repeat each other is kept as its halves.

Variables *S* split a bag into components if no edge links two of them. The *half* of a component
is the part of the bag over it and *S*. If every other half maps onto one half, atom by atom and
with *S* fixed, then each row of that half is a row of the bag: give all other components the values
that they map to. So the half has no more rows than the bag, and no more of them change; if this
holds for all halves, they replace the bag, and answers join them over *S*.

The diamond ``?a e ?b . ?a e ?c . ?b e ?d . ?c e ?d`` splits at ``?a ?d`` into two paths, which are
moreover one relation. The rectangle ``?a e ?b . ?b e ?c . ?c e ?d . ?d e ?a`` has no fold: a path
from ``?a`` to ``?c`` need not be closed by one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from triegs.compiler.hypergraph import Edge, connected_groups

#: Bags of more variables are kept whole: the search tries all sets of variables.
SEARCHED = 8


@dataclass(frozen=True, slots=True)
class Member:
    """An atom of a bag: what it means up to the names of its variables, and these in order."""

    meaning: str
    variables: tuple[str, ...]


def split_bag(bag: Edge, members: Sequence[Member], others: Sequence[Edge]) -> list[Edge]:
    """The halves that replace a bag; the bag itself if it has no fold.

    `others` are what else the bag joins, its filters, and what it shares with its neighbours. They
    map onto nothing, so a bag is split only at variables that hold them.

    >>> diamond = [Member("e", tuple(pair)) for pair in ("ab", "ac", "bd", "cd")]
    >>> sorted(sorted(half) for half in split_bag(frozenset("abcd"), diamond, []))
    [['a', 'b', 'd'], ['a', 'c', 'd']]
    >>> square = [Member("e", tuple(pair)) for pair in ("ab", "bc", "cd", "da")]
    >>> len(split_bag(frozenset("abcd"), square, []))
    1
    """
    if len(bag) > SEARCHED:
        return [bag]
    held = frozenset().union(*others)
    free = sorted(bag - held)
    for size in range(max(1 - len(held), 0), len(free) - 1):
        for some in combinations(free, size):
            shared = held.union(some)
            components = _find_components(shared, members)
            halves = [_within(shared | component, members) for component in components]
            if len(halves) > 1 and all(
                _maps_onto(a, b, shared) for a, b in permutations(halves, 2)
            ):
                inner = [
                    split_bag(shared | component, half, [shared])
                    for component, half in zip(components, halves, strict=True)
                ]
                return [smaller for bags in inner for smaller in bags]
    return [bag]


def _find_components(shared: Edge, members: Sequence[Member]) -> list[Edge]:
    edges = [edge for member in members if (edge := frozenset(member.variables) - shared)]
    return [frozenset().union(*(edges[i] for i in group)) for group in connected_groups(edges)]


def _within(half: Edge, members: Sequence[Member]) -> list[Member]:
    return [member for member in members if half.issuperset(member.variables)]


def _maps_onto(half: Sequence[Member], other: Sequence[Member], fixed: Edge) -> bool:
    """Whether a substitution that keeps the fixed variables makes every member one of `other`."""
    stack: list[tuple[int, dict[str, str]]] = [(0, {v: v for v in fixed})]
    while stack:
        done, image = stack.pop()
        if done == len(half):
            return True
        member = half[done]
        for target in other:
            if target.meaning == member.meaning:
                wanted = dict(zip(member.variables, target.variables, strict=True))
                if all(image.get(v, to) == to for v, to in wanted.items()):
                    stack.append((done + 1, image | wanted))
    return False
