"""The plan: a compiled query as data, evaluated bottom-up.

A plan is a list of nodes, children before parents. Node *u* has a bag ``X`` of variables, an
optional guard ``G`` over that bag, and children *c* with interfaces ``I_c``. It means

    ``V_u(a) = G_u(a) * product of P_c(a restricted to I_c)``
    ``P_u(b) = sum of V_u(a) over the a that restrict to b``

where ``b`` ranges over the node's own interface. In a node without a guard, a product node, some
child has the whole bag as its interface. The root has the empty interface, so ``P_root`` is the
total multiplicity. ``triegs.testing.reference`` executes this definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from triegs.sparql.model import (
    Atom,
    Expression,
    Query,
    Values,
    is_variable,
    split_event_graph,
)

#: The most columns of a relation; wider bags are refused.
MOST_COLUMNS = 16


class PlanClass(Enum):
    """The class of a query, from the strongest promise to the weakest."""

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
    """Optional payloads: O(1) totals, and access by position."""

    COUNT = "count"
    SLICE = "slice"


class Use(Enum):
    """How a join reads an input: its counts, or only whether a count is positive."""

    COUNT = "count"
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Alias:
    """One atom as a relation over its variables, with the filters that fit inside it.

    Constants and repeated variables of the atom are selections. Two atoms over one label are two
    aliases of one base relation.
    """

    atom: Atom
    filters: tuple[Expression, ...] = ()
    #: The graph that it reads; empty for the engine's graph.
    graph: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        return self.atom.variables

    @property
    def relation(self) -> str | None:
        """What it reads: its label in its graph; None for all triples of the engine's graph."""
        name = self.label or ""
        return f"{self.graph} {name}".strip() or None

    @property
    def label(self) -> str | None:
        """The constant predicate, or None when the predicate is a variable."""
        predicate = self.atom.predicate
        return None if is_variable(predicate) else predicate

    @property
    def event_label(self) -> str:
        """The predicate of the events whose times the atom has; empty for other atoms."""
        return split_event_graph(self.graph)[1]

    @property
    def is_selected(self) -> bool:
        """Whether an index must omit tuples, because of a filter or a repeated variable.

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
    """The marginal of another node that a join reads, with its variables in the join."""

    node: int
    use: Use
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A materialised relation: a bag of a cyclic core, or a component that is not free-connex.

    Its value at a tuple of the node's bag is the sum, over the other variables of its inputs,
    of the product of the inputs used by count, where every support is positive and every filter
    holds. ``width`` is the least number of inputs that cover its variables.
    """

    inputs: tuple[Input, ...]
    filters: tuple[Expression, ...]
    width: int

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v for source in self.inputs for v in source.variables))


#: The variable that numbers the digits of a sum.
DIGIT = "?_:digit"


@dataclass(frozen=True, slots=True)
class WholeDigit:
    """The whole digit of each value of a variable, which is all of a 64-bit integer: a relation
    over terms, weighted by the digit, that no update changes. Multiplied into a count it makes a
    sum; see `triegs.maintain.digits`.
    """

    variable: str
    filters: tuple[Expression, ...] = ()  # none, as for other guards

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable,)


@dataclass(frozen=True, slots=True)
class Digits:
    """All other digits of the values of a variable: a relation over terms and digit numbers,
    weighted by the digits, that no update changes. With the whole digit it makes a sum that is
    exact for every type of number.
    """

    variable: str
    filters: tuple[Expression, ...] = ()  # none, as for other guards

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable, DIGIT)


@dataclass(frozen=True, slots=True)
class Extreme:
    """Every value of a variable as its own lowest, or highest. A node above it keeps the lowest or
    highest value below each tuple of its interface, instead of a sum of products.
    """

    variable: str
    is_last: bool
    filters: tuple[Expression, ...] = ()  # none, as for other guards

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable,)


Guard = Alias | Static | Join | WholeDigit | Digits | Extreme


@dataclass(frozen=True, slots=True)
class Node:
    """One rule of the plan; the module's docstring defines its meaning.

    Nodes of any queries with equal ``key`` have equal marginals on every graph. The key does not
    depend on variable names.
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
        """The variables of the bag that are not in the interface."""
        return tuple(v for v in self.bag if v not in self.interface)

    @property
    def is_leaf(self) -> bool:
        """Whether it is a leaf, which stores nothing: a shared index is its view."""
        return isinstance(self.guard, Alias | Static) and not self.children


@dataclass(frozen=True, slots=True)
class Component:
    """A compiled connected component: its class, its top node, and the choices made for it.

    ``choices`` replays the compilation of the component; ``root`` is the top node's bag.
    """

    atoms: tuple[int, ...]
    plan_class: PlanClass
    top: int
    root: tuple[str, ...]
    choices: tuple[int, ...]
    cost: float
    warnings: tuple[str, ...]


class Measure(Enum):
    """What is kept for each group. Every sum has two measures."""

    COUNT = "its number of answers"
    WHOLE_SUM = "the sum of whole digits"
    SUM = "its sum, by all other digits"
    VALUES = "its values, with their numbers of answers"
    LOWEST = "its lowest value"
    HIGHEST = "its highest value"
    DISTINCT = "its number of distinct values"
    DISTINCT_WHOLE_SUM = "the sum of the whole digits of its distinct values"
    DISTINCT_SUM = "the sum of its distinct values, by all other digits"


@dataclass(frozen=True, slots=True)
class Source:
    """A relation that aggregates are computed from: a measure by the variables of the keys.

    The interface of the root of ``plan`` has these variables and those of ``values``; for a sum it
    has `DIGIT` instead of these, and for the sum of whole digits neither. What counts distinct
    values is computed from their relation. Components without any of these variables multiply
    counts and sums.
    """

    measure: Measure
    values: tuple[str, ...]
    plan: Plan
    #: The number of the root among the nodes of the whole plan.
    root: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """How the groups of a query are kept: the variables of their keys, and the sources.

    The first source lists the groups: it counts their answers, unless only extremes are asked for.
    """

    variables: tuple[str, ...]
    sources: tuple[Source, ...]
    #: For each column that is an aggregate, the number of the source that it is computed from.
    columns: tuple[int | None, ...]

    def find(self, measure: Measure, values: tuple[str, ...] = ()) -> int:
        """The number of the source with that measure."""
        wanted = measure, values
        return next(
            i for i, each in enumerate(self.sources) if (each.measure, each.values) == wanted
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled query: immutable, comparable, printable.

    ``order`` lists the witness nodes in the order in which enumeration opens cursors, parents
    first. ``filters`` run during enumeration, over head variables only.
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
    #: For a query with aggregates; the nodes are then those of all its sources.
    groups: Groups | None = None

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


def is_by_variable(plan: Plan, node: Node) -> bool:
    """Whether a node is maintained as an edge, product or total; otherwise it is a rule."""
    below = [plan.nodes[c].interface for c in node.children]
    if any(len(interface) > 1 for interface in (node.interface, *below)):
        return False
    if isinstance(node.guard, Join) or len(node.bag) > 2:
        return False
    if not node.bag:  # one assertion, some rows, or a product of components
        return node.guard is None or not below
    if () in below:
        return False
    return isinstance(node.guard, Alias) or len(node.bag) == 1
