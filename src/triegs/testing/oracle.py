"""The oracle: correct answers, computed from scratch by the definitions.

It imports nothing of what it tests. It parses queries with rdflib, finds answers by nested loops
over a plain dict of assertion counts, and has no plans, indexes or differences. It is slow, and
short enough to verify by reading.

>>> updates = [("+", "<a>", "<p>", "<b>"), ("+", "<a>", "<p>", "<b>"), ("+", "<a>", "<p>", "<c>")]
>>> answers("SELECT ?x { ?x <p> ?y }", updates)
{('<a>',): 3}
>>> answers("SELECT ?x { ?x <p> ?y }", updates, mode="rdf")
{('<a>',): 2}

A term is a string in N-Triples form, an update is ``(sign, subject, predicate, object)``, and an
answer maps an output row to its multiplicity. An unbound column is None.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MethodType
from typing import Any, NamedTuple

import rdflib
from rdflib.paths import InvPath, SequencePath
from rdflib.plugins.sparql.algebra import translateQuery, traverse
from rdflib.plugins.sparql.evalutils import _eval
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.parserutils import value as rdflib_value
from rdflib.plugins.sparql.sparql import FrozenBindings, QueryContext, SPARQLError

from triegs.testing import oracle_values as values
from triegs.testing.oracle_order import order_key
from triegs.testing.oracle_regex import BadPattern, matches

Triple = tuple[str, str, str]
Row = tuple[str | None, ...]
Answers = dict[Row, int]
Binding = dict[Any, Any]
Members = list[tuple[Binding, int]]


# --- Updates: from a list of events to the counts of assertions -------------------------------


def count_assertions(
    updates: Iterable[Sequence[str]], strict: bool = False
) -> tuple[Counter[Triple], list[int]]:
    """Apply one batch in order; returns the counts after it, and the refused updates by index.

    A deletion that would make a count negative is refused. In strict mode the whole batch is then
    refused, and nothing changes.

    >>> count_assertions([("-", "<a>", "<p>", "<b>"), ("+", "<a>", "<p>", "<b>")])
    (Counter({('<a>', '<p>', '<b>'): 1}), [0])
    """
    counts: Counter[Triple] = Counter()
    refused = apply_batch(counts, updates, strict)
    return counts, refused


def apply_batch(
    counts: Counter[Triple], updates: Iterable[Sequence[str]], strict: bool = False
) -> list[int]:
    """Apply one batch to `counts`; returns the indexes of refused updates."""
    before, refused = counts.copy(), []
    for index, (sign, subject, predicate, obj) in enumerate(updates):
        triple = (subject, predicate, obj)
        if sign == "+":
            counts[triple] += 1
        elif counts[triple] > 0:
            counts[triple] -= 1
        else:
            refused.append(index)
    if strict and refused:
        counts.clear()
        counts.update(before)
    for triple in [t for t, n in counts.items() if n == 0]:
        del counts[triple]
    return refused


def answers(
    query: str | Question,
    updates: Iterable[Sequence[str]] | Mapping[Triple, int],
    mode: str = "multigraph",
    strict: bool = False,
) -> Answers:
    """Answer a query over a batch of updates, or over counts per assertion."""
    question = read_query(query) if isinstance(query, str) else query
    counts = updates if isinstance(updates, Mapping) else count_assertions(updates, strict)[0]
    if mode not in ("multigraph", "rdf"):
        raise ValueError(f"unknown mode: {mode!r}")
    return question.answer({t: n if mode == "multigraph" else 1 for t, n in counts.items()})


# --- Windows: from timed events to the updates that are live at a time ------------------------


class Event(NamedTuple):
    """One event of a stream, with an optional id."""

    time: int
    sign: str
    subject: str
    predicate: str
    object: str
    id: str | None = None


class Moment(NamedTuple):
    """One published time: the live assertions, and the events refused since the last one."""

    time: int
    counts: Counter[Triple]
    refused: list[Event]


def split_late(
    batches: Iterable[Sequence[Event]], lateness: int = 0
) -> tuple[list[Event], list[Event]]:
    """Split events into those in time and late ones. After every batch the watermark moves to the
    largest time so far minus the allowed lateness; an event at or before the watermark is late.
    """
    watermark: int | None = None
    in_time: list[Event] = []
    late: list[Event] = []
    for batch in batches:
        for event in batch:
            is_late = watermark is not None and event.time <= watermark
            (late if is_late else in_time).append(event)
        if batch:
            seen = max(event.time for event in batch) - lateness
            watermark = seen if watermark is None else max(watermark, seen)
    return in_time, late


def windowed(
    events: Sequence[Event],
    width: int | None,
    slide: int,
    start: int = 0,
    until: int | None = None,
    closed: str = "end",
) -> Iterator[Moment]:
    """The moments of a sliding window over events in order of arrival.

    At ``start + k * slide`` the window holds the events of ``(t - width, t]``, or of
    ``[t - width, t)`` with ``closed="start"``. Width None never expires; ``[NOW]`` is width 1.
    Publication starts at the first such time at or after the first event, and ends at the first
    at or after the last event or `until`.
    """
    shift = {"end": 0, "start": 1}[closed]
    waiting = sorted(events, key=lambda event: event.time)  # stable: arrival order within a time
    if not waiting:
        return
    last = waiting[-1].time + shift if until is None else until
    time = start - (start - waiting[0].time - shift) // slide * slide
    live: list[Event] = []
    while True:
        edge = time - shift
        live = [e for e in live if width is None or e.time > edge - width]
        due = [e for e in waiting if e.time <= edge]
        waiting = waiting[len(due) :]
        due = [e for e in due if e.sign == "-" or width is None or e.time > edge - width]
        refused = [event for event in due if not _judge(live, event)]
        yield Moment(time, Counter(e[2:5] for e in live), refused)
        if time >= last:
            return
        time += slide


def last_events(events: Sequence[Event], n: int) -> Iterator[Moment]:
    """``[TRIPLES n]``: the last `n` events by time and arrival, published after each event."""
    live: list[Event] = []
    for event in sorted(events, key=lambda event: event.time):
        accepted = _judge(live, event)
        del live[: max(0, len(live) - n)]
        yield Moment(event.time, Counter(e[2:5] for e in live), [] if accepted else [event])


def _judge(live: list[Event], event: Event) -> bool:
    """Apply one event to `live`, or refuse it.

    A repeated id with the same content changes nothing; with other content it is refused. A delete
    removes the event of its id, or without an id the oldest live event of its assertion.
    """
    same_id = [e for e in live if event.id is not None and e.id == event.id]
    if event.sign == "+":
        if not same_id:
            live.append(event)
        return not same_id or same_id[0][2:5] == event[2:5]
    if event.id is None:
        same_id = [e for e in live if e[2:5] == event[2:5]]
    if same_id:
        live.remove(min(same_id, key=lambda e: e.time))
    return bool(same_id)


def windowed_answers(
    query: str | Question, moments: Iterable[Moment], mode: str = "multigraph"
) -> list[tuple[int, Answers]]:
    """The answers at each moment of `windowed` or `last_events`.

    >>> like = Event(3, "+", "<a>", "<likes>", "<b>")
    >>> windowed_answers("SELECT ?x { ?x <likes> ?y }", windowed([like], 5, slide=5, until=10))
    [(5, {('<a>',): 1}), (10, {})]
    """
    question = read_query(query) if isinstance(query, str) else query
    return [(moment.time, answers(question, moment.counts, mode)) for moment in moments]


# --- Queries: rdflib reads the text, nested loops answer it -----------------------------------


@dataclass
class Question:
    """A parsed query: a list of atoms, filters and rows, with a head."""

    head: list[Any]
    atoms: list[tuple[Any, Any, Any]] = field(default_factory=list)
    values: list[list[Binding]] = field(default_factory=list)
    filters: list[tuple[Any, set[Any]]] = field(default_factory=list)
    keys: list[Any] | None = None
    computed_keys: list[tuple[Any, Any]] = field(default_factory=list)
    aggregates: list[Any] = field(default_factory=list)
    columns: list[tuple[Any, Any]] = field(default_factory=list)
    having: list[Any] = field(default_factory=list)
    joined_after: list[list[Binding]] = field(default_factory=list)
    is_distinct: bool = False
    is_ask: bool = False
    offset: int = 0
    limit: int | None = None
    #: The keys of ORDER BY, and whether they descend; what rdflib renamed in them.
    order: list[tuple[Any, bool]] = field(default_factory=list)
    renamed: dict[Any, Any] = field(default_factory=dict)

    def expressions(self) -> Iterator[Any]:
        yield from (expression for expression, _ in self.filters)
        yield from (expression for _, expression in self.computed_keys + self.columns)
        yield from [*(self.keys or ()), *self.having]
        yield from (aggregate.vars for aggregate in self.aggregates)
        yield from (expression for expression, _ in self.order)

    def answer(self, weights: Mapping[Triple, int]) -> Answers:
        """Sum the weights of all valuations by output row, then apply grouping and modifiers."""
        terms = {t: term(t) for triple in weights for t in triple}
        graph = [(tuple(terms[t] for t in triple), n) for triple, n in weights.items()]
        valuations = list(self._valuations(graph, {}, 1, self.atoms, self.values))
        if self.is_ask:
            return {(): 1} if valuations else {}
        if self.keys is not None:
            rows = [(row, 1) for row in self._groups(valuations)]
            for block in self.joined_after:
                pairs = [(unify(row, other.items()), n) for row, n in rows for other in block]
                rows = [(row, n) for row, n in pairs if row is not None]
        else:
            rows = [(binding, weight) for binding, weight in valuations]
        found: Answers = {}
        bindings: dict[Row, Binding] = {}
        for binding, weight in rows:
            row = tuple(spell(binding[v]) if v in binding else None for v in self.head)
            found[row] = 1 if self.is_distinct else found.get(row, 0) + weight
            bindings[row] = binding
        if self.order:
            found = {row: found[row] for row in self._sort(bindings)}
        return self._cut(found)

    def _sort(self, bindings: Mapping[Row, Binding]) -> list[Row]:
        """The rows by ORDER BY, which uses only variables of the head; in ties by all columns."""

        def find_ties(row: Row) -> list[Any]:
            shown = [bindings[row].get(v) for v in self.head]
            return [(order_key(each), text or "") for each, text in zip(shown, row, strict=True)]

        found = sorted(bindings, key=find_ties)
        for expression, descends in reversed(self.order):

            def find_key(row: Row, expression: Any = expression) -> Any:
                binding = bindings[row]
                more = {new: binding[v] for new, v in self.renamed.items() if v in binding}
                if isinstance(expression, rdflib.Variable):
                    return order_key((binding | more).get(expression))
                return order_key(evaluate(expression, binding | more))

            found.sort(key=find_key, reverse=descends)  # stable, also if it descends
        return found

    def _valuations(
        self, graph: Any, binding: Binding, weight: int, atoms: Any, values: Any
    ) -> Iterator[tuple[Binding, int]]:
        if atoms:
            for triple, count in graph:
                extended = unify(binding, zip(atoms[0], triple, strict=True))
                if extended is not None:
                    yield from self._valuations(graph, extended, weight * count, atoms[1:], values)
        elif values:
            for row in values[0]:
                extended = unify(binding, row.items())
                if extended is not None:
                    yield from self._valuations(graph, extended, weight, (), values[1:])
        elif all(is_met(e, context(binding, scope)) for e, scope in self.filters):
            yield binding, weight

    def _groups(self, valuations: list[tuple[Binding, int]]) -> Iterator[Binding]:
        groups: dict[Any, Members] = {} if self.keys else {(): []}
        for binding, weight in valuations:
            full = dict(binding)
            for variable, expression in self.computed_keys:
                found = evaluate(expression, full)
                full |= {} if found is None else {variable: found}
            key = [evaluate(each, full) for each in self.keys or ()]
            spelt = tuple(None if each is None else spell(each) for each in key)
            groups.setdefault(spelt, []).append((full, weight))
        for members in groups.values():
            row: Binding = {}
            for key in self.keys or ():
                found = evaluate(key, members[0][0])
                row |= {} if found is None else {key: found}
            for aggregate in self.aggregates:
                if is_key(aggregate):
                    found = row.get(aggregate.vars)
                else:
                    found = aggregate_value(aggregate, members)
                row |= {} if found is None else {aggregate.res: found}
            if all(is_met(e, context(row)) for e in self.having):
                for variable, expression in self.columns:
                    found = evaluate(expression, row)
                    row |= {} if found is None else {variable: found}
                yield row

    def _cut(self, rows: Answers) -> Answers:
        """Without ORDER BY, LIMIT and OFFSET do not define which rows; the oracle keeps the first
        in its order.
        """
        if self.offset == 0 and self.limit is None:
            return rows
        expanded = [row for row, n in rows.items() for _ in range(n)][self.offset :]
        return dict(Counter(expanded if self.limit is None else expanded[: self.limit]))


def read_query(text: str) -> Question:
    """Parse a query of the supported fragment; blank nodes are hidden variables."""
    normalize, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        tree = parseQuery(text)
        traverse(tree, visitPre=mend)
        query = translateQuery(tree).algebra
    finally:
        rdflib.NORMALIZE_LITERALS = normalize
    question = Question(list(query.PV), is_ask=query.name == "AskQuery")
    if "projection" not in tree[1]:  # rdflib does not order the columns of a star
        order = re.findall(r"[?$](\w+)", text)
        question.head.sort(key=lambda column: order.index(str(column)))
    node = query.p
    while node.name in ("Project", "Slice", "Distinct", "Reduced", "OrderBy"):
        if node.name == "OrderBy":
            question.order = [(each.expr, each.order == "DESC") for each in node.expr]
        if node.name == "Slice":
            question.offset, question.limit = node.start, node.length
        question.is_distinct |= node.name == "Distinct"
        node = node.p
    above: list[Any] = []
    while node.name in ("Extend", "Filter", "Join") and contains_grouping(node):
        if node.name == "Join":
            question.joined_after.append(read_rows(node.p2))
        else:
            above.append(node)
        node = node.p1 if node.name == "Join" else node.p
    if node.name == "AggregateJoin":
        question.aggregates = node.A
        question.keys = list(node.p.expr or [])
        for each in reversed(above):
            if each.name == "Extend":
                question.columns.append((each.var, each.expr))
            else:
                question.having.append(each.expr)
        question.renamed = {each.res: each.vars for each in node.A if is_key(each)}
        node = node.p.p
        while node.name == "Extend":
            question.computed_keys.insert(0, (node.var, node.expr))
            node = node.p
    read_pattern(question, node)
    for expression in question.expressions():
        follow_standard(expression)
    return question


class Written(rdflib.Literal):
    """A constant of an expression; rdflib drops a filter that is false as a Python value."""

    def __bool__(self) -> bool:
        return True


def mend(part: Any) -> None:
    """Keep what rdflib's translation loses: constant filters, rows without columns, keys
    without names, and which SAMPLE was written (rdflib also samples every key).
    """
    name = getattr(part, "name", "")
    if name == "Aggregate_Sample":
        part["is_written"] = True
    if name == "GroupAs" and not part.var:
        part["var"] = rdflib.Variable(f"__key_{rdflib.BNode()}__")
    if name == "MultiplicativeExpression":
        inner = part.expr
        if getattr(inner, "name", "") == "literal" and inner.datatype is None:
            inner = rdflib.Literal(inner.string, lang=inner.lang)
        if isinstance(inner, rdflib.Literal):
            part["expr"] = Written(inner)
    if name in ("InlineData", "ValuesClause") and not part.var and part.value:
        hidden, zero = rdflib.BNode(), rdflib.Literal(0)
        part["var"], part["value"] = [hidden], [zero for _ in part.value]


def is_key(aggregate: Any) -> bool:
    return bool(aggregate.name == "Aggregate_Sample" and not aggregate.is_written)


# --- Operators, where rdflib follows Python and not the standard --------------------------------


def follow_standard(expression: Any) -> None:
    """Evaluate operators and REGEX inside an expression by the functions below."""
    if isinstance(expression, list):
        for each in expression:
            follow_standard(each)
    elif isinstance(expression, CompValue):
        if expression.name in OPERATORS:
            expression._evalfn = MethodType(OPERATORS[expression.name], expression)
        follow_standard(list(dict.values(expression)))


def operands(expression: Any) -> list[Any]:
    """The operands, unevaluated: one of them may be an error without being needed."""
    first, others = dict.get(expression, "expr"), dict.get(expression, "other")
    if others is None or others == rdflib.RDF.nil:
        return [first]
    return [first, *others] if isinstance(others, list) else [first, others]


def evaluate_operand(operand: Any, ctx: Any) -> Any:
    found = rdflib_value(ctx, operand)
    if isinstance(found, SPARQLError):
        raise found
    return found


def value_of(found: Any) -> values.Value | None:
    if not isinstance(found, rdflib.Literal):
        return None
    return values.read(str(found), found.datatype and str(found.datatype), found.language)


def number(found: values.Number) -> Any:
    lexical, datatype = values.spell_number(found)
    return rdflib.Literal(lexical, datatype=rdflib.XSD[datatype], normalize=False)


def standard(function: Any) -> Any:
    """Turn the errors of `oracle_values` into those of rdflib."""

    def run(expression: Any, ctx: Any) -> Any:
        try:
            return function(expression, ctx)
        except values.EvaluationError as error:
            raise SPARQLError(str(error)) from None

    return run


@standard
def calculate(expression: Any, ctx: Any) -> Any:
    """``+ - * /`` from left to right."""
    parts = [evaluate_operand(operand, ctx) for operand in operands(expression)]
    found = parts[0]
    for sign, other in zip(dict.get(expression, "op") or (), parts[1:], strict=True):
        found = number(values.calculate(str(sign), value_of(found), value_of(other)))
    return found


@standard
def change_sign(expression: Any, ctx: Any) -> Any:
    found = value_of(evaluate_operand(operands(expression)[0], ctx))
    factor = values.read("-1" if expression.name == "UnaryMinus" else "1", str(rdflib.XSD.integer))
    return number(values.calculate("*", found, factor))


@standard
def compare(expression: Any, ctx: Any) -> Any:
    """``= != < > <= >= IN NOT IN``."""
    sign, items = dict.get(expression, "op"), operands(expression)
    left = evaluate_operand(items[0], ctx)
    if sign is None:
        return left
    if sign in ("IN", "NOT IN"):
        return rdflib.Literal(is_among(left, items[1:], ctx) == (sign == "IN"))
    right = evaluate_operand(items[1], ctx)
    if sign in ("=", "!="):
        return rdflib.Literal(is_same(left, right) == (sign == "="))
    order = values.compare(value_of(left), value_of(right))
    wanted = {"<": (-1,), ">": (1,), "<=": (-1, 0), ">=": (0, 1)}[sign]
    return rdflib.Literal(order in wanted)


def is_among(wanted: Any, items: list[Any], ctx: Any) -> bool:
    """Whether a term equals one of the list; an error counts only if none does."""
    errors = []
    for item in items:
        try:
            if is_same(wanted, evaluate_operand(item, ctx)):
                return True
        except (SPARQLError, values.EvaluationError) as error:
            errors.append(error)
    if errors:
        raise values.EvaluationError(str(errors[0]))
    return False


def is_same(left: Any, right: Any) -> bool:
    first, second = value_of(left), value_of(right)
    if first is not None and second is not None:
        return values.are_equal(first, second)
    if spell(left) == spell(right):
        return True
    are_literals = isinstance(left, rdflib.Literal) and isinstance(right, rdflib.Literal)
    if are_literals and not (left.language or right.language):
        raise values.EvaluationError("literals without known values")
    return False


def is_true(found: Any) -> bool:
    """The effective boolean value; false for an ill-typed number or boolean."""
    seen = value_of(found)
    kind = str(getattr(found, "datatype", "")).removeprefix(values.XSD)
    if seen is None and (kind in values.NUMERIC or kind == "boolean"):
        return False
    return values.is_true(seen)


def is_met(condition: Any, ctx: Any) -> bool:
    """Whether a filter keeps a solution: an error drops it."""
    try:
        return is_true(evaluate_operand(condition, ctx))
    except (SPARQLError, values.EvaluationError):
        return False


@standard
def negate(expression: Any, ctx: Any) -> Any:
    return rdflib.Literal(not is_true(evaluate_operand(operands(expression)[0], ctx)))


@standard
def connect(expression: Any, ctx: Any) -> Any:
    """``&&`` and ``||``: one operand may decide in spite of errors in others."""
    items = operands(expression)
    if len(items) == 1:
        return evaluate_operand(items[0], ctx)
    deciding, errors = expression.name == "ConditionalOrExpression", []
    for item in items:
        try:
            if is_true(evaluate_operand(item, ctx)) == deciding:
                return rdflib.Literal(deciding)
        except (SPARQLError, values.EvaluationError) as error:
            errors.append(error)
    if errors:
        raise values.EvaluationError(str(errors[0]))
    return rdflib.Literal(not deciding)


def regex(call: Any, _context: Any) -> Any:
    arguments = [call.text, call.pattern] + ([call.flags] if call.flags is not None else [])
    text, *others = arguments
    kinds = (None, rdflib.XSD.string)
    is_text = isinstance(text, rdflib.Literal) and (text.language or text.datatype in kinds)
    if not is_text or not all(
        isinstance(o, rdflib.Literal) and o.datatype in kinds and not o.language for o in others
    ):
        raise SPARQLError("REGEX takes strings")
    try:
        return rdflib.Literal(matches(str(others[0]), str(text), *map(str, others[1:])))
    except BadPattern as problem:
        raise SPARQLError(str(problem)) from None


OPERATORS = {
    "AdditiveExpression": calculate,
    "MultiplicativeExpression": calculate,
    "UnaryMinus": change_sign,
    "UnaryPlus": change_sign,
    "RelationalExpression": compare,
    "UnaryNot": negate,
    "ConditionalAndExpression": connect,
    "ConditionalOrExpression": connect,
    "Builtin_REGEX": regex,
}


def read_rows(node: Any) -> list[Binding]:
    """The rows of VALUES; without rows, rdflib has a bare list there."""
    return [] if isinstance(node.p, list) else [dict(row) for row in node.p.res]


def contains_grouping(node: Any) -> bool:
    while node.name in ("Extend", "Filter", "Join"):
        node = node.p1 if node.name == "Join" else node.p
    return bool(node.name == "AggregateJoin")


def read_pattern(question: Question, node: Any) -> set[Any]:
    """Collect a group's atoms, rows and filters; returns the variables that it binds."""
    if node.name == "BGP":
        flat = [atom for triple in node.triples for atom in unfold_path(*triple)]
        question.atoms += flat
        return {t for atom in flat for t in atom if is_open(t)}
    if node.name == "Join":
        return read_pattern(question, node.p1) | read_pattern(question, node.p2)
    if node.name == "Filter":
        scope = read_pattern(question, node.p)
        question.filters.append((node.expr, scope))
        return scope
    if node.name == "ToMultiSet":
        rows = read_rows(node)
        question.values.append(rows)
        return {v for row in rows for v in row}
    raise ValueError(f"the oracle does not support {node.name}")


