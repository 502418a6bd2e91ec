"""Answers by position in the enumeration, and their number.

A plan that keeps order statistics finds a position in logarithmic time, see
`triegs.read.kernels.positions`. For any other plan the rows are scanned, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from triegs.compiler.plan import Payload
from triegs.errors import MultiplicityOverflow
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.columns import (
    BATCH_ROWS,
    LARGEST,
    Columns,
    Filling,
    Sizes,
    Words,
    are_ones,
    count_answers,
    find_factor,
    find_levels,
    multiply_totals,
    new_state,
)
from triegs.read.kernels.answers import FACTOR
from triegs.read.kernels.positions import COUNT_WORDS, pick_answers, seek_answer
from triegs.read.rows import UNBOUND, WIDE, RowReader
from triegs.store.kernels.layout import FANOUT, HEAD, OFFSET
from triegs.store.packed import PackedRelation, PackedVersion


class Finder:
    """Finds answers of one version by the order statistics of the plan, for one thread."""

    def __init__(self, enumeration: EnumerationPlan, version: PackedVersion) -> None:
        self.enumeration = enumeration
        self.version = version
        self._one = (
            np.empty(1, np.int64), np.empty(enumeration.width, np.int32), np.empty(1, np.int64),
        )  # fmt: skip

    def total(self, by_rows: bool) -> int:
        """The number of answers of all components together, or of rows. Cost: constant."""
        total = self._scalar() if by_rows else min(self._scalar(), 1)
        for level in self.enumeration.levels:
            if not level.interface:
                total *= self._sum_root(level.relation.root_at, by_rows)
        return total

    def _scalar(self) -> int:
        """The common factor of all multiplicities, from components without head variables."""
        return multiply_totals(self.enumeration, self.version)

    def _sum_root(self, at: int, by_rows: bool) -> int:
        self.version.check_held()
        root = int(self.version.roots[at])
        start = (root & OFFSET) + HEAD + (2 * FANOUT if by_rows else FANOUT)
        return sum(self.version.words[start : start + FANOUT].tolist()) if root else 0

    @cached_property
    def _tables(self) -> tuple[Words, int, Words, Words]:
        """Levels, their number, where their counts are, and the state of a search."""
        enumeration = self.enumeration
        if enumeration.count_table is None:
            enumeration.count_table = write_counts(enumeration)
        levels, count = find_levels(enumeration)
        state = new_state(count)
        state[FACTOR] = find_factor(enumeration, self.version)
        return levels, count, enumeration.count_table, state

    def pick(self, positions: Words, by_rows: bool) -> Columns:
        """The answers at some positions, in their order. Cost: logarithmic for each."""
        levels, count, counts, state = self._tables
        if by_rows:
            positions = positions // self._scalar()
        rows = len(positions)
        out = np.empty((self.enumeration.width, rows), np.int32)
        found = np.empty(rows, np.int64)
        self.version.check_held()
        pick_answers(
            self.version.words, self.version.roots, levels, counts, count, state, positions,
            by_rows, out.reshape(-1), found,
        )  # fmt: skip
        return out, found

    def pick_one(self, position: int) -> list[int]:
        """The ids of the answer at a position, and its multiplicity."""
        levels, count, counts, state = self._tables
        positions, out, weight = self._one
        positions[0] = position
        version = self.version
        version.check_held()
        pick_answers(
            version.words, version.roots, levels, counts, count, state, positions, False, out,
            weight,
        )  # fmt: skip
        found: list[int] = out.tolist() + weight.tolist()
        return found

    def stream(self, start: int, stop: int, sizes: Sizes) -> Iterator[Columns]:
        """The answers of a valid range, in batches. Memory: one batch."""
        levels, count, counts, state = self._tables
        filling = Filling(self.enumeration, self.version)
        filling.state[FACTOR] = state[FACTOR]
        version = self.version
        version.check_held()
        if start < stop:
            seek_answer(version.words, version.roots, levels, counts, count, filling.state, start)
        while start < stop:
            rows = min(sizes(), stop - start)
            found = filling.fill(rows)
            assert len(found[1]) == rows, "a range ends before its counts do"
            yield found
            start += rows


def write_counts(enumeration: EnumerationPlan) -> Words:
    """Where the counts of each level are, as the kernel reads it."""
    assert enumeration.counts is not None
    columns = [level.binds[0] for level in enumeration.levels]
    table: list[int] = []
    keys: list[int] = []
    for level, (kind, *relations) in zip(enumeration.levels, enumeration.counts, strict=True):
        first = COUNT_WORDS * len(enumeration.levels) + len(keys)
        keys += [columns.index(each) for each in level.interface]
        table += [kind, *map(root_of, relations), len(level.interface), first]
    assert len(table) == COUNT_WORDS * len(enumeration.levels)
    return np.array(table + keys, np.int64)


def root_of(relation: PackedRelation | None) -> int:
    """The index of a relation in the root vector; -1 for none."""
    return -1 if relation is None else relation.root_at


@dataclass(frozen=True)
class Positions:
    """The positions of one query's rows in one version: by order statistics if it keeps them, else
    by scans.
    """

    reader: RowReader
    version: PackedVersion

    @cached_property
    def _finder(self) -> Finder | None:
        if self.reader.enumeration.counts is None:
            return None
        return Finder(self.reader.enumeration, self.version)

    @cached_property
    def _known(self) -> int | None:
        return self.reader.count_rows(self.version)

    @cached_property
    def _orderly(self) -> Finder | None:
        """Finds rows by position; None if ORDER BY puts them in another order."""
        return None if self.reader.plan.query.order else self._finder

    @property
    def is_kept(self) -> bool:
        """Whether the number of rows is known without a scan."""
        return self._finder is not None or self._known is not None

    @property
    def is_asked_to_count(self) -> bool:
        plan = self.reader.plan
        return Payload.TOTAL in plan.nodes[plan.root].payload

    @cached_property
    def support(self) -> int:
        """The number of distinct rows."""
        if self._finder is not None:
            return self._finder.total(by_rows=False)
        if self._known is not None:
            return self._known
        self._check_overflow()
        if self._counted is not None:
            return self._counted[0]
        return sum(len(counts) for _, counts in self.scan())

    @cached_property
    def _counted(self) -> tuple[int, int | None] | None:
        """The number of answers and, if it follows, that of their rows; None for rows that are not
        answers.
        """
        if not self.reader.is_factorised:
            return None
        return count_answers(self.reader.enumeration, self.version)

    @cached_property
    def count(self) -> int:
        """The total multiplicity, of any size."""
        if self._rows_are_answers() or self._known is not None:  # groups have one row each
            return self.support
        if self._finder is not None and self._finder.enumeration.has_rows:
            return self._finder.total(by_rows=True)
        if self.is_asked_to_count:
            self._check_overflow()
        if self._counted is not None and self._counted[1] is not None:
            return self._counted[1]
        return sum(add_exactly(counts) for _, counts in self.scan())

    def _rows_are_answers(self) -> bool:
        """Whether each answer is one row: by the query, or by the plan if it was to keep the number
        of rows and does not.
        """
        if self.reader.drops_counts:
            return True
        enumeration = self.reader.enumeration
        is_whole = self._finder is not None and enumeration.overflow is None
        return is_whole and self.is_asked_to_count and not enumeration.has_rows

    def _check_overflow(self) -> None:
        error = self.reader.enumeration.overflow
        if error is not None:
            raise MultiplicityOverflow(f"not kept at the moment: {error}", error.view)

    def scan(self) -> Iterator[Columns]:
        return self.reader.columns(self.version, lambda: BATCH_ROWS)

    def stream(self, start: int, stop: int, sizes: Sizes) -> Iterator[Columns]:
        """The rows of a valid range, in batches."""
        if self._orderly is not None:
            check_size(self.support)
            for ids, counts in self._orderly.stream(start, stop, sizes):
                yield self.reader.show(ids, counts)
            return
        at = 0
        if start >= stop:
            return
        for ids, counts in self.reader.columns(self.version, sizes):
            low, high = max(start - at, 0), min(stop - at, len(counts))
            if low < high:
                yield ids[:, low:high], counts[low:high]
            at += len(counts)
            if at >= stop:
                return

    def pick(self, positions: Words, by_rows: bool) -> Columns:
        """The rows at some positions, in their order; positions of expanded rows if `by_rows`."""
        by_rows = by_rows and not self._rows_are_answers()
        if self._orderly is not None and (not by_rows or self._orderly.enumeration.has_rows):
            check_size(self.count if by_rows else self.support)
            return self.reader.show(*self._orderly.pick(positions, by_rows))
        return self._pick_by_scan(positions, by_rows)

    def pick_one(self, position: int) -> tuple[list[int], int]:
        """The ids and the multiplicity of the row at a position."""
        if self._orderly is None:
            ids, counts = self._pick_by_scan(np.array([position], np.int64), False)
            return ids[:, 0].tolist(), int(counts[0])
        *found, count = self._orderly.pick_one(position)
        if count < 0:
            raise MultiplicityOverflow(*WIDE)
        ids_of_head = [UNBOUND if pick is None else found[pick] for pick in self.reader.picks]
        return ids_of_head, 1 if self.reader.drops_counts else count

    def _pick_by_scan(self, positions: Words, by_rows: bool) -> Columns:
        order = np.argsort(positions, kind="stable")
        wanted = positions[order]
        picked_ids, picked_counts = [], []
        at = done = 0
        for ids, counts in self.scan():
            if done == len(wanted):
                break
            ends = at + (np.cumsum(counts) if by_rows else np.arange(1, len(counts) + 1))
            upto = int(np.searchsorted(wanted, ends[-1], side="left"))
            rows = np.searchsorted(ends, wanted[done:upto], side="right")
            picked_ids.append(ids[:, rows])
            picked_counts.append(counts[rows])
            at, done = int(ends[-1]), upto
        width = len(self.reader.plan.query.head)
        ids = np.concatenate([np.empty((width, 0), np.int32), *picked_ids], axis=1)
        counts = np.concatenate([np.empty(0, np.int64), *picked_counts])
        back = np.argsort(order, kind="stable")
        return ids[:, back], counts[back]


def check_size(size: int) -> int:
    """Check that a number of positions fits 64 bits."""
    if size > LARGEST:
        raise MultiplicityOverflow(f"{size:,} positions do not fit 64 bits", "positions")
    return size


def add_exactly(counts: Words) -> int:
    """The exact sum, of any size."""
    if are_ones(counts):
        return len(counts)
    if len(counts) and int(counts.max()) < 2**62 // len(counts):
        return int(counts.sum())
    return sum(counts.tolist())
