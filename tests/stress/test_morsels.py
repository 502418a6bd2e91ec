"""The gate with several workers: every scheduler, and workers that meet in ever new ways.

Terms get ids far apart, so that they are of different stripes although they are few.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.stress.gate import Life, run_life

from triegs.engine import Engine
from triegs.errors import MemoryLimitReached
from triegs.maintain.schedulers import BY_NAME

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
EPOCHS, CHECK_EVERY = (2_000, 50) if SOAK else (30, 5)
SOAK_SECONDS = 600
#: Ids between two terms; blocks of stripes have 32, then 1,024.
APART = (0, 40, 1100)
_fillers = count(10**15)


class PooledLife(Life):
    """A life with several workers, of which each epoch wants all."""

    def __init__(self, seed: int, workers: int, scheduler: str, store: str | None = None) -> None:
        random = Random(seed)
        store = store or random.choice(["packed", "packed", "packed", "limited"])
        options: dict[str, Any] = {"workers": workers, "scheduler": scheduler}
        super().__init__(seed, store=store, options=options)
        self.worker_pool = self.engine._core.worker_pool
        assert self.worker_pool is not None
        if scheduler == "adaptive":  # it would leave epochs of this size to one worker
            chance = Random(seed)
            setattr(self.worker_pool, "wants", lambda *_: chance.random() < 0.6)  # noqa: B010
        if scheduler == "numa":  # as if there were two nodes
            self.worker_pool.nodes = [number % 2 for number in range(workers)]
        if random.random() < (0.7 if SOAK else 0.4):
            self.worker_pool.waste_time(1 + random.randrange(1000))
        self.fillers = self.spread(random.choice(APART))

    def spread(self, apart: int) -> list[int]:
        """Use up ids but for every so many, which the terms of this life will get; returns those
        that are used.
        """
        dictionary = self.engine._dictionary
        ids = dictionary.encode_terms([next(_fillers) for _ in range(8 * apart)])
        dictionary.acquire(ids)
        if apart:
            dictionary.release(ids[::apart])
            dictionary.collect(self.engine.epoch + 1)
        return [each for number, each in enumerate(ids) if apart and number % apart]

    def end(self) -> None:
        self.engine._dictionary.release(self.fillers)
        super().end()


def live(seed: int, epochs: int) -> PooledLife:
    """A life of which the seed says how many workers there are, and who schedules them."""
    schedulers = list(BY_NAME)
    life = PooledLife(seed, 2 + seed % 7, schedulers[seed % len(schedulers)])
    run_life(seed, epochs, CHECK_EVERY, life)
    return life


@pytest.mark.parametrize("seed", range(140 if SOAK else 10))
def test_every_epoch_equals_the_oracle(seed):
    life = live(seed, EPOCHS)
    assert life.worker_pool is not None
    # Of a limit as small as that, no other worker gets its share.
    assert life.store == "limited" or life.worker_pool.epochs > EPOCHS // 8


def test_every_scheduler_and_number_of_workers_is_drawn():
    drawn = {(2 + seed % 7, seed % len(BY_NAME)) for seed in range(35)}
    assert len(drawn) == 7 * len(BY_NAME)


def make_table(sign: str, edges: np.ndarray) -> pa.Table:
    labels = pa.DictionaryArray.from_arrays(edges[:, 1].astype(np.int32), ["<p0>", "<p1>"])
    columns = [pa.array([sign] * len(edges)), edges[:, 0], labels, edges[:, 2]]
    return pa.table(columns, ["op", "subject", "predicate", "object"])


def test_near_the_memory_limit_one_worker_goes_on():
    """What does not fit is refused as it is with one worker, and changes nothing; deletions fit."""
    engine = Engine(workers=2, scheduler="prefix", memory_limit=2_500_000)
    text = "SELECT * { ?x <p0> ?y . ?y <p1> ?z }"
    query, pool = engine.register(text), engine._core.worker_pool
    assert pool is not None
    random, refused = np.random.default_rng(1), 0
    live = np.empty((0, 3), np.int64)
    for number in range(60):
        if number % 4 == 3:
            random.shuffle(live)
            engine.apply(make_table("-", live[:2_000]))
            live = live[2_000:]
        else:
            new = random.integers(0, 4_000, (6_000, 3)) % [4_000, 2, 4_000]
            try:
                engine.apply(make_table("+", new))
                live = np.concatenate([live, new])
            except MemoryLimitReached:
                refused += 1
        if number % 6 == 5:
            engine._store.check()
    assert refused > 1
    assert pool.epochs > 1
    other = Engine()
    twin = other.register(text)
    other.apply(make_table("+", live))
    with query.snapshot() as found, twin.snapshot() as expected:
        assert Counter(map(str, found)) == Counter(map(str, expected))
    engine.close()


@pytest.mark.skipif(not SOAK, reason="ten minutes, in make soak")
def test_workers_that_meet_in_ever_new_ways():
    started, seed = time.monotonic(), 10_000
    while time.monotonic() - started < SOAK_SECONDS:
        live(seed, 200)
        seed += 1
