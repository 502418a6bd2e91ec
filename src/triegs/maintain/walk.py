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
from triegs.store.contract import Key, VersionedRelation

#: A relation with the places of the row that make up its key.
Count = tuple[VersionedRelation, tuple[int, ...]]


@dataclass(slots=True)
class Level:
    """A relation by `interface`, which binds at least one place more. Places are of the row.

    `binds` may leave out the last columns of the relation: then an entry is whatever is there.
    """

    relation: VersionedRelation
    interface: tuple[int, ...]
    binds: tuple[int, ...]
    weighs: bool
    counts: list[Count] = field(default_factory=list)


class Below(NamedTuple):
    """Where the numbers of a level's entries are: a kind of `triegs.kernels.sums`, a relation."""

    kind: int
    relation: VersionedRelation


@dataclass(slots=True)
class Walk:
    """Levels, parents first, and entries whose counts multiply every answer."""

    width: int
    levels: list[Level] = field(default_factory=list)
    totals: list[tuple[VersionedRelation, Key]] = field(default_factory=list)
    #: What a reader has made of it, for the next one.
    tables: Any = None
    #: By level, if answers are numbered; of a level that begins a component, its ranking.
    numbers: list[Below] | None = None
    number_table: Any = None
    #: Whether rows are numbered, too, or are as many as the answers.
    has_rows: bool = False
    #: Why a number that was asked for is not kept at the moment.
    overflow: MultiplicityOverflow | None = None

    def multiply(self, relation: VersionedRelation, places: Iterable[int]) -> None:
        """Let the counts of a relation weigh in as soon as all of these places are bound."""
        wanted = tuple(places)
        if not wanted:
            self.totals.append((relation, ()))
            return
        at = max(self._level_of(place) for place in wanted)
        level = self.levels[at]
        if level.relation is relation and level.binds == wanted and not level.interface:
            level.weighs = True  # the entry is the count
        else:
            level.counts.append((relation, wanted))

    def _level_of(self, place: int) -> int:
        return next(i for i, level in enumerate(self.levels) if place in level.binds)
