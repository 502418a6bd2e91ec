"""Several related queries in one engine give what each gives in an engine of its own."""

from __future__ import annotations

import os

import pytest
from tests.stress.related import hunt_in_epochs, hunt_in_windows, read

from triegs.engine import Engine
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ROUNDS, EPOCHS = (40, 60) if SOAK else (12, 14)

#: Pairs that once had one key, or might have: what differs is named.
PAIRS = [
    (  # the order of a join's columns
        "SELECT ?a ?c { ?a <p> ?b . ?b <p> ?c }",
        "SELECT ?a ?c { ?a <p> ?b . ?c <p> ?b }",
    ),
    (
        "SELECT ?a ?c { ?b <p> ?a . ?b <p> ?c }",
        "SELECT ?c ?a { ?a <p> ?b . ?c <p> ?b }",
    ),
    (  # what of a join the head shows
        "SELECT ?a ?d { ?a <p> ?b . ?c <q> ?d FILTER(?b != ?d) }",
        "SELECT ?a { ?a <p> ?b . ?c <q> ?d FILTER(?b != ?d) }",
    ),
    (  # rows of nothing
        "SELECT ?a { ?a <p> ?b VALUES ?b { } }",
        "SELECT ?a ?b { ?a <p> ?b VALUES (?a ?b) { } }",
    ),
    (  # which column a filter reads
        "SELECT ?a ?b { ?a <p> ?b FILTER(?a != <A>) }",
        "SELECT ?a ?b { ?a <p> ?b FILTER(?b != <A>) }",
    ),
    (  # a constant that reads like a column
        'SELECT ?a ?b { ?a <p> ?b FILTER(?b != "#0") }',
        "SELECT ?a ?b { ?a <p> ?b FILTER(?b != ?a) }",
    ),
]
EDGES = ["A p B", "B p C", "C p B", "A p A", "B q C", "A q A"]


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("texts", [*PAIRS, *[pair[::-1] for pair in PAIRS]])
def test_two_queries_that_are_nearly_alike(texts, mode):
    engine = Engine(mode)
    queries = [engine.register(text) for text in texts]
    counts: dict[oracle.Triple, int] = {}
    for edge in EDGES:
        s, p, o = (f"<{name}>" for name in edge.split())
        engine.apply([("+", s, p, o)])
        counts[s, p, o] = 1
        for query, text in zip(queries, texts, strict=True):
            assert read(query) == oracle.answers(text, counts, mode), text


@pytest.mark.parametrize("block", range(100 if SOAK else 4))
def test_families_over_epochs(block):
    compared = [hunt_in_epochs(block * ROUNDS + seed, EPOCHS) for seed in range(ROUNDS)]
    assert sum(compared) > 20 * ROUNDS


@pytest.mark.parametrize("block", range(100 if SOAK else 2))
def test_families_over_windows(block):
    compared = [hunt_in_windows(block * ROUNDS + seed, EPOCHS) for seed in range(ROUNDS)]
    assert sum(compared) > 10 * ROUNDS
