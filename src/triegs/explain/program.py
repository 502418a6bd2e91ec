"""The lowered program in words: what is stored, how a change propagates, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triegs.compiler.groups import shows_all_keys
from triegs.compiler.hypergraph import cyclic_core
from triegs.compiler.plan import Alias, Join, Node, Payload, Role, Static
from triegs.explain.notation import Notation, plain, tuple_of
from triegs.maintain.lowered import (
    Binding,
    Difference,
    Input,
    Kind,
    Lookup,
    Lowered,
    Reads,
    Relation,
    Side,
    Work,
)
from triegs.sparql.model import split_event_graph

#: The purpose of each kind; a rule has its own reason.
REASONS = {
    Kind.BASE: "the counts of a label, used to validate deletions; shared by all queries",
    Kind.INDEX: "a label, or an atom's selection of it, in the order that its readers need",
    Kind.ORDER: "the result of a rule, with the columns in another order",
    Kind.EDGE: "one pair of variables, one of them shared with the parent: faster than a rule",
    Kind.PRODUCT: "all factors have the same variable: faster than a rule",
    Kind.TOTAL: "the head shows none of its variables, so one number is enough",
    Kind.ORDERED_EDGE: "an edge that counts answers, because the query keeps counts",
    Kind.ORDERED_PRODUCT: "a product that counts answers, because the query keeps counts",
    Kind.RANKING: "the top of a component that counts answers; positions are looked up here",
    Kind.EXTREME_EDGE: "the lowest or highest value below each key: a change stops where it stays",
    Kind.EXTREME_PRODUCT: "the extreme of a key, if all other factors have the key",
    Kind.WHOLE: "the integer values of terms: multiplied into a count they make a sum",
    Kind.DIGITS: "the values of terms as digits: multiplied into a count they make an exact sum",
    Kind.LISTING: "the net changes of an index, for a rule that must not see them twice",
}
MOST_SHOWN = 16  # variables listed per change
KEPT = "it is stored, so that answers are read and not joined again"


class Program:
    """Writes the relations of a lowered plan, numbered from 1 in its order."""

    def __init__(self, notation: Notation, lowered: Lowered) -> None:
        self.notation = notation
        self.lowered = lowered
        self.relations = lowered.relations
        #: The readers of each relation: other relations by number, answers, changes.
        self.readers: list[dict[int | str, None]] = [{} for _ in self.relations]
        for number, relation in enumerate(self.relations, 1):
            for index in list_read(relation):
                self.readers[index][number] = None
        scanned = {level.relation for level in lowered.levels}
        for index in sorted(scanned | lowered.weights):
            self.readers[index]["answers"] = None
        for index in sorted(lowered.parent_paths):
            self.readers[index]["changes"] = None
        self.of_node: dict[str, list[int]] = {}
        for index, relation in enumerate(self.relations):
            for name in relation.nodes:
                self.of_node.setdefault(name, []).append(index)

    # Titles and readers

    def title(self, relation: Relation) -> str:
        """``hasReply by object``, ``V1(z,v)``."""
        guard = relation.guard
        if relation.kind is Kind.LISTING:
            assert relation.of is not None
            return f"Δ {self.title(self.relations[relation.of])}"
        if relation.kind is Kind.FIXED and isinstance(guard, Static):
            return "VALUES" + tuple_of(relation.columns)
        if relation.kind in (Kind.WHOLE, Kind.DIGITS):
            return f"{relation.kind.value}{tuple_of(relation.columns)}"
        if relation.kind not in (Kind.BASE, Kind.INDEX):
            return (relation.nodes[0] if relation.nodes else "") + tuple_of(relation.columns)
        assert isinstance(guard, Alias)
        if relation.is_selected:
            name = " ".join([self.notation.relation(guard), *self.notation.brackets(guard.filters)])
        else:
            name = self._name_base(guard)
        if graph := split_event_graph(guard.graph)[0]:
            name += f" in {self.notation.names.constant(graph)}"
        columns = relation.columns if len(relation.columns) > 2 else relation.columns[:1]
        if relation.is_selected and len(relation.columns) == 1:
            return name
        return f"{name} by {' '.join(map(plain, columns))}"

    def _name_base(self, guard: Alias) -> str:
        """What an atom selects from: ``hasReply``, ``hasReply events``, ``all triples``."""
        names = self.notation.names
        if guard.event_label:
            at = "" if guard.label is None else f" at {names.constant(guard.label)}"
            return f"{names.label(guard.event_label)} events{at}"
        return "all triples" if guard.label is None else names.label(guard.label)

    def kind(self, relation: Relation) -> str:
        """``edge, live pairs``"""
        kind = relation.kind
        if kind is Kind.ORDER:
            return f"#{_number(relation.of)} in another order"
        if kind is Kind.LISTING:
            return "listing, not stored"
        if kind in (Kind.WHOLE, Kind.DIGITS):
            return "kept"
        if kind in (Kind.RULE, Kind.TOTAL, Kind.FIXED):
            return f"{kind.value}, kept" if kind is Kind.RULE else kind.value
        if relation.has_counts:
            return f"{kind.value}, {'answers and rows' if relation.has_rows else 'answers'}"
        if kind is Kind.BASE:
            return str(kind.value)
        if kind is Kind.INDEX:
            return f"{kind.value}, summed" if relation.is_exact else kind.value
        live = "live pairs" if kind is Kind.EDGE else "live values"
        return f"{kind.value}, {'sums' if relation.is_exact else live}"

    def used(self, index: int) -> str:
        """Its readers: ``for #5, #6, answers``."""
        found = self.readers[index]
        names = [each if isinstance(each, str) else f"#{each}" for each in found]
        return f"for {', '.join(names or ['deletions'])}"

    def list_kept(self, node: str) -> list[str]:
        """The relations that store a node: ``#5 V1(z,v): edge``."""
        found = []
        for index in self.of_node.get(node, ()):
            relation = self.relations[index]
            text = f"#{index + 1} {self.title(relation)}: {self.kind(relation)}"
            if relation.entries is not None:
                text += f", {_plural(relation.entries, 'entry', 'entries')}"
            found.append(text)
        return found

    # Maintenance

    def details(self, relation: Relation) -> Iterator[str]:
        """What a step computes, what each change does, why, and its work so far."""
        if relation.inputs or relation.kind is Kind.TOTAL:
            yield f"← {' · '.join(self.factors(relation)) or '1'}"
            yield from self.changes(relation)
        if reason := self.reason(relation):
            yield f"({reason})"
        yield from self.progress(relation)

    def factors(self, relation: Relation) -> list[str]:
        found = [self._factor(each) for each in relation.inputs]
        return found + self.notation.brackets(relation.filters)

    def _factor(self, read: Input) -> str:
        text = self._input(read)
        if read.reads is Reads.COUNT:
            return text
        return f"[{text} > 0]"

    def _input(self, read: Input) -> str:
        if read.atom is None:
            assert read.relation is not None
            return f"#{_number(read.relation)}{tuple_of(read.variables)}"
        filters = self.notation.brackets(read.atom.filters)
        return " ".join([self.notation.relation(read.atom), *filters])

    def changes(self, relation: Relation) -> Iterator[str]:
        """The effect of a change of each input."""
        if relation.back is not None and len(relation.inputs) == 1:
            again = f"if it was the extreme, walk #{_number(relation.back)} for another"
            yield f"Δ {self._input(relation.inputs[0])}: compare; {again}"
        elif relation.kind in (Kind.EDGE, Kind.ORDERED_EDGE, Kind.EXTREME_EDGE):
            pair, below = relation.inputs
            yield f"Δ {self._input(pair)}: look up {self._input(below)}"
            if relation.back is None:
                return  # what is below never changes
            variables = (*below.variables, *(v for v in pair.variables if v not in below.variables))
            back = f"#{_number(relation.back)}{tuple_of(variables)}"
            yield f"Δ {self._input(below)}: walk {back}"
        for difference in relation.differences:
            if difference.side is Side.BEFORE:
                continue  # same steps as NOW, on the state before the epoch
            yield f"Δ {self._input(relation.inputs[difference.input])}: {self._steps(difference)}"
        if 0 < len(relation.differences) < len(relation.inputs) and relation.symmetries == 1:
            more = sum(not each.is_fixed for each in relation.inputs) - len(relation.differences)
            if more:
                yield f"… and {more} more inputs in the same way"

    def _steps(self, difference: Difference) -> str:
        steps = self.notation.brackets(difference.filters)
        if difference.lookups:
            steps.append(f"look up {' · '.join(map(self._lookup, difference.lookups))}")
        steps += map(self._binding, difference.bindings[:MOST_SHOWN])
        if len(difference.bindings) > MOST_SHOWN:
            steps.append(f"{len(difference.bindings) - MOST_SHOWN} more variables in the same way")
        return "; ".join(steps) or "applied as is"

    def _lookup(self, lookup: Lookup) -> str:
        return f"#{_number(lookup.relation)}{tuple_of(lookup.variables)}"

    def _binding(self, binding: Binding) -> str:
        sources = " ∩ ".join(map(self._lookup, binding.sources))
        filters = "".join(f" {each}" for each in self.notation.brackets(binding.filters))
        verb = "walk" if len(binding.sources) == 1 else "intersect"
        if binding.range:
            verb = "range of"
        return f"{verb} {sources} for {plain(binding.variable)}{filters}"

    def reason(self, relation: Relation) -> str:
        """Why a relation is a rule and why it is stored; empty for other kinds."""
        if relation.kind is not Kind.RULE:
            return ""
        node = self.notation.plan.node(relation.nodes[0])
        if len(relation.inputs) == 1:
            read, shown = relation.inputs[0], tuple_of(relation.columns)
            source = self._input(read)
            if read.reads is Reads.COUNT:
                return f"the counts of {source}, summed by {shown}"
            return f"the number of {source} by {shown}"
        reason = find_reason(self.notation.plan.nodes, node)
        if not reason:
            reason = "the number of its answers or rows, because the query keeps counts"
        if relation.symmetries > 1:
            reason += f"; symmetric, so only one of {relation.symmetries} answers is searched for"
        return reason

    def progress(self, relation: Relation) -> Iterator[str]:
        """Entries, sharing and work so far in a live engine."""
        words = [] if relation.entries is None else [_plural(relation.entries, "entry", "entries")]
        if relation.shared:
            words.append(f"shared with {', '.join(relation.shared)}")
        if relation.work is not None:
            words.append(f"so far {describe_work(relation.work, relation.kind is Kind.RULE)}")
        if words:
            yield "; ".join(words)


