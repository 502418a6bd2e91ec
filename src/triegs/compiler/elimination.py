"""Elimination: two moves that decide a query's class and build its plan.

A *factor* is an edge of the shrinking hypergraph together with its relation. Moves:

1. **Sum out** variables that no other factor has. This finishes the factor's rule; its marginal
   over the remaining variables stays as a factor.
2. **Absorb** a factor whose variables are a subset of another's. It becomes a child of that rule.

Factors over *equal* variables are merged at once, in any order, into a product: one rule with all
of them as children. Summing out comes before absorbing into a larger factor, and only factors that
still hold a removable variable are absorbed. So join trees that differ only in the order of factors
over one interface are one plan, and only real choices remain.
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
    """An unfinished rule over `variables`: an optional guard, and the children so far."""

    variables: frozenset[str]
    guard: Guard | None
    children: list[int] = field(default_factory=list)


class Elimination:
    """The factors of one connected component, and the rules finished so far.

    `position` orders variables by first appearance in the query, so that equal queries give equal
    plans. Cost: about linear in the number of factors, unless many share one variable.
    """

    def __init__(self, guards: Iterable[Guard], position: dict[str, int]) -> None:
        self.position = position
        self.drafts: list[Draft] = []
        self.factors = [Factor(frozenset(guard.variables), guard) for guard in guards]

    def ordered(self, variables: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(variables, key=self.position.__getitem__))

    def remove(self, removable: Collection[str], chooser: Chooser) -> None:
        """Apply moves to the removable variables until none is possible."""
        index = _Index(self.factors, frozenset(removable))
        while self._merge_equal(index) or self._sum_private(index) or self._absorb(index, chooser):
            pass

    def finish(self, factor: Factor, interface: Iterable[str]) -> int:
        """Add the factor's rule with that interface; a rule that only repeats its child becomes
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
        """Finish the factor over all its variables and replace it by that rule's marginal."""
        node = self.finish(factor, factor.variables)
        factor.guard, factor.children = None, [node]
        return node

    def merge(self, factors: Sequence[Factor]) -> Factor:
        """Merge several factors into one for their product; returns the host.

        The host is the first widest factor that has a guard, so that a product needs no rule of
        its own. The variables of all others are a subset of the host's.
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

    def _merge_equal(self, index: _Index) -> bool:
        equal = index.take_equal()
        for group in equal:
            host = self.merge(group)
            for factor in group:
                if factor is not host:
                    index.forget(factor)
        return bool(equal)

    def _sum_private(self, index: _Index) -> bool:
        private = index.take_private()
        for factor, variables in private:
            rest = factor.variables - variables
            node = self.finish(factor, rest)
            factor.variables, factor.guard, factor.children = rest, None, [node]
            index.follow(factor)
        return bool(private)

    def _absorb(self, index: _Index, chooser: Chooser) -> bool:
        pairs = index.contained()
        if not pairs:
            return False
        # Small hosts first: the default then keeps interfaces and bags narrow.
        pairs.sort(key=lambda pair: (len(pair[1].variables), len(pair[0].variables)))
        small, big = chooser.pick(pairs)
        self._adopt(big, small)
        index.forget(small)
        return True


class _Index:
    """The possible moves on some wanted variables, maintained while moves are made.

    Factors only shrink or disappear, so a move enables others only at the factors that it changed.
    Only those are examined again, and a long chain is eliminated in linear time. All lists are in
    the order of the factors, so that equal queries give equal plans.
    """

    def __init__(self, factors: Sequence[Factor], wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.rank = {factor: rank for rank, factor in enumerate(factors)}
        self.holders: dict[str, set[Factor]] = {}
        self.equal: dict[frozenset[str], set[Factor]] = {}
        for factor in factors:
            for variable in factor.variables:
                self.holders.setdefault(variable, set()).add(factor)
        #: Factors with a wanted variable that changed since the last `take_equal`, and since the
        #: last `contained`.
        self.changed = {factor for factor in factors if factor.variables & wanted}
        self.small = set(self.changed)
        self.private = {v for v in wanted if len(self.holders.get(v, ())) == 1}
        self.larger: dict[Factor, list[Factor]] = {}

    def _ordered(self, factors: Iterable[Factor]) -> list[Factor]:
        return sorted(factors, key=self.rank.__getitem__)

    def take_equal(self) -> list[list[Factor]]:
        """Groups of factors over equal variables."""
        seen: set[frozenset[str]] = set()
        for factor in self.changed:
            self.equal.setdefault(factor.variables, set()).add(factor)
            seen.add(factor.variables)
        self.changed.clear()
        groups = [self._ordered(self.equal[each]) for each in seen if len(self.equal[each]) > 1]
        return sorted(groups, key=lambda group: self.rank[group[0]])

    def take_private(self) -> list[tuple[Factor, frozenset[str]]]:
        """Factors with the wanted variables that no other one has."""
        found: dict[Factor, set[str]] = {}
        for variable in self.private:
            (factor,) = self.holders.pop(variable)
            found.setdefault(factor, set()).add(variable)
        self.private.clear()
        for factor in found:
            self.equal.get(factor.variables, set()).discard(factor)
        return [(factor, frozenset(found[factor])) for factor in self._ordered(found)]

    def contained(self) -> list[tuple[Factor, Factor]]:
        """Every factor with a wanted variable, paired with each larger factor that contains it."""
        for small in self.small:
            fewest = min((self.holders[v] for v in small.variables), key=len)
            larger = [big for big in fewest if small.variables < big.variables]
            if larger:
                self.larger[small] = self._ordered(larger)
        self.small.clear()
        pairs: list[tuple[Factor, Factor]] = []
        for small in self._ordered(self.larger):
            self.larger[small] = [
                big
                for big in self.larger[small]
                if big in self.rank and small.variables < big.variables
            ]
            pairs += [(small, big) for big in self.larger[small]]
        self.larger = {small: larger for small, larger in self.larger.items() if larger}
        return pairs

    def follow(self, factor: Factor) -> None:
        """Update the index after a factor lost variables."""
        self.larger.pop(factor, None)
        self.small.discard(factor)
        self.changed.discard(factor)
        if factor.variables & self.wanted:
            self.changed.add(factor)
            self.small.add(factor)

    def forget(self, factor: Factor) -> None:
        """Remove a factor that became a child of another one."""
        del self.rank[factor]
        self.larger.pop(factor, None)
        self.small.discard(factor)
        self.changed.discard(factor)
        self.equal.get(factor.variables, set()).discard(factor)
        for variable in factor.variables:
            holders = self.holders[variable]
            holders.discard(factor)
            if len(holders) == 1 and variable in self.wanted:
                self.private.add(variable)
            elif not holders:
                self.private.discard(variable)
