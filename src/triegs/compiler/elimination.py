"""Elimination: the two moves that decide a query's class, and are its plan.

A *factor* is an edge of the shrinking hypergraph together with the relation it stands for. Moves:

1. **Sum out** variables that no other factor has: the factor's rule is finished, its marginal
   over the remaining variables goes on as a factor.
2. **Absorb** a factor whose variables another one has: it becomes a child of the other's rule.

Factors over *equal* variables are merged as soon as they are seen, whatever their order (a
product: one rule with all of them as children), summing out comes before absorbing into a larger
factor, and only factors that still hold a removable variable are absorbed. So join trees that
differ only in the order of factors over one interface are one plan, and the choices that remain
are real ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from triegs.compiler.choices import Chooser
from triegs.compiler.plan import Guard


@dataclass(slots=True)
class Draft:
    """A finished rule, before names, payloads and keys are known."""

    bag: tuple[str, ...]
    guard: Guard | None
    children: tuple[int, ...]
    interface: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Factor:
    """A rule in the making over `variables`: an optional guard, and the children so far."""

    variables: frozenset[str]
    guard: Guard | None
    children: list[int] = field(default_factory=list)


class Elimination:
    """The factors of one connected component, and the rules finished so far.

    `position` orders variables by first appearance in the query, so that equal queries give
    equal plans. Cost: about quadratic in the number of factors.
    """

    def __init__(self, guards: Iterable[Guard], position: dict[str, int]) -> None:
        self.position = position
        self.drafts: list[Draft] = []
        self.factors = [Factor(frozenset(guard.variables), guard) for guard in guards]

    def ordered(self, variables: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(variables, key=self.position.__getitem__))

    def remove(self, removable: Collection[str], chooser: Chooser) -> None:
        """Make moves on the removable variables until none is left to make."""
        wanted = frozenset(removable)
        while (
            self._merge_equal(wanted) or self._sum_private(wanted) or self._absorb(wanted, chooser)
        ):
            pass

    def finish(self, factor: Factor, interface: Iterable[str]) -> int:
        """Write the factor's rule with that interface; a rule that only repeats its child is
        that child.
        """
        kept = self.ordered(interface)
        if factor.guard is None and len(factor.children) == 1:
            only = factor.children[0]
            if self.drafts[only].interface == kept == self.ordered(factor.variables):
                return only
        bag = self._bag(factor)
        self.drafts.append(Draft(bag, factor.guard, tuple(factor.children), kept))
        return len(self.drafts) - 1

    def share(self, factor: Factor) -> int:
        """Finish the factor over all its variables and let it go on as that rule's marginal."""
        node = self.finish(factor, factor.variables)
        factor.guard, factor.children = None, [node]
        return node

    def merge(self, factors: Sequence[Factor]) -> Factor:
        """One factor for the product of several; all others have variables of the first's bag.

        The host is the first factor with a guard over the widest variables: a product then
        needs no rule of its own.
        """
        widest = max(len(factor.variables) for factor in factors)
        hosts = [f for f in factors if len(f.variables) == widest]
        host = next((f for f in hosts if f.guard is not None), hosts[0])
        for factor in factors:
            if factor is not host:
                self._adopt(host, factor)
        return host

    def _bag(self, factor: Factor) -> tuple[str, ...]:
        if factor.guard is not None and frozenset(factor.guard.variables) == factor.variables:
            return factor.guard.variables
        return self.ordered(factor.variables)

    def _adopt(self, host: Factor, factor: Factor) -> None:
        same = factor.variables == host.variables
        if factor.guard is None and same:
            host.children += factor.children
        else:
            host.children.append(self.finish(factor, factor.variables))
        self.factors.remove(factor)

    def _holders(self) -> dict[str, list[Factor]]:
        holders: dict[str, list[Factor]] = {}
        for factor in self.factors:
            for variable in factor.variables:
                holders.setdefault(variable, []).append(factor)
        return holders

    def _merge_equal(self, wanted: frozenset[str]) -> bool:
        groups: dict[frozenset[str], list[Factor]] = {}
        for factor in self.factors:
            if factor.variables & wanted:
                groups.setdefault(factor.variables, []).append(factor)
        equal = [group for group in groups.values() if len(group) > 1]
        for group in equal:
            self.merge(group)
        return bool(equal)

    def _sum_private(self, wanted: frozenset[str]) -> bool:
        holders = self._holders()
        moved = False
        for place, factor in enumerate(self.factors):
            private = {v for v in factor.variables & wanted if len(holders[v]) == 1}
            if private:
                rest = factor.variables - private
                self.factors[place] = Factor(rest, None, [self.finish(factor, rest)])
                moved = True
        return moved

    def _absorb(self, wanted: frozenset[str], chooser: Chooser) -> bool:
        holders = self._holders()
        pairs: list[tuple[Factor, Factor]] = []
        for small in self.factors:
            if not small.variables & wanted:
                continue
            rarest = min(small.variables, key=lambda v: (len(holders[v]), self.position[v]))
            pairs += [(small, big) for big in holders[rarest] if small.variables < big.variables]
        if not pairs:
            return False
        # Small hosts first: the default then keeps interfaces and bags narrow.
        pairs.sort(key=lambda pair: (len(pair[1].variables), len(pair[0].variables)))
        small, big = chooser.pick(pairs)
        self._adopt(big, small)
        return True