def unfold_path(subject: Any, path: Any, obj: Any) -> list[tuple[Any, Any, Any]]:
    """Unfold a sequence or inverse path into a chain of atoms through hidden variables."""
    if isinstance(path, InvPath):
        return unfold_path(obj, path.arg, subject)
    if isinstance(path, SequencePath):
        stops = [subject, *(rdflib.BNode() for _ in path.args[1:]), obj]
        steps = zip(stops, path.args, stops[1:], strict=False)
        return [atom for a, step, b in steps for atom in unfold_path(a, step, b)]
    return [(subject, path, obj)]


def is_open(term: Any) -> bool:
    return isinstance(term, rdflib.Variable | rdflib.BNode)


def unify(binding: Binding, pairs: Iterable[tuple[Any, Any]]) -> Binding | None:
    """Extend the binding so that the pattern terms equal the given terms; None if impossible."""
    extended = dict(binding)
    for wanted, value in pairs:
        known = extended.setdefault(wanted, value) if is_open(wanted) else wanted
        if spell(known) != spell(value):
            return None
    return extended


# --- Terms and expressions, by rdflib -----------------------------------------------------------


ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}


class DataBlank(str):
    """A blank node of the data: a constant, unlike a blank node of the query."""


def term(text: str) -> Any:
    """An N-Triples term as an rdflib term, with its lexical form unchanged."""
    if text.startswith("_:"):
        return DataBlank(text)
    if text.startswith("<"):
        return rdflib.URIRef(text[1:-1])
    lexical, _, suffix = text[1:].rpartition('"')
    lexical = re.sub(r"\\(.)", lambda m: ESCAPES[m[1]], lexical)
    language = suffix[1:] if suffix.startswith("@") else None
    datatype = rdflib.URIRef(suffix[3:-1]) if suffix.startswith("^^") else None
    return rdflib.Literal(lexical, lang=language, datatype=datatype, normalize=False)


