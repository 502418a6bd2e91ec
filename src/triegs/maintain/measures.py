"""Lowers the measures of groups: the relations that aggregates are read from.

An epoch maintains them like all views, and nothing else: the row of a group is computed from its
measures when it is read.
"""

from __future__ import annotations

from triegs.compiler.groups import choose_measure, is_extreme, list_aggregates
from triegs.compiler.plan import DIGIT, Groups, Measure, Plan, Source
from triegs.maintain.enumeration_plan import EnumerationPlan, GroupMeasure, Level
from triegs.maintain.kernels.tables import COUNT, PRESENCE
from triegs.maintain.lowering import Encode
from triegs.maintain.meaning import Held
from triegs.maintain.model import Operand
from triegs.maintain.sources import Marginal, SourceLowering
from triegs.maintain.views import Views


class Measures:
    """The measures of one grouped query. `held` lists the views that they use."""

    def __init__(self, views: Views, plan: Plan, encode: Encode) -> None:
        assert plan.groups is not None
        self._views = views
        self._groups: Groups = plan.groups
        self._query = plan.query
        self._encode = encode
        self.held: Held = {}

    def run(self) -> EnumerationPlan:
        """Create or find every view; returns the enumeration of the groups."""
        keys = self._groups.variables
        measures = tuple(self._lower(source) for source in self._groups.sources)
        found = EnumerationPlan(len(keys), measures=measures)
        relation, names, totals = measures[0][:3]
        found.totals += totals
        if relation is not None:
            binds = tuple(keys.index(name) for name in names)
            found.add_level(Level(relation, (), binds, weighs=True))
        for view in self.held:
            view.uses += 1
        return found

    def _lower(self, source: Source) -> GroupMeasure:
        keys = self._groups.variables
        lowering = SourceLowering(self._views, source.plan, self._encode, keys)
        view, names, totals = lowering.run_marginal()
        is_distinct = source.measure in (Measure.DISTINCT, Measure.DISTINCT_SUM)
        if is_distinct:
            view, names, totals = self._lower_distinct(
                lowering, source, Marginal(view, names, totals)
            )
        if view is not None and set(names[: len(keys)]) != set(keys):
            order = (*keys, *(name for name in names if name not in keys))
            columns = tuple(names.index(name) for name in order)
            view = lowering.find_order(Operand(len(names), view=view), columns)
            names = order
        by_value = None
        if view is not None and self._wants_extreme(source):
            by_value = lowering.sort_values(view, names).relation
        for each, meanings in lowering.held.items():
            self.held.setdefault(each, {}).update(meanings)
        relation = None if view is None else view.relation
        return GroupMeasure(relation, names, tuple(totals), is_distinct, by_value)

    def _wants_extreme(self, source: Source) -> bool:
        """Whether an aggregate is an extreme of the values of a variable that is no key."""
        query = self._query
        assert query.grouping is not None
        wanted = source.measure, source.values
        if source.measure is not Measure.VALUES or set(source.values) <= set(
            self._groups.variables
        ):
            return False
        return any(
            is_extreme(each) and choose_measure(query, each) == wanted
            for each in list_aggregates(query.grouping)
        )

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
        return Marginal(rule, keys, values.totals)
