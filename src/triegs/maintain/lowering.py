"""Lowers a plan to the views of the core.

Every node becomes a rule, unless a faster form applies. Let ``v`` be the variable that a node
shares with its parent, and ``w`` the one that it introduces:

- a node over pairs ``G(v, w)`` is an *edge*: ``P(v) = sum over w of G(v, w) * N(w)``, where
  ``N(w)`` is the product of the children on ``w``. Without such children its view is the stream's
  own index. For a witness the edge keeps the live pairs instead of sums;
- children on ``v``, and guards of one variable (constants, a repeated variable, `VALUES`), are
  further factors of ``v``: a *product* if there are several;
- the top of a component is a product that lists its variable, or a *total* if none is shown.

All other nodes (atoms of three variables, wider interfaces, materialised joins) are *rules*: the
marginal of an existential node, the live tuples of a witness, and a join below either.

If a plan keeps order statistics, its witnesses use the views with counts of
`triegs.store.kernels.order_statistics` instead of live pairs and products. Tops are ranked, and an
edge without children is the stream's index with summed hubs. If any node is a rule, all witnesses
are rules, and so are their counts, see `triegs.maintain.order_statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from triegs.compiler.assembly import can_link
from triegs.compiler.keys import sort_children, sort_inputs
from triegs.compiler.plan import (
    Alias,
    Join,
    Node,
    Plan,
    Role,
    Static,
    Use,
    is_by_variable,
)
from triegs.maintain.choices import OrderStatistics
from triegs.maintain.deltas import find_symmetry, plan_deltas, plan_symmetric
from triegs.maintain.kernels.tables import (
    ADJACENCY,
    ANY,
    CONSTANT,
    COUNT,
    COUNTS,
    EDGE,
    FIXED,
    ORDERED_EDGE,
    ORDERED_PRODUCT,
    PRESENCE,
    PRODUCT,
    RANKING,
    TOTAL,
)
from triegs.maintain.leaves import Encode, Leaves
from triegs.maintain.model import (
    Check,
    Edge,
    Index,
    Input,
    Operand,
    Order,
    Rule,
    Step,
    View,
    is_fixed,
    is_sorted,
    list_keys_of,
)
from triegs.maintain.order_statistics import Named, RuleStatistics, Used
from triegs.maintain.rule_names import is_one_stream, name_rule
from triegs.maintain.streams import label_stream
from triegs.maintain.views import Views
from triegs.sparql.comparisons import find_comparison
from triegs.sparql.model import (
    Expression,
    expression_variables,
)


class Lowering(Leaves):
    """Lowers one plan to views; `held` lists all views it uses, children first."""

    def __init__(
        self, views: Views, plan: Plan, encode: Encode,
        statistics: OrderStatistics = OrderStatistics.NONE,
    ) -> None:  # fmt: skip
        super().__init__(views, plan, encode)
        self.is_ordered = statistics is not OrderStatistics.NONE
        self.has_rows = statistics is OrderStatistics.ROWS
        self.statistics_name = f" {statistics.name.lower()}" if self.is_ordered else ""
        self.factors: dict[tuple[str, str], View] = {}
        #: The node whose rules are being created.
        self.node: Node | None = None
        tops = {component.top for component in plan.components}
        self.by_variable = [
            is_by_variable(plan, node) and (bool(node.interface) or i in tops or not node.bag)
            for i, node in enumerate(plan.nodes)
        ]
        self.rule_statistics: RuleStatistics | None = None
        if self.is_ordered and not all(self.by_variable):
            self.rule_statistics = RuleStatistics(self)
            for number, node in enumerate(plan.nodes):
                if node.bag and node.role is Role.WITNESS:
                    self.by_variable[number] = False
        #: For nodes that are rules: the marginal and, for a witness, the live tuples; they may be
        #: the first columns of a relation, and the marginal is made when it is needed.
        self.marginals: dict[int, Named] = {}
        self.live: dict[int, tuple[View, tuple[str, ...]]] = {}
        self.live_guards: dict[int, Named] = {}
        self.covers: dict[int, Named] = {}
        #: Nodes whose live tuples are the interface of a child's.
        self.repeated: dict[int, int] = {}
        #: What the join of the current node reads by presence.
        self.supports: set[Named] = set()

    def lower_views(self) -> None:
        """Create or find every view."""
        self.lower_nodes()
        for component in self.plan.components:
            if self.by_variable[component.top]:
                self._lower_top(component.top)

    def list_changes(self, operand: Operand) -> None:
        """Make each epoch list the changes of a view."""
        if operand.view is not None and not operand.is_fixed:
            if operand.width == 1:
                list_keys_of(operand.view)
            else:
                operand.view.listed = True

    def lower_nodes(self) -> None:
        # Children precede parents, so a long chain of nodes needs no recursion.
        for number, node in enumerate(self.plan.nodes):
            if not self.by_variable[number]:
                self._lower_rule(number, node)
            elif node.interface:
                self.factor(number, node.interface[0])

    def _lower_top(self, number: int) -> None:
        node = self.plan.nodes[number]
        if node.bag and node.role is Role.EXISTENTIAL:
            self._total(number)
        elif node.bag:
            self.root(number)

    # Nodes by variable

    def guard(self, node: Node) -> View | None:
        """The relation of a one-variable guard."""
        if isinstance(node.guard, Static):
            return self._rows(node.guard)
        if not isinstance(node.guard, Alias) or len(node.bag) > 1:
            return None
        return self._single(node.guard)

    def _children(self, node: Node, variable: str) -> list[View]:
        nodes = self.plan.nodes
        return [self.factor(c, variable) for c in sort_children(self.plan, node)
                if nodes[c].interface == (variable,)]  # fmt: skip

    def _product(
        self, name: str, factors: Sequence[View], is_exact: bool, node: Node, variable: str
    ) -> View:
        if len(factors) == 1:
            list_keys_of(factors[0])
            return factors[0]
        if self.is_ordered and not is_exact:
            found = self._ordered(name, ORDERED_PRODUCT, factors)
        else:
            found = self.views.step(name, PRODUCT, is_exact, tuple(factors))
        return self.use(found, node, (variable,))

    def _ordered(
        self, name: str, kind: int, factors: Sequence[View], edge: Edge | None = None
    ) -> View:
        name += self.statistics_name
        return self.views.step(name, kind, self.has_rows, tuple(factors), edge)

    def factor(self, number: int, variable: str) -> View:
        """A node's marginal over its interface variable or, at the top, over the chosen one."""
        node = self.plan.nodes[number]
        if not self.by_variable[number]:
            view = self.marginal(number)[0].view
            assert view is not None
            return view
        found = self.factors.get((node.name, variable))
        if found is None:
            name = f"{node.key} by {node.bag.index(variable)}"
            is_exact = node.role is Role.EXISTENTIAL
            found = self._product(name, self._factors(node, variable), is_exact, node, variable)
            self.factors[node.name, variable] = found
        return found

    def _factors(self, node: Node, variable: str) -> list[View]:
        guard = self.guard(node)
        own = [guard] if guard is not None else []
        if len(node.bag) == 2:
            own = [self.edge(node, variable)]
        return own + self._children(node, variable)

    def edge(self, node: Node, variable: str) -> View:
        alias = node.guard
        assert isinstance(alias, Alias)
        stream, column = self._stream(alias), alias.variables.index(variable)
        other = alias.variables[1 - column]
        is_exact = node.role is Role.EXISTENTIAL
        below = self._children(node, other)
        is_ordered = self.is_ordered and not is_exact
        if not below:
            index = self._index(stream, COUNTS if is_exact else ADJACENCY, column)
            return self.views.summed(index) if is_ordered else index
        name = f"{node.key} edge by {node.bag.index(variable)}"
        child = self._product(f"{name} below", below, is_exact, node, other)
        is_constant = is_exact and child.reads == FIXED
        by_other = None if is_constant else self._index(stream, ADJACENCY, 1 - column)
        edge = Edge(stream, column, by_other)
        if is_ordered:
            found = self._ordered(name, ORDERED_EDGE, (child,), edge)
        else:
            found = self.views.step(name, EDGE, is_exact, (child,), edge)
        return self.use(found, node, (variable, other), alias)

    def root(self, number: int) -> View:
        """The view that lists the values of a top variable."""
        node = self.plan.nodes[number]
        factors = self._factors(node, node.bag[0])
        if self.is_ordered:
            found = self._ordered(f"root {node.key}", RANKING, factors)
            return self.use(found, node, node.bag[:1])
        return self._product(f"root {node.key}", factors, False, node, node.bag[0])

    def _total(self, number: int) -> View:
        node = self.plan.nodes[number]
        factors = tuple(self._factors(node, node.bag[0]))
        found = self.views.step(f"total {node.key}", TOTAL, True, factors)
        return self.use(found, node, node.bag[:1])

    def scalar(self, number: int) -> tuple[Any, tuple[int, ...]]:
        """The entry that holds the count of a component without head variables."""
        node = self.plan.nodes[number]
        if not self.by_variable[number]:
            operand, _ = self.marginal(number)
            assert operand.view is not None
            return operand.view.relation, ()
        if node.bag:
            return self._total(number).relation, ()
        if isinstance(node.guard, Static):  # a number, stored as the weight of one row
            row = (0,)
            rows = [row] * len(node.guard.values.rows)
            views = self.views
            found = views.fixed(f"{len(rows)} rows without columns", 1, rows)
            return self.use(found, guard=node.guard).relation, row
        assert isinstance(node.guard, Alias)  # no variables: a single assertion
        atom, label = node.guard.atom, node.guard.relation
        assert label is not None
        predicate = self.encode(label)
        counts = self._use_counts(node.guard, predicate)
        weights = self.views.index(label_stream(predicate), ADJACENCY, counts.column)
        self.use(weights, guard=node.guard)
        key = self.encode(atom.subject), self.encode(atom.object)
        return weights.relation, key if counts.column == 0 else key[::-1]

    # Nodes that are rules

    def _lower_rule(self, number: int, node: Node) -> None:
        """Create the marginal of a node, and its live tuples if it is a witness."""
        self.node = node
        self.supports.clear()
        guard = self.guard_view(node)
        is_witness = node.role is Role.WITNESS
        if guard is not None:
            self.covers[number] = guard
        if not is_witness:
            self.marginals[number] = self.sum_out(node, guard)
            return
        order = (*node.interface, *node.introduces)
        tested = self._find_tested(node)
        if guard is None and len(tested) == 1 and self.is_folded(node, tested[0]):
            repeated = self.marginal(tested[0])
            if repeated[0].stream is not None:  # the node only repeats its child
                guard = self.covers[number] = repeated
                tested = []
        shown = None if guard is not None else self._find_repeated(node, tested, order)
        if shown is not None:
            self.repeated[number] = shown
            self.live[number] = self.live[shown]
            if shown in self.live_guards:
                self.live_guards[number] = self.live_guards[shown]
            return
        if guard is not None and not tested:
            operand, names = guard
            live = self.find_order(operand, tuple(names.index(v) for v in order))
            self.live_guards[number] = guard
        else:
            live = self._live_rule(number, node, guard, order, tested)
        self.live[number] = live, order
        if self.rule_statistics is not None:
            is_guard = guard is not None and not tested
            named = guard if is_guard else (Operand(len(order), view=live), order)
            assert named is not None
            self.rule_statistics.add_node(number, live, named)

    def guard_view(self, node: Node) -> Named | None:
        guard = node.guard
        if isinstance(guard, Join):
            is_all = not node.children
            names = tuple(v for v in node.bag if v in guard.variables)
            if is_all and node.role is Role.EXISTENTIAL:
                return None  # one rule sums out and joins
            if is_all:
                names = (*node.interface, *node.introduces)
            return Operand(len(names), view=self._join(guard, names)), names
        if isinstance(guard, Static):
            rows = self._rows(guard)
            return Operand(len(guard.variables), view=rows, is_fixed=True), guard.variables
        if not isinstance(guard, Alias):
            return None
        if len(guard.variables) == 1:
            return Operand(1, view=self._single(guard)), guard.variables
        stream = self._stream(guard)
        return Operand(stream.arity, stream=stream), guard.variables

    def sum_out(self, node: Node, guard: Named | None) -> Named:
        """The marginal of an existential node over its interface."""
        head = self.find_head(node)
        if isinstance(node.guard, Join) and guard is None:
            view: View = self._join(node.guard, head)
            return Operand(len(head), view=view), head
        children = [self.marginal(c) for c in sort_children(self.plan, node)]
        sources = ([guard] if guard is not None else []) + children
        if len(sources) == 1 and set(sources[0][1]) == set(node.interface):
            return sources[0]
        view = self.rule([(*source, COUNT) for source in sources], head)
        return Operand(len(head), view=view), head

    def find_head(self, node: Node) -> tuple[str, ...]:
        """The columns of a node's marginal, in order."""
        return node.interface

    def _find_tested(self, node: Node) -> list[int]:
        """The children that a node's tuples are multiplied by, or tested for. A join whose support
        is the very relation that a child shows has only tuples for which that child is nonempty.
        """
        if not isinstance(node.guard, Join) or self.rule_statistics is not None:
            return sort_children(self.plan, node)
        return [
            c for c in sort_children(self.plan, node)
            if self.is_folded(node, c) or self.marginal(c) not in self.supports
        ]  # fmt: skip

    def _live_rule(
        self, number: int, node: Node, guard: Named | None, order: tuple[str, ...],
        tested: Sequence[int],
    ) -> View:  # fmt: skip
        """The guard tuples for which every child is nonempty. A counting child over the whole bag
        is multiplied in directly; all others are tested for presence.
        """
        inputs = [(*guard, COUNT)] if guard is not None else []
        for child in tested:
            operand, names = self.marginal(child)
            if guard is None and number not in self.covers and set(names) == set(node.bag):
                self.covers[number] = operand, names
            if self.is_folded(node, child):
                inputs.append((operand, names, COUNT))
            else:
                inputs.append((self.listed(operand), names, PRESENCE))
        return self.rule(inputs, order)

    def _find_repeated(
        self, node: Node, tested: Sequence[int], order: tuple[str, ...]
    ) -> int | None:
        """The child whose interface is all that a node shows: its only child, or one of several
        that show the same relation.
        """
        if self.rule_statistics is not None or not (node.introduces and tested):
            return None
        shown = {
            self.live[c] if c in self.live and self.plan.nodes[c].interface == order else None
            for c in tested
        }
        views = {found[0] for found in shown if found is not None}
        return tested[0] if len(views) == 1 and None not in shown else None

    def is_folded(self, node: Node, child: int) -> bool:
        """Whether the live tuples of a rule are multiplied by a counting child."""
        below = self.plan.nodes[child]
        return below.role is Role.EXISTENTIAL and set(below.interface) == set(node.bag)

    def _keys_of(self, number: int) -> Named:
        """The relation that a parent probes: whether an interface tuple has any live tuple."""
        node = self.plan.nodes[number]
        live, order = self.live[number]
        guard = self.live_guards.get(number)  # if its tuples are the live ones
        width = len(node.interface)
        if width == len(order):
            if guard is not None:
                return guard
            return Operand(width, view=live), order
        if guard is not None and guard[0].stream is not None:
            if guard[0].stream.arity == 2:
                return self._support(*guard, node.interface)
            view: View = self.rule([(*guard, COUNT)], node.interface)
        elif guard is not None and isinstance(live, Order) and not guard[0].is_fixed:
            view = self.rule([(*guard, PRESENCE)], node.interface)  # an order has no list
        elif width == 1:
            list_keys_of(live)
            view = live
        else:
            view = self.rule([(Operand(len(order), view=live), order, PRESENCE)], node.interface)
        return Operand(width, view=view), node.interface

    def marginal(self, number: int) -> Named:
        """A node's marginal, as an operand of rules."""
        if not self.by_variable[number]:
            if number not in self.marginals:
                outer, self.node = self.node, self.plan.nodes[number]
                self.marginals[number] = self._keys_of(number)
                self.node = outer
            return self.marginals[number]
        interface = self.plan.nodes[number].interface
        view = self.factor(number, interface[0])
        return Operand(1, view=view, is_fixed=is_fixed(view)), interface

    def cover(self, number: int) -> Named:
        """A relation over the variables of a node that is a rule, with at least its live tuples."""
        if number in self.repeated:
            return self.marginal(self.repeated[number])
        return self.covers[number]

    def listed(self, operand: Operand) -> Operand:
        """An operand read by presence only: its net changes are listed."""
        stream = operand.stream
        if stream is None:
            return operand
        columns = tuple(range(stream.arity))
        names = self.atoms[stream].variables
        index = self.find_order(operand, columns)
        listing = self.rule([(operand, names, COUNT)], names, relation=index)
        return Operand(stream.arity, stream=stream, listing=listing)

    def _join(self, join: Join, head: Sequence[str]) -> Rule:
        """A materialised join, summed over the variables missing from the head."""
        inputs = []
        for wanted in sort_inputs(self.plan, join):
            operand, names = self.marginal(wanted.node)
            if wanted.use is Use.COUNT:
                inputs.append((operand, names, COUNT))
            else:
                if set(names) == set(wanted.variables):
                    support = self.listed(operand), names
                else:
                    support = self._support(operand, names, wanted.variables)
                self.supports.add(support)
                inputs.append((*support, PRESENCE))
        return self.rule(inputs, head, join.filters)

    def _support(self, operand: Operand, names: tuple[str, ...], wanted: tuple[str, ...]) -> Named:
        """The support of an operand over some of its columns."""
        if operand.stream is not None and operand.stream.arity == 2:
            index = self._index(operand.stream, ADJACENCY, names.index(wanted[0]))
            list_keys_of(index)
            return Operand(1, view=index), wanted
        use = COUNT if operand.stream is not None else PRESENCE
        return Operand(len(wanted), view=self.rule([(operand, names, use)], wanted)), wanted

    def rule(
        self, inputs: Sequence[Used], head: Sequence[str], filters: Sequence[Expression] = (),
        relation: View | None = None, is_answers: bool = False,
    ) -> Rule:  # fmt: skip
        """A rule over named variables. Its name encodes its meaning, so equal rules are shared.

        Inputs that never change come first, because a rule is filled from its last input.
        """
        compared = {v for e in filters if can_link(e) for v in expression_variables(e)}
        inputs = [
            (*self.copy_step(operand, columns), use)
            if compared.intersection(columns) else (operand, columns, use)
            for operand, columns, use in inputs
        ]  # fmt: skip
        inputs = sorted(inputs, key=lambda each: not each[0].is_fixed)
        names = dict.fromkeys(v for _, columns, _ in inputs for v in columns)
        number = {name: i for i, name in enumerate(names)}
        checks = []
        for expression in filters:
            wanted = expression_variables(expression)
            judge = self.views.judges.find(expression, wanted)
            found = find_comparison(expression)
            if found is not None:  # rules are shared by queries with other names
                assert (found.left, found.right) == wanted
                left, right = (f"?{number[v]}" for v in wanted)
                found = replace(found, left=left, right=right)
            checks.append(Check(judge, tuple(number[v] for v in wanted), found))
        checks.sort(key=lambda check: (check.judge, check.variables))
        given = [Input(v, tuple(number[n] for n in names), use) for v, names, use in inputs]
        for operand, _, _ in inputs:
            self.list_changes(operand)
        shown = tuple(number[v] for v in head)
        symmetry = None
        if is_one_stream(given) and len(shown) == len(number) and not checks:
            symmetry = find_symmetry(given)
        name = name_rule(given, shown, checks, is_listing=relation is not None)
        if is_answers:  # read differently from counts
            name = f"answers {name}"
        if symmetry is not None:
            listed = self.listed(given[0].operand)
            given = [replace(each, operand=listed) for each in given]
            deltas = plan_symmetric(given, symmetry, self.find_order)
        else:
            deltas = plan_deltas(given, shown, checks, self.find_order)
        pairs = tuple(each.variables for each in given)
        rule = self.views.rule(name, shown, deltas, relation, symmetry, pairs)
        rule.is_answers = is_answers
        streams = [operand.stream for operand, _, _ in inputs]
        atoms = [self.atoms.get(stream) if stream else None for stream in streams]
        node = self.node or self.plan.nodes[-1]  # the root, where no node is a rule
        self.use(rule, node, tuple(names), atoms=atoms)
        return rule

    def rank(self, factors: Sequence[View], variable: str) -> View:
        """A ranking of the product of several counts."""
        name = f"ranking of {' * '.join(view.name for view in factors)}"
        return self.use(self._ordered(name, RANKING, factors), self.node, (variable,))

    def find_order(self, operand: Operand, columns: tuple[int, ...]) -> View:
        """An operand's relation with its columns in this order."""
        if is_sorted(columns):
            return self._find_sorted(operand, columns)
        if operand.stream is not None:
            if operand.stream.arity == 2:
                return self._index(operand.stream, ADJACENCY, columns[0])
            found = self.views.tuples(operand.stream, columns)
            return self.use(found, guard=self.atoms[operand.stream])
        assert operand.view is not None
        if operand.width < 2:
            return operand.view
        return self.use(self.views.order(operand.view, columns))

    def copy_step(self, operand: Operand, names: tuple[str, ...]) -> Named:
        """An operand that can be kept with sort keys: a rule instead of a step."""
        if not isinstance(operand.view, Step):
            return operand, names
        view = self.rule([(operand, names, operand.view.reads)], names)
        return Operand(len(names), view=view), names

    def _find_sorted(self, operand: Operand, columns: tuple[int, ...]) -> View:
        """An operand's relation in a column order with sort keys."""
        view, stream = operand.view, operand.stream
        if stream is not None:
            found: View = self.views.sorted_index(stream, columns, 0, ANY)
            return self.use(found, guard=self.atoms[stream])
        assert view is not None
        if isinstance(view, Index):
            order = tuple(c if c == CONSTANT else c + view.column for c in columns)
            found = self.views.sorted_index(view.stream, order, view.column, view.condition)
            return self.use(found, guard=self.atoms.get(view.stream))
        return self.use(self.views.order(view, columns))
