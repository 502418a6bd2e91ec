"""From counted tuples of ids to a query's rows: filters, DISTINCT, order, LIMIT, projection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from triegs.compiler.plan import Plan
from triegs.errors import MultiplicityOverflow
from triegs.maintain.enumeration_plan import EnumerationPlan
from triegs.read.columns import (
    BATCH_ROWS,
    LARGEST,
    Column,
    Columns,
    Ids,
    Integers,
    Sizes,
    Span,
    Words,
    are_ones,
    find_flat,
    list_ones,
    read_columns,
    read_runs,
)
from triegs.read.differences import Side, read_differences
from triegs.read.ordering import Load, RowOrder, join_columns, no_terms, select_first
from triegs.sparql.expressions import holds
from triegs.sparql.model import Duplicates, Expression, Form, expression_variables
from triegs.store.packed import PackedVersion
from triegs.terms.decoder import Decoder

UNBOUND = -1
#: Sorted results of at most this many rows are cached.
MOST_CACHED = BATCH_ROWS
WIDE = "an answer's multiplicity does not fit 64 bits", "answer"
Decode = Callable[[int], str]


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of one query from any version of its views.

    Filters that span several atoms run here, over head variables, once per distinct combination of
    a batch.
    """

    plan: Plan
    enumeration: EnumerationPlan
    decode: Decode
    #: Loads the engine's terms.
    load: Load = no_terms

    @property
    def is_plain(self) -> bool:
        """Whether rows are unchanged answers, except for their order: no filter, no limit, no
        unbound column.
        """
        query = self.plan.query
        return not self.plan.filters and query.limit is None and not query.offset and (
            set(query.head) <= set(query.free))  # fmt: skip

    @property
    def is_split(self) -> bool:
        """Whether rows can be read by spans of ids: no order, no limit."""
        query = self.plan.query
        is_ordered = query.order or query.limit is not None or query.offset
        return not is_ordered and bool(self.enumeration.levels)

    @property
    def is_factorised(self) -> bool:
        """Whether rows can be read as runs, without writing every row."""
        query = self.plan.query
        return self.is_plain and self.is_split and len(query.head) == len(query.free)

    @cached_property
    def flat(self) -> int:
        """The column of a factorised result that has every row."""
        if self.is_factorised:
            return self.picks.index(find_flat(self.enumeration))
        return len(self.plan.query.head) - 1

    def count_rows(self, version: PackedVersion) -> int | None:  # noqa: ARG002
        """The number of distinct rows, if it is known without a scan and without order
        statistics.
        """
        return None

    def list_decoders(self, decoder: Decoder) -> tuple[Decoder, ...]:
        """A decoder for each column."""
        unbound = Decoder(decoder.load, decoder.base)
        return tuple(unbound if pick is None else decoder for pick in self.picks)

    def columns(
        self, version: PackedVersion, sizes: Sizes, integers: Integers | None = None,
        span: Span | None = None,
    ) -> Iterator[Columns]:  # fmt: skip
        """Every row once with its multiplicity, in columns of the head, `UNBOUND` where a variable
        has no value; DISTINCT, ORDER BY, OFFSET and LIMIT are applied. `integers` requires
        `is_plain` and no ORDER BY, `span` requires `is_split`. Memory: one batch; with ORDER BY
        also the sorted rows, of which LIMIT and OFFSET keep only as many as they need.
        """
        query = self.plan.query
        if query.order:
            yield from self.sorted_columns(version, sizes)
            return
        start, end = 0, None if query.limit is None else query.offset + query.limit
        if end == query.offset:
            return
        for ids, counts in self._read(version, sizes, integers, span):
            if self.drops_counts:
                counts = list_ones(len(counts))
            if query.offset or end is not None:
                ids, counts, start = cut_rows(ids, counts, start, query.offset, end)
            _check_counts(counts)
            if len(counts):
                yield self._pick(ids), counts
            if end is not None and start >= end:
                return

    def runs(
        self, version: PackedVersion, sizes: Sizes, integers: Integers | None = None
    ) -> Iterator[tuple[list[Column], Words]]:
        """Every row once, with all columns but `flat` as runs. Requires `is_factorised`."""
        for columns, counts in read_runs(self.enumeration, version, sizes, integers):
            if self.drops_counts:
                counts = list_ones(len(counts))
            _check_counts(counts)
            yield [columns[pick] for pick in self.picks if pick is not None], counts

    def _read(
        self, version: PackedVersion, sizes: Sizes, integers: Integers | None, span: Span | None
    ) -> Iterator[Columns]:
        """Every answer that passes the filters, with its multiplicity."""
        for found in read_columns(self.enumeration, version, sizes, integers, span):
            yield self._filter(*found)

    def sorted_columns(self, version: PackedVersion, sizes: Sizes) -> Iterator[Columns]:
        ids, counts = self._sort(version)
        start = 0
        while start < len(counts):
            end = start + sizes()
            yield ids[:, start:end], counts[start:end]
            start = end

    def _sort(self, version: PackedVersion) -> Columns:
        """All rows in order. A result of one batch is cached, because positions ask for it again
        and again; a reader belongs to one snapshot.
        """
        known = self._cache.get(version)
        if known is not None:
            return known
        query = self.plan.query
        width = len(query.head)
        end = None if query.limit is None else query.offset + query.limit
        found: Columns | None
        if end is None:
            batches = list(self._unsorted(version))
            found = self._order.sort(*join_columns(batches)) if batches else None
        else:
            found = select_first(self._order, self._unsorted(version), end) if end else None
        if found is None:
            return np.empty((width, 0), np.int32), np.empty(0, np.int64)
        ids, counts = found[0][:width], found[1]
        if query.offset or end is not None:
            ids, counts, _ = cut_rows(ids, counts, 0, query.offset, end)
        _check_counts(counts)
        if len(counts) <= MOST_CACHED:
            self._cache[version] = ids, counts
        return ids, counts

    def sorts_soon(self, version: PackedVersion) -> bool:
        """Whether at most one batch of rows is to be sorted. Cost: reading two batches."""
        if version in self._cache:
            return True
        return not self.plan.filters and len(list(islice(self._unsorted(version), 2))) < 2

    def _unsorted(self, version: PackedVersion) -> Iterator[Columns]:
        """Every row, in columns of the head and of `Query.hidden`."""
        for ids, counts in read_columns(self.enumeration, version, lambda: BATCH_ROWS):
            ids, counts = self._filter(ids, counts)
            if self.drops_counts:
                counts = list_ones(len(counts))
            if len(counts):
                yield self._pick(ids), counts

    @cached_property
    def _cache(self) -> dict[PackedVersion, Columns]:
        return {}

    @cached_property
    def _order(self) -> RowOrder:
        query = self.plan.query
        names = (*query.head, *query.hidden)
        return RowOrder(query.order, names, self._list_loads(), len(query.head))

    def _list_loads(self) -> list[Load]:
        """What loads the terms of each column of `_unsorted`."""
        return [self.load] * len(self.plan.query.head)

    def changes(
        self, old: Side, new: Side, sizes: Sizes, integers: Integers | None = None
    ) -> Iterator[Columns]:
        """Every row that differs between two versions, with its signed change. LIMIT and OFFSET are
        not applied, and the order is any; `integers` requires `is_plain`.
        """
        for found in read_differences(old, new, sizes, self.drops_counts, integers):
            ids, changes = self._filter(*found)
            if len(changes):
                yield self._pick(ids), changes

    @cached_property
    def drops_counts(self) -> bool:
        """Whether a row counts once, whatever its multiplicity."""
        query = self.plan.query
        return query.form is Form.ASK or query.duplicates is Duplicates.DISTINCT

    @cached_property
    def _column_of(self) -> Mapping[str, int]:
        return {name: i for i, name in enumerate(self.plan.query.free)}

    def show(self, ids: Ids, counts: Words) -> Columns:
        """Answers as rows, without filters and limits."""
        if self.drops_counts:
            counts = list_ones(len(counts))
        _check_counts(counts)
        return self._pick(ids), counts

    @cached_property
    def picks(self) -> list[int | None]:
        """The answer column of each column of the head; None for unbound."""
        return [self._column_of.get(name) for name in self.plan.query.head]

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the head has the columns of an answer in their order."""
        return self.picks == list(range(len(self._column_of)))

    def _pick(self, ids: Ids) -> Ids:
        if self._is_whole:
            return ids
        out = np.full((len(self.picks), ids.shape[1]), UNBOUND, ids.dtype)
        for column, pick in enumerate(self.picks):
            if pick is not None:
                out[column] = ids[pick]
        return out

    def _filter(self, ids: Ids, counts: Words) -> Columns:
        for expression in self.plan.filters:
            kept = self._keep(expression, ids)
            ids, counts = ids[:, kept], counts[kept]
        return ids, counts

    def _keep(self, expression: Expression, ids: Ids) -> NDArray[np.bool_]:
        names = list(expression_variables(expression))
        columns = [self._column_of[v] for v in names]
        distinct, rows = np.unique(ids[columns], axis=1, return_inverse=True)
        verdicts = [
            holds(expression, dict(zip(names, map(self.decode, values), strict=True)))
            for values in distinct.T.tolist()
        ]
        return np.array(verdicts, np.bool_)[rows.reshape(-1)]


def _check_counts(counts: Words) -> None:
    if not are_ones(counts) and len(counts) and counts.min() < 0:
        raise MultiplicityOverflow(*WIDE)


def cut_rows(
    ids: Ids, counts: Words, start: int, offset: int, end: int | None
) -> tuple[Ids, Words, int]:
    """Apply OFFSET and LIMIT, which count expanded rows, to a batch whose first row has the number
    `start`; also returns the number after its last row.
    """
    shown = []
    for count in counts.tolist():
        stop = start + (count if count > 0 else LARGEST)  # a lower bound if it does not fit
        taken = (stop if end is None else min(stop, end)) - max(start, offset)
        shown.append(count if end is None and count < 0 else taken)
        start = stop
        if end is not None and start >= end:
            break
    left = np.array(shown, np.int64)
    kept = np.flatnonzero((left > 0) | (counts[: len(left)] < 0))
    return ids[:, kept], left[kept], start
