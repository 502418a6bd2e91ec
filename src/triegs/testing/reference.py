"""The reference executor: a plan interpreted over plain dictionaries, from scratch.

It is the executable definition of the nodes of a plan, written for clarity: every call evaluates
every node over the whole graph, in O(size of all views). The incremental engine must hold exactly
these values after every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from triegs.compiler import Plan, compile_query
from triegs.compiler.plan import Alias, Guard, Join, Node, Role, Static, Use
from triegs.errors import UnsupportedQuery
from triegs.mode import Mode
from triegs.sparql import parse
from triegs.sparql.aggregates import group
from triegs.sparql.expressions import evaluate as evaluate_expression
from triegs.sparql.expressions import holds
from triegs.sparql.model import (
    Atom,
    Direction,
    Duplicates,
    Expression,
    Form,
    Query,
    is_variable,
)
from triegs.sparql.term_order import Key, order_key, total_key
from triegs.sparql.values import ExpressionError

Row = tuple[str, ...]
Counts = dict[Row, int]
#: ``("+", s, p, o)`` adds one event, ``("-", s, p, o)`` removes one.
Update = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one epoch; `refused` holds (index in the batch, update, reason)."""

    epoch: int
    refused: tuple[tuple[int, Update, str], ...]


class Reference:
    """A graph under updates with one query over it, recomputed at every read.

    >>> ex = Reference("SELECT ?x WHERE { ?x <http://ex/knows> ?y }")
    >>> report = ex.apply([("+", "<a>", "<http://ex/knows>", "<b>"),
    ...                    ("+", "<a>", "<http://ex/knows>", "<c>"),
    ...                    ("-", "<z>", "<http://ex/knows>", "<c>")])
    >>> ex.answers()
    {('<a>',): 2}
    >>> report.epoch, [reason for _, _, reason in report.refused]
    (1, ['no live event states this'])
    """

    def __init__(self, query: Plan | Query | str, mode: str = "multigraph") -> None:
        plan = _plan_of(query)
        self.query = plan.query
        #: The answers that a grouped query aggregates are those of a query without groups.
        self.plan = plan if plan.groups is None else compile_query(ungroup(plan.query))
        self.mode = Mode(mode)
        self.counts: dict[Atom, int] = {}
        self.epoch = 0

    def apply(self, updates: Iterable[Update]) -> Report:
        """Apply one epoch, update by update; a deletion without a live event is refused."""
        refused: list[tuple[int, Update, str]] = []
        for index, update in enumerate(updates):
            sign, *terms = update
            if sign not in ("+", "-"):
                raise ValueError(f"update {index}: the sign must be '+' or '-', not {sign!r}")
            triple = Atom(*terms)
            count = self.counts.get(triple, 0) + (1 if sign == "+" else -1)
            if count < 0:
                refused.append((index, update, "no live event states this"))
            elif count == 0:
                del self.counts[triple]
            else:
                self.counts[triple] = count
        self.epoch += 1
        return Report(self.epoch, tuple(refused))

    def state(self) -> State:
        """Every node's view and marginal over the current graph."""
        return evaluate(self.plan, self._weights())

    def answers(self) -> dict[tuple[str | None, ...], int]:
        """The result over the query's columns, as `solutions` defines it."""
        return finish(self.query, self.state().answers())

    def _weights(self) -> dict[Atom, int]:
        return {triple: self.mode.weight(count) for triple, count in self.counts.items()}


def ungroup(query: Query) -> Query:
    """The query of the answers that a grouped query aggregates, over `Query.free`."""
    return replace(
        query,
        head=query.free,
        grouping=None,
        duplicates=Duplicates.KEEP,
        limit=None,
        offset=0,
        order=(),
    )


def solutions(
    query: Plan | Query | str, graph: Iterable[tuple[str, str, str]], mode: str = "rdf"
) -> dict[tuple[str | None, ...], int]:
    """Answer a query over a finished list of triples: output row → multiplicity.

    Grouping, DISTINCT, OFFSET and LIMIT are applied, and rows are in the order of ORDER BY. ASK
    gives ``{(): 1}`` or ``{}``. None is an unbound column.

    >>> solutions("ASK { ?x <p> ?x }", [("<a>", "<p>", "<a>")])
    {(): 1}
    """
    reference = Reference(query, mode)
    reference.apply(("+", s, p, o) for s, p, o in graph)
    return reference.answers()