def find_reason(nodes: Sequence[Node], node: Node) -> str:
    """Why a node needs a rule; empty if an edge or a product is enough."""
    if isinstance(node.guard, Join):
        if cyclic_core([frozenset(source.variables) for source in node.guard.inputs]):
            return f"a cycle: variables bound by several inputs are intersected; {KEPT}"
        if all(set(source.variables) <= set(node.bag) for source in node.guard.inputs):
            if not node.guard.filters:
                return f"half of a cycle, which the other half repeats; {KEPT}"
            return f"a comparison links shown variables; {KEPT}"
        return f"hidden variables link shown ones; {KEPT}"
    if len(node.interface) > 1:
        return (
            f"it shares {_listed(node.interface)} with its parent; an edge shares one variable only"
        )
    wide = [nodes[child].interface for child in node.children if len(nodes[child].interface) > 1]
    if wide:
        return f"a node below shares {_listed(wide[0])} with it; an edge shares one variable only"
    if len(node.bag) > 2:
        return f"it binds {_listed(node.bag)}; an edge binds two variables only"
    if not node.bag or any(not nodes[child].interface for child in node.children):
        return "no variable links all its factors"
    return ""


def describe_work(work: Work, is_rule: bool) -> str:
    words = [_plural(work.seeds, "seed", "seeds")]
    if is_rule:
        words.append(f"{work.emitted:,} emitted")
    words.append(f"{work.changed:,} changed")
    if work.seconds is not None:
        words.append(write_seconds(work.seconds))
    return ", ".join(words)


