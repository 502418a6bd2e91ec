"""A parsed query to the model: the rules that span several clauses.

Decided here: what ``SELECT *`` selects, whether the query groups, what a grouped query may
project, and where a VALUES block after the WHERE clause belongs.
"""

from __future__ import annotations

from dataclasses import replace

from triegs.sparql.cursor import Cursor
from triegs.sparql.lexer import Token
from triegs.sparql.model import (
    Aggregate,
    Call,
    Column,
    Expression,
    Grouping,
    Query,
    Values,
    is_variable,
)
from triegs.sparql.pattern_grammar import conjuncts, limit_scope
from triegs.sparql.query_grammar import Item, Parsed


def translate(parsed: Parsed, cursor: Cursor, text: str) -> Query:
    """The query that was parsed; raises QueryError where its clauses do not fit together."""
    _check_names(parsed, cursor)
    grouping = _grouping(parsed, cursor)
    body = parsed.body
    filters = list(body.filters)
    values = list(body.values)
    trailing = parsed.trailing
    if grouping is None:
        # HAVING without a grouping is a filter on the solutions.
        filters += [
            limit_scope(part, body.variables)
            for item in parsed.having
            for part in conjuncts(item.expression)
        ]
        if parsed.projection is None:
            found = {**body.variables, **dict.fromkeys(trailing.variables if trailing else ())}
            head = tuple(found)
        else:
            head = tuple(dict.fromkeys(item.name for item in parsed.projection))
    else:
        head = tuple(column.name for column in grouping.columns)
        if trailing is not None and not _commutes(trailing, grouping):
            raise cursor.refusal("VALUES after aggregates", parsed.trailing_token)
    if trailing is not None:
        values.append(trailing)
    return Query(
        form=parsed.form,
        head=head,
        atoms=tuple(body.atoms),
        values=tuple(values),
        filters=tuple(filters),
        duplicates=parsed.duplicates,
        limit=parsed.limit,
        offset=parsed.offset,
        grouping=grouping,
        text=text,
    )


def _check_names(parsed: Parsed, cursor: Cursor) -> None:
    """A name after AS must be new: not in the body, not another column or key."""
    taken = set(parsed.body.variables) | {item.name for item in parsed.keys if item.is_plain}
    for item in parsed.keys + (parsed.projection or []):
        if not item.is_plain and item.name:
            if item.name in taken:
                message = f"{item.name} is used already, so AS cannot name it"
                raise cursor.error(message, item.name_token, "AS", "choose another name")
            taken.add(item.name)
    plain = {item.name for item in parsed.projection or [] if item.is_plain}
    for item in parsed.projection or []:
        if not item.is_plain and item.name in plain:
            message = f"{item.name} is selected twice"
            raise cursor.error(message, item.name_token, "AS", "choose another name")


def _grouping(parsed: Parsed, cursor: Cursor) -> Grouping | None:
    computed = [item for item in parsed.projection or [] if not item.is_plain]
    grouped = bool(parsed.keys) or any(item.aggregates for item in computed + parsed.having)
    if not grouped:
        if computed:
            raise cursor.refusal("select expression", computed[0].token)
        return None
    if parsed.projection is None:
        hint = "name the keys and aggregates"
        raise cursor.error("SELECT * cannot be grouped", parsed.star, "SELECT *", hint)
    keys, meanings = _keys(parsed, cursor)
    names = {column.name for column in keys}
    for item in [*parsed.projection, *parsed.having]:
        _check_grouped(item, names, cursor)
    bound = parsed.body.variables
    columns = {
        item.name: Column(item.name, _inside(item.expression, bound, meanings))
        for item in parsed.projection
    }
    having = [
        _inside(part, bound, meanings)
        for item in parsed.having
        for part in conjuncts(item.expression)
    ]
    return Grouping(keys, tuple(columns.values()), tuple(having))


def _keys(parsed: Parsed, cursor: Cursor) -> tuple[tuple[Column, ...], dict[str, Expression]]:
    """The key columns, and what each name given in GROUP BY stands for over the body."""
    columns: dict[str, Column] = {}
    meanings: dict[str, Expression] = {}
    for item in parsed.keys:
        for token in item.outside:
            if _name(token) in meanings and not item.is_plain:
                raise cursor.refusal("key of keys", token)
        expression = limit_scope(item.expression, parsed.body.variables)
        name = item.name or cursor.fresh("key")
        columns.setdefault(name, Column(name, expression))
        if not item.is_plain and item.name:
            meanings[item.name] = expression
    return tuple(columns.values()), meanings


def _check_grouped(item: Item, keys: set[str], cursor: Cursor) -> None:
    for token in item.outside:
        if _name(token) not in keys:
            message = f"{_name(token)} is neither a grouping key nor inside an aggregate"
            hint = f"add it to GROUP BY, or write MIN({_name(token)})"
            raise cursor.error(message, token, "GROUP BY", hint)


def _name(token: Token) -> str:
    return "?" + token.text[1:]


def _inside(
    expression: Expression, bound: dict[str, None], meanings: dict[str, Expression]
) -> Expression:
    """An output expression whose aggregates speak of body variables only."""
    if isinstance(expression, Aggregate):
        if expression.argument is None:
            return expression
        argument = limit_scope(expression.argument, {*bound, *meanings})
        return replace(expression, argument=_substitute(argument, meanings))
    if isinstance(expression, Call):
        arguments = tuple(_inside(part, bound, meanings) for part in expression.arguments)
        return Call(expression.operator, arguments)
    return expression


def _substitute(expression: Expression, meanings: dict[str, Expression]) -> Expression:
    if isinstance(expression, str):
        return meanings.get(expression, expression) if is_variable(expression) else expression
    if isinstance(expression, Call):
        arguments = tuple(_substitute(part, meanings) for part in expression.arguments)
        return Call(expression.operator, arguments)
    return expression


def _commutes(trailing: Values, grouping: Grouping) -> bool:
    """Whether joining VALUES before the grouping gives what SPARQL gives by joining it after."""
    plain = {column.name for column in grouping.keys if column.name == column.expression}
    return (
        bool(grouping.keys)
        and set(trailing.variables) <= plain
        and len(set(trailing.rows)) == len(trailing.rows)
    )
