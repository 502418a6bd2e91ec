"""Rules to tables: one array of words that the kernels interpret; nothing is compiled per rule set.

A *plan* joins the premises of a rule in a fixed order, beginning with one fact that is given. A
forward plan begins with a premise and ends with the conclusion, so a rule has one per premise. A
backward plan begins with the conclusion and asks whether the premises still hold. An atom within a
plan has four columns of two words, an operation and its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from triegs.jit.words import Words
from triegs.reason.kernels.layout import (
    ANY_TERM,
    BIND,
    CHECK,
    CONSTANT,
    FIELDS,
    GENERATORS,
    HEAD_WORDS,
    IS_TRANSITIVE,
    LOOK_UP,
    NEEDS_GENERATOR,
    NO_MASK,
    PLAN_WORDS,
    PREDICATE_KEY,
    PROGRAM_WORDS,
    STEP_WORDS,
    T_AXIOMS,
    T_BACKWARD,
    T_FORWARD,
    T_INDEXES,
    T_MASKS,
    T_STRIDE,
    T_TRANSITIVE,
    TRIGGER_WORDS,
    TYPE_KEY,
    UNUSED,
)
from triegs.reason.model import TRIPLE, Rule, RuleAtom, RuleSet
from triegs.sparql.model import is_variable

COLUMNS = 4
#: How much a bound column of a triple narrows a search: subjects and objects do, predicates hardly.
WEIGHTS = (4, 1, 3, 0)
#: Triples of these vocabularies describe a schema, which is small.
SCHEMA = ("<http://www.w3.org/2000/01/rdf-schema#", "<http://www.w3.org/2002/07/owl#")
SCHEMA_WEIGHT = 4


class PlannedStep(NamedTuple):
    """A premise in a plan, and the columns that are known before it is matched."""

    atom: RuleAtom
    bound: tuple[int, ...]

    @property
    def is_lookup(self) -> bool:
        return len(self.bound) == len(self.atom.terms)


def order_body(given: Iterable[str], body: Sequence[RuleAtom]) -> list[PlannedStep]:
    """The order in which premises are joined once some variables are known: always the one with
    the most selective known columns next.

    >>> body = [RuleAtom("p", ("?y", "?z")), RuleAtom("q", ("?x", "?y"))]
    >>> [str(step.atom) for step in order_body(["?x"], body)]
    ['q(?x, ?y)', 'p(?y, ?z)']
    """
    known = set(given)
    waiting = list(body)
    found: list[PlannedStep] = []

    def find_bound(atom: RuleAtom) -> tuple[int, ...]:
        return tuple(
            at for at, term in enumerate(atom.terms) if not is_variable(term) or term in known
        )

    def rate(atom: RuleAtom) -> tuple[bool, int]:
        bound = find_bound(atom)
        weights = WEIGHTS if atom.is_triple else (1,) * COLUMNS
        is_schema = atom.is_triple and atom.terms[1].startswith(SCHEMA) and len(bound) > 1
        weight = sum(weights[at] for at in bound) + is_schema * SCHEMA_WEIGHT
        return len(bound) == len(atom.terms), weight

    while waiting:
        best = max(waiting, key=rate)  # the first of equals
        waiting.remove(best)
        found.append(PlannedStep(best, find_bound(best)))
        known.update(best.variables)
    return found


def plan_forward(rule: Rule, premise: int) -> list[PlannedStep]:
    """The other premises, in the order in which a new fact for one premise meets them."""
    rest = [*rule.body[:premise], *rule.body[premise + 1 :]]
    return order_body(rule.body[premise].variables, rest)


def plan_backward(rule: Rule) -> list[PlannedStep]:
    """The premises, in the order in which a conclusion is checked: of a transitive rule first the
    one with the conclusion's start, for which generators are enough.
    """
    found = find_transitive(rule)
    body = rule.body if found is None or found.premise == 0 else rule.body[::-1]
    return order_body(rule.head.variables, body)


class Transitive(NamedTuple):
    """A rule ``p(x, z) :- p(x, y), p(y, z)``: what its relation is, and its premise with ``x``.

    A fact of the relation is a path of *generators*, facts that hold not only by this rule; so it
    is enough to join these with all facts (``docs/maintenance.md`` has the proof).
    """

    predicate: str
    term: str
    premise: int


def find_transitive(rule: Rule) -> Transitive | None:
    """
    >>> x, y, z = "?x", "?y", "?z"
    >>> body = (RuleAtom("p", (x, y)), RuleAtom("p", (y, z)))
    >>> find_transitive(Rule(RuleAtom("p", (x, z)), body))
    Transitive(predicate='p', term='', premise=0)
    >>> find_transitive(Rule(RuleAtom("p", (z, x)), body))
    """
    if len(rule.body) != 2 or len({atom.predicate for atom in rule.atoms}) != 1:
        return None
    name = rule.head.predicate
    ends = (0, 2) if name == TRIPLE else (0, 1)
    if name != TRIPLE and len(rule.head.terms) != 2:
        return None
    start, end = (rule.head.terms[at] for at in ends)
    term = rule.head.terms[1] if name == TRIPLE else ""
    if name == TRIPLE and (is_variable(term) or any(a.terms[1] != term for a in rule.body)):
        return None
    for premise in range(2):
        left, right = rule.body[premise], rule.body[1 - premise]
        (a, b), (c, d) = ((atom.terms[ends[0]], atom.terms[ends[1]]) for atom in (left, right))
        is_path = (a, b, d) == (start, c, end)
        if is_path and len({a, b, d}) == 3 and all(map(is_variable, (a, b, d))):
            return Transitive(name, term, premise)
    return None


class Program(NamedTuple):
    """The tables of a rule set. `predicates` are numbered by position, triples first."""

    rules: RuleSet
    words: Words
    predicates: tuple[str, ...]
    arities: tuple[int, ...]
    indexes: int

    @property
    def stride(self) -> int:
        """The halves of words of one fact."""
        return FIELDS + 2 * self.indexes


class _Writer:
    def __init__(self, rules: RuleSet, encode: Callable[[str], int]) -> None:
        self.encode = encode
        known = rules.predicates
        self.numbers = {name: number for number, name in enumerate(known)}
        self.arities = tuple(known.values())
        self.masks: list[list[int]] = [[] for _ in known]
        self.words: list[int] = [0] * PROGRAM_WORDS

    def write_columns(
        self, terms: Sequence[str], slots: dict[str, int], known: set[str]
    ) -> list[int]:
        """The operations of an atom; variables that it binds become known."""
        found: list[int] = []
        for term in terms:
            if not is_variable(term):
                found += [CONSTANT, self.encode(term)]
            elif term in known:
                found += [CHECK, slots[term]]
            else:
                known.add(term)
                found += [BIND, slots.setdefault(term, len(slots))]
        return found + [UNUSED, 0] * (COLUMNS - len(terms))

    def find_index(self, step: PlannedStep, only: int = 0) -> int:
        """The index that a step reads, made if no plan has read it before."""
        if step.is_lookup:
            return LOOK_UP
        masks = self.masks[self.numbers[step.atom.predicate]]
        mask = sum(1 << column for column in step.bound) | only
        if mask not in masks:
            masks.append(mask)
        return masks.index(mask)

    def write_plan(
        self, trigger: RuleAtom, steps: Sequence[PlannedStep], rule: Rule, flags: int = 0,
        only: int = 0,
    ) -> int:  # fmt: skip
        """Write a plan, whose steps may read `only` generators; returns where it begins."""
        start = len(self.words)
        slots: dict[str, int] = {}
        known: set[str] = set()
        self.words += [len(steps), flags, self.numbers[trigger.predicate]]
        self.words += self.write_columns(trigger.terms, slots, known)
        for step in steps:
            self.words += [self.numbers[step.atom.predicate], self.find_index(step, only)]
            self.words += self.write_columns(step.atom.terms, slots, known)
        self.words += [self.numbers[rule.head.predicate]]
        self.words += self.write_columns(rule.head.terms, slots, known)
        size = PLAN_WORDS + TRIGGER_WORDS + STEP_WORDS * len(steps) + HEAD_WORDS
        assert len(self.words) == start + size, "a plan has another length"
        return start

    def write_dispatch(self, plans: list[tuple[RuleAtom, int]]) -> int:
        """A table that finds the plans that may begin with a fact: by predicate name, and for
        triples by predicate term, or by predicate and object. Returns where it begins.
        """
        general: list[list[int]] = [[] for _ in self.numbers]
        keyed: dict[tuple[int, int, int], list[int]] = {}
        for atom, start in plans:
            terms = atom.terms
            if not atom.is_triple or is_variable(terms[1]):
                general[self.numbers[atom.predicate]].append(start)
            elif is_variable(terms[2]):
                keyed.setdefault((PREDICATE_KEY, self.encode(terms[1]), 0), []).append(start)
            else:
                key = (TYPE_KEY, self.encode(terms[1]), self.encode(terms[2]))
                keyed.setdefault(key, []).append(start)
        ranges: list[int] = []
        for listed in general:
            ranges += [len(self.words), len(self.words) + len(listed)]
            self.words += listed
        size = max(2, 1 << (2 * len(keyed)).bit_length())
        table = [0] * (5 * size)
        for key, listed in keyed.items():
            at = hash_words(*key) & (size - 1)
            while table[5 * at]:
                at = (at + 1) & (size - 1)
            table[5 * at : 5 * at + 5] = [*key, len(self.words), len(self.words) + len(listed)]
            self.words += listed
        start = len(self.words)
        self.words += [size - 1, *table, *ranges]
        return start


def write_program(rules: RuleSet, encode: Callable[[str], int]) -> Program:
    """Write the tables of a rule set; `encode` gives the ids of constants. Cost: the rules."""
    writer = _Writer(rules, encode)
    words = writer.words
    forward: list[tuple[RuleAtom, int]] = []
    backward: list[tuple[RuleAtom, int]] = []
    relations: dict[tuple[str, str], None] = {}
    axioms = [rule.head for rule in rules.rules if not rule.body]
    for rule in rules.rules:
        if not rule.body:
            continue
        for premise, atom in enumerate(rule.body):
            if atom in rule.body[:premise]:
                continue  # the same atom again adds nothing: facts are a set
            steps = plan_forward(rule, premise)
            found = find_transitive(rule)
            flags = only = 0
            if found is not None:
                relations[found.predicate, found.term] = None
                is_left = premise == found.premise
                flags = IS_TRANSITIVE | (NEEDS_GENERATOR if is_left else 0)
                only = 0 if is_left else GENERATORS
            forward.append((atom, writer.write_plan(atom, steps, rule, flags, only)))
        only = GENERATORS if find_transitive(rule) else 0
        plan = writer.write_plan(rule.head, plan_backward(rule), rule, only=only)
        backward.append((rule.head, plan))
    words[T_FORWARD] = writer.write_dispatch(forward)
    words[T_BACKWARD] = writer.write_dispatch(backward)
    words[T_AXIOMS] = len(words)
    words += [len(axioms)]
    for atom in axioms:
        terms = [encode(term) for term in atom.terms]
        words += [writer.numbers[atom.predicate], *terms, *[0] * (COLUMNS - len(terms))]
    words[T_TRANSITIVE] = len(words)
    words += [len(relations)]
    for predicate, term in relations:
        words += [writer.numbers[predicate], encode(term) if term else ANY_TERM]
    indexes = max(map(len, writer.masks))
    words[T_INDEXES] = indexes
    words[T_STRIDE] = FIELDS + 2 * indexes
    words[T_MASKS] = len(words)
    for masks in writer.masks:
        words += [*masks, *[NO_MASK] * (indexes - len(masks))]
    return Program(rules, np.array(words, np.int64), tuple(writer.numbers), writer.arities, indexes)


def hash_words(a: int, b: int, c: int) -> int:
    """`triegs.reason.kernels.layout.hash_key`, without a kernel."""
    whole = (1 << 64) - 1
    found = a * 0x9E3779B97F4A7C15 & whole
    found = (found ^ (found >> 29) ^ b) * 0xBF58476D1CE4E5B9 & whole
    found = (found ^ (found >> 32) ^ c) * 0x94D049BB133111EB & whole
    return (found ^ (found >> 31)) >> 1


def name_predicate(predicate: str) -> str:
    """As `explain` and metrics show it."""
    return "triples" if predicate == TRIPLE else predicate
