"""Every core against the oracle, after every epoch, for queries of every class."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event, Thread

import numpy as np
import pytest
from tests.maintain.graph import CORES, MODES, Graph, random_batch, register_random

from triegs.errors import InvalidUpdate, MultiplicityOverflow
from triegs.maintain.at_once import FEW_UPDATES
from triegs.maintain.model import Index
from triegs.read.columns import read_columns

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ROOT = Path(__file__).parents[2]
KINDS = list(CORES)

every_core = pytest.mark.parametrize("kind", KINDS)


def run_random(seed, kind, epochs=12):
    random = Random(seed)
    graph = Graph(kind, random.choice(MODES))
    for _ in range(random.randint(1, 3)):
        register_random(random, graph)
    held = []
    for _ in range(epochs):
        graph.apply(random_batch(random))
        if random.random() < 0.2:
            register_random(random, graph)
        if random.random() < 0.2 and graph.asked:
            graph.release(random.choice(graph.asked))
        graph.check(rows=random.choice([1, 3, 1000]))
        shown = [(one, one.handle.enumeration, one.answers()) for one in graph.asked]
        held.append((graph.core.store.pin(), shown))
    # What was held never changed, whatever came later.
    for version, shown in held:
        for one, enumeration, expected in shown:
            assert one.answers(version, enumeration=enumeration) == expected
        graph.core.store.unpin(version)
    assert graph.core.store.statistics().retained_bytes == 0
    for one in list(graph.asked):
        graph.release(one)
    graph.check()
    return graph


@pytest.mark.parametrize("seed", range(400 if SOAK else 60))
def test_answers_after_every_epoch(seed):
    kind = KINDS[seed % len(KINDS)]
    graph = run_random(seed, kind)
    # Nothing is left but the graph.
    assert {relation.name for relation in graph.core.store.members} == {"unindexed"}
    assert not graph.core.judges.numbers


@every_core
def test_two_factors_that_die_in_one_epoch(kind):
    """The report's filter on positive siblings would leave the view of ?x alive here."""
    graph = Graph(kind)
    graph.ask("SELECT ?x { ?x <a> ?y . ?x <b> ?z . ?x <c> ?w }", root="x")
    batch = [("+", "<s>", p, "<o>") for p in ("<a>", "<b>", "<c>")]
    graph.apply(batch)
    graph.check()
    graph.apply([("-", *update[1:]) for update in batch[:2]])
    assert graph.asked[0].answers() == {}
    graph.apply(batch[:2])
    graph.check()


@pytest.mark.parametrize(("still", "moved"), [("<a>", "<b>"), ("<b>", "<a>")])
def test_a_factor_that_is_touched_and_stays_counts_no_change_of_another_twice(still, moved):
    """The total of the view that the head does not show, when two events cancel out."""
    graph = Graph()
    graph.ask("SELECT ?k { ?k <k> ?l . ?x <a> ?y . ?x <b> ?z }")
    graph.apply([("+", "<s>", "<k>", "<t>")] + [("+", "<x>", p, "<o>") for p in ("<a>", "<b>")])
    graph.check()
    graph.apply([
        ("-", "<x>", still, "<o>"), ("+", "<x>", still, "<other>"), ("+", "<x>", moved, "<other>"),
    ])  # fmt: skip
    graph.check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loaded", [False, True])
def test_deletions_are_judged_by_an_index_that_the_plan_reads(mode, loaded):
    """By y, z and z: no label has an index that only judges, and a later plan may want another."""
    graph = Graph("compiled", mode)
    batch = [
        ("+", "<x>", "<a>", "<y>"), ("+", "<y>", "<b>", "<z>"), ("+", "<z>", "<c>", "<w>"),
        ("+", "<x>", "<a>", "<y2>"), ("-", "<y>", "<a>", "<x>"), ("-", "<z>", "<b>", "<y>"),
    ]  # fmt: skip
    if loaded:
        graph.apply(batch)
    first = graph.ask("SELECT ?w ?x ?y ?z { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }", root="y")
    columns = [graph.core.views.counts(graph.encode(p)).column for p in ("<a>", "<b>", "<c>")]
    assert columns == [1, 1, 0]
    if mode is MODES[0]:
        assert sum(isinstance(view, Index) for view in graph.core.views.by_name.values()) == 3
    graph.apply(batch)
    graph.check()
    graph.ask("SELECT ?w ?x ?y ?z { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }", root="x")
    graph.ask("SELECT ?x ?y ?z { ?y <a> ?x . ?x <b> ?z }", root="x")
    graph.ask("SELECT ?x ?p { ?x ?p <y> . <y> <b> <z> . <x> <a> <y> }")
    graph.check()
    graph.release(first)
    for sign in "+--":
        graph.apply([(sign, *triple) for _, *triple in batch])
        graph.check()


