"""One random life of an engine: queries come and go, epochs of any kind, all against the oracle."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import Any, get_args
from unittest import mock

import pyarrow as pa
import pytest
from tests.maintain.graph import random_tree
from tests.property.random_queries import query_text, random_query, with_filters
from tests.read.places import check_places

from triegs.compiler import compile_query, legal_plans
from triegs.compiler.plan import PlanClass
from triegs.engine import Engine
from triegs.errors import PlanError, StateError, UnsupportedQuery
from triegs.maintain.compiled import CompiledCore
from triegs.options import KeepName, ModeName
from triegs.sparql import parse
from triegs.store.packed import PackedStore
from triegs.store.plain import PlainStore
from triegs.testing import oracle

STORES: dict[str, Any] = {
    "packed": PackedStore,
    "small": lambda: PackedStore(reserve=False),
    "plain": PlainStore,
}
AGGREGATE = "SELECT ?v0 (COUNT(*) AS ?n) { ?v0 <p0> ?v1 } GROUP BY ?v0"
TRIANGLE = "SELECT * { ?x <p0> ?y . ?y <p0> ?z . ?z <p1> ?x }"


def random_text(random: Random) -> str:
    """A query of every class that the engine runs, and now and then one that it refuses."""
    query = random_tree(random)
    while random.random() < 0.5:
        query = with_filters(random, random_query(random))
    if random.random() < 0.2:  # an atom beside another, over the same variables
        atom = random.choice(query.atoms)
        label = f"<p{random.randrange(2)}>"
        query = replace(query, atoms=(*query.atoms, atom._replace(predicate=label)))
    if len(query.atoms) > 4 or len(query.variables) > 5:
        return random_text(random)
    text = query_text(query)
    if random.random() < 0.2 and query.variables:
        block = f"VALUES {random.choice(query.variables)} {{ <c0> <c1> <c1> }} }}"
        if len(query.variables) > 1 and random.random() < 0.3:
            names = " ".join(random.sample(query.variables, 2))
            block = f"VALUES ({names}) {{ (<c0> <c1>) (<c2> <c2>) (<c0> <c1>) }} }}"
        text = text.removesuffix("}") + block
    if query.head and random.random() < 0.15:
        text = text.replace("SELECT", "SELECT DISTINCT", 1)
    if query.head and random.random() < 0.15:
        text += f" OFFSET {random.randrange(4)}" if random.random() < 0.6 else ""
        text += f" LIMIT {random.randrange(6)}" if random.random() < 0.8 else ""
    return text


class Standing:
    """A registered query with its oracle, and what its text cuts off."""

    def __init__(self, query, text: str) -> None:
        self.query = query
        self.text = text
        self.question = oracle.read_query(text)
        self.cut = self.question.offset, self.question.limit
        self.question.offset, self.question.limit = 0, None

    def check(self, rows, counts, mode: str) -> None:
        """The rows are the oracle's; where LIMIT or OFFSET cut, as many of them as must be."""
        expected = oracle.answers(self.question, counts, mode)
        found = dict(rows)
        assert len(found) == len(rows), self.text
        if self.cut == (0, None):
            assert found == expected, self.text
            return
        offset, limit = self.cut
        left = max(0, sum(expected.values()) - offset)
        assert sum(found.values()) == (left if limit is None else min(left, limit)), self.text
        assert all(0 < n <= expected.get(row, 0) for row, n in found.items()), self.text


def read(snapshot):
    return [(tuple(answer), answer.multiplicity) for answer in snapshot]


def read_arrow(snapshot):
    columns = [column.to_pylist() for column in snapshot.to_arrow().columns]
    return [(tuple(row), n) for *row, n in zip(*columns, strict=True)]


