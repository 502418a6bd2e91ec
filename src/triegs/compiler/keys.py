"""Canonical keys: two nodes have one key only if they mean the same relations, column by column.

Queries of one engine share what has one key, so a key that says too little is a wrong answer in
somebody's query. It is therefore a hash of the node's whole meaning, with its variables replaced by
column numbers:

1. the guard: the atom with its graph, constants, repetitions and filters; the rows of ``VALUES``;
   or the inputs of a join, each with its use, its key, and the join's column *for each column of
   the input's marginal*;
2. the children, each with its key and the column for each column of its marginal;
3. the columns of the bag, and those of the interface, in the order in which they are stored;
4. the role and the payload.

**Equal keys, equal relations.** By induction over the children. The meaning is a nested tuple of
strings and numbers, and `repr` writes different ones differently, so equal keys have equal
meanings (but for a collision of 128 bits). Equal meanings differ only in the names of variables:
numbering is one-to-one, and inputs and children with equal keys have equal marginals, column by
column. The two equations of `triegs.compiler.plan` do not depend on names, so the marginals over
the interface and the live tuples over the bag are equal, column by column.

The reverse does not hold: a numbering is one of several (as the atom has the variables, as the
least child has them, as a join's inputs come up, sorted by key), and no other is searched. That
costs sharing, never an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from triegs.compiler.elimination import Draft
from triegs.compiler.plan import Alias, Join, Payload, Role, Static
from triegs.sparql.model import Aggregate, Call, Expression, is_variable

#: Nested tuples of strings and numbers; what `repr` writes of one, it writes of no other.
Meaning = tuple[object, ...]


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
    columns, guard = _number_columns(draft, keyed)
    number = {variable: i for i, variable in enumerate(columns)}
    children = sorted(
        (keyed[c].key, tuple(number[v] for v in keyed[c].interface)) for c in draft.children
    )
    bag = tuple(v for v in columns if v in draft.bag)
    interface = tuple(v for v in columns if v in draft.interface)
    meaning: Meaning = (
        guard,
        tuple(children),
        tuple(number[v] for v in bag),
        tuple(number[v] for v in interface),
        role.name,
        tuple(part.name for part in payload),
    )
    return Keyed(blake2b(repr(meaning).encode(), digest_size=16).hexdigest(), bag, interface)


def _number_columns(draft: Draft, keyed: Sequence[Keyed]) -> tuple[tuple[str, ...], Meaning]:
    """The variables in the order of their numbers, and the guard in these numbers."""
    guard = draft.guard
    if isinstance(guard, Alias):
        return guard.variables, ("atom", alias_text(guard))
    if isinstance(guard, Static):
        return guard.variables, ("values", static_text(guard))
    if isinstance(guard, Join):
        return _number_join(guard, keyed)
    covering = [c for c in draft.children if len(keyed[c].interface) == len(draft.bag)]
    least = min(covering, key=lambda c: keyed[c].key, default=None)
    return (() if least is None else keyed[least].interface), ("product",)


def _number_join(join: Join, keyed: Sequence[Keyed]) -> tuple[tuple[str, ...], Meaning]:
    inputs = sorted(join.inputs, key=lambda source: keyed[source.node].key)
    order = [v for s in inputs for v in keyed[s.node].interface if v in s.variables]
    columns = tuple(dict.fromkeys(order))
    # `source.variables` are in the order of the query. What is joined is the marginal, so each of
    # its columns is told, None for one that the join does not read.
    described = tuple(
        (
            source.use.name,
            keyed[source.node].key,
            tuple(
                columns.index(v) if v in source.variables else None
                for v in keyed[source.node].interface
            ),
        )
        for source in inputs
    )
    return columns, ("join", described, tuple(_filters(join.filters, columns)))


def alias_text(alias: Alias) -> str:
    """An atom with its variables replaced by column numbers, in its graph, with its filters.

    Different for atoms that differ in anything else: constants are in N-Triples form, which tells
    where each ends, and neither they nor columns begin as a graph or a filter does.

    >>> from triegs.sparql.model import Atom
    >>> alias_text(Alias(Atom("?v", "<p>", "?v")))
    'atom #0 <p> #0'
    >>> alias_text(Alias(Atom("?v", "<p>", "?w"), graph="#1"))
    'atom of #1: #0 <p> #1'
    """
    names = alias.variables
    terms = [f"#{names.index(t)}" if is_variable(t) else t for t in alias.atom]
    graph = ["of", f"{alias.graph}:"] if alias.graph else []
    return " ".join(["atom", *graph, *terms, *_filters(alias.filters, names)])


def static_text(static: Static) -> str:
    """A ``VALUES`` block without the names of its variables; the order of rows is nothing.

    The number of columns is told, because a block without rows has none to tell it by.

    >>> from triegs.sparql.model import Values
    >>> static_text(Static(Values(("?v",), (("<b>",), ("<a>",)))))
    "values 1 [('<a>',), ('<b>',)] []"
    """
    rows = sorted(static.values.rows)
    filters = _filters(static.filters, static.variables)
    return f"values {len(static.variables)} {rows} {filters}"


def _filters(filters: Sequence[Expression], columns: Sequence[str]) -> list[str]:
    return sorted(expression_text(e, columns) for e in filters)


def expression_text(expression: Expression | None, columns: Sequence[str]) -> str:
    """An expression in prefix form, variables as column numbers. Deep ones do not recurse.

    >>> expression_text(Call("<", ("?x", Call("+", ("?y", "?x")))), ["?y", "?x"])
    '(< #1 (+ #0 #1))'
    """
    number = {name: f"#{i}" for i, name in enumerate(columns)}
    words: list[str] = []
    stack: list[Expression | _End | None] = [expression]
    while stack:
        part = stack.pop()
        if isinstance(part, _End):
            words[-1] += ")"
        elif isinstance(part, str):
            words.append(number[part] if is_variable(part) else part)
        elif isinstance(part, Call):
            words.append(f"({part.operator}")
            stack += [_End(), *reversed(part.arguments)]
        elif isinstance(part, Aggregate):
            words.append(f"({part.function} {part.duplicates.name}")
            stack += [_End(), part.argument]
        else:
            words.append("*")
    return " ".join(words)


class _End:
    """Where the brackets of a call close."""
