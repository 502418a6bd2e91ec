"""Which facts partitions need so that each derives its part of the closure, and none is missed.

Triples are partitioned by subject. A conclusion is found where its premises meet. The analysis
follows, rule by rule, at which columns of a fact its partition is known: of a stated triple at the
subject; of a conclusion at the columns of a variable at which all premises meet. A premise that
does not come to the others is *foreign*: what it can be derived from is sent to all partitions, its
*base support*. A rule with one premise needs nothing, wherever that premise is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from triegs.reason.closure import Closure
from triegs.reason.model import TRIPLE, RuleAtom, RuleSet, may_match
from triegs.reason.tables import write_program
from triegs.reason.text import TYPE
from triegs.sparql.model import is_variable

SUBJECT = 0
#: Partitions, and triples of the data, by which signatures that are not needed are found.
CHECKED, MOST_CHECKED = 16, 20_000
Triple = tuple[str, str, str]


class Signature(NamedTuple):
    """What triples have in common: a predicate and, of types, the class. Empty means any."""

    predicate: str
    type: str = ""

    @classmethod
    def of(cls, triple: Sequence[str]) -> Signature:
        return cls(triple[1], triple[2] if triple[1] == TYPE else "")

    @property
    def atom(self) -> RuleAtom:
        return RuleAtom(TRIPLE, ("?s", self.predicate or "?p", self.type or "?o"))

    def __str__(self) -> str:
        return f"{self.predicate or 'any predicate'} {self.type}".rstrip()


class Foreign(NamedTuple):
    """A premise that is sent to all partitions: its rule and place there, counted from 0."""

    rule: int
    premise: int


#: Where a fact is: the columns whose terms own it, or None for all partitions.
Places = frozenset[int] | None


class RulePartitioning(NamedTuple):
    """Foreign premises, the signatures sent to all partitions, and the number of triples of each
    signature that the data has (empty without data).

    `covered` are those of the signatures with which the partitions of the data together derive all
    of it: enough for that data as a whole, not for windows over it, where a fact may outlive
    another from which the same follows.
    """

    rules: RuleSet
    foreign: tuple[Foreign, ...]
    replicated: tuple[Signature, ...]
    covered: tuple[Signature, ...] | None
    counts: Mapping[Signature, int]

    def find_share(self, signatures: Iterable[Signature]) -> float:
        """The fraction f of triples that go to all partitions; without data, of signatures."""
        chosen = set(signatures)
        if self.counts:
            return sum(self.counts[each] for each in chosen) / sum(self.counts.values())
        known = list_signatures(self.rules)
        return len(chosen) / len(known) if known else 0.0

    def is_replicated(self, triple: Triple, *, covered: bool = False) -> bool:
        """Whether a triple goes to all partitions; else it goes to that of its subject."""
        chosen = self.covered if covered and self.covered is not None else self.replicated
        fact = RuleAtom(TRIPLE, triple)
        return any(may_match(each.atom, fact) for each in chosen)


def find_speedup(share: float, partitions: int) -> float:
    """The law of replication: ``1 / ((1 - f) / N + f)``.

    >>> find_speedup(0.25, 3)
    2.0
    """
    return 1 / ((1 - share) / partitions + share)


def plan_rules(
    rules: RuleSet,
    data: Iterable[Triple] | None = None,
    counts: Mapping[Signature, int] | None = None,
) -> RulePartitioning:
    """Find the foreign premises and their base support; with data, or the number of its triples of
    each signature, without what that cannot match.

    Cost: the square of the rules for each foreign premise; with data, its closure for each
    signature of the support.

    >>> from triegs.reason.text import parse_rules
    >>> rules = parse_rules("TE(X, <p>, Z) :- TE(X, <q>, Y), TE(Y, <r>, Z).")
    >>> [str(each) for each in plan_rules(rules).replicated]
    ['<r>']
    """
    triples = None if data is None else list(data)
    if counts is None:
        counts = Counter(map(Signature.of, triples or ()))
    known = list(counts) if counts or triples is not None else list_signatures(rules)
    analysis = RuleAnalysis(rules, known, counts)
    foreign = analysis.find_foreign()
    replicated = analysis.find_support(analysis.rules[rule].body[at] for rule, at in foreign)
    covered = None
    if triples is not None:
        covered = _find_cover(rules, replicated, triples[:MOST_CHECKED], counts)
    return RulePartitioning(rules, tuple(foreign), tuple(replicated), covered, counts)


def list_signatures(rules: RuleSet) -> list[Signature]:
    """The signatures that rules read, when no data says which there are."""
    found: dict[Signature, None] = {}
    for rule in rules.rules:
        for atom in rule.body:
            if atom.is_triple:
                _, predicate, obj = atom.terms
                name = "" if is_variable(predicate) else predicate
                kind = obj if name == TYPE and not is_variable(obj) else ""
                found[Signature(name, kind)] = None
    return list(found)


class RuleAnalysis:
    """Where the facts of premises are. Stated triples are at their subject; `send` adds columns."""

    def __init__(
        self, rules: RuleSet, known: Sequence[Signature], counts: Mapping[Signature, int]
    ) -> None:
        self.rules = [rule for rule in rules.rules if rule.body]
        self._known = known
        self._counts = counts
        self._declared: set[Foreign] = set()
        self._places: list[Places] = [None] * len(self.rules)
        self._columns: dict[Signature, frozenset[int]] = {}
        self._sources: dict[RuleAtom, list[int]] = {}
        self._stated: dict[RuleAtom, list[Signature]] = {}
        for rule in self.rules:
            for atom in rule.body:
                self.add_atom(atom)

    def add_atom(self, atom: RuleAtom) -> None:
        """Find what states and what derives the facts of an atom, of a rule or of a query."""
        found = [at for at, rule in enumerate(self.rules) if may_match(rule.head, atom)]
        self._sources[atom] = found
        self._stated[atom] = [each for each in self._known if may_match(each.atom, atom)]

    def list_stated(self, atom: RuleAtom) -> list[Signature]:
        return self._stated[atom]

    def send(self, signatures: Iterable[Signature], column: int) -> None:
        """Send triples of these signatures to the owner of a column, too."""
        for each in signatures:
            self._columns[each] = self._columns.get(each, frozenset([SUBJECT])) | {column}

    def list_columns(self, signature: Signature) -> frozenset[int]:
        """The columns whose owners have the triples of a signature."""
        return self._columns.get(signature, frozenset([SUBJECT]))

    def are_derived_at(self, atom: RuleAtom, column: int) -> bool:
        """Whether all conclusions that match an atom are where that column's terms are."""
        there = [self._places[at] for at in self._sources[atom]]
        return all(each is None or column in each for each in there)

    def is_at(self, atom: RuleAtom, column: int) -> bool:
        """Whether all facts of an atom are where that column's terms are."""
        stated = all(column in self.list_columns(each) for each in self._stated[atom])
        return stated and self.are_derived_at(atom, column)

    def find_foreign(self) -> list[Foreign]:
        """Of rules: declare premises foreign until every rule finds its premises somewhere."""
        while True:
            broken = self._find_broken()
            if broken is None:
                return sorted(self._declared)
            rule = self.rules[broken]
            variables = sorted({term for atom in rule.body for term in atom.variables})
            choices = [self._list_missing(broken, each) for each in variables] or [
                list(range(1, len(rule.body)))
            ]
            best = min(choices, key=lambda missing: self._weigh(broken, missing))
            self._declared.update(Foreign(broken, premise) for premise in best)

    def find_support(self, atoms: Iterable[RuleAtom]) -> list[Signature]:
        """The signatures from which facts of these atoms may be derived."""
        waiting, seen = list(atoms), set[RuleAtom]()
        found: dict[Signature, None] = {}
        while waiting:
            atom = waiting.pop()
            if atom in seen:
                continue
            seen.add(atom)
            found |= dict.fromkeys(self._stated[atom])
            for at in self._sources[atom]:
                waiting += self.rules[at].body
        return [each for each in self._known if each in found]

    def _weigh(self, rule: int, missing: list[int]) -> tuple[float, int]:
        support = self.find_support(self.rules[rule].body[at] for at in missing)
        return sum(self._counts.get(each, 1) for each in support), len(missing)

    def _find_broken(self) -> int | None:
        """A rule whose premises do not meet; else None. The greatest fixpoint of places."""
        places: list[Places] = [None] * len(self.rules)
        while True:
            self._places = places  # of conclusions that are found: a rule that is broken has none
            found: list[Places] = []
            for at in range(len(self.rules)):
                there, is_broken = self._place(at, places)
                if is_broken:
                    return at
                found.append(there)
            if found == places:
                return None
            places = found

    def _place(self, at: int, places: list[Places]) -> tuple[Places, bool]:
        """Where the conclusions of a rule are, given where those of all rules are; and whether its
        premises do not meet.
        """
        rule = self.rules[at]
        there = [self._locate(at, premise, places) for premise in range(len(rule.body))]
        bound = [premise for premise, each in enumerate(there) if each is not None]
        if not bound:
            return None, False
        meeting = {
            term
            for term in rule.body[bound[0]].variables
            if all(self._has(rule.body[premise], there[premise], term) for premise in bound)
        }
        columns = enumerate(rule.head.terms)
        found = frozenset(column for column, term in columns if term in meeting)
        return found, not meeting and len(bound) > 1

    def _locate(self, at: int, premise: int, places: list[Places]) -> Places:
        """Where all facts of a premise are."""
        if Foreign(at, premise) in self._declared:
            return None
        atom = self.rules[at].body[premise]
        found: Places = None
        for signature in self._stated[atom]:
            each = self.list_columns(signature)
            found = each if found is None else found & each
        for source in self._sources[atom]:
            there = places[source]
            if there is not None:
                found = there if found is None else found & there
        return found

    @staticmethod
    def _has(atom: RuleAtom, there: Places, variable: str) -> bool:
        return there is None or any(atom.terms[column] == variable for column in there)

    def _list_missing(self, at: int, variable: str) -> list[int]:
        """The premises that are not where a variable's value is."""
        rule = self.rules[at]
        return [
            premise
            for premise, atom in enumerate(rule.body)
            if not self._has(atom, self._locate(at, premise, self._places), variable)
        ]


