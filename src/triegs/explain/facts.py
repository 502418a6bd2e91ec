"""What an explanation says beyond the rules: storage, filters, and what follows enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from triegs.compiler.fragment import is_compiled
from triegs.compiler.plan import Alias, Join, Payload, Plan, PlanClass, Role
from triegs.explain.notation import Notation, plain
from triegs.sparql.model import Expression, expression_variables

CLASSES = {
    PlanClass.FULL_ACYCLIC: "acyclic, and the head shows every variable",
    PlanClass.FREE_CONNEX: "acyclic, and what the head hides can be summed out",
    PlanClass.MATERIALIZED: "acyclic, but hidden variables link shown ones",
    PlanClass.CYCLIC: "the pattern has a cycle",
}


class Runs(Enum):
    """Where a filter is decided."""

    ATOM = "atom"
    VALUES = "values"
    JOIN = "join"
    ENUMERATION = "enumeration"
    COMPILATION = "compilation"


@dataclass(frozen=True, slots=True)
class PlacedFilter:
    """A filter, where it runs, and the node that runs it (if one does)."""

    expression: Expression
    runs: Runs
    node: int | None = None


def place_filters(plan: Plan) -> Iterator[PlacedFilter]:
    """Every filter of the query: inside guards, then while enumerating, then decided before."""
    for number, node in enumerate(plan.nodes):
        if node.guard is None:
            continue
        if isinstance(node.guard, Join):
            runs = Runs.JOIN
        else:
            runs = Runs.ATOM if isinstance(node.guard, Alias) else Runs.VALUES
        for expression in node.guard.filters:
            yield PlacedFilter(expression, runs, number)
    for expression in plan.filters:
        yield PlacedFilter(expression, Runs.ENUMERATION)
    for expression in plan.query.filters:
        if not expression_variables(expression):
            yield PlacedFilter(expression, Runs.COMPILATION)


def describe_storage(notation: Notation, number: int) -> str:
    """What the node keeps between epochs, in a few words."""
    node = notation.plan.nodes[number]
    if node.is_leaf:
        if isinstance(node.guard, Alias):
            source = "a selected index" if node.guard.is_selected else "the base index"
        else:
            source = "the VALUES block"
        return f"nothing: reads {source}"
    entries = "live tuples" if node.role is Role.WITNESS else "counts"
    parts = ["the join"] if isinstance(node.guard, Join) else []
    for index in notation.kept[number]:
        what = entries if index.relation.startswith("view") else "its guard"
        by = " ".join(map(plain, index.columns))
        parts.append(f"{what} by {by}" if by else what)
    if parts:
        return ", ".join(parts)
    return "one number" if not node.interface else "nothing"


def describe_totals(plan: Plan) -> str:
    """What ``count()`` and ``support()`` cost with the payloads of this plan."""
    top = plan.nodes[plan.root]
    if top.role is Role.EXISTENTIAL:
        return "the total multiplicity is one number, kept exact"
    has_total, has_positions = Payload.TOTAL in top.payload, Payload.POSITION in top.payload
    if not (has_total or has_positions):
        return "count() and support() scan the answers (keep count, slice for more)"
    query = plan.query
    if plan.filters or query.limit is not None or query.offset:
        return "count(), support() and positions scan the answers: a filter or a cut comes last"
    if not is_compiled(plan):
        return "count(), support() and positions scan the answers: outside the compiled core"
    if has_total:
        return "count() and support() are kept; access by position in logarithmic time"
    return (
        "support() is kept; access by position in logarithmic time; "
        "count() scans the answers (keep count for that)"
    )
