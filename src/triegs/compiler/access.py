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
    paths: list[AccessPath] = field(default_factory=list)

    def use(self, node: int, role: Access, index: Index, reason: str) -> None:
        number = self.numbers.setdefault(index, len(self.numbers))
        path = AccessPath(node, role, number, reason)
        if path not in self.paths:
            self.paths.append(path)


def access_paths(nodes: Sequence[Node]) -> tuple[tuple[Index, ...], tuple[AccessPath, ...]]:
    """Every access path of a plan with its reason, and the physical indexes they share."""
    found = _Indexes()
    for place, node in enumerate(nodes):
        _evaluate_paths(found, nodes, place, node)
        if node.role is Role.WITNESS and node.introduces:
            reason = f"list the live {_names(node.introduces)}"
            if node.interface:
                reason += f" of a given {_names(node.interface)}"
            found.use(place, Access.SECONDARY, _marginal_index(place, node), reason)
    return tuple(found.numbers), tuple(found.paths)


def _evaluate_paths(found: _Indexes, nodes: Sequence[Node], place: int, node: Node) -> None:
    guard = node.guard
    if isinstance(guard, Alias | Static) and node.children:
        reason = f"the guard's weight in {node.name}"
        found.use(place, Access.PRIMARY, _guard_index(guard, node.bag), reason)
    for number in node.children:
        child = nodes[number]
        reason = f"the factor {child.name} of {node.name}"
        found.use(number, Access.PRIMARY, _marginal_index(number, child), reason)
        open_variables = [v for v in node.bag if v not in child.interface]
        if open_variables and child.interface:
            reason = f"the {_names(node.bag)} that a change of {child.name} touches"
            if isinstance(guard, Alias | Static):
                index = _guard_index(guard, child.interface)
            else:
                index = Index(f"guard of {node.name}", child.interface, place)
            found.use(place, Access.TERTIARY, index, reason)
    if isinstance(guard, Join):
        for source in guard.inputs:
            child = nodes[source.node]
            reason = f"join input of {node.name}"
            index = _marginal_index(source.node, child)
            found.use(source.node, Access.PRIMARY, index, reason)


def _names(variables: Sequence[str]) -> str:
    return " ".join(variables)


def _marginal_index(place: int, node: Node) -> Index:
    """Where a node's marginal is looked up, and its live tuples are listed, by interface."""
    if node.is_leaf and isinstance(node.guard, Alias | Static):
        return _guard_index(node.guard, node.interface)
    return Index(f"view {node.name}", node.interface, place)


def _guard_index(guard: Alias | Static, key: Sequence[str]) -> Index:
    if isinstance(guard, Static):
        return Index("VALUES " + _names(guard.variables), tuple(key))
    terms = guard.atom
    fixed = [c for c, t in zip(COLUMNS, terms, strict=True) if not is_variable(t)]
    keyed = [c for c, t in zip(COLUMNS, terms, strict=True) if t in key]
    label = guard.label
    columns = tuple(c for c in [*fixed, *keyed] if label is None or c != "predicate")
    repeated = len(guard.variables) < sum(map(is_variable, terms))
    if guard.filters or repeated:
        return Index(alias_text(guard), columns)
    return Index("all triples" if label is None else label, columns)
