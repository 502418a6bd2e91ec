"""The same code as plain Python, and compiled with every index checked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
from random import Random
from triegs.jit.jit import BOUNDS_CHECKED, COMPILED
from triegs.store.kernels.free import join_runs
from triegs.store.packed import SMALLEST_LIMIT, PackedStore
from triegs.testing.plain_store import PlainStore

print(COMPILED, BOUNDS_CHECKED)
random = Random(3)
for arity in range(5):
    packed, plain = PackedStore(), PlainStore()
    pairs = [(packed, packed.create("r", arity)), (plain, plain.create("r", arity))]
    held = []
    keys = []
    for step in range(12):
        for _ in range(random.choice([1, 40])):
            wide = random.random() < 0.5
            key = tuple(random.randrange(2**31 if wide else 3) for _ in range(arity - 1))
            if arity:
                key += (random.choice([random.randrange(2**31), random.randrange(200)]),)
            if keys and random.random() < 0.5:
                key = random.choice(keys)
            keys.append(key)
            count = random.choice([0, 1, 2**63 - 1, -(2**63)])
            assert len({relation.set(key, count) for _, relation in pairs}) == 1
        if random.random() < 0.2:
            packed.abort(), plain.abort()
        versions = [store.publish() for store, _ in pairs]
        if step % 3 == 0:
            held.append([store.pin() for store, _ in pairs])
        packed.check()
        for versions in [versions, *held]:
            rows = [dict(v.scan(r)) for v, (_, r) in zip(versions, pairs)]
            assert rows[0] == rows[1]
            for key in keys[:5]:
                assert len({v.get(r, key) for v, (_, r) in zip(versions, pairs)}) == 1
    random.shuffle(held)
    for versions in held:
        for version, (store, _) in zip(versions, pairs):
            store.unpin(version)
        packed.check()
    assert packed.statistics().retained_bytes == 0

# Near a limit: free words are joined and cut, and nodes move.
packed = PackedStore(memory_limit=SMALLEST_LIMIT)
relation = packed.create("r", 2)
for shape in range(3):
    keys = [[(n, 1), (7, 5 * n), (n // 13, n % 13)][shape] for n in range(1_500)]
    for key in keys:
        relation.set(key, 2)
    packed.publish()
    random.shuffle(keys)
    packed.lift_limit()
    for key in keys[200:]:
        relation.set(key, 0)
    packed.publish()
    packed.restore_limit()
    join_runs(packed.words)
    packed.check()
    assert packed._compact(again=True)
    packed.check()
    assert sorted(relation.scan()) == [(key, 2) for key in sorted(keys[:200])]
    packed.clear(relation)
    packed.publish()
print("same")
"""


SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
# To compile kernels once more takes longer than anything else here.
CHECKED = [("NUMBA_BOUNDSCHECK", "True True")] if SOAK else []


@pytest.mark.parametrize(("switch", "expected"), [("NUMBA_DISABLE_JIT", "False False"), *CHECKED])
def test_same_answers(switch: str, expected: str) -> None:
    others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**others, switch: "1"}, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [expected, "same"]
