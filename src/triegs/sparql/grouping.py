"""GROUP BY, HAVING, ORDER BY and aggregates in SELECT, combined into keys and columns over keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from triegs.sparql.expression_parser import Condition
from triegs.sparql.lexer import Token
from triegs.sparql.model import (
    Aggregate,
    Call,
    Column,
    Direction,
    Expression,
    Grouping,
    OrderKey,
    Values,
    expression_variables,
    is_variable,
)
from triegs.sparql.pattern_parser import Body
from triegs.sparql.reader import Reader, name_of
from triegs.sparql.scope import Unknown, conjuncts, limit_scope, substitute


class Selected(NamedTuple):
    """A column of SELECT: a variable, or ``( … AS ?name )`` with its opening bracket."""

    name: Token
    condition: Condition | None = None
    opening: Token | None = None


class Ordering(NamedTuple):
    """A key of ORDER BY as read, with its first token."""

    condition: Condition
    direction: Direction
    start: Token


class Grouper:
    """Builds the grouping of one query; unbound variables are added to `unknown`."""

    def __init__(self, reader: Reader, body: Body, unknown: list[Unknown]) -> None:
        self.reader = reader
        self.unknown = unknown
        self.bound = body.variables
        #: The expression over the body of each name given in GROUP BY.
        self.meanings: dict[str, Expression] = {}
        self.keys: dict[str, Column] = {}
        #: The names that SELECT gives to expressions.
        self.computed: set[str] = set()

    def group(
        self, keys: Sequence[Condition], selected: Sequence[Selected], having: Sequence[Condition]
    ) -> Grouping:
        self._check_names(keys, selected)
        self.computed = {name_of(each.name) for each in selected if each.condition is not None}
        for key in keys:
            self._add_key(key)
        columns: dict[str, Column] = {}
        named: dict[str, Expression] = {}  # a later column may use the name
        for name, condition, _ in selected:
            shown = name_of(name)
            if condition is None:
                self._check_key(name)
                columns[shown] = Column(shown, shown)
                continue
            named[shown] = substitute(self._over_group(condition, "SELECT", named), named)
            columns[shown] = Column(shown, named[shown])
        conditions = [
            condition
            for each in having
            for condition in conjuncts(self._over_group(each, "HAVING"))
        ]
        return Grouping(tuple(self.keys.values()), tuple(columns.values()), tuple(conditions))

    def order(
        self, grouping: Grouping, keys: Sequence[Ordering]
    ) -> tuple[Grouping, tuple[OrderKey, ...]]:
        """The keys of ORDER BY over the columns, and the grouping with a hidden column for each key
        that SELECT does not have. That needs all keys of GROUP BY in SELECT: only then does a row
        determine its group.
        """
        selected = {column.name: column.expression for column in grouping.columns}
        columns = list(grouping.columns)
        found = []
        for condition, direction, start in keys:
            for token in condition.parser.outside:
                if name_of(token) not in selected:
                    self._check_key(token)
            inside = condition.parser.inside
            expression = self._resolve(condition.expression, inside, "ORDER BY")
            if condition.parser.has_aggregate or not selected.keys() >= {
                *expression_variables(expression)
            }:
                meaning = substitute(expression, selected)
                same = (column.name for column in columns if column.expression == meaning)
                name = next(same, f"?_:order{len(columns) - len(selected) + 1}")
                if name not in {column.name for column in columns}:
                    if not selected.keys() >= self.keys.keys():
                        raise self.reader.refusal("unselected ORDER BY", start)
                    columns.append(Column(name, meaning))
                expression = name
            found.append(OrderKey(expression, direction))
        return replace(grouping, columns=tuple(columns)), tuple(found)

    def _check_names(self, keys: Sequence[Condition], selected: Sequence[Selected]) -> None:
        """A name after AS must not be used in the body or by another column or key."""
        taken = set(self.bound)
        named = [key.name for key in keys if key.name is not None]
        plain = {name_of(each.name) for each in selected if each.condition is None}
        computed = [each.name for each in selected if each.condition is not None]
        for number, token in enumerate([*named, *computed]):
            name = name_of(token)
            if name in taken or (number >= len(named) and name in plain):
                message = f"{name} is already in use"
                raise self.reader.error(message, token, "AS", "choose another name")
            taken.add(name)

    def _add_key(self, key: Condition) -> None:
        expression, name = key.expression, ""
        meaning = self._meaning(expression, key.parser.outside, "GROUP BY")
        if key.name is not None:
            name = name_of(key.name)
            self.meanings[name] = meaning
        elif isinstance(expression, str) and is_variable(expression):
            name = expression
        else:
            unnamed = sum(other.startswith("?_:key") for other in self.keys)
            name = f"?_:key{unnamed + 1}"
        self.keys.setdefault(name, Column(name, meaning))

    def _meaning(self, expression: Expression, named: Sequence[Token], clause: str) -> Expression:
        """An expression over the body, with names from GROUP BY replaced."""
        bound = {*self.bound, *self.meanings}
        self.unknown += [Unknown(token, clause) for token in named if name_of(token) not in bound]
        return substitute(limit_scope(expression, bound), self.meanings)

    def _over_group(
        self, condition: Condition, clause: str, named: Collection[str] = ()
    ) -> Expression:
        """An output expression; outside aggregates it may use only keys, and names of columns."""
        for token in condition.parser.outside:
            if name_of(token) not in named:
                self._check_key(token)
        return self._resolve(condition.expression, condition.parser.inside, clause)

    def _resolve(self, expression: Expression, inside: Sequence[Token], clause: str) -> Expression:
        """The expression with the arguments of its aggregates over the body."""

        def resolve(part: Expression) -> Expression:
            if isinstance(part, Aggregate):
                if part.argument is None:
                    return part
                return replace(part, argument=self._meaning(part.argument, inside, clause))
            if isinstance(part, Call):
                return Call(part.operator, tuple(map(resolve, part.arguments)))
            return part

        return resolve(expression)

    def _check_key(self, token: Token) -> None:
        name = name_of(token)
        if name not in self.keys:
            message = f"{name} is neither a grouping key nor inside an aggregate"
            hint = f"add it to GROUP BY, or write MIN({name})"
            if name in self.computed:  # whose MIN would be unbound
                hint = f"write the expression of {name} again"
            raise self.reader.error(message, token, "GROUP BY", hint)


def commutes(trailing: Values, grouping: Grouping) -> bool:
    """Whether joining VALUES before grouping gives the same result as after, as SPARQL defines."""
    plain = {column.name for column in grouping.keys if column.name == column.expression}
    return (
        bool(grouping.keys)
        and set(trailing.variables) <= plain
        and len(set(trailing.rows)) == len(trailing.rows)
    )
