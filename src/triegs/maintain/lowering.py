"""From a plan to the parts of the compiled core, by variables instead of atoms.

With ``v`` the variable that a node shares with its parent and ``w`` the one that it introduces:

- a node over the label ``G(v, w)`` is an *edge*: ``P(v) = sum over w of G(v, w) * N(w)``, where
  ``N(w)`` is the product of the children on ``w``. Without such children its view is the label's
  own index. For a witness the edge keeps the live pairs instead of sums;
- children on ``v``, and guards of one variable (constants, a repeated variable, `VALUES`), are
  further factors of ``v``: a *product* if there are several;
- the top of a component is a product that lists its variable, or a *total* if the head shows
  nothing of it.

`check_plan` says what is outside: it is left to `triegs.maintain.program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from triegs.compiler.keys import static_text
from triegs.compiler.plan import Alias, Guard, Node, Plan, Role, Static
from triegs.kernels.program import ADJACENCY, COUNTS, EDGE, PRODUCT, SAME, TOTAL
from triegs.maintain.parts import Index, Part, Parts, Step
from triegs.maintain.walk import Climb, Level, Walk
from triegs.sparql.model import is_variable

Encode = Callable[[str], int]


class NotCompiled(Exception):
    """The plan has something that the kernel does not know; the general program runs it."""


def check_plan(plan: Plan) -> None:
    """Raise `NotCompiled` for a plan that is outside the fragment; see the module's text."""
    for node in plan.nodes:
        if not _is_known(node, [plan.nodes[c].interface for c in node.children]):
            raise NotCompiled(f"the rule of {node.name}")


def _is_known(node: Node, below: Sequence[tuple[str, ...]]) -> bool:
    guard = node.guard
    if any(len(interface) > 1 for interface in (node.interface, *below)):
        return False
    if not node.bag:  # one assertion, or components side by side
        return bool(below) if guard is None else _is_plain(guard) and not below
    if () in below:
        return False
    if guard is None or isinstance(guard, Static):
        return len(node.bag) == 1 and (_is_plain(guard) if guard else bool(below))
    return _is_plain(guard)


def _is_plain(guard: Guard) -> bool:
    if isinstance(guard, Alias):
        return guard.label is not None and not guard.filters
    return isinstance(guard, Static) and not guard.filters


class Lowering:
    """One plan into parts; `held` lists all that it uses, children first."""

    def __init__(self, parts: Parts, plan: Plan, encode: Encode) -> None:
        self.parts = parts
        self.plan = plan
        self.encode = encode
        self.held: dict[Part, None] = {}
        self.columns = preferred_columns(plan)
        self.place = {name: i for i, name in enumerate(plan.query.free)}
        self.walk = Walk(len(self.place))
        #: By place, how what hangs on its variable leads back to where it was bound.
        self.climbs: dict[int, Climb] = {}

    def run(self) -> Walk:
        """Make, or find, every part; returns how the answers are enumerated."""
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
        return self._use(self.parts.step(name, PRODUCT, is_exact, tuple(factors)))

    def _factor(self, node: Node, variable: str) -> Part:
        """A node's marginal over one variable of its bag: its interface, or the top's choice."""
        is_exact = node.role is Role.EXISTENTIAL
        return self._product(f"{node.key} by {variable_place(node, variable)}",
                             self._factors(node, variable), is_exact)  # fmt: skip

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
        if not below:
            return self._index(alias, COUNTS if is_exact else ADJACENCY, variable)
        name = f"{node.key} edge by {variable_place(node, variable)}"
        child = self._product(f"{name} below", below, is_exact)
        by_other = self._index(alias, ADJACENCY, other)
        return self._use(self.parts.step(name, EDGE, is_exact, (child,), by_other))

    def _root(self, node: Node) -> Part:
        """What lists the values of a top variable."""
        factors = self._factors(node, node.bag[0])
        return self._product(f"root {node.key}", factors, is_exact=False)

    def _total(self, node: Node) -> Part:
        factors = tuple(self._factors(node, node.bag[0]))
        return self._use(self.parts.step(f"total {node.key}", TOTAL, True, factors))

    def _scalar(self, node: Node) -> tuple[Any, tuple[int, ...]]:
        """The entry that holds the count of a component without head variables."""
        if node.bag:
            return self._total(node).relation, ()
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
            root = self._root(node).relation
            place = self.place[node.bag[0]]
            self.climbs[place] = Climb(self.walk.add_level(Level(root, (), (place,), weighs=False)))
        if len(node.bag) == 2:
            above = node.interface[0] if node.interface else node.bag[0]
            other = next(v for v in node.bag if v != above)
            edge = self._edge(node, above)
            place, below = self.place[above], self.place[other]
            level = Level(edge.relation, (place,), (below,), weighs=True)
            number = self.walk.add_level(level, self.climbs[place])
            if isinstance(edge, Step) and edge.by_other is not None:  # else nothing hangs on it
                self.climbs[below] = Climb(number, edge.by_other.relation, (below, place))

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
