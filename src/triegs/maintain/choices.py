"""What lowering decides from the plan alone."""

from __future__ import annotations

from enum import Enum

from triegs.compiler.plan import Alias, Join, Payload, Plan, Role
from triegs.mode import Mode
from triegs.sparql.model import Duplicates, Form


class OrderStatistics(Enum):
    """The statistics kept below each live tuple: none, answers, or answers and rows."""

    NONE = 0
    ANSWERS = 1
    ROWS = 2


def choose_statistics(plan: Plan, mode: Mode) -> list[OrderStatistics]:
    """The statistics that a plan can keep, best first: the requested ones, then the fallbacks if a
    count does not fit.

    No statistics if rows are not the final answers, because a filter or a cut follows.
    """
    kept = plan.nodes[plan.root].payload
    query = plan.query
    if not {Payload.TOTAL, Payload.POSITION}.intersection(kept) or not query.free:
        return [OrderStatistics.NONE]
    if plan.filters or query.limit is not None or query.offset:
        return [OrderStatistics.NONE]
    drops_counts = query.form is Form.ASK or query.duplicates is Duplicates.DISTINCT
    is_simple = mode is Mode.RDF and not query.values and set(query.variables) <= set(query.free)
    if Payload.TOTAL in kept and not drops_counts and not is_simple:
        return [OrderStatistics.ROWS, OrderStatistics.ANSWERS, OrderStatistics.NONE]
    return [OrderStatistics.ANSWERS, OrderStatistics.NONE]


def preferred_columns(plan: Plan) -> dict[Alias, int]:
    """For each atom, the column of the first pair index of its label that the plan reads."""
    columns: dict[str, int] = {}
    for node in plan.nodes:
        if isinstance(node.guard, Join):
            for wanted in node.guard.inputs:
                guard = plan.nodes[wanted.node].guard
                if isinstance(guard, Alias) and len(wanted.variables) == 1:
                    is_object = guard.atom.subject != wanted.variables[0]
                    columns.setdefault(guard.relation or "", int(is_object))
        if not isinstance(node.guard, Alias) or len(node.bag) != 2:
            continue
        above = node.interface[0] if node.interface else node.bag[0]
        other = next(v for v in node.bag if v != above)
        atom, label = node.guard.atom, node.guard.relation or ""
        if any(plan.nodes[c].interface == (other,) for c in node.children):
            columns.setdefault(label, 0 if atom.subject == other else 1)
        elif node.role is Role.WITNESS:
            columns.setdefault(label, 0 if atom.subject == above else 1)
    aliases = [node.guard for node in plan.nodes if isinstance(node.guard, Alias)]
    return {alias: columns.get(alias.relation or "", 0) for alias in aliases}
