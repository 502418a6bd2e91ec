"""Sums of doubles have no history: after any number of inserts and expiries a sum is the correctly
rounded sum of the values that are left, bit by bit.
"""

from __future__ import annotations

import math
import os
from collections import deque
from random import Random

import pyarrow as pa
import pytest

from triegs.engine import Engine
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
EVENTS = 10_000_000 if SOAK else 50_000
STEP, LIVE = 2_000, 5  # events of an epoch, and epochs that live
DOUBLE = "^^<http://www.w3.org/2001/XMLSchema#double>"
TEXT = "SELECT ?x (SUM(?v) AS ?s) (AVG(?v) AS ?a) (COUNT(*) AS ?n) { ?x <u:p> ?v } GROUP BY ?x"
GROUPS = [f"<u:{number}>" for number in range(3)]


def draw_double(random: Random) -> float:
    """Of any exponent, so that most partial sums lose digits if they are rounded."""
    if random.random() < 0.01:
        return random.choice([0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300])
    return math.ldexp(random.uniform(-1, 1), random.choice([0, 1, 60, -60, 300, -300, -1060]))


def draw_batch(random: Random) -> list[tuple[str, float]]:
    return [(random.choice(GROUPS), draw_double(random)) for _ in range(STEP)]


def to_table(batch: list[tuple[str, float]]) -> dict[str, list[str]]:
    return {
        "subject": [group for group, _ in batch],
        "predicate": ["<u:p>"] * len(batch),
        "object": [f'"{value!r}"{DOUBLE}' for _, value in batch],
    }


def check(query, live) -> None:
    expected = {}
    for group in GROUPS:
        values = [value for batch in live for name, value in batch if name == group]
        expected[group] = (math.fsum(values), len(values))
    with query.snapshot() as snapshot:
        found = {}
        for group, total, mean, count in snapshot:
            size = int(count.split('"')[1])
            found[group] = (float(total.split('"')[1]), size)
            # The average of exact values, rounded once, is within one step of this.
            assert math.isclose(float(mean.split('"')[1]), found[group][0] / size, rel_tol=4e-16)
    assert found == expected
    signs = {group: math.copysign(1, total) for group, (total, _) in found.items()}
    assert signs == {group: math.copysign(1, total) for group, (total, _) in expected.items()}


@pytest.mark.parametrize("seed", [1])
def test_deletes_leave_no_trace(seed):
    random = Random(seed)
    engine = Engine("multigraph")
    query = engine.register(TEXT)
    live: deque[list[tuple[str, float]]] = deque()
    for number in range(EVENTS // STEP):
        live.append(draw_batch(random))
        table = to_table(live[-1])
        signs = ["+"] * STEP
        if len(live) > LIVE:
            old = to_table(live.popleft())
            table = {name: column + old[name] for name, column in table.items()}
            signs += ["-"] * STEP
        engine.apply(pa.table({"op": signs, **table}))
        if number % max(1, EVENTS // STEP // 20) == 0:
            check(query, live)
    check(query, live)
    while len(live) > 1:
        old = to_table(live.popleft())
        engine.apply(pa.table({"op": ["-"] * STEP, **old}))
    check(query, live)


@pytest.mark.parametrize("seed", [2])
def test_expiries_leave_no_trace(seed):
    random = Random(seed)
    engine = Engine("multigraph", event_time=EventTime(0))
    query = engine.register(TEXT, window=Window(LIVE, 1))
    live: deque[list[tuple[str, float]]] = deque(maxlen=LIVE)
    for number in range(EVENTS // STEP):
        live.append(draw_batch(random))
        engine.push(pa.table({"time": [number] * STEP, **to_table(live[-1])}))
        engine.advance(number)
        if number % max(1, EVENTS // STEP // 20) == 0:
            check(query, live)
    check(query, live)