class Life:
    """An engine, the events that it was told, its queries, and the snapshots that are held."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.mode: ModeName = random.choice(get_args(ModeName))
        self.store = random.choice(list(STORES))
        self.has_any_plan = random.random() < 0.5
        self.nodes, self.labels = random.choice([(3, 2), (4, 2), (3, 3), (5, 2)])
        self.most = random.randint(4, 7)  # assertions, so that the oracle is quick
        self.engine = Engine(self.mode, store=STORES[self.store]())
        self.counts: Counter[oracle.Triple] = Counter()
        self.standing: list[Standing] = []
        self.held: list = []

    def register(self) -> None:
        random, engine = self.random, self.engine
        if random.random() < 0.1:
            self.expect_refusal(random.choice([AGGREGATE, TRIANGLE]))
        text = random_text(random)
        plan_class = compile_query(parse(text)).plan_class
        if plan_class is PlanClass.CYCLIC:
            self.expect_refusal(text)
            return
        names = parse(text).variables
        root = random.choice(names).lstrip("?") if names and random.random() < 0.5 else None
        keep: list[KeepName] = random.choice([[], [], ["count"], ["slice"], ["count", "slice"]])
        plans = legal_plans(parse(text), keep=keep, limit=6).plans if self.has_any_plan else []
        any_plan: Any = nullcontext()
        if plans:
            plan = random.choice(plans)
            any_plan = mock.patch("triegs.engine.compile_query", return_value=plan)
        with any_plan:
            try:
                query = engine.register(text, root=root, keep=keep)
            except PlanError:
                query = engine.register(text, keep=keep)
        self.standing.append(Standing(query, text))

    def expect_refusal(self, text: str) -> None:
        epoch, names = self.engine.epoch, list(self.engine.queries)
        try:
            self.engine.register(text)
        except UnsupportedQuery:
            assert (self.engine.epoch, list(self.engine.queries)) == (epoch, names)
        else:
            raise AssertionError(f"not refused: {text}")

    def close_one(self) -> None:
        if self.standing:
            self.standing.pop(self.random.randrange(len(self.standing))).query.close()

    def draw_batch(self):
        random = self.random
        batch = []
        live = list(self.counts)
        for _ in range(random.choice([0, 1, 1, 2, 3, 5])):
            if live and random.random() < (0.75 if len(live) >= self.most else 0.3):
                batch.append(("-", *random.choice(live)))
            else:
                s, o = random.randrange(self.nodes), random.randrange(self.nodes)
                triple = f"<c{s}>", f"<p{random.randrange(self.labels)}>", f"<c{o}>"
                batch.append((random.choice("++++-"), *triple))
        return batch

    def apply(self, batch) -> None:
        updates = batch
        if self.random.random() < 0.1 and batch:
            columns = zip(*batch, strict=True)
            names = ("op", "subject", "predicate", "object")
            updates = pa.table(dict(zip(names, map(list, columns), strict=True)))
        epoch = self.engine.epoch
        report = self.engine.apply(updates)
        assert report.epoch == epoch + 1 == self.engine.epoch
        assert [place for place, _ in report.refused] == oracle.apply_batch(self.counts, batch)

    def check_answers(self) -> None:
        for one in self.standing:
            with one.query.snapshot() as snapshot:
                assert snapshot.epoch == self.engine.epoch
                rows = read(snapshot)
                one.check(rows, self.counts, self.mode)
                self.check_changes(one, snapshot, rows)
                assert snapshot.count() == sum(n for _, n in rows)
                chance = self.random.random()
                if chance < 0.1:
                    assert read(snapshot) == rows
                    assert snapshot.support() == len(rows)
                elif chance < 0.2:
                    assert read_arrow(snapshot) == rows
                elif chance < 0.5:
                    check_places(snapshot, self.random)

    def check_changes(self, one: Standing, snapshot, rows) -> None:
        """What was held plus the changes since is what is there now, and the other way round."""
        for held, old in self.held:
            if held._reader.plan is not one.query.plan or self.random.random() < 0.5:
                continue
            if one.cut != (0, None):
                with pytest.raises(StateError):
                    snapshot.diff(held)
                continue
            before, after = dict(old), dict(rows)
            if self.random.random() < 0.3:
                before, after, held, snapshot = after, before, snapshot, held
            found = [(tuple(change), change.change) for change in snapshot.diff(held)]
            changes = {
                row: after.get(row, 0) - before.get(row, 0) for row in before.keys() | after.keys()
            }
            assert dict(found) == {row: n for row, n in changes.items() if n}, one.text
            assert len(dict(found)) == len(found), one.text
            return

    def check_structure(self) -> None:
        engine = self.engine
        engine._store.check()
        engine._dictionary.check()
        if isinstance(engine._core, CompiledCore):
            engine._core.parts.check()

    def hold(self) -> None:
        random = self.random
        if self.standing and len(self.held) < 8 and random.random() < 0.1:
            snapshot = random.choice(self.standing).query.snapshot()
            self.held.append((snapshot, read(snapshot)))
        if self.held and random.random() < 0.05:
            self.let_go(self.held.pop(random.randrange(len(self.held))))

    def let_go(self, held) -> None:
        snapshot, rows = held
        assert read(snapshot) == rows
        check_places(snapshot, self.random)
        assert read_arrow(snapshot) == rows
        snapshot.close()

    def end(self) -> None:
        while self.held:
            self.let_go(self.held.pop())
        assert self.engine.metrics()["retained_bytes"] == 0
        assert self.engine.metrics()["pins"] == []
        while self.standing:
            self.close_one()
        self.check_structure()
        store = self.engine._store
        if isinstance(store, PackedStore):
            assert {relation.name for relation in store.members} == {"rest"}
        self.apply([("-", *triple) for triple in self.counts.elements()])
        with self.engine.register("ASK { ?s ?p ?o }") as query, query.snapshot() as snapshot:
            assert read(snapshot) == []
        terms = self.engine.metrics()["terms"]
        assert (terms["live"], terms["held"]) == (0, 0)
        assert self.engine.metrics()["entries"] == 0


def run_life(seed: int, epochs: int, check_every: int = 1) -> Life:
    """So many epochs, each compared with the oracle; structures now and then."""
    life = Life(seed)
    random = life.random
    pace = 20 / epochs if epochs < 200 else 0.02  # registrations, per epoch
    life.register()
    for number in range(epochs):
        life.apply(life.draw_batch())
        if len(life.standing) < 2 and random.random() < 3 * pace:
            life.register()
        elif random.random() < pace:
            life.close_one()
        life.check_answers()
        life.hold()
        if number % check_every == 0:
            life.check_structure()
    life.end()
    return life
