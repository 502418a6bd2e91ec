"""A closure equals the least fixpoint after every epoch: statements, events that leave, deletions
of both, epochs that are undone.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reason.drawing import PREDICATES, TERMS, as_plain, rule_sets, triples

from triegs.reason import closure as closure_module
from triegs.reason.closure import Closure
from triegs.reason.kernels.layout import STATIC_ROW
from triegs.reason.model import RuleSet
from triegs.reason.sets import read_rules
from triegs.reason.tables import write_program
from triegs.testing.rule_oracle import TRIPLE, close, weigh

WIDTH = 4
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


class Ids:
    """Ids of terms, and back."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.terms: list[str] = []

    def encode(self, term: str) -> int:
        if term not in self.ids:
            self.ids[term] = len(self.terms)
            self.terms.append(term)
        return self.ids[term]


class Model:
    """A closure, and beside it what it should be."""

    def __init__(self, rules: RuleSet, *, shows_static: bool) -> None:
        self.ids = Ids()
        self.program = write_program(rules, self.ids.encode)
        self.grown = 0
        self.closure = Closure(self.program, self.note_growth, shows_static=shows_static)
        self.rules = as_plain(rules)
        self.shows_static = shows_static
        self.static: Counter[tuple[str, str, str]] = Counter()
        self.events: list[tuple[int, tuple[str, str, str]]] = []
        self.shown: Counter[tuple[str, ...]] = Counter()
        self.time = 0
        self.run([], [], [], 0, True)

    def note_growth(self, more: int) -> None:
        self.grown += more

    def encode(self, rows):
        return np.array(
            [(change, *map(self.ids.encode, triple)) for change, triple in rows], np.int64
        ).reshape(-1, 4)

    def run(self, static, arrived, killed, time, is_kept):
        gone = [each for each in self.events if each[0] + WIDTH <= time]
        live = [each for each in self.events if each[0] + WIDTH > time]
        killed = [each for each in killed if each < len(live)]
        dead = [live[each] for each in sorted(set(killed))]
        rows = [(-1, triple) for _, triple in [*gone, *dead]]
        leaves = [0] * len(rows)
        rows += [(1, triple) for triple in arrived]
        leaves += [time + WIDTH] * len(arrived)
        rows += static
        leaves += [STATIC_ROW] * len(static)
        change = self.closure.change(self.encode(rows), np.array(leaves, np.int64), time)
        if not is_kept:
            self.closure.undo()
            self.check()
            return
        refused = []
        for at, (sign, triple) in enumerate(static):
            if self.static[triple] + sign < 0:
                refused.append(len(rows) - len(static) + at)
            else:
                self.static[triple] += sign
        assert change.refused == refused
        for weight, *ids in change.rows.tolist():
            self.shown[tuple(self.ids.terms[each] for each in ids)] += weight
        self.closure.keep()
        for each in dead:
            live.remove(each)
        self.events = live + [(time, triple) for triple in arrived]
        self.time = time
        self.check()

    def check(self) -> None:
        counts = Counter(triple for _, triple in self.events)
        if self.shows_static:
            counts += self.static
            expected = weigh(self.rules, counts)
        else:
            expected = weigh(self.rules, counts, self.static)
        shown = {
            tuple(self.ids.terms[each] for each in ids): weight
            for weight, *ids in self.closure.read_shown().tolist()
        }
        assert shown == expected
        assert +self.shown == expected
        live = [*[t for _, t in self.events], *[t for t, c in self.static.items() if c > 0]]
        closed = close(self.rules, [(TRIPLE, triple) for triple in live])
        for number, name in enumerate(self.program.predicates[1:], 1):
            facts = {
                tuple(self.ids.terms[each] for each in ids)
                for ids in self.closure.read_facts(number).tolist()
            }
            assert facts == {terms for predicate, terms in closed if predicate == name}


epochs = st.tuples(
    st.lists(st.tuples(st.sampled_from([1, 1, -1]), triples), max_size=3),
    st.lists(triples, max_size=4),
    st.lists(st.integers(0, 6), max_size=1),
    st.integers(0, 3),
    st.sampled_from([True, True, True, False]),
)


@given(rule_sets(), st.booleans(), st.lists(epochs, min_size=1, max_size=6))
def test_closure_is_the_least_fixpoint(rules, shows_static, drawn):
    model = Model(rules, shows_static=shows_static)
    for static, arrived, killed, step, is_kept in drawn:
        model.run(static, arrived, killed, model.time + step, is_kept)


