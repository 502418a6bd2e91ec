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
from functools import lru_cache
from typing import Any, NamedTuple

import rdflib
from rdflib.paths import InvPath, SequencePath
from rdflib.plugins.sparql.algebra import translateQuery, traverse
from rdflib.plugins.sparql.evalutils import _eval
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.sparql import FrozenBindings, QueryContext, SPARQLError

from triegs.testing.oracle_aggregates import Members, aggregate_value
from triegs.testing.oracle_operators import follow_standard, is_met
from triegs.testing.oracle_terms import DataBlank, order_key, spell, term

Triple = tuple[str, str, str]
#: A triple with the time of an event that states it, as a term.
TimedTriple = tuple[str, str, str, str]
Row = tuple[str | None, ...]
Answers = dict[Row, int]
Binding = dict[Any, Any]


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
    before, refused, deleted = counts.copy() if strict else None, [], set()
    for index, (sign, subject, predicate, obj) in enumerate(updates):
        triple = (subject, predicate, obj)
        if sign == "+":
            counts[triple] += 1
        elif counts[triple] > 0:
            counts[triple] -= 1
            deleted.add(triple)
        else:
            refused.append(index)
    if before is not None and refused:
        counts.clear()
        counts.update(before)
        deleted = set()
    for triple in deleted:
        if counts[triple] == 0:
            del counts[triple]
    return refused


def answers(
    query: str | Question,
    updates: Iterable[Sequence[str]] | Mapping[Triple, int],
    mode: str = "multigraph",
    strict: bool = False,
    timed: Mapping[TimedTriple, int] | None = None,
) -> Answers:
    """Answer a query over a batch of updates, or over counts per assertion. `timed` has the counts
    of events by assertion and time, for patterns with a time.
    """
    question = read_query(query) if isinstance(query, str) else query
    counts = updates if isinstance(updates, Mapping) else count_assertions(updates, strict)[0]
    if mode not in ("multigraph", "rdf"):
        raise ValueError(f"unknown mode: {mode!r}")
    is_counted = mode == "multigraph"
    return question.answer(
        {t: n if is_counted else 1 for t, n in counts.items()},
        None if timed is None else {t: n if is_counted else 1 for t, n in timed.items()},
    )


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


class Matches:
    """A graph by the term at each place, because most triples match no given atom. Triples are in
    the order of the graph.
    """

    def __init__(self, graph: Iterable[tuple[tuple[Any, ...], int]]) -> None:
        self._by_length: dict[int, list[Any]] = {}
        self._by_term: dict[tuple[int, int, str], list[Any]] = {}
        for triple, count in graph:
            self._by_length.setdefault(len(triple), []).append((triple, count))
            for place, value in enumerate(triple):
                key = len(triple), place, spell(value)
                self._by_term.setdefault(key, []).append((triple, count))

    def list_candidates(self, atom: tuple[Any, ...], binding: Binding) -> list[Any]:
        """All triples that may match an atom, and others: those with the rarest of its terms."""
        found = self._by_length.get(len(atom), [])
        for place, wanted in enumerate(atom):
            known = binding.get(wanted) if is_open(wanted) else wanted
            if known is not None:
                those = self._by_term.get((len(atom), place, spell(known)), [])
                found = min(found, those, key=len)
        return found


@dataclass
class Question:
    """A parsed query: a list of atoms, filters and rows, with a head."""

    head: list[Any]
    #: Subject, predicate, object, and for a pattern with a time also that.
    atoms: list[tuple[Any, ...]] = field(default_factory=list)
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

    def answer(
        self, weights: Mapping[Triple, int], timed: Mapping[TimedTriple, int] | None = None
    ) -> Answers:
        """Sum the weights of all valuations by output row, then apply grouping and modifiers."""
        if timed is None and any(len(atom) == 4 for atom in self.atoms):
            raise ValueError("a pattern has a time, but no times are given")
        given = [*weights.items(), *(timed or {}).items()]
        terms = {t: term(t) for triple, _ in given for t in triple}
        graph = Matches((tuple(terms[t] for t in triple), n) for triple, n in given)
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
        self, graph: Matches, binding: Binding, weight: int, atoms: Any, values: Any
    ) -> Iterator[tuple[Binding, int]]:
        if atoms:
            for triple, count in graph.list_candidates(atoms[0], binding):
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
                    found = aggregate_value(aggregate, members, evaluate)
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


# rdflib takes some milliseconds, longer than a small graph takes to answer; nobody changes what it
# has read.
@lru_cache(maxsize=1024)
def read_query(text: str) -> Question:
    """Parse a query of the supported fragment; blank nodes are hidden variables."""
    text = _ANNOTATED.sub(_nest_annotation, text)
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
    fold_annotations(question)
    for expression in question.expressions():
        follow_standard(expression)
    return question


_OBJECT, _TIME = rdflib.URIRef("urn:oracle:object"), rdflib.URIRef("urn:oracle:time")
_TEXT = r'"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^(?:<[^<>\s]*>|[\w:]+))?|<[^<>\s]*>'
#: An object with its annotation; or what may contain the brackets of one.
_ANNOTATED = re.compile(
    rf"(?P<object>{_TEXT}|[?$]\w+|[\w-]*:[\w-]*|\d+)"
    rf"\s*\{{\|\s*(?:triegs:time|<urn:triegs:time>)\s+(?P<time>{_TEXT}|[?$]\w+|\d+)\s*\|\}}"
    rf"|{_TEXT}|'[^']*'|\#[^\n]*"
)


def _nest_annotation(match: re.Match[str]) -> str:
    """``?o {| triegs:time ?t |}`` as a blank node, because rdflib reads only SPARQL 1.1."""
    if match["object"] is None:
        return match[0]
    return f"[ <{_OBJECT}> {match['object']} ; <{_TIME}> {match['time']} ]"


def fold_annotations(question: Question) -> None:
    """Turn the blank nodes of `_nest_annotation` into atoms with a time."""
    objects = {s: o for s, p, o in question.atoms if p == _OBJECT}
    times = {s: o for s, p, o in question.atoms if p == _TIME}
    question.atoms = [
        (s, p, objects[o], times[o]) if o in objects else (s, p, o)
        for s, p, o in question.atoms
        if p not in (_OBJECT, _TIME)
    ]


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


# --- Expressions, by rdflib ---------------------------------------------------------------------


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
