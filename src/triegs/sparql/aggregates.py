"""Aggregates and grouping over answers with multiplicities, which are never expanded.

Sums are exact (fractions) and rounded once at the end, so results do not depend on the order of the
answers, not even for floating-point numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from triegs.sparql.expressions import UNBOUND, evaluate, holds
from triegs.sparql.model import Aggregate, Call, Duplicates, Expression, Grouping, Query
from triegs.sparql.term_order import total_key
from triegs.sparql.values import (
    ExpressionError,
    Number,
    Rank,
    divide,
    exact_decimal,
    number_term,
    round_fraction,
    value_of,
)

#: Terms with multiplicities; None is a row whose argument was an error or unbound.
Weighted = list[tuple[str | None, int]]
Answers = Mapping[tuple[str, ...], int]


def aggregate(
    function: str, values: Iterable[tuple[str | None, int]], duplicates: Duplicates
) -> str:
    """One aggregate over (term, multiplicity) pairs; ExpressionError if it has no value.

    COUNT skips errors; for the others one error makes the result an error.

    >>> five = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> aggregate("SUM", [(five, 3), (five, 1)], Duplicates.KEEP)
    '"20"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> aggregate("SUM", [(five, 3), (five, 1)], Duplicates.DISTINCT)
    '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    pairs = list(values)
    if duplicates is Duplicates.DISTINCT:
        pairs = [(term, 1) for term in dict.fromkeys(term for term, _ in pairs)]
    return _FUNCTIONS[function](pairs)


def _count(pairs: Weighted) -> str:
    return number_term(Number(Rank.INTEGER, sum(n for term, n in pairs if term is not None)))


def _sum(pairs: Weighted) -> str:
    return number_term(_total(pairs))


def _average(pairs: Weighted) -> str:
    count = sum(n for _, n in pairs)
    if count == 0:
        return number_term(Number(Rank.INTEGER, 0))
    return number_term(_total(pairs, count))


def _total(pairs: Weighted, divisor: int = 0) -> Number:
    """The sum of numbers times multiplicities, divided by the divisor if given."""
    rank = Rank.INTEGER
    exact = Fraction(0)
    unbounded = 0.0
    for term, multiplicity in pairs:
        number = value_of(term) if term is not None else None
        if not isinstance(number, Number):
            raise ExpressionError("not a number")
        rank = max(rank, number.rank)
        if isinstance(number.amount, float) and not math.isfinite(number.amount):
            unbounded += number.amount
        else:
            exact += Fraction(number.amount) * multiplicity
    return finish_sum(rank, exact, unbounded, divisor)


def finish_sum(rank: Rank, exact: Fraction, unbounded: float, divisor: int = 0) -> Number:
    """A sum of numbers whose highest rank is given, divided by the divisor if there is one: the
    exact sum of the finite ones, unless there are infinities or NaN, whose sum is `unbounded`.

    >>> finish_sum(Rank.DECIMAL, Fraction(7, 2), 0.0)
    Number(rank=<Rank.DECIMAL: 1>, amount=Decimal('3.5'))
    """
    if unbounded != 0:  # also true of NaN
        return Number(rank, unbounded)
    if divisor:
        rank = max(rank, Rank.DECIMAL)
    if rank is Rank.INTEGER:
        return Number(rank, int(exact))
    if rank is Rank.DECIMAL:
        return Number(rank, divide(exact, Fraction(divisor)) if divisor else exact_decimal(exact))
    return Number(rank, round_fraction(exact / divisor if divisor else exact, rank))


def _extreme(choose: Callable[..., str]) -> Callable[[Weighted], str]:
    """MIN or MAX, from the builtin of that name."""

    def function(pairs: Weighted) -> str:
        terms = [term for term, _ in pairs if term is not None]
        if len(terms) < len(pairs):
            raise ExpressionError("MIN and MAX need a value in every row")
        if not terms:
            raise ExpressionError("MIN and MAX of nothing")
        return choose(terms, key=total_key)

    return function


def _sample(pairs: Weighted) -> str:
    """The least value, so that the result does not depend on the order of the rows."""
    terms = [term for term, _ in pairs if term is not None]
    if not terms:
        raise ExpressionError("SAMPLE of nothing")
    return min(terms, key=total_key)


_FUNCTIONS: dict[str, Callable[[Weighted], str]] = {
    "COUNT": _count,
    "SUM": _sum,
    "AVG": _average,
    "MIN": _extreme(min),
    "MAX": _extreme(max),
    "SAMPLE": _sample,
}


# Grouping

Group = list[tuple[dict[str, str], int]]


def group(query: Query, answers: Answers) -> dict[tuple[str | None, ...], int]:
    """The output rows of a grouped query, over ``query.head`` and ``query.hidden``, with their
    multiplicities.

    ``answers`` are over ``query.free`` with their multiplicities. Without keys there is one group,
    even if there are no answers. The caller applies DISTINCT, ORDER BY, LIMIT and OFFSET.

    >>> from triegs.sparql import parse
    >>> query = parse("SELECT (COUNT(*) AS ?n) { ?x ?p ?y }")
    >>> group(query, {(): 7})
    {('"7"^^<http://www.w3.org/2001/XMLSchema#integer>',): 1}
    """
    grouping = query.grouping
    if grouping is None:
        raise ValueError("the query has no grouping")
    rows: dict[tuple[str | None, ...], int] = {}
    for keys, members in _groups(grouping, query.free, answers).items():
        named = {
            column.name: key
            for column, key in zip(grouping.keys, keys, strict=True)
            if key is not None
        }
        if all(holds(_settle(each, members), named) for each in grouping.having):
            row = tuple(
                _value(_settle(column.expression, members), named) for column in grouping.columns
            )
            rows[row] = rows.get(row, 0) + 1
    return rows


def _groups(
    grouping: Grouping, free: tuple[str, ...], answers: Answers
) -> dict[tuple[str | None, ...], Group]:
    groups: dict[tuple[str | None, ...], Group] = {} if grouping.keys else {(): []}
    for answer, multiplicity in answers.items():
        binding = dict(zip(free, answer, strict=True))
        keys = tuple(_value(column.expression, binding) for column in grouping.keys)
        groups.setdefault(keys, []).append((binding, multiplicity))
    return groups


def _value(expression: Expression, binding: Mapping[str, str]) -> str | None:
    try:
        return evaluate(expression, binding)
    except ExpressionError:
        return None


def _settle(expression: Expression, members: Group) -> Expression:
    """The expression with every aggregate replaced by its value over the group."""
    if isinstance(expression, Aggregate):
        argument = expression.argument
        try:
            if argument is None:
                return number_term(Number(Rank.INTEGER, sum(n for _, n in members)))
            values = ((_value(argument, binding), n) for binding, n in members)
            return aggregate(expression.function, values, expression.duplicates)
        except ExpressionError:
            return UNBOUND
    if isinstance(expression, Call):
        return Call(expression.operator, tuple(_settle(a, members) for a in expression.arguments))
    return expression
