"""Joins by comparison equal the oracle on every type that SPARQL orders."""

from __future__ import annotations

import os

import pytest
from tests.aggregates.drawing import KINDS
from tests.aggregates.lives import Life, check_engine
from tests.engine.comparisons import draw_query

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


@pytest.mark.parametrize("seed", range(3_000 if SOAK else 60))
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
