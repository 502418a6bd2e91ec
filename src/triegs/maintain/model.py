"""The program as values: views, and the rules that keep them.

A view is one relation and the way an epoch keeps it: an *index* of a stream, filled from its
entries; a *step* or a *rule*, computed from other views; the output of a rule in another *order* of
columns; or *fixed* rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from triegs.maintain.kernels.tables import (
    ADJACENCY,
    ANY,
    BOTH,
    ORDERED_EDGE,
    ORDERED_PRODUCT,
    PRODUCT,
    RANKING,
)
from triegs.maintain.streams import Stream, label_stream
from triegs.store.kernels.layout import ORDERED, PLAIN, RANKED, SLOT_WORDS, SLOTS
from triegs.store.kernels.order_statistics import ANSWERED, BESIDE, COUNTED, SETS
from triegs.store.packed import PackedRelation

#: By the kind of a step that keeps order statistics, how its relation is laid out.
LAYOUTS = {ORDERED_EDGE: ORDERED, ORDERED_PRODUCT: ORDERED, RANKING: RANKED}


@dataclass(slots=True, eq=False)
class View:
    """A relation with how others read it: `reads` is PRESENCE of a key, or its COUNT."""

    name: str
    relation: PackedRelation
    reads: int
    uses: int = 0
    #: Whether an epoch lists the keys that it changed.
    listed: bool = True
    #: Whether the hubs of the last column are summed.
    is_summed: bool = False
    #: Of a rule: whether an epoch lists the ids of the first column that came or went.
    has_keys: bool = False
    #: Of a rule with one column: whether its counts are numbers of answers.
    is_answers: bool = False

    @property
    def address(self) -> int:
        return find_address(self.relation)

    @property
    def count_kind(self) -> int:
        """Where the counts of a key are, see `triegs.store.kernels.order_statistics`."""
        if self.relation.layout != PLAIN:
            return BESIDE
        if self.is_answers:
            return ANSWERED
        return SETS if self.is_summed else COUNTED


@dataclass(slots=True, eq=False)
class Index(View):
    """The entries of a stream: pairs by one column, their summed counts, or tuples in an order."""

    stream: Stream = field(default_factory=lambda: label_stream(0))
    kind: int = ADJACENCY
    column: int = 0
    condition: int = ANY
    order: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Step(View):
    """A relation computed from factors; an edge also from a stream, `by_other` leading from its
    second variable back to the first.
    """

    kind: int = PRODUCT
    is_exact: bool = False
    factors: tuple[View, ...] = ()
    by_other: Index | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """What a rule reads: a stream with its rows; or a view, all of it or the keys of its first
    column. A stream is listed by a rule where only the presence of its tuples counts; one of a
    single column is read by its index, which is a view.
    """

    width: int
    stream: Stream | None = None
    view: View | None = None
    listing: Rule | None = None
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """An operand over variables of the rule, used by its COUNT or by the PRESENCE of a tuple."""

    operand: Operand
    variables: tuple[int, ...]
    use: int


@dataclass(frozen=True, slots=True)
class Check:
    """A judge, by number, over variables."""

    judge: int
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Root:
    """Where an input begins; `use` is LEADS unless it has no column."""

    word: int
    view: View
    is_old: bool
    use: int


@dataclass(frozen=True, slots=True)
class Move:
    """One column of an input: from a word to the word below a variable's value."""

    variable: int
    before: int
    is_trie: bool
    after: int
    use: int


@dataclass(frozen=True, slots=True)
class Binding:
    """A level: the variable that it binds, by the inputs that have it."""

    variable: int
    sources: tuple[Move, ...]
    is_shown: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one input, joined with all others."""

    seeds: Operand
    variables: tuple[int, ...]
    use: int
    checks: tuple[Check, ...]
    roots: tuple[Root, ...]
    probes: tuple[Move, ...]
    levels: tuple[Binding, ...]
    #: With symmetry: whether it finds the answers NOW or BEFORE, and the orbit of the input.
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
    """By input its orbit, which is the inputs that renaming makes of it; and all renamings, the
    first of which changes nothing.
    """

    orbits: tuple[int, ...]
    images: tuple[tuple[int, ...], ...]


@dataclass(slots=True, eq=False)
class Rule(View):
    """``out(head) = the sum over all other variables of the product of the inputs``.

    `deltas` are of all inputs; those whose input never changes serve to fill it only. With
    `is_listed_only` the output is the relation of an index, and only its changes are listed.
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
    """The output of a rule, or fixed rows, with the columns in another order."""

    of: View | None = None
    columns: tuple[int, ...] = ()


def find_address(relation: PackedRelation) -> int:
    """The place of a relation's slot in the words of its store."""
    return SLOTS + SLOT_WORDS * relation.slot


def is_counts(view: View) -> bool:
    return isinstance(view, Index) and view.name == view.stream.name


def is_fixed(view: View) -> bool:
    """Whether no update changes its rows."""
    return type(view) is View


def list_keys_of(view: View) -> None:
    """Let an epoch list the ids of the first column that it changed, or that came or went."""
    if isinstance(view, Rule) and view.arity > 1:
        view.has_keys = True
    else:
        view.listed = True
