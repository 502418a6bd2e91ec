"""The lowered program of one plan, in the plan's own names: exactly what runs.

`describe` works without an engine; `describe_registered` describes a registered plan, including the
work its steps have done so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import compress
from typing import Any

import numpy as np

from triegs.compiler.plan import Alias, Plan, Static
from triegs.maintain.choices import choose_statistics
from triegs.maintain.compiled import CompiledCore
from triegs.maintain.empty_views import EmptyViews
from triegs.maintain.enumeration import AnswerLowering
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.tables import (
    ADJACENCY,
    ANY,
    BEFORE,
    BOTH,
    C_CHANGED,
    C_EMITTED,
    C_SEEDS,
    C_TICKS,
    CONSTANT,
    COUNT,
    COUNTS,
    EDGE,
    EXTREME_EDGE,
    EXTREME_PRODUCT,
    LEADS,
    NOW,
    ORDERED_EDGE,
    ORDERED_PRODUCT,
    PRODUCT,
    RANKING,
    SORTED,
    SORTED_TUPLES,
    TOTAL,
    TUPLES,
)
from triegs.maintain.label_graphs import LabelGraphs
from triegs.maintain.meaning import Held, Meaning
from triegs.maintain.measures import Measures
from triegs.maintain.model import (
    LAYOUTS,
    Check,
    Delta,
    DigitView,
    Index,
    Move,
    Order,
    Range,
    Rule,
    Step,
    View,
    is_counts,
)
from triegs.maintain.standing import RegisteredPlan
from triegs.maintain.tables import Table
from triegs.mode import Mode
from triegs.sparql.model import Atom, Expression
from triegs.sparql.scope import substitute
from triegs.store.contract import RelationUnknown
from triegs.store.packed import PackedStore

SUBJECT_OBJECT = ("subject", "object")
MOST_DELTAS_SHOWN = 64  # of a rule: the deltas of a join of hundreds of atoms are alike
TRIPLE = ("subject", "predicate", "object")
EVENT = ("subject", "time", "object")


class Kind(Enum):
    """How a relation is maintained."""

    BASE = "base index"
    INDEX = "index"
    FIXED = "fixed rows"
    ORDER = "order"
    EDGE = "edge"
    PRODUCT = "product"
    TOTAL = "total"
    ORDERED_EDGE = "ordered edge"
    ORDERED_PRODUCT = "ordered product"
    RANKING = "ranking"
    EXTREME_EDGE = "extreme edge"
    EXTREME_PRODUCT = "extreme product"
    RULE = "rule"
    LISTING = "listing"
    WHOLE = "whole"
    DIGITS = "digits"


STEPS = {
    EDGE: Kind.EDGE, PRODUCT: Kind.PRODUCT, TOTAL: Kind.TOTAL, ORDERED_EDGE: Kind.ORDERED_EDGE,
    ORDERED_PRODUCT: Kind.ORDERED_PRODUCT, RANKING: Kind.RANKING,
    EXTREME_EDGE: Kind.EXTREME_EDGE, EXTREME_PRODUCT: Kind.EXTREME_PRODUCT,
}  # fmt: skip


class Reads(Enum):
    """How an entry is used: by its count, or by its presence."""

    COUNT = "count"
    PRESENCE = "presence"
    EXTREME = "extreme"


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a step over these variables: a relation of the program, by index, or the changes
    that an epoch brings for an atom.
    """

    relation: int | None
    atom: Alias | None
    variables: tuple[str, ...]
    reads: Reads
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Lookup:
    """A relation followed by variables in column order, as before the epoch or as it is now."""

    relation: int
    variables: tuple[str, ...]
    is_old: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable, and the relations that must all contain its values: one is scanned, several are
    intersected. It is the last variable of each lookup. With `range` only the values that these
    comparisons allow are scanned.
    """

    variable: str
    sources: tuple[Lookup, ...]
    filters: tuple[Expression, ...]
    range: tuple[Expression, ...] = ()


class Side(Enum):
    """The answers that a difference finds: all that appear and disappear; or, for a symmetric
    pattern, those that changed tuples have now, or had before.
    """

    BOTH = "both"
    NOW = "now"
    BEFORE = "before"


SIDES = {BOTH: Side.BOTH, NOW: Side.NOW, BEFORE: Side.BEFORE}


@dataclass(frozen=True, slots=True)
class Difference:
    """The effect of a change of one input: first the lookups that it must pass, then the variables
    that it does not bind, in binding order.
    """

    input: int
    side: Side
    lookups: tuple[Lookup, ...]
    filters: tuple[Expression, ...]
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a step since its creation; no seconds if the machine has no suitable clock."""

    seeds: int
    emitted: int
    changed: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Relation:
    """One view of the program: its contents, its maintenance, and its size and work so far."""

    kind: Kind
    slot: int
    #: Variables, or triple positions for a plain index of the graph.
    columns: tuple[str, ...]
    #: The names of the nodes it belongs to.
    nodes: tuple[str, ...] = ()
    guard: Alias | Static | None = None
    #: Whether it holds only what one atom matches, not a whole label or graph.
    is_selected: bool = False
    #: Exact sums, or only presence.
    is_exact: bool = False
    #: Whether answers are counted, and rows.
    has_counts: bool = False
    has_rows: bool = False
    is_stored: bool = True
    #: Whether an epoch lists its changes, and the keys that appear or disappear.
    is_listed: bool = False
    lists_keys: bool = False
    of: int | None = None
    inputs: tuple[Input, ...] = ()
    filters: tuple[Expression, ...] = ()
    differences: tuple[Difference, ...] = ()
    #: The number of renamings of variables that map the inputs to themselves: an answer is found
    #: once and emitted with all its images.
    symmetries: int = 1
    #: Edges only: the index from its second variable back to the first.
    back: int | None = None
    shared: tuple[str, ...] = ()
    entries: int | None = None
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A cursor of the enumeration: the relation that it scans, and the variables it binds."""

    relation: int
    binds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A plan as it runs: relations in maintenance order, children first."""

    plan: Plan
    relations: tuple[Relation, ...]
    levels: tuple[Level, ...]
    #: The indices of all relations that contribute to the multiplicity of an answer, and of those
    #: that lead from a change to the answers above it.
    weights: frozenset[int]
    parent_paths: frozenset[int]
    #: Whether answers are counted, and rows; whether a requested count currently does not fit.
    has_counts: bool
    has_rows: bool
    is_overflown: bool


