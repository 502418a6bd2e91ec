"""Canonical keys: two nodes have equal keys only if they mean equal relations, column by column.

Queries of one engine share nodes with equal keys, so a key that omits something gives wrong
answers. A key is therefore a hash of the node's whole meaning, with variables replaced by column
numbers:

1. the guard: the atom with its graph, constants, repetitions and filters; the rows of ``VALUES``;
   the digits of all terms; their lowest or highest values; or the inputs of a join, each with its
   use, its key, and the join's column *for each column of the input's marginal*;
2. the children, each with its key and the column for each column of its marginal;
3. the columns of the bag and of the interface, in storage order;
4. the role and the payload.

**Equal keys, equal relations.** By induction over the children. The meaning is a nested tuple of
strings and numbers, and `repr` is injective on those, so equal keys have equal meanings (barring a
collision of 128 bits). Equal meanings differ only in the names of variables: numbering is
one-to-one, and inputs and children with equal keys have equal marginals, column by column. The two
equations of `triegs.compiler.plan` do not depend on names, so the marginals over the interface and
the live tuples over the bag are equal, column by column.

The converse does not hold: of several possible numberings (the order of the atom, of the least
child, or of a join's inputs sorted by key) only one is tried. That may miss sharing, but never
changes an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from triegs.compiler.elimination import Draft
from triegs.compiler.plan import (
    DIGIT,
    Alias,
    Digits,
    Extreme,
    Input,
    Join,
    Node,
    Payload,
    Plan,
    Role,
    Static,
    WholeDigit,
)
from triegs.sparql.model import Aggregate, Call, Expression, is_variable

#: Nested tuples of strings and numbers, on which `repr` is injective.
Meaning = tuple[object, ...]


class Keyed(NamedTuple):
    """A node's key, with its bag and interface in the order of the key's numbering.

    Two nodes with equal keys have equal marginals, column by column.
    """

    key: str
    bag: tuple[str, ...]
    interface: tuple[str, ...]


def canonical_key(
    draft: Draft, keyed: Sequence[Keyed], role: Role, payload: Sequence[Payload]
) -> Keyed:
    """The key of a node whose children (and join inputs) have the keys `keyed`."""
    columns, guard = _number_columns(draft, keyed)
    if DIGIT in draft.bag and DIGIT not in columns:  # only a child binds it
        columns = (*columns, DIGIT)
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
        tuple(each.name for each in payload),
    )
    return Keyed(blake2b(repr(meaning).encode(), digest_size=16).hexdigest(), bag, interface)


def _number_columns(draft: Draft, keyed: Sequence[Keyed]) -> tuple[tuple[str, ...], Meaning]:
    """The variables in the order of their numbers, and the guard in these numbers."""
    guard = draft.guard
    if isinstance(guard, Alias):
        return guard.variables, ("atom", alias_text(guard))
    if isinstance(guard, Static):
        return guard.variables, ("values", static_text(guard))
    if isinstance(guard, WholeDigit):
        return guard.variables, ("whole digit",)
    if isinstance(guard, Extreme):
        return guard.variables, ("extreme", guard.is_last)
    if isinstance(guard, Digits):
        return guard.variables, ("digits",)
    if isinstance(guard, Join):
        return _number_join(guard, keyed)
    width = len(_without_digit(draft.bag))
    shown = {c: _without_digit(keyed[c].interface) for c in draft.children}
    covering = [c for c in draft.children if len(shown[c]) == width]
    least = min(covering, key=lambda c: keyed[c].key, default=None)
    return (() if least is None else shown[least]), ("product",)


def _without_digit(variables: Sequence[str]) -> tuple[str, ...]:
    return tuple(v for v in variables if v != DIGIT)


def _number_join(join: Join, keyed: Sequence[Keyed]) -> tuple[tuple[str, ...], Meaning]:
    inputs = sorted(join.inputs, key=lambda source: keyed[source.node].key)
    order = [v for s in inputs for v in keyed[s.node].interface if v in s.variables]
    columns = tuple(dict.fromkeys(order))
    # `source.variables` are in the order of the query, but the join reads the marginal: list each
    # of its columns, None for one that the join does not read.
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


def sort_children(plan: Plan, node: Node) -> list[int]:
    """The children of a node, in an order that its key determines.

    Nodes with equal keys thus become the same views with the same inputs, in the same order.
    """
    nodes = plan.nodes
    return sorted(
        node.children,
        key=lambda c: (_rank(nodes[c]), [node.bag.index(v) for v in nodes[c].interface]),
    )


def sort_inputs(plan: Plan, join: Join) -> list[Input]:
    """The inputs of a join, in an order that the key of its node determines."""
    return sorted(join.inputs, key=lambda source: _rank(plan.nodes[source.node]))


def _rank(node: Node) -> tuple[str, str]:
    """What a node means, for sorting. Atoms are sorted by their texts, for those who read plans."""
    return alias_text(node.guard) if isinstance(node.guard, Alias) else "", node.key


def alias_text(alias: Alias) -> str:
    """An atom with its variables replaced by column numbers, in its graph, with its filters.

    Injective up to renaming: constants are in N-Triples form, which is self-delimiting, and neither
    constants nor columns start like a graph or a filter.

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
    """A ``VALUES`` block without the names of its variables or the order of its rows.

    The number of columns is explicit, because a block without rows does not show it.

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
    """An expression in prefix form, variables as column numbers. Not recursive.

    >>> expression_text(Call("<", ("?x", Call("+", ("?y", "?x")))), ["?y", "?x"])
    '(< #1 (+ #0 #1))'
    """
    number = {name: f"#{i}" for i, name in enumerate(columns)}
    words: list[str] = []
    stack: list[Expression | _End | None] = [expression]
    while stack:
        item = stack.pop()
        if isinstance(item, _End):
            words[-1] += ")"
        elif isinstance(item, str):
            words.append(number[item] if is_variable(item) else item)
        elif isinstance(item, Call):
            words.append(f"({item.operator}")
            stack += [_End(), *reversed(item.arguments)]
        elif isinstance(item, Aggregate):
            words.append(f"({item.function} {item.duplicates.name}")
            stack += [_End(), item.argument]
        else:
            words.append("*")
    return " ".join(words)


class _End:
    """Marks the closing bracket of a call."""
