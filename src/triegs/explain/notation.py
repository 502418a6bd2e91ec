"""The nodes of a plan in mathematical notation.

``V1(v,z) ← hasReply(v,z) · Hᵖ(v)`` is a rule, ``Hᵖ(v) = Σ_x H(v,x)`` the marginal of a node, and
``[…]`` is 1 if the condition holds and 0 otherwise. A node that sums nothing out is its own
marginal and is written without ᵖ.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from triegs.compiler.plan import (
    Alias,
    Digits,
    Extreme,
    Input,
    Join,
    Node,
    Plan,
    Static,
    Use,
    WholeDigit,
)
from triegs.explain.expressions import write_column, write_expression
from triegs.explain.names import Names, query_constants
from triegs.sparql.model import Column, Expression, is_variable


class Kind(Enum):
    """The kind of a node, by its guard and children."""

    GUARDED = "guarded view"
    PRODUCT = "product"
    LEAF = "leaf"
    JOIN = "join"


def kind_of(node: Node) -> Kind:
    if isinstance(node.guard, Join):
        return Kind.JOIN
    if node.guard is None:
        return Kind.PRODUCT
    return Kind.GUARDED if node.children else Kind.LEAF


def inputs_of(node: Node) -> tuple[Input, ...]:
    """The inputs of a join; empty for other nodes."""
    return node.guard.inputs if isinstance(node.guard, Join) else ()


def top_down(plan: Plan) -> list[int]:
    """Every node once, each before those below it, in drawing order."""
    order: dict[int, None] = {}
    stack = list(reversed(list_roots(plan)))
    while stack:
        number = stack.pop()
        if number not in order:
            order[number] = None
            node = plan.nodes[number]
            stack += reversed([*(source.node for source in inputs_of(node)), *node.children])
    return list(order)


def list_roots(plan: Plan) -> list[int]:
    """The nodes that no other reads: a single one, but several for a query with aggregates."""
    if plan.groups is None:
        return [plan.root]
    read = {child for node in plan.nodes for child in node.children}
    read.update(source.node for node in plan.nodes for source in inputs_of(node))
    return [number for number in range(len(plan.nodes)) if number not in read]


def plain(variable: str) -> str:
    """A variable without the question mark."""
    return variable.removeprefix("?")


def tuple_of(variables: Sequence[str]) -> str:
    """
    >>> tuple_of(("?v", "?z"))
    '(v,z)'
    """
    return f"({','.join(map(plain, variables))})"


def sum_over(variables: Sequence[str]) -> str:
    """
    >>> sum_over(("?v",)), sum_over(("?v", "?z"))
    ('Σ_v', 'Σ_{v,z}')
    """
    names = ",".join(map(plain, variables))
    return f"Σ_{{{names}}}" if len(variables) > 1 else f"Σ_{names}"


class Notation:
    """Writes the nodes of one plan, with the same short names throughout."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = Names(query_constants(plan.query))

    def view(self, node: Node) -> str:
        return node.name + tuple_of(node.bag)

    def marginal(self, node: Node) -> str:
        """The node as a factor above it: ``Hᵖ(v)``."""
        return f"{node.name}ᵖ{tuple_of(node.interface)}" if node.introduces else self.view(node)

    def marginal_rule(self, node: Node) -> str:
        """The definition of the marginal: ``Hᵖ(v) = Σ_x H(v,x)``; empty if it sums nothing."""
        if not node.introduces:
            return ""
        return f"{self.marginal(node)} = {sum_over(node.introduces)} {self.view(node)}"

    def rule(self, node: Node) -> str:
        return f"{self.view(node)} ← {' · '.join(self.factors(node))}"

    def factors(self, node: Node) -> list[str]:
        """The factors of the node, guard first."""
        children = [self.marginal(self.plan.nodes[c]) for c in node.children]
        guard = node.guard
        if isinstance(guard, Join):
            return self._join(node, guard) + children
        own = [] if guard is None else [self.relation(guard), *self.brackets(guard.filters)]
        return own + children or ["1"]

    def relation(self, guard: Alias | Static | WholeDigit | Digits | Extreme) -> str:
        """The guard without its filters: ``hasReply(v,z)``, or ``hasReply@t(v,z)`` with the times
        of events.
        """
        if isinstance(guard, WholeDigit):
            return f"whole({plain(guard.variable)})"
        if isinstance(guard, Digits):
            return f"digits({plain(guard.variable)})"
        if isinstance(guard, Extreme):
            return f"{'highest' if guard.is_last else 'lowest'}({plain(guard.variable)})"
        if isinstance(guard, Static):
            return "VALUES" + tuple_of(guard.variables)
        subject, predicate, target = guard.atom
        if guard.event_label:
            name = f"{self.names.label(guard.event_label)}@{self.term(predicate)}"
            return f"{name}({self.term(subject)},{self.term(target)})"
        if guard.label is None:
            return f"triple({','.join(map(self.term, guard.atom))})"
        return f"{self.names.label(predicate)}({self.term(subject)},{self.term(target)})"

    def term(self, term: str) -> str:
        return plain(term) if is_variable(term) else self.names.constant(term)

    def expression(self, expression: Expression | None) -> str:
        return write_expression(expression, self.names.constant)

    def column(self, column: Column) -> str:
        return write_column(column, self.names.constant)

    def brackets(self, filters: Sequence[Expression]) -> list[str]:
        return [f"[{self.expression(each)}]" for each in filters]

    def _join(self, node: Node, join: Join) -> list[str]:
        hidden = [v for v in join.variables if v not in node.bag]
        factors = [self._input(source) for source in join.inputs] + self.brackets(join.filters)
        if hidden:
            factors[0] = f"{sum_over(hidden)} {factors[0]}"
            if node.children:
                factors[0], factors[-1] = f"({factors[0]}", f"{factors[-1]})"
        return factors or ["1"]

    def _input(self, source: Input) -> str:
        node = self.plan.nodes[source.node]
        if source.use is Use.COUNT:
            return self.marginal(node)
        lost = [plain(v) for v in node.interface if v not in source.variables]
        some = f"∃{','.join(lost)} " if lost else ""
        return f"[{some}{self.marginal(node)} > 0]"
