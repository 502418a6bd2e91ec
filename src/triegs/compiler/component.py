"""Compile one connected component: the phases of elimination, in order.

1. Remove body variables (marginals). If all go, the component is free-connex.
2. If a cyclic core is left, cover it with bags, and remove body variables again.
3. If body variables are left, join what they link into materialised components.
4. Choose a root and remove the head variables outside it (views along a join tree).

Body variables go first because a marginal may drop only what no answer shows. The core is covered
before components are joined because the rest needs a join tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triegs.compiler.bags import cover_width, decompose
from triegs.compiler.choices import Chooser
from triegs.compiler.elimination import Draft, Elimination, Factor
from triegs.compiler.folds import Member, split_bag
from triegs.compiler.hypergraph import Edge, connected_groups, cyclic_core
from triegs.compiler.keys import alias_text
from triegs.compiler.plan import Alias, Guard, Input, Join, PlanClass, Use
from triegs.errors import PlanError
from triegs.sparql.model import Expression, expression_variables

#: Names listed in a warning; more are only counted.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class QueryComponent:
    """A connected component of a query: its guards, head variables and crossing filters."""

    guards: tuple[Guard, ...]
    head: tuple[str, ...]
    across_body: tuple[Expression, ...]
    across_head: tuple[Expression, ...]
    #: Comparisons of head variables without which it would not be connected.
    links: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """The rules of a component; `filters` fit no join and run during enumeration."""

    drafts: tuple[Draft, ...]
    top: int
    root: tuple[str, ...]
    plan_class: PlanClass
    filters: tuple[Expression, ...]
    warnings: tuple[str, ...]


def roots(factors: Sequence[Factor], head: Sequence[str]) -> list[Edge]:
    """The legal roots: each head variable, and each wider relation left over the head."""
    if not head:
        return [frozenset()]
    wide = [f.variables for f in factors if len(f.variables) > 1]
    return list(dict.fromkeys([frozenset({v}) for v in head] + wide))


def build_component(
    component: QueryComponent, position: dict[str, int], chooser: Chooser, root: str | None = None
) -> Built:
    """Compile a component by the chooser's picks; `root` forces the root variable."""
    return _Compilation(component, position, chooser).run(root)


def build_marginal(component: QueryComponent, position: dict[str, int], chooser: Chooser) -> Built:
    """Compile a component to the counts of its answers by the head, as one relation."""
    return _Compilation(component, position, chooser).run_marginal()


