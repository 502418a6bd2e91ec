"""Sums of integers: whole digits are counts that edges, products and totals maintain."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates.drawing import typed
from tests.aggregates.lives import check_engine
from tests.stress.standing import read, subtract

from triegs.engine import Engine
from triegs.explain import explain
from triegs.maintain.kernels.digits import ANY, list_fresh
from triegs.read.group_state import DECIMAL
from triegs.read.kernels.groups import QUOTIENT_BYTES, write_quotients
from triegs.sparql.values import DIVISION_PLACES, Number, Rank, divide, number_term
from triegs.testing import oracle

#: The summed variable is in several atoms, alone, a key, of a component without keys, in rows.
QUERIES = [
    "SELECT ?x (SUM(?v) AS ?s) (AVG(?v) AS ?a) { ?x <u:p> ?y . ?y <u:q> ?v } GROUP BY ?x",
    "SELECT ?x (SUM(?v) AS ?s) { ?x <u:p> ?v . ?y <u:q> ?v . ?z <u:r> ?v } GROUP BY ?x",
    "SELECT ?y (SUM(?v) AS ?s) { ?x <u:p> ?v . ?x <u:r> ?y . ?v <u:q> ?z } GROUP BY ?y",
    "SELECT (SUM(?v) AS ?s) { ?x <u:p> ?v . ?y <u:q> ?v }",
    "SELECT ?v (SUM(?v) AS ?s) { ?x <u:p> ?v . ?y <u:r> ?v } GROUP BY ?v",
    "SELECT ?x (SUM(?v) AS ?s) { ?x <u:p> ?y . ?z <u:q> ?v . ?w <u:r> ?v } GROUP BY ?x",
    "SELECT ?x (SUM(DISTINCT ?v) AS ?s) { ?x <u:p> ?y . ?y <u:q> ?v . ?v <u:r> ?z } GROUP BY ?x",
    "SELECT ?x (SUM(?v) AS ?s) { ?x <u:p> ?v . ?y <u:q> ?v VALUES ?v { 1 2 -7 7.5 } } GROUP BY ?x",
    "SELECT ?x (SUM(?r) AS ?s) (AVG(?v) AS ?a) { ?x ?r ?v . ?v <u:q> ?z } GROUP BY ?x",
    "SELECT ?x (SUM(?v) AS ?s) { ?x <u:p> ?y . ?y <u:q> ?z . ?z <u:r> ?x, ?v } GROUP BY ?x",
]  # fmt: skip
SMALL = [typed(n, "integer") for n in (-7, -2, -1, 0, 1, 2, 7)]
MIXED = [*SMALL, typed("7.5", "decimal"), typed("-0.25", "decimal"), typed("0.5", "double"), '"x"']


#: Each is counted or summed in one component, and multiplied by another.
APART = [
    "SELECT (SUM(?v) AS ?s) (COUNT(*) AS ?n) (AVG(?v) AS ?a) { <u:a> <u:p> ?v . ?x <u:q> ?y }",
    "SELECT (SUM(?v) AS ?s) { ?k <u:p> ?v . ?x <u:q> ?y }",
    "SELECT ?k (SUM(?v) AS ?s) (COUNT(?v) AS ?n) { ?k <u:p> ?v . ?x <u:q> ?y } GROUP BY ?k",
    "SELECT ?k (SUM(?v) AS ?s) { ?k <u:p> ?v . ?x <u:q> ?y } GROUP BY ?k HAVING (SUM(?v) > 9)",
    "SELECT ?k (SUM(?v) AS ?s) { ?k <u:p> ?v . ?x <u:q> ?y } GROUP BY ?k ORDER BY DESC(?s)",
]


@pytest.mark.parametrize("text", APART)
def test_a_product_beyond_64_bits_is_exact(text: str) -> None:
    """What is stored fits; so does the average, and a mixed sum is unbound whatever its digits."""
    largest = typed(2**63 - 2, "integer")  # the sum of all still fits
    engine, counts = Engine(), Counter[oracle.Triple]()
    query = engine.register(text)
    for batch in (
        [("+", "<u:a>", "<u:p>", largest), ("+", "<u:b>", "<u:p>", typed(1, "integer"))],
        [("+", f"<u:c{n}>", "<u:q>", typed(n, "integer")) for n in range(3)],
        [("-", "<u:b>", "<u:p>", typed(1, "integer")), ("+", "<u:b>", "<u:p>", '"x"')],
        [("-", f"<u:c{n}>", "<u:q>", typed(n, "integer")) for n in range(3)],
    ):
        with query.snapshot() as before:
            shown = dict(read(before))
            engine.apply(batch)
            oracle.apply_batch(counts, batch)
            with query.snapshot() as after:
                rows = dict(read(after))
                assert rows == oracle.answers(oracle.read_query(text), counts, "multigraph")
                assert after.to_arrow("python").num_rows == len(after) == len(rows)
                found = {tuple(change): change.change for change in after.diff(before)}
        assert found == subtract(rows, shown)


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("seed", range(6))
def test_sums_equal_the_oracle(seed: int, mode: Any) -> None:
    """A value often comes with one atom and much later with another, and ids are reused."""
    random = Random(seed)
    words = SMALL if seed % 2 else MIXED
    engine, counts = Engine(mode), Counter[oracle.Triple]()
    queries = [engine.register(text) for text in QUERIES[::2]]
    for number in range(40):
        if number == 8:  # over existing data
            queries += [engine.register(text) for text in QUERIES[1::2]]
        live = list(counts.elements())
        batch = [
            ("-", *triple) for triple in random.sample(live, min(len(live), random.randrange(6)))
        ]
        for _ in range(random.randrange(1, 5)):
            ends = [random.choice(words) if random.random() < 0.7 else f"<u:{n}>" for n in range(2)]
            ends[1] = (
                typed(random.randrange(100, 130), "integer") if random.random() < 0.2 else ends[1]
            )
            batch.append(("+", ends[0], f"<u:{random.choice('pqr')}>", ends[1]))
        engine.apply(batch)
        oracle.apply_batch(counts, batch)
        for query in queries:
            assert query.error is None
            question = oracle.read_query(query.plan.query.text)
            with query.snapshot() as snapshot:
                assert dict(read(snapshot)) == oracle.answers(question, counts, mode)
    check_engine(engine)


def test_counts_of_groups_as_native_columns() -> None:
    """They are read with the groups, times the counts of other components, which may not fit."""
    apart = [" . ".join([f"?{x} <u:{x}> ?y{x}"] * 38) for x in "qr"]
    engine = Engine()
    query = engine.register(
        f"SELECT ?k (COUNT(*) AS ?n) {{ ?k <u:p> ?v . {' . '.join(apart)} }} GROUP BY ?k"
    )
    engine.apply([("+", 1, f"<u:{x}>", 2) for x in "pqqqr"])
    with query.snapshot() as snapshot:
        assert snapshot.to_arrow("python").to_pylist() == [{"k": 1, "n": 3**38, "multiplicity": 1}]
    engine.apply([("+", 1, "<u:r>", 2)] * 2)
    with query.snapshot() as snapshot:
        assert snapshot.to_arrow("python")["n"].to_pylist() == [Decimal(3**76)]


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_a_sum_needs_no_index_by_value(mode: Any) -> None:
    """The digits of a term never change, so no epoch looks for the edges to it."""
    engine = Engine(mode)
    engine.apply([("+", "<u:a>", "<u:p>", typed(n, "integer")) for n in range(3)])
    query = engine.register("SELECT ?x (SUM(?v) AS ?s) { ?x <u:p> ?v } GROUP BY ?x")
    shown = str(query.explain())
    assert "look up #" in shown
    assert "by object" not in shown
    with query.snapshot() as snapshot:
        assert [row["s"] for row in snapshot] == [typed(3, "integer")]
    check_engine(engine)


@pytest.mark.parametrize("text", QUERIES[:1] + QUERIES[3:4])
def test_a_sum_that_jumps_by_more_than_64_bits(text: str) -> None:
    """Old and new value fit, their difference does not."""
    large = 2**62 + 12_345
    engine, counts = Engine(), Counter[oracle.Triple]()
    query = engine.register(text)
    question = oracle.read_query(text)
    for number in range(8):
        value, last = (
            typed(sign * large, "integer") for sign in ((1, -1) if number % 2 else (-1, 1))
        )
        batch = [("+", "<u:a>", "<u:p>", "<u:b>"), ("+", "<u:b>", "<u:q>", value),
                 ("+", "<u:c>", "<u:p>", value)]  # fmt: skip
        if number:
            batch += [("-", "<u:a>", "<u:p>", "<u:b>"), ("-", "<u:b>", "<u:q>", last),
                      ("-", "<u:c>", "<u:p>", last)]  # fmt: skip
        engine.apply(batch)
        oracle.apply_batch(counts, batch)
        assert query.error is None
        with query.snapshot() as snapshot:
            assert dict(read(snapshot)) == oracle.answers(question, counts, "multigraph")
    check_engine(engine)


def test_integers_need_no_rules() -> None:
    """The rules for other digits exist, and have nothing to do."""
    engine = Engine()
    query = engine.register(QUERIES[0])
    engine.apply([("+", f"<u:{n % 7}>", "<u:p>", f"<u:{n}>") for n in range(50)])
    engine.apply([("+", f"<u:{n}>", "<u:q>", n) for n in range(50)])
    rules = {
        view.name: counters
        for view, counters in engine._core.count_work().items()
        if view.name.startswith("rule")
    }
    assert rules
    assert not any(
        view.relation for view in engine._core.views.by_name.values() if view.name in rules
    )
    assert "edge, sums" in str(explain(query.plan))


# Kernels

AMOUNTS = st.one_of(
    st.integers(-(2**62) + 1, 2**62 - 1), st.integers(-20, 20), st.just(0),
    st.integers(0, 18).map(lambda n: 10**n), st.integers(-(10**9) - 1, 10**9 + 1),
)  # fmt: skip
DIVISORS = st.one_of(st.integers(1, 2**59 - 1), st.integers(1, 12), st.just(2**59 - 1))


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, DIVISORS), min_size=1, max_size=5))
def test_quotients(rows: list[tuple[int, int, int]]) -> None:
    whole, parts, divisors = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    offsets = np.empty(len(rows) + 1, np.int64)
    data = np.empty(len(rows) * (QUOTIENT_BYTES + len(DECIMAL)), np.uint8)
    scratch = np.empty(DIVISION_PLACES, np.int64)
    write_quotients(whole, parts, divisors, DECIMAL, scratch, offsets, data)
    found = [data[start:end].tobytes().decode() for start, end in pairwise(offsets)]
    expected = [divide(n + Fraction(part, 10**9), Fraction(divisor)) for n, part, divisor in rows]
    assert all(isinstance(amount, Decimal) for amount in expected)
    assert found == [number_term(Number(Rank.DECIMAL, amount)) for amount in expected]


UPDATES = st.lists(
    st.tuples(st.sampled_from([1, -1]), st.integers(0, 9), st.integers(0, 2), st.integers(0, 9))
)


@given(
    UPDATES, st.sampled_from([ANY, 0, 1, 2]), st.sampled_from([1, 3]), st.sets(st.integers(0, 9))
)
def test_fresh_terms(
    updates: list[tuple[int, int, int, int]], predicate: int, column: int, known: set[int]
) -> None:
    marks = np.zeros(max(known, default=-1) + 1, np.bool_)
    marks[list(known)] = True
    flat, fresh = np.array(updates, np.int64).reshape(-1), np.full(len(updates) + 1, -1)
    found = list_fresh(flat, predicate, column, marks, fresh, 1)
    if found < 0:
        assert -1 - found >= len(marks)
        assert set(np.flatnonzero(marks)) == known
        marks = np.concatenate([marks, np.zeros(-found - len(marks), np.bool_)])
        found = list_fresh(flat, predicate, column, marks, fresh, 1)
    wanted = {row[column] for row in updates if row[0] > 0 and predicate in (ANY, row[2])}
    assert sorted(fresh[1:found].tolist()) == sorted(wanted - known)
    assert set(np.flatnonzero(marks)) == known | wanted
