"""Answers and changes by expansion: products of every shape, chunks that are too large, weights."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from triegs import Engine
from triegs.jit.jit import COMPILED
from triegs.read.kernels.expansion import CAPACITY
from triegs.read.levels import find_end, find_parents, list_ancestors
from triegs.testing import oracle

A, B, C, D = (f"<http://ex/{name}>" for name in "abcd")
IRI = "<http://ex/n{}>".format
QUERIES = [
    f"SELECT * {{ ?x {A} ?y . ?y {B} ?z . ?z {C} ?w }}",
    f"SELECT * {{ ?c {A} ?x . ?c {B} ?y . ?c {C} ?z . ?c {D} ?u }}",
    f"SELECT * {{ ?c {A} ?m . ?m {B} ?e . ?m {C} ?f . ?c {B} ?n . ?n {D} ?g . ?n {A} ?h }}",
    f"SELECT * {{ ?x {A} ?y . ?u {C} ?v }}",
    f"SELECT ?x ?y {{ ?x {A} ?y . ?y {B} ?z . ?x {C} ?w }}",
    f"SELECT ?x ?y ?u {{ ?x {A} ?y . ?y {B} ?z . ?u {C} ?w . ?a {D} ?b }}",
    f"SELECT * {{ ?x {A} ?y . ?y {B} ?z . ?z {C} ?x . ?z {D} ?w }}",
    f"SELECT * {{ ?x ?p ?y . ?y {B} ?z }}",
    f"SELECT DISTINCT ?y ?z {{ ?x {A} ?y . ?y {B} ?z . ?y {C} ?w }}",
]


def draw_edges(random: Random, count: int, nodes: int) -> list[tuple[str, str, str]]:
    """Some twice, so that multiplicities differ."""
    edges = [
        (IRI(random.randrange(nodes)), random.choice([A, B, C, D]), IRI(random.randrange(nodes)))
        for _ in range(count)
    ]
    return edges + random.sample(edges, count // 4)


def read_rows(result, rows: int) -> list[tuple]:
    found: list[tuple] = []
    for batch in result.batches(rows):
        assert batch.num_rows <= rows
        *columns, counts = (column.to_pylist() for column in batch.columns)
        terms = zip(*columns, strict=True) if columns else [()] * len(counts)
        found += zip(terms, counts, strict=True)
    return found


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_batches_of_every_size_have_the_answers_of_the_oracle(text, mode):
    random = Random(text)
    edges = draw_edges(random, 30, 5)
    counts: Counter[oracle.Triple] = Counter()
    with Engine(mode) as engine:
        query = engine.register(text)
        before = query.snapshot()
        for _ in range(3):
            batch = [("+", *edge) for edge in edges] if not counts else [
                *(("-", *edge) for edge in random.sample(edges, 6)),
                *(("+", *edge) for edge in draw_edges(random, 4, 6)),
            ]  # fmt: skip
            engine.apply(batch)
            oracle.apply_batch(counts, batch)
            expected = oracle.answers(text, counts, mode)
            after = query.snapshot()
            whole = read_rows(after, 65_536)
            assert dict(whole) == expected
            assert len(whole) == len(expected)
            for rows in (1, 7, 50):
                assert read_rows(after, rows) == whole  # also in the same order
            old = dict(read_rows(before, 65_536))
            changes = {row: expected.get(row, 0) - old.get(row, 0) for row in {*expected, *old}}
            changes = {row: change for row, change in changes.items() if change}
            for rows in (3, 65_536):
                found = read_rows(after.diff(before), rows)
                assert dict(found) == changes
                assert len(found) == len(changes)
            before.close()
            before = after
        before.close()


@pytest.mark.skipif(not COMPILED, reason="too many answers for uncompiled code")
@pytest.mark.parametrize("text", [QUERIES[0], QUERIES[1], QUERIES[3], QUERIES[4]])
def test_sets_that_exceed_a_chunk(text):
    """At one node of many, every set is a large hub; the expected answers are joined by rows."""
    size = CAPACITY + 70
    edges = {
        A: [(0, n) for n in range(size)] + [(n, n) for n in range(1, 40)],
        B: [(0, n) for n in range(3)] + [(n, 1) for n in range(1, 60)],
        C: [(0, 1), (0, 2), (1, 2), (1, 2), (1, 5)] + [(5, n) for n in range(20)],
        D: [(0, n) for n in range(2)] + [(7, 7)],
    }
    updates = [("+", s, label, o) for label, pairs in edges.items() for s, o in pairs]
    with Engine() as engine:
        query = engine.register(text)
        empty = query.snapshot()
        engine.apply(updates)
        with query.snapshot() as snapshot:
            names = snapshot.names
            expected = join(text, edges, names)
            for result in (snapshot, snapshot.diff(empty)):
                table = result.to_arrow("python")
                *columns, counts = (column.to_pylist() for column in table.columns)
                found = list(zip(zip(*columns, strict=True), counts, strict=True))
                assert len(found) == len(expected) == len(dict(found))
                assert dict(found) == expected
            order = [batch["multiplicity"].to_numpy() for batch in snapshot.batches(333, "ids")]
            assert np.concatenate(order).sum() == sum(expected.values())
            assert all(len(part) == 333 for part in order[:-1])
        engine.apply([("-", *update[1:]) for update in updates])
        with query.snapshot() as after:
            assert after.diff(empty).to_arrow("ids").num_rows == 0
        empty.close()


def join(text: str, edges: dict[str, list[tuple[int, int]]], names: tuple[str, ...]) -> Counter:
    """The answers of a pattern, one atom after another."""
    words = text[text.index("{") + 1 : text.index("}")].replace(" . ", " ").split()
    rows: list[tuple[dict[str, int], int]] = [({}, 1)]
    for subject, label, obj in zip(words[::3], words[1::3], words[2::3], strict=True):
        index: dict = {}
        for pair, count in Counter(edges[label]).items():
            for known in (pair, (pair[0], None), (None, pair[1]), (None, None)):
                index.setdefault(known, []).append((pair, count))
        rows = [
            ({**row, subject: pair[0], obj: pair[1]}, weight * count)
            for row, weight in rows
            for pair, count in index.get((row.get(subject), row.get(obj)), [])
        ]
    found: Counter = Counter()
    for row, weight in rows:
        found[tuple(row["?" + name] for name in names)] += weight
    return found


@pytest.mark.parametrize("seed", range(200))
def test_a_tree_of_levels_is_depth_first_and_has_what_each_needs_above(seed):
    random = Random(seed)
    needs = [
        random.sample(range(at), random.randint(0, min(at, 3)) if random.random() < 0.9 else 0)
        for at in range(random.randint(1, 9))
    ]
    parents = find_parents(needs)
    for at, wanted in enumerate(needs):
        assert parents[at] < at
        assert set(wanted) <= {*list_ancestors(parents, parents[at])}
        below = [each for each in range(len(needs)) if at in list_ancestors(parents, each)]
        assert below == list(range(at, find_end(parents, at)))


@pytest.mark.parametrize("layout", ["flat", "factorised"])
@pytest.mark.parametrize("is_compact", [False, True])
def test_the_first_batch_may_be_smaller(layout, is_compact):
    engine = Engine()
    query = engine.register("SELECT ?x ?y { ?x <http://ex/p> ?y }")
    engine.apply([("+", x, "<http://ex/p>", y) for x in range(10) for y in range(10)])
    with query.snapshot() as snapshot:
        found = list(snapshot.batches(40, compact=is_compact, layout=layout, first=10))
        assert [batch.num_rows for batch in found] == [10, 40, 40, 10]
        whole = pa.Table.from_batches(snapshot.batches(compact=is_compact, layout=layout))
        assert pa.Table.from_batches(found).to_pylist() == whole.to_pylist()
