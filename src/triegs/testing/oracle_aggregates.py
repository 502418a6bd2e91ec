"""Aggregates of the oracle, over all solutions of a group."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import rdflib

from triegs.testing import oracle_values as values
from triegs.testing.oracle_terms import number, order_key, spell, value_of

Binding = dict[Any, Any]
Members = list[tuple[Binding, int]]
#: The value of an expression under a binding, None for an error.
Evaluate = Callable[[Any, Binding], Any]


def aggregate_value(aggregate: Any, members: Members, evaluate: Evaluate) -> Any:
    """An aggregate over the solutions of a group with their weights; None if it has no value."""
    if aggregate.vars == "*":
        if not aggregate.distinct:
            return number(values.Number(0, Fraction(sum(n for _, n in members))))
        shown = {
            frozenset((v, spell(t)) for v, t in binding.items() if isinstance(v, rdflib.Variable))
            for binding, _ in members
        }
        return rdflib.Literal(len(shown))
    pairs = [(evaluate(aggregate.vars, binding), weight) for binding, weight in members]
    if aggregate.distinct:
        chosen = {None if found is None else spell(found): found for found, _ in pairs}
        pairs = [(found, 1) for found in chosen.values()]
    try:
        return AGGREGATES[aggregate.name](pairs)
    except values.EvaluationError:
        return None


Pairs = list[tuple[Any, int]]


def count(pairs: Pairs) -> Any:
    """Errors are not counted."""
    total = sum(weight for found, weight in pairs if found is not None)
    return number(values.Number(0, Fraction(total)))


def add_up(pairs: Pairs) -> Any:
    return number(values.add_up(*split(pairs)))


def average(pairs: Pairs) -> Any:
    return number(values.average(*split(pairs)))


def split(pairs: Pairs) -> tuple[list[values.Value | None], list[int]]:
    return [value_of(found) for found, _ in pairs], [weight for _, weight in pairs]


def least(pairs: Pairs) -> Any:
    return sort(pairs)[0]


def greatest(pairs: Pairs) -> Any:
    return sort(pairs)[-1]


def sample(pairs: Pairs) -> Any:
    """The least value that is no error, so that the choice does not depend on the order."""
    return sort([pair for pair in pairs if pair[0] is not None])[0]


def sort(pairs: Pairs) -> list[Any]:
    if not pairs or any(found is None for found, _ in pairs):
        raise values.EvaluationError("an error, or no value at all")
    return sorted((found for found, _ in pairs), key=lambda found: (order_key(found), spell(found)))


AGGREGATES = {
    "Aggregate_Count": count,
    "Aggregate_Sum": add_up,
    "Aggregate_Avg": average,
    "Aggregate_Min": least,
    "Aggregate_Max": greatest,
    "Aggregate_Sample": sample,
}
