"""A random life of an engine with grouped queries, compared with the oracle after every epoch."""

from __future__ import annotations

import logging
from collections import Counter
from random import Random
from typing import Any, get_args

from tests.aggregates.drawing import HUGE, Vocabulary, draw_query
from tests.stress.standing import FORMS, Standing, read, subtract

from triegs.engine import Engine
from triegs.errors import MultiplicityOverflow
from triegs.options import ModeName
from triegs.testing import oracle

logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # it reports ill-typed literals


def check_engine(engine: Engine) -> None:
    """Every invariant of the structures."""
    engine._store.check()
    engine._dictionary.check()
    engine._core.views.check()


class Life:
    """An engine, its events, its queries, and the snapshots that are held."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.random = random = Random(seed)
        self.mode: ModeName = random.choice(get_args(ModeName))
        self.words = Vocabulary(random, options.pop("kinds", []))
        self.engine = Engine(self.mode, **options)
        self.counts: Counter[oracle.Triple] = Counter()
        self.standing: list[Standing] = []
        self.held: list[tuple[Standing, Any, dict]] = []
        self.rows = self.stalls = 0

    def register(self, text: str | None = None) -> None:
        random = self.random
        text = text or draw_query(random)
        before = self.engine.epoch, list(self.engine.queries)
        try:
            one = Standing(self.engine.register(text), text)
        except MultiplicityOverflow:
            assert self.may_overflow, text
            assert (self.engine.epoch, list(self.engine.queries)) == before
            return
        with one.query.snapshot() as snapshot:
            one.shown = snapshot.epoch, read(snapshot)
        if random.random() < 0.5:
            one.subscribe(random)
        self.standing.append(one)

    @property
    def may_overflow(self) -> bool:
        """Whether sums of 64-bit integers may not fit 64 bits."""
        return any(triple[2] in HUGE for triple in self.counts)

    def relate(self) -> None:
        """Another query over the same body."""
        if not self.standing:
            return
        body = self.random.choice(self.standing).text.partition("{")[2].rpartition("}")[0]
        columns = self.random.choice(["(COUNT(*) AS ?n)", "(SUM(?v) AS ?s)", "(MAX(?x) AS ?m)"])
        self.register(f"SELECT {columns} {{ {body} }}")

    def close_one(self) -> None:
        one = self.standing.pop(self.random.randrange(len(self.standing)))
        for held in [each for each in self.held if each[0] is one]:
            self.let_go(held)
        one.close()

    def let_go(self, held: tuple[Standing, Any, dict]) -> None:
        """A held snapshot has not changed."""
        self.held.remove(held)
        _, snapshot, rows = held
        assert dict(read(snapshot)) == rows
        snapshot.close()

    def draw_batch(self) -> list[tuple[str, str, str, str]]:
        random, live = self.random, list(self.counts.elements())
        batch = []
        for _ in range(random.randint(0, 6)):
            if live and random.random() < (0.8 if len(live) > 14 else 0.4):
                batch.append(("-", *live.pop(random.randrange(len(live)))))
            else:
                batch.append((random.choice("++++-"), *self.words.draw_triple()))
        return batch

    def apply(self, batch: list[tuple[str, str, str, str]]) -> None:
        report = self.engine.apply(batch)
        assert [place for place, _ in report.refused] == oracle.apply_batch(self.counts, batch)

    def check(self) -> None:
        for one in self.standing:
            if one.query.error is not None:
                self.check_stalled(one)
                continue
            with one.query.snapshot() as snapshot:
                rows = read(snapshot)
                one.check(rows, oracle.answers(one.question, self.counts, self.mode))
                one.shown = snapshot.epoch, rows
                self.rows += len(rows)
                assert self.random.choice(FORMS)(snapshot) == rows, one.text
                assert snapshot.count() == sum(n for _, n in rows), one.text
                assert snapshot.support() == len(rows), one.text
                if one.subscription is not None and self.random.random() < 0.5:
                    one.follow(rows)
                self.check_changes(one, snapshot, dict(rows))
                if len(self.held) < 4 and self.random.random() < 0.05:
                    self.held.append((one, one.query.snapshot(), dict(rows)))
        if self.held and self.random.random() < 0.1:
            self.let_go(self.random.choice(self.held))

    def check_stalled(self, one: Standing) -> None:
        """A sum does not fit: the query shows its last good epoch."""
        assert isinstance(one.query.error, MultiplicityOverflow), one.text
        assert self.may_overflow, one.text
        self.stalls += 1
        with one.query.snapshot() as snapshot:
            assert (snapshot.epoch, read(snapshot)) == one.shown, one.text

    def check_changes(self, one: Standing, snapshot: Any, rows: dict) -> None:
        """The changes since a held epoch, at once and epoch by epoch."""
        for holder, held, old in self.held:
            if holder is one:
                found = [(tuple(change), change.change) for change in snapshot.diff(held)]
                assert dict(found) == subtract(rows, old), one.text
                assert len(dict(found)) == len(found), one.text
                total: Counter[Any] = Counter()
                with one.query.changes(since=held.epoch) as steps:
                    for step in steps:
                        for change in step:
                            total[tuple(change)] += change.change
                assert {row: n for row, n in total.items() if n} == subtract(rows, old), one.text

    def end(self) -> None:
        while self.held:
            self.let_go(self.held[0])
        check_engine(self.engine)
        while self.standing:
            self.close_one()
        self.apply([("-", *triple) for triple in self.counts.elements()])
        check_engine(self.engine)
        metrics = self.engine.metrics()
        assert (metrics["terms"]["live"], metrics["entries"]) == (0, 0)
        fresh: Any = Engine()._store
        store: Any = self.engine._store
        assert {r.name for r in store.members} == {r.name for r in fresh.members}


def run_life(seed: int, epochs: int, **options: Any) -> Life:
    life = Life(seed, **options)
    life.register()
    for number in range(epochs):
        life.apply(life.draw_batch())
        chance = life.random.random()
        if chance < 0.3 and len(life.standing) < 5:
            life.register()
        elif chance < 0.4:
            life.relate()
        elif chance < 0.45 and len(life.standing) > 1:
            life.close_one()
        life.check()
        if number % 4 == 0:
            check_engine(life.engine)
    life.end()
    return life
