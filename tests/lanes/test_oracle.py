"""Random lives of lanes: answers against the oracle after every epoch, and epochs, reports and
numbers against one engine that is told the same.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pytest
from tests.stress.drawing import LABELS, TERMS, draw_text

from triegs.engine import Engine
from triegs.errors import InvalidUpdate
from triegs.lanes import Lanes
from triegs.lanes.schedule import Form
from triegs.options import ModeName
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
LIVES = 60 if SOAK else 8
EPOCHS = 60 if SOAK else 24
COLUMNS = ("op", "subject", "predicate", "object")


def read(query):
    with query.snapshot() as snapshot:
        return {tuple(answer): answer.multiplicity for answer in snapshot}


class Life:
    """Lanes, one engine that is told the same, and the counts of all assertions."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.mode: ModeName = random.choice(get_args(ModeName))
        count, threads = random.randint(1, 4), random.randint(1, 3)
        schedule: Any = random.choice(["auto", "auto", *Form])
        self.lanes = Lanes(count, self.mode, threads=threads, schedule=schedule)
        self.engine = Engine(self.mode)
        self.counts: Counter = Counter()
        self.standing: list = []  # text, in lanes, in the engine
        #: Of terms that queries do not name: they make epochs large enough for threads.
        self.ballast = 0

    def register(self) -> None:
        text = draw_text(self.random)
        keep: Any = self.random.choice([(), (), ("count",), ("slice",)])
        pair = [each.register(text, keep=keep) for each in (self.lanes, self.engine)]
        assert pair[0].name == pair[1].name
        self.standing.append((oracle.read_query(text), *pair))

    def close(self) -> None:
        if self.standing:
            for query in self.standing.pop(self.random.randrange(len(self.standing)))[1:]:
                query.close()

    def apply(self) -> None:
        random, batch = self.random, []
        live = list(self.counts)
        for _ in range(random.choice([0, 1, 2, 4])):
            if live and random.random() < 0.4:
                batch.append(("-", *random.choice(live)))
            else:
                triple = random.choice(TERMS), random.choice(LABELS), random.choice(TERMS)
                batch.append((random.choice("+++-"), *triple))
        if random.random() < 0.5:
            self.ballast += 1
            node = f"<ballast{self.ballast}>"
            batch += [("+", node, "<far>", f"<far{n}>") for n in range(80)]
            batch += [("-", node, "<far>", f"<far{n}>") for n in range(80)]
        updates: Any = batch
        if batch and random.random() < 0.3:
            columns = map(list, zip(*batch, strict=True))
            updates = pa.table(dict(zip(COLUMNS, columns, strict=True)))
        elif random.random() < 0.2:
            updates = iter(batch)
        is_strict = random.random() < 0.2
        refused = oracle.apply_batch(Counter(self.counts), batch)
        if is_strict and refused:
            for each in (self.lanes, self.engine):
                with pytest.raises(InvalidUpdate):
                    each.apply(batch, strict=True)
            return
        report = self.lanes.apply(updates, strict=is_strict)
        assert report == self.engine.apply(batch, strict=is_strict)
        assert [place for place, _ in report.refused] == refused
        oracle.apply_batch(self.counts, batch)

    def check(self) -> None:
        assert self.lanes.epoch == self.engine.epoch
        with self.lanes.snapshot() as found:
            assert found.epoch == self.engine.epoch
            for question, query, twin in self.standing:
                snapshot = found[query.name]
                assert snapshot.epoch == self.engine.epoch
                rows = {tuple(answer): answer.multiplicity for answer in snapshot}
                expected = oracle.answers(question, self.counts, self.mode)
                assert rows == read(query)
                if question.limit is None and not question.offset:
                    assert rows == expected == read(twin), query.query.text
                    continue
                # Which rows these are depends on the order of ids, which lanes give by themselves.
                whole = replace(question, offset=0, limit=None)
                every = oracle.answers(whole, self.counts, self.mode)
                for some in (rows, read(twin)):
                    assert sum(some.values()) == sum(expected.values()), query.query.text
                    assert all(count <= every[row] for row, count in some.items())

    def end(self) -> None:
        while self.standing:
            self.close()
        for each in (self.lanes, self.engine):
            each.apply([("-", *triple) for triple in self.counts.elements()])
        for lane in self.lanes._together.lanes:
            assert lane.engine.metrics()["entries"] == 0
            lane.engine._store.check()
            lane.engine._dictionary.check()
            assert lane.engine.metrics()["terms"]["live"] == 0
        self.lanes.close()


@pytest.mark.parametrize("seed", range(LIVES))
def test_lanes_equal_the_oracle_and_one_engine_after_every_epoch(seed):
    life = Life(seed)
    random = life.random
    life.register()
    for number in range(EPOCHS):
        if random.random() < 0.3:
            life.register()
        if random.random() < 0.1:
            life.close()
        life.apply()
        if number and random.random() < 0.1:
            balance(life)
        life.check()
    life.end()


def balance(life: Life) -> None:
    """Moves take epochs, which the engine beside then needs too."""
    names = set(life.lanes.queries)
    for lane in life.lanes._together.lanes:  # whatever was measured
        lane.cost = life.random.random()
    life.lanes.rebalance()
    assert set(life.lanes.queries) == names
    assert len({lane.engine.epoch for lane in life.lanes._together.lanes}) == 1
    while life.engine.epoch < life.lanes.epoch:
        life.engine.apply([])
