"""Lowers a source of aggregates: the marginal of a plan, with digits multiplied in for a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triegs.compiler.plan import Alias, Digits, Node, Plan, Static, WholeDigit
from triegs.maintain.kernels.tables import CONSTANT, COUNT, SORTED
from triegs.maintain.leaves import Encode
from triegs.maintain.lowering import Lowering
from triegs.maintain.model import Operand, View, Watch
from triegs.maintain.order_statistics import Named
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
        #: Where the terms of a sum come from.
        self.watches: dict[Watch, None] = {}

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

    def guard(self, node: Node) -> View | None:
        if isinstance(node.guard, WholeDigit):
            return self.use(self.views.find_whole(), node, node.guard.variables)
        return super().guard(node)

    def guard_view(self, node: Node) -> Named | None:
        guard = node.guard
        if not isinstance(guard, Digits):
            return super().guard_view(node)
        digits = self.use(self.views.find_digits(), node, guard.variables)
        return Operand(2, view=digits, is_fixed=True), guard.variables

    def add_digits(self, variable: str) -> None:
        """Add the digits of the terms that atoms or rows bind a variable to, and watch for more.

        All atoms with the variable count: a factor of the digits may appear in an earlier epoch
        than the atom that they are multiplied into, and is not computed again then.
        """
        for node in self.plan.nodes:
            guard = node.guard
            if not isinstance(guard, Alias | Static) or variable not in guard.variables:
                continue
            named = super().guard_view(node)
            assert named is not None
            operand, names = named
            self.views.add_digits(self.views.read(operand)[names.index(variable)])
            if isinstance(guard, Alias):
                label = None if guard.label is None else self.encode(guard.relation or "")
                self.watches[Watch(label, 1 + guard.atom.index(variable))] = None

    def name_digits(self, variable: str, is_whole: bool) -> Named:
        """The whole digits of a variable of the plan, or all others, as an operand."""
        node = next(n for n in self.plan.nodes if variable in n.bag)
        names = WholeDigit(variable).variables if is_whole else Digits(variable).variables
        view = self.views.find_whole() if is_whole else self.views.find_digits()
        return Operand(len(names), view=self.use(view, node, names), is_fixed=True), names
