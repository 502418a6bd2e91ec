"""The rows of a query with aggregates: one per group, computed from its measures.

A version holds the measures of all groups (`triegs.compiler.groups`), so the rows of a snapshot are
those of its epoch. Kernels read counts and sums of integers. What they do not cover is computed
group by group: other numbers, values, expressions, HAVING.

A *base* is a tuple of ids of the variables of the keys. If all keys are variables, a group has one
base; a group by an expression has one for each combination of values that gives its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np

from triegs.compiler.groups import (
    CARRIED,
    find_source,
    is_direct,
    is_extreme,
    shows_all_keys,
)
from triegs.compiler.plan import Groups, Measure
from triegs.maintain.enumeration_plan import GroupMeasure
from triegs.read.columns import (
    BATCH_ROWS,
    Columns,
    Integers,
    NotIntegers,
    Sizes,
    Span,
    Words,
)
from triegs.read.differences import Side
from triegs.read.group_measures import find_factor
from triegs.read.group_state import LISTED, GroupState
from triegs.read.kernels.differences import difference_words
from triegs.read.kernels.groups import (
    list_changed,
    open_changed,
)
from triegs.read.ordering import Load
from triegs.read.rows import RowReader
from triegs.sparql.model import Aggregate, Expression, Grouping
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import Decoder
from triegs.terms.dictionary import Dictionary


class ComputedTerms:
    """The terms that readers of one query compute, with ids of their own."""

    def __init__(self) -> None:
        self.lock = Lock()

    @cached_property
    def dictionary(self) -> Dictionary:
        """Made when it is first needed, because most snapshots compute nothing."""
        return Dictionary()


@dataclass(frozen=True)
class GroupReader(RowReader):
    """Reads the rows of groups from any version of their measures.

    Computed terms have ids of their own, in a dictionary of the reader. Threads may share it.
    """

    computed: ComputedTerms = field(default_factory=ComputedTerms)

    @property
    def values(self) -> Dictionary:
        return self.computed.dictionary

    @property
    def lock(self) -> Lock:
        return self.computed.lock

    @cached_property
    def is_plain(self) -> bool:
        """Whether kernels can compute all columns as integers, if all their terms are."""
        if not self._is_whole or not self.grouping.keys or self.grouping.having:
            return False
        computed = [number for number, key in enumerate(self.shown) if key is None]
        return all(map(self._is_whole_number, computed))

    def _is_whole_number(self, column: int) -> bool:
        expression = self.grouping.columns[column].expression
        source = self.groups.columns[column]
        return (
            isinstance(expression, Aggregate)
            and expression.function != "AVG"
            and source is not None
            and self.groups.sources[source].measure is not Measure.VALUES
        )

    @property
    def is_split(self) -> bool:
        """Rows of groups are computed, not enumerated."""
        return False

    def find_source(self, each: Aggregate) -> int:
        """The number of the source that an aggregate is computed from."""
        return find_source(self.plan.query, self.groups, each)

    @cached_property
    def groups(self) -> Groups:
        assert self.plan.groups is not None
        return self.plan.groups

    @cached_property
    def grouping(self) -> Grouping:
        assert self.plan.query.grouping is not None
        return self.plan.query.grouping

    @cached_property
    def is_direct(self) -> bool:
        return is_direct(self.plan.query)

    @cached_property
    def shown(self) -> list[int | None]:
        """For each column of the head, and each hidden one, the key that it shows; None for a
        computed column.
        """
        names = [key.name for key in self.grouping.keys]
        shown = [column.name for column in self.grouping.columns]
        return [names.index(name) if name in names else None for name in shown]

    @cached_property
    def _is_whole(self) -> bool:
        """Whether different groups have different rows: all keys are shown."""
        return shows_all_keys(self.plan.query)

    def count_rows(self, version: PackedVersion) -> int | None:
        query = self.plan.query
        is_cut = query.limit is not None or query.offset or self.grouping.having
        if is_cut or not self._is_whole:
            return None
        measure = self.enumeration.measures[0]
        if not self.grouping.keys or measure.relation is None:
            return 1
        return version.size(measure.relation) if find_factor(measure, version) else 0

    def list_decoders(self, decoder: Decoder) -> tuple[Decoder, ...]:
        computed = self.values.decoder()
        keys = Decoder(decoder.load, decoder.base, load_values=decoder.load_values)
        shown = self._is_computed[: len(self.plan.query.head)]
        return tuple(computed if each else keys for each in shown)

    @cached_property
    def _is_computed(self) -> list[bool]:
        """Whether the terms of each column are those of `values`."""
        keys = [key.expression in self.groups.variables for key in self.grouping.keys]
        columns = (column.expression for column in self.grouping.columns)
        return [
            not (self._is_kept(each) if key is None else keys[key])
            for each, key in zip(columns, self.shown, strict=True)
        ]

    def _is_kept(self, expression: Expression) -> bool:
        """Whether a column shows extremes that are kept in order: terms of the engine."""
        if not (self.is_direct and isinstance(expression, Aggregate) and is_extreme(expression)):
            return False
        number = self.find_source(expression)
        is_carried = self.groups.sources[number].measure in CARRIED
        return is_carried or self.enumeration.measures[number].by_value is not None

    def _list_loads(self) -> list[Load]:
        computed = self.values.decoder().load
        return [computed if each else self.load for each in self._is_computed]

    def _unsorted(self, version: PackedVersion) -> Iterator[Columns]:
        for ids, counts in self._read_rows(GroupState(self, version), lambda: BATCH_ROWS):
            if len(counts):
                yield ids, np.ones(len(counts), np.int64) if self.drops_counts else counts

    # Rows

    def _read(
        self,
        version: PackedVersion,
        sizes: Sizes,
        integers: Integers | None,
        span: Span | None,  # noqa: ARG002
    ) -> Iterator[Columns]:
        state = GroupState(self, version)
        if integers is None:
            return self._read_rows(state, sizes)
        return self._read_integers(state, sizes, integers)

    @staticmethod
    def _read_integers(state: GroupState, sizes: Sizes, integers: Integers) -> Iterator[Columns]:
        for bases, counts in state.list_bases(sizes):
            yield state.find_integers(bases, counts, integers()), np.ones(len(bases), np.int64)

    def _pick(self, ids: Words) -> Words:
        return ids

    def changes(
        self, old: Side, new: Side, sizes: Sizes, integers: Integers | None = None
    ) -> Iterator[Columns]:
        if integers is not None:
            raise NotIntegers
        before, after = (GroupState(replace_side(self, side), side.version) for side in (old, new))
        if self._is_whole:
            bases = self._list_changed(old, new)
            while len(bases):
                size = sizes()
                yield from self._compare(before, after, bases[:size])
                bases = bases[size:]
            return
        # Groups may share a row, so their rows are counted. With DISTINCT those of all groups.
        if self.drops_counts:
            sides = [state.list_all() for state in (before, after)]
        else:
            bases = self._list_changed(old, new)
            sides = [state.complete(bases) for state in (before, after)]
        width = len(self.plan.query.head)
        counted: dict[tuple[int, ...], int] = {}
        for state, bases, sign in zip((before, after), sides, (-1, 1), strict=True):
            # The row of an ASK has no columns, which a zip of columns would lose.
            rows = map(tuple, state.find_rows(bases)[:width].T.tolist())
            found = set(rows) if self.drops_counts else rows
            for row in found:
                counted[row] = counted.get(row, 0) + sign
        changed = [(*row, change) for row, change in counted.items() if change]
        if changed:
            table = np.array(changed, np.int64).T
            yield table[:-1], table[-1]

    def _read_rows(self, state: GroupState, sizes: Sizes) -> Iterator[Columns]:
        """Each row once, with the number of its groups; without LIMIT."""
        if self._is_whole:
            for bases, _ in state.list_bases(sizes):
                found = state.find_rows(bases)
                yield found, np.ones(found.shape[1], np.int64)
            return
        yield np.unique(state.find_rows(state.list_all()), axis=1, return_counts=True)

    def _list_changed(self, old: Side, new: Side) -> Words:
        """The bases whose measures differ, a row for each."""
        width = len(self.groups.variables)
        found = [np.empty((0, width), np.int64)]
        words = max(old.version, new.version, key=lambda version: version.number).words
        sides = zip(old.enumeration.measures, new.enumeration.measures, strict=True)
        for before, after in sides:
            if find_factor(before, old.version) != find_factor(after, new.version):
                states = (GroupState(replace_side(self, side), side.version) for side in (old, new))
                found += [state.list_all() for state in states]
                break
            if before.relation is None or after.relation is None:
                continue
            roots = (old.version.roots[before.relation.root_at],
                     new.version.roots[after.relation.root_at])  # fmt: skip
            if width == 0:
                found.append(np.empty((int(roots[0] != roots[1]), 0), np.int64))
                continue
            found += self._list_differing(words, roots, after)
        rows = np.concatenate(found)
        return rows[:1] if width == 0 else np.unique(rows, axis=0)

    def _list_differing(
        self, words: Words, roots: tuple[int, int], measure: GroupMeasure
    ) -> Iterator[Words]:
        variables, columns = self.groups.variables, len(measure.names)
        order = [measure.names.index(name) for name in variables]
        state = np.zeros(difference_words(columns), np.int64)
        open_changed(words, state, *roots)
        while True:
            keys = np.empty(LISTED * len(variables), np.int64)
            count = list_changed(words, state, columns, len(variables), keys)
            yield keys.reshape(LISTED, -1)[:count][:, order]
            if count < LISTED:
                return

    def _compare(self, before: GroupState, after: GroupState, bases: Words) -> Iterator[Columns]:
        """The rows of these groups that differ."""
        (old, was_there), (new, is_there) = before.find_all(bases), after.find_all(bases)
        width = len(self.plan.query.head)
        old, new = old[:width], new[:width]
        is_same = was_there & is_there & (old == new).all(axis=0)
        gone, added = was_there & ~is_same, is_there & ~is_same
        ids = np.concatenate([old[:, gone], new[:, added]], axis=1)
        signs = np.repeat(np.array([-1, 1]), [gone.sum(), added.sum()])
        if len(signs):
            yield ids, signs


def replace_side(reader: GroupReader, side: Side) -> GroupReader:
    """The reader for another enumeration of the same query, with the same computed terms."""
    if side.enumeration is reader.enumeration:
        return reader
    return replace(reader, enumeration=side.enumeration)
