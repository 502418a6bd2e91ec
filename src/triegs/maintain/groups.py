"""The rows of a grouped query: one per group, kept as a relation like any other.

An epoch lists the groups whose measures changed (`triegs.compiler.groups`). Their rows are computed
from the measures as they are now, and replace their old rows in the relation that readers
enumerate. So aggregates are published with the answers, and what reads answers reads groups.

The ids of computed columns belong to a dictionary of the query's own, because readers of an
engine's dictionary must not see terms that no event contains. Id 0 there is "no value".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

import numpy as np

from triegs.compiler.groups import choose_measure, is_direct
from triegs.compiler.plan import DIGIT, Measure, Plan, Source
from triegs.jit.words import Words
from triegs.maintain.digits import sum_of
from triegs.maintain.enumeration_plan import EnumerationPlan, Level
from triegs.maintain.kernels.tables import COUNT, PRESENCE
from triegs.maintain.lowering import Encode, Lowering, Marginal
from triegs.maintain.meaning import Held
from triegs.maintain.model import Operand, View
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
#: The ids of the variables of the keys; and those of the keys themselves.
Base = tuple[int, ...]
Group = tuple[int, ...]


class GroupRows:
    """The rows of one grouped query. `held` lists all views that it uses."""

    def __init__(
        self, views: Views, plan: Plan, encode: Encode, before: GroupRows | None = None
    ) -> None:
        """Create all views, and a row for each group; `before` are the rows that these replace."""
        grouping = plan.query.grouping
        assert plan.groups is not None
        assert grouping is not None
        self._views = views
        self._decode = views.judges.decode
        self._query = plan.query
        self._groups = plan.groups
        self._grouping = grouping
        self.held: Held = {}
        #: The terms of computed columns.
        self.values = Dictionary() if before is None else before.values
        self._acquired: list[int] = []
        self._released: list[int] = [] if before is None else before._released
        if before is None:
            self.values.acquire([self.values.encode_one('"no value"')])
        self._measures = [self._lower(source, encode) for source in plan.groups.sources]
        self._is_direct = is_direct(plan.query)
        names = [key.name for key in grouping.keys]
        #: The columns that are not keys, and for all columns of a row whether they are computed.
        self._columns = [column for column in grouping.columns if column.name not in names]
        bound = set(plan.groups.variables)
        self._is_computed = [key.expression not in bound for key in grouping.keys]
        self._is_computed += [True] * len(self._columns)
        self._rows = self._create("rows", len(self._is_computed))
        self._members: View | None = None
        if not self._is_direct:
            self._members = self._create("members", len(names) + len(plan.groups.variables))
        names += [column.name for column in self._columns]
        self._picks = [names.index(name) for name in plan.query.head]
        self._shown: View | None = None
        if sorted(self._picks) != list(range(len(names))):
            self._shown = self._create("shown rows", len(self._picks))
        self.enumeration = self._enumerate(names)
        for view in self.held:
            view.uses += 1
        self._refresh(self._list_bases())

    # Views

    def _lower(self, source: Source, encode: Encode) -> Marginal:
        lowering = Lowering(self._views, source.plan, encode)
        found = lowering.run_marginal()
        keys = self._groups.variables
        if source.measure in (Measure.DISTINCT, Measure.DISTINCT_SUM):
            found = self._lower_distinct(lowering, source, found)
        view, names, totals = found[:3]
        if view is not None:
            wanted = [*keys, *(name for name in names if name not in keys)]
            if set(names[: len(keys)]) != set(keys):
                order = tuple(names.index(name) for name in wanted)
                index = lowering.find_order(Operand(len(names), view=view), order)
                found = Marginal(view, names, totals, index, tuple(wanted))
        self.held.update(lowering.held)
        return found

    def _lower_distinct(self, lowering: Lowering, source: Source, values: Marginal) -> Marginal:
        view, names, totals = values[:3]
        assert view is not None
        inputs = [(Operand(len(names), view=view), names, PRESENCE)]
        keys, watch = self._groups.variables, None
        if source.measure is Measure.DISTINCT_SUM:
            variable = source.values[0]
            digits, watch = lowering.find_digits(variable)
            inputs.insert(0, (digits, (variable, DIGIT), COUNT))
            keys = (*keys, DIGIT)
        rule = lowering.rule(inputs, keys)
        rule.watch = watch
        if keys:
            lowering.list_changes(Operand(len(keys), view=rule))
        else:
            rule.listed = True
        return Marginal(rule, keys, totals)

    def _create(self, what: str, arity: int) -> View:
        number = 0
        while (name := f"{what} of groups {number}") in self._views.by_name:
            number += 1
        found = self._views.create(name, arity)
        self.held[found] = {}
        return found

    def _enumerate(self, names: list[str]) -> EnumerationPlan:
        if self._shown is None:
            return self._enumerate_rows(self._picks)
        width = len(self._picks)
        found = EnumerationPlan(width)
        found.values = self.values
        found.is_computed = tuple(self._is_computed[pick] for pick in self._picks)
        found.add_level(Level(self._shown.relation, (), tuple(range(width)), weighs=True))
        hidden = [names.index(name) for name in self._query.hidden]
        if hidden:
            found.sorting = self._enumerate_rows([*self._picks, *hidden])
        return found

    def _enumerate_rows(self, picks: list[int]) -> EnumerationPlan:
        """All columns of the rows, in this order."""
        found = EnumerationPlan(len(picks))
        found.values = self.values
        found.is_computed = tuple(self._is_computed[pick] for pick in picks)
        binds = tuple(picks.index(column) for column in range(len(picks)))
        found.add_level(Level(self._rows.relation, (), binds, weighs=True))
        return found

    # Epochs

    def run(self, table: Table, lists: Words, log: Words, before: PackedVersion) -> None:
        """Replace the rows of all groups that the epoch changed."""
        changed: dict[Base, None] = {}
        for marginal in self._measures:
            for relation, key in marginal.totals:
                if relation.get(key) != before.get(relation, key):
                    self._refresh([*self._list_old_bases(before), *self._list_bases()])
                    return
            if marginal.view is not None:
                changed.update(self._list_changed(marginal, table, lists, log))
        self._refresh(changed)

    def _list_changed(
        self, marginal: Marginal, table: Table, lists: Words, log: Words
    ) -> Iterator[tuple[Base, None]]:
        view, names = marginal.view, marginal.names
        assert view is not None
        number = table.lists.get(view, table.keys.get(view))
        if number is None:  # it never changes
            return
        start, end = lists[2 * number : 2 * number + 2].tolist()
        stride = 2 if len(names) == 1 else len(names) + 2
        columns = [names.index(name) for name in self._groups.variables]
        entries = log[start:end].reshape(-1, stride)[:, columns]
        for base in map(tuple, entries.tolist()):
            yield base, None

    def _list_bases(self) -> Iterator[Base]:
        view, names = self._measures[0].view, self._measures[0].names
        if view is None:
            yield ()
            return
        columns = [names.index(name) for name in self._groups.variables]
        for key, _ in view.relation.scan():
            yield tuple(key[column] for column in columns)

    def _list_old_bases(self, before: PackedVersion) -> Iterator[Base]:
        view, names = self._measures[0].view, self._measures[0].names
        if view is not None and view.relation in before.members:
            columns = [names.index(name) for name in self._groups.variables]
            for key, _ in before.scan(view.relation):
                yield tuple(key[column] for column in columns)

    def release(self) -> None:
        """Release the terms of all rows, whose relations are about to be dropped."""
        keys = len(self._grouping.keys)
        for view, width in ((self._rows, len(self._is_computed)), (self._members, keys)):
            for key, _ in view.relation.scan() if view is not None else ():
                flags = zip(key[:width], self._is_computed, strict=False)
                self._released += [i for i, is_computed in flags if is_computed]

    def abort(self) -> None:
        """Forget what the epoch did; the store has restored its relations."""
        self._acquired.clear()
        self._released.clear()

    def commit(self, number: int) -> None:
        """The rows are published as the version of that number."""
        if self._acquired:
            self.values.acquire(np.array(self._acquired), number)
        if self._released:
            self.values.release(np.array(self._released), number)
        self.abort()

    # Groups

    def _refresh(self, bases: Iterable[Base]) -> None:
        if self._is_direct:
            order = [self._groups.variables.index(str(key.expression))
                     for key in self._grouping.keys]  # fmt: skip
            for base in bases:
                self._replace(tuple(base[place] for place in order), [base])
            return
        assert self._members is not None
        members = self._members.relation
        groups: dict[Group, None] = {}
        for base in bases:
            group = self._find_group(base)
            groups[group] = None
            is_there = self._count([base]) > 0
            was_there = members.get((*group, *base)) > 0
            if is_there != was_there:
                members.set((*group, *base), int(is_there))
                self._hold_keys(group, is_there)
        width = len(self._grouping.keys)
        for group in groups:
            self._replace(group, [key[width:] for key, _ in members.scan(group)])

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

    def _hold_keys(self, group: Group, is_there: bool) -> None:
        """A member holds the computed terms of its group, which its rows may not have."""
        ids = [i for i, is_computed in zip(group, self._is_computed, strict=False) if is_computed]
        (self._acquired if is_there else self._released).extend(ids)

    def _bind(self, base: Base) -> Mapping[str, str]:
        names = self._groups.variables
        return {name: self._decode(i) for name, i in zip(names, base, strict=True)}

    def _replace(self, group: Group, bases: list[Base]) -> None:
        """Compute the row of a group, and put it in the place of the old one."""
        rows = self._rows.relation
        old = next((key for key, _ in rows.scan(group)), None)
        if len(group) == rows.arity and old is not None:
            old = group if rows.get(group) else None
        new = self._find_row(group, bases)
        if old == new:
            return
        for row, change in ((old, -1), (new, 1)):
            if row is None:
                continue
            rows.set(row, int(change > 0))
            if self._shown is not None:
                shown = tuple(row[pick] for pick in self._picks)
                relation = self._shown.relation
                relation.set(shown, relation.get(shown) + change)
            ids = [i for i, is_computed in zip(row, self._is_computed, strict=True) if is_computed]
            (self._acquired if change > 0 else self._released).extend(ids)

    def _find_row(self, group: Group, bases: list[Base]) -> Group | None:
        count = self._count(bases)
        if count == 0 and self._grouping.keys:
            return None
        named = {}
        for key, i, is_computed in zip(self._grouping.keys, group, self._is_computed, strict=False):
            term = self._decode(i) if not is_computed else self._read(i)
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
        values = [_value(settle(column.expression), named) for column in self._columns]
        return (*group, *map(self._encode, values))

    def _encode(self, term: str | None) -> int:
        return NO_VALUE if term is None else self.values.encode_one(term)

    def _read(self, identity: int) -> str | None:
        return None if identity == NO_VALUE else self.values.decode_one(identity)

    # Measures

    def _scan(self, number: int, base: Base) -> Iterator[tuple[tuple[int, ...], int]]:
        """The entries of a measure for a base, without its ids, times the totals."""
        marginal = self._measures[number]
        factor = prod(relation.get(key) for relation, key in marginal.totals)
        if self._groups.sources[number].measure is Measure.DISTINCT_SUM:
            factor = min(factor, 1)
        if marginal.view is None:
            yield (), factor
            return
        keys = self._groups.variables
        names = marginal.names if marginal.index is None else marginal.order
        view = marginal.view if marginal.index is None else marginal.index
        prefix = tuple(base[keys.index(name)] for name in names[: len(keys)])
        for key, count in view.relation.scan(prefix):
            yield key[len(keys) :], count * factor

    def _count(self, bases: list[Base]) -> int:
        return sum(count for base in bases for _, count in self._scan(0, base))

    def _aggregate(self, each: Aggregate, bases: list[Base]) -> Expression:
        try:
            return self._find_aggregate(each, bases)
        except ExpressionError:
            return UNBOUND

    def _find_aggregate(self, each: Aggregate, bases: list[Base]) -> str:
        measure, values = choose_measure(self._query, each)
        if measure is Measure.COUNT:
            return number_term(Number(Rank.INTEGER, self._count(bases)))
        number = self._groups.find(measure, values)
        if measure is Measure.DISTINCT:
            return number_term(Number(Rank.INTEGER, self._count_distinct(number, bases)))
        if measure in (Measure.SUM, Measure.DISTINCT_SUM):
            digits: dict[int, int] = {}
            for base in bases:
                for (place,), digit in self._scan(number, base):
                    digits[place] = digits.get(place, 0) + digit
            divisor = 0
            if each.function == "AVG":
                divisor = self._count(bases)
                if measure is Measure.DISTINCT_SUM:
                    counted = self._groups.find(Measure.DISTINCT, values)
                    divisor = self._count_distinct(counted, bases)
                if divisor == 0:
                    return number_term(Number(Rank.INTEGER, 0))
            return number_term(sum_of(digits.items(), divisor))
        return aggregate(each.function, self._list_values(number, each, bases), each.duplicates)

    def _count_distinct(self, number: int, bases: list[Base]) -> int:
        if not self._count(bases):
            return 0
        marginal = self._measures[number]
        assert marginal.view is not None
        (base,) = bases
        keys = self._groups.variables
        return marginal.view.relation.get(tuple(base[keys.index(name)] for name in marginal.names))

    def _list_values(
        self, number: int, each: Aggregate, bases: list[Base]
    ) -> Iterator[tuple[str | None, int]]:
        """The values of an aggregate's argument in a group, with their numbers of answers."""
        marginal = self._measures[number]
        names = marginal.names if marginal.index is None else marginal.order
        others = names[len(self._groups.variables) :]
        assert each.argument is not None
        for base in bases:
            known = self._bind(base)
            for key, count in self._scan(number, base):
                if count:
                    terms = map(self._decode, key)
                    binding = {**known, **dict(zip(others, terms, strict=True))}
                    yield _value(each.argument, binding), count


def _value(expression: Expression, binding: Mapping[str, str]) -> str | None:
    try:
        return evaluate(expression, binding)
    except ExpressionError:
        return None
