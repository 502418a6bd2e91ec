"""A stream of ever-fresh terms runs in bounded memory."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

from triegs import Engine, Window

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
EVENTS = 10_000_000 if SOAK else 60_000
BATCH, WIDTH = 500, 1_000  # sixty windows: ids of terms are then as scattered as they get
LABELS = ["<http://ex/a>", "<http://ex/b>"]


def make_events(start: int, fresh_labels: bool, has_ids: bool) -> pa.Table:
    numbers = np.arange(start, start + BATCH)
    if fresh_labels:
        predicates = pa.array([f"<http://ex/p{n}>" for n in numbers // 50])
    else:
        places = pa.array(numbers % 2, pa.int32())
        predicates = pa.DictionaryArray.from_arrays(places, pa.array(LABELS))
    table = pa.table({
        "time": numbers, "subject": [f"<http://ex/s{n}>" for n in numbers],
        "predicate": predicates, "object": numbers + numbers % 2, "id": numbers,
    })  # fmt: skip
    return table if has_ids else table.drop_columns(["id"])


@pytest.mark.parametrize("fresh_labels", [False, True])
@pytest.mark.parametrize("has_ids", [False, True])
def test_memory_is_bounded(fresh_labels, has_ids):
    """With ids and without."""
    engine = Engine(window=Window(WIDTH, slide=100))
    query = engine.register(f"SELECT * {{ ?x {LABELS[0]} ?y . ?y {LABELS[1]} ?z }}")
    wild = engine.register("ASK { ?x ?p ?x }") if fresh_labels else query
    sizes = []
    for start in range(0, EVENTS, BATCH):
        engine.push(make_events(start, fresh_labels, has_ids))
        engine.advance()
        found = engine.metrics()
        terms, windows = found["terms"], found["windows"]
        sizes.append((terms["bytes"], windows["bytes"], found["live_bytes"] + found["debt_bytes"]))
    assert engine._windows.publisher.at_once.count > 0
    half = len(sizes) // 2
    before, after = np.max(sizes[:half], axis=0), np.max(sizes[half:], axis=0)
    assert (after <= 1.1 * before).all(), sizes
    wild.close()
    query.close()
    engine.close_stream()
    assert engine.metrics()["windows"]["pending"] == 0


def test_ids_are_freed_although_all_terms_stay():
    with Engine(window=Window(1_000, slide=500)) as engine:
        for start in range(0, 20_000, 1_000):
            times = range(start, start + 1_000)
            engine.push([(n, 1, LABELS[0], n % 3, "+", f"event {n}") for n in times])
            engine.advance()
        found = engine._windows.identities.metrics()
        assert found.live + found.limbo < 4_000
