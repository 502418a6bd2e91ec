"""Counts, positions, samples and splits of snapshots, kept and scanned."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import prod
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.maintain.graph import MODES, Graph, random_batch, random_tree
from tests.property.random_queries import query_text, random_query, with_filters
from tests.read.places import check_places, check_positions

from triegs.compiler.compile import legal_plans
from triegs.engine import Engine
from triegs.errors import MultiplicityOverflow, SnapshotExpired
from triegs.options import KeepName
from triegs.read.positions import Positions
from triegs.read.rows import RowReader
from triegs.store.packed import PackedStore

PATH = "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?d }"
STAR = "SELECT * { ?x <p0> ?a . ?x <p1> ?b . ?x <p2> ?c }"
KEEPS: tuple[list[KeepName], ...] = (["count"], ["slice"], ["count", "slice"], [])
SCANNED = {"no variable", "filter", "limit"}
# Every shape whose positions are found by counts, and those that are scanned.
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
    "triangle": "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a }",
    "triangle of one label": "SELECT * { ?a <p0> ?b . ?b <p0> ?c . ?c <p0> ?a }",
    "triangle, shown in part": "SELECT ?a ?b { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a }",
    "one corner": "SELECT ?a { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a }",
    "triangle with tails":
        "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a . ?a <p1> ?d . ?d <p2> ?e . ?c <p0> ?f }",
    "triangle with hidden tails":
        "SELECT ?a ?b ?c ?d { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a . ?a <p1> ?d . ?b <p2> ?e }",
    "two triangles":
        "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a . ?a <p1> ?d . ?d <p0> ?e . ?e <p2> ?a }",
    "triangle beside an edge": "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a . ?d <p1> ?e }",
    "parallel": "SELECT * { ?a <p0> ?b . ?a <p1> ?b . ?b <p2> ?c }",
    "parallel of one label": "SELECT * { ?a <p0> ?b . ?b <p0> ?a . ?b <p0> ?c }",
    "stuck with tails": "SELECT ?a ?c ?d ?e { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?d . ?a <p2> ?e }",
    "all triples": "SELECT * { ?a ?p ?b }",
    "two predicates": "SELECT ?a ?p ?c { ?a ?p ?b . ?b ?q ?c }",
    "rows of two":
        "SELECT * { ?a <p0> ?b . ?b <p1> ?c VALUES (?a ?c) {(<n1> <n0>) (<n0> <n1>) (<n1> <n0>)} }",
    "rows over an atom":
        "SELECT * { ?a <p0> ?b . ?b <p1> ?c VALUES (?a ?b) {(<n1> <n0>) (<n0> <n1>) (<n1> <n0>)} }",
    "filter in an atom": "SELECT * { ?a <p0> ?b . ?b <p1> ?c FILTER(?a != <n1> && ?b != ?c) }",
    "filtered ends": "SELECT ?a ?c { ?a <p0> ?b . ?b <p1> ?c FILTER(?a != ?b) }",
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
    engine._core.views.check()


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("name", TEXTS)
def test_positions_are_those_of_the_enumeration(name, mode):
    random = Random(f"{name} {mode}")
    with Engine(mode) as engine:
        start = draw_inserts(random, 5, 50)
        live = [tuple(triple) for _, *triple in start]
        engine.apply(start)
        queries = [engine.register(TEXTS[name], keep=keep) for keep in KEEPS]
        most = 0
        for _ in range(6):
            engine.apply(draw_batch(random, live, 5, 12))
            for query, keep in zip(queries, KEEPS, strict=True):
                with query.snapshot() as snapshot:
                    assert snapshot._positions.is_kept == (keep != [] and name not in SCANNED)
                    check_places(snapshot, random)
                    most = max(most, len(snapshot))
            check_structure(engine)
        assert most > (0 if name in ("no variable", "constants", "one corner") else 2)
        for query in queries:
            query.close()
        engine._store.check()


@pytest.mark.parametrize("atoms", [2, 3, 10])
def test_a_centre_of_which_several_edges_change_is_counted_once(atoms):
    """More centres than are looked up together, and more atoms than are looked up ahead."""
    random, labels = Random(atoms), [n % 3 for n in range(atoms)]
    body = " . ".join(f"?x <p{label}> ?y{n}" for n, label in enumerate(labels))
    live: Counter[tuple[int, int, int]] = Counter()
    with Engine("multigraph") as engine:
        early = engine.register(f"SELECT * {{ {body} }}", keep=["count"])
        for size in (200, 120, 6, 6, 120, 6, 6):  # few updates leave flags of other epochs
            batch = []
            for _ in range(size):
                edge = random.randrange(60), random.randrange(3), random.randrange(3)
                sign = "-" if live[edge] and random.random() < 0.6 else "+"
                live[edge] += 1 if sign == "+" else -1
                batch.append((sign, f"<n{edge[0]}>", f"<p{edge[1]}>", f"<n{edge[2]}>"))
            engine.apply(batch)
            with engine.register(f"SELECT * {{ {body} }}", keep=["count", "slice"]) as late:
                for query in (early, late):
                    with query.snapshot() as snapshot:
                        counts = snapshot.support(), snapshot.count()
                    assert counts == count_stars(live, labels)
        check_structure(engine)


def count_stars(live, labels):
    """Answers and rows of a star with these labels, from the numbers of edges."""
    edges: Counter[tuple[int, int]] = Counter()
    rows: Counter[tuple[int, int]] = Counter()
    for (centre, label, _), count in live.items():
        edges[centre, label] += count > 0
        rows[centre, label] += count
    centres = {centre for centre, _, _ in live}
    return tuple(
        sum(prod(each[centre, label] for label in labels) for centre in centres)
        for each in (edges, rows)
    )


@pytest.mark.property
@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(MODES))
def test_random_trees(random, mode):
    """Queries of the core by any plan, epochs one by one, counts checked each time."""
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


def read_positions(graph, one, check, *arguments):
    """Call something with the positions of a plan in the newest version."""
    version, enumeration = graph.core.show(one.handle)
    try:
        return check(Positions(RowReader(one.plan, enumeration, graph.decode), version), *arguments)
    finally:
        graph.core.store.unpin(version)


def draw_plan(random):
    """A query of any class by any legal plan, which keeps some counts."""
    query = with_filters(random, random_query(random))
    while len(query.atoms) > 6:
        query = with_filters(random, random_query(random))
    plans = legal_plans(query, keep=random.choice(KEEPS[:3]), limit=10).plans
    return query, random.choice(plans)


@pytest.mark.property
@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(MODES))
def test_random_queries_of_all_classes(random, mode):
    graph = Graph("compiled", mode)
    for _ in range(6):
        graph.apply(random_batch(random, nodes=3, most=9))
        if len(graph.asked) < 2:
            graph.register(*draw_plan(random))
        elif random.random() < 0.2:
            graph.release(random.choice(graph.asked))
        graph.check()
        for one in graph.asked:
            read_positions(graph, one, check_positions, random)


# By query, the layers that <p0>, <p1>, <p2> lead from and to, and how many nodes a layer has.
LAYERS = {
    "SELECT * { ?a <p0> ?b . ?a <p1> ?b . ?b <p2> ?c }": (["ab", "ab", "bc"], [2, 200, 2]),
    "SELECT * { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a }": (["ab", "bc", "ca"], [3, 100, 3]),
    "SELECT ?a ?c { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?d }": (["ab", "bc", "cd"], [3, 9, 300, 2]),
    "SELECT * { ?c ?p ?a . ?a <p0> ?b }": (["ab", "ca", "ca"], [5, 200, 200]),
    "SELECT ?a ?b ?d { ?a <p0> ?b . ?b <p1> ?c . ?c <p2> ?a . ?b <p1> ?d }":
        (["ab", "bc", "ca"], [2, 100, 8]),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", LAYERS)
def test_large_sets_of_rules_keep_their_counts(text, mode):
    """Sets of some hundreds in any column, in batches that split and merge their hubs."""
    random = Random(text)
    graph = Graph("compiled", mode)
    layers, sizes = LAYERS[text]
    for layer, size in zip("abcd", sizes, strict=False):  # ids that are alike in their low digits
        for n in range(size):
            graph.ids[f"<{layer}{n}>"] = 16 * len(graph.ids)
    live: list = []
    most = 0
    for number, size in enumerate([1500, 400, 200, 200]):
        batch = [("-", *live.pop(random.randrange(len(live)))) for _ in range(len(live) // 3)]
        for _ in range(size):
            label = random.randrange(3)
            ends = [f"<{x}{random.randrange(sizes['abcd'.index(x)])}>" for x in layers[label]]
            live.append((ends[0], f"<p{label}>", ends[1]))
            batch.append(("+", *live[-1]))
        graph.core.apply(graph.rows(batch))
        if number == 1:
            graph.ask(text)
            graph.ask(text, keep=["count", "slice"])
        graph.core.store.check()
        graph.core.views.check()
        for one in graph.asked:
            read_positions(graph, one, check_positions, random)
            most = max(most, read_positions(graph, one, lambda found: found.support))
    assert most > 100
    assert graph.asked[1].handle.enumeration.counts is not None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("root", ["a", "b", "c", "d"])
def test_large_hubs_keep_their_counts(root, mode):
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
        graph.core.views.check()
    assert one.handle.enumeration.counts is not None


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
        other = engine.register("SELECT * { ?a <p0> ?b }")  # shares an index with counts
        query.close()
        for snapshot, answers, count in held:
            check_places(snapshot, random)
            assert (list(snapshot[:]), snapshot.count()) == (answers, count)
            snapshot.close()
        engine.apply(draw_batch(random, live, 10, 15))
        with other.snapshot() as snapshot:
            check_places(snapshot, random)
        check_structure(engine)


@pytest.mark.parametrize("body", ["?a <p0> ?b . ?a <p1> ?c", "?a ?p ?b", "?a <p0> ?b . ?a <p1> ?b"])
def test_a_shared_view_gets_counts_late_and_keeps_them(body):
    """A plain query first; one with counts comes and goes; hubs are of both kinds meanwhile."""
    random = Random(4)
    text = f"SELECT * {{ {body} }}"
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
                assert list(first._chosen) == list(second._chosen)
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


def test_threads_read_the_splits_of_one_snapshot():
    with Engine() as engine:
        query = engine.register(PATH, keep=["slice"])
        engine.apply(draw_inserts(Random(9), 9, 150))
        with query.snapshot() as snapshot, ThreadPoolExecutor(3) as pool:
            parts = pool.map(lambda part: list(part.answers("ids")), snapshot.split(3))
            assert [answer for part in parts for answer in part] == list(snapshot.answers("ids"))


def test_wrong_splits():
    with Engine() as engine, engine.register("SELECT ?x { ?x <p0> ?y }").snapshot() as snapshot:
        with pytest.raises(ValueError, match="at least 1, not 0"):
            snapshot.split(0)
        assert [len(part) for part in snapshot.split(2)] == [0, 0]
        assert list(snapshot.sample(3)) == []


# Overflow


def read_counts(graph, one, names=("support", "count")):
    """Support and count as a snapshot reads them; the error's name where it is marked."""
    version, enumeration = graph.core.show(one.handle)
    try:
        found = []
        for name in names:
            positions = Positions(RowReader(one.plan, enumeration, graph.decode), version)
            try:
                found.append(getattr(positions, name))
            except MultiplicityOverflow:
                found.append("overflow")
        return found
    finally:
        graph.core.store.unpin(version)


