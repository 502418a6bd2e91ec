"""Counts, positions, samples and splits of snapshots, kept and scanned."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.maintain.graph import MODES, Graph, random_batch, random_tree
from tests.property.random_queries import query_text
from tests.read.places import check_places

from triegs.engine import Engine
from triegs.errors import MultiplicityOverflow, SnapshotExpired
from triegs.options import KeepName
from triegs.store.packed import PackedStore
from triegs.store.plain import PlainStore

PATH = "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?d }"
STAR = "SELECT * { ?x <p0> ?a . ?x <p1> ?b . ?x <p2> ?c }"
KEEPS: tuple[list[KeepName], ...] = (["count"], ["slice"], ["count", "slice"], [])
# Every shape that the positions of the compiled core know, and those that are scanned.
TEXTS = {
    "path": PATH,
    "star": STAR,
    "path, shown in part": "SELECT ?a ?b { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?d }",
    "fork": "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?b <p2> ?d . ?a <p1> ?e }",
    "two components": "SELECT * { ?a <p0> ?b . ?c <p1> ?d . ?d <p2> ?e }",
    "one hidden component": "SELECT ?a ?b { ?a <p0> ?b . ?c <p1> ?d }",
    "constants": "SELECT * { ?a <p0> ?b . ?b <p1> <n1> . ?a <p2> ?a }",
    "values": "SELECT * { ?a <p0> ?b . ?b <p1> ?c VALUES ?b { <n1> <n2> <n2> <n3> } }",
    "one variable": "SELECT ?a { ?a <p0> ?b . ?a <p1> ?c }",
    "distinct": "SELECT DISTINCT ?a ?b { ?a <p0> ?b . ?b <p1> ?c }",
    "unbound": "SELECT ?a ?none ?b { ?a <p0> ?b . ?b <p1> ?c }",
    "twice": "SELECT * { ?a <p0> ?b . ?a <p0> ?b . ?b <p0> ?c }",
    "no variable": "ASK { ?a <p0> ?b . ?b <p1> ?c }",
    "filter": "SELECT * { ?a <p0> ?b . ?b <p1> ?c FILTER(?a != ?c) }",
    "limit": "SELECT * { ?a <p0> ?b . ?b <p1> ?c } OFFSET 3 LIMIT 7",
    "stuck": "SELECT ?a ?c { ?a <p0> ?b . ?b <p1> ?c }",
    "predicate": "SELECT * { ?a ?p ?b . ?b <p1> ?c }",
}  # fmt: skip


def draw_batch(random, live, nodes, size):
    """Updates of a graph with hubs: a few subjects and objects have many neighbours."""
    batch = []
    for _ in range(size):
        if live and random.random() < 0.45:
            batch.append(("-", *live.pop(random.randrange(len(live)))))
        else:
            ends = [random.choice([0, 1, random.randrange(nodes)]) for _ in range(2)]
            triple = f"<n{ends[0]}>", f"<p{random.randrange(3)}>", f"<n{ends[1]}>"
            live.append(triple)
            batch.append(("+", *triple))
    return batch


def draw_inserts(random, nodes, size):
    """Inserts alone, evenly spread, some of them twice."""
    return [
        ("+", f"<n{random.randrange(nodes)}>", f"<p{random.randrange(3)}>",
         f"<n{random.randrange(nodes)}>")
        for _ in range(size)
    ]  # fmt: skip


def check_structure(engine):
    engine._store.check()
    engine._core.parts.check()


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("name", TEXTS)
def test_positions_are_those_of_the_enumeration(name, mode):
    random = Random(f"{name} {mode}")
    with Engine(mode) as engine:
        live: list = []
        engine.apply(draw_batch(random, live, 12, 30))
        queries = [engine.register(TEXTS[name], keep=keep) for keep in KEEPS]
        for _ in range(6):
            engine.apply(draw_batch(random, live, 12, 12))
            for query in queries:
                with query.snapshot() as snapshot:
                    check_places(snapshot, random)
            check_structure(engine)
        for query in queries:
            query.close()
        engine._store.check()


@pytest.mark.parametrize("name", ["path", "fork", "stuck"])
def test_positions_of_the_plain_store_are_scanned(name):
    random = Random(1)
    with Engine(store=PlainStore()) as engine:
        query = engine.register(TEXTS[name], keep=["count", "slice"])
        engine.apply(draw_batch(random, [], 6, 20))
        with query.snapshot() as snapshot:
            check_places(snapshot, random)


@pytest.mark.property
@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(MODES))
def test_random_trees(random, mode):
    """Queries of the compiled core by any plan, epochs one by one, numbers checked each time."""
    with Engine(mode.value, store=PackedStore(reserve=False)) as engine:
        queries: list = []
        for _ in range(8):
            engine.apply(random_batch(random, nodes=4, most=6))
            if len(queries) < 3:
                keep = random.choice(KEEPS)
                queries.append(engine.register(query_text(random_tree(random)), keep=keep))
            elif random.random() < 0.2:
                queries.pop(random.randrange(3)).close()
            check_structure(engine)
            for query in queries:
                with query.snapshot() as snapshot:
                    if snapshot.support() < 500:
                        check_places(snapshot, random)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("root", ["a", "b", "c", "d"])
def test_large_hubs_keep_their_numbers(root, mode):
    """Sets of some thousands, in batches that split and merge hubs on all levels."""
    random = Random(root)
    graph = Graph("compiled", mode)
    one = graph.ask(PATH, root=root, keep=["count", "slice"])
    ends = {"<p0>": (900, 3), "<p1>": (3, 900), "<p2>": (900, 40)}
    live: list = []
    for size in [3000, 300, 300, 300, 300]:
        batch = [("-", *live.pop(random.randrange(len(live)))) for _ in range(len(live) // 2)]
        for _ in range(size):
            label = random.choice(list(ends))
            subjects, objects = ends[label]
            ids = random.randrange(subjects), random.randrange(objects)
            # The middle layers are few one way and many the other.
            names = [f"<{'abcd'[int(label[2]) + at]}{number}>" for at, number in enumerate(ids)]
            live.append((names[0], label, names[1]))
            batch.append(("+", *live[-1]))
        graph.core.apply(graph.rows(sorted(batch, key=lambda update: update[0])))
        graph.core.store.check()
        graph.core.parts.check()
    assert one.handle.walk.numbers is not None


def test_old_snapshots_keep_their_positions():
    random = Random(3)
    with Engine() as engine:
        query = engine.register(PATH, keep=["count", "slice"])
        held = []
        live: list = []
        for _ in range(10):
            engine.apply(draw_batch(random, live, 10, 15))
            snapshot = query.snapshot()
            held.append((snapshot, list(snapshot), snapshot.count()))
        other = engine.register("SELECT * { ?a <p0> ?b }")  # shares an index with numbers
        query.close()
        for snapshot, answers, count in held:
            check_places(snapshot, random)
            assert (list(snapshot[:]), snapshot.count()) == (answers, count)
            snapshot.close()
        engine.apply(draw_batch(random, live, 10, 15))
        with other.snapshot() as snapshot:
            check_places(snapshot, random)
        check_structure(engine)


def test_an_index_that_others_use_gets_numbers_late_and_keeps_them():
    """A plain query first; one with numbers comes and goes; hubs are of both kinds meanwhile."""
    random = Random(4)
    text = "SELECT * { ?a <p0> ?b . ?a <p1> ?c }"
    with Engine() as engine:
        live: list = []
        plain = engine.register(text)
        for _ in range(3):
            engine.apply(draw_batch(random, live, 100, 400))
            old = plain.snapshot()
            answers = list(old.answers("ids"))
            query = engine.register(text, keep=["count", "slice"])
            engine.apply(draw_batch(random, live, 100, 100))
            check_structure(engine)
            with plain.snapshot() as one, query.snapshot() as two:
                assert one.support() == two.support()
                assert one.count() == two.count()
                assert Counter(one.answers("ids")) == Counter(two[:].answers("ids"))
            query.close()
            assert list(old.answers("ids")) == answers
            old.close()
            engine._store.check()


# Samples


def chi_square(counts, weights):
    drawn, total = sum(counts.values()), sum(weights.values())
    expected = {key: drawn * weight / total for key, weight in weights.items()}
    return sum(((counts[key] - want) ** 2 / want for key, want in expected.items()), 0.0)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("keep", [["count", "slice"], []])
@pytest.mark.parametrize("text", [PATH, STAR, TEXTS["path, shown in part"]])
def test_samples_are_fair(text, keep, is_weighted):
    """By a chi-square test: beyond six standard deviations is no chance."""
    random = Random(7)
    with Engine() as engine:
        query = engine.register(text, keep=keep)
        engine.apply(draw_inserts(random, 4, 40))
        with query.snapshot() as snapshot:
            weights = {tuple(a): a.multiplicity if is_weighted else 1 for a in snapshot}
            assert len(weights) > 5
            sample = snapshot.sample(100 * len(weights), weighted=is_weighted, seed=1)
            counts = Counter(tuple(answer) for answer in sample)
            freedom = len(weights) - 1
            assert counts.keys() <= weights.keys()
            assert abs(chi_square(counts, weights) - freedom) < 6 * (2 * freedom) ** 0.5


def test_a_seed_repeats_a_sample_kept_or_scanned():
    with Engine() as engine:
        kept, scanned = engine.register(PATH, keep=["count"]), engine.register(PATH)
        engine.apply(draw_inserts(Random(8), 4, 40))
        with kept.snapshot() as one, scanned.snapshot() as two:
            assert len(one) == len(two) > 10
            for is_weighted in (False, True):
                first = one.sample(50, weighted=is_weighted, seed=5)
                assert list(first) == list(one.sample(50, weighted=is_weighted, seed=5))
                assert list(first) == list(first[:]) == [first[n] for n in range(50)]
                second = two.sample(50, weighted=is_weighted, seed=5)
                assert list(first._places) == list(second._places)
        with pytest.raises(ValueError, match="-1"):
            kept.snapshot().sample(-1)


# Selections


def test_selections_of_selections_and_their_reading():
    with Engine() as engine:
        query = engine.register("SELECT ?x { ?x <p0> ?y }", keep=["slice"])
        engine.apply([("+", n, "<p0>", 1) for n in range(100) for _ in range(n % 3 + 1)])
        with query.snapshot() as snapshot:
            numbers = [answer.x for answer in snapshot.answers("python")]
            some = snapshot[10:90:2]
            assert [a.x for a in some[5:30:3].answers("python")] == numbers[10:90:2][5:30:3]
            assert [a.x for a in some[::-1].answers("python")] == numbers[10:90:2][::-1]
            assert some[-1].x == snapshot[88].x
            assert some.count() == sum(answer.multiplicity for answer in some)
            assert some.to_arrow("python")["x"].to_pylist() == numbers[10:90:2]
            assert len(some.sample(7, seed=1)) == len(some.sample(7, weighted=True, seed=1)) == 7
            rows = [a for a in some for _ in range(a.multiplicity)]
            drawn = some.sample(30, weighted=True, seed=2)
            assert set(drawn) <= set(rows)
            pieces = some.split(3)
            assert [a for piece in pieces for a in piece] == list(some)
        for read in (lambda: some[0], lambda: list(some), some.count, lambda: len(some)):
            with pytest.raises(SnapshotExpired):
                read()


def test_threads_read_the_parts_of_one_snapshot():
    with Engine() as engine:
        query = engine.register(PATH, keep=["slice"])
        engine.apply(draw_inserts(Random(9), 9, 150))
        with query.snapshot() as snapshot, ThreadPoolExecutor(3) as pool:
            parts = pool.map(lambda part: list(part.answers("ids")), snapshot.split(3))
            assert [answer for part in parts for answer in part] == list(snapshot.answers("ids"))


def test_wrong_splits():
    with Engine() as engine, engine.register("SELECT ?x { ?x <p0> ?y }").snapshot() as snapshot:
        with pytest.raises(ValueError, match="0 parts"):
            snapshot.split(0)
        assert [len(part) for part in snapshot.split(2)] == [0, 0]
        assert list(snapshot.sample(3)) == []


# Overflow


def read_numbers(graph, one, names=("support", "count")):
    """Support and count as a snapshot reads them; the error's name where it is marked."""
    from triegs.read.positions import Positions
    from triegs.read.rows import RowReader

    version, walk = graph.core.show(one.handle)
    try:
        found = []
        for name in names:
            positions = Positions(RowReader(one.plan, walk, graph.decode), version)
            try:
                found.append(getattr(positions, name))
            except MultiplicityOverflow:
                found.append("overflow")
        return found
    finally:
        graph.core.store.unpin(version)


