"""Queries that differ only in order and names share every view."""

from __future__ import annotations

import pytest

from triegs.engine import Engine

PREFIX = "PREFIX : <http://ex/> "
LIFE = [
    [("+", "a", "p", "b"), ("+", "b", "p", "c"), ("+", "c", "q", "a"), ("+", "a", "q", "b")],
    [("+", "b", "q", "b"), ("+", "b", "p", "b"), ("+", "b", "r", "b"), ("+", "b", "r", "a")],
    [("-", "a", "p", "b"), ("+", "c", "p", "a"), ("+", "a", "p", "a"), ("-", "b", "r", "b")],
]
PAIRS = {
    "filters of an atom": (
        "SELECT ?x ?y ?z { ?x :p ?y . ?y :q ?z . ?x :q ?z FILTER(?x != :a) FILTER(isIRI(?y)) }",
        "SELECT ?x ?y ?z { ?x :p ?y . ?y :q ?z . ?x :q ?z FILTER(isIRI(?y)) FILTER(?x != :a) }",
    ),
    "filters of a join": (
        "SELECT ?x ?z { ?x :p ?y . ?y :q ?z FILTER(?x != ?z) FILTER(STR(?z) < STR(?x)) }",
        "SELECT ?a ?c { ?a :p ?b . ?b :q ?c FILTER(STR(?c) < STR(?a)) FILTER(?a != ?c) }",
    ),
    "inputs of a join": (
        "SELECT ?x ?z { ?x :p ?y . ?y :q ?z }",
        "SELECT ?a ?c { ?b :q ?c . ?a :p ?b }",
    ),
    "factors of a product": (
        "SELECT ?x { ?x :p ?y . ?x :q ?z . ?z :p ?w VALUES ?x { :a :b } }",
        "SELECT ?a { VALUES ?a { :b :a } ?a :q ?z . ?z :p ?w . ?a :p ?y }",
    ),
    "a cycle in a tree": (
        "SELECT ?x ?y ?z ?w ?v { ?x :p ?y . ?y :q ?z . ?z :r ?x . ?x :p ?w . ?x :q ?v }",
        "SELECT ?x ?y ?z ?w ?v { ?x :q ?v . ?z :r ?x . ?y :q ?z . ?x :p ?w . ?x :p ?y }",
    ),
}


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_another_order_adds_no_view(pair, mode):
    engine = Engine(mode)
    first = engine.register(PREFIX + pair[0])
    views = engine._internals.core.views.by_name
    before = dict(views)
    second = engine.register(PREFIX + pair[1])
    assert views == before
    for epoch in LIFE:
        engine.apply([(s, *(f"<http://ex/{t}>" for t in terms)) for s, *terms in epoch])
        assert read(first) == read(second)
    assert read(first)
    first.close()
    kept = read(second)
    engine.apply([])
    assert read(second) == kept


def read(query):
    with query.snapshot() as snapshot:
        return sorted(tuple(answer) for answer in snapshot)