P, Q = PREDICATES
PATHS = f"TE(X, {P}, Z) :- TE(X, {P}, Y), TE(Y, {P}, Z)."
#: Transitive relations whose facts also come from elsewhere: from statements, another relation, an
#: inverse, a rule with the relation itself in its body, a second relation that feeds it back.
TRANSITIVE = [
    PATHS,
    f"{PATHS} TE(X, {P}, Y) :- TE(X, {Q}, Y).",
    f"{PATHS} TE(Y, {P}, X) :- TE(X, {P}, Y).",
    f"{PATHS} TE(X, {P}, X) :- TE(X, {P}, Y), TE(X, {Q}, Y).",
    f"{PATHS} TE(A, {P}, C) :- TE(B, {P}, C), TE(A, {P}, B).",
    (
        f"{PATHS} TE(X, {Q}, Z) :- TE(Y, {Q}, Z), TE(X, {Q}, Y). TE(X, {P}, Y) :- TE(Y, {Q}, X), "
        f"TE(X, {Q}, Y). TE(X, {Q}, Y) :- TE(X, {P}, Y), TE(X, {P}, X)."
    ),
    f"p(X, Y) :- TE(X, {P}, Y). p(X, Z) :- p(X, Y), p(Y, Z). p(X, Y) :- TE(X, {Q}, Z), p(Z, Y).",
    f"{PATHS} TE(X, {P}, Y) :- TE(X, {P}, Y). TE({TERMS[0]}, {P}, {TERMS[1]}).",
    "rdfs",
]


@given(st.sampled_from(TRANSITIVE), st.booleans(), st.lists(epochs, min_size=1, max_size=8))
def test_transitive_relations_are_the_least_fixpoint(text, shows_static, drawn):
    """These join only generators with all facts."""
    model = Model(read_rules(text), shows_static=shows_static)
    for static, arrived, killed, step, is_kept in drawn:
        model.run(static, arrived, killed, model.time + step, is_kept)


@pytest.mark.parametrize("text", TRANSITIVE[:-1])
@pytest.mark.parametrize("seed", range(60 if SOAK else 4))
def test_edges_of_paths_come_and_go(text, seed):
    """More nodes than Hypothesis likes: what a deletion doubts is often still supported by longer
    paths, or by another rule.
    """
    run_edges(text, seed)


@pytest.mark.parametrize("text", TRANSITIVE[:-1])
@pytest.mark.parametrize("seed", range(40 if SOAK else 2))
def test_small_arrays_and_numbers_change_nothing(text, seed, monkeypatch):
    """Every array outgrows its size again and again, and buckets are numbered anew all the time."""
    sizes = {
        "FIRST_FACTS": 2, "FIRST_BUCKETS": 1, "FIRST_HEADS": 16, "MANY_FACTS": 4,
        "MOST_KEPT_OUT": 8, "MOST_BUCKETS": 2,
    }  # fmt: skip
    for name, size in sizes.items():
        monkeypatch.setattr(closure_module, name, size)
    run_edges(text, seed)


def test_a_new_statement_restores_what_goes_on_from_it():
    """B → c was derived over a ring, and is stated in the epoch that deletes b → a; from then on it
    is the only way from b to a.
    """
    a, b, c, d = TERMS[0], TERMS[1], TERMS[2], "<u:0>"
    model = Model(read_rules(PATHS), shows_static=True)
    model.run([(1, (b, P, a)), (1, (c, P, a)), (1, (d, P, c))], [(a, P, d)], [], 0, True)
    model.run([(-1, (b, P, a))], [(b, P, c)], [], 0, True)


def test_numbering_buckets_anew_keeps_expiry_free(monkeypatch):
    """A triple stated again before it leaves, while numbers begin again: nothing is doubted,
    as long as all that goes has left its window.
    """
    monkeypatch.setattr(closure_module, "FIRST_BUCKETS", 1)
    monkeypatch.setattr(closure_module, "MOST_BUCKETS", 2)
    model = Model(read_rules(PATHS), shows_static=True)
    edges = [(TERMS[at], P, TERMS[at + 1]) for at in range(len(TERMS) - 1)]
    for time in range(1, 40):
        model.run([], [edges[time % len(edges)], edges[time % 2]], [], time, True)
    assert model.closure.measure()["retracted"] == 0


