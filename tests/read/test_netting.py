"""Changes between plans of other factors are those between versions of one plan."""

from __future__ import annotations

from random import Random
from unittest import mock

import pytest

from triegs import Engine

P, Q = "<u:p>", "<u:q>"
TEXTS = (
    f"SELECT * {{ ?x {P} ?y . ?y {Q} ?z }}",
    f"SELECT ?x ?z {{ ?x {P} ?y . ?y {Q} ?z }}",
    f"SELECT DISTINCT ?y {{ ?x {P} ?y . ?y {Q} ?z }}",
    f"SELECT ?x ?v {{ ?x {P} ?y . ?u {Q} ?v }}",
    f"SELECT ?x (COUNT(*) AS ?n) {{ ?x {P} ?y . ?y {Q} ?z }} GROUP BY ?x",
    f"ASK {{ ?x {P} ?y . ?y {Q} ?z }}",
)


def list_changes(engine: Engine, since: int) -> list[dict[str, int]]:
    found = []
    for query in engine.queries.values():
        with query.snapshot() as snapshot, query.changes(since=since) as steps:
            total: dict[str, int] = {}
            for step in steps:
                for change in step:
                    key = str(tuple(change))
                    total[key] = total.get(key, 0) + change.change
            assert snapshot.epoch == engine.epoch
        found.append({key: change for key, change in total.items() if change})
    return found


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_find_the_same_changes(seed):
    random, live = Random(seed), list[tuple[int, str, int]]()
    with Engine(retain_epochs=5) as engine:
        for text in TEXTS:
            engine.register(text)
        for _ in range(8):
            new = [(random.randrange(9), random.choice([P, Q]), random.randrange(9))
                   for _ in range(random.randrange(9))]  # fmt: skip
            gone = [live.pop(random.randrange(len(live))) for _ in range(len(live) // 2)]
            live += new
            engine.apply([("+", *each) for each in new] + [("-", *each) for each in gone])
            since = max(engine.epoch - random.randint(1, 4), 6)
            expected = list_changes(engine, since)
            with mock.patch("triegs.read.differences.have_equal_factors", return_value=False):
                assert list_changes(engine, since) == expected
