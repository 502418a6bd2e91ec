"""Lowers a source that carries extremes: the lowest or highest value of a variable by group.

The nodes on the path from the variable to the key become edges and products that carry extremes,
`triegs.maintain.kernels.extremes`. All other nodes only have to be present, and are lowered as for
a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from triegs.compiler.groups import list_carrying
from triegs.compiler.keys import sort_children
from triegs.compiler.plan import Alias, Extreme, Node, Plan
from triegs.maintain.kernels.tables import (
    ADJACENCY,
    CARRIED,
    EXTREME_PRODUCT,
    OWN,
    OWN_IF_PRESENT,
)
from triegs.maintain.leaves import Encode
from triegs.maintain.model import Edge, View
from triegs.maintain.sources import SourceLowering
from triegs.maintain.views import Views


class ExtremeLowering(SourceLowering):
    """Lowers the plan of an extreme that is carried."""

    def __init__(self, views: Views, plan: Plan, encode: Encode, keys: Sequence[str]) -> None:
        super().__init__(views, plan, encode, keys)
        #: For each node on the path the one below.
        self.below = dict(pairwise(list_carrying(plan)))
        self.carried: dict[int, View] = {}

    def lower_nodes(self) -> None:
        for number, node in enumerate(self.plan.nodes):
            if number in self.below:
                self.carried[number] = self._carry(number, node)
            elif not self.by_variable[number]:
                self._lower_rule(number, node)
            elif node.interface and not isinstance(node.guard, Extreme):
                self.factor(number, node.interface[0])

    def factor(self, number: int, variable: str) -> View:
        found = self.carried.get(number)
        return super().factor(number, variable) if found is None else found

    def _carry(self, number: int, node: Node) -> View:
        below, variable = self.below[number], node.interface[0]
        name = f"{node.key} by {node.bag.index(variable)}"
        children = [c for c in sort_children(self.plan, node) if c != below]
        if self.plan.nodes[below].interface == node.interface:
            carried = self.carried[below]
            guard = self.edge(node, variable) if len(node.bag) == 2 else self.guard(node)
            present = [] if guard is None else [guard]
        else:
            (other,) = node.introduces
            carried = self._carry_edge(node, below, self._present(children, other))
            present = []
        present += self._present(children, variable)
        return self._restrict(name, carried, present, node, variable)

    def _present(self, children: Sequence[int], variable: str) -> list[View]:
        nodes = self.plan.nodes
        return [self.factor(c, variable) for c in children if nodes[c].interface == (variable,)]

    def _restrict(
        self, name: str, carried: View, present: Sequence[View], node: Node, variable: str
    ) -> View:
        """The extremes of the keys that other views have as well."""
        if not present:
            return carried
        factors = (carried, *dict.fromkeys(present))
        return self.use(self.views.step(name, EXTREME_PRODUCT, False, factors), node, (variable,))

    def _carry_edge(self, node: Node, below: int, present: list[View]) -> View:
        """The edge to the node below, over those of its keys that other views have as well."""
        alias, (variable,), (other,) = node.guard, node.interface, node.introduces
        assert isinstance(alias, Alias)
        leaf = self.plan.nodes[below].guard
        name = f"{node.key} edge by {node.bag.index(variable)}"
        child: View | None = None
        if not isinstance(leaf, Extreme):
            neighbours = CARRIED
            child = self._restrict(f"{name} below", self.carried[below], present, node, other)
        elif present:
            neighbours = OWN_IF_PRESENT
            child = self._product(f"{name} below", present, False, node, other)
        else:
            neighbours = OWN
        stream, column = self._stream(alias), alias.variables.index(variable)
        found = self.views.extreme_edge(
            name, self._is_last(), neighbours, child,
            Edge(stream, column, self._index(stream, ADJACENCY, 1 - column)),
            self._index(stream, ADJACENCY, column),
        )  # fmt: skip
        return self.use(found, node, (variable, other), alias)

    def _is_last(self) -> bool:
        return any(isinstance(n.guard, Extreme) and n.guard.is_last for n in self.plan.nodes)
