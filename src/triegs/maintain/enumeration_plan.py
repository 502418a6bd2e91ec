"""How the answers of a plan are enumerated from any version of its views.

There is one level per witness node: the entries of a relation under the values bound so far. A live
tuple has at least one live extension in each later level, so dead tuples are never visited, and the
work between two answers depends only on the plan. The multiplicity of an answer is the product of
local weights: of the entries that weigh, and of the counts attached to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from triegs.errors import MultiplicityOverflow
from triegs.store.contract import Key
from triegs.store.packed import PackedRelation

#: A relation, and the row columns that are its key.
Count = tuple[PackedRelation, tuple[int, ...]]


@dataclass(slots=True)
class Level:
    """A relation keyed by `interface` that binds at least one more column of the row.

    `binds` may omit the last columns of the relation: then any nonempty remainder is an entry.
    """

    relation: PackedRelation
    interface: tuple[int, ...]
    binds: tuple[int, ...]
    weighs: bool
    counts: list[Count] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ParentPath:
    """The path from an entry to its parents: the number of their factor, and an index that finds
    them, keyed by `columns`, those of the entry first. Without an index nothing is left to bind.
    """

    above: int
    index: PackedRelation | None = None
    columns: tuple[int, ...] = ()


@dataclass(slots=True)
class Factor:
    """A relation of which every answer has one entry, keyed by columns of the row.

    The multiplicity of an answer is the product of its entries in all weighing factors, and of the
    totals. A relation with more columns than these does not weigh.
    """

    relation: PackedRelation
    columns: tuple[int, ...]
    weighs: bool
    parent_path: ParentPath | None = None


class CountSource(NamedTuple):
    """The location of the answer counts below a level's entries: a kind of
    `triegs.store.kernels.order_statistics`, and a relation.

    Counts that are looked up by all values bound so far are in separate relations: the answers and
    rows of an entry, and of all entries together. Without a relation an entry is one answer, and as
    many rows as its weight.
    """

    kind: int
    relation: PackedRelation | None
    rows: PackedRelation | None = None
    all_answers: PackedRelation | None = None
    all_rows: PackedRelation | None = None


class GroupMeasure(NamedTuple):
    """The relation of a measure of groups, keyed by the variables of the keys; None if it has no
    columns. `totals` multiply it, unless it counts distinct values.
    """

    relation: PackedRelation | None
    names: tuple[str, ...]
    totals: tuple[tuple[PackedRelation, Key], ...]
    is_distinct: bool
    #: If an extreme of the values is wanted: the keys, or a constant, then the sort key of a value,
    #: see `triegs.maintain.kernels.sort_keys`, then the value.
    by_value: PackedRelation | None = None


@dataclass(slots=True)
class EnumerationPlan:
    """Levels, parents first, and entries whose counts multiply every answer.

    `factors` describes the same for readers that start in the middle; parents come first.
    """

    width: int
    levels: list[Level] = field(default_factory=list)
    totals: list[tuple[PackedRelation, Key]] = field(default_factory=list)
    factors: list[Factor] = field(default_factory=list)
    #: Tables that readers have built, cached for the next one.
    tables: Any = None
    phases: Any = None
    roots: Any = None
    #: By level, if order statistics are kept; for the first level of a component, its ranking.
    counts: list[CountSource] | None = None
    count_table: Any = None
    #: Whether rows are also counted.
    has_rows: bool = False
    #: For a query with aggregates, whose groups are enumerated: the measures of each.
    measures: tuple[GroupMeasure, ...] = ()
    #: Why a requested count is currently not kept.
    overflow: MultiplicityOverflow | None = None

    def add_level(self, level: Level, parent_path: ParentPath | None = None) -> int:
        """Add a level with its factor; returns the number of the factor."""
        self.levels.append(level)
        columns = level.interface + level.binds
        self.factors.append(Factor(level.relation, columns, level.weighs, parent_path))
        return len(self.factors) - 1

    def add_counted(
        self, relation: PackedRelation, interface: tuple[int, ...], binds: tuple[int, ...],
        parent_path: ParentPath | None, sources: Iterable[CountSource],
        ranking: PackedRelation | None,
    ) -> int:  # fmt: skip
        """Add one level per variable, with its counts, and one factor for all of them. The first
        level of a component reads its ranking.
        """
        assert self.counts is not None
        self.counts += sources
        columns = interface + binds
        for depth in range(len(interface), len(columns)):
            level = Level(relation, columns[:depth], (columns[depth],), depth == len(columns) - 1)
            if depth == 0 and ranking is not None:
                counts = [(relation, columns)] if level.weighs else []
                level = Level(ranking, (), columns[:1], False, counts)
            self.levels.append(level)
        self.factors.append(Factor(relation, columns, True, parent_path))
        return len(self.factors) - 1

    def multiply(
        self,
        relation: PackedRelation,
        columns: Iterable[int],
        parent_path: ParentPath | None = None,
    ) -> int | None:
        """Multiply by the counts of a relation as soon as all of these columns are bound.

        Returns the number of the factor, unless it has no column.
        """
        wanted = tuple(columns)
        if not wanted:
            self.totals.append((relation, ()))
            return None
        at = max(self._level_of(column) for column in wanted)
        level = self.levels[at]
        if level.relation is relation and level.binds == wanted and not level.interface:
            level.weighs = True  # the entry is the count
            same = (i for i, each in enumerate(self.factors) if each.relation is relation)
            number = next(i for i in same if self.factors[i].columns == wanted)
            self.factors[number].weighs = True
            return number
        level.counts.append((relation, wanted))
        self.factors.append(Factor(relation, wanted, True, parent_path))
        return len(self.factors) - 1

    def arrange_levels(self) -> None:
        """Put levels in depth-first order: each directly after its parent and the levels below
        earlier siblings, of which small ones come first. Then the answers below a level's entry
        are a product of adjacent levels.
        """
        above = []
        for level in self.levels:
            columns = {*level.interface, *(c for _, key in level.counts for c in key)}
            above.append(max((self._level_of(c) for c in columns - {*level.binds}), default=-1))
        order = order_depth_first(above)
        self.levels = [self.levels[number] for number in order]
        if self.counts is not None:
            self.counts = [self.counts[number] for number in order]

    def _level_of(self, column: int) -> int:
        return next(i for i, level in enumerate(self.levels) if column in level.binds)


def order_depth_first(parents: Sequence[int]) -> list[int]:
    """The nodes of a forest, each directly after its parent (-1 if none) and the nodes below
    earlier siblings; siblings with fewer nodes below them come first.

    >>> order_depth_first([-1, 0, 0, 1])
    [0, 2, 1, 3]
    """
    sizes = [1] * len(parents)
    for node, parent in reversed([*enumerate(parents)]):
        if parent >= 0:
            sizes[parent] += sizes[node]
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        below.setdefault(parent, []).append(node)
    order: list[int] = []
    waiting = below.get(-1, [])[::-1]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += sorted(below.get(node, ()), key=sizes.__getitem__)[::-1]
    return order
