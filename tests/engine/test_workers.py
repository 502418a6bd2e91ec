"""Engines with several workers do what engines with one do: windows, rules, directories, lanes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from triegs import Engine, Lanes, Window
from triegs.errors import StateError
from triegs.read.changes import Changes
from triegs.shared_memory import IS_AVAILABLE

pytestmark = pytest.mark.skipif(not IS_AVAILABLE, reason="workers need Linux")

P, Q = "<u:p>", "<u:q>"
PATH = f"SELECT * {{ ?x {P} ?y . ?y {Q} ?z }}"
ENDS = f"SELECT ?x ?z {{ ?x {P} ?y . ?y {Q} ?z FILTER(?x != ?z) }}"
TOTALS = f"SELECT ?x (SUM(?z) AS ?sum) (MAX(?z) AS ?most) {{ ?x {P} ?y . ?y {Q} ?z }} GROUP BY ?x"
TEXTS = (PATH, ENDS, TOTALS, f"ASK {{ ?x {P} ?x }}")
SHARED: dict[str, Any] = {"workers": 3, "scheduler": "prefix"}


def draw(random: Random, count: int) -> list[tuple[int, str, int]]:
    return [
        (random.randrange(300), random.choice([P, Q]), random.randrange(300)) for _ in range(count)
    ]


def read(engine: Engine | Lanes) -> list[Counter[str]]:
    found = []
    for query in engine.queries.values():
        with query.snapshot() as snapshot:
            found.append(Counter(map(str, snapshot)))
    return found


def count_shared(engine: Engine) -> int:
    return int(engine.metrics()["workers"]["epochs"])


@pytest.mark.parametrize("window", [Window("40ms", slide="10ms"), Window.triples(50)])
def test_windows_slide_as_with_one_worker(window):
    engines = [Engine(window=window, **SHARED), Engine(window=window)]
    for engine in engines:
        for text in TEXTS:
            engine.register(text)
    random = Random(1)
    for start in range(0, 400, 20):
        events = [
            (random.randrange(max(0, start - 5), start + 20), *each) for each in draw(random, 60)
        ]
        found = []
        for engine in engines:
            pushed = engine.push(events)
            slides = engine.advance(start + 10)
            found.append((str(pushed), [each.epoch for each in slides], read(engine)))
        assert found[0] == found[1]
    engines[0]._store.check()
    engines[0]._core.views.check()
    assert count_shared(engines[0]) > 5


def test_rules_derive_as_with_one_worker():
    rules = f"TE(X, {P}, Z) :- TE(X, {P}, Y), TE(Y, {P}, Z)."
    engines = [Engine(rules=rules, **SHARED), Engine(rules=rules)]
    random, live = Random(2), list[tuple[int, str, int]]()
    for engine in engines:
        engine.register(PATH)
    for _ in range(10):
        new = [(s % 40, p, o % 40) for s, p, o in draw(random, 15)]
        gone = [live.pop(random.randrange(len(live))) for _ in range(min(8, len(live)))]
        live += new
        for engine in engines:
            engine.apply([("+", *each) for each in new] + [("-", *each) for each in gone])
        assert read(engines[0]) == read(engines[1])
    assert count_shared(engines[0]) >= 10


def test_a_directory_is_that_of_an_engine_with_one_worker(tmp_path):
    random = Random(3)
    with Engine.open(tmp_path, **SHARED) as engine, Engine() as other:
        for text in TEXTS:
            engine.register(text)
            other.register(text)
        for _ in range(5):
            batch = [("+", *each) for each in draw(random, 100)]
            assert engine.apply(batch).epoch == other.apply(batch).epoch
        expected = read(other)
        assert read(engine) == expected
        assert count_shared(engine) == 5
    with Engine.open(tmp_path) as again:
        assert read(again) == expected
    with Engine.open(tmp_path, **SHARED) as again:
        assert read(again) == expected
        again.checkpoint()
        again.apply([("+", *each) for each in draw(random, 100)])
        again._core.views.check()


def test_changes_and_subscriptions_follow_shared_epochs():
    random = Random(4)
    with Engine(retain_epochs=4, **SHARED) as engine, Engine() as other:
        query, twin = engine.register(ENDS), other.register(ENDS)
        total: Counter[str] = Counter()
        live: list[tuple[int, str, int]] = []
        with query.subscribe() as subscription:
            for _ in range(8):
                new = draw(random, 80)
                gone = [live.pop(0) for _ in range(len(live) // 2)]
                live += new
                batch = [("+", *each) for each in new] + [("-", *each) for each in gone]
                engine.apply(batch)
                other.apply(batch)
                while (event := subscription.poll()) is not None:
                    if isinstance(event, Changes):
                        for change in event:
                            total[str(tuple(change))] += change.change
                with twin.snapshot() as snapshot:
                    expected = Counter({str(tuple(row)): row.multiplicity for row in snapshot})
                assert +total == expected
                assert -total == Counter()


def test_lanes_may_have_workers():
    random = Random(5)
    with Lanes(2, **SHARED) as lanes, Engine() as other:
        for text in (PATH, ENDS):
            lanes.register(text)
            other.register(text)
        for _ in range(4):
            batch = [("+", *each) for each in draw(random, 200)]
            lanes.apply(batch)
            other.apply(batch)
        assert read(lanes) == read(other)


def test_a_snapshot_of_workers_is_shared_with_processes():
    with Engine(**SHARED) as engine:
        query = engine.register(PATH)
        engine.apply([("+", 1, P, 2), ("+", 2, Q, 3)])
        with query.share() as handle, handle.open() as snapshot:
            assert len(list(snapshot)) == 1


def test_other_systems_refuse_workers(monkeypatch):
    monkeypatch.setattr("triegs.engine.engine.IS_AVAILABLE", False)
    with pytest.raises(StateError, match="only Linux"):
        Engine(workers=2)
