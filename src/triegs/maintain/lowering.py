"""From a plan to the parts of the core.

Every node of a plan becomes a rule, unless something faster is known for it. With ``v`` the
variable that a node shares with its parent and ``w`` the one that it introduces:

- a node over pairs ``G(v, w)`` is an *edge*: ``P(v) = sum over w of G(v, w) * N(w)``, where
  ``N(w)`` is the product of the children on ``w``. Without such children its view is the stream's
  own index. For a witness the edge keeps the live pairs instead of sums;
- children on ``v``, and guards of one variable (constants, a repeated variable, `VALUES`), are
  further factors of ``v``: a *product* if there are several;
- the top of a component is a product that lists its variable, or a *total* if the head shows
  nothing of it.

All other nodes (atoms of three variables, interfaces of two and more, materialised joins) are
*rules*: the marginal of an existential node, the live tuples of a witness, and a join below either.

A plan that keeps numbers has, in the place of live pairs and products of its witnesses, the parts
with numbers of `triegs.kernels.sums`; tops are ranked, and an edge without children is the
stream's index with summed hubs. If any node is a rule, all its witnesses are, and their numbers are
rules too, see `triegs.maintain.numbering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import blake2b
from typing import Any

from triegs.compiler.keys import static_text
from triegs.compiler.plan import Alias, Join, Node, Payload, Plan, Role, Static, Use
from triegs.kernels.sums import ENTRY
from triegs.kernels.tables import (
    ADJACENCY,
    ANY,
    COUNT,
    COUNTS,
    EDGE,
    NUMBERED_EDGE,
    NUMBERED_PRODUCT,
    PRESENCE,
    PRODUCT,
    RANKING,
    SAME,
    TOTAL,
)
from triegs.maintain.deltas import (
    Check,
    Input,
    View,
    find_symmetry,
    plan_deltas,
    plan_symmetric,
)
from triegs.maintain.meaning import Held, Meaning
from triegs.maintain.numbering import RuleNumbers, Used
from triegs.maintain.parts import Index, Part, Parts, Rule, Step, is_fixed, list_keys_of
from triegs.maintain.streams import Stream, find_stream, label_stream
from triegs.maintain.walk import Below, Climb, Level, Walk
from triegs.mode import Mode
from triegs.sparql.expressions import holds
from triegs.sparql.model import (
    Duplicates,
    Expression,
    Form,
    expression_variables,
    is_variable,
)

Encode = Callable[[str], int]
MOST_NAMED = 200  # letters of a rule's name before it is shortened


class Numbers(Enum):
    """What is counted below each live tuple: nothing, answers, or answers and rows."""

    NONE = 0
    ANSWERS = 1
    ROWS = 2


def choose_numbers(plan: Plan, mode: Mode) -> list[Numbers]:
    """What a plan keeps, best first: what it was asked for, and what is left of it while a number
    does not fit.

    Nothing where rows are not the answers as they are: a filter or a cut comes after them.
    """
    kept = plan.nodes[plan.root].payload
    query = plan.query
    if not {Payload.TOTAL, Payload.POSITION}.intersection(kept) or not query.free:
        return [Numbers.NONE]
    if plan.filters or query.limit is not None or query.offset:
        return [Numbers.NONE]
    drops_counts = query.form is Form.ASK or query.duplicates is Duplicates.DISTINCT
    is_simple = mode is Mode.RDF and not query.values and set(query.variables) <= set(query.free)
    if Payload.TOTAL in kept and not drops_counts and not is_simple:
        return [Numbers.ROWS, Numbers.ANSWERS, Numbers.NONE]
    return [Numbers.ANSWERS, Numbers.NONE]


def is_by_variable(plan: Plan, node: Node) -> bool:
    """Whether a node is kept by variables: an edge, a product or a total. All others are rules."""
    below = [plan.nodes[c].interface for c in node.children]
    if any(len(interface) > 1 for interface in (node.interface, *below)):
        return False
    if isinstance(node.guard, Join) or len(node.bag) > 2:
        return False
    if not node.bag:  # one assertion, some rows, or components side by side
        return node.guard is None or not below
    if () in below:
        return False
    return isinstance(node.guard, Alias) or len(node.bag) == 1


#: A view with the names of its columns.
Named = tuple[View, tuple[str, ...]]


class Lowering:
    """One plan into parts; `held` lists all that it uses, children first."""

    def __init__(
        self, parts: Parts, plan: Plan, encode: Encode, numbers: Numbers = Numbers.NONE
    ) -> None:
        self.parts = parts
        self.plan = plan
        self.encode = encode
        self.is_numbered = numbers is not Numbers.NONE
        self.has_rows = numbers is Numbers.ROWS
        self.numbers_name = f" {numbers.name.lower()}" if self.is_numbered else ""
        self.held: Held = {}
        self.columns = preferred_columns(plan)
        self.factors: dict[tuple[str, str], Part] = {}
        self.streams: dict[Alias, Stream] = {}
        self.atoms: dict[Stream, Alias] = {}
        #: The node that rules are made for.
        self.node: Node | None = None
        self.place = {name: i for i, name in enumerate(plan.query.free)}
        self.walk = Walk(len(self.place), has_rows=self.has_rows)
        if self.is_numbered:
            self.walk.numbers = []
        #: By place, how what hangs on its variable leads back to where it was bound.
        self.climbs: dict[int, Climb] = {}
        #: By variable that a rule binds, its node and piece.
        self.binders: dict[str, tuple[int, int]] = {}
        tops = {component.top for component in plan.components}
        self.by_variable = [
            is_by_variable(plan, node) and (bool(node.interface) or i in tops or not node.bag)
            for i, node in enumerate(plan.nodes)
        ]
        self.rule_numbers: RuleNumbers | None = None
        if self.is_numbered and not all(self.by_variable):
            self.rule_numbers = RuleNumbers(self)
            for number, node in enumerate(plan.nodes):
                if node.bag and node.role is Role.WITNESS:
                    self.by_variable[number] = False
        #: By node that is a rule, its marginal and, of a witness, its live tuples.
        self.marginals: dict[int, Named] = {}
        self.live: dict[int, tuple[Part, tuple[str, ...]]] = {}
        self.covers: dict[int, Named] = {}
        #: By node, how it leads back to a parent that it shares several variables with.
        self.node_climbs: dict[int, Climb] = {}

    def run(self) -> Walk:
        """Make, or find, every part; returns how the answers are enumerated."""
        # Children come before parents, so that no long chain of nodes is gone down by recursion.
        for number, node in enumerate(self.plan.nodes):
            if not self.by_variable[number]:
                self._lower_rule(number, node)
            elif node.interface:
                self._factor(number, node.interface[0])
        for component in self.plan.components:
            if self.by_variable[component.top]:
                self._lower_top(component.top)
        for number in self.plan.order:
            if self.by_variable[number]:
                self._add_level(number)
            else:
                self._add_rule_level(number)
        for number in self.plan.order:
            if self.by_variable[number]:
                self._add_counts(number)
            else:
                self._add_rule_counts(number)
        for component in self.plan.components:
            node = self.plan.nodes[component.top]
            if node.role is Role.EXISTENTIAL:
                self.walk.totals.append(self._scalar(component.top))
        for part in self.held:
            part.uses += 1
        return self.walk

    def _lower_top(self, number: int) -> None:
        node = self.plan.nodes[number]
        if node.bag and node.role is Role.EXISTENTIAL:
            self._total(number)
        elif node.bag:
            self._root(number)

    # Streams and their rows

    def _use(
        self, part: Part, node: Node | None = None, variables: Sequence[str] = (),
        guard: Alias | Static | None = None, atoms: Iterable[Alias | None] = (),
    ) -> Part:  # fmt: skip
        """Hold a part, and note what it is in this plan."""
        meanings = self.held.setdefault(part, {})
        if node is not None or guard is not None:
            name = "" if node is None else node.name
            meanings[Meaning(name, tuple(variables), guard, tuple(atoms))] = None
        return part

    def _stream(self, alias: Alias) -> Stream:
        """What an atom sees; its columns are the atom's variables."""
        found = self.streams.get(alias)
        if found is None:
            found = self.streams[alias] = find_stream(alias, self.encode, self.parts.judges)
            self.atoms.setdefault(found, alias)
        source = found.source or found
        if source.predicate is not None:
            self._use_counts(alias, source.predicate)
        return found

    def _use_counts(self, alias: Alias, predicate: int) -> Index:
        """The counts of an atom's label."""
        found = self.parts.counts(predicate, self.columns.get(alias, 0))
        self._use(found, guard=alias)
        return found

    def _index(self, stream: Stream, kind: int, column: int, condition: int = ANY) -> Index:
        found = self.parts.index(stream, kind, column, condition)
        if not self.held.get(found):
            self._use(found, guard=self.atoms.get(stream))
        return found

    def _single(self, alias: Alias) -> Part:
        """An atom of one variable: by label one more row with a condition, else a selection."""
        atom, variable = alias.atom, alias.variables[0]
        if alias.label is None or alias.filters:
            return self._index(self._stream(alias), COUNTS, 0)
        assert alias.relation is not None
        label = label_stream(self.encode(alias.relation))
        assert label.predicate is not None
        self._use_counts(alias, label.predicate)
        column = 0 if atom.subject == variable else 1
        other = atom.object if column == 0 else atom.subject
        condition = SAME if is_variable(other) else self.encode(other)
        return self._use(self.parts.index(label, COUNTS, column, condition), guard=alias)

    def _rows(self, static: Static) -> Part:
        """The rows of `VALUES` that its filters leave."""
        names = static.variables
        rows = [
            row for row in static.values.rows
            if all(holds(e, dict(zip(names, row, strict=True))) for e in static.filters)
        ]  # fmt: skip
        ids = [tuple(map(self.encode, row)) for row in rows]
        found = self.parts.fixed(static_text(static), len(names), ids)
        return self._use(found, variables=names, guard=static)

    # Nodes by variable

    def _guard(self, node: Node) -> Part | None:
        """The relation of a guard of one variable."""
        if isinstance(node.guard, Static):
            return self._rows(node.guard)
        if not isinstance(node.guard, Alias) or len(node.bag) > 1:
            return None
        return self._single(node.guard)

    def _children(self, node: Node, variable: str) -> list[Part]:
        nodes = self.plan.nodes
        return [self._factor(c, variable) for c in node.children
                if nodes[c].interface == (variable,)]  # fmt: skip

    def _product(
        self, name: str, factors: Sequence[Part], is_exact: bool, node: Node, variable: str
    ) -> Part:
        if len(factors) == 1:
            list_keys_of(factors[0])
            return factors[0]
        if self.is_numbered and not is_exact:
            found = self._numbered(name, NUMBERED_PRODUCT, factors)
        else:
            found = self.parts.step(name, PRODUCT, is_exact, tuple(factors))
        return self._use(found, node, (variable,))

    def _numbered(
        self, name: str, kind: int, factors: Sequence[Part], by_other: Index | None = None
    ) -> Part:
        name += self.numbers_name
        return self.parts.step(name, kind, self.has_rows, tuple(factors), by_other)

    def _factor(self, number: int, variable: str) -> Part:
        """A node's marginal over one variable of its bag: its interface, or the top's choice."""
        node = self.plan.nodes[number]
        if not self.by_variable[number]:
            part = self.marginals[number][0].part
            assert part is not None
            return part
        found = self.factors.get((node.name, variable))
        if found is None:
            name = f"{node.key} by {variable_place(node, variable)}"
            is_exact = node.role is Role.EXISTENTIAL
            found = self._product(name, self._factors(node, variable), is_exact, node, variable)
            self.factors[node.name, variable] = found
        return found

    def _factors(self, node: Node, variable: str) -> list[Part]:
        guard = self._guard(node)
        own = [guard] if guard is not None else []
        if len(node.bag) == 2:
            own = [self._edge(node, variable)]
        return own + self._children(node, variable)

    def _edge(self, node: Node, variable: str) -> Part:
        alias = node.guard
        assert isinstance(alias, Alias)
        stream, column = self._stream(alias), alias.variables.index(variable)
        other = alias.variables[1 - column]
        is_exact = node.role is Role.EXISTENTIAL
        below = self._children(node, other)
        is_numbered = self.is_numbered and not is_exact
        if not below:
            index = self._index(stream, COUNTS if is_exact else ADJACENCY, column)
            return self.parts.summed(index) if is_numbered else index
        name = f"{node.key} edge by {variable_place(node, variable)}"
        child = self._product(f"{name} below", below, is_exact, node, other)
        by_other = self._index(stream, ADJACENCY, 1 - column)
        if is_numbered:
            found = self._numbered(name, NUMBERED_EDGE, (child,), by_other)
        else:
            found = self.parts.step(name, EDGE, is_exact, (child,), by_other)
        return self._use(found, node, (variable, other), alias)

    def _root(self, number: int) -> Part:
        """What lists the values of a top variable."""
        node = self.plan.nodes[number]
        factors = self._factors(node, node.bag[0])
        if self.is_numbered:
            found = self._numbered(f"root {node.key}", RANKING, factors)
            return self._use(found, node, node.bag[:1])
        return self._product(f"root {node.key}", factors, False, node, node.bag[0])

    def _total(self, number: int) -> Part:
        node = self.plan.nodes[number]
        factors = tuple(self._factors(node, node.bag[0]))
        found = self.parts.step(f"total {node.key}", TOTAL, True, factors)
        return self._use(found, node, node.bag[:1])

    def _scalar(self, number: int) -> tuple[Any, tuple[int, ...]]:
        """The entry that holds the count of a component without head variables."""
        node = self.plan.nodes[number]
        if not self.by_variable[number]:
            view, _ = self.marginals[number]
            assert view.part is not None
            return view.part.relation, ()
        if node.bag:
            return self._total(number).relation, ()
        if isinstance(node.guard, Static):  # a number, as the weight of one row
            row = (0,)
            rows = [row] * len(node.guard.values.rows)
            parts = self.parts
            found = parts.fixed(f"{len(rows)} rows without columns", 1, rows)
            return self._use(found, guard=node.guard).relation, row
        assert isinstance(node.guard, Alias)  # no variable at all: one assertion
        atom, label = node.guard.atom, node.guard.relation
        assert label is not None
        predicate = self.encode(label)
        counts = self._use_counts(node.guard, predicate)
        weights = self.parts.index(label_stream(predicate), ADJACENCY, counts.column)
        self._use(weights, guard=node.guard)
        key = self.encode(atom.subject), self.encode(atom.object)
        return weights.relation, key if counts.column == 0 else key[::-1]

    # Nodes that are rules

    def _lower_rule(self, number: int, node: Node) -> None:
        """The marginal of a node, and its live tuples if it is a witness."""
        self.node = node
        guard = self._guard_view(node)
        is_witness = node.role is Role.WITNESS
        if guard is not None:
            self.covers[number] = guard
        if not is_witness:
            self.marginals[number] = self._sum_out(node, guard)
            return
        order = (*node.interface, *node.introduces)
        if guard is not None and not node.children:
            view, names = guard
            live = self._find_order(view, tuple(names.index(v) for v in order))
        else:
            live = self._live_rule(number, node, guard, order)
        self.live[number] = live, order
        if self.rule_numbers is not None:
            is_guard = guard is not None and not node.children
            named = guard if is_guard else (View(len(order), part=live), order)
            assert named is not None
            self.rule_numbers.add_node(number, live, named)
        if node.interface:
            self.marginals[number] = self._keys_of(node, guard, live, order)

    def _guard_view(self, node: Node) -> Named | None:
        guard = node.guard
        if isinstance(guard, Join):
            is_all = not node.children
            names = node.bag
            if is_all and node.role is Role.EXISTENTIAL:
                return None  # one rule sums out and joins
            if is_all:
                names = (*node.interface, *node.introduces)
            return View(len(names), part=self._join(guard, names)), names
        if isinstance(guard, Static):
            rows = self._rows(guard)
            return View(len(guard.variables), part=rows, is_fixed=True), guard.variables
        if guard is None:
            return None
        if len(guard.variables) == 1:
            return View(1, part=self._single(guard)), guard.variables
        stream = self._stream(guard)
        return View(stream.arity, stream=stream), guard.variables

    def _sum_out(self, node: Node, guard: Named | None) -> Named:
        """The marginal of an existential node over its interface."""
        if isinstance(node.guard, Join) and guard is None:
            part: Part = self._join(node.guard, node.interface)
            return View(len(node.interface), part=part), node.interface
        children = [self.marginal(c) for c in node.children]
        sources = ([guard] if guard is not None else []) + children
        if len(sources) == 1 and set(sources[0][1]) == set(node.interface):
            return sources[0]
        part = self.rule([(*source, COUNT) for source in sources], node.interface)
        return View(len(node.interface), part=part), node.interface

    def _live_rule(
        self, number: int, node: Node, guard: Named | None, order: tuple[str, ...]
    ) -> Part:
        """The guard where every child has something. A child that only counts, over all of the
        bag, multiplies at once; all others are asked whether they have anything.
        """
        inputs = [(*guard, COUNT)] if guard is not None else []
        for child in node.children:
            view, names = self.marginal(child)
            if guard is None and number not in self.covers and set(names) == set(node.bag):
                self.covers[number] = view, names
            if self.is_folded(node, child):
                inputs.append((view, names, COUNT))
            else:
                inputs.append((self.listed(view), names, PRESENCE))
        return self.rule(inputs, order)

    def is_folded(self, node: Node, child: int) -> bool:
        """Whether the live tuples of a rule are multiplied by a child that only counts."""
        below = self.plan.nodes[child]
        return below.role is Role.EXISTENTIAL and set(below.interface) == set(node.bag)

    def _keys_of(
        self, node: Node, guard: Named | None, live: Part, order: tuple[str, ...]
    ) -> Named:
        """What a parent asks: whether a tuple over the interface has any live tuple."""
        width = len(node.interface)
        if width == len(order):
            if guard is not None and not node.children:
                return guard
            return View(width, part=live), order
        if guard is not None and guard[0].stream is not None and not node.children:
            part: Part = self.rule([(*guard, COUNT)], node.interface)
        elif width == 1:
            list_keys_of(live)
            part = live
        else:
            part = self.rule([(View(len(order), part=live), order, PRESENCE)], node.interface)
        return View(width, part=part), node.interface

    def marginal(self, number: int) -> Named:
        """A node's marginal, as rules read it."""
        if not self.by_variable[number]:
            return self.marginals[number]
        interface = self.plan.nodes[number].interface
        part = self._factor(number, interface[0])
        return View(1, part=part, is_fixed=is_fixed(part)), interface

    def listed(self, view: View) -> View:
        """A view of which only the presence of tuples counts: its changes are listed, net."""
        stream = view.stream
        if stream is None:
            return view
        columns = tuple(range(stream.arity))
        names = self.atoms[stream].variables
        index = self._find_order(view, columns)
        listing = self.rule([(view, names, COUNT)], names, relation=index)
        return View(stream.arity, stream=stream, listing=listing)

    def _join(self, join: Join, head: Sequence[str]) -> Rule:
        """A materialised join, summed over what the head does not have."""
        inputs = []
        for wanted in join.inputs:
            view, names = self.marginal(wanted.node)
            if wanted.use is Use.COUNT:
                inputs.append((view, names, COUNT))
            elif set(names) == set(wanted.variables):
                inputs.append((self.listed(view), names, PRESENCE))
            else:
                inputs.append((*self._support(view, names, wanted.variables), PRESENCE))
        return self.rule(inputs, head, join.filters)

    def _support(self, view: View, names: tuple[str, ...], wanted: tuple[str, ...]) -> Named:
        """A view over some of its columns: whether there is anything."""
        if view.stream is not None and view.stream.arity == 2:
            index = self._index(view.stream, ADJACENCY, names.index(wanted[0]))
            list_keys_of(index)
            return View(1, part=index), wanted
        use = COUNT if view.stream is not None else PRESENCE
        return View(len(wanted), part=self.rule([(view, names, use)], wanted)), wanted

    def rule(
        self, inputs: Sequence[Used], head: Sequence[str], filters: Sequence[Expression] = (),
        relation: Part | None = None, is_answers: bool = False,
    ) -> Rule:  # fmt: skip
        """A rule over named variables. Its name tells all that it means, so equal ones are one."""
        names = dict.fromkeys(v for _, columns, _ in inputs for v in columns)
        number = {name: i for i, name in enumerate(names)}
        checks = []
        for expression in filters:
            wanted = expression_variables(expression)
            judge = self.parts.judges.find(expression, wanted)
            checks.append(Check(judge, tuple(number[v] for v in wanted)))
        given = [Input(v, tuple(number[n] for n in names), use) for v, names, use in inputs]
        for view, _, _ in inputs:
            if view.part is not None and not view.is_fixed:
                if view.width == 1:
                    list_keys_of(view.part)
                else:
                    view.part.listed = True
        shown = tuple(number[v] for v in head)
        symmetry = None
        if is_one_stream(given) and len(shown) == len(number) and not checks:
            symmetry = find_symmetry(given)
        name = name_rule(given, shown, checks, is_listing=relation is not None)
        if is_answers:  # read in another way than counts
            name = f"answers {name}"
        if symmetry is not None:
            listed = self.listed(given[0].view)
            given = [replace(each, view=listed) for each in given]
            deltas = plan_symmetric(given, symmetry, self._find_order)
        else:
            deltas = plan_deltas(given, shown, checks, self._find_order)
        pairs = tuple(each.variables for each in given)
        found = self.parts.rule(name, shown, deltas, relation, symmetry, pairs)
        found.is_answers = is_answers
        atoms = [self.atoms.get(view.stream) if view.stream else None for view, _, _ in inputs]
        self._use(found, self.node, tuple(names), atoms=atoms)
        return found

    def rank(self, factors: Sequence[Part], variable: str) -> Part:
        """A ranking of the product of some numbers."""
        name = f"ranking of {' * '.join(part.name for part in factors)}"
        return self._use(self._numbered(name, RANKING, factors), self.node, (variable,))

    def _find_order(self, view: View, columns: tuple[int, ...]) -> Part:
        """A view's relation with its columns in this order."""
        if view.stream is not None:
            if view.stream.arity == 2:
                return self._index(view.stream, ADJACENCY, columns[0])
            found = self.parts.tuples(view.stream, columns)
            return self._use(found, guard=self.atoms[view.stream])
        assert view.part is not None
        if view.width < 2:
            return view.part
        return self._use(self.parts.order(view.part, columns))

    # Enumeration

    def _add_level(self, number: int) -> None:
        node = self.plan.nodes[number]
        if not node.bag:
            return
        if not node.interface:
            root = self._root(number)
            place = self.place[node.bag[0]]
            level = Level(root.relation, (), (place,), weighs=False)
            self.climbs[place] = Climb(self.walk.add_level(level))
            self._add_numbers(root)
        if len(node.bag) == 2:
            above = node.interface[0] if node.interface else node.bag[0]
            other = next(v for v in node.bag if v != above)
            edge = self._edge(node, above)
            place, below = self.place[above], self.place[other]
            level = Level(edge.relation, (place,), (below,), weighs=True)
            piece = self.walk.add_level(level, self._climb_from(above))
            if isinstance(edge, Step) and edge.by_other is not None:  # else nothing hangs on it
                self.climbs[below] = Climb(piece, edge.by_other.relation, (below, place))
            self._add_numbers(edge)

    def _add_numbers(self, part: Part) -> None:
        """Where the numbers of a level's entries are found."""
        if self.walk.numbers is None:
            return
        if isinstance(part, Step) and part.kind == NUMBERED_EDGE:
            part = part.factors[0]
            self.walk.numbers.append(Below(part.numbers, part.relation))
        else:
            kind = ENTRY if isinstance(part, Index) else part.numbers
            self.walk.numbers.append(Below(kind, part.relation))

    def _add_counts(self, number: int) -> None:
        """What multiplies the answers of a witness node: its guard, and who only counts."""
        node = self.plan.nodes[number]
        if not node.bag:
            return
        guard = self._guard(node)
        if guard is not None:
            variable = node.bag[0]
            place, climb = self.place[variable], self._climb_from(variable)
            self.walk.multiply(guard.relation, (place,), climb)
        for child in self._hidden(node):
            variable = self.plan.nodes[child].interface[0]
            place = self.place[variable]
            counts = self._factor(child, variable).relation
            self.walk.multiply(counts, (place,), self._climb_from(variable))

    def _hidden(self, node: Node) -> Iterable[int]:
        return [c for c in node.children if self.plan.nodes[c].role is Role.EXISTENTIAL]

    def _add_rule_level(self, number: int) -> None:
        node = self.plan.nodes[number]
        live, order = self.live[number]
        places = [self.place[v] for v in order]
        width = len(node.interface)
        interface, binds = tuple(places[:width]), tuple(places[width:])
        climb = self._climb_of(number)
        piece: int | None
        if self.rule_numbers is not None and binds:
            levels, ranking = self.rule_numbers.levels[number], self.rule_numbers.rankings
            top = None if interface else ranking[number].relation
            piece = self.walk.add_numbered(live.relation, interface, binds, climb, levels, top)
        elif binds:
            level = Level(live.relation, interface, binds, weighs=True)
            piece = self.walk.add_level(level, climb)
        else:
            piece = self.walk.multiply(live.relation, interface, climb)
        assert piece is not None
        for variable in node.introduces:
            self.binders[variable] = number, piece
        for child in node.children:
            below = self.plan.nodes[child].interface
            if len(below) > 1:
                self.node_climbs[child] = self._climb_to(number, piece, below)

    def _climb_of(self, number: int) -> Climb | None:
        if number in self.node_climbs:
            return self.node_climbs[number]
        interface = self.plan.nodes[number].interface
        return self._climb_from(interface[0]) if interface else None

    def _climb_from(self, variable: str) -> Climb:
        """The way from what hangs on a variable to where that is bound, maybe above its parent."""
        place = self.place[variable]
        if place not in self.climbs:
            self.climbs[place] = self._climb_to(*self.binders[variable], (variable,))
        return self.climbs[place]

    def _climb_to(self, number: int, piece: int, interface: Sequence[str]) -> Climb:
        """The way from a child with that interface to the tuples of a node that is a rule."""
        view, names = self.covers[number]
        if set(interface) == set(names):
            return Climb(piece)
        order = (*interface, *(v for v in names if v not in interface))
        index = self._find_order(view, tuple(names.index(v) for v in order))
        return Climb(piece, index.relation, tuple(self.place[v] for v in order))

    def _add_rule_counts(self, number: int) -> None:
        """What multiplies the answers of a rule: the children that only count."""
        node = self.plan.nodes[number]
        for child in self._hidden(node):
            view, names = self.marginal(child)
            if self.is_folded(node, child) and node.children:
                continue
            counts = self._find_order(view, tuple(range(view.width)))
            places = tuple(self.place[v] for v in names)
            self.walk.multiply(counts.relation, places, self._climb_of(child))