@pytest.mark.parametrize("size", [2, 2 * FEW_UPDATES])
def test_a_version_held_during_epochs_is_unchanged(size):
    """An edge moves on in each epoch; every version has one answer, whenever it is pinned."""
    graph = Graph()
    one = graph.ask("SELECT ?x ?y ?z { ?x <a> ?y . ?y <b> ?z }", root="y")
    graph.apply([("+", f"<y{i}>", "<b>", "<z>") for i in range(50)])
    graph.apply([("+", "<x>", "<a>", "<y0>")])
    store, is_over = graph.core.store, Event()
    wrong: list = []

    def read():
        held = [store.pin()]
        while not is_over.is_set():
            held.append(store.pin())
            wrong.extend(v for v in held if len(one.answers(v)) != 1)
            for _ in range(len(held) // 4):
                store.unpin(held.pop(0))
        for version in held:
            store.unpin(version)

    reader = Thread(target=read)
    reader.start()
    for epoch in range(600):
        moves = [(epoch + k // 2 + k % 2, "-+"[k % 2]) for k in range(size)]
        graph.apply([(sign, "<x>", "<a>", f"<y{i % 50}>") for i, sign in moves])
        last = moves[-1][0]
        graph.apply([("-", "<x>", "<a>", f"<y{last % 50}>"),
                     ("+", "<x>", "<a>", f"<y{(epoch + 1) % 50}>")])  # fmt: skip
    is_over.set()
    reader.join()
    assert not wrong
    assert store.statistics().retained_bytes == 0
    store.check()


@every_core
def test_equal_sub_plans_are_one(kind):
    graph = Graph(kind)
    texts = ["SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", "SELECT ?u ?w { ?u <a> ?w . ?w <b> ?t }"]
    empty = graph.core.store.statistics()
    graph.apply([("+", "<s>", "<a>", "<t>"), ("+", "<t>", "<b>", "<u>")])
    alone = graph.core.store.statistics().entries
    first = graph.ask(texts[0])
    entries = graph.core.store.statistics().entries
    assert entries > alone > empty.entries
    second = graph.ask(texts[1])
    assert graph.core.store.statistics().entries == entries
    graph.check()
    graph.release(first)
    assert graph.core.store.statistics().entries == entries
    graph.check()
    graph.release(second)
    assert graph.core.store.statistics().entries in (alone, alone + 2)  # Core keeps an index


@every_core
@pytest.mark.parametrize("second", ["?u", "?x"])
def test_equal_rows_under_other_names_are_one(kind, second):
    """What the first query made, the second one uses; closing the first must leave it."""
    graph = Graph(kind)
    first = graph.ask("SELECT ?x ?y { VALUES ?x { <s> <t> } ?x <a> ?y }")
    late = graph.ask(f"SELECT {second} ?w {{ VALUES {second} {{ <t> <s> }} {second} <a> ?w }}")
    graph.apply([("+", "<s>", "<a>", "<o>"), ("+", "<n>", "<a>", "<o>")])
    shown = late.answers()
    assert shown == first.answers() == {("<s>", "<o>"): 1}
    graph.release(first)
    graph.apply([("+", "<t>", "<a>", "<o>"), ("-", "<s>", "<a>", "<o>")])
    assert late.answers() == {("<t>", "<o>"): 1}
    graph.release(late)
    graph.core.store.check()


@every_core
def test_a_strict_epoch_is_refused_as_a_whole(kind):
    graph = Graph(kind)
    graph.ask("SELECT * { ?x <p> ?y }")
    before = graph.core.store.newest.number
    batch = [("+", "<s>", "<p>", "<o>"), ("-", "<s>", "<p>", "<x>")]
    with pytest.raises(InvalidUpdate) as caught:
        graph.apply(batch, is_strict=True)
    assert [place for place, _ in caught.value.refused] == [1]
    assert graph.core.store.newest.number == before
    graph.check()


@every_core
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?x <a> ?y FILTER(?x != <n>) }",
        "SELECT ?x { ?x <a> ?y . ?z <b> ?y FILTER(?x != ?z) }",
    ],
)
def test_an_exception_inside_an_epoch_leaves_everything_as_it_was(kind, text, monkeypatch):
    graph = Graph(kind)
    graph.ask(text)
    graph.ask("SELECT ?x { ?x <a> ?y . ?x <b> ?z }")
    graph.apply([("+", "<s>", "<a>", "<o>"), ("+", "<s>", "<b>", "<o>")])
    more = [("+", "<t>", "<b>", "<o>"), ("+", "<t>", "<a>", "<o>"), ("-", "<s>", "<a>", "<o>")]
    with monkeypatch.context() as patched:
        patched.setattr(graph.core.judges, "answer", failing)
        with pytest.raises(RuntimeError):
            graph.core.apply(graph.rows(more))
    graph.check()
    graph.apply(more)
    graph.check()


