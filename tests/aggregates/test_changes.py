"""Changes of groups: the old row with -1 and the new row with +1, however many there are."""

from __future__ import annotations

import pytest

from triegs.engine import Engine

GROUPS = 1_000
DIRECT = "SELECT ?x (COUNT(*) AS ?n) (SUM(?v) AS ?s) { ?x <u:p> ?v } GROUP BY ?x"
HIDDEN = "SELECT (SUM(?v) AS ?s) { ?x <u:p> ?v } GROUP BY ?x"
COMPUTED = "SELECT ?k (COUNT(*) AS ?n) { ?x <u:p> ?v } GROUP BY (?v * 2 AS ?k)"


def read_rows(snapshot):
    return {tuple(row): row.multiplicity for row in snapshot.answers("python")}


@pytest.mark.parametrize("text", [DIRECT, HIDDEN, COMPUTED])
def test_many_groups_change_at_once(text):
    engine = Engine()
    query = engine.register(text)
    engine.apply([("+", f"<u:{i}>", "<u:p>", i % 7) for i in range(GROUPS)])
    before = query.snapshot()
    rows = read_rows(before)
    # A third of the groups keeps its rows, a third changes, a third disappears; some are new.
    updates = [("+", f"<u:{i}>", "<u:p>", 3) for i in range(0, GROUPS, 3)]
    updates += [("-", f"<u:{i}>", "<u:p>", i % 7) for i in range(1, GROUPS, 3)]
    updates += [("+", f"<u:{i}>", "<u:p>", 11) for i in range(GROUPS, GROUPS + 100)]
    engine.apply(updates)
    with query.snapshot() as after:
        changes = after.diff(before)
        assert not changes.is_empty()
        for found in (
            [(*change, change.change) for change in changes.answers("python")],
            [tuple(row.values()) for row in changes.to_arrow("python").to_pylist()],
        ):
            total = dict(rows)
            for *row, change in found:
                total[tuple(row)] = total.get(tuple(row), 0) + change
            assert {row: count for row, count in total.items() if count} == read_rows(after)
        assert after.diff(after).is_empty()
    before.close()


@pytest.mark.parametrize(
    "text", ["SELECT ?x { } GROUP BY ?x", "SELECT ?x { ?y <u:p> ?z } GROUP BY ?x"]
)
def test_a_group_without_variables_has_changes(text):
    """Of a key that nothing binds: there is no base to compare."""
    engine = Engine()
    query = engine.register(text)
    engine.apply([("+", 1, "<u:p>", 2)])
    with query.snapshot() as before:
        engine.apply([("+", 1, "<u:p>", 3)])
        with query.snapshot() as after:
            assert read_rows(before) == read_rows(after) == {(None,): 1}
            assert list(after.diff(before)) == []


@pytest.mark.parametrize(
    "having", ["GROUP BY ?x", "GROUP BY ?x HAVING (SUM(?v) > 1)", "GROUP BY (?v + 1 AS ?k)"]
)
def test_a_grouped_ask_flips_once(having):
    """Its row has no columns, whatever the number of groups."""
    engine = Engine(retain_epochs=9)
    query = engine.register(f"ASK {{ ?x <u:p> ?v }} {having}")
    start = engine.epoch
    triples = [("<u:a>", "<u:p>", 2), ("<u:b>", "<u:p>", 3)]
    for sign in "+-":
        for triple in triples:
            engine.apply([(sign, *triple)])
    with query.changes(since=start) as steps:
        found = [[(tuple(change), change.change) for change in step] for step in steps]
    assert found == [[((), 1)], [], [], [((), -1)]]
