"""Delete-and-rederive against backward/forward: the work of retracting statements.

Both are plain Python over the same indexes and the same join orders, so their counts of facts that
joins looked at, and their times, compare. The kernels of closures delete and rederive. Run with
``python -m bench.micro.retraction``; ``LUBM_RULES`` names the rules of LUBM, if they are there.

Backward/forward (Motik, Nenov, Piro and Horrocks, AAAI 2015) looks for another proof of a fact
before it deletes what depends on it; delete-and-rederive (Gupta, Mumick and Subrahmanian 1993)
deletes first, and restores what still has a proof.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from time import process_time
from typing import NamedTuple

from triegs.reason.model import TRIPLE, Rule, RuleAtom, RuleSet
from triegs.reason.sets import read_rules
from triegs.reason.tables import PlannedStep, plan_backward, plan_forward
from triegs.sparql.model import is_variable
from triegs.workloads import get

Fact = tuple[str, ...]
Binding = dict[str, str]
TERMS = ("subject", "predicate", "object")
DELETED = 100


class Plan(NamedTuple):
    trigger: RuleAtom
    steps: Sequence[PlannedStep]
    rule: Rule


def bind(atom: RuleAtom, fact: Fact, binding: Binding) -> Binding | None:
    found = dict(binding)
    for term, value in zip(atom.terms, fact[1:], strict=True):
        if not is_variable(term):
            if term != value:
                return None
        elif found.setdefault(term, value) != value:
            return None
    return found


def conclude(atom: RuleAtom, binding: Binding) -> Fact:
    return atom.predicate, *(binding.get(term, term) for term in atom.terms)


class Graph:
    """Facts with an index for each combination of columns that a plan knows."""

    def __init__(self, rules: RuleSet) -> None:
        listed = [rule for rule in rules.rules if rule.body]
        forward = [
            Plan(atom, plan_forward(rule, at), rule)
            for rule in listed
            for at, atom in enumerate(rule.body)
        ]
        backward = [Plan(rule.head, plan_backward(rule), rule) for rule in listed]
        self.forward, self.backward = self.group(forward), self.group(backward)
        self.masks: dict[str, set[tuple[int, ...]]] = {}
        for plan in forward + backward:
            for step in plan.steps:
                self.masks.setdefault(step.atom.predicate, set()).add(step.bound)
        self.facts: set[Fact] = set()
        self.index: dict[tuple[object, ...], dict[Fact, None]] = {}
        self.joined = 0

    @staticmethod
    def group(plans: Iterable[Plan]) -> dict[tuple[str, str], list[Plan]]:
        """By predicate, and of triples by predicate term; "" is any."""
        found: dict[tuple[str, str], list[Plan]] = {}
        for plan in plans:
            term = plan.trigger.terms[1] if plan.trigger.predicate == TRIPLE else ""
            key = plan.trigger.predicate, "" if is_variable(term) else term
            found.setdefault(key, []).append(plan)
        return found

    def keys(self, fact: Fact) -> Iterator[tuple[object, ...]]:
        for mask in self.masks.get(fact[0], ()):
            yield fact[0], mask, *(fact[1 + at] for at in mask)

    def add(self, fact: Fact) -> bool:
        if fact in self.facts:
            return False
        self.facts.add(fact)
        for key in self.keys(fact):
            self.index.setdefault(key, {})[fact] = None
        return True

    def remove(self, fact: Fact) -> None:
        self.facts.discard(fact)
        for key in self.keys(fact):
            self.index[key].pop(fact, None)

    def match(
        self, plans: dict[tuple[str, str], list[Plan]], fact: Fact
    ) -> Iterator[tuple[Rule, Binding]]:
        """Every instance of a rule that begins with a fact, over the facts that are there."""
        chosen = plans.get((fact[0], ""), [])
        if fact[0] == TRIPLE:
            chosen = [*chosen, *plans.get((TRIPLE, fact[2]), [])]
        for plan in chosen:
            binding = bind(plan.trigger, fact, {})
            if binding is not None:
                for found in self.join(plan.steps, binding):
                    yield plan.rule, found

    def join(self, steps: Sequence[PlannedStep], binding: Binding) -> Iterator[Binding]:
        if not steps:
            yield binding
            return
        (atom, bound), *rest = steps
        known = (binding.get(atom.terms[at], atom.terms[at]) for at in bound)
        for fact in list(self.index.get((atom.predicate, bound, *known), ())):
            self.joined += 1
            found = bind(atom, fact, binding)
            if found is not None:
                yield from self.join(rest, found)

    def saturate(self, facts: Iterable[Fact]) -> None:
        waiting = [fact for fact in facts if self.add(fact)]
        while waiting:
            for rule, binding in self.match(self.forward, waiting.pop()):
                head = conclude(rule.head, binding)
                if self.add(head):
                    waiting.append(head)


def delete_and_rederive(graph: Graph, stated: set[Fact], gone: Iterable[Fact]) -> None:
    """As the kernels do: statements stop doubt."""
    doubted = dict.fromkeys(gone)
    stated.difference_update(doubted)
    waiting = list(doubted)
    while waiting:
        for rule, binding in graph.match(graph.forward, waiting.pop()):
            head = conclude(rule.head, binding)
            if head not in doubted and head not in stated and head in graph.facts:
                doubted[head] = None
                waiting.append(head)
    for fact in doubted:
        graph.remove(fact)
    graph.saturate(
        [
            fact
            for fact in doubted
            if fact in stated or next(graph.match(graph.backward, fact), None) is not None
        ]
    )


class BackwardForward:
    """Facts are checked for a proof, depth first; what is proved goes forward among the checked."""

    def __init__(self, graph: Graph, stated: set[Fact]) -> None:
        self.graph, self.stated = graph, stated
        self.checked: set[Fact] = set()
        self.proved: set[Fact] = set()
        self.delayed: set[Fact] = set()
        self.done: set[Fact] = set()

    def run(self, gone: Iterable[Fact]) -> None:
        waiting = list(gone)
        self.stated.difference_update(waiting)
        seen = set(waiting)
        while waiting:
            fact = waiting.pop()
            self.check(fact)
            if fact in self.proved:
                continue
            for rule, binding in self.graph.match(self.graph.forward, fact):
                head = conclude(rule.head, binding)
                if head not in seen and head not in self.proved:
                    seen.add(head)
                    waiting.append(head)
            self.done.add(fact)
            self.graph.remove(fact)

    def check(self, first: Fact) -> None:
        """Without recursion, which long chains would exceed: a stack of the bodies to check."""
        stack: list[tuple[Fact, Iterator[Fact]]] = []

        def enter(fact: Fact) -> None:
            if fact in self.checked:
                return
            self.checked.add(fact)
            if fact in self.stated or fact in self.delayed:
                self.prove(fact)
            elif fact in self.graph.facts:
                stack.append((fact, self.list_premises(fact)))

        enter(first)
        while stack:
            fact, premises = stack[-1]
            if fact in self.proved:
                stack.pop()
                continue
            following = next(premises, None)
            if following is None:
                stack.pop()
            else:
                enter(following)

    def list_premises(self, fact: Fact) -> Iterator[Fact]:
        for rule, binding in self.graph.match(self.graph.backward, fact):
            for atom in rule.body:
                yield conclude(atom, binding)

    def prove(self, fact: Fact) -> None:
        waiting = [fact]
        self.proved.add(fact)
        while waiting:
            for rule, binding in self.graph.match(self.graph.forward, waiting.pop()):
                if all(conclude(atom, binding) in self.proved for atom in rule.body):
                    head = conclude(rule.head, binding)
                    if head in self.proved:
                        continue
                    if head in self.checked:
                        self.proved.add(head)
                        waiting.append(head)
                    else:
                        self.delayed.add(head)


def list_cases() -> Iterator[tuple[str, RuleSet, list[Fact]]]:
    random = Random(5)
    batches = get("university").events(5_000)
    university = [
        (TRIPLE, *row)
        for batch in batches
        for row in zip(*(batch[name].to_pylist() for name in TERMS), strict=True)
    ]  # fmt: skip
    path = os.environ.get("LUBM_RULES", "")
    if path and Path(path).exists():
        yield "university, LUBM_L", read_rules(path), university
    static = [(TRIPLE, *row) for row in get("university").static]
    yield "university, rdfs-plus", read_rules("rdfs-plus"), [*static, *university]
    closed = read_rules("TE(X, <p>, Z) :- TE(X, <p>, Y), TE(Y, <p>, Z).")
    linear = read_rules("q(X, Y) :- TE(X, <p>, Y). q(X, Z) :- q(X, Y), TE(Y, <p>, Z).")
    nodes = [f"<{number}>" for number in range(60)]
    chain = [(TRIPLE, a, "<p>", b) for a, b in pairwise(nodes)]
    sparse = sorted(
        {(TRIPLE, random.choice(nodes), "<p>", random.choice(nodes)) for _ in range(70)}
    )
    dense = sorted(
        {(TRIPLE, random.choice(nodes), "<p>", random.choice(nodes)) for _ in range(240)}
    )
    for name, rules in (("transitive", closed), ("linear", linear)):
        yield f"chain of 60, {name}", rules, chain
        yield f"70 of 3,600 edges, {name}", rules, sparse
        yield f"240 of 3,600 edges, {name}", rules, dense


def main() -> None:
    titles = f"{'':32}{'deleted':>8}{'facts':>8}{'joined: DRed':>14}{'B/F':>12}"
    sys.stdout.write(f"{titles}{'ms: DRed':>10}{'B/F':>10}\n")
    for name, rules, data in list_cases():
        chosen = Random(7).sample(data, min(DELETED, max(1, len(data) // 20)))
        results = []
        for is_backward in (False, True):
            graph, stated = Graph(rules), set(data)
            graph.saturate([*data, *(conclude(r.head, {}) for r in rules.rules if not r.body)])
            facts, graph.joined, start = len(graph.facts), 0, process_time()
            for fact in chosen:
                if is_backward:
                    BackwardForward(graph, stated).run([fact])
                else:
                    delete_and_rederive(graph, stated, [fact])
            results.append((graph.joined, process_time() - start, graph.facts))
        (joined, spent, found), (other, longer, same) = results
        assert found == same, f"{name}: the two differ"
        sys.stdout.write(
            f"{name:32}{len(chosen):>8}{facts:>8}{joined:>14,}{other:>12,}"
            f"{spent * 1e3:>10.0f}{longer * 1e3:>10.0f}\n"
        )


if __name__ == "__main__":
    main()
