"""Sort filters by where they can be evaluated.

- A filter inside one atom belongs to that alias.
- A filter across atoms with a body variable is a hyperedge of its own: its variables must meet in
  one materialised join before the body variable is summed out.
- A filter across atoms over head variables runs in a join that has them all, if there is one, else
  during enumeration; but a comparison that alone links two components is a join of its own.
- A filter without bound variables is evaluated now.

Conjunctions are split first, so that each side is evaluated as early as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from triegs.errors import PlanError
from triegs.sparql.expressions import holds
from triegs.sparql.model import Call, Expression, Query, expression_variables


@dataclass(frozen=True, slots=True)
class SortedFilters:
    """``atoms[i]`` and ``values[i]`` are the filters pushed into that atom or VALUES block."""

    atoms: tuple[tuple[Expression, ...], ...]
    values: tuple[tuple[Expression, ...], ...]
    across_body: tuple[Expression, ...]
    across_head: tuple[Expression, ...]
    never: bool


def split_conjunctions(filters: Iterable[Expression]) -> Iterator[Expression]:
    """Split conjunctions into filters of their own; the same rows pass.

    >>> [each.operator for each in split_conjunctions([Call("&&", (Call("<", ("?x", "?y")),
    ...     Call("ISIRI", ("?z",))))])]
    ['<', 'ISIRI']
    """
    stack = list(filters)[::-1]
    while stack:
        expression = stack.pop()
        if isinstance(expression, Call) and expression.operator == "&&":
            stack += reversed(expression.arguments)
        else:
            yield expression


def sort_filters(query: Query, *, is_marginal: bool = False) -> SortedFilters:
    """Sort the filters of a query; for a marginal, which has no enumeration, none is left to it."""
    free, bound = set(() if is_marginal else query.free), set(query.variables)
    hosts = [set(atom.variables) for atom in query.atoms]
    hosts += [set(block.variables) for block in query.values]
    pushed: list[list[Expression]] = [[] for _ in hosts]
    across_body: list[Expression] = []
    across_head: list[Expression] = []
    never = False
    for expression in split_conjunctions(query.filters):
        wanted = set(expression_variables(expression))
        unbound = wanted - bound
        if unbound:
            raise PlanError(f"a filter uses {' '.join(sorted(unbound))}, which no atom binds")
        fitting = [i for i, host in enumerate(hosts) if wanted <= host]
        if not wanted:
            never = never or not holds(expression, {})
        elif fitting:
            pushed[min(fitting, key=lambda i: len(hosts[i]))].append(expression)
        elif wanted <= free:
            across_head.append(expression)
        else:
            across_body.append(expression)
    filters = [tuple(each) for each in pushed]
    n = len(query.atoms)
    return SortedFilters(
        tuple(filters[:n]), tuple(filters[n:]), tuple(across_body), tuple(across_head), never
    )
