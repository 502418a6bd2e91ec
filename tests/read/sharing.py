"""Engines in shared memory and their handles, for tests."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any

from triegs import (
    Engine,
    SnapshotHandle,
    StandingQuery,
)

P, Q = "<http://ex/p>", "<http://ex/q>"
PAIRS = f"SELECT ?x ?y {{ ?x {P} ?y }}"
PATHS = f"SELECT ?x ?y ?z {{ ?x {P} ?y . ?y {Q} ?z }}"
Triple = tuple[Any, str, Any]
PATIENCE_SECONDS = 20.0


def make_shared(text: str = PAIRS, rows: int = 100, **options: Any) -> tuple[Engine, StandingQuery]:
    engine = Engine(shared_memory=True, **options)
    query = engine.register(text)
    engine.apply([("+", number, P, f"<http://ex/{number}>") for number in range(rows)])
    return engine, query


def share(query: StandingQuery, **options: Any) -> SnapshotHandle:
    with query.snapshot() as snapshot:
        return snapshot.share(**options)


def replace_all(engine: Engine, query: StandingQuery, rounds: int = 3) -> None:
    """Change everything, so that what nobody pins is used again."""
    for number in range(rounds):
        with query.snapshot() as snapshot:
            triples = [(row[0], P, row[1]) for row in snapshot]
        engine.apply([("-", *triple) for triple in triples])
        engine.apply([("+", -x, P, f"<http://ex/{number}/{x}>") for x in range(len(triples))])


def wait_until(is_so: Callable[[], bool]) -> None:
    waited = 0.0
    while not is_so():
        assert waited < PATIENCE_SECONDS
        sleep(0.01)
        waited += 0.01


def is_released(engine: Engine) -> bool:
    return engine.metrics()["pins"] == [] and engine._store.held() == []
