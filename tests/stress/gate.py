"""One random life of an engine: queries come and go, epochs of any kind, all against the oracle.

Among the epochs are some that fail (a strict one, one whose updates break off, one that fails as it
is published, one without room), and some whose counts are so large that a query stalls. What fails
leaves everything as it was, and a query that stalls shows its last good epoch until it fits again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from random import Random
from typing import Any, get_args
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from tests.read.places import check_places
from tests.stress.drawing import LABELS, TERMS, draw_text
from tests.stress.standing import FORMS, Standing, read, read_arrow, subtract

from triegs.compiler import legal_plans
from triegs.engine import Engine
from triegs.errors import (
    InvalidUpdate,
    MemoryLimitReached,
    MultiplicityOverflow,
    PlanError,
    StateError,
    UnsupportedQuery,
)
from triegs.jit.jit import COMPILED
from triegs.options import KeepName, ModeName
from triegs.sparql import parse
from triegs.store.packed import SMALLEST_LIMIT, PackedStore
from triegs.store.room import RESERVE_BYTES
from triegs.testing import oracle

#: Options of an engine. Memory that is not reserved moves as it grows.
STORES: dict[str, Any] = {
    "packed": dict,
    "small": lambda: {"store": PackedStore(reserve=False)},
    "limited": lambda: {"memory_limit": SMALLEST_LIMIT},
}
UNSUPPORTED = "SELECT ?v0 { ?v0 <p0> ?v1 OPTIONAL { ?v1 <p0> ?v2 } }"
COLUMNS = ("op", "subject", "predicate", "object")
MOST = 2**63 - 1
#: Of so many events, four or five atoms make a count that does not fit.
LARGE_COUNTS = (7_000, 7_000, 7_000, 60_000) if COMPILED else (7_000,)
FLOOD = 20_000  # triples for which the limit has no room


def has_inserts(batch) -> bool:
    return any(update[0] == "+" for update in batch)


class Planted(Exception):
    """A failure that a test has planned."""


def check_engine(engine: Engine) -> None:
    """Every invariant of the structures."""
    engine._store.check()
    engine._dictionary.check()
    engine._core.views.check()


class Life:
    """An engine, the events that it was told, its queries, and the snapshots that are held."""

    def __init__(
        self, seed: int, mode: ModeName | None = None, store: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.random = random = Random(seed)
        drawn: ModeName = random.choice(get_args(ModeName))
        self.mode = mode or drawn
        self.store = store or random.choice(list(STORES))
        self.has_any_plan = random.random() < 0.5
        self.terms = random.sample(TERMS, random.choice([3, 4, 5]))
        self.labels = random.choice([LABELS, [*LABELS, "<p2>"]])
        self.most = random.randint(4, 10)  # assertions, so that the oracle is quick
        self.engine = Engine(self.mode, **STORES[self.store](), **(options or {}))
        self.counts: Counter[oracle.Triple] = Counter()
        self.large: list[tuple[oracle.Triple, int]] = []  # whose counts are large, and by how much
        self.standing: list[Standing] = []
        self.held: list[tuple[Standing, Any, list]] = []
        self.seen: Counter[str] = Counter()  # what has happened, by name

    # Queries

    def register(self) -> None:
        random, engine = self.random, self.engine
        if random.random() < 0.05:
            self.expect_refusal(UNSUPPORTED)
        text = draw_text(random)
        names = parse(text).variables
        root = random.choice(names).lstrip("?") if names and random.random() < 0.5 else None
        keep: list[KeepName] = random.choice([[], [], ["count"], ["slice"], ["count", "slice"]])
        plans = legal_plans(parse(text), keep=keep, limit=6).plans if self.has_any_plan else []
        any_plan: Any = nullcontext()
        if plans:
            plan = random.choice(plans)
            any_plan = mock.patch("triegs.engine.registration.compile_query", return_value=plan)
        before = engine.epoch, list(engine.queries)
        with any_plan:
            try:
                try:
                    query = engine.register(text, root=root, keep=keep)
                except PlanError:
                    query = engine.register(text, keep=keep)
            except MultiplicityOverflow:
                assert self.is_large, text
                assert (engine.epoch, list(engine.queries)) == before
                self.seen["too large to register"] += 1
                return
            except MemoryLimitReached:
                self.check_full()
                assert (engine.epoch, list(engine.queries)) == before
                return
        one = Standing(query, text)
        one.shown = engine.epoch, None  # it may stall before it is read
        if random.random() < 0.3 and not self.large:
            one.subscribe(random)
        self.standing.append(one)
        self.seen[query.plan.plan_class.value] += 1

    def expect_refusal(self, text: str) -> None:
        before = self.engine.epoch, list(self.engine.queries)
        with pytest.raises(UnsupportedQuery):
            self.engine.register(text)
        assert (self.engine.epoch, list(self.engine.queries)) == before

    def close_one(self) -> None:
        if self.standing:
            self.standing.pop(self.random.randrange(len(self.standing))).close()

    # Epochs

    def draw_batch(self):
        random = self.random
        batch = []
        live = list(self.counts)
        for _ in range(random.choice([0, 1, 1, 2, 3, 5])):
            if live and random.random() < (0.75 if len(live) >= self.most else 0.3):
                batch.append(("-", *random.choice(live)))
            else:
                s, o = random.choice(self.terms), random.choice(self.terms)
                batch.append((random.choice("++++-"), s, random.choice(self.labels), o))
        return batch

    def apply(self, batch) -> None:
        updates = batch
        if self.random.random() < 0.1 and batch:
            columns = zip(*batch, strict=True)
            updates = pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)))
        epoch = self.engine.epoch
        report = self.send(updates, has_inserts(batch))
        assert report.epoch == self.engine.epoch > epoch
        assert [place for place, _ in report.refused] == oracle.apply_batch(self.counts, batch)

    def send(self, updates, inserts: bool, *, strict: bool = False):
        """Apply an epoch. If it inserts, held epochs may leave no room for it: then it changes
        nothing, and fits as soon as they are let go.
        """
        epoch = self.engine.epoch
        try:
            report = self.engine.apply(updates, strict=strict)
        except MemoryLimitReached:
            assert inserts  # deletions are never refused
            assert self.engine.epoch == epoch
            self.check_full()
            while self.held:
                self.let_go(self.held.pop())
            for one in [one for one in self.standing if one.subscription is not None]:
                self.standing.remove(one)  # each unread step holds an epoch
                one.close()
            epoch = self.engine.epoch  # closing queries takes epochs too
            report = self.engine.apply(updates, strict=strict)
        assert report.epoch == epoch + 1 == self.engine.epoch
        return report

    def check_full(self) -> None:
        """What is live and retained leaves less than a tenth of the limit, besides the reserve
        that inserts must not use.
        """
        assert self.store == "limited"
        found = self.engine.metrics()
        used = found["live_bytes"] + found["shared_bytes"] + found["retained_bytes"]
        assert used + RESERVE_BYTES > 0.9 * SMALLEST_LIMIT, found
        assert found["retained_bytes"] > found["live_bytes"], found
        self.seen["held epochs leave no room"] += 1

    def fail(self) -> None:
        """An epoch that must not be, one way or another; then it is as if it had never begun."""
        random, engine = self.random, self.engine
        batch = self.draw_batch()
        epoch = engine.epoch
        way = random.choice(["strict", "broken", "unpublished"])
        if way == "strict":
            refused = oracle.apply_batch(self.counts, batch, strict=True)
            if refused:
                with pytest.raises((InvalidUpdate, MemoryLimitReached)) as caught:
                    engine.apply(batch, strict=True)
                if caught.type is MemoryLimitReached:
                    assert has_inserts(batch)
                    self.check_full()
            else:
                self.send(batch, has_inserts(batch), strict=True)
                epoch = engine.epoch
        elif way == "broken":

            def break_off():
                yield from batch
                raise Planted

            with pytest.raises(Planted):
                engine.apply(break_off())
        else:
            with mock.patch.object(engine._store, "publish", side_effect=Planted):
                try:
                    engine.apply(batch)
                except Planted:
                    pass
                except MemoryLimitReached:
                    assert has_inserts(batch)
                    self.check_full()
                else:  # a kernel has published it
                    oracle.apply_batch(self.counts, batch)
                    epoch += 1
        assert engine.epoch == epoch
        self.seen[way] += 1

    def flood(self) -> None:
        """More than there is room for, in chains, over labels that queries read."""
        label = self.random.choice(self.labels)
        names = [f"<far{i}>" for i in range(FLOOD + 1)]
        triples = {"subject": names[:-1], "predicate": [label] * FLOOD, "object": names[1:]}
        epoch = self.engine.epoch
        try:
            self.engine.apply(pa.table(triples))
        except MemoryLimitReached:
            assert self.engine.epoch == epoch
            self.seen["no room"] += 1
        else:
            self.engine.apply(pa.table({"op": ["-"] * FLOOD, **triples}))

    @property
    def is_large(self) -> bool:
        """Whether there are counts of which products may not fit."""
        return bool(self.large) and self.mode == "multigraph"

    def grow(self) -> None:
        """Edges from a node to itself, which match most patterns, so often that products of their
        counts do not fit.
        """
        node = self.random.choice(self.terms)
        count = self.random.choice(LARGE_COUNTS)
        self.large = [((node, label, node), count) for label in LABELS]
        self.repeat("+", self.large)

    def shrink(self) -> None:
        if self.large:
            self.repeat("-", self.large)
            self.large = []

    def repeat(self, sign: str, triples) -> None:
        """An epoch with so many events of each; of these some may have been deleted meanwhile."""
        chosen = []
        for triple, wanted in triples:
            count = wanted if sign == "+" else min(wanted, self.counts[triple])
            self.counts[triple] += count if sign == "+" else -count
            chosen.append(count)
        self.counts += Counter()  # which drops what is zero
        places = pa.array(np.repeat(np.arange(len(chosen)), chosen))
        rows = [(sign, *triple) for triple, _ in triples]
        texts = [pa.array(column) for column in zip(*rows, strict=True)]
        if COMPILED:
            columns = [column.take(places) for column in texts]
        else:  # thousands of copies of a text say nothing more about how texts are read
            columns = [pa.DictionaryArray.from_arrays(places, column) for column in texts]
        assert self.send(pa.table(columns, list(COLUMNS)), sign == "+").refused == ()

    # Checks

    def check_answers(self) -> None:
        for one in self.standing:
            expected = oracle.answers(one.question, self.counts, self.mode)
            if self.is_large:
                self.check_large(one, expected)
                continue
            assert one.query.error is None, one.text
            with one.query.snapshot() as snapshot:
                assert snapshot.epoch == self.engine.epoch
                rows = read(snapshot)
                one.check(rows, expected)
                one.shown = snapshot.epoch, rows
                if one.subscription is not None and self.random.random() < 0.5:
                    one.follow(rows)
                self.check_changes(one, snapshot, rows)
                self.check_forms(snapshot, rows)
                self.seen["answers"] += bool(rows)

    def check_large(self, one: Standing, expected) -> None:
        """The right answers; or a count that does not fit, and then the last good epoch's."""
        query, one.was_large = one.query, True
        with query.snapshot() as snapshot:
            if query.error is not None:
                self.seen["stalled"] += 1
                assert isinstance(query.error, MultiplicityOverflow)
                epoch, rows = one.shown
                assert snapshot.epoch == epoch < self.engine.epoch
                assert rows is None or read(snapshot) == rows, one.text
                return
            assert snapshot.epoch == self.engine.epoch
            try:
                rows = read(snapshot)
            except MultiplicityOverflow:
                self.seen["too large to read"] += 1
                # A group has the multiplicity 1, but its aggregates may not fit.
                is_grouped = one.question.keys is not None
                assert is_grouped or max(expected.values(), default=0) > MOST, one.text
                one.shown = snapshot.epoch, None
            else:
                one.check(rows, expected)
                one.shown = snapshot.epoch, rows

    def check_forms(self, snapshot, rows) -> None:
        """Enumeration in every form, positions, counts."""
        assert snapshot.count() == sum(n for _, n in rows)
        chance = self.random.random()
        if chance < 0.25:
            assert self.random.choice(FORMS)(snapshot) == rows
            assert snapshot.support() == len(rows)
        elif chance < 0.5:
            check_places(snapshot, self.random)

    def check_changes(self, one: Standing, snapshot, rows) -> None:
        """What was held plus the changes since is what is there now, and the other way round."""
        for holder, held, old in self.held:
            if holder is not one or self.random.random() < 0.5:
                continue
            if one.is_cut:
                with pytest.raises(StateError):
                    snapshot.diff(held)
                return
            before, after = dict(old), dict(rows)
            if self.random.random() < 0.3:
                self.check_steps(one, held.epoch, subtract(after, before))
            if self.random.random() < 0.3:
                before, after, held, snapshot = after, before, snapshot, held
            found = [(tuple(change), change.change) for change in snapshot.diff(held)]
            assert dict(found) == subtract(after, before), one.text
            assert len(dict(found)) == len(found), one.text
            return

    def check_steps(self, one: Standing, since: int, expected: dict) -> None:
        """The changes from one held epoch to the next add up, if all their counts fit."""
        total: Counter = Counter()
        try:
            with one.query.changes(since=since) as steps:
                for step in steps:
                    for change in step:
                        total[tuple(change)] += change.change
        except MultiplicityOverflow:
            assert one.was_large, one.text
        else:
            assert {row: n for row, n in total.items() if n} == expected, one.text

    def hold(self) -> None:
        random = self.random
        if self.standing and len(self.held) < 8 and random.random() < 0.1 and not self.large:
            one = random.choice(self.standing)
            snapshot = one.query.snapshot()
            self.held.append((one, snapshot, read(snapshot)))
        if self.held and random.random() < 0.05:
            self.let_go(self.held.pop(random.randrange(len(self.held))))

    def let_go(self, held) -> None:
        _, snapshot, rows = held
        assert read(snapshot) == rows
        check_places(snapshot, self.random)
        assert read_arrow(snapshot) == rows
        snapshot.close()

    def end(self) -> None:
        self.shrink()
        while self.held:
            self.let_go(self.held.pop())
        while self.standing:
            self.close_one()
        assert self.engine.metrics()["retained_bytes"] == 0
        assert self.engine.metrics()["pins"] == []
        check_engine(self.engine)
        stores: list[Any] = [self.engine._store, Engine()._store]
        kept, new = ({relation.name for relation in store.members} for store in stores)
        assert kept == new  # nothing is left of any query
        self.apply([("-", *triple) for triple in self.counts.elements()])
        with self.engine.register("ASK { ?s ?p ?o }") as query, query.snapshot() as snapshot:
            assert read(snapshot) == []
        terms = self.engine.metrics()["terms"]
        assert (terms["live"], terms["held"]) == (0, 0)
        assert self.engine.metrics()["entries"] == 0


def run_life(seed: int, epochs: int, check_every: int = 1, life: Life | None = None) -> Life:
    """So many epochs, each compared with the oracle; structures now and then."""
    life = life or Life(seed)
    random = life.random
    pace = 20 / epochs if epochs < 200 else 0.02  # registrations, per epoch
    life.register()
    for number in range(epochs):
        chance = random.random()
        if chance < 0.05:
            life.fail()
        elif chance < 0.06 and life.store == "limited" and COMPILED:
            life.flood()
        elif chance < 0.08 and not life.large:
            life.grow()
        elif life.large and chance < 0.5:
            life.shrink()
        else:
            life.apply(life.draw_batch())
        if len(life.standing) < 3 and random.random() < 3 * pace:
            life.register()
        elif random.random() < pace:
            life.close_one()
        life.check_answers()
        life.hold()
        if number % check_every == 0:
            check_engine(life.engine)
    life.end()
    return life