def is_one_stream(inputs: Sequence[Input]) -> bool:
    """Whether all inputs are the pairs of one stream, with their counts."""
    first = inputs[0]
    return len(inputs) > 1 and all(
        each.view == first.view and each.view.stream is not None and each.use == COUNT
        and each.view.width == 2 and each.view.listing is None for each in inputs
    )  # fmt: skip


def name_rule(
    inputs: Sequence[Input], head: Sequence[int], checks: Sequence[Check], is_listing: bool
) -> str:
    """All that a rule means: its inputs with their variables and uses, its head, its checks.

    Names of inputs are canonical, and a judge keeps its number while a part needs it.
    """
    words = []
    for each in inputs:
        view = each.view
        source = view.stream.name if view.stream is not None else view.part and view.part.name
        use = "" if each.use == COUNT else " there"
        words.append(f"{source}{each.variables}{use}")
    tested = "".join(f" if judge {check.judge}{check.variables}" for check in checks)
    text = f"{'changes' if is_listing else 'rule'} {tuple(head)}: {' * '.join(words)}{tested}"
    if len(text) <= MOST_NAMED:
        return text
    return f"{text[:40]}… {blake2b(text.encode(), digest_size=16).hexdigest()}"


def preferred_columns(plan: Plan) -> dict[Alias, int]:
    """By atom, the column of the first index of pairs that the plan reads of its label."""
    columns: dict[str, int] = {}
    for node in plan.nodes:
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


def variable_place(node: Node, variable: str) -> int:
    return node.bag.index(variable)
