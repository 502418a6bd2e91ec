"""Lowers the measures of groups: the relations that aggregates are read from.

An epoch maintains them like all views, and nothing else: the row of a group is computed from its
measures when it is read.
"""

from __future__ import annotations

from triegs.compiler.groups import CARRIED, choose_measure, is_extreme, list_aggregates
from triegs.compiler.plan import DIGIT, Groups, Measure, Plan, Source
from triegs.maintain.enumeration_plan import EnumerationPlan, GroupMeasure, Level
from triegs.maintain.extremes import ExtremeLowering
from triegs.maintain.kernels.tables import COUNT, PRESENCE
from triegs.maintain.leaves import Encode
from triegs.maintain.meaning import Held
from triegs.maintain.model import Operand, Watch, is_fixed
from triegs.maintain.sources import Marginal, SourceLowering
from triegs.maintain.views import Views

DISTINCT = (Measure.DISTINCT, Measure.DISTINCT_WHOLE_SUM, Measure.DISTINCT_SUM)
SUMS = (Measure.WHOLE_SUM, Measure.SUM, *DISTINCT[1:])


class Measures:
    """The measures of one grouped query. `held` lists the views that they use, `watches`
    where the terms of sums come from.
    """

    def __init__(self, views: Views, plan: Plan, encode: Encode) -> None:
        assert plan.groups is not None
        self._views = views
        self._groups: Groups = plan.groups
        self._query = plan.query
        self._encode = encode
        self.held: Held = {}
        self.watches: dict[Watch, None] = {}

    def run(self) -> EnumerationPlan:
        """Create or find every view; returns the enumeration of the groups."""
        keys = self._groups.variables
        measures = tuple(self._lower(source) for source in self._groups.sources)
        found = EnumerationPlan(len(keys), measures=measures)
        relation, names, totals = measures[0][:3]
        found.totals += totals
        if relation is not None:
            binds = tuple(keys.index(name) for name in names)
            is_count = self._groups.sources[0].measure not in CARRIED
            found.add_level(Level(relation, (), binds, weighs=is_count))
        for view in self.held:
            view.uses += 1
        return found

    def _lower(self, source: Source) -> GroupMeasure:
        keys = self._groups.variables
        lower = ExtremeLowering if source.measure in CARRIED else SourceLowering
        lowering = lower(self._views, source.plan, self._encode, keys)
        if source.measure in SUMS:
            lowering.add_digits(source.values[0])
            self.watches |= lowering.watches
        view, names, totals = lowering.run_marginal()
        is_distinct = source.measure in DISTINCT
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
        """Whether an aggregate is an extreme of the values of a variable that is no key. Partial
        groups are merged from all their values.
        """
        query = self._query
        assert query.grouping is not None
        wanted = source.measure, source.values
        if query.grouping.is_partial or set(source.values) <= set(self._groups.variables):
            return False
        return source.measure is Measure.VALUES and any(
            is_extreme(each) and choose_measure(query, each) == wanted
            for each in list_aggregates(query.grouping)
        )

    def _lower_distinct(
        self, lowering: SourceLowering, source: Source, values: Marginal
    ) -> Marginal:
        """The number of distinct values, or their digits, from the relation of values."""
        names = values.names
        is_constant = values.view is not None and is_fixed(values.view)
        operand = Operand(len(names), view=values.view, is_fixed=is_constant)
        inputs = [(operand, names, PRESENCE)]
        keys = self._groups.variables
        if source.measure is not Measure.DISTINCT:
            is_whole = source.measure is Measure.DISTINCT_WHOLE_SUM
            inputs.insert(0, (*lowering.name_digits(source.values[0], is_whole), COUNT))
            keys = keys if is_whole else (*keys, DIGIT)
        return Marginal(lowering.rule(inputs, keys), keys, values.totals)
