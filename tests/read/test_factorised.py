"""Results as runs, by several threads, and only counted: the same answers as row by row."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.types as is_
import pytest
from tests.read.test_expansion import QUERIES, A, B, C, draw_edges

from triegs import Engine
from triegs.errors import BadOption, MultiplicityOverflow
from triegs.jit.jit import COMPILED
from triegs.read.columns import count_answers, read_columns, read_runs
from triegs.read.factorised import find_runs
from triegs.read.spans import split_first
from triegs.testing import oracle

OTHERS = [
    f"SELECT * {{ ?x {A} ?y . ?y {B} ?z FILTER(?x != ?z) }}",
    f"SELECT * {{ ?x {A} ?y }} ORDER BY ?y LIMIT 5",
    f"SELECT ?x ?nothing {{ ?x {A} ?y }}",
    f"SELECT ?x (COUNT(*) AS ?n) {{ ?x {A} ?y }} GROUP BY ?x",
    f"ASK {{ ?x {A} ?y }}",
    f"SELECT ?x {{ ?x {A} ?y }} LIMIT 3 OFFSET 1",
]
TERMS = ["ntriples", "python", "plain", "ids"]


def fill(engine, text: str, count: int = 60, nodes: int = 5):
    query = engine.register(text)
    engine.apply([("+", *edge) for edge in draw_edges(Random(text), count, nodes)])
    return query


@pytest.mark.parametrize("text", QUERIES + OTHERS)
@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_every_way_to_read_has_the_same_rows_in_the_same_order(text, mode):
    with Engine(mode) as engine, fill(engine, text).snapshot() as snapshot:
        assert snapshot.support() == snapshot.to_arrow().num_rows
        counts = snapshot.to_arrow().columns[-1].to_pylist()
        assert snapshot.count() == sum(counts) > 0
        for terms in TERMS:
            flat = snapshot.to_arrow(terms)
            runs = snapshot.to_arrow(terms, layout="factorised")
            runs.validate(full=True)
            assert runs.to_pylist() == flat.to_pylist()
            assert snapshot.read(3, terms) == flat
        for rows in (1, 3, 50):
            batches = list(snapshot.batches(rows, layout="factorised"))
            table = pa.Table.from_batches(batches)
            table.validate(full=True)
            assert table.to_pylist() == snapshot.to_arrow().to_pylist()
            assert max(batch.num_rows for batch in batches) <= rows


@pytest.mark.parametrize("text", QUERIES)
def test_runs_equal_the_oracle_while_the_graph_changes(text):
    random = Random(text)
    edges = draw_edges(random, 30, 5)
    counts: Counter[oracle.Triple] = Counter()
    with Engine() as engine:
        query = engine.register(text)
        for batch in (
            [("+", *edge) for edge in edges],
            [("-", *edge) for edge in random.sample(edges, 9)],
            [("+", *edge) for edge in draw_edges(random, 9, 6)],
        ):
            engine.apply(batch)
            oracle.apply_batch(counts, batch)
            with query.snapshot() as snapshot:
                table = snapshot.to_arrow(layout="factorised")
                rows = [(tuple(row.values())) for row in table.to_pylist()]
                found = {row[:-1]: row[-1] for row in rows}
                assert found == oracle.answers(text, counts, "multigraph")
                assert len(rows) == len(found) == snapshot.support()


def test_values_are_not_repeated():
    """A star with legs of 30 and 40: 1,200 answers, 1 and 30 runs, and one column of all rows."""
    with Engine() as engine:
        query = engine.register(f"SELECT * {{ ?c {A} ?x . ?c {B} ?y }}")
        engine.apply([("+", 0, A, x) for x in range(30)] + [("+", 0, B, y) for y in range(40)])
        with query.snapshot() as snapshot:
            table = snapshot.to_arrow("python", layout="factorised").combine_chunks()
    sizes = {}
    for name in table.column_names:
        (chunk,) = table.column(name).chunks
        sizes[name] = len(chunk.values) if is_.is_run_end_encoded(chunk.type) else len(chunk)
    assert sorted(sizes[name] for name in "cxy") in ([1, 30, 1200], [1, 40, 1200])
    assert sizes["multiplicity"] == 1


@pytest.mark.skipif(not COMPILED, reason="too many answers for plain Python")
def test_large_products_of_several_batches():
    with Engine() as engine:
        query = engine.register(f"SELECT * {{ ?x {A} ?y . ?y {B} ?z . ?z {C} ?w . ?u {C} ?v }}")
        random = np.random.default_rng(4)
        for label, count in ((A, 900), (B, 900), (C, 60)):
            pairs = random.integers(0, 40, (count, 2)).tolist()
            engine.apply([("+", x, label, y) for x, y in pairs])
        with query.snapshot() as snapshot:
            flat = snapshot.to_arrow("python")
            assert flat.num_rows > 3 * 65_536
            runs = snapshot.to_arrow("python", layout="factorised")
            runs.validate(full=True)
            decoded = [pa.compute.run_end_decode(c) if is_.is_run_end_encoded(c.type) else c
                       for chunk in [runs.combine_chunks()] for c in chunk.columns]  # fmt: skip
            for ours, theirs in zip(decoded, flat.columns, strict=True):
                assert pa.chunked_array(ours).equals(pa.chunked_array(theirs.chunks))
            assert snapshot.read(2, "python").equals(flat)
            assert (snapshot.support(), snapshot.count()) == (
                flat.num_rows, sum(flat["multiplicity"].to_pylist()),
            )  # fmt: skip


def test_spans_are_disjoint_and_complete():
    with Engine() as engine:
        query = engine.register(f"SELECT * {{ ?x {A} ?y }}")
        engine.apply([("+", x * x, A, 0) for x in range(60)])
        with query.snapshot() as snapshot:
            enumeration, version = snapshot._reader.enumeration, snapshot._version
            whole = [ids.tolist() for ids, _ in read_columns(enumeration, version, lambda: 9)]
            for least in (1, 2, 5, 100):
                spans = split_first(enumeration, version, least)
                assert all(first < end for first, end in spans)
                assert all(a[1] <= b[0] for a, b in pairwise(spans))
                found = [
                    row
                    for span in spans
                    for ids, _ in read_columns(enumeration, version, lambda: 9, None, span)
                    for row in ids.T.tolist()
                ]
                assert found == [row for ids in whole for row in np.transpose(ids).tolist()]
            for first, end in ((3, 4), (5, 70), (0, 1), (61, 62), (1 << 30, 1 << 31)):
                (column,) = snapshot._reader.picks[:1]
                wanted = [i for ids in whole for i in ids[column] if first <= i < end]
                read = read_columns(enumeration, version, lambda: 9, None, (first, end))
                assert [i for ids, _ in read for i in ids[column].tolist()] == wanted


def test_counting_knows_when_multiplicities_differ():
    with Engine() as engine:
        query = engine.register(f"SELECT * {{ ?x {A} ?y . ?u {B} ?v }}")
        engine.apply([("+", 1, A, 2), ("+", 3, A, 4), ("+", 5, B, 6)])
        with query.snapshot() as alike:
            assert count_answers(alike._reader.enumeration, alike._version) == (2, 2)
        engine.apply([("+", 1, A, 2)])
        with query.snapshot() as different:
            assert count_answers(different._reader.enumeration, different._version) == (2, None)
            assert (different.support(), different.count()) == (2, 3)


def test_multiplicities_that_do_not_fit_are_refused():
    with Engine() as engine:
        path = " . ".join(f"?v{i} {A} ?v{i + 1}" for i in range(10))
        query = engine.register(f"SELECT * {{ {path} }}")
        engine.apply([("+", 1, A, 1)] * 100)
        with query.snapshot() as snapshot:
            assert snapshot.support() == 1
            for read in (
                lambda: snapshot.to_arrow(layout="factorised"),
                lambda: snapshot.read(2),
                snapshot.count,
            ):
                with pytest.raises(MultiplicityOverflow):
                    read()


def test_bad_options():
    with Engine() as engine, fill(engine, QUERIES[0]).snapshot() as snapshot:
        with pytest.raises(BadOption, match="layout must be 'flat' or 'factorised'"):
            snapshot.to_arrow(layout="folded")
        with pytest.raises(BadOption, match="workers must be an integer of at least 1"):
            snapshot.read(0)
        with pytest.raises(BadOption, match="workers must be an integer of at least 1"):
            snapshot[:2].read(0)
        assert snapshot[1:3].read(2) == snapshot[1:3].to_arrow()
        runs = snapshot[1:3].to_arrow(layout="factorised")
        assert runs.to_pylist() == snapshot[1:3].to_arrow().to_pylist()


def test_no_answers_have_the_same_columns():
    with Engine() as engine, engine.register(QUERIES[0]).snapshot() as snapshot:
        assert list(snapshot.batches(layout="factorised")) == []
        table = snapshot.to_arrow(layout="factorised")
        assert (table.num_rows, table.column_names) == (0, ["x", "y", "z", "w", "multiplicity"])
        assert snapshot.read(2) == snapshot.to_arrow()


@pytest.mark.parametrize("values", [[], [1], [1, 1], [1, 2, 2, 1], [3] * 5 + [4]])
def test_runs_of_a_column(values):
    found = find_runs(np.array(values, np.int64))
    assert found.ends is not None
    assert np.repeat(found.ids, np.diff(found.ends, prepend=0)).tolist() == values


def test_duckdb_reads_runs():
    duckdb = pytest.importorskip("duckdb")
    with Engine() as engine, fill(engine, QUERIES[0]).snapshot() as snapshot:
        runs = snapshot.to_arrow(layout="factorised")
        found = duckdb.sql("SELECT * FROM runs").fetchall()
        assert found == [tuple(row.values()) for row in snapshot.to_arrow().to_pylist()]
        assert runs.num_rows == len(found)


def test_runs_need_a_level():
    """A result without columns is one row, or none."""
    with Engine() as engine, engine.register(f"ASK {{ ?x {A} ?y }}").snapshot() as snapshot:
        assert not snapshot._reader.is_factorised
        assert list(read_runs(snapshot._reader.enumeration, snapshot._version, lambda: 9)) == []
