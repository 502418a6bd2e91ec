"""The cost of an epoch is reported for each query."""

from __future__ import annotations

import pytest

from triegs import Engine

EX = "<http://ex/{}>".format
P, Q, R = EX("p"), EX("q"), EX("r")
STAR = f"SELECT * {{ ?x {P} ?y . ?x {Q} ?z }}"
#: A filter is not for the kernels.
GENERAL = f"SELECT * {{ ?x {P} ?y . ?x {Q} ?z FILTER(?y > 3) }}"


def draw(label: str, size: int) -> list[tuple[str, int, str, int]]:
    return [("+", n, label, n + 1) for n in range(size)]


@pytest.mark.parametrize("text", [STAR, GENERAL])
def test_an_epoch_that_does_not_reach_a_query_costs_it_nothing(text):
    with Engine() as engine:
        query = engine.register(text)
        other = engine.register(f"SELECT * {{ ?x {R} ?y . ?y {R} ?z }}")
        engine.apply([*draw(P, 200), *draw(Q, 200)])
        assert query._measure() > 0
        assert other._measure() == 0
        before = query._measure()
        engine.apply(draw(R, 200))
        assert query._measure() < before / 10
        assert other._measure() > 0


def test_what_kernels_touch_is_counted():
    """Each event in its label, and each of its keys that is new in the steps above."""
    with Engine() as engine:
        query = engine.register(STAR)
        found = []
        for size in (1, 100, 200):
            engine.apply([*draw(P, size), *draw(Q, size)])
            found.append(query._measure() / size)
        assert found == pytest.approx([found[0]] * 3, rel=0.1)
        engine.apply([("-", 0, P, 1)])
        assert 0 < query._measure() < found[0]


def test_a_query_that_shares_what_another_has_costs_as_much():
    with Engine() as engine:
        queries = [engine.register(STAR, name=name) for name in "ab"]
        engine.apply([*draw(P, 50), *draw(Q, 50)])
        one, two = (query._measure() for query in queries)
    assert one == two > 0
