"""Access paths: which lookups a plan makes, and the fewest physical indexes that serve them.

- *primary*: the exact payload of a tuple, to evaluate a rule;
- *secondary*: the live extensions of an interface binding, to enumerate top-down;
- *tertiary*: the guard tuples that a changed child entry touches, live or not, to maintain
  bottom-up.

A leaf reads the shared base index and stores nothing. Constants of an atom are the first key
columns of a base index, so atoms with and without constants share one where they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from triegs.compiler.keys import alias_text
from triegs.compiler.plan import (
    Access,
    AccessPath,
    Alias,
    Index,
    IndexKind,
    Join,
    Node,
    Role,
    Static,
)
from triegs.sparql.model import is_variable

COLUMNS = ("subject", "predicate", "object")


@dataclass(slots=True)
class _Indexes:
    """Numbers equal indexes equally, and collects the paths that use them."""

    numbers: dict[Index, int] = field(default_factory=dict)
    paths: dict[AccessPath, None] = field(default_factory=dict)

    def use(self, node: int, role: Access, index: Index, reason: str) -> None:
        number = self.numbers.setdefault(index, len(self.numbers))
        self.paths[AccessPath(node, role, number, reason)] = None


def access_paths(nodes: Sequence[Node]) -> tuple[tuple[Index, ...], tuple[AccessPath, ...]]:
    """Every access path of a plan with its reason, and the physical indexes they share."""
    found = _Indexes()
    for place, node in enumerate(nodes):
        _evaluate_paths(found, nodes, place, node)
        if node.role is Role.WITNESS and node.introduces:
            reason = f"list the live {_names(node.introduces)}"
            if node.interface:
                reason += f" of a given {_names(node.interface)}"
            found.use(place, Access.SECONDARY, _marginal_index(nodes, place), reason)
    return tuple(found.numbers), tuple(found.paths)


def _evaluate_paths(found: _Indexes, nodes: Sequence[Node], place: int, node: Node) -> None:
    guard = node.guard
    if isinstance(guard, Alias | Static) and node.children:
        reason = f"the guard's weight in {node.name}"
        found.use(place, Access.PRIMARY, _guard_index(guard, node.bag), reason)
    for number in node.children:
        child = nodes[number]
        reason = f"the factor {child.name} of {node.name}"
        found.use(number, Access.PRIMARY, _marginal_index(nodes, number), reason)
        open_variables = [v for v in node.bag if v not in child.interface]
        if open_variables and child.interface:
            reason = f"the {_names(node.bag)} that a change of {child.name} touches"
            if isinstance(guard, Alias | Static):
                index = _guard_index(guard, child.interface)
            else:
                name = f"guard of {node.name}"
                index = Index(IndexKind.STORED, name, child.interface, place)
            found.use(place, Access.TERTIARY, index, reason)
    if isinstance(guard, Join):
        _join_paths(found, nodes, node, guard)


def _join_paths(found: _Indexes, nodes: Sequence[Node], node: Node, join: Join) -> None:
    """A changed input meets every other by the variables that they share."""
    holders: dict[str, list[int]] = {}
    for place, source in enumerate(join.inputs):
        for variable in source.variables:
            holders.setdefault(variable, []).append(place)
    for source in join.inputs:
        reason = f"join input of {node.name}"
        found.use(source.node, Access.PRIMARY, _marginal_index(nodes, source.node), reason)
        near = {place for variable in source.variables for place in holders[variable]}
        for other in (join.inputs[place] for place in sorted(near)):
            shared = tuple(v for v in source.variables if v in other.variables)
            if other is not source and 0 < len(shared) < len(source.variables):
                changed = nodes[other.node].name
                reason = f"in {node.name}, the {_names(source.variables)} that a change of "
                index = _marginal_index(nodes, source.node, shared)
                found.use(source.node, Access.TERTIARY, index, f"{reason}{changed} meets")


def _names(variables: Sequence[str]) -> str:
    return " ".join(variables)


def _marginal_index(nodes: Sequence[Node], place: int, key: Sequence[str] | None = None) -> Index:
    """Where a node's marginal is looked up, and its live tuples are listed, by interface."""
    node = nodes[place]
    columns = node.interface if key is None else tuple(key)
    if node.is_leaf and isinstance(node.guard, Alias | Static):
        return _guard_index(node.guard, columns)
    if node.guard is None and len(node.children) == 1 and key is None:
        # A product of one factor has the same tuples as that factor.
        return _marginal_index(nodes, node.children[0])
    return Index(IndexKind.STORED, f"view {node.name}", columns, place)


def _guard_index(guard: Alias | Static, key: Sequence[str]) -> Index:
    if isinstance(guard, Static):
        return Index(IndexKind.FIXED, "VALUES " + _names(guard.variables), tuple(key))
    terms = guard.atom
    fixed = [c for c, t in zip(COLUMNS, terms, strict=True) if not is_variable(t)]
    keyed = [c for c, t in zip(COLUMNS, terms, strict=True) if t in key]
    label = guard.label
    columns = tuple(c for c in [*fixed, *keyed] if label is None or c != "predicate")
    if guard.is_selected:
        return Index(IndexKind.SELECTED, alias_text(guard), columns)
    return Index(IndexKind.BASE, "all triples" if label is None else label, columns)
