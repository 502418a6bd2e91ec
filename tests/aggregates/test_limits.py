"""Limits that aggregates share with answers: columns of a relation, and memory."""

from __future__ import annotations

from unittest import mock

import pytest

from triegs.engine import Engine
from triegs.errors import MemoryLimitReached, UnsupportedQuery
from triegs.store.packed import SMALLEST_LIMIT

MANY = range(18)
BODY = " . ".join(f"?x <u:p{i}> ?v{i}" for i in MANY)
KEYS = " ".join(f"?v{i}" for i in MANY)
TOTAL = " + ".join(f"?v{i}" for i in MANY)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {KEYS} (COUNT(*) AS ?n) {{ {BODY} }} GROUP BY {KEYS}",
        f"SELECT ?x (MIN({TOTAL}) AS ?n) {{ {BODY} }} GROUP BY ?x",
    ],
)
def test_too_many_columns_are_refused_by_name(text):
    with Engine() as engine, pytest.raises(UnsupportedQuery, match="at most 16 are supported"):
        engine.register(text)


def fill(engine: Engine) -> int:
    """Insert numbers one by one; returns the first that finds no room."""
    for number in range(1, 100_000):
        try:
            engine.apply([("+", number, "<u:p>", number)])
        except MemoryLimitReached:
            return number
    raise AssertionError("the limit was never reached")


def test_single_updates_of_a_sum_at_the_memory_limit():
    """New terms need room for their digits; a refused update changes nothing."""
    with Engine(memory_limit=SMALLEST_LIMIT + 200_000) as engine:
        query = engine.register("SELECT (SUM(?v) AS ?s) (COUNT(*) AS ?n) { ?x <u:p> ?v }")
        number = fill(engine)
        for each in range(1, number // 2):
            engine.apply([("-", each, "<u:p>", each)])
        engine.apply([("+", number, "<u:p>", number)])
        left = [*range(number // 2, number), number]
        with query.snapshot() as snapshot:
            (row,) = snapshot.answers("python")
            assert (row.s, row.n) == (sum(left), len(left))
        engine._store.check()
        engine._core.views.check()


def test_digits_that_find_no_room_at_first():
    """A single update then takes the way of larger epochs, which makes room and tries again."""
    with Engine() as engine:
        query = engine.register("SELECT (SUM(?v) AS ?s) { ?x <u:p> ?v }")
        engine.apply([("+", 1, "<u:p>", 5)])
        views = engine._core.views
        with mock.patch.object(views, "add_digits", fail_once(views.add_digits)):
            engine.apply([("+", 2, "<u:p>", 7)])
        with query.snapshot() as snapshot:
            assert [row.s for row in snapshot.answers("python")] == [12]
        engine._store.check()


def fail_once(work):
    """A function that fails the first time."""
    problems = [MemoryLimitReached("full")]

    def run(*arguments):
        if problems:
            raise problems.pop()
        return work(*arguments)

    return run
