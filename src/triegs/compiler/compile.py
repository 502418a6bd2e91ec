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

from triegs.compiler.assembly import SplitQuery, make_nodes, refuse_wide, shift_draft
from triegs.compiler.choices import Chooser
from triegs.compiler.choose import Priced, cheapest, every_build, one_build
from triegs.compiler.elimination import Draft
from triegs.compiler.groups import compile_groups, shift_nodes
from triegs.compiler.plan import (
    Component,
    Join,
    Keep,
    Node,
    Plan,
    PlanClass,
    Role,
)
from triegs.compiler.promise import describe_promise, query_warnings
from triegs.errors import PlanError
from triegs.sparql.model import Query

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
    if query.grouping is not None:
        return _compile_grouped(query, root, choices)
    split = SplitQuery(query)
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


def _compile_grouped(
    query: Query, root: str | None, choices: Sequence[Sequence[int]] | None
) -> Plan:
    if root is not None:
        raise PlanError("a query with aggregates has no root")
    groups = compile_groups(query, choices)
    nodes = tuple(node for source in groups.sources for node in shift_nodes(source))
    plan = replace(groups.sources[0].plan, query=query, nodes=nodes, groups=groups)
    return replace(plan, promise=describe_promise(plan), warnings=query_warnings(plan))


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
    if query.grouping is not None:
        return LegalPlans([compile_query(query, keep=keep)], False)
    split = SplitQuery(query)
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


def _read_keep(keep: Collection[str]) -> frozenset[Keep]:
    known = {member.value: member for member in Keep}
    unknown = [name for name in keep if name not in known]
    if unknown or isinstance(keep, str):
        raise PlanError(f"keep={keep!r}: give a list of {' and '.join(map(repr, known))}")
    return frozenset(known[name] for name in keep)


def _read_root(root: str | None, split: SplitQuery) -> str | None:
    if root is None:
        return None
    name = f"?{str(root).removeprefix('?')}"
    heads = [v for component in split.components for v in component.head]
    if name not in heads:
        raise PlanError(
            f"{name} cannot be the root: it must be one of the head variables "
            f"that the pattern binds ({', '.join(heads) or 'none'})"
        )
    return name


def _assemble(query: Query, split: SplitQuery, builds: list[Priced], kept: frozenset[Keep]) -> Plan:
    drafts: list[Draft] = []
    components: list[Component] = []
    filters = list(split.filters)
    for (cost, picks, built), atoms in zip(builds, split.atoms, strict=True):
        offset = len(drafts)
        drafts += [shift_draft(draft, offset) for draft in built.drafts]
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
    nodes = make_nodes(drafts, root, frozenset(query.free), kept)
    refuse_wide(nodes)
    order = list(PlanClass)
    worst = max((c.plan_class for c in components), key=order.index, default=order[0])
    plan = Plan(
        query, nodes, root, tuple(components), worst, "", _cursor_order(nodes, root),
        tuple(filters), (),
    )  # fmt: skip
    return replace(plan, promise=describe_promise(plan), warnings=query_warnings(plan))


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
