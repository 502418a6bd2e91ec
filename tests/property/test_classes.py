"""The compiler's class equals the definitions, on small hypergraphs exhaustively and beyond."""

from __future__ import annotations

import os
from itertools import combinations, combinations_with_replacement
from random import Random

import pytest
from tests.property.definitions import class_by_definition, heaviest_join_tree, some_join_tree
from tests.property.random_queries import random_query

from triegs.compiler import compile_query
from triegs.compiler.choices import Chooser
from triegs.compiler.component import QueryComponent, build_component
from triegs.compiler.hypergraph import connected_groups, cyclic_core
from triegs.compiler.plan import Alias, PlanClass
from triegs.sparql.model import Atom

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
NAMES = ("?a", "?b", "?c", "?d")
EDGES = [frozenset(some) for size in (1, 2, 3) for some in combinations(NAMES, size)]


def as_atom(edge):
    """An atom over one, two or three variables."""
    names = sorted(edge)
    return {
        1: lambda: Atom(names[0], "<p>", "<c>"),
        2: lambda: Atom(names[0], "<p>", names[1]),
        3: lambda: Atom(*names),
    }[len(names)]()


def class_of(edges, head):
    """The class by elimination alone, without looking for the cheapest plan."""
    order = list(PlanClass)
    found = order[0]
    position = {v: i for i, v in enumerate(NAMES)}
    for group in connected_groups(edges):
        inside = frozenset().union(*(edges[i] for i in group))
        component = QueryComponent(
            tuple(Alias(as_atom(edges[i])) for i in group),
            tuple(v for v in head if v in inside), (), (),
        )  # fmt: skip
        found = max(
            found, build_component(component, position, Chooser()).plan_class, key=order.index
        )
    return found.value


@pytest.mark.parametrize("size", [1, 2, 3, *([4] if SOAK else [])])
def test_every_small_hypergraph_and_head(size):
    for edges in combinations_with_replacement(EDGES, size):
        variables = sorted(frozenset().union(*edges))
        for width in range(len(variables) + 1):
            for head in combinations(variables, width):
                assert class_of(edges, head) == class_by_definition(edges, head), (edges, head)


def test_the_shortcut_for_join_trees_equals_trying_all_trees():
    random = Random(5)
    for _ in range(2_000):
        edges = [random.choice(EDGES) for _ in range(random.randint(1, 5))]
        assert heaviest_join_tree(edges) == some_join_tree(edges) == (not cyclic_core(edges)), edges


@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_random_queries(seed):
    random = Random(seed)
    seen = set()
    for _ in range(5_000 if SOAK else 500):
        query = random_query(random)
        plan = compile_query(query)
        expected = class_by_definition([a.variables for a in query.atoms], query.free)
        assert plan.plan_class.value == expected, query
        seen.add(expected)
    assert seen == {c.value for c in PlanClass}
