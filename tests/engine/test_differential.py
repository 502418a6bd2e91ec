"""Random queries and streams through the engine, against the oracle after every epoch."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triegs.engine import Engine
from triegs.testing import oracle
from triegs.testing.strategies import patterns, streams


def result(query):
    with query.snapshot() as snapshot:
        rows = {tuple(answer): answer.multiplicity for answer in snapshot}
        assert snapshot.support() == len(rows)
        assert snapshot.count() == sum(rows.values())
        return rows


def register_all(engine, texts):
    return [(engine.register(text), oracle.read_query(text)) for text in texts]


queries = st.lists(patterns(max_atoms=4).map(lambda p: p.text), max_size=3)


@given(
    queries, queries, streams(max_epochs=5, max_updates=6),
    st.sampled_from(["multigraph", "rdf"]),
)  # fmt: skip
def test_every_epoch_equals_the_oracle(early, late, epochs, mode):
    engine = Engine(mode)
    standing = register_all(engine, early)
    counts: Counter[oracle.Triple] = Counter()
    held = []
    for number, epoch in enumerate(epochs):
        report = engine.apply(epoch)
        assert [place for place, _ in report.refused] == oracle.apply_batch(counts, epoch)
        if number == 1:
            standing += register_all(engine, late)
        for query, question in standing:
            expected = oracle.answers(question, counts, mode)
            assert result(query) == expected
            held.append((query.snapshot(), expected))
    for query, _ in standing:
        query.close()
    # What was held shows what it showed, though its query is gone.
    for snapshot, expected in held:
        assert {tuple(answer): answer.multiplicity for answer in snapshot} == expected
        snapshot.close()
    assert engine.metrics()["retained_bytes"] == 0
    assert list(engine.queries) == []


@given(patterns(max_atoms=4), streams(max_epochs=4, deletes=False), st.randoms())
def test_splitting_and_permuting_a_batch_changes_nothing(pattern, epochs, random):
    whole, split = Engine(), Engine()
    first, second = whole.register(pattern.text), split.register(pattern.text)
    for epoch in epochs:
        whole.apply(epoch)
        pieces = list(epoch)
        random.shuffle(pieces)
        cut = random.randint(0, len(pieces))
        split.apply(pieces[:cut])
        split.apply(pieces[cut:])
        assert result(first) == result(second)


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@given(patterns(max_atoms=3), streams(max_epochs=3, deletes=False))
def test_what_comes_and_goes_leaves_nothing(mode, pattern, epochs):
    engine = Engine(mode)
    query = engine.register(pattern.text)
    empty = result(query)
    for epoch in epochs:
        engine.apply(epoch)
        assert engine.apply([("-", *update[1:]) for update in epoch]).refused == ()
        assert result(query) == empty
    query.close()  # which frees what small epochs left for later
    terms = engine.metrics()["terms"]
    assert (terms["live"], terms["limbo"]) == (0, 0)