def finish(query: Query, answers: Counts) -> dict[tuple[str | None, ...], int]:
    """From counted tuples over `query.free` to the output rows of the query."""
    rows: dict[tuple[str | None, ...], int]
    if query.grouping is not None:
        rows = group(query, answers)
    else:
        column = {name: i for i, name in enumerate(query.free)}
        picks = [column.get(name) for name in query.head]
        rows = {
            tuple(None if i is None else row[i] for i in picks): n for row, n in answers.items()
        }
    if query.form is Form.ASK or query.duplicates is Duplicates.DISTINCT:
        rows = dict.fromkeys(rows, 1)
    if query.order:
        rows = {row: rows[row] for row in sort_rows(query, rows)}
    if query.hidden:
        rows = {row[: len(query.head)]: count for row, count in rows.items()}
    return dict(_cut(rows, query.offset, query.limit))


def sort_rows(query: Query, rows: Iterable[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
    """Rows over the head and the hidden columns, by ORDER BY, and in ties by all columns."""
    names = (*query.head, *query.hidden)
    found = sorted(rows, key=lambda row: tuple(map(total_key, row[: len(query.head)])))
    for key in reversed(query.order):

        def find(row: tuple[str | None, ...], expression: Expression = key.expression) -> Key:
            named = zip(names, row, strict=True)
            return order_key(value(expression, {n: term for n, term in named if term is not None}))

        # A reversed sort is stable, too.
        found.sort(key=find, reverse=key.direction is Direction.DESCENDING)
    return found


def value(expression: Expression, binding: Mapping[str, str]) -> str | None:
    """The value of an expression; None for an error."""
    try:
        return evaluate_expression(expression, binding)
    except ExpressionError:
        return None


def _cut(
    rows: Mapping[tuple[str | None, ...], int], offset: int, limit: int | None
) -> Iterator[tuple[tuple[str | None, ...], int]]:
    """OFFSET and LIMIT count expanded rows, so they may split a multiplicity."""
    end = None if limit is None else offset + limit
    start = 0
    for row, count in rows.items():
        stop = start + count
        shown = (stop if end is None else min(stop, end)) - max(start, offset)
        if shown > 0:
            yield row, shown
        start = stop


@dataclass(frozen=True, slots=True)
class State:
    """The values of a plan on one graph, by node: guard, view and marginal."""

    plan: Plan
    guards: list[Counts]
    views: list[Counts]
    marginals: list[Counts]

    def answers(self) -> Counts:
        """Every head tuple with positive multiplicity, once, by enumerating the witness nodes."""
        plan = self.plan
        if plan.nodes[plan.root].role is Role.EXISTENTIAL:
            total = self.marginals[plan.root].get((), 0)
            return {(): total} if total else {}
        partial: list[tuple[dict[str, str], int]] = [({}, 1)]
        for number in plan.order:
            node, live = plan.nodes[number], self._live_by_interface(number)
            partial = [
                (binding | dict(zip(node.bag, row, strict=True)),
                 weight * self.local_weight(number, row))
                for binding, weight in partial
                for row in live.get(_restrict(binding, node), ())
            ]  # fmt: skip
        found: Counts = {}
        for binding, weight in partial:
            row = tuple(binding[v] for v in plan.query.free)
            if row in found:
                raise AssertionError(f"{row} is enumerated twice: the plan is wrong")
            if all(holds(e, binding) for e in plan.filters):
                found[row] = weight
        return found

    def local_weight(self, number: int, row: Row) -> int:
        """The factor of a witness tuple: its guard's value times the existential marginals."""
        node = self.plan.nodes[number]
        weight = 1 if node.guard is None else self.guards[number][row]
        binding = dict(zip(node.bag, row, strict=True))
        for child in node.children:
            if self.plan.nodes[child].role is Role.EXISTENTIAL:
                weight *= self.marginals[child][_restrict(binding, self.plan.nodes[child])]
        return weight

    def _live_by_interface(self, number: int) -> dict[Row, list[Row]]:
        node = self.plan.nodes[number]
        found: dict[Row, list[Row]] = {}
        for row in self.views[number]:
            binding = dict(zip(node.bag, row, strict=True))
            found.setdefault(_restrict(binding, node), []).append(row)
        return found


def evaluate(plan: Plan, weights: Mapping[Atom, int]) -> State:
    """Evaluate every node, children first, over base weights per triple."""
    state = State(plan, [], [], [])
    for node in plan.nodes:
        guard = {} if node.guard is None else _guard_rows(node.guard, node, weights, state)
        view = _view_rows(node, guard, state)
        marginal: Counts = {}
        for row, count in view.items():
            key = _restrict(dict(zip(node.bag, row, strict=True)), node)
            marginal[key] = marginal.get(key, 0) + count
        state.guards.append(guard)
        state.views.append(view)
        state.marginals.append(marginal)
    return state


def _view_rows(node: Node, guard: Counts, state: State) -> Counts:
    """``V(a) = G(a) * product of P_c(a restricted to I_c)``, without zeros."""
    nodes = state.plan.nodes
    if node.guard is not None:
        candidates: Iterable[Row] = guard
    elif node.children:
        whole = next(c for c in node.children if set(nodes[c].interface) == set(node.bag))
        order = [nodes[whole].interface.index(v) for v in node.bag]
        candidates = [tuple(row[i] for i in order) for row in state.marginals[whole]]
    else:
        candidates = [()]
    view: Counts = {}
    for row in candidates:
        binding = dict(zip(node.bag, row, strict=True))
        factors = [state.marginals[c].get(_restrict(binding, nodes[c]), 0) for c in node.children]
        count = guard.get(row, 1) * prod(factors)
        if count:
            view[row] = count
    return view


def _guard_rows(guard: Guard, node: Node, weights: Mapping[Atom, int], state: State) -> Counts:
    rows: Counts = {}
    for binding, count in _guard_bindings(guard, weights, state):
        if all(holds(e, binding) for e in guard.filters):
            row = tuple(binding[v] for v in node.bag)
            rows[row] = rows.get(row, 0) + count
    return rows


def _guard_bindings(
    guard: Guard, weights: Mapping[Atom, int], state: State
) -> Iterator[tuple[dict[str, str], int]]:
    if isinstance(guard, Alias):
        for triple, weight in weights.items():
            binding = _match(guard.atom, triple)
            if binding is not None:
                yield binding, weight
    elif isinstance(guard, Static):
        for row in guard.values.rows:
            yield dict(zip(guard.variables, row, strict=True)), 1
    elif isinstance(guard, Join):
        yield from _join_bindings(guard, state)


def _match(atom: Atom, triple: Atom) -> dict[str, str] | None:
    binding: dict[str, str] = {}
    for term, value in zip(atom, triple, strict=True):
        if (binding.setdefault(term, value) if is_variable(term) else term) != value:
            return None
    return binding


def _join_bindings(join: Join, state: State) -> Iterator[tuple[dict[str, str], int]]:
    """Join input by input, each looked up by the variables bound so far."""
    partial: list[tuple[dict[str, str], int]] = [({}, 1)]
    for source in join.inputs:
        node = state.plan.nodes[source.node]
        picks = [node.interface.index(v) for v in source.variables]
        rows: Counts = {}
        for row, count in state.marginals[source.node].items():
            key = tuple(row[i] for i in picks)
            rows[key] = 1 if source.use is Use.SUPPORT else count
        known = [v for v in source.variables if partial and v in partial[0][0]]
        lookup: dict[Row, list[tuple[Row, int]]] = {}
        for row, count in rows.items():
            value = dict(zip(source.variables, row, strict=True))
            lookup.setdefault(tuple(value[v] for v in known), []).append((row, count))
        partial = [
            (binding | dict(zip(source.variables, row, strict=True)), weight * count)
            for binding, weight in partial
            for row, count in lookup.get(tuple(binding[v] for v in known), ())
        ]
    yield from partial


def _restrict(binding: Mapping[str, str], node: Node) -> Row:
    return tuple(binding[v] for v in node.interface)


def _plan_of(query: Plan | Query | str) -> Plan:
    if isinstance(query, Plan):
        plan = query
    else:
        plan = compile_query(parse(query) if isinstance(query, str) else query)
    if plan.query.windows:
        raise UnsupportedQuery(
            "the reference executor does not support windows",
            line=1, column=1, construct="window", hint="use triegs.Engine",
        )  # fmt: skip
    return plan
