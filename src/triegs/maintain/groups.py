"""The rows of a grouped query: one per group, kept as a relation like any other.

An epoch lists the groups whose measures changed (`triegs.compiler.groups`). Their rows are computed
from the measures as they are now, and replace their old rows in the relation that readers
enumerate. So aggregates are published with the answers, and what reads answers reads groups.

The ids of computed columns belong to a dictionary of the query's own, because readers of an
engine's dictionary must not see terms that no event contains. Id 0 there is "no value".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from triegs.compiler.groups import choose_measure, is_direct
from triegs.compiler.plan import Measure, Plan
from triegs.jit.words import Words
from triegs.maintain.digits import sum_of
from triegs.maintain.enumeration_plan import EnumerationPlan, Level
from triegs.maintain.kernels.groups import CURSOR, change_rows, read_first
from triegs.maintain.lowering import Encode
from triegs.maintain.meaning import Held, Meaning
from triegs.maintain.measures import Base, Measures
from triegs.maintain.model import Contents, View
from triegs.maintain.tables import Table
from triegs.maintain.views import Views
from triegs.sparql.aggregates import aggregate
from triegs.sparql.expressions import UNBOUND, evaluate, holds
from triegs.sparql.model import Aggregate, Call, Expression
from triegs.sparql.values import ExpressionError, Number, Rank, number_term
from triegs.store.packed import PackedVersion
from triegs.terms.dictionary import Dictionary

#: The id of a computed column without a value.
NO_VALUE = 0
#: The ids of the keys of a group.
Group = tuple[int, ...]


class _Members(NamedTuple):
    """A group with its bases."""

    group: Group
    bases: list[Base]


class GroupRows:
    """The rows of one grouped query. `held` lists all views that it uses."""

    def __init__(
        self, views: Views, plan: Plan, encode: Encode, before: GroupRows | None = None
    ) -> None:
        """Create all views; `fill` adds the rows. `before` are the rows that these replace."""
        grouping = plan.query.grouping
        assert plan.groups is not None
        assert grouping is not None
        self._views = views
        self._decode = views.judges.decode
        self._query = plan.query
        self._groups = plan.groups
        self._grouping = grouping
        #: The terms of computed columns.
        self.values: Dictionary = Dictionary() if before is None else before.values
        self._acquired: list[Words] = []
        self._released: list[Words] = [] if before is None else before._released
        if before is None:
            self.values.acquire([self.values.encode_one('"no value"')])
        self._measures = Measures(views, plan.groups, encode)
        self.held: Held = self._measures.held
        self._is_direct = is_direct(plan.query)
        names = [key.name for key in grouping.keys]
        #: The columns that are not keys, and for all columns of a row whether they are computed.
        self._columns = [column for column in grouping.columns if column.name not in names]
        bound = set(plan.groups.variables)
        computed = [key.expression not in bound for key in grouping.keys]
        self._is_computed = np.array(computed + [True] * len(self._columns), np.bool_)
        self._members: View | None = None
        if not self._is_direct:
            self._members = self._create(Contents.MEMBERS, (*names, *plan.groups.variables))
        names += [column.name for column in self._columns]
        self._rows = self._create(Contents.ROWS, names)
        self._picks = [names.index(name) for name in plan.query.head]
        self._shown: View | None = None
        if sorted(self._picks) != list(range(len(names))):
            self._shown = self._create(Contents.ROWS, plan.query.head)
        self._cursor = np.zeros(CURSOR, np.int64)
        self.enumeration = self._enumerate(names)
        for view in self.held:
            view.uses += 1

    def fill(self) -> None:
        """Add a row for each group. Cost: all groups."""
        bases = self._measures.list_bases()
        self._refresh(bases if self._grouping.keys else np.zeros((1, 0), np.int64))

    def _create(self, contents: Contents, names: Sequence[str]) -> View:
        found = self._views.create(contents, len(names))
        self.held[found] = {Meaning("", tuple(names)): None}
        return found

    def _enumerate(self, names: list[str]) -> EnumerationPlan:
        if self._shown is None:
            return self._enumerate_rows(self._picks)
        width = len(self._picks)
        found = EnumerationPlan(width)
        found.values = self.values
        found.is_computed = tuple(self._is_computed[self._picks].tolist())
        found.add_level(Level(self._shown.relation, (), tuple(range(width)), weighs=True))
        hidden = [names.index(name) for name in self._query.hidden]
        if hidden:
            found.sorting = self._enumerate_rows([*self._picks, *hidden])
        return found

    def _enumerate_rows(self, picks: list[int]) -> EnumerationPlan:
        """All columns of the rows, in this order."""
        found = EnumerationPlan(len(picks))
        found.values = self.values
        found.is_computed = tuple(self._is_computed[picks].tolist())
        binds = tuple(picks.index(column) for column in range(len(picks)))
        found.add_level(Level(self._rows.relation, (), binds, weighs=True))
        return found

    # Epochs

    def run(self, table: Table, lists: Words, log: Words, before: PackedVersion) -> None:
        """Replace the rows of all groups that the epoch changed."""
        self._refresh(self._measures.list_changed(table, lists, log, before))

    def release(self) -> None:
        """Release the terms of all rows, whose relations are about to be dropped."""
        keys = len(self._grouping.keys)
        for view, width in ((self._rows, len(self._is_computed)), (self._members, keys)):
            if view is not None:
                rows = [key for key, _ in view.relation.scan()]
                found = np.array(rows, np.int64).reshape(len(rows), view.relation.arity)
                self._released.append(found[:, :width][:, self._is_computed[:width]].reshape(-1))

    def abort(self) -> None:
        """Forget what the epoch did; the store has restored its relations."""
        self._acquired.clear()
        self._released.clear()

    def commit(self, number: int) -> None:
        """The rows are published as the version of that number."""
        if self._acquired:
            self.values.acquire(np.concatenate(self._acquired), number)
        if self._released:
            self.values.release(np.concatenate(self._released), number)
        self.abort()

    # Groups

    def _refresh(self, bases: Words) -> None:
        """Compute the rows of the groups of some bases, and put them in the place of the old."""
        if not len(bases):
            return
        keys, names = self._grouping.keys, self._groups.variables
        if self._is_direct:
            groups = bases[:, [names.index(str(key.expression)) for key in keys]]
            each = [[base] for base in map(tuple, bases.tolist())]
        else:
            found = self._join_members(bases)
            groups = np.array([group for group, _ in found], np.int64).reshape(-1, len(keys))
            each = [members for _, members in found]
            bases = np.zeros((0, 0), np.int64)
        self._replace(groups, *self._find_rows(groups, bases, each))

    def _join_members(self, bases: Words) -> list[_Members]:
        """The groups of some bases, each with all its bases, after noting which bases have
        answers.
        """
        assert self._members is not None
        members = self._members.relation
        groups: dict[Group, None] = {}
        width = len(self._grouping.keys)
        for base in map(tuple, bases.tolist()):
            group = self._find_group(base)
            groups[group] = None
            is_there = self._measures.count(0, [base]) > 0
            if is_there != (members.get((*group, *base)) > 0):
                members.set((*group, *base), int(is_there))
                # A member holds the terms of its group, which its row may not show.
                ids = np.array(group, np.int64)[self._is_computed[:width]]
                (self._acquired if is_there else self._released).append(ids)
        return [
            _Members(group, [key[width:] for key, _ in members.scan(group)]) for group in groups
        ]

    def _find_group(self, base: Base) -> Group:
        """The ids of the keys: of the engine for variables, else of the computed terms."""
        binding = self._bind(base)
        found = []
        for key, is_computed in zip(self._grouping.keys, self._is_computed, strict=False):
            if is_computed:
                found.append(self._encode(_value(key.expression, binding)))
            else:
                found.append(base[self._groups.variables.index(str(key.expression))])
        return tuple(found)

    def _bind(self, base: Base) -> Mapping[str, str]:
        names = self._groups.variables
        return {name: self._decode(i) for name, i in zip(names, base, strict=True)}

    def _replace(self, groups: Words, rows: Words, is_there: NDArray[np.bool_]) -> None:
        """Put rows in the place of those that their groups have."""
        views, (count, width), arity = self._views, groups.shape, len(self._is_computed)
        old = np.empty((count, arity), np.int64)
        root, keys = int(views.store.read_slot(self._rows.relation)[0]), groups.reshape(-1)
        keys = np.ascontiguousarray(keys)
        read_first(views.store.words, root, keys, width, self._cursor, old.reshape(-1), arity)
        was_there = old[:, 0] >= 0
        is_same = was_there & is_there & (old == rows).all(axis=1)
        for found, change in ((old[was_there & ~is_same], -1), (rows[is_there & ~is_same], 1)):
            if len(found):
                self._change(self._rows, found, change)
                if self._shown is not None:
                    self._change(self._shown, found[:, self._picks], change)
                ids = found[:, self._is_computed].reshape(-1)
                (self._acquired if change > 0 else self._released).append(ids)

    def _change(self, view: View, rows: Words, change: int) -> None:
        flat = np.ascontiguousarray(rows).reshape(-1)

        def work(words: Words, _: Words) -> None:
            change_rows(words, view.address, flat, view.relation.arity, change)

        self._views.store.run(work)
        self._views.check_faults(view.name)

    # Rows

    def _find_rows(
        self, groups: Words, bases: Words, each: list[list[Base]]
    ) -> tuple[Words, NDArray[np.bool_]]:
        """The rows of groups, and which of them exist. `bases` are given if all groups have one."""
        rows = np.empty((len(groups), len(self._is_computed)), np.int64)
        width = groups.shape[1]
        rows[:, :width] = groups
        is_there = np.ones(len(groups), np.bool_)
        if width and self._is_direct:
            is_there = self._measures.read_counts(0, bases) > 0
        elif width:
            is_there = np.array([self._measures.count(0, some) > 0 for some in each], np.bool_)
        slow = []
        for column in range(width, rows.shape[1]):
            expression = self._columns[column - width].expression
            ids = None
            if self._is_direct and isinstance(expression, Aggregate):
                ids = self._read_integers(expression, bases, each)
            if ids is None:
                slow.append(column)
            else:
                rows[:, column] = ids
        if slow or self._grouping.having:
            for place in np.flatnonzero(is_there).tolist():
                found = self._find_row(tuple(groups[place].tolist()), each[place], slow)
                if found is None:
                    is_there[place] = False
                else:
                    rows[place, slow] = found
        return rows, is_there

    def _read_integers(
        self, each: Aggregate, bases: Words, members: list[list[Base]]
    ) -> Words | None:
        """The ids of an aggregate whose values are 64-bit integers, or most of them; None if it is
        of another kind.
        """
        measure, values = choose_measure(self._query, each)
        number = self._groups.find(measure, values)
        if measure in (Measure.COUNT, Measure.DISTINCT):
            return self._encode_integers(self._measures.read_counts(number, bases))
        if measure not in (Measure.SUM, Measure.DISTINCT_SUM) or each.function != "SUM":
            return None
        sums, is_other = self._measures.read_sums(number, bases)
        ids = self._encode_integers(sums)
        for place in np.flatnonzero(is_other).tolist():
            found = self._aggregate(each, members[place])
            ids[place] = self._encode(None if found is UNBOUND else str(found))
        return ids

    def _encode_integers(self, integers: Words) -> Words:
        ids: Words = self.values.encode(pa.array(integers)).ids
        return ids

    def _find_row(self, group: Group, bases: list[Base], columns: list[int]) -> list[int] | None:
        """The ids of some columns of a group; None if HAVING excludes it."""
        named = {}
        flags = zip(self._grouping.keys, group, self._is_computed, strict=False)
        for key, i, is_computed in flags:
            term = self._read(i) if is_computed else self._decode(i)
            if term is not None:
                named[key.name] = term
        found: dict[Aggregate, Expression] = {}

        def settle(expression: Expression) -> Expression:
            if isinstance(expression, Aggregate):
                if expression not in found:
                    found[expression] = self._aggregate(expression, bases)
                return found[expression]
            if isinstance(expression, Call):
                return Call(expression.operator, tuple(map(settle, expression.arguments)))
            return expression

        if not all(holds(settle(each), named) for each in self._grouping.having):
            return None
        shown = [self._columns[column - len(group)].expression for column in columns]
        return [self._encode(_value(settle(expression), named)) for expression in shown]

    def _encode(self, term: str | None) -> int:
        return NO_VALUE if term is None else self.values.encode_one(term)

    def _read(self, identity: int) -> str | None:
        return None if identity == NO_VALUE else self.values.decode_one(identity)

    # Aggregates of one group

    def _aggregate(self, each: Aggregate, bases: list[Base]) -> Expression:
        try:
            return self._find_aggregate(each, bases)
        except ExpressionError:
            return UNBOUND

    def _find_aggregate(self, each: Aggregate, bases: list[Base]) -> str:
        measure, values = choose_measure(self._query, each)
        number, measures = self._groups.find(measure, values), self._measures
        if measure in (Measure.COUNT, Measure.DISTINCT):
            return number_term(Number(Rank.INTEGER, measures.count(number, bases)))
        if measure in (Measure.SUM, Measure.DISTINCT_SUM):
            digits: dict[int, int] = {}
            for base in bases:
                for (place,), digit in measures.scan(number, base):
                    digits[place] = digits.get(place, 0) + digit
            divisor = 0
            if each.function == "AVG":
                is_distinct = measure is Measure.DISTINCT_SUM
                counted = (Measure.DISTINCT, values) if is_distinct else (Measure.COUNT, ())
                divisor = measures.count(self._groups.find(*counted), bases)
                if divisor == 0:
                    return number_term(Number(Rank.INTEGER, 0))
            return number_term(sum_of(digits.items(), divisor))
        return aggregate(each.function, self._list_values(number, each, bases), each.duplicates)

    def _list_values(
        self, number: int, each: Aggregate, bases: list[Base]
    ) -> Iterator[tuple[str | None, int]]:
        """The values of an aggregate's argument in a group, with their numbers of answers."""
        names = self._measures.find_values(number)
        assert each.argument is not None
        for base in bases:
            known = self._bind(base)
            for key, count in self._measures.scan(number, base):
                if count:
                    terms = map(self._decode, key)
                    binding = {**known, **dict(zip(names, terms, strict=True))}
                    yield _value(each.argument, binding), count


def _value(expression: Expression, binding: Mapping[str, str]) -> str | None:
    try:
        return evaluate(expression, binding)
    except ExpressionError:
        return None
