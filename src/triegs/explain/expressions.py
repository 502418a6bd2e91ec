"""Expressions of the query model written back as SPARQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triegs.sparql.model import Aggregate, Column, Duplicates, Expression, is_variable

#: Precedence of infix operators; all others are written as functions.
BINDING = {
    "||": 1, "&&": 2,
    "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT IN": 3,
    "+": 4, "-": 4, "*": 5, "/": 5,
}  # fmt: skip
COMPARISON, UNARY = 3, 6

Spell = Callable[[str], str]


def write_expression(expression: Expression | None, spell: Spell = str) -> str:
    """The expression as SPARQL text, with only the necessary brackets.

    ``spell`` writes constants (and the IRIs of functions); variables stay as they are.

    >>> from triegs.sparql.model import Call
    >>> write_expression(Call("*", ("?x", Call("+", ("?y", '"1"')))))
    '?x * (?y + "1")'
    >>> write_expression(Aggregate("COUNT", None))
    'COUNT(*)'
    """
    return _Writer(spell).write(expression, 0)


def write_column(column: Column, spell: Spell = str) -> str:
    """
    >>> write_column(Column("?n", Aggregate("SUM", "?x")))
    '(SUM(?x) AS ?n)'
    """
    if column.expression == column.name:
        return column.name
    return f"({write_expression(column.expression, spell)} AS {column.name})"


class _Writer:
    def __init__(self, spell: Spell) -> None:
        self.spell = spell

    def write(self, expression: Expression | None, outer: int) -> str:
        if expression is None:
            return "*"
        if isinstance(expression, str):
            return expression if is_variable(expression) else self.spell(expression)
        if isinstance(expression, Aggregate):
            distinct = "DISTINCT " if expression.duplicates is Duplicates.DISTINCT else ""
            return f"{expression.function}({distinct}{self.write(expression.argument, 0)})"
        return self.call(expression.operator, expression.arguments, outer)

    def call(self, operator: str, arguments: Sequence[Expression], outer: int) -> str:
        if len(arguments) == 1 and operator in ("!", "+", "-"):
            return operator + self.write(arguments[0], UNARY)
        binding = BINDING.get(operator)
        if binding is None:
            is_iri = operator.startswith("<")
            name = self.spell(operator) if is_iri else operator
            return f"{name}({', '.join(self.write(each, 0) for each in arguments)})"
        if operator in ("IN", "NOT IN"):
            listed = ", ".join(self.write(each, 0) for each in arguments[1:])
            text = f"{self.write(arguments[0], binding + 1)} {operator} ({listed})"
        else:
            # a < b < c is not SPARQL, and a - (b - c) is not a - b - c.
            first = binding + 1 if binding == COMPARISON else binding
            operands = [self.write(arguments[0], first)]
            operands += [self.write(each, binding + 1) for each in arguments[1:]]
            text = f" {operator} ".join(operands)
        return f"({text})" if binding < outer else text
