"""How the answers of a plan are enumerated from any version that shows it.

One level per witness node: the entries of a relation below the values that are bound by then. A
live tuple has, in each level below, at least one live extension, so dead tuples are never visited,
and the work between two answers depends on the plan alone. The multiplicity of an answer is the
product of local weights: of the entries where they weigh, and of the counts that hang on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from triegs.errors import MultiplicityOverflow
from triegs.store.contract import Key
from triegs.store.packed import PackedRelation

#: A relation with the places of the row that make up its key.
Count = tuple[PackedRelation, tuple[int, ...]]


@dataclass(slots=True)
class Level:
    """A relation by `interface`, which binds at least one place more. Places are of the row.

    `binds` may leave out the last columns of the relation: then an entry is whatever is there.
    """

    relation: PackedRelation
    interface: tuple[int, ...]
    binds: tuple[int, ...]
    weighs: bool
    counts: list[Count] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Climb:
    """The way from an entry to those above it: the number of their view, and an index that leads
    there; its key is at `places`, those of the entry below first. None: nothing is left to bind.
    """

    above: int
    index: PackedRelation | None = None
    places: tuple[int, ...] = ()


@dataclass(slots=True)
class Piece:
    """What every answer has one entry of: a relation by places of the row.

    The multiplicity of an answer is the product of the entries of all pieces that weigh, and of
    the totals. A relation may have more columns than there are places: then it does not weigh.
    """

    relation: PackedRelation
    places: tuple[int, ...]
    weighs: bool
    climb: Climb | None = None


class Below(NamedTuple):
    """Where the numbers of a level's entries are: a kind of `triegs.kernels.sums`, a relation.

    Numbers that are looked up by all values so far are in relations of their own: the answers and
    the rows of an entry, and of all entries together. Without a relation an entry is one answer,
    or as many rows as it counts.
    """

    kind: int
    relation: PackedRelation | None
    rows: PackedRelation | None = None
    all_answers: PackedRelation | None = None
    all_rows: PackedRelation | None = None


@dataclass(slots=True)
class Walk:
    """Levels, parents first, and entries whose counts multiply every answer.

    `pieces` tell the same for those who start in the middle; a piece comes after those above it.
    """

    width: int
    levels: list[Level] = field(default_factory=list)
    totals: list[tuple[PackedRelation, Key]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    #: What readers have made of it, for the next one.
    tables: Any = None
    phases: Any = None
    roots: Any = None
    #: By level, if answers are numbered; of a level that begins a component, its ranking.
    numbers: list[Below] | None = None
    number_table: Any = None
    #: Whether rows are numbered, too, or are as many as the answers.
    has_rows: bool = False
    #: Why a number that was asked for is not kept at the moment.
    overflow: MultiplicityOverflow | None = None

    def add_level(self, level: Level, climb: Climb | None = None) -> int:
        """Add a level with its piece; returns the number of the piece."""
        self.levels.append(level)
        places = level.interface + level.binds
        self.pieces.append(Piece(level.relation, places, level.weighs, climb))
        return len(self.pieces) - 1

    def add_numbered(
        self, relation: PackedRelation, interface: tuple[int, ...], binds: tuple[int, ...],
        climb: Climb | None, numbers: Iterable[Below], ranking: PackedRelation | None,
    ) -> int:  # fmt: skip
        """Add one level per variable, with its numbers, and one piece for all; the first variable
        of a component is that of its ranking.
        """
        assert self.numbers is not None
        self.numbers += numbers
        places = interface + binds
        for depth in range(len(interface), len(places)):
            level = Level(relation, places[:depth], (places[depth],), depth == len(places) - 1)
            if depth == 0 and ranking is not None:
                counts = [(relation, places)] if level.weighs else []
                level = Level(ranking, (), places[:1], False, counts)
            self.levels.append(level)
        self.pieces.append(Piece(relation, places, True, climb))
        return len(self.pieces) - 1

    def multiply(
        self, relation: PackedRelation, places: Iterable[int], climb: Climb | None = None
    ) -> int | None:
        """Let the counts of a relation weigh in as soon as all of these places are bound.

        Returns the number of the piece, if it has any place.
        """
        wanted = tuple(places)
        if not wanted:
            self.totals.append((relation, ()))
            return None
        at = max(self._level_of(place) for place in wanted)
        level = self.levels[at]
        if level.relation is relation and level.binds == wanted and not level.interface:
            level.weighs = True  # the entry is the count
            same = (i for i, each in enumerate(self.pieces) if each.relation is relation)
            number = next(i for i in same if self.pieces[i].places == wanted)
            self.pieces[number].weighs = True
            return number
        level.counts.append((relation, wanted))
        self.pieces.append(Piece(relation, wanted, True, climb))
        return len(self.pieces) - 1

    def _level_of(self, place: int) -> int:
        return next(i for i, level in enumerate(self.levels) if place in level.binds)
