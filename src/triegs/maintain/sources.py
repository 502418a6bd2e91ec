"""Lowers a source of aggregates: the marginal of a plan, with digits multiplied in for a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triegs.compiler.plan import DIGIT, Alias, Digits, Node, Plan, Static
from triegs.maintain.kernels.tables import CONSTANT, COUNT, SORTED
from triegs.maintain.lowering import Encode, Lowering, Named
from triegs.maintain.model import Operand, Rule, View, Watch
from triegs.maintain.views import Views
from triegs.store.contract import Key
from triegs.store.packed import PackedRelation


class Marginal(NamedTuple):
    """The relation of a measure with the names of its columns, if it has any, and the entries whose
    counts multiply it.
    """

    view: View | None
    names: tuple[str, ...]
    totals: list[tuple[PackedRelation, Key]]


class SourceLowering(Lowering):
    """Lowers the plan of a source. Where its relation is a rule, the keys are its first columns."""

    def __init__(self, views: Views, plan: Plan, encode: Encode, keys: Sequence[str]) -> None:
        super().__init__(views, plan, encode)
        self.keys = keys

    def run_marginal(self) -> Marginal:
        """Create or find every view; returns the relation of the measure."""
        self.lower_nodes()
        plan = self.plan
        root = plan.nodes[plan.root]
        view: View | None = None
        names: tuple[str, ...] = ()
        if root.interface:
            operand, names = self.marginal(plan.root)
            view = operand.view
            if view is None:  # the tuples of an atom
                view = self.rule([(operand, names, COUNT)], names)
        tops = [c.top for c in plan.components if not plan.nodes[c.top].interface]
        return Marginal(view, names, [self.scalar(top) for top in tops])

    def sort_values(self, view: View, names: tuple[str, ...]) -> View:
        """The relation of a measure of values, with the sort key of each value before it."""
        last = len(names) - 1
        columns = (*range(last), SORTED | last, last)
        if last == 0:
            columns = (CONSTANT, *columns)
        operand, _ = self.copy_step(Operand(len(names), view=view), names)
        return self.find_order(operand, columns)

    def find_head(self, node: Node) -> tuple[str, ...]:
        if node is not self.plan.nodes[self.plan.root]:
            return node.interface
        return tuple(sorted(node.interface, key=lambda v: v not in self.keys))

    def guard_view(self, node: Node) -> Named | None:
        guard = node.guard
        if not isinstance(guard, Digits):
            return super().guard_view(node)
        digits = self.use(self.views.find_digits(), node, guard.variables)
        return Operand(2, view=digits, is_fixed=True), guard.variables

    def sum_out(self, node: Node, guard: Named | None) -> Named:
        below = [self.plan.nodes[child].guard for child in node.children]
        summed = next((each for each in below if isinstance(each, Digits)), None)
        if summed is None:
            return super().sum_out(node, guard)
        assert guard is not None
        watch = self._add_digits(node, guard, summed.variable)
        operand, names = super().sum_out(node, guard)
        assert isinstance(operand.view, Rule)
        operand.view.watch = watch
        return operand, names

    def find_digits(self, variable: str) -> tuple[Operand, Watch | None]:
        """The digits of a variable of the plan, and where its new terms come from."""
        node = next(n for n in self.plan.nodes if isinstance(n.guard, Alias | Static)
                    and variable in n.guard.variables)  # fmt: skip
        guard = self.guard_view(node)
        assert guard is not None
        watch = self._add_digits(node, guard, variable)
        digits = self.use(self.views.find_digits(), node, (variable, DIGIT))
        return Operand(2, view=digits, is_fixed=True), watch

    def _add_digits(self, node: Node, guard: Named, variable: str) -> Watch | None:
        """Add the digits of the terms that an atom or rows bind a variable to; returns where new
        terms come from.
        """
        operand, names = guard
        self.views.add_digits(self.views.read(operand)[names.index(variable)])
        if not isinstance(node.guard, Alias):
            return None
        alias = node.guard
        label = None if alias.label is None else self.encode(alias.relation or "")
        return Watch(label, 1 + alias.atom.index(variable))
