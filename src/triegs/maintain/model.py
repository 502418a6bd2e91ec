"""The maintained program as plain values: views, and the rules that maintain them.

A view is one relation plus the way an epoch maintains it: an *index* of a stream, filled from the
stream's entries; a *step* or a *rule*, computed from other views; a rule's output in another column
*order*; or *fixed* rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from triegs.maintain.kernels.tables import (
    ADJACENCY,
    ANY,
    BOTH,
    ORDERED_EDGE,
    ORDERED_PRODUCT,
    OWN,
    PRODUCT,
    RANKING,
    SORTED,
)
from triegs.maintain.streams import Stream, label_stream
from triegs.sparql.comparisons import Comparison
from triegs.store.kernels.layout import ORDERED, PLAIN, RANKED, SLOT_WORDS, SLOTS
from triegs.store.kernels.order_statistics import ANSWERED, BESIDE, COUNTED, SETS
from triegs.store.packed import PackedRelation

#: The relation layout for each kind of step that keeps order statistics.
LAYOUTS = {ORDERED_EDGE: ORDERED, ORDERED_PRODUCT: ORDERED, RANKING: RANKED}


@dataclass(slots=True, eq=False)
class View:
    """A maintained relation. `reads` is PRESENCE or COUNT: what readers use of a key."""

    name: str
    relation: PackedRelation
    reads: int
    uses: int = 0
    #: Whether an epoch lists the keys it changed.
    listed: bool = True
    #: Whether the hubs of the last column hold sums.
    is_summed: bool = False
    #: Rules only: whether an epoch lists the first-column ids that appeared or disappeared.
    has_keys: bool = False
    #: Rules with one column only: whether the counts are numbers of answers.
    is_answers: bool = False

    @property
    def address(self) -> int:
        return find_address(self.relation)

    @property
    def count_kind(self) -> int:
        """Where the counts of a key are stored, see `triegs.store.kernels.order_statistics`."""
        if self.relation.layout != PLAIN:
            return BESIDE
        if self.is_answers:
            return ANSWERED
        return SETS if self.is_summed else COUNTED


@dataclass(slots=True, eq=False)
class DigitView(View):
    """The whole digits of terms, or all others; see `triegs.maintain.digits`, which fills it."""


@dataclass(slots=True, eq=False)
class Index(View):
    """The entries of a stream: pairs by one column, their summed counts, or ordered tuples."""

    stream: Stream = field(default_factory=lambda: label_stream(0))
    kind: int = ADJACENCY
    column: int = 0
    condition: int = ANY
    order: tuple[int, ...] = ()


class Edge(NamedTuple):
    """What an edge reads besides its factor: a stream, with its key in a column. `by_other` leads
    from the other column back to the key; it is not needed if the factor never changes.
    """

    stream: Stream
    column: int
    by_other: Index | None


@dataclass(slots=True, eq=False)
class Step(View):
    """A relation computed from factors, and for an edge from a stream."""

    kind: int = PRODUCT
    is_exact: bool = False
    factors: tuple[View, ...] = ()
    edge: Edge | None = None
    #: An edge that carries extremes: the index of the stream by its first variable, whether they
    #: are the highest, how it reads its neighbours, and the judge of the order of terms.
    by_own: Index | None = None
    is_last: bool = False
    neighbours: int = OWN
    judge: int = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """A relation that a rule reads: the rows of a stream, a whole view, or the keys of a view's
    first column. A stream has a listing rule if only the presence of its tuples matters. A
    single-column stream is read through its index, which is a view.
    """

    width: int
    stream: Stream | None = None
    view: View | None = None
    listing: Rule | None = None
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """An operand over variables of the rule, read by COUNT or by PRESENCE."""

    operand: Operand
    variables: tuple[int, ...]
    use: int


@dataclass(frozen=True, slots=True)
class Check:
    """A judge, by number, applied to variables."""

    judge: int
    variables: tuple[int, ...]
    #: If it compares two of them, each of these can be found in a range.
    comparison: Comparison | None = None

    def solve(self, variable: int) -> Comparison:
        """The comparison, with this variable on the left."""
        assert self.comparison is not None
        names = self.comparison.left, self.comparison.right
        return self.comparison.solve(names[self.variables.index(variable)])


@dataclass(frozen=True, slots=True)
class Root:
    """The root of an input; `use` is LEADS unless the input has no columns. With `is_constant` it
    is the set below a constant in the first column.
    """

    word: int
    view: View
    is_old: bool
    use: int
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One column of an input: from a word to the word below a variable's value."""

    variable: int
    before: int
    is_trie: bool
    after: int
    use: int
    #: Whether the column holds sort keys of the variable.
    is_sort_key: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """A comparison that restricts the sort keys of a level, with the variable that is bound."""

    variable: int
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Binding:
    """A level: the variable it binds, and the inputs that contain the variable. With `ranges` it
    binds the sort key of the next level's variable instead, and has a single source.
    """

    variable: int
    sources: tuple[Move, ...]
    is_shown: bool
    checks: tuple[Check, ...]
    ranges: tuple[Range, ...] = ()
    #: Whether the ranges of the binding before are all its checks.
    is_covered: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one input, joined with all other inputs."""

    seeds: Operand
    variables: tuple[int, ...]
    use: int
    checks: tuple[Check, ...]
    roots: tuple[Root, ...]
    probes: tuple[Move, ...]
    levels: tuple[Binding, ...]
    #: With symmetry: whether the delta finds the answers NOW or BEFORE, and the orbit of its input.
    side: int = BOTH
    orbit: int = 0

    @property
    def width(self) -> int:
        return len(self.variables)

    @property
    def judges(self) -> Iterator[int]:
        for checks in (self.checks, *(level.checks for level in self.levels)):
            yield from (check.judge for check in checks)


@dataclass(frozen=True, slots=True)
class Symmetry:
    """The symmetry of a rule body. `orbits` maps each input to its orbit, the set of inputs that
    renaming turns it into. `images` holds all renamings, the identity first.
    """

    orbits: tuple[int, ...]
    images: tuple[tuple[int, ...], ...]


class Watch(NamedTuple):
    """Where the terms of a sum come from: a column of the updates with that predicate, or of all.

    Updates are rows ``(change, subject, predicate, object)``.
    """

    predicate: int | None
    column: int


@dataclass(slots=True, eq=False)
class Rule(View):
    """``out(head) = the sum over all other variables of the product of the inputs``.

    `deltas` cover all inputs; those of inputs that never change are used only to fill the rule.
    With `is_listed_only` the output is the relation of an existing index, and only its changes are
    listed.
    """

    arity: int = 0
    head: tuple[int, ...] = ()
    deltas: tuple[Delta, ...] = ()
    is_listed_only: bool = False
    symmetry: Symmetry | None = None
    #: With symmetry: the variables of each input.
    pairs: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True, eq=False)
class Order(View):
    """The output of a rule, or fixed rows, in another column order; possibly with sort keys, see
    `triegs.maintain.kernels.tables.SORTED`.
    """

    of: View | None = None
    columns: tuple[int, ...] = ()


def find_address(relation: PackedRelation) -> int:
    """The offset of a relation's slot in the words of its store."""
    return SLOTS + SLOT_WORDS * relation.slot


def is_counts(view: View) -> bool:
    return isinstance(view, Index) and view.name == view.stream.name


def is_fixed(view: View) -> bool:
    """Whether the view's rows never change, at least not those in use."""
    return type(view) in (View, DigitView)


def is_sorted(columns: Iterable[int]) -> bool:
    """Whether a column order has sort keys."""
    return any(column & SORTED for column in columns)


def list_keys_of(view: View) -> None:
    """Make each epoch list the first-column ids it changed, or that appeared or disappeared."""
    if isinstance(view, Rule) and view.arity > 1:
        view.has_keys = True
    else:
        view.listed = True
