"""The plan: a query as data, to be run bottom-up by any executor.

A plan is a list of nodes, children before parents. Node *u* has a bag ``X`` of variables, an
optional guard ``G`` over that bag, children *c* with interfaces ``I_c``, and means

    ``V_u(a) = G_u(a) * product of P_c(a restricted to I_c)``
    ``P_u(b) = sum of V_u(a) over the a that restrict to b``

where ``b`` ranges over the node's own interface. Without a guard some child has the whole bag
as its interface: a product node. The root has the empty interface, so ``P_root`` is the total
multiplicity. ``triegs.testing.reference`` is this definition, executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from triegs.sparql.model import Atom, Expression, Query, Values, is_variable

#: Of a relation; wider bags are refused.
MOST_COLUMNS = 16


class PlanClass(Enum):
    """What can be promised; ordered from the strongest promise to the weakest."""

    FULL_ACYCLIC = "full-acyclic"
    FREE_CONNEX = "free-connex"
    MATERIALIZED = "materialized"
    CYCLIC = "cyclic"


class Role(Enum):
    """A witness node binds head variables in its subtree; an existential one only counts."""

    WITNESS = "witness"
    EXISTENTIAL = "existential"


class Payload(Enum):
    """What a node keeps per entry."""

    EXACT = "exact marginal"
    LIVENESS = "liveness"
    TOTAL = "total count"
    POSITION = "position"


class Keep(Enum):
    """Payloads that a user asks for: O(1) totals, and access by position."""

    COUNT = "count"
    SLICE = "slice"


class Use(Enum):
    """How a join reads an input: with its counts, or only whether a count is positive."""

    COUNT = "count"
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Alias:
    """One atom as a relation over its variables, with the filters that fit inside it.

    Constants and repeated variables of the atom are selections. Two atoms over one label are
    two aliases of one base relation.
    """

    atom: Atom
    filters: tuple[Expression, ...] = ()
    #: The graph that it reads, empty for that of the engine.
    graph: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        return self.atom.variables

    @property
    def relation(self) -> str | None:
        """What it reads: its label, in its graph; None for all triples of the engine's graph."""
        name = self.label or ""
        return f"{self.graph} {name}".strip() or None

    @property
    def label(self) -> str | None:
        """The constant predicate, or None when the predicate is a variable."""
        predicate = self.atom.predicate
        return None if is_variable(predicate) else predicate

    @property
    def is_selected(self) -> bool:
        """Whether an index must leave tuples out: a filter, or a variable that repeats.

        Constants select too, but they lead the key of the plain base index.
        """
        return bool(self.filters) or len(self.variables) < sum(map(is_variable, self.atom))


@dataclass(frozen=True, slots=True)
class Static:
    """A ``VALUES`` block as a relation that no update changes."""

    values: Values
    filters: tuple[Expression, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return self.values.variables


@dataclass(frozen=True, slots=True)
class Input:
    """What a join reads of another node: its marginal, over the variables it has there."""

    node: int
    use: Use
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A materialised relation: a bag of a cyclic part, or a stuck component.

    Its value at a tuple of the node's bag is the sum, over the other variables of its inputs,
    of the product of the inputs used with their counts, where every support is positive and
    every filter holds. ``width`` is the least number of inputs that cover its variables.
    """

    inputs: tuple[Input, ...]
    filters: tuple[Expression, ...]
    width: int

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v for source in self.inputs for v in source.variables))


Guard = Alias | Static | Join


@dataclass(frozen=True, slots=True)
class Node:
    """One rule of the plan; see the module's text for what it means.

    ``key`` is equal for two nodes, of one query or of two, whose marginals are equal on every
    graph by construction; variable names do not enter it.
    """

    name: str
    bag: tuple[str, ...]
    guard: Guard | None
    children: tuple[int, ...]
    interface: tuple[str, ...]
    role: Role
    payload: tuple[Payload, ...]
    key: str

    @property
    def introduces(self) -> tuple[str, ...]:
        """The variables of the bag that the parent does not know."""
        return tuple(v for v in self.bag if v not in self.interface)

    @property
    def is_leaf(self) -> bool:
        """A leaf stores nothing of its own: a shared index is its view."""
        return isinstance(self.guard, Alias | Static) and not self.children


@dataclass(frozen=True, slots=True)
class Component:
    """A connected part of the query: its class, its top node, and the choices made for it.

    ``choices`` replays the compilation of the component; ``root`` is the top node's bag.
    """

    atoms: tuple[int, ...]
    plan_class: PlanClass
    top: int
    root: tuple[str, ...]
    choices: tuple[int, ...]
    cost: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled query: immutable, comparable, printable.

    ``order`` lists the witness nodes as an enumerator opens its cursors, parents first;
    ``filters`` are those that run while enumerating, over head variables only.
    """

    query: Query
    nodes: tuple[Node, ...]
    root: int
    components: tuple[Component, ...]
    plan_class: PlanClass
    promise: str
    order: tuple[int, ...]
    filters: tuple[Expression, ...]
    warnings: tuple[str, ...]

    @property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """One list of picks per component; ``compile_query(…, choices=…)`` replays them."""
        return tuple(component.choices for component in self.components)

    @property
    def cost(self) -> float:
        return sum(component.cost for component in self.components)

    def node(self, name: str) -> Node:
        """The node of that name, as ``explain`` prints it."""
        return next(node for node in self.nodes if node.name == name)
