"""From a plan to the parts of the compiled core, by variables instead of atoms.

With ``v`` the variable that a node shares with its parent and ``w`` the one that it introduces:

- a node over the label ``G(v, w)`` is an *edge*: ``P(v) = sum over w of G(v, w) * N(w)``, where
  ``N(w)`` is the product of the children on ``w``. Without such children its view is the label's
  own index. For a witness the edge keeps the live pairs instead of sums;
- children on ``v``, and guards of one variable (constants, a repeated variable, `VALUES`), are
  further factors of ``v``: a *product* if there are several;
- the top of a component is a product that lists its variable, or a *total* if the head shows
  nothing of it.

A plan that keeps numbers has, in the place of live pairs and products of its witnesses, the parts
with numbers of `triegs.kernels.sums`; tops are ranked, and an edge without children is the label's
index with summed hubs.

`triegs.compiler.fragment` says what is outside: it is left to `triegs.maintain.program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

from triegs.compiler.keys import static_text
from triegs.compiler.plan import Alias, Node, Payload, Plan, Role, Static
from triegs.kernels.program import (
    ADJACENCY,
    COUNTS,
    EDGE,
    NUMBERED_EDGE,
    NUMBERED_PRODUCT,
    PRODUCT,
    RANKING,
    SAME,
    TOTAL,
)
from triegs.kernels.sums import ENTRY
from triegs.maintain.parts import Index, Part, Parts, Step
from triegs.maintain.walk import Below, Climb, Level, Walk
from triegs.mode import Mode
from triegs.sparql.model import Duplicates, Form, is_variable

Encode = Callable[[str], int]


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
    is_simple = mode is Mode.RDF and not any(
        node.role is Role.EXISTENTIAL or isinstance(node.guard, Static) for node in plan.nodes
    )
    if Payload.TOTAL in kept and not drops_counts and not is_simple:
        return [Numbers.ROWS, Numbers.ANSWERS, Numbers.NONE]
    return [Numbers.ANSWERS, Numbers.NONE]


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
        self.held: dict[Part, None] = {}
        self.columns = preferred_columns(plan)
        self.factors: dict[tuple[str, str], Part] = {}
        self.place = {name: i for i, name in enumerate(plan.query.free)}
        self.walk = Walk(len(self.place), has_rows=self.has_rows)
        if self.is_numbered:
            self.walk.numbers = []
        #: By place, how what hangs on its variable leads back to where it was bound.
        self.climbs: dict[int, Climb] = {}

    def run(self) -> Walk:
        """Make, or find, every part; returns how the answers are enumerated."""
        # Children come before parents, so that no long chain of nodes is gone down by recursion.
        for node in self.plan.nodes:
            if node.interface:
                self._factor(node, node.interface[0])
        for component in self.plan.components:
            self._lower_top(component.top)
        for number in self.plan.order:
            self._add_level(number)
        for number in self.plan.order:
            self._add_counts(number)
        for component in self.plan.components:
            node = self.plan.nodes[component.top]
            if node.role is Role.EXISTENTIAL:
                self.walk.totals.append(self._scalar(node))
        for part in self.held:
            part.uses += 1
        return self.walk

    def _lower_top(self, number: int) -> None:
        node = self.plan.nodes[number]
        if node.role is Role.EXISTENTIAL:
            if node.bag:
                self._total(node)
        elif node.bag:
            self._root(node)

    # Parts

    def _use(self, part: Part) -> Part:
        self.held[part] = None
        return part

    def _index(self, alias: Alias, kind: int, variable: str, condition: int = -1) -> Index:
        label = alias.relation
        assert label is not None
        predicate = self.encode(label)
        column = 0 if alias.atom.subject == variable else 1
        self._use(self.parts.counts(predicate, self.columns.get(label, 0)))
        found = self.parts.index(predicate, kind, column, condition)
        self._use(found)
        return found

    def _guard(self, node: Node) -> Part | None:
        """The relation of a guard of one variable."""
        variable = node.bag[0]
        if isinstance(node.guard, Static):
            rows = [tuple(map(self.encode, row)) for row in node.guard.values.rows]
            return self._use(self.parts.fixed(static_text(node.guard), rows))
        if not isinstance(node.guard, Alias) or len(node.bag) > 1:
            return None
        atom = node.guard.atom
        other = atom.object if atom.subject == variable else atom.subject
        condition = SAME if is_variable(other) else self.encode(other)
        return self._index(node.guard, COUNTS, variable, condition)

    def _children(self, node: Node, variable: str) -> list[Part]:
        nodes = self.plan.nodes
        wanted = [c for c in node.children if nodes[c].interface == (variable,)]
        return [self._factor(nodes[c], variable) for c in wanted]

    def _product(self, name: str, factors: Sequence[Part], is_exact: bool) -> Part:
        if len(factors) == 1:
            factors[0].listed = True
            return factors[0]
        if self.is_numbered and not is_exact:
            return self._numbered(name, NUMBERED_PRODUCT, factors)
        return self._use(self.parts.step(name, PRODUCT, is_exact, tuple(factors)))

    def _numbered(
        self, name: str, kind: int, factors: Sequence[Part], by_other: Index | None = None
    ) -> Part:
        name += self.numbers_name
        return self._use(self.parts.step(name, kind, self.has_rows, tuple(factors), by_other))

    def _factor(self, node: Node, variable: str) -> Part:
        """A node's marginal over one variable of its bag: its interface, or the top's choice."""
        found = self.factors.get((node.name, variable))
        if found is None:
            name = f"{node.key} by {variable_place(node, variable)}"
            is_exact = node.role is Role.EXISTENTIAL
            found = self._product(name, self._factors(node, variable), is_exact)
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
        other = next(v for v in node.bag if v != variable)
        is_exact = node.role is Role.EXISTENTIAL
        below = self._children(node, other)
        is_numbered = self.is_numbered and not is_exact
        if not below:
            index = self._index(alias, COUNTS if is_exact else ADJACENCY, variable)
            return self.parts.summed(index) if is_numbered else index
        name = f"{node.key} edge by {variable_place(node, variable)}"
        child = self._product(f"{name} below", below, is_exact)
        by_other = self._index(alias, ADJACENCY, other)
        if is_numbered:
            return self._numbered(name, NUMBERED_EDGE, (child,), by_other)
        return self._use(self.parts.step(name, EDGE, is_exact, (child,), by_other))

    def _root(self, node: Node) -> Part:
        """What lists the values of a top variable."""
        factors = self._factors(node, node.bag[0])
        if self.is_numbered:
            return self._numbered(f"root {node.key}", RANKING, factors)
        return self._product(f"root {node.key}", factors, is_exact=False)

    def _total(self, node: Node) -> Part:
        factors = tuple(self._factors(node, node.bag[0]))
        return self._use(self.parts.step(f"total {node.key}", TOTAL, True, factors))

    def _scalar(self, node: Node) -> tuple[Any, tuple[int, ...]]:
        """The entry that holds the count of a component without head variables."""
        if node.bag:
            return self._total(node).relation, ()
        if isinstance(node.guard, Static):  # a number, as the weight of one row
            row = (0,)
            rows = [row] * len(node.guard.values.rows)
            number = self.parts.fixed(f"{len(rows)} rows without columns", rows)
            return self._use(number).relation, row
        assert isinstance(node.guard, Alias)  # no variable at all: one assertion
        atom, label = node.guard.atom, node.guard.relation
        assert label is not None
        predicate = self.encode(label)
        column = self.parts.counts(predicate, self.columns.get(label, 0)).column
        self._use(self.parts.counts(predicate))
        weights = self._use(self.parts.index(predicate, ADJACENCY, column))
        key = self.encode(atom.subject), self.encode(atom.object)
        return weights.relation, key if column == 0 else key[::-1]

    # Enumeration

    def _add_level(self, number: int) -> None:
        node = self.plan.nodes[number]
        if not node.bag:
            return
        if not node.interface:
            root = self._root(node)
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
            number = self.walk.add_level(level, self.climbs[place])
            if isinstance(edge, Step) and edge.by_other is not None:  # else nothing hangs on it
                self.climbs[below] = Climb(number, edge.by_other.relation, (below, place))
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
            place = self.place[node.bag[0]]
            self.walk.multiply(guard.relation, (place,), self.climbs[place])
        for child in self._hidden(node):
            variable = child.interface[0]
            place = self.place[variable]
            counts = self._factor(child, variable).relation
            self.walk.multiply(counts, (place,), self.climbs[place])

    def _hidden(self, node: Node) -> Iterable[Node]:
        children = (self.plan.nodes[c] for c in node.children)
        return [child for child in children if child.role is Role.EXISTENTIAL]


def preferred_columns(plan: Plan) -> dict[str, int]:
    """By label, the column of the first index of pairs that the plan reads."""
    columns: dict[str, int] = {}
    for node in plan.nodes:
        if not isinstance(node.guard, Alias) or len(node.bag) < 2:
            continue
        above = node.interface[0] if node.interface else node.bag[0]
        other = next(v for v in node.bag if v != above)
        atom, label = node.guard.atom, node.guard.relation or ""
        if any(plan.nodes[c].interface == (other,) for c in node.children):
            columns.setdefault(label, 0 if atom.subject == other else 1)
        elif node.role is Role.WITNESS:
            columns.setdefault(label, 0 if atom.subject == above else 1)
    return columns


def variable_place(node: Node, variable: str) -> int:
    return node.bag.index(variable)