def failing(*_):
    raise RuntimeError("planted")


BIG = 2**40


@every_core
@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("ASK { ?x <a> ?y . ?x <b> ?z }", None),
        ("SELECT ?x { ?x <a> ?y . ?x <b> ?z }", None),
        ("SELECT ?k { ?k <c> ?x . ?x <a> ?y . ?x <b> ?z }", "k"),
    ],
)
def test_a_count_that_does_not_fit_stalls_its_query_alone(kind, text, root):
    graph = Graph(kind)
    product, plain = graph.ask(text, root=root), graph.ask("SELECT * { ?x <a> ?y }")
    graph.change(("<k>", "<c>", "<s>"), 1)
    graph.change(("<s>", "<b>", "<o>"), BIG)
    good = graph.change(("<s>", "<a>", "<o>"), 1)
    before = product.expected()
    assert product.show() == before
    graph.change(("<s>", "<a>", "<o>"), BIG - 1)
    stalled = product.handle.error
    if stalled is None:  # the product is an answer's, not a view's: reading it says so
        with pytest.raises(MultiplicityOverflow):
            product.show()
        return
    assert isinstance(stalled, MultiplicityOverflow)
    version, _ = graph.core.show(product.handle)
    assert version.number == good.number
    graph.core.store.unpin(version)
    assert product.show() == before
    assert plain.answers() == {("<s>", "<o>"): BIG}
    graph.apply([("+", "<t>", "<c>", "<o>"), ("-", "<t>", "<c>", "<none>")])
    assert product.handle.error is not None
    assert product.show() == before
    assert plain.answers() == {("<s>", "<o>"): BIG}
    # Once the count fits again, the next epoch rebuilds the views.
    graph.change(("<s>", "<a>", "<o>"), 3 - BIG)
    assert product.handle.error is None
    graph.check()
    graph.release(product)
    graph.check()


@every_core
def test_closing_a_stalled_query_frees_everything(kind):
    graph = Graph(kind)
    one = graph.ask("SELECT ?k { ?k <c> ?x . ?x <a> ?y . ?x <b> ?z }", root="k")
    for label in ("<a>", "<b>"):
        graph.change(("<s>", label, "<o>"), BIG)
    graph.change(("<k>", "<c>", "<s>"), 1)
    assert one.handle.error is not None
    graph.release(one)
    graph.apply([("+", "<s>", "<a>", "<o>")])
    assert graph.core.store.statistics().retained_bytes == 0
    graph.core.store.check()


