"""The gate: random queries and streams through the engine, against the oracle, epoch by epoch.

Each seed draws a mode, a store, and the planner's plans or any legal ones. In a soak 100 seeds run
10,000 epochs each, and some run fewer without compilation, or with every index checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from tests.stress.drawing import draw_text
from tests.stress.gate import STORES, Life, check_engine, run_life
from tests.stress.standing import Standing, read

from triegs.compiler import compile_query
from triegs.compiler.plan import PlanClass
from triegs.engine import Engine
from triegs.options import ModeName
from triegs.sparql import parse
from triegs.testing import oracle

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
ROOT = Path(__file__).parents[2]
EPOCHS, CHECK_EVERY = (10_000, 50) if SOAK else (60, 1)


@pytest.mark.parametrize("seed", range(100 if SOAK else 12))
def test_every_epoch_equals_the_oracle(seed):
    run_life(seed, EPOCHS, CHECK_EVERY)


#: Uncompiled and with every index checked; to compile everything once more takes minutes.
SWITCHES = ["NUMBA_DISABLE_JIT", *(["NUMBA_BOUNDSCHECK"] if SOAK else [])]


#: Without a soak, short lives that together have everything in `SHORT`. Large counts take seconds
#: here, so only two lives have them, each once, and each time one does not fit.
CHOSEN = (1009, 1066, 1086, 1097, 1113, 1168)
SEEDS = [range(at, at + 2) for at in range(1000, 1010, 2)] if SOAK else [CHOSEN]
SHORT = {
    *get_args(ModeName), *STORES, *(each.value for each in PlanClass), "answers",
    "strict", "broken", "unpublished", "stalled", "too large to register",
}  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("seeds", SEEDS)
def test_the_same_uncompiled_and_with_bounds_checked(switch, seeds):
    epochs, every = (500, 50) if SOAK else (25, 5)
    program = (
        "from triegs.jit.jit import BOUNDS_CHECKED, COMPILED\n"
        "from tests.stress.gate import run_life\n"
        f"assert (COMPILED, BOUNDS_CHECKED) == ({(switch == 'NUMBA_BOUNDSCHECK',) * 2})\n"
        "seen = set()\n"
        f"for seed in {list(seeds)}:\n"
        f"    life = run_life(seed, {epochs}, {every})\n"
        "    seen |= {life.mode, life.store, *life.seen}\n"
        "print('same', *seen, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT,
        env=os.environ | {switch: "1"}, capture_output=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    first, *seen = done.stdout.splitlines() or [""]
    assert first == "same", done.stderr
    assert SOAK or set(seen) >= SHORT, "these seeds no longer have all of it: choose others"


@pytest.mark.parametrize("seed", range(100 if SOAK else 10))
def test_batches_split_joined_and_permuted_give_the_same_state(seed):
    """Joined and split in order always; permuted where no deletion was refused."""
    random = Random(seed)
    life = Life(seed)
    texts = [
        draw_text(random, cuts=False), draw_text(random, cuts=False),
        "SELECT ?s ?p ?o { ?s ?p ?o }", "SELECT * { ?x <p0> ?y . ?y <p1> ?z }",
    ]  # fmt: skip
    others = {name: Engine(life.mode) for name in ("split", "joined", "permuted")}
    engines = (life.engine, *others.values())
    queries = [[engine.register(text) for engine in engines] for text in texts]
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
        check_engine(engine)


def test_queries_of_every_class_are_drawn():
    random = Random(1)
    texts = [draw_text(random) for _ in range(400)]
    classes = Counter(compile_query(parse(text)).plan_class for text in texts)
    assert all(classes[each] > 20 for each in PlanClass), classes
    for construct in (
        "ASK",
        "DISTINCT",
        "LIMIT",
        "FILTER",
        "REGEX",
        "VALUES",
        "?p",
        "GROUP BY",
        "SUM",
    ):
        assert any(construct in text for text in texts), construct


@pytest.mark.parametrize("mode", ["multigraph", "rdf"])
def test_a_life_with_every_failure(mode):
    """Cores, alone and with tails, while epochs fail, find no room, and have counts too large."""
    life = Life(1, mode, "limited")
    edges = "?x <p0> ?y . ?y <p0> ?z . ?z <p0> ?x"
    texts = [
        f"SELECT * {{ {edges} }}",
        f"SELECT ?w {{ {edges} . ?x <p1> ?w . ?z <p1> ?v }}",
        f"ASK {{ {edges} . ?x <p1> ?x FILTER( ?x != ?y ) }}",
        "SELECT ?x ?z { ?x ?p ?y . ?y ?p ?z . ?z <p0> ?w . ?w <p0> ?v }",
    ]
    for text in texts:
        life.standing.append(Standing(life.engine.register(text), text))
    for _ in range(4):
        for step in (*[life.fail] * 6, life.flood, life.grow, life.fail, life.flood, life.shrink):
            step()
            life.check_answers()
        for _ in range(5):
            life.apply(life.draw_batch())
            life.check_answers()
    check_engine(life.engine)
    life.end()
    assert min(life.seen[way] for way in ("strict", "broken", "unpublished")) > 0
    assert life.seen["no room"] == 8
    assert bool(life.seen["stalled"] + life.seen["too large to read"]) == (mode == "multigraph")
