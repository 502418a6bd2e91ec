"""The gate: random queries and streams through the engine, against the oracle, epoch by epoch.

Each seed draws a mode, a store, and the planner's plans or any legal ones. In a soak 90 seeds run
10,000 epochs each, and 10 run 500 without compilation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.stress.gate import Life, random_text, read, run_life

from triegs.engine import Engine
from triegs.errors import UnsupportedQuery
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ROOT = Path(__file__).parents[2]
EPOCHS, CHECK_EVERY = (10_000, 50) if SOAK else (60, 1)


@pytest.mark.parametrize("seed", range(90 if SOAK else 12))
def test_every_epoch_equals_the_oracle(seed):
    run_life(seed, EPOCHS, CHECK_EVERY)


@pytest.mark.parametrize(
    "seeds", [range(1000 + at, 1002 + at) for at in range(0, 10 if SOAK else 2, 2)]
)
def test_the_same_without_compilation(seeds):
    epochs, every = (500, 50) if SOAK else (25, 5)
    program = (
        "from triegs.kernels.jit import COMPILED\n"
        "from tests.stress.gate import run_life\n"
        "assert not COMPILED\n"
        f"for seed in {list(seeds)}: run_life(seed, {epochs}, {every})\n"
        "print('same')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stderr


@pytest.mark.parametrize("seed", range(100 if SOAK else 10))
def test_batches_split_joined_and_permuted_give_the_same_state(seed):
    """Joined and split in order always; permuted where no deletion was refused."""
    random = Random(seed)
    life = Life(seed)
    text = random_text(random)
    while "LIMIT" in text or "OFFSET" in text:  # which rows these leave is open
        text = random_text(random)
    texts = [text, "SELECT ?s ?p ?o { ?s ?p ?o }", "SELECT * { ?x <p0> ?y . ?y <p1> ?z }"]
    others = {name: Engine(life.mode) for name in ("split", "joined", "permuted")}
    queries = []
    for text in texts:
        try:
            queries.append([engine.register(text) for engine in (life.engine, *others.values())])
        except UnsupportedQuery:
            continue
    waiting: list = []
    for number in range(200 if SOAK else 40):
        batch = life.draw_batch()
        clean = not oracle.apply_batch(Counter(life.counts), batch)
        life.apply(batch)
        cut = random.randint(0, len(batch))
        for piece in (batch[:cut], batch[cut:]):
            others["split"].apply(piece)
        shuffled = list(batch)
        if clean:
            random.shuffle(shuffled)
            shuffled.sort(key=lambda update: update[0])  # "+" before "-": none is refused now
        report = others["permuted"].apply(shuffled)
        assert not (clean and report.refused)
        waiting += batch
        if number % 5 < 4:
            continue
        others["joined"].apply(waiting)
        waiting.clear()
        for standing in queries:
            found = []
            for query in standing:
                with query.snapshot() as snapshot:
                    found.append(dict(read(snapshot)))
            assert all(each == found[0] for each in found[1:])
    for engine in others.values():
        engine._store.check()
        engine._dictionary.check()