def describe(plan: Plan, mode: Mode = Mode.MULTIGRAPH) -> Lowered:
    """The program of a plan in an engine of its own. Runs no kernel, so nothing is compiled.

    >>> from triegs.compiler import compile_query
    >>> from triegs.sparql import parse
    >>> plan = compile_query(parse("SELECT * { ?x <p> ?y . ?y <q> ?z }"), root="x")
    >>> [relation.kind.value for relation in describe(plan).relations]
    ['base index', 'base index', 'edge']
    """
    terms: list[str] = [""]
    ids: dict[str, int] = {}

    def encode(term: str) -> int:
        if term not in ids:
            ids[term] = len(terms)
            terms.append(term)
        return ids[term]

    store, judges = PackedStore(reserve=False), Judges(terms.__getitem__)
    views = EmptyViews(store, mode, judges, LabelGraphs())
    if plan.groups is not None:
        measures = Measures(views, plan, encode)
        enumeration, held = measures.run(), measures.held
    else:
        lowering = AnswerLowering(views, plan, encode, choose_statistics(plan, mode)[0])
        enumeration, held = lowering.run(), lowering.held
    table = Table(np.zeros(0, np.int64))  # no words: it never runs
    for view in views.by_name.values():
        if isinstance(view, Step | Rule):
            table.steps.append(view)
        if view.listed:
            table.lists[view] = len(table.lists)
        if view.has_keys:
            table.keys[view] = len(table.keys)
    return _Describing(plan, held, enumeration, table, judges).run()


def describe_registered(
    core: CompiledCore, registered: RegisteredPlan, names: Mapping[RegisteredPlan, str]
) -> Lowered:
    """The program of a registered plan, with the names of other plans that share its views. A
    stalled plan, which has no views left, is described as if it were alone and new. Callable from
    any thread.
    """
    if not registered.views:
        return describe(registered.plan, core.views.mode)
    describing = _Describing(
        registered.plan, registered.views, registered.enumeration, core.table, core.judges
    )  # fmt: skip
    describing.core = core
    describing.others = {
        name: other.views for other, name in names.items() if other is not registered
    }
    return describing.run()


