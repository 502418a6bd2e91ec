"""The measures of groups: the relations that aggregates are computed from, and how they are read.

A *base* is a tuple of ids of the variables of the keys. If all keys are variables, a group has one
base; a group by an expression has one for each combination of values that gives its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from triegs.compiler.plan import DIGIT, Groups, Measure, Source
from triegs.errors import MultiplicityOverflow
from triegs.jit.words import Words
from triegs.maintain.kernels.groups import CURSOR, read_counts, read_sums
from triegs.maintain.kernels.tables import COUNT, PRESENCE
from triegs.maintain.lowering import Encode
from triegs.maintain.meaning import Held
from triegs.maintain.model import Operand
from triegs.maintain.sources import Marginal, SourceLowering
from triegs.maintain.tables import Table
from triegs.maintain.views import Views
from triegs.store.packed import PackedRelation, PackedVersion

Base = tuple[int, ...]
LARGEST = 2**63 - 1


class Measures:
    """The measures of one grouped query. `held` lists the views that they use."""

    def __init__(self, views: Views, groups: Groups, encode: Encode) -> None:
        self._views = views
        self._groups = groups
        self.held: Held = {}
        self._marginals = [self._lower(source, encode) for source in groups.sources]
        self._cursor = np.zeros(CURSOR, np.int64)

    def _lower(self, source: Source, encode: Encode) -> Marginal:
        keys = self._groups.variables
        lowering = SourceLowering(self._views, source.plan, encode, keys)
        found = lowering.run_marginal()
        if source.measure in (Measure.DISTINCT, Measure.DISTINCT_SUM):
            found = self._lower_distinct(lowering, source, found)
        names = found.names
        if found.view is not None and set(names[: len(keys)]) != set(keys):
            order = (*keys, *(name for name in names if name not in keys))
            columns = tuple(names.index(name) for name in order)
            index = lowering.find_order(Operand(len(names), view=found.view), columns)
            found = found._replace(by_keys=index, order=order)
        for view, meanings in lowering.held.items():
            self.held.setdefault(view, {}).update(meanings)
        return found

    def _lower_distinct(
        self, lowering: SourceLowering, source: Source, values: Marginal
    ) -> Marginal:
        """The number of distinct values, or their digits, from the relation of values."""
        names = values.names
        inputs = [(Operand(len(names), view=values.view), names, PRESENCE)]
        keys, watch = self._groups.variables, None
        if source.measure is Measure.DISTINCT_SUM:
            variable = source.values[0]
            digits, watch = lowering.find_digits(variable)
            inputs.insert(0, (digits, (variable, DIGIT), COUNT))
            keys = (*keys, DIGIT)
        rule = lowering.rule(inputs, keys)
        rule.watch = watch
        rule.listed = True
        return Marginal(rule, keys, values.totals)

    # Changes

    def list_bases(self) -> Words:
        """The bases that have answers, apart from the totals, a row for each."""
        marginal = self._marginals[0]
        if marginal.view is None:
            return np.zeros((1, 0), np.int64)
        return self._pick_keys(marginal, (key for key, _ in marginal.view.relation.scan()))

    def list_changed(self, table: Table, lists: Words, log: Words, before: PackedVersion) -> Words:
        """The bases whose measures an epoch changed, each once. `before` is the last version."""
        found = []
        for marginal in self._marginals:
            if any(relation.get(key) != before.get(relation, key)
                   for relation, key in marginal.totals):  # fmt: skip
                return self._unique([self.list_bases(), self._list_old(before)])
            view, names = marginal.view, marginal.names
            number = None if view is None else table.lists.get(view, table.keys.get(view))
            if number is None:  # it never changes
                continue
            start, end = lists[2 * number : 2 * number + 2].tolist()
            stride = 2 if len(names) == 1 else len(names) + 2
            columns = [names.index(name) for name in self._groups.variables]
            found.append(log[start:end].reshape(-1, stride)[:, columns])
        return self._unique(found)

    def _list_old(self, before: PackedVersion) -> Words:
        marginal = self._marginals[0]
        if marginal.view is None or marginal.view.relation not in before.members:
            return np.zeros((0, len(self._groups.variables)), np.int64)
        return self._pick_keys(marginal, (key for key, _ in before.scan(marginal.view.relation)))

    def _pick_keys(self, marginal: Marginal, keys: Iterable[Base]) -> Words:
        columns = [marginal.names.index(name) for name in self._groups.variables]
        rows = np.array(list(keys), np.int64).reshape(-1, len(marginal.names))
        return rows[:, columns]

    def _unique(self, found: list[Words]) -> Words:
        width = len(self._groups.variables)
        if width == 0:
            return np.zeros((int(any(len(rows) for rows in found)), 0), np.int64)
        rows = np.concatenate([np.zeros((0, width), np.int64), *found])
        if width == 1:
            return np.unique(rows[:, 0]).reshape(-1, 1)
        return np.unique(rows, axis=0)

    # Reading

    def _factor(self, number: int) -> int:
        """What multiplies all groups alike."""
        totals = self._marginals[number].totals
        factor = prod(relation.get(key) for relation, key in totals)
        is_distinct = self._groups.sources[number].measure in (
            Measure.DISTINCT,
            Measure.DISTINCT_SUM,
        )
        return min(factor, 1) if is_distinct else factor

    def _find(self, number: int) -> tuple[PackedRelation, tuple[str, ...]]:
        """The relation of a measure with the keys first, and its columns."""
        marginal = self._marginals[number]
        assert marginal.view is not None
        if marginal.by_keys is not None:
            return marginal.by_keys.relation, marginal.order
        return marginal.view.relation, marginal.names

    def find_values(self, number: int) -> tuple[str, ...]:
        """The variables of a measure that are not in the keys."""
        if self._marginals[number].view is None:
            return ()
        return self._find(number)[1][len(self._groups.variables) :]

    def scan(self, number: int, base: Base) -> Iterator[tuple[Base, int]]:
        """The entries of a base: the ids that follow it, and the count or digit."""
        factor = self._factor(number)
        if self._marginals[number].view is None:
            yield (), factor
            return
        relation, names = self._find(number)
        keys = self._groups.variables
        prefix = tuple(base[keys.index(name)] for name in names[: len(keys)])
        for key, count in relation.scan(prefix) if factor else ():
            yield key[len(keys) :], count * factor

    def count(self, number: int, bases: Iterable[Base]) -> int:
        """The counts of some bases together."""
        return sum(count for base in bases for _, count in self.scan(number, base))

    def read_counts(self, number: int, bases: Words) -> Words:
        """The count of each base. Raises `MultiplicityOverflow` if one does not fit."""
        factor, counts = self._factor(number), np.ones(len(bases), np.int64)
        if self._marginals[number].view is not None:
            root, keys, width = self._open(number, bases)
            read_counts(self._views.store.words, root, keys, width, counts)
        return _multiply(counts, factor)

    def read_sums(self, number: int, bases: Words) -> tuple[Words, NDArray[np.bool_]]:
        """The sum of each base, and whether it is the sum of more than 64-bit integers."""
        factor = self._factor(number)
        sums, is_other = np.empty(len(bases), np.int64), np.empty(len(bases), np.int64)
        root, keys, width = self._open(number, bases)
        read_sums(self._views.store.words, root, keys, width, self._cursor, sums, is_other)
        return _multiply(sums, factor), is_other != 0

    def _open(self, number: int, bases: Words) -> tuple[int, Words, int]:
        """The root of a measure, the bases in the order of its columns, and their width."""
        relation, names = self._find(number)
        keys = self._groups.variables
        columns = [keys.index(name) for name in names[: len(keys)]]
        root = int(self._views.store.read_slot(relation)[0])
        return root, np.ascontiguousarray(bases[:, columns]).reshape(-1), len(keys)


def _multiply(counts: Words, factor: int) -> Words:
    if factor in (0, 1) or not len(counts):
        return counts * factor
    if max(-int(counts.min()), int(counts.max())) > LARGEST // factor:
        message = "an aggregate of a disconnected pattern does not fit 64 bits"
        raise MultiplicityOverflow(message, "aggregate")
    return counts * factor
