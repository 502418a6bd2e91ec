"""The rule model: `head :- body` over triples and over named predicates.

Terms are strings, as in a query: ``?x`` is a variable, anything else a constant in N-Triples form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from triegs.sparql.model import is_variable

#: The predicate of triples; the others are named by the rules.
TRIPLE = "TE"
MOST_COLUMNS = 4
#: Bounds of one rule: they bound the scratch words of a kernel.
MOST_ATOMS = 32
MOST_VARIABLES = 64


class RuleAtom(NamedTuple):
    """A pattern of facts.

    >>> print(RuleAtom("TE", ("?x", "<http://ex/p>", "?y")))
    TE(?x, <http://ex/p>, ?y)
    """

    predicate: str
    terms: tuple[str, ...]

    @property
    def is_triple(self) -> bool:
        return self.predicate == TRIPLE

    @property
    def variables(self) -> tuple[str, ...]:
        """Each variable once, in order."""
        return tuple(dict.fromkeys(filter(is_variable, self.terms)))

    def __str__(self) -> str:
        return f"{self.predicate}({', '.join(self.terms)})"


class Rule(NamedTuple):
    """One conclusion; an empty body states a fact."""

    head: RuleAtom
    body: tuple[RuleAtom, ...]

    def __str__(self) -> str:
        if not self.body:
            return f"{self.head}."
        return f"{self.head} :- {', '.join(map(str, self.body))}."

    @property
    def atoms(self) -> tuple[RuleAtom, ...]:
        return (self.head, *self.body)


class RuleSet(NamedTuple):
    """Rules in the order of their texts, each once.

    `str` gives text that parses to an equal set.
    """

    rules: tuple[Rule, ...] = ()

    def __add__(self, other: object) -> RuleSet:
        if not isinstance(other, RuleSet):
            return NotImplemented
        return RuleSet(tuple(dict.fromkeys([*self.rules, *other.rules])))

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))

    @property
    def predicates(self) -> dict[str, int]:
        """The number of columns of each predicate, triples first."""
        found = {TRIPLE: 3}
        for rule in self.rules:
            for atom in rule.atoms:
                found[atom.predicate] = len(atom.terms)
        return found

    @property
    def constants(self) -> tuple[str, ...]:
        """Each constant once, in order."""
        return tuple(
            dict.fromkeys(
                term
                for rule in self.rules
                for atom in rule.atoms
                for term in atom.terms
                if not is_variable(term)
            )
        )


def may_match(head: RuleAtom, atom: RuleAtom) -> bool:
    """Whether a conclusion may be a premise, by predicate and constants.

    >>> head = RuleAtom(TRIPLE, ("?x", "<p>", "?y"))
    >>> may_match(head, RuleAtom(TRIPLE, ("?a", "?b", "<c>"))), may_match(
    ...     head, RuleAtom(TRIPLE, ("?a", "<q>", "?b")))
    (True, False)
    """
    if head.predicate != atom.predicate:
        return False
    pairs = zip(head.terms, atom.terms, strict=True)
    return all(is_variable(a) or is_variable(b) or a == b for a, b in pairs)


def find_strata(rules: Iterable[Rule]) -> list[list[int]]:
    """The numbers of rules that feed each other, in an order in which each group needs only itself
    and earlier ones: the strongly connected components of "the head may match a premise".
    Cost: the square of the number of rules.
    """
    listed = list(rules)
    follows = [
        [
            user
            for user, other in enumerate(listed)
            if any(may_match(rule.head, atom) for atom in other.body)
        ]
        for rule in listed
    ]
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(listed)):  # a walk without recursion, which would be too deep
        stack = [(start, iter(follows[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            at, rest = stack[-1]
            for user in rest:
                if user not in seen:
                    seen.add(user)
                    stack.append((user, iter(follows[user])))
                    break
            else:
                order.append(at)
                stack.pop()
    feeds: list[list[int]] = [[] for _ in listed]
    for at, users in enumerate(follows):
        for user in users:
            feeds[user].append(at)
    strata: list[list[int]] = []
    placed: set[int] = set()
    for start in reversed(order):
        if start in placed:
            continue
        placed.add(start)
        group, waiting = [], [start]
        while waiting:
            at = waiting.pop()
            group.append(at)
            fresh = [each for each in feeds[at] if each not in placed]
            placed.update(fresh)
            waiting += fresh
        strata.append(sorted(group))
    return strata


def is_recursive(rules: Iterable[Rule], stratum: list[int]) -> bool:
    """Whether the rules of a stratum feed themselves."""
    if len(stratum) > 1:
        return True
    rule = list(rules)[stratum[0]]
    return any(may_match(rule.head, atom) for atom in rule.body)
