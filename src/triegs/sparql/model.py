"""The query model: what a query text means, as small immutable values.

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
    """What becomes of equal solutions: all kept, all but one dropped, or either."""

    KEEP = "keep"
    DISTINCT = "distinct"
    REDUCED = "reduced"


class Operator(Enum):
    """How results become a stream: all of them, those that are new, those that are gone."""

    RSTREAM = "RSTREAM"
    ISTREAM = "ISTREAM"
    DSTREAM = "DSTREAM"


@dataclass(frozen=True, slots=True)
class Output:
    """``REGISTER RSTREAM <name> AS``: the operator, and the name of the stream of results."""

    operator: Operator
    name: str


def is_variable(term: str) -> bool:
    """
    >>> is_variable("?x"), is_variable('"?x"')
    (True, False)
    """
    return term.startswith("?")


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
    """A ``VALUES`` block: a static relation whose weight is how often a row is written."""

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
        part = stack.pop()
        if isinstance(part, str):
            found += [part] if is_variable(part) else []
        elif isinstance(part, Call):
            stack += reversed(part.arguments)
        elif isinstance(part, Aggregate):
            stack.append(part.argument)
    return _distinct(found)


@dataclass(frozen=True, slots=True)
class Column:
    """A named expression: ``(COUNT(?x) AS ?n)``, or a plain variable under its own name."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Grouping:
    """``GROUP BY`` keys, the output columns over keys and aggregates, and ``HAVING``.

    No keys means one group, which exists even when nothing matches.
    """

    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    having: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A list of atoms with a head, and what surrounds it.

    ``atoms`` is a list on purpose: an atom written twice counts twice. ``head`` holds the
    output columns in order; one that the body does not bind is an unbound column.
    ``filters`` all apply to the whole body (the front end has resolved their scopes).
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
    #: For each atom the graph that it reads, empty for the one of the engine; () if all do.
    graphs: tuple[str, ...] = ()
    #: The windows that the text names, in its order, by name.
    windows: tuple[tuple[str, Window], ...] = ()
    output: Output | None = None
    #: What is right SPARQL and most likely not meant, each with its place in the text.
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that the body binds, in order of first appearance."""
        names = [name for atom in self.atoms for name in atom.variables]
        return _distinct(names + [name for block in self.values for name in block.variables])

    @property
    def free(self) -> tuple[str, ...]:
        """The bound variables that answers must tell apart: the head that a plan enumerates.

        >>> Query(Form.SELECT, ("?x", "?gone"), (Atom("?x", "<p>", "?y"),)).free
        ('?x',)
        """
        wanted: list[str] = list(self.head)
        if self.grouping is not None:
            parts = [column.expression for column in self.grouping.keys + self.grouping.columns]
            wanted = [
                v for part in [*parts, *self.grouping.having] for v in expression_variables(part)
            ]
        bound = set(self.variables)
        return _distinct([name for name in wanted if name in bound])
