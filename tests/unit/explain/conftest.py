"""Plans of every class and shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triegs.compiler import Plan, compile_query
from triegs.sparql import parse

STAR = " . ".join(f"?c :p{i} ?x{i}" for i in range(12))
PATH = " . ".join(f"?x{i} :p{i} ?x{i + 1}" for i in range(30))
GRID = (
    "?a :p ?b . ?b :p ?c . ?d :p ?e . ?e :p ?f . ?g :p ?h . ?h :p ?i . "
    "?a :q ?d . ?d :q ?g . ?b :q ?e . ?e :q ?h . ?c :q ?f . ?f :q ?i"
)
LONG = "<http://example.org/" + "long/" * 20 + "aLocalNameThatIsAlsoVeryLongAndNeverSeemsToEnd>"
QUERIES = {
    "running": "SELECT ?x ?y ?v ?z ?w { ?v :hasCreator ?x . ?z :hasCreator ?y . "
    "?v :hasReply ?z . ?z :likedBy ?w }",
    "edge": "SELECT * { ?a :knows ?b }",
    "star": f"SELECT * {{ {STAR} }}",
    "wide star": "SELECT * { " + " . ".join(f"?c :p{i} ?x{i}" for i in range(40)) + " }",
    "path": "SELECT * { ?a :p ?b . ?b :q ?c . ?c :r ?d . ?d :s ?e . ?e :t ?f }",
    "long path": f"SELECT * {{ {PATH} }}",
    "projected": "SELECT ?v ?z { ?v :hasCreator ?x . ?z :hasCreator ?y . ?v :hasReply ?z }",
    "stuck": "SELECT ?a ?c { ?a :knows ?b . ?b :likes ?c }",
    "stuck with a leaf": "SELECT ?a ?d ?e { ?a :p ?b . ?b :q ?c . ?c :r ?d . ?d :s ?e }",
    "triangle": "SELECT * { ?a :knows ?b . ?b :knows ?c . ?c :knows ?a . ?c :worksFor ?d }",
    "cycle": "SELECT * { ?a :p ?b . ?b :p ?c . ?c :p ?d . ?d :p ?e . ?e :p ?f . ?f :p ?a }",
    "hidden cycle": "SELECT ?a ?e { ?a :p ?b . ?b :p ?c . ?c :p ?d . ?d :p ?e . ?e :p ?f . "
    "?f :p ?g . ?g :p ?h . ?h :p ?a }",
    "grid": f"SELECT * {{ {GRID} }}",
    "two components": "SELECT * { ?a :knows ?b . ?x :likes ?y . ?y :likes ?z }",
    "three components": "SELECT ?a { ?a :knows ?b . ?x :likes ?y . ?p :likes ?q . ?q :r ?p }",
    "empty": "SELECT * { }",
    "ask": "ASK { ?a :knows ?b . ?b :knows ?c }",
    "constants": 'SELECT ?a { :me :knows ?a . ?a :age 5 . ?a :name "a \\"b\\" <c> & d"@en }',
    "loop": "SELECT * { ?a :knows ?a . ?a :knows ?b }",
    "variable predicate": "SELECT * { ?s ?p ?o . ?p :inverse ?q }",
    "same local names": "SELECT * { ?a <http://a/p> ?b . ?b <http://b/p> ?c . ?c <urn:x:#> ?d }",
    "values": "SELECT * { ?a :knows ?b VALUES ?a { :x :y } }",
    "filters": "SELECT ?x ?y { ?x :age ?n . ?y :age ?m . ?x :knows ?y "
    "FILTER(?n < 5 && ?x != :me) FILTER(?x != ?y) FILTER(?n < ?m) FILTER(1 < 2) }",
    "enumerated filter": "SELECT * { ?a :p ?b . ?b :p ?c . ?c :p ?d FILTER(?a != ?d) }",
    "never": "SELECT * { ?a :p ?b FILTER(1 > 2) }",
    "unbound": "SELECT ?a ?gone { ?a :knows ?b }",
    "grouped": "SELECT ?a (COUNT(DISTINCT ?b) AS ?n) { ?a :knows ?b . ?b :age ?g } "
    "GROUP BY ?a HAVING (COUNT(*) > 2) LIMIT 10 OFFSET 3",
    "distinct": "SELECT DISTINCT ?a { ?a :knows ?b . ?b :knows ?c } LIMIT 5",
    "long names": f"SELECT * {{ ?aVeryLongVariableNameForOneThing {LONG} "
    f"?anotherVeryLongVariableNameForAnother . ?anotherVeryLongVariableNameForAnother {LONG} ?c }}",
    "wide letters": "SELECT * { ?漢字 :p ?かな . ?かな :q ?ö }",
}


def compile_text(text: str, **options: object) -> Plan:
    return compile_query(parse(text, {"": "http://example.org/"}), **options)  # type: ignore[arg-type]


@pytest.fixture(params=QUERIES, ids=lambda name: name.replace(" ", "-"))
def plan(request: pytest.FixtureRequest) -> Plan:
    return compile_text(QUERIES[request.param])


@pytest.fixture
def running() -> Plan:
    return compile_text(QUERIES["running"], root="z")


@pytest.fixture
def compiled() -> Callable[..., Plan]:
    """Compile one of the queries by its name, with options."""

    def compile_named(name: str, **options: object) -> Plan:
        return compile_text(QUERIES[name], **options)

    return compile_named