class _Describing:
    def __init__(
        self, plan: Plan, held: Held, enumeration: EnumerationPlan, table: Table, judges: Judges
    ) -> None:
        self.plan = plan
        self.held = held
        self.enumeration = enumeration
        self.table = table
        self.judges = judges
        self.core: CompiledCore | None = None
        self.work: dict[View, list[int]] = {}
        self.tick = 0.0
        self.others: dict[str, Held] = {}
        self.guards: dict[Alias | Static, list[str]] = {}
        for node in plan.nodes:
            if isinstance(node.guard, Alias | Static):
                self.guards.setdefault(node.guard, []).append(node.name)

    def run(self) -> Lowered:
        views = self._sort_views()
        self.row_of = {view: row for row, view in enumerate(views)}
        relations: dict[Any, int] = {
            view.relation: row for view, row in reversed(self.row_of.items())
        }
        if self.core is not None:
            self.work, self.tick = self.core.count_work(), self.core.pace.find_tick()
        enumeration, query = self.enumeration, self.plan.query
        free = query.free if self.plan.groups is None else self.plan.groups.variables
        levels = [
            Level(relations[each.relation], pick(free, each.binds)) for each in enumeration.levels
        ]
        weighing = [each.relation for each in enumeration.factors if each.weighs]
        weighing += [relation for relation, _ in enumeration.totals]
        for measure in enumeration.measures:
            weighing += [relation for relation, _ in measure.totals]
            kept = (measure.relation, measure.by_value)
            weighing += [relation for relation in kept if relation is not None]
        weights = frozenset(relations[each] for each in weighing)
        ways = [
            each.parent_path.index for each in enumeration.factors if each.parent_path is not None
        ]
        parent_paths = frozenset(relations[each] for each in ways if each is not None)
        found = tuple([self._describe(view) for view in views])
        return Lowered(
            self.plan, found, tuple(levels), weights, parent_paths, enumeration.counts is not None,
            enumeration.has_rows, enumeration.overflow is not None,
        )  # fmt: skip

    def _sort_views(self) -> list[View]:
        """Views in maintenance order: those filled by streams, then steps, each with its orders."""
        steps: dict[View, int] = {step: n for n, step in enumerate(self.table.steps, 1)}

        def find_rank(view: View) -> tuple[int, bool]:
            if isinstance(view, Order) and view.of is not None:
                return steps.get(view.of, 0), True
            return steps.get(view, 0), False

        return sorted(self.held, key=find_rank)

    def _describe(self, view: View) -> Relation:
        if isinstance(view, Index):
            found = self._describe_index(view)
        elif isinstance(view, Order):
            assert view.of is not None
            found = self._new(view, Kind.ORDER, self._columns(view), of=self.row_of[view.of])
        elif isinstance(view, Step):
            found = self._describe_step(view)
        elif isinstance(view, Rule):
            found = self._describe_rule(view)
        elif isinstance(view, DigitView):
            kind = Kind.WHOLE if view.relation.arity == 1 else Kind.DIGITS
            found = self._new(view, kind, self._columns(view), is_exact=True)
        else:
            found = self._new(view, Kind.FIXED, self._columns(view), is_exact=True)
        return found

    def _new(self, view: View, kind: Kind, columns: tuple[str, ...], **facts: Any) -> Relation:
        meanings = self.held[view]
        guards = [meaning.guard for meaning in meanings if meaning.guard is not None]
        nodes = [meaning.node for meaning in meanings if meaning.node]
        if isinstance(view, Order):
            assert view.of is not None
            nodes = [meaning.node for meaning in self.held[view.of]]
        elif isinstance(view, Index):
            nodes = self._find_atoms(view, guards)
        elif not nodes:
            nodes = [name for guard in guards for name in self.guards.get(guard, ())]
        facts = {"guard": guards[0] if guards else None} | facts
        return Relation(
            kind, view.address, columns, tuple(dict.fromkeys(nodes)), **facts,
            is_listed=view in self.table.lists, lists_keys=view in self.table.keys,
            shared=tuple(name for name, held in self.others.items() if view in held),
            entries=self._count_entries(view, kind), work=self._find_work(view),
        )  # fmt: skip

    def _find_atoms(self, index: Index, guards: Sequence[Alias | Static]) -> list[str]:
        """The nodes whose atoms an index holds; for label counts, all that name the label."""
        if index.stream.source is not None or index.condition != ANY:
            return [name for guard in guards for name in self.guards.get(guard, ())]
        relation, arity = self._guard(index).relation, index.stream.arity
        return [
            name
            for guard, names in self.guards.items()
            if isinstance(guard, Alias) and guard.relation == relation
            if is_counts(index) or (len(guard.variables) == arity and not guard.filters)
            for name in names
        ]

    def _count_entries(self, view: View, kind: Kind) -> int | None:
        if self.core is None or kind is Kind.LISTING:
            return None
        try:
            return self.core.store.newest.size(view.relation)
        except RelationUnknown:  # the updater has just dropped it
            return None

    def _find_work(self, view: View) -> Work | None:
        counters = self.work.get(view)
        if counters is None:
            return None
        seconds = counters[C_TICKS] * self.tick if self.tick else None
        return Work(counters[C_SEEDS], counters[C_EMITTED], counters[C_CHANGED], seconds)

    # Names

    def _meaning(self, view: View) -> Meaning:
        (first, *_) = self.held[view]
        return first

    def _columns(self, view: View) -> tuple[str, ...]:
        """The column names of a view, in order."""
        if isinstance(view, Order):
            assert view.of is not None
            return pick(self._columns(view.of), view.columns)
        if isinstance(view, Index):
            return pick(self._names(view), find_order(view))
        variables = self._meaning(view).variables
        if isinstance(view, Rule):
            return pick(variables, view.head)
        return variables[: view.relation.arity]

    def _names(self, index: Index) -> tuple[str, ...]:
        """The column names of a stream: positions, or for a selection the variables of its atom."""
        if index.condition != ANY:
            return (self._guard(index).variables[0],) * 2
        if index.stream.source is not None:
            return self._guard(index).variables
        if index.stream.predicate is not None:
            return SUBJECT_OBJECT
        return EVENT if self._guard(index).event_label else TRIPLE

    def _guard(self, index: Index) -> Alias:
        """The atom that an index was created for, or another one of the same selection."""
        same = [v for v in self.held if isinstance(v, Index) and v.stream == index.stream]
        guards = (meaning.guard for view in (index, *same) for meaning in self.held[view])
        return next(guard for guard in guards if isinstance(guard, Alias))

    # Kinds

    def _describe_index(self, view: Index) -> Relation:
        is_selected = view.stream.source is not None or view.condition != ANY
        kind = Kind.BASE if is_counts(view) else Kind.INDEX
        return self._new(
            view, kind, self._columns(view), guard=self._guard(view), is_selected=is_selected,
            is_exact=view.kind == COUNTS, has_counts=view.is_summed,
        )  # fmt: skip

    def _describe_step(self, step: Step) -> Relation:
        meaning, kind = self._meaning(step), STEPS[step.kind]
        is_ordered = step.kind in LAYOUTS
        reads = Reads.COUNT if step.is_exact or is_ordered else Reads.PRESENCE
        inputs = [Input(self.row_of[f], None, meaning.variables[-1:], reads) for f in step.factors]
        if step.kind in (EXTREME_EDGE, EXTREME_PRODUCT):
            inputs[:1] = [replace(each, reads=Reads.EXTREME) for each in inputs[:1]]
        back = None
        if step.edge is not None:
            assert isinstance(meaning.guard, Alias)
            inputs.insert(0, Input(None, meaning.guard, meaning.guard.variables, Reads.COUNT))
            if step.edge.by_other is not None:
                back = self.row_of[step.edge.by_other]
        return self._new(
            step, kind, self._columns(step), inputs=tuple(inputs), back=back,
            is_exact=step.is_exact and not is_ordered, has_counts=is_ordered,
            has_rows=step.is_exact and is_ordered,
        )  # fmt: skip

    def _describe_rule(self, rule: Rule) -> Relation:
        meaning = self._meaning(rule)
        names = meaning.variables
        deltas, numbers = rule.deltas, tuple(range(len(rule.deltas)))
        if rule.symmetry is not None:  # its deltas are per orbit, for the first input of each
            numbers = tuple(rule.symmetry.orbits.index(delta.orbit) for delta in deltas)
            deltas = tuple(replace(deltas[0], variables=pair) for pair in rule.pairs)
        inputs = tuple(
            self._describe_input(delta, names, atom)
            for delta, atom in zip(deltas, meaning.atoms, strict=True)
        )
        differences = [
            self._describe_delta(number, delta, names)
            for number, delta in zip(numbers[:MOST_DELTAS_SHOWN], rule.deltas, strict=False)
            if not delta.seeds.is_fixed
        ]
        checks = dict.fromkeys(rule.deltas[0].checks)
        for level in rule.deltas[0].levels:
            checks |= dict.fromkeys(level.checks)
        return self._new(
            rule, Kind.LISTING if rule.is_listed_only else Kind.RULE, self._columns(rule),
            is_exact=all(each.reads is Reads.COUNT for each in inputs),
            is_stored=not rule.is_listed_only, inputs=inputs, differences=tuple(differences),
            filters=tuple(self._check(check, names) for check in checks),
            of=self.row_of[self._listed_index(rule)] if rule.is_listed_only else None,
            symmetries=1 if rule.symmetry is None else len(rule.symmetry.images),
        )  # fmt: skip

    def _listed_index(self, rule: Rule) -> View:
        """The index whose changes a rule lists."""
        same = (view for view in self.held if view.relation is rule.relation)
        return next(view for view in same if view is not rule)

    def _describe_input(self, delta: Delta, names: tuple[str, ...], atom: Alias | None) -> Input:
        variables, operand = pick(names, delta.variables), delta.seeds
        if atom is not None:
            atom = rename(atom, variables)
        view = operand.listing if operand.listing is not None else operand.view
        row = None if view is None else self.row_of[view]
        reads = Reads.COUNT if delta.use == COUNT else Reads.PRESENCE
        return Input(row, atom, variables, reads, operand.is_fixed)

    def _check(self, check: Check, names: tuple[str, ...]) -> Expression:
        return self.judges.express(check.judge, pick(names, check.variables))

    def _describe_delta(self, number: int, delta: Delta, names: tuple[str, ...]) -> Difference:
        #: By word register: its relation, the path to it, and whether it is the old version.
        ways: dict[int, Lookup] = {}
        lookups = []
        for root in delta.roots:
            ways[root.word] = Lookup(self.row_of[root.view], (), root.is_old)
            if root.use != LEADS:
                lookups.append(ways[root.word])

        def follow(move: Move) -> Lookup:
            before = ways[move.before]
            variables = before.variables
            if not move.is_sort_key:
                variables = (*variables, names[move.variable])
            ways[move.after] = Lookup(before.relation, variables, before.is_old)
            return ways[move.after]

        for move in delta.probes:
            found = follow(move)
            if move.use != LEADS:
                lookups.append(found)
        bindings = []
        ranges: tuple[Range, ...] = ()
        for level in delta.levels:
            sources = tuple(map(follow, level.sources))
            if level.ranges:
                ranges = level.ranges
                continue
            found_by = {each.comparison for each in ranges}
            is_found = [
                bool(found_by) and check.comparison is not None
                and check.solve(level.variable) in found_by for check in level.checks
            ]  # fmt: skip
            checks = [self._check(check, names) for check in level.checks]
            bindings.append(Binding(
                names[level.variable], sources, tuple(checks),
                tuple(compress(checks, is_found)),
            ))  # fmt: skip
            ranges = ()
        filters = tuple(self._check(check, names) for check in delta.checks)
        return Difference(number, SIDES[delta.side], tuple(lookups), filters, tuple(bindings))


def pick(names: Sequence[str], columns: Sequence[int]) -> tuple[str, ...]:
    """Columns by name. The order of a column's values is a column of its own in some indexes."""
    return tuple(
        f"order of {names[column & ~SORTED].lstrip('?')}" if column & SORTED else names[column]
        for column in columns
        if column != CONSTANT
    )


def find_order(index: Index) -> tuple[int, ...]:
    """The columns of a stream in the order of an index."""
    if index.kind in (TUPLES, SORTED_TUPLES):
        return index.order
    return (index.column, 1 - index.column) if index.kind == ADJACENCY else (index.column,)


def rename(atom: Alias, variables: Sequence[str]) -> Alias:
    """An atom over other variables."""
    names: dict[str, Expression] = dict(zip(atom.variables, variables, strict=True))
    terms = (str(names.get(term, term)) for term in atom.atom)
    filters = tuple(substitute(each, names) for each in atom.filters)
    return Alias(Atom(*terms), filters, atom.graph)
