"""Query → plan: the passes, in order.

1. `filters`: sort the filters by where they can be decided.
2. Split into connected components (`hypergraph`), each compiled on its own:
   `component` runs the elimination phases, `choose` takes the cheapest legal choice.
3. Put the components under one root, which is nullary if there are several.
4. Roles and payloads: what each node must keep. This needs the whole tree, because the nodes below
   decide whether a node is a witness.
5. `keys`, `naming`, cursor order and `promise`, which read the finished tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from random import Random
from typing import NamedTuple

from triegs.compiler.choices import Chooser
from triegs.compiler.choose import Priced, cheapest, every_build, one_build
from triegs.compiler.component import QueryComponent
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

#: Lists of picks that `legal_plans` tries per component.
MOST_BUILDS = 4_000


def compile_query(
    query: Query,
    *,
    root: str | None = None,
    choices: Sequence[Sequence[int]] | None = None,
    keep: Collection[str] = (),
) -> Plan:
    """Compile a query to its cheapest plan, or to a given one.

    `root` forces a head variable (``"z"`` or ``"?z"``) to the top of its component, `choices`
    replays another plan's `Plan.choices`, and `keep` adds payloads: ``"count"`` for O(1) totals,
    ``"slice"`` for access by position. Raises `PlanError` if they do not fit the query.

    >>> from triegs.sparql.model import Atom, Form
    >>> atoms = (Atom("?x", "<a>", "?y"), Atom("?y", "<b>", "?z"))
    >>> plan = compile_query(Query(Form.SELECT, ("?x", "?y", "?z"), atoms))
    >>> plan.plan_class.value, plan.nodes[plan.root].bag
    ('full-acyclic', ('?y',))
    """
    kept = _read_keep(keep)
    split = _SplitQuery(query)
    wanted = _read_root(root, split)
    if choices is not None and len(choices) != len(split.components):
        raise PlanError(f"{len(choices)} lists of choices for {len(split.components)} components")
    builds: list[Priced] = []
    for number, component in enumerate(split.components):
        here = wanted if wanted in component.head else None
        if choices is None:
            builds.append(cheapest(component, split.position, here))
        else:
            chooser = Chooser(choices[number])
            builds.append(one_build(component, split.position, chooser, here))
    return _assemble(query, split, builds, kept)


class LegalPlans(NamedTuple):
    """Distinct plans of one query, and whether they are only a sample of all plans."""

    plans: list[Plan]
    is_sample: bool


def legal_plans(
    query: Query, *, keep: Collection[str] = (), limit: int = 200, seed: int = 0
) -> LegalPlans:
    """All distinct legal plans of a query; beyond `limit`, a random sample of them.

    Cost: up to `MOST_BUILDS` compilations per component. For tests and experiments.

    >>> from triegs.sparql.model import Atom, Form
    >>> path = (Atom("?x", "<a>", "?y"), Atom("?y", "<b>", "?z"))
    >>> found = legal_plans(Query(Form.SELECT, ("?x", "?y", "?z"), path))
    >>> [plan.components[0].root for plan in found.plans], found.is_sample
    ([('?x',), ('?y',), ('?z',), ('?x', '?y'), ('?y', '?z')], False)
    """
    kept = _read_keep(keep)
    split = _SplitQuery(query)
    options = [_different(every_build(each, split.position), limit) for each in split.components]
    if None not in options and prod(len(some or ()) for some in options) <= limit:
        every = product(*(some or () for some in options))
        return LegalPlans([_assemble(query, split, list(some), kept) for some in every], False)
    random = Random(seed)
    sampled: dict[tuple[object, ...], Plan] = {}
    for _ in range(4 * limit):
        builds = [one_build(each, split.position, Chooser((), random)) for each in split.components]
        sampled.setdefault(
            tuple(_shape(priced) for priced in builds), _assemble(query, split, builds, kept)
        )
        if len(sampled) == limit:
            break
    return LegalPlans(list(sampled.values()), True)


def _different(builds: Iterator[Priced], limit: int) -> list[Priced] | None:
    """The builds with different rules; None if there are too many to try."""
    seen: dict[object, Priced] = {}
    for tried, priced in enumerate(builds):
        seen.setdefault(_shape(priced), priced)
        if len(seen) > limit or tried == MOST_BUILDS:
            return None
    return list(seen.values())


def _shape(priced: Priced) -> object:
    """Equal for builds with the same rules in any order."""
    drafts, top = priced[2].drafts, priced[2].top

    def shape(number: int) -> tuple[object, ...]:
        draft = drafts[number]
        guard: object = draft.guard
        if isinstance(guard, Join):
            inputs = [(i.use, i.variables, shape(i.node)) for i in guard.inputs]
            guard = (frozenset(inputs), guard.filters)
        children = tuple(sorted((shape(c) for c in draft.children), key=repr))
        return (draft.bag, guard, children, draft.interface)

    return shape(top)


class _SplitQuery:
    """A query split into its connected components, which are compiled separately."""

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
            # A filter that no row passes is an empty relation without columns.
            guards.append(Static(Values((), ())))
        self.position = {v: i for i, v in enumerate(query.variables)}
        links = [guard.variables for guard in guards]
        links += [expression_variables(e) for e in filters.across_body]
        free = query.free
        self.components: list[QueryComponent] = []
        self.atoms: list[tuple[int, ...]] = []
        self.filters = self._between(filters.across_head, links)
        for group in connected_groups(links):
            inside = {v for i in group for v in links[i]}
            component = QueryComponent(
                tuple(guards[i] for i in group if i < len(guards)),
                tuple(v for v in free if v in inside),
                tuple(filters.across_body[i - len(guards)] for i in group if i >= len(guards)),
                tuple(e for e in filters.across_head if inside.issuperset(expression_variables(e))),
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


def _read_keep(keep: Collection[str]) -> frozenset[Keep]:
    known = {member.value: member for member in Keep}
    unknown = [name for name in keep if name not in known]
    if unknown or isinstance(keep, str):
        raise PlanError(f"keep={keep!r}: give a list of {' and '.join(map(repr, known))}")
    return frozenset(known[name] for name in keep)


def _read_root(root: str | None, split: _SplitQuery) -> str | None:
    if root is None:
        return None
    name = root if root.startswith("?") else f"?{root}"
    heads = [v for component in split.components for v in component.head]
    if name not in heads:
        raise PlanError(
            f"{name} cannot be the root: it must be one of the head variables "
            f"that the pattern binds ({', '.join(heads) or 'none'})"
        )
    return name


def _assemble(
    query: Query, split: _SplitQuery, builds: list[Priced], kept: frozenset[Keep]
) -> Plan:
    drafts: list[Draft] = []
    components: list[Component] = []
    filters = list(split.filters)
    for (cost, picks, built), atoms in zip(builds, split.atoms, strict=True):
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
            f"a component must be materialised over {len(widest.bag)} variables; at most "
            f"{MOST_COLUMNS} are supported", line=1, column=1, construct="materialised variables",
            hint="select the variables that link the others, or select fewer variables",
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


def _cursor_order(nodes: Sequence[Node], root: int) -> tuple[int, ...]:
    """Witness nodes, parents first and leaves last, so that the leaves form a plain product."""
    inner: list[int] = []
    leaves: list[int] = []

    def below(number: int) -> list[int]:
        return [c for c in nodes[number].children if nodes[c].role is Role.WITNESS]

    stack = [root] if nodes[root].role is Role.WITNESS else []
    while stack:
        number = stack.pop()
        (inner if below(number) else leaves).append(number)
        stack += reversed(below(number))
    return tuple(inner + leaves)
