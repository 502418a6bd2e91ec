"""The query model: a parsed query as small immutable values.

A *term* is a string. ``?x`` is a variable; anything else is a constant in N-Triples form
(``<http://…>``, ``"5"^^<…integer>``, ``"hi"@en``). A blank node of the query is a body
variable named ``?_:label``, a name that no SPARQL variable can have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from triegs.sparql.window import Window


class Form(Enum):
    SELECT = "SELECT"
    ASK = "ASK"


class Duplicates(Enum):
    """Whether equal solutions are kept, dropped, or either."""

    KEEP = "keep"
    DISTINCT = "distinct"
    REDUCED = "reduced"


class Operator(Enum):
    """How results become a stream: all of them, new ones, or removed ones."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


@dataclass(frozen=True, slots=True)
class Output:
    """``REGISTER RSTREAM <name> AS``: the operator, and the name of the result stream."""

    operator: Operator
    name: str


def is_variable(term: str) -> bool:
    """
    >>> is_variable("?x"), is_variable('"?x"')
    (True, False)
    """
    return term.startswith("?")


def name_event_graph(graph: str, predicate: str) -> str:
    """The graph of the events of a predicate in another graph: each triple has as its predicate
    the time of an event, so a pattern with a time is an atom ``?s ?time ?o`` over it.

    >>> name_event_graph("#3", "<http://ex/p>"), split_event_graph("#3@<http://ex/p>")
    ('#3@<http://ex/p>', ('#3', '<http://ex/p>'))
    """
    return f"{graph}@{predicate}"


def split_event_graph(name: str) -> tuple[str, str]:
    """The graph that a name contains, and the predicate of events; empty if it is not of events.

    >>> split_event_graph("<mailto:me@ex>")
    ('<mailto:me@ex>', '')
    """
    graph, is_found, rest = name.rpartition("@<")  # neither is part of an IRI
    return (graph, f"<{rest}") if is_found else (name, "")


def _distinct(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


class Atom(NamedTuple):
    """One triple pattern.

    >>> Atom("?v", "<http://ex/hasReply>", "?z").variables
    ('?v', '?z')
    """

    subject: str
    predicate: str
    object: str

    @property
    def variables(self) -> tuple[str, ...]:
        """The distinct variables in the order subject, predicate, object."""
        return _distinct([term for term in self if is_variable(term)])


@dataclass(frozen=True, slots=True)
class Values:
    """A ``VALUES`` block: a static relation; repeated rows count."""

    variables: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function applied to arguments; ``sparql.expressions.OPERATORS`` lists them."""

    operator: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``function`` is COUNT, SUM, AVG, MIN or MAX; ``argument`` is None for ``COUNT(*)``."""

    function: str
    argument: Expression | None
    duplicates: Duplicates = Duplicates.KEEP


#: A term (variable or constant), an operator call, or, above a grouping, an aggregate.
Expression = str | Call | Aggregate


def expression_variables(expression: Expression | None) -> tuple[str, ...]:
    """The distinct variables of an expression, in reading order.

    >>> expression_variables(Call("<", ("?x", Call("+", ("?y", "?x")))))
    ('?x', '?y')
    """
    found: list[str] = []
    stack: list[Expression | None] = [expression]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found += [item] if is_variable(item) else []
        elif isinstance(item, Call):
            stack += reversed(item.arguments)
        elif isinstance(item, Aggregate):
            stack.append(item.argument)
    return _distinct(found)


@dataclass(frozen=True, slots=True)
class Column:
    """A named expression: ``(COUNT(?x) AS ?n)``, or a plain variable under its own name."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Grouping:
    """``GROUP BY`` keys, the output columns over keys and aggregates, and ``HAVING``.

    No keys means one group, which exists even when nothing matches. If ``is_partial``, the answers
    are those of one partition, and only what can be added up over partitions is kept.
    """

    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    having: tuple[Expression, ...] = ()
    is_partial: bool = False


class Direction(Enum):
    ASCENDING = "ASC"
    DESCENDING = "DESC"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of ``ORDER BY``: an expression over columns of the head, or a hidden column."""

    expression: Expression
    direction: Direction = Direction.ASCENDING


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: a list of atoms with a head and modifiers.

    ``atoms`` is a list because an atom written twice counts twice. ``head`` holds the output
    columns in order; a column that the body does not bind is unbound. All ``filters`` apply to the
    whole body, because the front end has resolved their scopes.
    """

    form: Form
    head: tuple[str, ...]
    atoms: tuple[Atom, ...]
    values: tuple[Values, ...] = ()
    filters: tuple[Expression, ...] = ()
    duplicates: Duplicates = Duplicates.KEEP
    limit: int | None = None
    offset: int = 0
    grouping: Grouping | None = None
    text: str = field(default="", compare=False, repr=False)
    #: The graph that each atom reads, empty for the engine's graph; () if all read that one. For a
    #: pattern with a time it is an event graph, see `name_event_graph`.
    graphs: tuple[str, ...] = ()
    #: The windows of the text by name, in order.
    windows: tuple[tuple[str, Window], ...] = ()
    output: Output | None = None
    #: Valid SPARQL that is likely a mistake, each with its line and column.
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)
    #: How snapshots are sorted, first key first; plans do not depend on it.
    order: tuple[OrderKey, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that the body binds, in order of first appearance."""
        names = [name for atom in self.atoms for name in atom.variables]
        return _distinct(names + [name for block in self.values for name in block.variables])

    @property
    def reads_times(self) -> bool:
        """Whether a pattern has the time of its event."""
        return any(split_event_graph(name)[1] for name in self.graphs)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicate of each atom, a variable or an IRI; of an event graph, that of its events.

        >>> Query(Form.ASK, (), (Atom("?s", "?t", "?o"),), graphs=("@<p>",)).predicates
        ('<p>',)
        """
        names = self.graphs or ("",) * len(self.atoms)
        return tuple(
            split_event_graph(name)[1] or atom.predicate
            for name, atom in zip(names, self.atoms, strict=True)
        )

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns of a grouping that only ORDER BY uses; the head determines their values."""
        columns = () if self.grouping is None else self.grouping.columns
        return tuple(column.name for column in columns if column.name not in self.head)

    @property
    def free(self) -> tuple[str, ...]:
        """The bound variables that distinguish answers: the head that a plan enumerates.

        >>> Query(Form.SELECT, ("?x", "?gone"), (Atom("?x", "<p>", "?y"),)).free
        ('?x',)
        """
        wanted: list[str] = list(self.head)
        if self.grouping is not None:
            columns = self.grouping.keys + self.grouping.columns
            used = [*(column.expression for column in columns), *self.grouping.having]
            wanted = [v for expression in used for v in expression_variables(expression)]
        bound = set(self.variables)
        return _distinct([name for name in wanted if name in bound])
