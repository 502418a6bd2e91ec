"""A query evaluated from scratch by Spark SQL over a log of events, at given times.

This is an independent evaluation: it shares the parsed query with the engine, and nothing else.
Every triple pattern selects live assertions; patterns are joined, weights multiplied and summed by
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa

from triegs.errors import InputError, UnsupportedQuery, WindowError
from triegs.events.times import GOOD, explain_time, read_time
from triegs.mode import Mode
from triegs.spark.lifetimes import BORN, DIED, TERMS, Log, find_lifetimes, read_log
from triegs.sparql import parse
from triegs.sparql.model import (
    Atom,
    Call,
    Duplicates,
    Expression,
    Form,
    Query,
    Values,
    is_variable,
)
from triegs.sparql.window import Window

TIME, MULTIPLICITY = "time", "multiplicity"
#: Prefixed, so that they cannot clash with the columns of others.
AT, WEIGHT = "triegs_at", "triegs_weight"
TOO_LARGE = "a multiplicity does not fit in 64 bits"


def recompute(
    query: Query | str,
    events_df: Any,
    times: Iterable[int | datetime] | None = None,
    *,
    mode: str = "multigraph",
    window: Window | None = None,
    columns: Mapping[str, str] | None = None,
    prefixes: Mapping[str, str] | None = None,
) -> Any:
    """The answers of a query at each time: ``time``, the projected variables, ``multiplicity``.

    `events_df` is a log with the columns ``time``, ``subject``, ``predicate``, ``object``, of the
    types that `triegs.spark.start` takes, and optionally ``op``, ``id`` and ``order``; `columns`
    maps these names to its own. ``order`` breaks ties of time; without it, the order of the
    DataFrame does. The log is complete, so no event is late. `times` are in milliseconds, and ends
    of slides with a window; by default, the first time at which the whole log is in.

    Lazy. Cost: the joins at each of the times, and for deletions see `triegs.spark.lifetimes`.
    Cache a log that several results read. A multiplicity beyond 64 bits, a row without a term or a
    time, and an invalid term, time or sign fail the job that reads them.

    Raises `UnsupportedQuery` for aggregates, ORDER BY, LIMIT, OFFSET, windows in the text, and
    filters other than ``=``, ``!=``, IN and NOT IN with IRIs, sameTerm, isIRI, isBlank and
    isLiteral, combined with ``&&``, ``||`` and ``!``.
    """
    parsed = parse(query, prefixes) if isinstance(query, str) else query
    _refuse(parsed)
    weights = Mode(mode)
    log = read_log(events_df, columns, window)
    moments = _find_moments(log, times, window)
    base = _weigh(find_lifetimes(log, window), moments, window, weights)
    return _finish(_join(parsed, base, moments), parsed)


def _refuse(query: Query) -> None:
    if query.grouping is not None:
        raise _make_refusal("aggregates and GROUP BY", "GROUP BY", "group the result with Spark")
    if query.order:
        raise _make_refusal("ORDER BY", "ORDER BY", "sort the result with Spark")
    if query.limit is not None or query.offset:
        raise _make_refusal("LIMIT and OFFSET", "LIMIT", "limit the result with Spark")
    if query.reads_times:
        raise _make_refusal("triegs:time", "annotation", "join the log in Spark")
    if query.windows or query.output is not None or any(query.graphs):
        raise _make_refusal("a window in the text", "window", "give it as window=triegs.Window(…)")
    for name in (TIME, MULTIPLICITY):
        if f"?{name}" in query.head:
            raise _make_refusal(
                f"the variable ?{name}", name, "this column name is reserved; rename the variable"
            )


def _make_refusal(what: str, construct: str, hint: str) -> UnsupportedQuery:
    message = f"recompute does not support {what}"
    return UnsupportedQuery(message, line=1, column=1, construct=construct, hint=hint)


def _find_moments(log: Log, times: Iterable[int | datetime] | None, window: Window | None) -> Any:
    """A DataFrame of the times."""
    from pyspark.sql import functions

    if times is None:
        return log.frame.agg(functions.max("slide").alias(AT)).where(f"{AT} IS NOT NULL")
    found = sorted({_read_moment(time, window) for time in times})
    return _make_frame(log.frame.sparkSession, {AT: (found, pa.int64())})


def _read_moment(given: int | datetime, window: Window | None) -> int:
    time, state = read_time(given)
    if state != GOOD:
        raise InputError(f"a time of the log: {explain_time(given, state)}")
    if window is not None and window.last_slide(time) != time:
        near = window.last_slide(time)
        raise WindowError(f"no slide ends at {time}; the previous one ends at {near}")
    return time


def _weigh(lives: Any, moments: Any, window: Window | None, mode: Mode) -> Any:
    """The assertions that are live at each time, with their weights."""
    from pyspark.sql import functions

    born, at = functions.col(BORN), functions.col(AT)
    shift = 0 if window is None else window.shift
    is_live = (born <= at - shift) & (functions.col(DIED).isNull() | (functions.col(DIED) > at))
    if window is not None and window.width is not None:
        is_live &= born > at - (shift + window.width)
    found = lives.join(functions.broadcast(moments), is_live)
    count = functions.count(functions.lit(1)) if mode is Mode.MULTIGRAPH else functions.lit(1)
    return found.groupBy(AT, *TERMS).agg(count.cast("bigint").alias(WEIGHT))


def _join(query: Query, base: Any, moments: Any) -> Any:
    """The valuations at each time, with a weight column for each atom and VALUES block."""
    names = {variable: f"triegs_{index}" for index, variable in enumerate(query.variables)}
    both: tuple[Atom | Values, ...] = (*query.atoms, *query.values)
    remaining = [(factor, index) for index, factor in enumerate(both)]
    found = moments
    known: set[str] = set()
    has_atom = False
    while remaining:
        # Join the factor that shares the most variables next; a product only if none shares any.
        chosen = max(
            remaining, key=lambda factor: (len(known & set(factor[0].variables)), -factor[1])
        )
        remaining.remove(chosen)
        factor, index = chosen
        weight = f"{WEIGHT}_{index}"
        shared = [names[v] for v in factor.variables if v in known]
        if isinstance(factor, Atom):
            rows = _select(factor, base, names, weight)
            found = found.join(rows, [AT, *shared]) if has_atom else rows
            has_atom = True
        else:
            rows = _make_rows(factor, moments.sparkSession, names, weight)
            found = found.join(rows, shared) if shared else found.crossJoin(rows)
        known |= set(factor.variables)
    for expression in query.filters:
        found = found.where(_translate(expression, names))
    return _multiply(found, query, names)


def _select(atom: Atom, base: Any, names: Mapping[str, str], weight: str) -> Any:
    from pyspark.sql import functions

    columns: dict[str, Any] = {}
    rows = base
    for term, name in zip(atom, TERMS, strict=True):
        column = functions.col(name)
        if not is_variable(term):
            rows = rows.where(column == functions.lit(term))
        elif names[term] in columns:
            rows = rows.where(column == columns[names[term]])
        else:
            columns[names[term]] = column
    picked = [column.alias(name) for name, column in columns.items()]
    return rows.select(AT, *picked, functions.col(WEIGHT).alias(weight))


def _make_rows(block: Values, session: Any, names: Mapping[str, str], weight: str) -> Any:
    counts: dict[tuple[str, ...], int] = {}
    for row in block.rows:
        counts[row] = counts.get(row, 0) + 1
    columns: dict[str, tuple[list[Any], Any]] = {
        names[variable]: ([row[index] for row in counts], pa.string())
        for index, variable in enumerate(block.variables)
    }
    return _make_frame(session, {**columns, weight: (list(counts.values()), pa.int64())})


def _make_frame(session: Any, columns: Mapping[str, tuple[list[Any], Any]]) -> Any:
    """A small DataFrame that is part of Spark's plan; Python rows would start a worker."""
    arrays = {name: pa.array(values, kind) for name, (values, kind) in columns.items()}
    return session.createDataFrame(pa.table(arrays))