class _Compilation:
    def __init__(
        self, component: QueryComponent, position: dict[str, int], chooser: Chooser
    ) -> None:
        self.component = component
        self.chooser = chooser
        self.state = Elimination(component.guards, position)
        self.waiting = list(component.across_body)
        self.optional = list(component.across_head)
        self.warnings: list[str] = []
        variables = {v for guard in component.guards for v in guard.variables}
        self.body = variables - set(component.head)
        self.plan_class = PlanClass.FREE_CONNEX if self.body else PlanClass.FULL_ACYCLIC

    def run(self, root: str | None) -> Built:
        state = self.state
        self._join_links()
        self._remove_body()
        if self._cover_core():
            self._remove_body()
        self._join_stuck()
        if self.waiting:
            raise AssertionError(f"no join took the filters {self.waiting}")
        kept = self._pick_root(root)
        state.remove(set(self.component.head) - kept, self.chooser)
        top = state.finish(state.merge(list(state.factors)), ())
        return Built(
            tuple(state.drafts), top, state.ordered(kept), self.plan_class,
            tuple(self.optional), tuple(self.warnings),
        )  # fmt: skip

    def run_marginal(self) -> Built:
        state, head = self.state, frozenset(self.component.head)
        self._remove_body()
        if self._cover_core():
            self._remove_body()
        self._join_stuck()
        factors = list(state.factors)
        if self.waiting or all(factor.variables != head for factor in factors):
            inputs = [self._input(f, Use.COUNT, f.variables) for f in factors]
            self._add_join(inputs, head, factors, [f.variables for f in factors])
        if self.waiting:
            raise AssertionError(f"no join took the filters {self.waiting}")
        top = state.finish(state.merge(list(state.factors)), head)
        return Built(
            tuple(state.drafts), top, state.ordered(head), self.plan_class, (),
            tuple(self.warnings),
        )  # fmt: skip

    def _join_links(self) -> None:
        """Keep the pairs of values that a linking comparison accepts as a relation of its own."""
        for expression in self.component.links:
            bag = frozenset(expression_variables(expression))
            if any(bag <= factor.variables for factor in self.state.factors):
                continue  # another comparison of the same variables
            factors = list(self.state.factors)
            supports = self._cover_rest(bag, [], factors)
            inputs = [self._input(factor, Use.SUPPORT, bag) for factor in supports]
            self._add_join(inputs, bag, [], [factor.variables for factor in factors])
            self.plan_class = PlanClass.MATERIALIZED
            self.warnings.append(
                f"only a comparison connects {' and '.join(self.state.ordered(bag))}: the pairs of "
                f"values that pass are materialised, found by an index ordered by value"
            )

    def _pick_root(self, root: str | None) -> Edge:
        options = roots(self.state.factors, self.component.head)
        if root is None:
            return self.chooser.pick(options)
        if root not in self.component.head:
            names = ", ".join(self.component.head) or "none"
            raise PlanError(f"{root} cannot be the root: the head variables here are {names}")
        return self.chooser.pick(options, forced=frozenset({root}))

    def _remove_body(self) -> None:
        held = {v for expression in self.waiting for v in expression_variables(expression)}
        self.state.remove(self.body - held, self.chooser)

    def _left_body(self) -> set[str]:
        return {v for f in self.state.factors for v in f.variables} & self.body

    def _cover_core(self) -> bool:
        """Replace the factors of each cyclic core by bags; returns whether there is a core."""
        factors = self.state.factors
        edges = [f.variables for f in factors]
        edges += [frozenset(expression_variables(e)) for e in self.waiting]
        core = cyclic_core(edges)
        if not core:
            return False
        self.plan_class = PlanClass.CYCLIC
        numbers = list(core)
        for group in connected_groups([core[n] for n in numbers]):
            self._make_bags([numbers[i] for i in group], core, list(factors))
        return True

    def _make_bags(self, group: Sequence[int], core: dict[int, Edge], before: list[Factor]) -> None:
        edges = [core[n] for n in group]
        # Any factor may bind a variable that only filters hold in the core.
        real = [factor.variables for factor in before]
        members = [before[n] for n in group if n < len(before)]
        wide = [f for f in before if len(f.variables) > 1]
        bags = self._split_bags(decompose(edges, real), wide)
        for bag in bags:
            inside = [f for f in wide if f.variables <= bag and f in self.state.factors]
            supports = [f for f in members if f not in inside and len(f.variables & bag) > 1]
            supports += self._cover_rest(bag, inside + supports, before)
            inputs = [self._input(f, Use.COUNT, bag) for f in inside]
            inputs += [self._input(f, Use.SUPPORT, bag) for f in supports]
            self._add_join(inputs, bag, inside, real)
        closed = [frozenset(expression_variables(e)) for e in self.component.across_body]
        by_filter = any(core[n] <= edge for n in group if n >= len(before) for edge in closed)
        shown = "; ".join(
            f"{{{self._listing(bag)}}} of width {cover_width(bag, real)}" for bag in bags[:SHOWN]
        ) + ("; …" if len(bags) > SHOWN else "")
        self.warnings.append(
            f"cyclic: {self._listing(frozenset().union(*edges))} form a cycle"
            f"{', closed by a filter across atoms' if by_filter else ''}, "
            f"kept as materialised bags {shown}, which add to update cost and space"
        )

    def _split_bags(self, bags: Sequence[Edge], factors: Sequence[Factor]) -> list[Edge]:
        """Replace bags whose halves repeat each other by these halves."""
        filters = [frozenset(expression_variables(e)) for e in self.waiting + self.optional]
        split: list[Edge] = []
        for bag in bags:
            members = [
                Member(alias_text(f.guard), f.guard.variables)
                for f in factors
                if isinstance(f.guard, Alias) and not f.children and f.variables <= bag
            ]
            plain = {frozenset(member.variables) for member in members}
            rest = [f.variables & bag for f in factors if f.variables not in plain]
            rest += [other & bag for other in bags if other is not bag]
            others = [edge for edge in rest if len(edge) > 1] + [edge & bag for edge in filters]
            split += split_bag(bag, members, others)
        return split

    def _join_stuck(self) -> None:
        """Join the factors that leftover body variables link, over their head variables."""
        left = self._left_body()
        if not left:
            return
        factors = list(self.state.factors)
        crossing = [frozenset(expression_variables(e)) for e in self.waiting]
        if self.plan_class is not PlanClass.CYCLIC:
            self.plan_class = PlanClass.MATERIALIZED
        links = [(f.variables & left) for f in factors] + [edge & left for edge in crossing]
        for group in connected_groups(links):
            members = [factors[i] for i in group if i < len(factors)]
            linked = {v for i in group for v in links[i]}
            if not linked:
                continue
            across = [crossing[i - len(factors)] for i in group if i >= len(factors)]
            bound = frozenset(v for f in members for v in f.variables)
            bag = (bound.union(*across) if across else bound) - self.body
            supports = self._cover_rest(bag, members, factors)
            inputs = [self._input(f, Use.COUNT, f.variables) for f in members]
            inputs += [self._input(f, Use.SUPPORT, bag - bound) for f in supports]
            self._add_join(inputs, bag, members, [f.variables for f in factors])
            self.warnings.append(self._explain_stuck(linked, bag, bool(across)))

    def _explain_stuck(self, linked: set[str], bag: Edge, by_filter: bool) -> str:
        names = self._listing(linked)
        shown = self._listing(bag) or "no variable"
        why = "a filter across atoms on" if by_filter else "not free-connex because of"
        return (
            f"{why} {names}, which the head does not show: its component is materialised "
            f"over {shown}, which adds to update cost and space"
        )

    def _listing(self, variables: Iterable[str]) -> str:
        names = self.state.ordered(variables)
        more = f" … ({len(names)} variables)" if len(names) > SHOWN else ""
        return " ".join(names[:SHOWN]) + more

    def _cover_rest(
        self, bag: Edge, inputs: Sequence[Factor], candidates: Sequence[Factor]
    ) -> list[Factor]:
        """Further factors, as supports, until an input binds every variable of the bag."""
        missing = set(bag).difference(*(f.variables for f in inputs))
        chosen: list[Factor] = []
        while missing:
            widest = max(candidates, key=lambda f: len(f.variables & missing))
            chosen.append(widest)
            missing -= widest.variables
        return chosen

    def _input(self, factor: Factor, use: Use, bag: Edge) -> Input:
        node = self.state.share(factor)
        return Input(node, use, self.state.ordered(factor.variables & bag))

    def _add_join(
        self, inputs: Sequence[Input], bag: Edge, members: Sequence[Factor], covers: Sequence[Edge]
    ) -> None:
        bound = frozenset(v for source in inputs for v in source.variables)
        ready = [
            e for e in self.waiting + self.optional if bound.issuperset(expression_variables(e))
        ]
        self.waiting = [e for e in self.waiting if e not in ready]
        self.optional = [e for e in self.optional if e not in ready]
        join = Join(tuple(inputs), tuple(ready), cover_width(bound, covers))
        factors = [f for f in self.state.factors if f not in members]
        self.state.factors = [*factors, Factor(bag, join)]