def write_seconds(seconds: float) -> str:
    """
    >>> write_seconds(0.0000123), write_seconds(0.0123), write_seconds(12.3)
    ('12 µs', '12.3 ms', '12.3 s')
    """
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def describe_totals(lowered: Lowered) -> str:
    """The cost of ``count()``, ``support()`` and positions, in words."""
    plan = lowered.plan
    top, query = plan.nodes[plan.root], plan.query
    if plan.groups is not None:
        grouping = query.grouping
        assert grouping is not None
        is_cut = query.limit is not None or query.offset or grouping.having
        if shows_all_keys(query) and not is_cut:
            return "count() and support() are kept, as the number of groups; positions scan them"
        return "count() and support() scan the groups"
    if top.role is Role.EXISTENTIAL:
        return "the total multiplicity is kept as one exact number"
    has_total, has_positions = Payload.TOTAL in top.payload, Payload.POSITION in top.payload
    if not (has_total or has_positions):
        return "count() and support() scan the answers (keep count, slice for more)"
    if not lowered.has_counts:
        why = "this query has no order statistics"
        if lowered.is_overflown:
            why = "a count currently exceeds 64 bits"
        elif plan.filters or query.limit is not None or query.offset:
            why = "a filter, LIMIT or OFFSET is applied last"
        return f"count(), support() and positions scan the answers: {why}"
    positions = "access by position in logarithmic time"
    if query.order:
        positions = "access by position sorts the answers"
    if has_total and not lowered.is_overflown:
        return f"count() and support() are kept; {positions}"
    why = "keep count for that" if not has_total else "it currently exceeds 64 bits"
    return f"support() is kept; {positions}; count() scans the answers ({why})"


def list_read(relation: Relation) -> Iterator[int]:
    """The indexes of all relations that one reads."""
    yield from (each.relation for each in relation.inputs if each.relation is not None)
    yield from (index for index in (relation.back, relation.of) if index is not None)
    for difference in relation.differences:
        for lookup in difference.lookups:
            yield lookup.relation
        for binding in difference.bindings:
            yield from (source.relation for source in binding.sources)


def _number(index: int | None) -> int:
    assert index is not None
    return index + 1


def _listed(variables: Sequence[str]) -> str:
    return " ".join(map(plain, variables))


def _plural(number: int, noun: str, nouns: str) -> str:
    return f"{number:,} {noun if number == 1 else nouns}"