def _multiply(found: Any, query: Query, names: Mapping[str, str]) -> Any:
    """The weight of each valuation that passed the filters: others may overflow without harm."""
    from pyspark.sql import functions

    count = len(query.atoms) + len(query.values)
    weights = [functions.col(f"{WEIGHT}_{index}") for index in range(count)]
    product = reduce(functions.try_multiply, weights, functions.lit(1).cast("bigint"))
    exact = functions.coalesce(product, functions.raise_error(TOO_LARGE))
    picked = [functions.col(names[variable]) for variable in query.free]
    return found.select(AT, *picked, exact.alias(WEIGHT))


def _finish(found: Any, query: Query) -> Any:
    """Sum by answer, and name columns as in the text."""
    from pyspark.sql import functions

    names = {variable: f"triegs_{index}" for index, variable in enumerate(query.variables)}
    keys = [names[variable] for variable in query.free]
    total = functions.try_sum(WEIGHT)
    if query.form is Form.ASK or query.duplicates is Duplicates.DISTINCT:
        total = functions.lit(1).cast("bigint")
    exact = functions.coalesce(total, functions.raise_error(TOO_LARGE))
    sums = found.groupBy(AT, *keys).agg(exact.alias(MULTIPLICITY))
    unbound = functions.lit(None).cast("string")
    head = [
        (functions.col(names[variable]) if variable in query.free else unbound).alias(variable[1:])
        for variable in query.head
    ]
    return sums.select(functions.col(AT).alias(TIME), *head, MULTIPLICITY)


