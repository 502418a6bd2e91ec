"""Cycles whose halves repeat each other, which are kept as these halves, against the oracle."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from triegs.compiler import compile_query
from triegs.compiler.plan import Join
from triegs.engine import Engine
from triegs.options import KeepName
from triegs.sparql import parse
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
PREFIX = "PREFIX : <http://ex/> "
KEEPS: list[list[KeepName]] = [[], [], ["count"], ["count", "slice"]]
DIAMOND = "?a :p ?b . ?a :p ?c . ?b :p ?d . ?c :p ?d"


def list_bags(text):
    plan = compile_query(parse(PREFIX + text))
    return sorted("".join(v[1:] for v in sorted(n.bag)) for n in plan.nodes
                  if isinstance(n.guard, Join))  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "bags"),
    [
        (DIAMOND, ["abd", "acd"]),
        (f"{DIAMOND} . ?a :p ?e . ?e :p ?d", ["abd", "acd", "aed"]),
        (f"{DIAMOND} . ?a :q ?d", ["abd", "acd"]),
        (f"{DIAMOND} . ?b :q ?t", ["abd", "acd"]),  # hangs on, but reduces no bag
        (f"{DIAMOND} . ?b :q ?c", ["abcd"]),  # links the halves
        (f"{DIAMOND} FILTER(?b < ?c)", ["abcd"]),
        (f"{DIAMOND} FILTER(?b != :x)", ["abcd"]),  # the other half does not map onto this one
        (f"{DIAMOND} FILTER(?b != :x) FILTER(?c != :x)", ["abd", "acd"]),
        ("?a :p ?b . ?a :p ?c . ?b :p ?d . ?c :q ?d", ["abcd"]),
        ("?a :p ?b . ?b :p ?c . ?c :p ?d . ?d :p ?a", ["abcd"]),
    ],
)
def test_bags_are_split_where_a_fold_proves_that_it_pays(pattern, bags):
    assert list_bags(f"SELECT * {{ {pattern} }}") == sorted("".join(sorted(bag)) for bag in bags)


def draw_query(random):
    """Copies of a component between two variables, with something else here and there."""
    inner = random.randint(1, 2)
    own = ["?b", "?e"][:inner]
    ends = ["?a", "?d"]
    atoms = [(random.choice(ends), random.choice("pq"), own[0])]
    for _ in range(random.randint(1, 2)):
        pair = [random.choice(own), random.choice(ends + own)]
        random.shuffle(pair)
        atoms.append((pair[0], random.choice("pq"), pair[1]))
    copies = random.choice([2, 2, 3])
    body = [
        tuple(f"{term}{copy}" if term in own else term for term in atom)
        for copy in range(copies)
        for atom in atoms
    ]
    if random.random() < 0.3:
        body.append((random.choice(ends), random.choice("pq"), random.choice([*ends, "?t"])))
    if random.random() < 0.3:
        body.append((f"?b{random.randrange(copies)}", random.choice("pq"), "?u"))
    random.shuffle(body)
    text = " . ".join(f"{s} :{p} {o}" for s, p, o in dict.fromkeys(body))
    if random.random() < 0.2:
        text += random.choice([" FILTER(?b0 != :n1)", " FILTER(?b0 != ?b1)", " FILTER(?b0 <= ?b1)"])
    names = sorted({term for s, _, o in body for term in (s, o)})
    head = "*"
    if random.random() < 0.3:
        head = " ".join(random.sample(names, random.randint(1, len(names))))
    return f"SELECT {head} {{ {text} }}"


def draw_epoch(random, counts):
    events = []
    for _ in range(random.choice([1, 1, 4, 20])):
        if counts and random.random() < 0.45:
            events.append(("-", *random.choice(sorted(counts))))
        else:
            ends = [f"<http://ex/n{random.randrange(5)}>" for _ in range(2)]
            events.append(("+", ends[0], f"<http://ex/{random.choice('ppq')}>", ends[1]))
    return events


def read(snapshot):
    return {tuple(answer): answer.multiplicity for answer in snapshot}


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize("seed", range(400 if SOAK else 15))
def test_answers_changes_and_counts(seed, mode):
    random = Random(seed)
    run_life(random, mode, [draw_query(random) for _ in range(3)])


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
@pytest.mark.parametrize(
    "pattern",
    [
        # Nodes that show only what several readers of one relation share.
        "?x ?p ?y . ?x ?p ?z",
        "?x ?p ?y . ?x ?p ?z . ?x :q ?w",
        "?y ?p ?x . ?z ?p ?x . ?x :q ?w . ?p :p ?v",
        "?x ?p ?y . ?x ?p ?z . ?x ?p ?w . ?w :p ?x",
    ],
)
def test_nodes_that_repeat_their_children(pattern, mode):
    for seed in range(4):
        run_life(Random(seed), mode, [f"SELECT * {{ {pattern} }}", draw_query(Random(seed))])


def run_life(random, mode, queries):
    engine = Engine(mode)
    texts = [PREFIX + query for query in queries]
    keeps = [random.choice(KEEPS) for _ in texts]
    standing: list[Any] = []
    counts: Counter = Counter()
    for number in range(8):
        while len(standing) < len(texts) and (number > 2 or random.random() < 0.6):
            text = texts[len(standing)]
            query = engine.register(text, keep=keeps[len(standing)])
            standing.append((query, oracle.read_query(text), query.snapshot()))
        epoch = draw_epoch(random, counts)
        engine.apply(epoch)
        oracle.apply_batch(counts, epoch)
        for index, (query, question, before) in enumerate(standing):
            expected = oracle.answers(question, counts, mode)
            snapshot = query.snapshot()
            assert read(snapshot) == expected
            assert snapshot.support() == len(expected)
            assert snapshot.count() == sum(expected.values())
            old = read(before)
            changes = {tuple(each): each.change for each in snapshot.diff(before)}
            keys = expected.keys() | old.keys()
            wanted = {k: expected.get(k, 0) - old.get(k, 0) for k in keys}
            assert changes == {k: n for k, n in wanted.items() if n}
            before.close()
            standing[index] = query, question, snapshot
    engine._internals.core.views.check()
    engine._internals.core.store.check()


def test_enough_drawn_queries_are_split():
    split = sum(len(list_bags(draw_query(Random(seed)))) > 1 for seed in range(100))
    assert split > 20
