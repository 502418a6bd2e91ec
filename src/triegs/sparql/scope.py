"""Small rewritings of expressions: conjuncts apart, variables out of scope, names for meanings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from triegs.sparql.expressions import UNBOUND
from triegs.sparql.lexer import Token
from triegs.sparql.model import Aggregate, Call, Expression, is_variable


class Unknown(NamedTuple):
    """A variable that nothing binds where it stands, and the clause that names it."""

    token: Token
    clause: str


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts of a filter that may be checked apart: a row stays iff all of them are true.

    >>> conjuncts(Call("&&", ("?x", Call("||", ("?y", "?z")))))
    ['?x', Call(operator='||', arguments=('?y', '?z'))]
    """
    if isinstance(expression, Call) and expression.operator == "&&":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]


def substitute(expression: Expression, meanings: Mapping[str, Expression]) -> Expression:
    """The expression with every variable that has a meaning replaced by it.

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
        expression.operator, tuple(substitute(part, meanings) for part in expression.arguments)
    )


def limit_scope(expression: Expression, bound: Collection[str]) -> Expression:
    """The expression with every variable that is not bound replaced by ``unbound``.

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