def test_rows_that_do_not_fit_are_marked_and_answers_go_on():
    """Of two answers each fits; their sum does not. It comes back when it does."""
    graph = Graph()
    one = graph.ask("SELECT * { ?a <p0> ?b . ?b <p1> ?c }", keep=["count", "slice"])
    graph.change(("<n0>", "<p0>", "<n1>"), 2**31)
    graph.change(("<n1>", "<p1>", "<n2>"), 2**31)
    assert read_numbers(graph, one) == [1, 2**62]
    graph.change(("<n3>", "<p0>", "<n1>"), 2**31)
    assert read_numbers(graph, one) == [2, "overflow"]
    assert one.handle.error is None
    assert one.show() == one.expected()
    graph.change(("<n4>", "<p0>", "<n1>"), 1)
    assert one.show() == one.expected()
    assert read_numbers(graph, one)[0] == 3
    graph.change(("<n3>", "<p0>", "<n1>"), 5 - 2**31)
    for _ in range(10):  # it is tried again when as much was touched as there is
        graph.change(("<n5>", "<p0>", "<n1>"), 1)
    assert read_numbers(graph, one) == [4, 2**62 + (5 + 1 + 10) * 2**31]
    graph.check()


def make_wide(atoms):
    return "SELECT * { " + " . ".join(f"?x <p{n}> ?y{n}" for n in range(atoms)) + " }"


