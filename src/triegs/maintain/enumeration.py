"""Plans the enumeration of a lowered plan's answers: each witness node becomes levels.

A level reads the live tuples of its node below the values bound so far. Factors that only count
multiply an answer as soon as their variables are bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triegs.compiler.plan import Node, Role
from triegs.maintain.enumeration_plan import CountSource, EnumerationPlan, Level, ParentPath
from triegs.maintain.kernels.tables import ORDERED_EDGE
from triegs.maintain.lowering import Lowering
from triegs.maintain.model import Index, Step, View
from triegs.store.kernels.order_statistics import ENTRY


class AnswerLowering(Lowering):
    """Lowers a plan whose answers are read."""

    def run(self) -> EnumerationPlan:
        """Create or find every view; returns the enumeration of the answers."""
        self.lower_views()
        enumeration = Enumeration(self).lower()
        for view in self.held:
            view.uses += 1
        return enumeration


class Enumeration:
    """The enumeration of one plan whose views all exist."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.plan = lowering.plan
        self.column = {name: i for i, name in enumerate(self.plan.query.free)}
        self.enumeration = EnumerationPlan(len(self.column), has_rows=lowering.has_rows)
        if lowering.is_ordered:
            self.enumeration.counts = []
        #: For each level, the path from nodes attached to its variable to where it was bound.
        self.parent_paths: dict[int, ParentPath] = {}
        #: For each variable bound by a rule, its node and factor.
        self.binders: dict[str, tuple[int, int]] = {}
        #: For each node, the path to a parent with which it shares several variables.
        self.node_paths: dict[int, ParentPath] = {}

    def lower(self) -> EnumerationPlan:
        by_variable = self.lowering.by_variable
        for number in self.plan.order:
            if by_variable[number]:
                self._add_level(number)
            else:
                self._add_rule_level(number)
        for number in self.plan.order:
            if by_variable[number]:
                self._add_counts(number)
            else:
                self._add_rule_counts(number)
        for component in self.plan.components:
            if self.plan.nodes[component.top].role is Role.EXISTENTIAL:
                self.enumeration.totals.append(self.lowering.scalar(component.top))
        self.enumeration.arrange_levels()
        return self.enumeration

    def _add_level(self, number: int) -> None:
        node = self.plan.nodes[number]
        if not node.bag:
            return
        if not node.interface:
            root = self.lowering.root(number)
            column = self.column[node.bag[0]]
            level = Level(root.relation, (), (column,), weighs=False)
            self.parent_paths[column] = ParentPath(self.enumeration.add_level(level))
            self._add_counts_of(root)
        if len(node.bag) == 2:
            above = node.interface[0] if node.interface else node.bag[0]
            other = next(v for v in node.bag if v != above)
            view = self.lowering.edge(node, above)
            column, below = self.column[above], self.column[other]
            level = Level(view.relation, (column,), (below,), weighs=True)
            factor = self.enumeration.add_level(level, self._path_from(above))
            edge = view.edge if isinstance(view, Step) else None
            if edge is not None and edge.by_other is not None:  # else nothing is attached to it
                path = ParentPath(factor, edge.by_other.relation, (below, column))
                self.parent_paths[below] = path
            self._add_counts_of(view)

    def _add_counts_of(self, view: View) -> None:
        """Record where the counts of a level's entries are found."""
        if self.enumeration.counts is None:
            return
        if isinstance(view, Step) and view.kind == ORDERED_EDGE:
            view = view.factors[0]
            self.enumeration.counts.append(CountSource(view.count_kind, view.relation))
        else:
            kind = ENTRY if isinstance(view, Index) else view.count_kind
            self.enumeration.counts.append(CountSource(kind, view.relation))

    def _add_counts(self, number: int) -> None:
        """Add the factors of a witness node's answers: its guard and its counting children."""
        node = self.plan.nodes[number]
        if not node.bag:
            return
        guard = self.lowering.guard(node)
        if guard is not None:
            variable = node.bag[0]
            column, parent_path = self.column[variable], self._path_from(variable)
            self.enumeration.multiply(guard.relation, (column,), parent_path)
        for child in self._hidden(node):
            variable = self.plan.nodes[child].interface[0]
            column = self.column[variable]
            counts = self.lowering.factor(child, variable).relation
            self.enumeration.multiply(counts, (column,), self._path_from(variable))

    def _hidden(self, node: Node) -> Iterable[int]:
        return [c for c in node.children if self.plan.nodes[c].role is Role.EXISTENTIAL]

    def _add_rule_level(self, number: int) -> None:
        node = self.plan.nodes[number]
        live, order = self.lowering.live[number]
        weighs = len(order) == len(node.bag)
        columns = [self.column[v] for v in order[: len(node.bag)]]
        width = len(node.interface)
        interface, binds = tuple(columns[:width]), tuple(columns[width:])
        parent_path = self._path_of(number)
        factor: int | None
        if self.lowering.rule_statistics is not None and binds:
            numbers = self.lowering.rule_statistics
            levels = numbers.levels[number]
            top = None if interface else numbers.rankings[number].relation
            factor = self.enumeration.add_counted(
                live.relation, interface, binds, parent_path, levels, top
            )
        elif binds:
            level = Level(live.relation, interface, binds, weighs)
            factor = self.enumeration.add_level(level, parent_path)
        else:
            factor = self.enumeration.multiply(live.relation, interface, parent_path)
        assert factor is not None
        for variable in node.introduces:
            self.binders[variable] = number, factor
        for child in node.children:
            below = self.plan.nodes[child].interface
            if len(below) > 1:
                self.node_paths[child] = self._path_to(number, factor, below)

    def _path_of(self, number: int) -> ParentPath | None:
        if number in self.node_paths:
            return self.node_paths[number]
        interface = self.plan.nodes[number].interface
        return self._path_from(interface[0]) if interface else None

    def _path_from(self, variable: str) -> ParentPath:
        """The path from a node attached to a variable to its binding, possibly above its parent."""
        column = self.column[variable]
        if column not in self.parent_paths:
            self.parent_paths[column] = self._path_to(*self.binders[variable], (variable,))
        return self.parent_paths[column]

    def _path_to(self, number: int, factor: int, interface: Sequence[str]) -> ParentPath:
        """The path from a child with that interface to the tuples of a node that is a rule."""
        if set(interface) == set(self.plan.nodes[number].bag):
            return ParentPath(factor)
        operand, names = self.lowering.cover(number)
        order = (*interface, *(v for v in names if v not in interface))
        index = self.lowering.find_order(operand, tuple(names.index(v) for v in order))
        return ParentPath(factor, index.relation, tuple(self.column[v] for v in order))

    def _add_rule_counts(self, number: int) -> None:
        """Add the factors that multiply the answers of a rule: its counting children."""
        node = self.plan.nodes[number]
        for child in self._hidden(node):
            operand, names = self.lowering.marginal(child)
            if self.lowering.is_folded(node, child) and node.children:
                continue
            counts = self.lowering.find_order(operand, tuple(range(operand.width)))
            columns = tuple(self.column[v] for v in names)
            self.enumeration.multiply(counts.relation, columns, self._path_of(child))