# Filters. SPARQL errors would need nulls in Spark; the supported filters have neither.

_FIRST = {"ISIRI": "<", "ISBLANK": "_", "ISLITERAL": '"'}


def _translate(expression: Expression, names: Mapping[str, str]) -> Any:
    from pyspark.sql import functions

    if not isinstance(expression, Call):
        raise _refuse_filter("a term as a condition")
    operator, arguments = expression.operator, expression.arguments
    if operator in ("&&", "||"):
        operands = [_translate(argument, names) for argument in arguments]
        return reduce(lambda a, b: a & b if operator == "&&" else a | b, operands)
    if operator == "!":
        return ~_translate(arguments[0], names)
    terms = [_pick(argument, names, operator) for argument in arguments]
    if operator in _FIRST:
        return terms[0].startswith(_FIRST[operator])
    if operator == "SAMETERM":
        return terms[0] == terms[1]
    if operator in ("=", "!=", "IN", "NOT IN"):
        # Literals compare by value, not as terms; an IRI equals only itself.
        sides = arguments[1:] if "IN" in operator else arguments
        is_iri = [isinstance(each, str) and each.startswith("<") for each in sides]
        if not (all(is_iri) if "IN" in operator else any(is_iri)):
            raise _refuse_filter(f"{operator} on possible literals")
        is_equal = [terms[0] == other for other in terms[1:]]
        found = reduce(lambda a, b: a | b, is_equal, functions.lit(False))
        return found if operator in ("=", "IN") else ~found
    raise _refuse_filter(operator)


def _pick(expression: Expression, names: Mapping[str, str], operator: str) -> Any:
    from pyspark.sql import functions

    if not isinstance(expression, str) or (is_variable(expression) and expression not in names):
        raise _refuse_filter(f"{operator} on an expression")
    return (
        functions.col(names[expression]) if is_variable(expression) else functions.lit(expression)
    )


def _refuse_filter(what: str) -> UnsupportedQuery:
    hint = "=, !=, IN and NOT IN with IRIs, sameTerm, isIRI, isBlank, isLiteral, &&, || and !"
    return _make_refusal(f"FILTER with {what}", "FILTER", f"supported are {hint}")
