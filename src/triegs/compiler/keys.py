"""Canonical keys: equal for sub-plans that are equal but for the names of variables.

A key speaks of columns. A guard numbers its variables by where the atom has them; a product
takes the numbering of its least child; a join numbers as its inputs, sorted by key, come up.
Two equal keys mean equal marginals on every graph; two sub-plans may be equal without anybody
seeing it (renaming columns is not searched), which costs sharing, never an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from triegs.compiler.elimination import Draft
from triegs.compiler.plan import Alias, Join, Payload, Role, Static
from triegs.sparql.model import Aggregate, Call, Expression, is_variable


class Keyed(NamedTuple):
    """A node's key, and its bag and interface in the order in which the key numbers them.

    So two nodes with equal keys have equal marginals column by column.
    """

    key: str
    bag: tuple[str, ...]
    interface: tuple[str, ...]


def canonical_key(
    draft: Draft, keyed: Sequence[Keyed], role: Role, payload: Sequence[Payload]
) -> Keyed:
    """The key of a node whose children (and join inputs) have the keys `keyed`."""
    columns, source = _numbered(draft, keyed)
    number = {variable: i for i, variable in enumerate(columns)}
    children = sorted(
        f"{keyed[c].key}({','.join(str(number[v]) for v in keyed[c].interface)})"
        for c in draft.children
    )
    interface = tuple(v for v in columns if v in draft.interface)
    shown = ",".join(str(number[v]) for v in interface)
    kinds = "+".join(part.name for part in payload)
    text = f"{source} {' '.join(children)} -> {shown} {role.name} {kinds}"
    bag = tuple(v for v in columns if v in draft.bag)
    return Keyed(blake2b(text.encode(), digest_size=8).hexdigest(), bag, interface)


def _numbered(draft: Draft, keyed: Sequence[Keyed]) -> tuple[tuple[str, ...], str]:
    guard = draft.guard
    if isinstance(guard, Alias):
        return guard.variables, alias_text(guard)
    if isinstance(guard, Static):
        return guard.variables, static_text(guard)
    if isinstance(guard, Join):
        inputs = sorted(guard.inputs, key=lambda source: (keyed[source.node].key, source.variables))
        order = [v for s in inputs for v in keyed[s.node].interface if v in s.variables]
        columns = tuple(dict.fromkeys(order))
        parts = [
            f"{source.use.name} {keyed[source.node].key}"
            f"({','.join(str(columns.index(v)) for v in source.variables)})"
            for source in inputs
        ]
        return columns, f"join {' '.join(parts)} {_filters(guard.filters, columns)}"
    covering = [c for c in draft.children if len(keyed[c].interface) == len(draft.bag)]
    least = min(covering, key=lambda c: keyed[c].key, default=None)
    return (() if least is None else keyed[least].interface), "product"


def alias_text(alias: Alias) -> str:
    """An atom with its variables replaced by column numbers.

    >>> from triegs.sparql.model import Atom
    >>> alias_text(Alias(Atom("?v", "<p>", "?v")))
    'atom #0 <p> #0'
    """
    names = alias.variables
    terms = [f"#{names.index(t)}" if is_variable(t) else t for t in alias.atom]
    graph = [alias.graph] if alias.graph else []
    return " ".join(["atom", *graph, *terms, *_filters(alias.filters, names)])


def static_text(static: Static) -> str:
    """A ``VALUES`` block without the names of its variables; the order of rows is nothing.

    >>> from triegs.sparql.model import Values
    >>> static_text(Static(Values(("?v",), (("<b>",), ("<a>",)))))
    "values ['<a>', '<b>'] []"
    """
    rows = sorted(" ".join(row) for row in static.values.rows)
    return f"values {rows} {_filters(static.filters, static.variables)}"


def _filters(filters: Sequence[Expression], columns: Sequence[str]) -> list[str]:
    return sorted(expression_text(e, columns) for e in filters)


def expression_text(expression: Expression | None, columns: Sequence[str]) -> str:
    """An expression in prefix form, variables as column numbers.

    >>> expression_text(Call("<", ("?x", "?y")), ["?y", "?x"])
    '(< #1 #0)'
    """
    if isinstance(expression, str):
        return f"#{columns.index(expression)}" if is_variable(expression) else expression
    if isinstance(expression, Call):
        parts = [expression.operator, *(expression_text(a, columns) for a in expression.arguments)]
        return f"({' '.join(parts)})"
    if isinstance(expression, Aggregate):
        return f"({expression.function} {expression_text(expression.argument, columns)})"
    return "*"
