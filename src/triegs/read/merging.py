"""Merges the partial groups of partitions to the rows of a query.

Counts, digits and values of a group are added up over all partitions. Everything else is computed
from the sums, as for the groups of one engine: averages, distinct values, extremes, HAVING,
expressions. So the rows are the same, however the answers are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from triegs.compiler.compile import compile_query
from triegs.compiler.groups import choose_measure, is_direct
from triegs.compiler.plan import Measure
from triegs.errors import MultiplicityOverflow
from triegs.maintain.digits import WHOLE, sum_of
from triegs.read.columns import LARGEST
from triegs.read.group_rows import find_row, find_value
from triegs.read.partials import MARKER, list_value_names, make_schema
from triegs.sparql.aggregates import aggregate
from triegs.sparql.model import Aggregate, Duplicates, Query, is_variable
from triegs.sparql.values import Number, Rank, number_term

Terms = tuple[str, ...]
Row = tuple[str | None, ...]
#: A measure, the terms of the group's variables, its values or digit number, and a signed count.
Entry = tuple[int, Terms, Terms, int]


class GroupMerger:
    """The groups of all partitions. Memory: the entries, and a row per group.

    >>> from triegs.sparql import parse
    >>> merger = GroupMerger(parse("SELECT (COUNT(*) AS ?n) { ?x <a:p> ?y }"))
    >>> merger.apply([(0, (), (), 2), (0, (), (), 3)])
    [(('"0"^^<http://www.w3.org/2001/XMLSchema#integer>',), -1), \
(('"5"^^<http://www.w3.org/2001/XMLSchema#integer>',), 1)]
    """

    def __init__(self, query: Query) -> None:
        assert query.grouping is not None
        query = replace(query, grouping=replace(query.grouping, is_partial=True))
        plan = compile_query(query)
        assert query.grouping is not None
        assert plan.groups is not None
        self._query = query
        self._grouping = query.grouping
        self._groups = plan.groups
        variables = self._groups.variables
        #: The keys as columns of the variables, if all keys are variables.
        self._columns = (
            [variables.index(str(key.expression)) for key in query.grouping.keys]
            if is_direct(query)
            else None
        )
        self._is_distinct = query.duplicates is Duplicates.DISTINCT
        self._names = [list_value_names(self._groups, each) for each in self._groups.sources]
        #: By the terms of the group's variables: the counts of each measure, by value or digit.
        self._measures: dict[Terms, list[dict[Terms, int]]] = {}
        #: The terms of the variables by key, if a key is an expression.
        self._members: dict[Row, dict[Terms, None]] = {}
        self._changed: dict[Row, None] = {}
        #: Entries that did not fit 64 bits when they were added.
        self._wide: list[tuple[int, Terms, Terms]] = []
        self._rows: dict[Row, Row] = {}
        #: How many groups have a row.
        self._uses: dict[Row, int] = {}
        keys = [key.name for key in self._grouping.keys]
        heads = query.head
        self._shown = [keys.index(name) if name in keys else None for name in heads]
        self._computed = [index for index, key in enumerate(self._shown) if key is None]
        if not keys:  # the only group exists always
            self._update((), {})

    @property
    def schema(self) -> pa.Schema:
        """The columns of entries."""
        return make_schema(self._groups)

    @property
    def is_separable(self) -> bool:
        """Whether entries with different terms never meet in a row: all keys are variables, and are
        shown.
        """
        keys = range(len(self._grouping.keys))
        return self._columns is not None and len(keys) > 0 and set(keys) <= set(self._shown)

    def read(self, table: pa.Table) -> Iterator[Entry]:
        """The entries of a table of this schema, without markers."""
        columns = [table.column(name).to_pylist() for name in self.schema.names]
        width = 1 + len(self._groups.variables)
        for row in zip(*columns, strict=True):
            if row[0] != MARKER:
                values = row[width : width + len(self._names[row[0]])]
                yield row[0], row[1:width], values, row[-1]

    def apply(self, entries: Iterable[Entry]) -> list[tuple[Row, int]]:
        """Add entries of any partitions; returns the rows that change, with signed multiplicities.
        Cost: the entries, and the groups that change.

        Raises `MultiplicityOverflow` if a sum does not fit 64 bits, as in a single engine; then the
        groups are unusable.
        """
        self.add(entries)
        if any(not -LARGEST <= self.count(*entry) <= LARGEST for entry in self._wide):
            message = "an aggregate over all partitions does not fit 64 bits"
            raise MultiplicityOverflow(message, "aggregate")
        self._wide.clear()
        changes: dict[Row, int] = {}
        for group in self._changed:
            self._update(group, changes)
        self._changed.clear()
        return [(row, change) for row, change in changes.items() if change]

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries whose rows the next `apply` updates."""
        for number, base, values, count in entries:
            group = self._find_group(base)
            self._changed[group] = None
            if base not in self._measures:
                self._measures[base] = [{} for _ in self._groups.sources]
                self._members.setdefault(group, {})[base] = None
            counts = self._measures[base][number]
            total = counts.get(values, 0) + count
            if not -LARGEST <= total <= LARGEST:  # another partition may make it smaller again
                self._wide.append((number, base, values))
            if total:
                counts[values] = total
            else:
                counts.pop(values, None)

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Every row once, with its multiplicity."""
        for row, uses in self._uses.items():
            yield row, 1 if self._is_distinct else uses

    def count(self, number: int, base: Terms, values: Terms) -> int:
        """The sum of an entry over all partitions."""
        known = self._measures.get(base)
        return 0 if known is None else known[number].get(values, 0)

    def _find_group(self, base: Terms) -> Row:
        if self._columns is not None:
            return tuple(base[column] for column in self._columns)
        binding = dict(zip(self._groups.variables, base, strict=True))
        return tuple(find_value(key.expression, binding) for key in self._grouping.keys)

    def _update(self, group: Row, changes: dict[Row, int]) -> None:
        """Compute the row of a group, and add its change."""
        old, new = self._rows.get(group), self._find_row(group)
        if old == new:
            return
        for row, change in ((old, -1), (new, 1)):
            if row is not None:
                before = self._uses.get(row, 0)
                after = self._uses[row] = before + change
                if not after:
                    del self._uses[row]
                if self._is_distinct:
                    change = (after > 0) - (before > 0)
                changes[row] = changes.get(row, 0) + change
        if new is None:
            del self._rows[group]
        else:
            self._rows[group] = new

    def _find_row(self, group: Row) -> Row | None:
        """The row of a group; None if it has no answers, or HAVING excludes it."""
        members = self._members.get(group, {})
        for base in [base for base in members if not any(self._measures[base])]:
            del members[base], self._measures[base]
        if not members:
            self._members.pop(group, None)
            if group:
                return None
        keys = zip(self._grouping.keys, group, strict=True)
        named = {key.name: term for key, term in keys if term is not None}
        bases = list(members)
        found = find_row(
            self._grouping, self._computed, named, lambda each: self._aggregate(each, bases)
        )
        if found is None:
            return None
        values = iter(found)
        return tuple(next(values) if key is None else group[key] for key in self._shown)

    def _aggregate(self, each: Aggregate, bases: list[Terms]) -> str:
        measure, values = choose_measure(self._query, each)
        number = self._groups.find(measure, values)
        found = [self._measures[base][number] for base in bases]
        if measure is Measure.COUNT:
            return number_term(Number(Rank.INTEGER, self._count(bases)))
        if measure is Measure.SUM:
            digits: dict[int, int] = {}
            for position, digit in self._list_digits(values, bases):
                digits[position] = digits.get(position, 0) + digit
            divisor = 0
            if each.function == "AVG":
                divisor = self._count(bases)
                if divisor == 0:
                    return number_term(Number(Rank.INTEGER, 0))
            return number_term(sum_of(digits.items(), divisor))
        assert measure is Measure.VALUES
        is_set = each.function == "COUNT" and each.duplicates is Duplicates.DISTINCT
        if is_set and len(found) == 1 and self._names[number] == (each.argument,):
            return number_term(Number(Rank.INTEGER, len(found[0])))
        return aggregate(each.function, self._list_values(number, each, bases), each.duplicates)

    def _list_digits(
        self, values: tuple[str, ...], bases: Iterable[Terms]
    ) -> Iterator[tuple[int, int]]:
        """The digits of a sum with their numbers; a measure without a column has whole digits."""
        for number, source in enumerate(self._groups.sources):
            if source.values == values and source.measure is not Measure.VALUES:
                for base in bases:
                    for position, digit in self._measures[base][number].items():
                        yield int(position[0]) if position else WHOLE, digit

    def _count(self, bases: Iterable[Terms]) -> int:
        return sum(self._measures[base][0].get((), 0) for base in bases)

    def _list_values(
        self, number: int, each: Aggregate, bases: Iterable[Terms]
    ) -> Iterator[tuple[str | None, int]]:
        """The values of an aggregate's argument in a group, with their numbers of answers."""
        argument = each.argument
        assert argument is not None
        names = self._names[number]
        is_plain = names == (argument,) and is_variable(names[0])
        for base in bases:
            counts = self._measures[base][number]
            if is_plain:
                yield from ((values[0], count) for values, count in counts.items())
                continue
            known = dict(zip(self._groups.variables, base, strict=True))
            for values, count in counts.items():
                binding = {**known, **dict(zip(names, values, strict=True))}
                yield find_value(argument, binding), count
