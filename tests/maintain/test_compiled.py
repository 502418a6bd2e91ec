"""The compiled core against the oracle: random trees of binary atoms, after every epoch."""

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
from tests.property.random_queries import query_text

from triegs.compiler import compile_query, legal_plans
from triegs.compiler.plan import Alias
from triegs.errors import MultiplicityOverflow
from triegs.maintain.compiled import FEW_UPDATES, CompiledCore, NotCompiled
from triegs.mode import Mode
from triegs.sparql import parse
from triegs.sparql.model import Atom, Form, Query
from triegs.store.contract import Version
from triegs.store.packed import PackedStore
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
MODES = list(Mode)
ROOT = Path(__file__).parents[2]


class Graph:
    """A compiled core with its terms, its plans and their oracles."""

    def __init__(self, mode=Mode.MULTIGRAPH, store=None):
        self.core = CompiledCore(store or PackedStore(), mode)
        self.mode = mode.value
        self.ids: dict[str, int] = {}
        self.counts: Counter = Counter()
        self.standing: list = []

    def encode(self, term):
        return self.ids.setdefault(term, len(self.ids))

    def register(self, query, plan):
        guards = [node.guard for node in plan.nodes]
        labels = [self.encode(g.label) if isinstance(g, Alias) else None for g in guards]
        walk = self.core.register(plan, labels)
        self.standing.append((query, walk, oracle.read_query(query.text or query_text(query))))
        return walk

    def apply(self, batch):
        rows = [(1 if sign == "+" else -1, *map(self.encode, t)) for sign, *t in batch]
        _, refused = self.core.apply(np.array(rows, np.int64).reshape(-1, 4))
        assert [place for place, _ in refused] == oracle.apply_batch(self.counts, batch)

    def answers(self, query, walk, version=None, rows=1000):
        terms = list(self.ids)
        found = {}
        for columns in self.core.batches(walk, version or self.core.store.newest, rows):
            for *row, count in columns.T.tolist():
                names = dict(zip(query.free, (terms[i] for i in row), strict=True))
                answer = tuple(names[v] for v in query.head)
                assert answer not in found
                found[answer] = count
        return found if query.head else dict.fromkeys(found, 1)

    def check(self, rows=1000):
        self.core.store.check()
        for query, walk, question in self.standing:
            expected = oracle.answers(question, self.counts, self.mode)
            assert self.answers(query, walk, rows=rows) == expected, query_text(query)


def random_tree(random):
    """A tree of up to six atoms, now and then cut in two; any head."""
    atoms = []
    for i in range(random.randint(1, 6)):
        ends = [f"?v{random.randint(0, i)}", f"?v{i + 1}"]
        if random.random() < 0.1:
            ends[0] = f"?z{i}"
        random.shuffle(ends)
        atoms.append(Atom(ends[0], f"<p{random.randint(0, 2)}>", ends[1]))
    used = list(dict.fromkeys(v for atom in atoms for v in atom.variables))
    head = used if random.random() < 0.5 else random.sample(used, random.randint(0, len(used)))
    return Query(Form.SELECT if head else Form.ASK, tuple(head), tuple(atoms))


def random_batch(random, most=7):
    return [
        (random.choice("++-"), f"<c{random.randint(0, 3)}>", f"<p{random.randint(0, 2)}>",
         f"<c{random.randint(0, 3)}>")
        for _ in range(random.randint(0, most))
    ]  # fmt: skip


def register_random(random, graph):
    for _ in range(20):
        query = random_tree(random)
        try:
            graph.register(query, random.choice(legal_plans(query, limit=10).plans))
        except NotCompiled:
            continue
        return


@pytest.mark.parametrize("seed", range(300 if SOAK else 24))
def test_answers_after_every_epoch(seed):
    random = Random(seed)
    graph = Graph(MODES[seed % 2])
    for _ in range(random.randint(1, 4)):
        register_random(random, graph)
    held = []
    for _ in range(12):
        graph.apply(random_batch(random))
        if random.random() < 0.2:
            register_random(random, graph)
        graph.check(rows=random.choice([1, 3, 1000]))
        version = graph.core.store.pin()
        held.append((version, [(q, w, graph.answers(q, w)) for q, w, _ in graph.standing]))
    for version, shown in held:
        for query, walk, expected in shown:
            assert graph.answers(query, walk, version) == expected
        graph.core.store.unpin(version)
    assert graph.core.store.statistics().retained_bytes == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loaded", [False, True])
def test_deletions_are_judged_by_an_index_that_the_plan_reads(mode, loaded):
    """By y, z and z: no label has an index that only judges, and a later plan may want another."""
    graph = Graph(mode)
    batch = [
        ("+", "<x>", "<a>", "<y>"), ("+", "<y>", "<b>", "<z>"), ("+", "<z>", "<c>", "<w>"),
        ("+", "<x>", "<a>", "<y2>"), ("-", "<y>", "<a>", "<x>"), ("-", "<z>", "<b>", "<y>"),
    ]  # fmt: skip
    if loaded:
        graph.apply(batch)
    path = parse("SELECT ?w ?x ?y ?z { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }")
    graph.register(path, compile_query(path, root="y"))
    columns = [rows[0].column for rows in graph.core._rows]
    assert sorted(columns) == [0, 1, 1]
    if mode is Mode.MULTIGRAPH:
        assert [len(rows) for rows in graph.core._rows] == [1, 1, 1]
    graph.apply(batch)
    graph.check()
    graph.register(path, compile_query(path, root="x"))
    back = parse("SELECT ?x ?y ?z { ?y <a> ?x . ?x <b> ?z }")
    graph.register(back, compile_query(back, root="x"))
    graph.check()
    for sign in "+--":
        graph.apply([(sign, *triple) for _, *triple in batch])
        graph.check()