def run_edges(text: str, seed: int) -> None:
    random = Random(seed)
    nodes = [*TERMS, *(f"<u:{number}>" for number in range(3))]
    model = Model(read_rules(text), shows_static=True)
    for _ in range(25):
        static = []
        for _ in range(random.randrange(3)):
            there = [triple for triple, count in model.static.items() if count > 0]
            if there and random.random() < 0.5:
                static.append((-1, random.choice(there)))
            else:
                edge = random.choice(nodes), random.choice((P, P, Q)), random.choice(nodes)
                static.append((1, edge))
        arrived = [
            (random.choice(nodes), random.choice((P, Q)), random.choice(nodes))
            for _ in range(random.randrange(3))
        ]
        killed = [random.randrange(5)] if random.random() < 0.3 else []
        step, is_kept = random.choice([0, 1, 1, 2]), random.random() < 0.9
        model.run(static, arrived, killed, model.time + step, is_kept)


def test_a_chain_needs_no_join_of_all_with_all():
    model = Model(read_rules(PATHS), shows_static=True)
    size = 40
    edges = [(f"<u:{at}>", P, f"<u:{at + 1}>") for at in range(size)]
    rows = model.encode([(1, edge) for edge in edges])
    model.closure.change(rows)
    model.closure.keep()
    figures = model.closure.measure()
    assert figures["facts"] == size * (size + 1) // 2
    assert figures["joined"] < 2 * figures["facts"]  # all with all are about 10,000
    model.closure.change(model.encode([(-1, edges[size // 2])]))
    model.closure.keep()
    after = model.closure.measure()
    assert after["facts"] == size * size // 4
    # Each doubted fact asks for one generator; it would meet up to forty facts otherwise.
    assert after["joined"] - figures["joined"] < 4 * after["retracted"]


def test_arrays_grow_in_the_middle_of_an_epoch():
    """A chain long enough that facts, chains and the heap outgrow their arrays while rules run."""
    rules = read_rules("TE(X, <u:p>, Z) :- TE(X, <u:p>, Y), TE(Y, <u:p>, Z).")
    ids = Ids()
    closure = Closure(write_program(rules, ids.encode), lambda more: None)
    rows = [
        (1, ids.encode(f"t{n}"), ids.encode("<u:p>"), ids.encode(f"t{n + 1}")) for n in range(60)
    ]
    change = closure.change(np.array(rows, np.int64))
    assert len(change.rows) == 60 * 61 // 2
    closure.keep()
    assert closure.measure()["facts"] == 60 * 61 // 2
    middle = [(-1, *rows[30][1:])]
    change = closure.change(np.array(middle, np.int64))
    assert len(change.rows) == 31 * 30
    closure.undo()
    assert len(closure.read_shown()) == 60 * 61 // 2


def test_more_statements_than_can_be_counted_change_nothing():
    ids = Ids()
    closure = Closure(write_program(read_rules(PATHS), ids.encode), lambda more: None)
    triple = ids.encode("<u:s>"), ids.encode(P), ids.encode("<u:o>")
    closure.change(np.array([(2**31 - 2, *triple)]))
    closure.keep()
    with pytest.raises(OverflowError, match="2\\*\\*31"):
        closure.change(np.array([(1, *triple), (1, *triple)]))
    closure.undo()
    assert closure.count(*triple) == 2**31 - 2
    closure.change(np.array([(1, *triple)]))
    closure.keep()
    assert closure.read_stated().tolist() == [[2**31 - 1, *triple]]


def test_refusal_of_room_leaves_nothing():
    """What `check_room` raises ends the epoch; undone, the closure is as before."""
    rules = read_rules("TE(X, <u:p>, Z) :- TE(X, <u:p>, Y), TE(Y, <u:p>, Z).")
    ids = Ids()
    limit = [1 << 40]

    def check(more):
        if more > limit[0]:
            raise MemoryError

    closure = Closure(write_program(rules, ids.encode), check)

    def chain(first, end):
        p = ids.encode("<u:p>")
        rows = [(1, ids.encode(f"t{n}"), p, ids.encode(f"t{n + 1}")) for n in range(first, end)]
        return np.array(rows, np.int64)

    closure.change(chain(0, 20))
    closure.keep()
    before = sorted(closure.read_shown().tolist())
    limit[0] = 0
    try:
        closure.change(chain(20, 200))
    except MemoryError:
        closure.undo()
    else:
        raise AssertionError("no array had to grow")
    assert sorted(closure.read_shown().tolist()) == before
    limit[0] = 1 << 40
    assert len(closure.change(chain(20, 25)).rows) == 25 * 26 // 2 - 20 * 21 // 2
    closure.keep()
