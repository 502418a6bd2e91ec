"""Facts for explanations: plan classes in words, and where filters run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from triegs.compiler.plan import Alias, Join, Plan, PlanClass
from triegs.sparql.model import Expression, expression_variables

CLASSES = {
    PlanClass.FULL_ACYCLIC: "acyclic, and the head shows every variable",
    PlanClass.FREE_CONNEX: "acyclic, and what the head hides can be summed out",
    PlanClass.MATERIALIZED: "acyclic, but hidden variables or a comparison link shown ones",
    PlanClass.CYCLIC: "the pattern has a cycle",
}


class Runs(Enum):
    """Where a filter runs."""

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
    """Every filter of the query: in guards, during enumeration, then at compile time."""
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
