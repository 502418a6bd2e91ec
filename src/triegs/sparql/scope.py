"""Rewriting of expressions: split conjuncts, replace unbound variables, substitute names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from triegs.sparql.expressions import UNBOUND
from triegs.sparql.lexer import Token
from triegs.sparql.model import Aggregate, Call, Expression, is_variable


class Unknown(NamedTuple):
    """A variable that is not bound where it is used, and the clause that uses it."""

    token: Token
    clause: str


def conjuncts(expression: Expression) -> list[Expression]:
    """The conjuncts of a filter: a row passes iff all of them are true.

    >>> conjuncts(Call("&&", ("?x", Call("||", ("?y", "?z")))))
    ['?x', Call(operator='||', arguments=('?y', '?z'))]
    """
    if isinstance(expression, Call) and expression.operator == "&&":
        return [each for argument in expression.arguments for each in conjuncts(argument)]
    return [expression]


def substitute(expression: Expression, meanings: Mapping[str, Expression]) -> Expression:
    """The expression with each variable in `meanings` replaced.

    >>> substitute(Call("+", ("?k", "?x")), {"?k": Call("STR", ("?y",))})
    Call(operator='+', arguments=(Call(operator='STR', arguments=('?y',)), '?x'))
    """
    if isinstance(expression, str):
        return meanings.get(expression, expression) if is_variable(expression) else expression
    if isinstance(expression, Aggregate):
        if expression.argument is None:
            return expression
        return replace(expression, argument=substitute(expression.argument, meanings))
    return Call(
        expression.operator, tuple(substitute(each, meanings) for each in expression.arguments)
    )


def limit_scope(expression: Expression, bound: Collection[str]) -> Expression:
    """The expression with each unbound variable replaced by ``unbound``.

    >>> limit_scope(Call("=", ("?x", "?y")), {"?x"})
    Call(operator='=', arguments=('?x', Call(operator='unbound', arguments=())))
    """
    if isinstance(expression, str):
        return UNBOUND if is_variable(expression) and expression not in bound else expression
    if isinstance(expression, Aggregate):
        if expression.argument is None:
            return expression
        return replace(expression, argument=limit_scope(expression.argument, bound))
    return Call(expression.operator, tuple(limit_scope(a, bound) for a in expression.arguments))