def spell(value: Any) -> str:
    """The N-Triples form of a term.

    >>> spell(rdflib.Literal(5)), spell(rdflib.Literal("a", lang="en")), spell(term("_:b"))
    ('"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a"@en', '_:b')
    """
    if isinstance(value, DataBlank):
        return str(value)
    if isinstance(value, rdflib.BNode):  # a `DataBlank` that has passed through an expression
        return f"_:{value}"
    if not isinstance(value, rdflib.Literal):
        return f"<{value}>"
    lexical = str(value).replace("\\", "\\\\").replace('"', '\\"')
    lexical = lexical.replace("\n", "\\n").replace("\r", "\\r")
    plain = value.datatype in (None, rdflib.XSD.string)
    suffix = f"@{value.language}" if value.language else "" if plain else f"^^<{value.datatype}>"
    return f'"{lexical}"{suffix}'


def context(binding: Binding, scope: Iterable[Any] | None = None) -> FrozenBindings:
    """A binding in the form of rdflib's expressions, with only the variables in scope."""
    seen = {
        v: rdflib.BNode(value[2:]) if isinstance(value, DataBlank) else value
        for v, value in binding.items()
        if scope is None or v in scope
    }
    return FrozenBindings(QueryContext(initBindings={}), seen.items())


def evaluate(expression: Any, binding: Binding) -> Any:
    """The value of an expression, or None on an evaluation error."""
    try:
        value = _eval(expression, context(binding))
    except SPARQLError:
        return None
    return None if isinstance(value, SPARQLError) else value


def aggregate_value(aggregate: Any, members: Members) -> Any:
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
    return sorted((found for found, _ in pairs), key=sort_key)


def sort_key(found: Any) -> tuple[object, ...]:
    """The total order of terms: blank nodes, IRIs, literals by value, then by text."""
    text = spell(found)
    if not isinstance(found, rdflib.Literal):
        return (0 if isinstance(found, DataBlank | rdflib.BNode) else 1, text)
    return (2, *values.rank_literal(value_of(found), found.datatype, str(found)), text)


AGGREGATES = {
    "Aggregate_Count": count,
    "Aggregate_Sum": add_up,
    "Aggregate_Avg": average,
    "Aggregate_Min": least,
    "Aggregate_Max": greatest,
    "Aggregate_Sample": sample,
}