@every_core
def test_overflow_is_judged_on_final_values(kind):
    """One view of the sum leaves while another comes: no sum of both ever counts."""
    graph = Graph(kind)
    one = graph.ask("SELECT ?k { ?k <c> ?x . ?x <a> ?y . ?x <b> ?z }", root="k")
    near = 2**62
    graph.apply([("+", "<k>", "<c>", "<s>"), *(("+", s, "<a>", "<o>") for s in ("<s>", "<t>"))])
    graph.change(("<s>", "<b>", "<o>"), near)
    graph.change(("<t>", "<b>", "<o>"), near + 1)
    graph.check()
    graph.apply([("+", "<k>", "<c>", "<t>"), ("-", "<k>", "<c>", "<s>")])
    assert one.handle.error is None
    graph.check()
    graph.apply([("+", "<k>", "<c>", "<s>")])
    assert one.handle.error is not None


@every_core
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ASK { ?u <b> ?v . ?s <c> ?t }", {(): 1}),
        ("SELECT DISTINCT ?u ?s { ?u <b> ?v . ?s <c> ?t }", {("<s>", "<s>"): 1}),
        ("SELECT ?u ?s { ?u <b> ?v . ?s <c> ?t FILTER(?u != ?s) }", {}),
        ("SELECT ?x ?y { ?x <a> ?y . ?u <b> ?v . ?s <c> ?t }", {}),
        ("SELECT ?u ?s { ?u <b> ?v . ?s <c> ?t } LIMIT 3", {("<s>", "<s>"): 3}),
        ("SELECT ?u ?s { ?u <b> ?v . ?s <c> ?t } OFFSET 3", None),
        ("SELECT ?u ?s { ?u <b> ?v . ?s <c> ?t }", None),
    ],
)
def test_a_multiplicity_that_nobody_reads_may_overflow(kind, text, expected):
    graph = Graph(kind)
    one = graph.ask(text)
    for label in ("<b>", "<c>"):
        graph.change(("<s>", label, "<o>"), BIG)
    if one.handle.error is not None:
        assert kind in ("plain", "packed")  # which keep that product as a view
    elif expected is None:
        with pytest.raises(MultiplicityOverflow):
            one.answers()
    else:
        assert one.answers() == expected


@every_core
def test_a_query_that_overflows_at_once_is_not_registered(kind):
    graph = Graph(kind)
    for label in ("<a>", "<b>"):
        graph.change(("<s>", label, "<o>"), BIG)
    entries = graph.core.store.statistics().entries
    with pytest.raises(MultiplicityOverflow):
        graph.ask("ASK { ?x <a> ?y . ?x <b> ?z }")
    assert graph.core.registered == []
    assert graph.core.store.statistics().entries in (entries, 2 * entries)  # Core keeps an index
    graph.ask("SELECT * { ?x <a> ?y }")
    graph.check()


@every_core
def test_the_empty_pattern_has_one_answer(kind):
    graph = Graph(kind)
    one = graph.ask("SELECT * { }")
    assert one.answers() == {(): 1}
    graph.apply([("+", "<s>", "<p>", "<o>")])
    assert one.answers() == {(): 1}


def test_hubs_and_large_batches():
    """Sets beyond one block, a log that must grow, and answers over many batches of rows."""
    graph = Graph()
    one = graph.ask("SELECT * { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }")
    near = [("+", f"<x{i}>", "<a>", "<hub>") for i in range(3_000)]
    far = [("+", f"<z{i % 7}>", "<c>", f"<w{i}>") for i in range(700)]
    graph.apply(near + far)
    assert one.answers() == {}
    graph.apply([("+", "<hub>", "<b>", f"<z{i}>") for i in range(7)])
    late = graph.ask("SELECT * { ?w <c> ?x . ?y <b> ?w . ?z <a> ?y }")
    for each in (one, late):
        batches = read_columns(each.handle.enumeration, graph.core.store.newest, lambda: 65_536)
        found = [(ids.copy(), counts) for ids, counts in batches]
        assert sum(len(counts) for _, counts in found) == 3_000 * 700
        rows = np.concatenate([ids for ids, _ in found], 1).astype(np.int64)
        assert 0 <= rows.min() <= rows.max() < 1 << 15
        keys = (((rows[0] << 15 | rows[1]) << 15) | rows[2]) << 15 | rows[3]
        assert len(np.unique(keys)) == 2_100_000
    graph.apply([("-", *update[1:]) for update in near[1:]])
    assert len(one.answers()) == len(late.answers()) == 700
    graph.core.store.check()
    graph.apply([("+", f"<n{i}>", "<a>", f"<m{i}>") for i in range(40_000)])
    assert len(one.answers()) == 700