def _find_cover(
    rules: RuleSet, replicated: Sequence[Signature], triples: Sequence[Triple],
    counts: Mapping[Signature, int],
) -> tuple[Signature, ...]:  # fmt: skip
    """Leave out signatures, the most frequent first, as long as the partitions of the data together
    still derive all that follows from it.
    """
    ids: dict[str, int] = {}

    def encode(term: str) -> int:
        return ids.setdefault(term, len(ids))

    program = write_program(rules, encode)
    rows = np.array([(1, *map(encode, triple)) for triple in triples], np.int64).reshape(-1, 4)
    homes = np.array([crc32(subject.encode()) % CHECKED for subject, _, _ in triples], np.int64)
    kinds = {each: number for number, each in enumerate(counts)}
    kind = np.array([kinds[Signature.of(triple)] for triple in triples], np.int64)

    def derive(is_there: NDArray[np.bool_]) -> set[tuple[int, ...]]:
        closure = Closure(program, int)
        closure.change(rows[is_there])
        closure.keep()
        return {
            (number, *row)
            for number in range(len(program.predicates))
            for row in closure.read_facts(number).tolist()
        }

    expected = derive(np.ones(len(rows), np.bool_))

    def is_enough(kept: set[Signature]) -> bool:
        is_sent = np.isin(kind, [kinds[each] for each in kept])
        found: set[tuple[int, ...]] = set()
        for home in range(CHECKED):
            found |= derive(is_sent | (homes == home))
        return found == expected

    kept = set(replicated)
    for each in sorted(replicated, key=lambda signature: -counts[signature]):
        if is_enough(kept - {each}):
            kept.discard(each)
    return tuple(each for each in replicated if each in kept)
