"""Random rules and statements, for the tests of reasoning."""

from __future__ import annotations

from hypothesis import strategies as st

from triegs.reason.model import TRIPLE, Rule, RuleAtom, RuleSet
from triegs.sparql.model import is_variable
from triegs.testing.rule_oracle import PlainRule
from triegs.testing.strategies import label, node

TERMS = [node(number) for number in range(3)]
PREDICATES = [label(0), label(1)]
VARIABLES = ["?x", "?y", "?z"]
NAMED = {"one": 1, "two": 2, "three": 3}

triples = st.tuples(
    st.sampled_from([*TERMS, PREDICATES[0]]),
    st.sampled_from(PREDICATES),
    st.sampled_from([*TERMS, PREDICATES[1]]),
)


@st.composite
def atoms(draw: st.DrawFn, variables: list[str] = VARIABLES) -> RuleAtom:
    """A pattern over triples or a named predicate, with few terms, so that rules meet."""
    term = st.sampled_from([*variables, *variables, *TERMS])
    if draw(st.integers(0, 2)):
        predicate = st.sampled_from([*PREDICATES, *PREDICATES, *variables])
        return RuleAtom(TRIPLE, (draw(term), draw(predicate), draw(term)))
    name = draw(st.sampled_from(sorted(NAMED)))
    return RuleAtom(name, tuple(draw(term) for _ in range(NAMED[name])))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    body = draw(st.lists(atoms(), min_size=1, max_size=3))
    bound = sorted({term for atom in body for term in atom.terms if is_variable(term)})
    head = draw(atoms(bound))
    return Rule(head, tuple(body))


@st.composite
def axioms(draw: st.DrawFn) -> Rule:
    return Rule(draw(atoms([])), ())


@st.composite
def rule_sets(draw: st.DrawFn) -> RuleSet:
    """Up to four rules, and seldom a fact; recursion and self-joins are frequent."""
    found = draw(st.lists(rules(), min_size=1, max_size=4))
    if draw(st.integers(0, 4)) == 0:
        found.append(draw(axioms()))
    return RuleSet(tuple(dict.fromkeys(found)))


def as_plain(rules: RuleSet) -> list[PlainRule]:
    """The rules as the oracle reads them."""
    return [
        ((rule.head.predicate, rule.head.terms), tuple((a.predicate, a.terms) for a in rule.body))
        for rule in rules.rules
    ]