def test_rows_that_overflow_are_marked_and_answers_continue():
    """Of two answers each fits; their sum does not. It comes back when it does."""
    graph = Graph()
    one = graph.ask("SELECT * { ?a <p0> ?b . ?b <p1> ?c }", keep=["count", "slice"])
    graph.change(("<n0>", "<p0>", "<n1>"), 2**31)
    graph.change(("<n1>", "<p1>", "<n2>"), 2**31)
    assert read_counts(graph, one) == [1, 2**62]
    graph.change(("<n3>", "<p0>", "<n1>"), 2**31)
    assert read_counts(graph, one) == [2, "overflow"]
    assert one.handle.error is None
    assert one.show() == one.expected()
    graph.change(("<n4>", "<p0>", "<n1>"), 1)
    assert one.show() == one.expected()
    assert read_counts(graph, one)[0] == 3
    graph.change(("<n3>", "<p0>", "<n1>"), 5 - 2**31)
    for _ in range(10):  # it is tried again when as much was touched as there is
        graph.change(("<n5>", "<p0>", "<n1>"), 1)
    assert read_counts(graph, one) == [4, 2**62 + (5 + 1 + 10) * 2**31]
    graph.check()


@pytest.mark.parametrize(
    "text",
    ["SELECT * { ?a <p0> ?b . ?a <p1> ?b . ?a <p2> ?c }", "SELECT * { ?a <p0> ?b . ?b <p1> ?a }"],
)
def test_rows_of_rules_that_overflow_are_marked_and_answers_continue(text):
    """Each answer fits; the rows together do not. They come back when they do, and a query that
    shares the live tuples and keeps nothing notices none of it.
    """
    graph = Graph()
    plain = graph.ask(text)
    one = graph.ask(text, keep=["count", "slice"])
    pairs = [(f"<n{n}>", f"<m{m}>") for n in range(2) for m in range(2)]
    for n in range(2):
        graph.change((f"<n{n}>", "<p2>", "<k>"), 1)
    for number, (a, b) in enumerate(pairs):
        graph.change((a, "<p0>", b), 2**31)
        graph.change((b, "<p1>", a) if "?b <p1> ?a" in text else (a, "<p1>", b), 2**31)
        rows = "overflow" if number == 3 else (number + 1) * 2**62
        assert number in (1, 2) or read_counts(graph, one) == [number + 1, rows]
    graph.release(one)
    graph.release(plain)
    plain, one = graph.ask(text), graph.ask(text, keep=["count", "slice"])
    assert read_counts(graph, one) == [4, "overflow"]
    read_positions(graph, one, lambda found: found.pick_one(3))
    assert plain.handle.error is one.handle.error is None
    graph.check()
    for a, b in pairs[1:]:
        graph.change((a, "<p0>", b), 3 - 2**31)
    for _ in range(10):  # it is tried again when as much was touched as there is
        graph.change(("<n5>", "<p0>", "<m1>"), 1)
    assert read_counts(graph, one) == [4, 2**62 + 9 * 2**31]
    graph.check()