@pytest.mark.parametrize("sizes", [(3, 40), (40, 3), (2, 3), (2, 2_000), (2_000, 2), (1_024, 2)])
@pytest.mark.parametrize("rows", [7, 1_000, 100_000])
def test_products_of_sets_that_fit_a_tile_and_that_do_not(sizes, rows):
    """Two leaves of one centre, and one below each of them; some edges count twice."""
    graph = Graph()
    wide = graph.ask("SELECT ?c ?x ?y { ?c <a> ?x . ?c <b> ?y }")
    back = graph.ask("SELECT ?c ?x ?y { ?c <b> ?y . ?c <a> ?x }")
    deep = graph.ask("SELECT ?c ?x ?y ?z ?w { ?c <a> ?x . ?c <b> ?y . ?y <d> ?z . ?x <d> ?w }")
    edges = [("<c>", p, f"<{p[1]}{i}>") for p, n in zip("ab", sizes, strict=True)
             for i in range(n) for p in [f"<{p}>"]]  # fmt: skip
    edges += [(f"<{n}{i}>", "<d>", f"<z{j}>") for n in "ab" for i in range(3) for j in range(2)]
    edges += edges[::3]
    counts = Counter(edges)
    graph.core.apply(graph.rows([("+", *edge) for edge in edges]))
    leaves = {p: [(o, n) for (_, q, o), n in counts.items() if q == p] for p in ("<a>", "<b>")}
    pairs = [(x, y, n * m) for x, n in leaves["<a>"] for y, m in leaves["<b>"]]
    expected = {("<c>", x, y): n for x, y, n in pairs}
    assert wide.answers(rows=rows) == back.answers(rows=rows) == expected
    if max(sizes) < 100:
        three = graph.ask("SELECT ?c ?x ?y ?v { ?c <a> ?x . ?c <b> ?y . ?c <b> ?v }")
        bs = leaves["<b>"]
        assert three.answers(rows=rows) == {
            ("<c>", x, y, v): n * m * k for x, n in leaves["<a>"] for y, m in bs for v, k in bs
        }
    below: dict = {}
    for (s, p, o), n in counts.items():
        if p == "<d>":
            below.setdefault(s, []).append((o, n))
    assert deep.answers(rows=rows) == {
        ("<c>", x, y, z, w): n * k * j
        for x, y, n in pairs
        for z, k in below.get(y, ())
        for w, j in below.get(x, ())
    }


@pytest.mark.parametrize("size", [FEW_UPDATES, 20_000])
def test_a_small_arena_grows_and_tries_again(size):
    graph = Graph("small")
    one = graph.ask("SELECT * { ?x <a> ?y . ?y <b> ?z }")
    near = [("+", f"<x{i}>", "<a>", f"<y{i % 50}>") for i in range(60_000)]
    before = graph.core.store.words.size
    for start in range(0, len(near), size):
        graph.apply(near[start : start + size])
    assert graph.core.store.words.size > before
    graph.apply([("+", f"<y{i}>", "<b>", "<z>") for i in range(50)])
    assert len(one.answers()) == 60_000
    late = graph.ask("SELECT ?y { ?x <a> ?y . ?y <b> ?z }")
    assert len(late.answers()) == 50
    for each in (one, late):
        graph.release(each)
    assert len(graph.core.views.unindexed) == 60_050


# To compile everything once more takes a minute and more.
SWITCHES = ["NUMBA_DISABLE_JIT", *(["NUMBA_BOUNDSCHECK"] if SOAK else [])]


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_same_code_uncompiled_and_with_bounds_checked(switch):
    program = (
        "from tests.maintain.test_cores import run_random\n"
        "for seed in range(6):\n"
        "    run_random(seed, 'compiled', epochs=5)\n"
        "print('same')"
    )
    environment = os.environ | {switch: "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stderr


def test_ids_of_far_predicates():
    graph = Graph()
    rows = np.array([(1, 0, 5_000, 1), (1, 0, 100_000, 1)], np.int64)
    assert graph.core.apply(rows).refused == ()