@pytest.mark.parametrize(("still", "moved"), [("<a>", "<b>"), ("<b>", "<a>")])
def test_a_factor_that_is_touched_and_stays_counts_no_change_of_another_twice(still, moved):
    """The total of the part that the head does not show, when two events cancel out."""
    graph = Graph()
    query = parse("SELECT ?k { ?k <k> ?l . ?x <a> ?y . ?x <b> ?z }")
    graph.register(query, compile_query(query))
    graph.apply([("+", "<s>", "<k>", "<t>")] + [("+", "<x>", p, "<o>") for p in ("<a>", "<b>")])
    graph.check()
    graph.apply([
        ("-", "<x>", still, "<o>"), ("+", "<x>", still, "<other>"), ("+", "<x>", moved, "<other>"),
    ])  # fmt: skip
    graph.check()


def test_hubs_and_large_batches():
    """Sets beyond one block, a log that must grow, and answers over many batches of rows."""
    graph = Graph()
    query = parse("SELECT * { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }")
    walk = graph.register(query, compile_query(query))
    near = [("+", f"<x{i}>", "<a>", "<hub>") for i in range(3_000)]
    far = [("+", f"<z{i % 7}>", "<c>", f"<w{i}>") for i in range(700)]
    graph.apply(near + far)
    assert graph.answers(query, walk) == {}
    graph.apply([("+", "<hub>", "<b>", f"<z{i}>") for i in range(7)])
    version = graph.core.store.newest
    assert sum(c.shape[1] for c in graph.core.batches(walk, version)) == 3_000 * 700
    graph.apply([("-", *update[1:]) for update in near[1:]])
    assert len(graph.answers(query, walk)) == 700
    graph.core.store.check()
    wide = [("+", f"<n{i}>", "<a>", f"<m{i}>") for i in range(40_000)]
    graph.apply(wide)
    assert len(graph.answers(query, walk)) == 700


@pytest.mark.parametrize("size", [FEW_UPDATES, 20_000])
def test_a_small_arena_grows_and_tries_again(size):
    graph = Graph(store=PackedStore(reserve=False))
    query = parse("SELECT * { ?x <a> ?y . ?y <b> ?z }")
    walk = graph.register(query, compile_query(query))
    first = graph.core.store.words.size
    near = [("+", f"<x{i}>", "<a>", f"<y{i % 50}>") for i in range(20_000)]
    for start in range(0, len(near), size):
        graph.apply(near[start : start + size])
    assert graph.core.store.words.size > first
    graph.apply([("+", f"<y{i}>", "<b>", "<z>") for i in range(50)])
    assert sum(c.shape[1] for c in graph.core.batches(walk, graph.core.store.newest)) == 20_000


@pytest.mark.parametrize("size", [2, 2 * FEW_UPDATES])
def test_a_version_held_while_epochs_are_made_stays_whole(size):
    """An edge moves on in each epoch; every version has one answer, whenever it is pinned."""
    graph = Graph()
    query = parse("SELECT ?x ?y ?z { ?x <a> ?y . ?y <b> ?z }")
    walk = graph.register(query, compile_query(query, root="y"))
    graph.apply([("+", f"<y{i}>", "<b>", "<z>") for i in range(50)])
    graph.apply([("+", "<x>", "<a>", "<y0>")])
    store, is_over = graph.core.store, Event()
    wrong: list[Version] = []

    def read():
        held = [store.pin()]
        while not is_over.is_set():
            held.append(store.pin())
            wrong.extend(v for v in held if len(graph.answers(query, walk, v)) != 1)
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


def test_no_silent_wrap():
    graph = Graph()
    query = parse("SELECT ?x { ?x <a> ?y . ?y <b> ?z . ?y <c> ?w }")
    walk = graph.register(query, compile_query(query, root="x"))
    graph.apply([("+", "<y>", p, "<o>") for p in ("<b>", "<c>")] + [("+", "<x>", "<a>", "<y>")])
    before = graph.answers(query, walk)
    ids = [graph.encode(t) for t in ("<y>", "<b>", "<c>", "<o>")]
    big = np.array([(2**40, ids[0], ids[1], ids[3]), (2**40, ids[0], ids[2], ids[3])], np.int64)
    with pytest.raises(MultiplicityOverflow):
        graph.core.apply(big)
    assert graph.answers(query, walk) == before
    graph.core.store.check()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?x <a> <c> }",
        "SELECT * { ?x <a> ?x }",
        "SELECT * { ?x ?p ?y }",
        "SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z }",
        "SELECT * { ?x <a> ?y FILTER(?x != ?y) }",
        "SELECT * { ?x <a> ?y . ?x <b> ?y }",
    ],
)
def test_what_is_left_to_the_general_core(text):
    query = parse(text)
    with pytest.raises(NotCompiled):
        Graph().register(query, compile_query(query))


@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_same_code_uncompiled_and_with_bounds_checked(switch, tmp_path):
    program = (
        "from tests.maintain.test_compiled import *\n"
        "for seed in range(4):\n"
        "    random, graph = Random(seed), Graph(MODES[seed % 2])\n"
        "    register_random(random, graph)\n"
        "    for _ in range(5):\n"
        "        graph.apply(random_batch(random))\n"
        "        graph.check()\n"
        "print('same')"
    )
    environment = os.environ | {switch: "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stderr
