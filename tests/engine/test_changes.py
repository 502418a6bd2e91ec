"""Changes between held epochs, holds and leases."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from tests.engine.edges import P, Q, add, remove, rows

from triegs import (
    Engine,
    HistoryGone,
    MultiplicityOverflow,
    SnapshotExpired,
    StateError,
)

PATH = f"SELECT ?x ?y ?z {{ ?x {P} ?y . ?y {Q} ?z }}"


@pytest.fixture
def engine():
    with Engine(retain_epochs=3) as made:
        yield made


def test_the_running_example(engine):
    names = {n: f"<http://ex/{n}>" for n in ("hasCreator", "hasReply", "likedBy")}
    query = engine.register(
        "PREFIX : <http://ex/> SELECT ?x ?y ?v ?z ?w "
        "{ ?v :hasCreator ?x . ?z :hasCreator ?y . ?v :hasReply ?z . ?z :likedBy ?w }"
    )
    reply = (1, names["hasReply"], 2)
    engine.apply(add((1, names["hasCreator"], 11), (2, names["hasCreator"], 12), reply, reply))
    t0 = query.snapshot()
    engine.apply(add((2, names["likedBy"], 13)))
    t1 = query.snapshot()
    engine.apply(remove(reply))
    t2 = query.snapshot()
    answer = (11, 12, 1, 2, 13)
    assert rows(t1.diff(t0)) == {answer: 2}
    assert rows(t2.diff(t1)) == {answer: -1}
    assert rows(t2.diff(t0)) == {answer: 1}
    assert rows(t0.diff(t2)) == {answer: -1}
    assert rows(t1) == {answer: 2}


def test_an_epoch_that_leaves_every_count_as_it_was(engine):
    """One answer goes and another comes through the same nodes: no view shows it."""
    query = engine.register(PATH)
    engine.apply(add((1, P, 5), (2, P, 5), (5, Q, 8)))
    with query.snapshot() as before:
        engine.apply(remove((1, P, 5)) + add((3, P, 5)))
        with query.snapshot() as after:
            assert rows(after.diff(before)) == {(1, 5, 8): -1, (3, 5, 8): 1}


def test_changes_in_every_form(engine):
    query = engine.register(PATH)
    with query.snapshot() as before:
        engine.apply(add((1, P, 2), (1, P, 2), (2, Q, 3)))
        with query.snapshot() as after:
            changes = after.diff(before)
            assert (changes.since, changes.epoch) == (1, 2)
            expected = {"x": [1], "y": [2], "z": [3], "change": [2]}
            assert changes.to_arrow("python").to_pydict() == expected
            assert pa.table(changes).num_rows == 1
            assert [batch.num_rows for batch in changes.batches(terms="ids")] == [1]
            (change,) = changes
            assert (change.x.endswith("integer>"), change.change) == (True, 2)
            assert not changes.is_empty()
            assert after.diff(after).is_empty()
            assert after.diff(after).to_arrow().num_rows == 0
            assert "from epoch 1 to 2" in repr(changes)


def test_native_columns_have_values_over_any_store(engine):
    query = engine.register(f"SELECT ?x ?y {{ ?x {P} ?y }}")
    with query.snapshot() as before:
        engine.apply(add((1_000, P, 2_000)))
        with query.snapshot() as after:
            row = {"x": 1_000, "y": 2_000}
            assert after.to_arrow("python").to_pylist() == [row | {"multiplicity": 1}]
            assert after.diff(before).to_arrow("python").to_pylist() == [row | {"change": 1}]


def test_a_variable_may_be_named_change():
    with Engine() as engine:
        query = engine.register(f"SELECT ?change {{ ?change {P} 1 }}")
        before = query.snapshot()
        engine.apply(add((1, P, 1)))
        table = query.snapshot().diff(before).to_arrow("python")
        assert table.to_pydict() == {"change": [1], "change_": [1]}


def test_changes_need_both_snapshots_of_one_query(engine):
    one, other = engine.register(PATH), engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    with one.snapshot() as a, other.snapshot() as b, pytest.raises(StateError, match="two queries"):
        b.diff(a)
    before = one.snapshot()
    changes = one.snapshot().diff(before)
    before.close()
    with pytest.raises(SnapshotExpired):
        changes.to_arrow()
    with pytest.raises(SnapshotExpired):
        list(changes)


@pytest.mark.parametrize("cut", ["LIMIT 2", "OFFSET 1"])
def test_a_cut_result_has_no_changes(engine, cut):
    query = engine.register(f"{PATH} {cut}")
    with query.snapshot() as snapshot, pytest.raises(StateError, match="LIMIT or OFFSET"):
        snapshot.diff(snapshot)
    with pytest.raises(StateError, match="LIMIT or OFFSET"):
        query.changes(since=1)
    with pytest.raises(StateError, match="LIMIT or OFFSET"):
        query.subscribe()


def test_distinct_answers_come_once_and_go_once(engine):
    query = engine.register(f"SELECT DISTINCT ?x {{ ?x {P} ?y }}")
    ask = engine.register(f"ASK {{ ?x {P} ?y }}")
    start = query.snapshot(), ask.snapshot()
    engine.apply(add((1, P, 2), (1, P, 3)))
    two = query.snapshot(), ask.snapshot()
    engine.apply(remove((1, P, 2)))
    one = query.snapshot(), ask.snapshot()
    engine.apply(remove((1, P, 3)))
    none = query.snapshot(), ask.snapshot()
    assert [rows(b.diff(a)) for a, b in zip(start, two, strict=True)] == [{(1,): 1}, {(): 1}]
    assert [rows(b.diff(a)) for a, b in zip(two, one, strict=True)] == [{}, {}]
    assert [rows(b.diff(a)) for a, b in zip(two, none, strict=True)] == [{(1,): -1}, {(): -1}]


def test_a_count_of_another_component_changes_every_answer(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y . ?u {Q} ?v }}")
    engine.apply(add((1, P, 1), (2, P, 2), (2, P, 3), (7, Q, 7)))
    before = query.snapshot()
    engine.apply(add((8, Q, 8)))
    assert rows(query.snapshot().diff(before)) == {(1,): 1, (2,): 2}
    engine.apply(remove((7, Q, 7), (8, Q, 8)))
    assert rows(query.snapshot().diff(before)) == {(1,): -1, (2,): -2}


def test_distinct_answers_beside_a_component_that_only_counts(engine):
    query = engine.register(f"SELECT DISTINCT ?x {{ ?x {P} ?y . ?u {Q} ?v }}")
    engine.apply(add((1, P, 1)))
    none = query.snapshot()
    engine.apply(add((7, Q, 7)))
    one = query.snapshot()
    engine.apply(add((8, Q, 8), (1, P, 2)))
    two = query.snapshot()
    assert rows(one.diff(none)) == rows(two.diff(none)) == {(1,): 1}
    assert rows(two.diff(one)) == rows(one.diff(two)) == {}
    assert rows(none.diff(two)) == {(1,): -1}


def test_changes_across_a_stall(engine):
    """Views that were rebuilt share nothing with those before: the changes are the same."""
    arms = " . ".join(f"?x {P} ?y{arm}" for arm in range(7))
    query = engine.register(f"SELECT ?k {{ ?k {Q} ?x . {arms} }}", root="k")
    star = [(0, P, end) for end in range(1000)]
    engine.apply(add((5, Q, 0), *star[:100]))
    before = query.snapshot()
    engine.apply(add(*star[100:]))
    assert query.error is not None
    assert query.snapshot().diff(before).is_empty()
    engine.apply(add((6, Q, 0)))
    assert query.snapshot(epoch=engine.epoch).epoch == before.epoch
    engine.apply(remove(*star[300:]))
    assert query.error is None
    assert rows(query.snapshot().diff(before)) == {(5,): 300**7 - 100**7, (6,): 300**7}
    with query.changes(since=before.epoch) as steps:
        assert [(step.since, step.epoch) for step in steps] == [(2, 5)]


def test_an_answer_that_overflows_is_reported(engine):
    arms = " . ".join(f"?x {P} ?y{arm}" for arm in range(7))
    query = engine.register(f"SELECT ?x {{ {arms} }}")
    before = query.snapshot()
    engine.apply(add(*((0, P, end) for end in range(1000))))
    changes = query.snapshot().diff(before)
    with pytest.raises(MultiplicityOverflow):
        changes.to_arrow()


# History


def test_held_epochs_can_be_read_again(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    for number in range(6):
        engine.apply(add((number, P, 1)))
    for epoch in (4, 5, 6, 7):
        with query.snapshot(epoch=epoch) as snapshot:
            assert (snapshot.epoch, len(snapshot)) == (epoch, epoch - 1)
    with pytest.raises(HistoryGone, match=r"epoch 3 is not held.*4, 5, 6, 7"):
        query.snapshot(epoch=3)
    with pytest.raises(HistoryGone):
        query.snapshot(epoch=8)
    late = engine.register(f"SELECT ?y {{ ?x {P} ?y }}")
    with pytest.raises(HistoryGone):
        late.snapshot(epoch=7)


def test_steps_go_from_held_epoch_to_held_epoch(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    engine.hold("start")
    for number in range(8):
        engine.apply(add((number, P, 1)))
    with query.changes(since="start") as steps:
        assert [(step.since, step.epoch) for step in steps] == [(1, 6), (6, 7), (7, 8), (8, 9)]
        assert [len(rows(step)) for step in steps] == [5, 1, 1, 1]
    with query.changes(since=8) as steps:
        assert [(step.since, step.epoch) for step in steps] == [(8, 9)]
    with query.changes(since=9) as steps:
        assert len(steps) == 0
    with pytest.raises(HistoryGone):
        query.changes(since=2)
    with pytest.raises(HistoryGone, match="'nobody'"):
        query.changes(since="nobody")
    assert engine.metrics()["pins"] == []


def test_holds_have_names(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    assert engine.hold("audit") == 1
    with pytest.raises(StateError, match="audit"):
        engine.hold("audit")
    engine.apply(add((1, P, 1)))
    assert engine.hold("later", epoch=2) == 2
    assert dict(engine.holds) == engine.metrics()["holds"] == {"audit": 1, "later": 2}
    for number in range(6):
        engine.apply(add((number, P, 2)))
    assert query.snapshot(epoch="audit").support() == 0
    engine.release("audit")
    with pytest.raises(StateError, match="audit"):
        engine.release("audit")
    with pytest.raises(HistoryGone):
        engine.hold("too late", epoch=1)
    engine.release("later")


def test_without_holds_nothing_is_retained():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        for number in range(5):
            engine.apply(add((number, P, 1)))
        assert engine.metrics()["retained_bytes"] == 0
        with pytest.raises(HistoryGone):
            query.changes(since=4)


# Leases and debugging


@pytest.mark.parametrize("lease", ["20s", 20_000, "PT20S"])
def test_a_lease_ends(engine, lease):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    engine.apply(add((1, P, 1)))
    snapshot = query.snapshot(lease=lease)
    pin = engine.metrics()["pins"][0]
    assert (pin["query"], pin["epoch"]) == ("query1", 2)
    assert 0 < pin["expires_s"] <= 20
    reading = iter(snapshot)
    assert next(reading).multiplicity == 1
    snapshot._expires = time.monotonic()
    for read in (snapshot.count, lambda: next(reading), snapshot.to_arrow, lambda: list(snapshot)):
        with pytest.raises(SnapshotExpired, match="lease has expired"):
            read()
    snapshot.close()


def test_memory_is_freed_when_a_lease_ends_unread():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        engine.apply(add(*((n, P, n) for n in range(1000))))
        snapshot = query.snapshot(lease="5s")
        engine.apply(remove(*((n, P, n) for n in range(1000))))
        assert engine._store.statistics().retained_bytes > 0
        snapshot._expires = time.monotonic()
        engine.apply([])
        assert engine._store.statistics().retained_bytes == 0
        assert engine.metrics()["terms"]["held"] == 0
        with pytest.raises(SnapshotExpired):
            len(snapshot)


def test_a_lease_that_is_no_duration_is_refused(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        query.snapshot(lease="soon")
    assert engine.metrics()["pins"] == []


def test_an_abandoned_snapshot_is_reported_with_its_origin():
    with Engine(debug=True) as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        snapshot = query.snapshot()
        (pin,) = engine.metrics(relations=True)["pins"]
        assert pin["taken"].startswith(__file__)
        assert pin["bytes"] == 0
        with pytest.warns(ResourceWarning, match=r"epoch 1 was not closed.*test_changes.py:\d+"):
            del snapshot
        with query.snapshot():
            pass
        assert engine.metrics()["pins"] == []


def test_closing_waits_for_the_batch_that_is_read():
    """A snapshot that another thread closes gives whole rows, then `SnapshotExpired`."""
    with Engine() as engine:
        query = engine.register(f"SELECT ?x ?z {{ ?x {P} ?y . ?z {P} ?y }}")
        engine.apply(add(*((n, P, n % 3) for n in range(400))))
        for wait in range(10):
            snapshot = query.snapshot()
            seen: list = []

            def read(snapshot=snapshot, seen=seen):
                for row in snapshot.answers("python"):
                    seen.append(tuple(row))

            failed: list = []

            def run(read=read, failed=failed):
                try:
                    read()
                except SnapshotExpired as error:
                    failed.append(error)

            reader = threading.Thread(target=run)
            reader.start()
            time.sleep(wait / 500)
            snapshot.close()
            engine.apply(remove((wait, P, wait % 3)) + add((wait, P, wait % 3)))
            reader.join(30)
            assert failed or len(seen) == sum(n * n for n in (134, 133, 133))
            assert all(x % 3 == z % 3 for x, z in seen)
