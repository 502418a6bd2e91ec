"""The row of a group, from its keys and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from triegs.sparql.expressions import UNBOUND, evaluate, holds
from triegs.sparql.model import Aggregate, Call, Expression, Grouping
from triegs.sparql.values import ExpressionError


def find_row(
    grouping: Grouping,
    columns: Iterable[int],
    named: Mapping[str, str],
    find_aggregate: Callable[[Aggregate], str],
) -> list[str | None] | None:
    """Some columns of a group, None for one without a value; None if HAVING excludes the group.

    `named` has the keys by name. `find_aggregate` may raise `ExpressionError`; it is called once
    for each aggregate.
    """
    found: dict[Aggregate, Expression] = {}

    def settle(expression: Expression) -> Expression:
        if isinstance(expression, Aggregate):
            if expression not in found:
                try:
                    found[expression] = find_aggregate(expression)
                except ExpressionError:
                    found[expression] = UNBOUND
            return found[expression]
        if isinstance(expression, Call):
            return Call(expression.operator, tuple(map(settle, expression.arguments)))
        return expression

    if not all(holds(settle(each), named) for each in grouping.having):
        return None
    shown = [grouping.columns[column].expression for column in columns]
    return [find_value(settle(expression), named) for expression in shown]


def find_value(expression: Expression, binding: Mapping[str, str]) -> str | None:
    """The value of an expression, None if it is an error or unbound."""
    try:
        return evaluate(expression, binding)
    except ExpressionError:
        return None
