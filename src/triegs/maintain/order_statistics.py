"""Order statistics of a plan with rules: the numbers of answers and rows below each tuple.

Answers are enumerated variable by variable, so there is one level per variable. A level of a node
with live tuples ``L`` binds ``v`` below its *key*, the variables of the node that are already
bound. Each level keeps two relations:

    ``E(key, v) = T(key, v) * product of T_c(interface of c)``, the count below one entry,
    ``T(key) = sum over v of E(key, v)``, the count below all entries of a key.

The ``T`` on the right is that of the node's next level; at the last level it is ``L``, which counts
1 in answers. ``T_c`` is that of the first level of each node ``c`` attached to ``v``: ``v`` is the
variable of its interface that is bound last. Rows are computed in the same way from the counts of
``L``, and multiplied by every counting factor attached to ``v``. A node is thus attached where it
can be opened, possibly above its parent, and its count enters only there.

Each relation is one rule; ``E`` equals the right-hand ``T`` if nothing is attached to ``v``. The
hubs of its last column hold sums, so a position is found in logarithmic time. The first level of a
node without interface is a ranking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from triegs.compiler.plan import Node, Plan, Role
from triegs.errors import MultiplicityOverflow
from triegs.maintain.enumeration_plan import CountSource
from triegs.maintain.kernels.tables import COUNT, PRESENCE
from triegs.maintain.model import Operand, Rule, View
from triegs.maintain.views import Views
from triegs.store.kernels.order_statistics import BESIDE, LOOKED_UP
from triegs.store.packed import PackedRelation

#: An operand with the names of its columns.
Named = tuple[Operand, tuple[str, ...]]
#: An input of a rule: an operand, the names of its columns, and how it is used.
Used = tuple[Operand, tuple[str, ...], int]


class RuleMaker(Protocol):
    """What counts need of the lowering that they are part of."""

    plan: Plan
    views: Views
    has_rows: bool

    def listed(self, operand: Operand) -> Operand: ...

    def is_folded(self, node: Node, child: int) -> bool: ...

    def marginal(self, number: int) -> Named: ...

    def rule(
        self, inputs: Sequence[Used], head: Sequence[str], *, is_answers: bool = False
    ) -> Rule: ...

    def rank(self, factors: Sequence[View], variable: str) -> View: ...


class RuleStatistics:
    """The counts of all levels of one plan, created node by node, children first."""

    def __init__(self, lowering: RuleMaker) -> None:
        self.lowering = lowering
        self.plan = lowering.plan
        self.attached = find_attached(self.plan)
        #: For each witness node: the counts below an interface, in answers (if not 1) and in rows.
        self.totals: dict[int, tuple[Used | None, Used | None]] = {}
        #: For each witness node: the counts of its levels, and the ranking of its first variable.
        self.levels: dict[int, list[CountSource]] = {}
        self.rankings: dict[int, View] = {}

    def add_node(self, number: int, live: View, named: Named) -> None:
        """Create the counts of a node, given its live tuples as a view and as an operand."""
        node = self.plan.nodes[number]
        operand, names = named
        order, width = (*node.interface, *node.introduces), len(node.interface)
        rows: Used | None = (operand, names, COUNT) if self.lowering.has_rows else None
        if width == len(order):
            self.totals[number] = None, rows
            return
        answers: Used = self.lowering.listed(operand), names, PRESENCE
        levels: list[CountSource] = []
        own = answers, rows
        for depth in range(len(order), width, -1):
            key, variable = order[:depth], order[depth - 1]
            answers = self._multiply(
                answers, self._attached_answers(variable), key, is_answers=True
            )
            if rows is not None:
                rows = self._multiply(rows, self._attached_rows(variable), key, is_answers=False)
            if depth == 1:
                ranking = self.rankings[number] = self._rank(answers, rows, variable)
                levels.append(CountSource(BESIDE, ranking.relation))
                break
            if answers is own[0] or (rows is not None and rows is own[1]):
                answers = self._count_live(live, answers, key)
            entries = [self._sum_hubs(each, own) for each in (answers, rows)]
            answers = self._sum(answers, key[:-1], is_answers=True)
            rows = self._sum(rows, key[:-1], is_answers=False) if rows is not None else None
            totals = [relation_of(each) for each in (answers, rows)]
            levels.append(CountSource(LOOKED_UP, *entries, *totals))
        self.levels[number] = levels[::-1]
        self.totals[number] = answers, rows

    def _count_live(self, live: View, answers: Used, key: Sequence[str]) -> Used:
        """Keep counts in the hubs of the live tuples: 1, and their counts. If these do not fit and
        were not requested, the answers get a separate relation.
        """
        try:
            self.lowering.views.summed(live)
        except MultiplicityOverflow:
            if self.lowering.has_rows:
                raise
            return self._sum(answers, key, is_answers=True)
        return answers

    def _sum_hubs(self, used: Used | None, own: Sequence[Used | None]) -> PackedRelation | None:
        """The view in which a level looks up counts; None if the live tuples provide them."""
        if used is None or any(used is each for each in own):
            return None
        view = used[0].view
        assert view is not None
        return self.lowering.views.summed(view).relation

    def _attached_answers(self, variable: str) -> Iterator[Used]:
        for _, child in self.attached.get(variable, ()):
            if self.plan.nodes[child].role is Role.WITNESS:
                answers, _ = self.totals[child]
                if answers is not None:
                    yield answers

    def _attached_rows(self, variable: str) -> Iterator[Used]:
        for parent, child in self.attached.get(variable, ()):
            if self.plan.nodes[child].role is Role.WITNESS:
                _, rows = self.totals[child]
                assert rows is not None
                yield rows
            elif not self.lowering.is_folded(self.plan.nodes[parent], child):
                yield (*self.lowering.marginal(child), COUNT)

    def _multiply(
        self, first: Used, others: Iterator[Used], key: Sequence[str], is_answers: bool
    ) -> Used:
        inputs = [first, *others]
        if len(inputs) == 1:
            return first
        view = self.lowering.rule(inputs, key, is_answers=is_answers)
        return Operand(len(key), view=view), tuple(key), COUNT

    def _sum(self, entries: Used, key: Sequence[str], is_answers: bool) -> Used:
        view = self.lowering.rule([entries], key, is_answers=is_answers)
        return Operand(len(key), view=view), tuple(key), COUNT

    def _rank(self, answers: Used, rows: Used | None, variable: str) -> View:
        """The first variable of a component, with the counts of its values in the trie."""
        found = [answers] if rows is None or answers[2] == COUNT else []
        factors = []
        for operand, _, _ in [*found, *([rows] if rows is not None else [])]:
            assert operand.view is not None
            factors.append(operand.view)
        return self.lowering.rank(factors, variable)


def relation_of(used: Used | None) -> PackedRelation | None:
    view = used[0].view if used is not None else None
    return view.relation if view is not None else None


def find_attached(plan: Plan) -> dict[str, list[tuple[int, int]]]:
    """By variable, the children of witness nodes whose interface it completes, with parents."""
    bound: dict[str, int] = {}
    for number in plan.order:
        for variable in plan.nodes[number].introduces:
            bound[variable] = len(bound)
    attached: dict[str, list[tuple[int, int]]] = {}
    for parent in plan.order:
        for child in plan.nodes[parent].children:
            interface = plan.nodes[child].interface
            if interface:
                attached.setdefault(max(interface, key=bound.__getitem__), []).append(
                    (parent, child)
                )
    return attached
