"""What all plans are made of: a query split into components, and drafts turned into nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triegs.compiler.component import QueryComponent
from triegs.compiler.elimination import Draft
from triegs.compiler.filters import SortedFilters, sort_filters
from triegs.compiler.hypergraph import connected_groups
from triegs.compiler.keys import Keyed, canonical_key
from triegs.compiler.naming import name_nodes
from triegs.compiler.plan import MOST_COLUMNS, Alias, Guard, Join, Keep, Node, Payload, Role, Static
from triegs.errors import UnsupportedQuery
from triegs.sparql.comparisons import find_comparison
from triegs.sparql.model import Expression, Query, Values, expression_variables


class SplitQuery:
    """A query split into its connected components, which are compiled separately."""

    def __init__(self, query: Query, *, is_marginal: bool = False) -> None:
        filters: SortedFilters = sort_filters(query, is_marginal=is_marginal)
        guards: list[Guard] = [
            Alias(atom, own, graph)
            for atom, own, graph in zip(
                query.atoms, filters.atoms, query.graphs or [""] * len(query.atoms), strict=True
            )
        ]
        guards += [
            Static(block, own) for block, own in zip(query.values, filters.values, strict=True)
        ]
        if filters.never:
            # A filter that no row passes is an empty relation without columns.
            guards.append(Static(Values((), ())))
        self.position = {v: i for i, v in enumerate(query.variables)}
        links = [guard.variables for guard in guards]
        links += [expression_variables(e) for e in filters.across_body]
        linking = [e for e in self._between(filters.across_head, links) if can_link(e)]
        links += [expression_variables(e) for e in linking]
        free = query.free
        self.components: list[QueryComponent] = []
        self.atoms: list[tuple[int, ...]] = []
        self.filters = self._between(filters.across_head, links)
        for group in connected_groups(links):
            inside = {v for i in group for v in links[i]}
            component = QueryComponent(
                tuple(guards[i] for i in group if i < len(guards)),
                tuple(v for v in free if v in inside),
                tuple(e for e in filters.across_body if inside.issuperset(expression_variables(e))),
                tuple(e for e in filters.across_head if inside.issuperset(expression_variables(e))),
                tuple(e for e in linking if inside.issuperset(expression_variables(e))),
            )
            self.components.append(component)
            self.atoms.append(tuple(i for i in group if i < len(query.atoms)))

    @staticmethod
    def _between(
        filters: Sequence[Expression], links: Sequence[Sequence[str]]
    ) -> tuple[Expression, ...]:
        """Filters over head variables of several components."""
        groups = [{v for i in group for v in links[i]} for group in connected_groups(links)]
        return tuple(
            e for e in filters
            if not any(inside.issuperset(expression_variables(e)) for inside in groups)
        )  # fmt: skip


def can_link(expression: Expression) -> bool:
    """Whether a filter is a comparison that an index by value can find.

    >>> from triegs.sparql.model import Call
    >>> can_link(Call("<", ("?x", "?y"))), can_link(Call("!=", ("?x", "?y")))
    (True, False)
    """
    found = find_comparison(expression)
    return found is not None and found.is_range


def shift_draft(draft: Draft, offset: int) -> Draft:
    guard = draft.guard
    if isinstance(guard, Join):
        moved = tuple(replace(source, node=source.node + offset) for source in guard.inputs)
        guard = replace(guard, inputs=moved)
    return replace(draft, guard=guard, children=tuple(c + offset for c in draft.children))


def make_nodes(
    drafts: Sequence[Draft], root: int, free: frozenset[str], kept: frozenset[Keep]
) -> tuple[Node, ...]:
    names = name_nodes(drafts, root)
    payloads = {Keep.COUNT: Payload.TOTAL, Keep.SLICE: Payload.POSITION}
    extra = tuple(payload for keep, payload in payloads.items() if keep in kept)
    nodes: list[Node] = []
    keyed: list[Keyed] = []
    for draft, name in zip(drafts, names, strict=True):
        shown = free.intersection(draft.bag).difference(draft.interface)
        is_witness = bool(shown) or any(nodes[c].role is Role.WITNESS for c in draft.children)
        role = Role.WITNESS if is_witness else Role.EXISTENTIAL
        payload = (Payload.LIVENESS, *extra) if is_witness else (Payload.EXACT,)
        key, bag, interface = canonical_key(draft, keyed, role, payload)
        keyed.append(Keyed(key, bag, interface))
        nodes.append(Node(name, bag, draft.guard, draft.children, interface, role, payload, key))
    return tuple(nodes)


def refuse_wide(nodes: Sequence[Node]) -> None:
    """Raise `UnsupportedQuery` for a node with more columns than a relation can have."""
    widest = max(nodes, key=lambda node: len(node.bag), default=None)
    if widest is not None and len(widest.bag) > MOST_COLUMNS:
        raise UnsupportedQuery(
            f"a component must be materialised over {len(widest.bag)} variables; at most "
            f"{MOST_COLUMNS} are supported", line=1, column=1, construct="materialised variables",
            hint="select the variables that link the others, or select fewer variables",
        )  # fmt: skip
