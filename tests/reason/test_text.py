"""Rules as text: what they mean, what is refused, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.reason.drawing import rule_sets

from triegs.errors import BadOption, InputError, RuleError
from triegs.reason.model import TRIPLE, RuleSet, find_strata, is_recursive
from triegs.reason.sets import NAMED_SETS, read_file, read_rules, read_text
from triegs.reason.text import TYPE, parse_rules

EX = {"": "http://ex/", "ex": "http://ex/"}


def only(text: str):
    (rule,) = read_text(text, EX).rules
    return rule


@given(rule_sets())
def test_written_rules_are_read_as_they_were(rules: RuleSet):
    assert parse_rules(str(rules)) == rules


def test_the_syntax_of_lubm_without_full_stops_or_prefixes():
    text = """RP0(A) :- TE(A,rdf:type,<http://ex/University>)
RP1(A,B) :- TE(A,<http://ex/mastersDegreeFrom>,B)
RP0(X1) :- RP1(X,X1)
RP44(X,Z) :- RP44(X,Y),RP44(Y,Z)
"""
    rules = read_text(text)
    assert [len(rule.body) for rule in rules.rules] == [1, 1, 1, 2]
    assert rules.rules[0].body[0].terms == ("?A", TYPE, "<http://ex/University>")
    assert rules.predicates == {TRIPLE: 3, "RP0": 1, "RP1": 2, "RP44": 2}


def test_triples_in_all_forms_are_equal():
    forms = ["TE(X, ex:p, Y)", "triple(X, ex:p, Y)", "[X, ex:p, Y]", "ex:p(X, Y)", "te(?X, :p, $Y)"]
    forms.append("<http://ex/p>(X, Y)")
    assert len({only(f"q(X) :- {form}.").body for form in forms}) == 1
    assert only("q(X) :- ex:C(X)").body == only("q(X) :- [X, a, ex:C]").body


def test_terms_comments_and_declarations():
    rule = only("""% one
        @prefix k: <http://k/> . # two
        PREFIX l: <http://l/>
        /* three
           lines */
        p(X, k:a, 'it''s'@en, -1.5) :- // four
            l:q(X, "a\\"b"^^xsd:date), q2(_, _, 7, true).""".replace("it''s", "its"))  # fmt: skip
    assert rule.head.terms[1:3] == ("<http://k/a>", '"its"@en')
    assert rule.body[0].terms[2] == '"a\\"b"^^<http://www.w3.org/2001/XMLSchema#date>'
    first, second, *_ = rule.body[1].terms
    assert first != second


def test_several_heads_and_facts():
    rules = read_text("p(X), q(X) :- r(X). r(<a:b>).")
    assert list(map(str, rules.rules)) == ["p(?X) :- r(?X).", "q(?X) :- r(?X).", "r(<a:b>)."]


def test_a_construct_is_a_rule_for_each_triple():
    rules = read_text("""PREFIX : <http://ex/>
        CONSTRUCT { ?x :a ?z . ?z a :B } WHERE { ?x :p/^:q ?z ; :r [ :s 5 ] }
        CONSTRUCT { ?x :c ?x } { ?x ?p ?x }""")
    assert len(rules.rules) == 3
    assert len(rules.rules[0].body) == 4
    assert rules.rules[2].body[0].terms == ("?x", "?p", "?x")
    assert parse_rules(str(rules)) == rules


@pytest.mark.parametrize(
    ("text", "place", "construct"),
    [
        ("p(X) :- q(X),\n  not r(X).", (2, 3), "negation"),
        ("p(X) :- q(X), \\+ r(X).", (1, 15), "negation"),
        ("p(X) :- !q(X).", (1, 9), "negation"),
        ("p(X) :- q(f(X)).", (1, 11), "function symbol"),
        ("p(ex:f(X)) :- q(X).", (1, 3), "function symbol"),
        ("p(X) :- q(X), X != ex:a.", (1, 17), "comparison"),
        ("p(X) :- q(X); r(X).", (1, 13), "disjunction"),
        ("p(X, Y) :- q(X).", (1, 1), "unsafe variable"),
        ("p(X).", (1, 1), "unsafe variable"),
        ("p(X) :- q(X).\np(X, Y) :- r(X, Y).", (2, 1), "arity"),
        ("p(A, B, C, D, E) :- q(A, B, C, D).", (1, 1), "arity"),
        ("p() :- q(X).", (1, 1), "arity"),
        ("p(X) :- TE(X, Y).", (1, 9), "arity"),
        ("ex:p(X, Y, Z) :- q(X, Y, Z).", (1, 1), "arity"),
        ("p(X) :- no:q(X).", (1, 9), "prefix"),
        ("p(abc) :- q(X).", (1, 3), "constant"),
        ("p(X) :- q(_:b, X).", (1, 11), "blank node"),
        ("p(X) :- 'text", (1, 9), "string"),
        ("p(X) :- sum(X).", (1, 9), "aggregate"),
        ("q(X) => p(X).", (1, 6), "syntax"),
        ("p(X) :- ", (1, 9), "syntax"),
        ("p(X :- q(X).", (1, 5), "syntax"),
        ("CONSTRUCT { ?x ex:p ?y } {\n ?x ex:q ?y OPTIONAL { ?y ex:r ?z } }", (2, 13), "OPTIONAL"),
        ("CONSTRUCT { ?x ex:p _:b } WHERE { ?x ex:q ?y }", (1, 1), "unsafe variable"),
        ("CONSTRUCT { ?x ex:p ?y } WHERE { ?x ex:q ?y FILTER(?x != ?y) }", (1, 32), "FILTER"),
        ("CONSTRUCT { ?x ex:p ?y } WHERE { ?x ex:q ?y } LIMIT 3", (1, 47), ""),
    ],
)  # fmt: skip
def test_refusals_have_a_place_and_a_name(text, place, construct):
    with pytest.raises(RuleError) as caught:
        read_text(text, EX)
    assert ((caught.value.line, caught.value.column), caught.value.construct) == (place, construct)


def test_sources(tmp_path):
    path = tmp_path / "rules.dlog"
    path.write_text("p(X) :- q(X),\n not r(X).")
    with pytest.raises(RuleError, match=r"line 2, column 2: .*rules.dlog: negation"):
        read_rules(path)
    with pytest.raises(InputError, match="No such file"):
        read_file(tmp_path / "none")
    with pytest.raises(BadOption, match="rdfs, rdfs-plus, a file or rule text"):
        read_rules("owl")
    with pytest.raises(BadOption):
        read_rules(7)  # type: ignore[arg-type]
    path.write_text("p(X) :- TE(X, Y, Z).")
    assert len(read_rules(["rdfs", str(path), "p(X) :- TE(X, Y, Z)."]).rules) == 7
    assert all(read_rules(name).rules for name in NAMED_SETS)


def test_strata_come_in_an_order_of_need():
    rules = read_text(
        "c(X) :- b(X). b(X) :- a(X). a(X) :- TE(X, Y, Z). b(X) :- c(X). d(X) :- c(X)."
    )
    strata = find_strata(rules.rules)
    assert strata == [[2], [1], [0, 3], [4]]
    recursive = [is_recursive(rules.rules, stratum) for stratum in strata]
    assert sum(recursive) == 1
    assert is_recursive(read_text("p(X) :- p(X).").rules, [0])
