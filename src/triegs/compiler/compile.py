"""Query → plan: the passes, in order.

1. `filters`: sort the filters by where they can be decided.
2. Split into connected components (`hypergraph`), each compiled on its own:
   `component` runs the elimination phases, `choose` takes the cheapest legal choice.
3. Put the components under one root; a query of several has a nullary one.
4. Roles and payloads: what each node must keep (needs the whole tree: a witness is one because
   of what lies below it).
5. `keys`, `naming`, cursor order, `access`: all read the finished tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from random import Random
from typing import NamedTuple

from triegs.compiler.choices import Chooser
from triegs.compiler.choose import Priced, cheapest, every_way, one_way
from triegs.compiler.component import Part
from triegs.compiler.elimination import Draft
from triegs.compiler.filters import SortedFilters, sort_filters
from triegs.compiler.hypergraph import connected_groups
from triegs.compiler.keys import Keyed, canonical_key
from triegs.compiler.naming import name_nodes
from triegs.compiler.plan import (
    MOST_COLUMNS,
    Alias,
    Component,
    Guard,
    Join,
    Keep,
    Node,
    Payload,
    Plan,
    PlanClass,
    Role,
    Static,
)
from triegs.compiler.promise import describe_promise, query_warnings
from triegs.errors import PlanError, UnsupportedQuery
from triegs.sparql.model import Expression, Query, Values, expression_variables

#: Lists of picks looked at when all legal plans of one component are wanted.
LOOKED_AT = 4_000


def compile_query(
    query: Query,
    *,
    root: str | None = None,
    choices: Sequence[Sequence[int]] | None = None,
    keep: Collection[str] = (),
) -> Plan:
    """Compile a query to its cheapest plan, or to the one that is asked for.

    `root` forces a head variable (``"z"`` or ``"?z"``) to the top of its component, `choices`
    replays another plan's `Plan.choices`, `keep` asks for payloads: ``"count"`` for O(1) totals,
    ``"slice"`` for access by position. Raises `PlanError` for what the query does not have.

    >>> from triegs.sparql.model import Atom, Form
    >>> atoms = (Atom("?x", "<a>", "?y"), Atom("?y", "<b>", "?z"))
    >>> plan = compile_query(Query(Form.SELECT, ("?x", "?y", "?z"), atoms))
    >>> plan.plan_class.value, plan.nodes[plan.root].bag
    ('full-acyclic', ('?y',))
    """
    kept = _read_keep(keep)
    parts = _Parts(query)
    wanted = _read_root(root, parts)
    if choices is not None and len(choices) != len(parts.parts):
        raise PlanError(f"{len(choices)} lists of choices for {len(parts.parts)} components")
    ways: list[Priced] = []
    for number, part in enumerate(parts.parts):
        here = wanted if wanted in part.head else None
        if choices is None:
            ways.append(cheapest(part, parts.position, here))
        else:
            ways.append(one_way(part, parts.position, Chooser(choices[number]), here))
    return _assemble(query, parts, ways, kept)


class LegalPlans(NamedTuple):
    """Different plans of one query, and whether they are only a sample of all there are."""

    plans: list[Plan]
    is_sample: bool


def legal_plans(
    query: Query, *, keep: Collection[str] = (), limit: int = 200, seed: int = 0
) -> LegalPlans:
    """All legal plans of a query, different ones only; beyond `limit`, a random sample of them.

    Cost: up to `LOOKED_AT` compilations per component, so meant for tests and for curiosity.

    >>> from triegs.sparql.model import Atom, Form
    >>> path = (Atom("?x", "<a>", "?y"), Atom("?y", "<b>", "?z"))
    >>> found = legal_plans(Query(Form.SELECT, ("?x", "?y", "?z"), path))
    >>> [plan.components[0].root for plan in found.plans], found.is_sample
    ([('?x',), ('?y',), ('?z',), ('?x', '?y'), ('?y', '?z')], False)
    """
    kept = _read_keep(keep)
    parts = _Parts(query)
    ways = [_different(every_way(part, parts.position), limit) for part in parts.parts]
    if None not in ways and prod(len(some or ()) for some in ways) <= limit:
        every = product(*(some or () for some in ways))
        return LegalPlans([_assemble(query, parts, list(way), kept) for way in every], False)
    random = Random(seed)
    sampled: dict[tuple[object, ...], Plan] = {}
    for _ in range(4 * limit):
        way = [one_way(part, parts.position, Chooser((), random)) for part in parts.parts]
        sampled.setdefault(
            tuple(_shape(priced) for priced in way), _assemble(query, parts, way, kept)
        )
        if len(sampled) == limit:
            break
    return LegalPlans(list(sampled.values()), True)


def _different(ways: Iterator[Priced], limit: int) -> list[Priced] | None:
    """The ways that end in different rules; None when there are too many to look at."""
    seen: dict[object, Priced] = {}
    for looked_at, priced in enumerate(ways):
        seen.setdefault(_shape(priced), priced)
        if len(seen) > limit or looked_at == LOOKED_AT:
            return None
    return list(seen.values())


def _shape(priced: Priced) -> object:
    """Equal for builds that are the same rules, in whatever order they were written."""
    drafts, top = priced[2].drafts, priced[2].top

    def shape(place: int) -> tuple[object, ...]:
        draft = drafts[place]
        guard: object = draft.guard
        if isinstance(guard, Join):
            inputs = [(i.use, i.variables, shape(i.node)) for i in guard.inputs]
            guard = (frozenset(inputs), guard.filters)
        children = tuple(sorted((shape(c) for c in draft.children), key=repr))
        return (draft.bag, guard, children, draft.interface)

    return shape(top)


class _Parts:
    """A query cut into what is compiled apart: its guards by connected component."""

    def __init__(self, query: Query) -> None:
        filters: SortedFilters = sort_filters(query)
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
            # A filter that no row can pass is an empty relation without columns.
            guards.append(Static(Values((), ())))
        self.position = {v: i for i, v in enumerate(query.variables)}
        links = [guard.variables for guard in guards]
        links += [expression_variables(e) for e in filters.across_body]
        free = query.free
        self.parts: list[Part] = []
        self.atoms: list[tuple[int, ...]] = []
        self.filters = self._between(filters.across_head, links)
        for group in connected_groups(links):
            inside = {v for i in group for v in links[i]}
            part = Part(
                tuple(guards[i] for i in group if i < len(guards)),
                tuple(v for v in free if v in inside),
                tuple(filters.across_body[i - len(guards)] for i in group if i >= len(guards)),
                tuple(e for e in filters.across_head if inside.issuperset(expression_variables(e))),
            )
            self.parts.append(part)
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


def _read_keep(keep: Collection[str]) -> frozenset[Keep]:
    known = {member.value: member for member in Keep}
    unknown = [name for name in keep if name not in known]
    if unknown or isinstance(keep, str):
        raise PlanError(f"keep={keep!r}: give a list of {' and '.join(map(repr, known))}")
    return frozenset(known[name] for name in keep)


def _read_root(root: str | None, parts: _Parts) -> str | None:
    if root is None:
        return None
    name = root if root.startswith("?") else f"?{root}"
    heads = [v for part in parts.parts for v in part.head]
    if name not in heads:
        raise PlanError(
            f"{name} cannot be the root: it must be one of the head variables "
            f"that the pattern binds ({', '.join(heads) or 'there are none'})"
        )
    return name


def _assemble(query: Query, parts: _Parts, ways: list[Priced], kept: frozenset[Keep]) -> Plan:
    drafts: list[Draft] = []
    components: list[Component] = []
    filters = list(parts.filters)
    for (cost, picks, built), atoms in zip(ways, parts.atoms, strict=True):
        offset = len(drafts)
        drafts += [_shifted(draft, offset) for draft in built.drafts]
        components.append(
            Component(
                atoms, built.plan_class, built.top + offset, built.root, picks, cost, built.warnings
            )
        )
        filters += built.filters
    if len(components) == 1:
        root = components[0].top
    else:
        drafts.append(Draft((), None, tuple(c.top for c in components), ()))
        root = len(drafts) - 1
    nodes = _make_nodes(drafts, root, frozenset(query.free), kept)
    widest = max(nodes, key=lambda node: len(node.bag), default=None)
    if widest is not None and len(widest.bag) > MOST_COLUMNS:
        raise UnsupportedQuery(
            f"a part that must be materialised over {len(widest.bag)} variables; at most "
            f"{MOST_COLUMNS} are supported", line=1, column=1, construct="materialised variables",
            hint="show the variables that link the others, or fewer of them",
        )  # fmt: skip
    order = list(PlanClass)
    worst = max((c.plan_class for c in components), key=order.index, default=order[0])
    plan = Plan(
        query, nodes, root, tuple(components), worst, "", _cursor_order(nodes, root),
        tuple(filters), (),
    )  # fmt: skip
    return replace(plan, promise=describe_promise(plan), warnings=query_warnings(plan))


def _shifted(draft: Draft, offset: int) -> Draft:
    guard = draft.guard
    if isinstance(guard, Join):
        moved = tuple(replace(source, node=source.node + offset) for source in guard.inputs)
        guard = replace(guard, inputs=moved)
    return replace(draft, guard=guard, children=tuple(c + offset for c in draft.children))


def _make_nodes(
    drafts: Sequence[Draft], root: int, free: frozenset[str], kept: frozenset[Keep]
) -> tuple[Node, ...]:
    names = name_nodes(drafts, root)
    asked = {Keep.COUNT: Payload.TOTAL, Keep.SLICE: Payload.POSITION}
    extra = tuple(payload for keep, payload in asked.items() if keep in kept)
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


def _cursor_order(nodes: Sequence[Node], root: int) -> tuple[int, ...]:
    """Witness nodes, parents first; leaves last, so that they form a plain product at the end."""
    inner: list[int] = []
    leaves: list[int] = []

    def below(place: int) -> list[int]:
        return [c for c in nodes[place].children if nodes[c].role is Role.WITNESS]

    stack = [root] if nodes[root].role is Role.WITNESS else []
    while stack:
        place = stack.pop()
        (inner if below(place) else leaves).append(place)
        stack += reversed(below(place))
    return tuple(inner + leaves)
