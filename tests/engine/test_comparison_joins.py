"""Joins by comparison equal the oracle on every type that SPARQL orders."""

from __future__ import annotations

import os

import pytest
from tests.aggregates.drawing import KINDS
from tests.aggregates.lives import Life, check_engine
from tests.engine.comparisons import draw_query

from triegs.compiler import compile_query
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import MemoryLimitReached
from triegs.explain import explain
from triegs.maintain.lowered import describe
from triegs.sparql import parse

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


@pytest.mark.parametrize("seed", range(3_000 if SOAK else 20))
def test_random_lives(seed):
    life = Life(seed)
    for number in range(30 if SOAK else 12):
        if number % 3 == 0 and len(life.standing) < 4:
            life.register(draw_query(life.random))
        life.apply(life.draw_batch())
        life.check()
        if number % 4 == 0:
            check_engine(life.engine)
    life.end()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", ["floats", "times", "others"])
def test_kinds_meet(kind, other):
    """Two kinds of values in one engine: equal, incomparable and nearly equal ones."""
    life = Life(sum(map(ord, kind + other)), kinds=[kind, other])
    for operator in ("<", ">=", "<= 1 +"):
        life.register(f"SELECT * {{ ?x <u:p> ?v . ?y <u:p> ?w FILTER(?v {operator} ?w) }}")
    for _ in range(12):
        life.apply(life.draw_batch())
        life.check()
    life.end()


JOIN = "SELECT ?x ?y { ?x <u:p> ?v . ?y <u:q> ?w FILTER(?v < ?w && ?w <= ?v + 2) }"


def read_pairs(query: StandingQuery) -> set[tuple[str, ...]]:
    with query.snapshot() as snapshot:
        return {tuple(answer) for answer in snapshot}


def test_queries_with_other_names_share_their_views():
    with Engine() as engine:
        first = engine.register(JOIN)
        views = len(engine._core.views.by_name)
        second = engine.register(JOIN.replace("?v", "?from").replace("?w", "?to"))
        assert len(engine._core.views.by_name) == views
        engine.apply([("+", "<u:a>", "<u:p>", 1), ("+", "<u:b>", "<u:q>", 3)])
        assert read_pairs(first) == read_pairs(second) == {("<u:a>", "<u:b>")}


def test_hidden_subjects_count():
    """The value that is shown supports the join, and multiplies it."""
    with Engine() as engine:
        query = engine.register("SELECT ?w { ?x <u:p> ?v . ?y <u:p> ?w FILTER(?v >= ?w) }")
        engine.apply([("+", "<u:a>", "<u:p>", 1), ("+", "<u:b>", "<u:p>", 1)])
        with query.snapshot() as snapshot:
            assert [answer.multiplicity for answer in snapshot] == [4]


def test_ids_are_reused_for_other_values():
    """A freed id means another term, with another place in the order."""
    with Engine() as engine:
        query = engine.register(JOIN)
        engine.apply([("+", "<u:b>", "<u:q>", 5)])
        for value in [*range(200), "<u:c>", '"x"', 4]:
            engine.apply([("+", "<u:a>", "<u:p>", value)])
            is_there = value in (3, 4)
            assert read_pairs(query) == ({("<u:a>", "<u:b>")} if is_there else set())
            engine.apply([("-", "<u:a>", "<u:p>", value)])
        check_engine(engine)


def test_recovery(tmp_path):
    with Engine.open(tmp_path / "state") as engine:
        engine.register(JOIN, name="pairs")
        engine.apply([("+", f"<u:{n}>", "<u:p>", n) for n in range(50)])
        engine.apply([("+", f"<u:{n}>", "<u:q>", n) for n in range(50)])
        expected = read_pairs(engine.queries["pairs"])
        assert len(expected) == 97
    with Engine.open(tmp_path / "state") as engine:
        assert read_pairs(engine.queries["pairs"]) == expected
        engine.apply([("-", "<u:7>", "<u:p>", 7)])
        gone = {pair for pair in expected if pair[0] == "<u:7>"}
        assert read_pairs(engine.queries["pairs"]) == expected - gone
        check_engine(engine)


def test_an_epoch_that_finds_no_room_changes_nothing():
    with Engine(memory_limit="16MB") as engine:
        query = engine.register(JOIN)
        engine.apply([("+", f"<u:{n}>", "<u:p>", 3 * n) for n in range(100)])
        before = read_pairs(query)
        with pytest.raises(MemoryLimitReached):
            engine.apply([("+", f"<u:{n}>", "<u:q>", n) for n in range(200_000)])
        assert read_pairs(query) == before
        check_engine(engine)
        engine.apply([("+", "<u:y>", "<u:q>", 1)])
        assert read_pairs(query) == {("<u:0>", "<u:y>")}


def test_explain_names_the_comparisons_that_are_indexed():
    text = explain(describe(compile_query(parse(JOIN))))
    assert "range of #" in text
    assert "[?v < ?w]" in text