def make_wide(atoms):
    return "SELECT * { " + " . ".join(f"?x <p{n}> ?y{n}" for n in range(atoms)) + " }"


def test_positions_that_do_not_fit_are_marked():
    """A star of 32 ** 13 answers: enumeration begins at once, positions do not fit."""
    graph = Graph()
    batch = [("+", "<n0>", f"<p{p}>", f"<m{n}>") for p in range(13) for n in range(32)]
    one = graph.ask(make_wide(13), keep=["slice"])
    graph.core.apply(graph.rows(batch))
    assert read_counts(graph, one, ["support"]) == ["overflow"]
    graph.core.views.check()
    late = graph.ask(make_wide(13), keep=["slice"])
    assert read_counts(graph, late, ["support"]) == ["overflow"]
    gone = [("-", *triple) for sign, *triple in batch if triple[2] != "<m0>"]
    graph.core.apply(graph.rows(gone))
    for _ in range(3):
        graph.core.apply(graph.rows([("+", "<n1>", "<p0>", "<m1>")] * 400))
    assert read_counts(graph, one) == read_counts(graph, late) == [1, 1]
    graph.core.views.check()
    graph.core.store.check()


def test_positions_of_components_that_do_not_fit_together():
    """Each component has its own counts; only their product overflows."""
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