def test_positions_that_do_not_fit_are_marked():
    """A star of 32 ** 13 answers: enumeration begins at once, positions do not fit."""
    graph = Graph()
    batch = [("+", "<n0>", f"<p{p}>", f"<m{n}>") for p in range(13) for n in range(32)]
    one = graph.ask(make_wide(13), keep=["slice"])
    graph.core.apply(graph.rows(batch))
    assert read_numbers(graph, one, ["support"]) == ["overflow"]
    graph.core.parts.check()
    late = graph.ask(make_wide(13), keep=["slice"])
    assert read_numbers(graph, late, ["support"]) == ["overflow"]
    gone = [("-", *triple) for sign, *triple in batch if triple[2] != "<m0>"]
    graph.core.apply(graph.rows(gone))
    for _ in range(3):
        graph.core.apply(graph.rows([("+", "<n1>", "<p0>", "<m1>")] * 400))
    assert read_numbers(graph, one) == read_numbers(graph, late) == [1, 1]
    graph.core.parts.check()
    graph.core.store.check()


def test_positions_of_components_that_do_not_fit_together():
    """Each component has its own numbers; only together they are too many."""
    labels = range(16)
    text = "SELECT * { " + " . ".join(f"?x{n} <p{n}> ?y{n}" for n in labels) + " }"
    with Engine() as engine:
        query = engine.register(text, keep=["count", "slice"])
        engine.apply([("+", n, f"<p{p}>", n) for p in labels for n in range(20)])
        with query.snapshot() as snapshot:
            assert snapshot.support() == snapshot.count() == 20**16
            for read in (lambda: len(snapshot), lambda: snapshot[0], lambda: snapshot.sample(1)):
                with pytest.raises(MultiplicityOverflow, match="do not fit 64 bits"):
                    read()
            assert next(iter(snapshot)).multiplicity == 1
