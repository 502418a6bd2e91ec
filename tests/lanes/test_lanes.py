"""Lanes as a user has them: snapshots of one epoch, queries that move, holds, files, figures."""

from __future__ import annotations

import os
from io import BytesIO
from random import Random
from threading import Event, Thread
from time import monotonic

import pyarrow as pa
import pytest

import triegs
from triegs.errors import HistoryGone, StateError
from triegs.lanes import Lanes
from triegs.lanes.lane_query import LaneQuery
from triegs.lanes.together import Lane

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
SECONDS = 60.0 if SOAK else 1.0
UNITS = 60
P = "<http://ex/p>"
SIDES = {side: f"SELECT ?unit ?at {{ ?unit <{side}> ?at }}" for side in ("left", "right")}


def move_units(random: Random, places: list[str], count: int) -> list:
    batch = []
    for unit in random.sample(range(UNITS), count):
        before = places[unit]
        places[unit] = "right" if before == "left" else "left"
        batch += [("-", unit, f"<{before}>", 0), ("+", unit, f"<{places[unit]}>", 0)]
    return batch


@pytest.mark.parametrize("form", ["serial", "inline", "pooled", "auto"])
def test_snapshots_across_lanes_are_never_fractured(form):
    """Units move from one side to the other, whose queries are in different lanes: their number
    is constant at every epoch, and only there. A hunt lasts a while by nature.
    """
    random, stop = Random(1), Event()
    problems: list = []
    seen: list[int] = []
    with Lanes(3, threads=2, schedule=form) as lanes:
        for side, text in SIDES.items():
            lanes.register(text, name=side)
        assert len({query.lane for query in lanes.queries.values()}) == 2
        lanes.apply([("+", unit, "<left>", 0) for unit in range(UNITS)])

        def hunt() -> None:
            try:
                while not stop.is_set():
                    with lanes.snapshot() as found:
                        assert {each.epoch for each in found.values()} == {found.epoch}
                        units = [a.unit for s in ("left", "right") for a in found[s]]
                        seen.append(found.epoch)
                        assert len(units) == len(set(units)) == UNITS
            except BaseException as error:
                problems.append(error)

        readers = [Thread(target=hunt) for _ in range(2)]
        for reader in readers:
            reader.start()
        places, end = ["left"] * UNITS, monotonic() + SECONDS
        number = 0
        while monotonic() < end and not problems:
            number += 1
            lanes.apply(move_units(random, places, random.choice([1, 20, 50])))
            if number % 50 == 0:
                with lanes.register(SIDES["left"]):
                    pass
            if number % 70 == 0:
                for lane in lanes._together.lanes:
                    lane.cost = random.random()
                lanes.rebalance()
        stop.set()
        for reader in readers:
            reader.join()
    assert not problems
    assert len(set(seen)) > 5


def test_a_query_moves_without_losing_an_epoch():
    with Lanes(2, threads=1) as lanes:
        queries = [lanes.register(f"SELECT ?x {{ ?x <p{n}> ?y }}", name=f"q{n}") for n in range(4)]
        lanes.apply([("+", node, f"<p{n}>", 0) for n in range(4) for node in range(50 * (n + 1))])
        assert [query.lane for query in queries] == [0, 1, 0, 1]
        held = [query.snapshot() for query in queries]
        before = lanes.epoch
        # Lane 1 has nothing to do, and lane 0 two queries of some cost each.
        queries[1].close()
        queries[3].close()
        lanes.apply([("+", node, f"<p{n}>", 1) for n in (0, 2) for node in range(60)])
        lanes._together.lanes[0].cost, lanes._together.lanes[1].cost = 1.0, 0.0
        moves = lanes.rebalance()
        assert len(moves) == 1
        moved = lanes.queries[moves[0].query]
        assert (moves[0].source, moves[0].target, moved.lane) == (0, 1, 1)
        assert lanes.epoch == before + 5  # two closed, one applied, one moved in two steps
        report = lanes.apply([("+", 1_000, "<p0>", 0), ("+", 1_000, "<p2>", 0)])
        for number in (0, 2):
            with queries[number].snapshot() as snapshot:
                assert snapshot.epoch == report.epoch
                assert len(snapshot) == max(50 * (number + 1), 60) + 1
        for number, snapshot in enumerate(held):
            assert len(snapshot) == 50 * (number + 1)
            snapshot.close()
        with pytest.raises(HistoryGone):
            moved.changes(before)


def test_a_query_that_is_followed_stays():
    with Lanes(2, threads=1) as lanes:
        queries = [lanes.register(f"SELECT ?x {{ ?x <p{n}> ?y }}") for n in range(4)]
        with queries[0].subscribe(snapshot=False), queries[2].subscribe(snapshot=False):
            queries[1].close()
            queries[3].close()
            lanes._together.lanes[0].cost = 1.0
            assert lanes.rebalance() == []
            assert lanes.rebalance(0.0) == []


def test_changes_and_subscriptions_work_as_in_one_engine():
    with Lanes(2, retain_epochs=3) as lanes:
        queries = [lanes.register(f"SELECT ?x {{ ?x {P} ?y }}") for _ in range(2)]
        with queries[1].subscribe() as subscription:
            lanes.apply([("+", 7, P, 1)])
            found = [subscription.poll() for _ in range(4)]
        assert [type(each).__name__ for each in found] == [
            "Snapshot", "Progress", "Changes", "Progress",
        ]  # fmt: skip
        with queries[0].changes(since=2) as steps:
            assert [(step.since, step.epoch) for step in steps] == [(2, 3)]
        assert lanes.hold("now") == 3
        lanes.apply([("-", 7, P, 1)])
        for query in queries:
            with query.snapshot(epoch="now") as snapshot:
                assert len(snapshot) == 1
        assert dict(lanes.holds) == {"now": 3}
        lanes.release("now")


def test_a_query_of_lanes_is_a_standing_query():
    with Lanes(2) as lanes, lanes.register("ASK { ?x ?p ?y }", name="any") as query:
        assert isinstance(query, triegs.StandingQuery)
        assert isinstance(query, LaneQuery)
        assert query.plan.plan_class.value == "free-connex"
        assert query.error is None
        assert "free-connex" in query.explain()
        assert "any" in query._repr_html_()
        assert repr(query) == "<StandingQuery 'any', free-connex, ASK>"
        with pytest.raises(triegs.NotCopied):
            lanes.__reduce_ex__(2)
        query.close()
        query.close()
        with pytest.raises(StateError, match="closed"):
            query.snapshot()
        assert not lanes.queries


def hide(row):
    """A row without the names of blank nodes, which are new with each file."""
    return tuple("_:" if term.startswith("_:") else term for term in row)


def test_whatever_can_be_read_once_reaches_every_lane(tmp_path):
    text = b"_:b <a:p> 1, 2 . _:b <a:q> _:c ."
    path = tmp_path / "graph.ttl"
    path.write_bytes(text)
    table = pa.table({"s": ["Ann"], "o": ["Bob"]})
    with Lanes(3, threads=2) as lanes, triegs.Engine() as engine:
        pairs = [
            (lanes.register(each), engine.register(each))
            for each in ("SELECT * { ?x ?p ?y }", "SELECT ?x { ?x <a:q> ?y }", "ASK { ?x ?p ?y }")
        ]
        for each in (lanes, engine):
            each.apply(("+", n, "<a:p>", n) for n in range(3))
            each.apply(pa.RecordBatchReader.from_batches(
                pa.schema([("subject", pa.int64()), ("predicate", pa.string()),
                           ("object", pa.int64())]),
                [pa.record_batch({"subject": [8], "predicate": ["<a:p>"], "object": [9]})],
            ))  # fmt: skip
            each.apply(table, map=iter(["{s} <a:knows> {o}"]))
            each.load(BytesIO(text), format="turtle")
            each.load(path)
            with path.open("rb") as file:
                each.load(file)
            each.apply(pa.record_batch({"subject": [8], "predicate": ["<a:p>"], "object": [7]}))
        assert lanes.epoch == engine.epoch
        for query, twin in pairs:
            with query.snapshot() as ours, twin.snapshot() as theirs:
                found, wanted = ([(hide(tuple(a)), a.multiplicity) for a in s]
                                 for s in (ours, theirs))  # fmt: skip
                assert sorted(found) == sorted(wanted)
        with lanes.snapshot() as snapshots:
            every, some, _ = snapshots.values()
            nodes = {answer.x for answer in every if answer.p == "<a:q>"}
            assert nodes == {answer.x for answer in some}  # whatever lane has read the file
            assert len(nodes) == 3
        with pytest.raises(triegs.InvalidUpdate):
            lanes.load(BytesIO(b"no turtle"), format="turtle")
        with pytest.raises(triegs.InvalidUpdate, match="must be tuples"):
            lanes.apply("graph.ttl")


def test_figures_name_the_form_and_the_lanes():
    with Lanes(4, threads=2) as lanes:
        lanes.register(f"ASK {{ ?x {P} ?y }}", name="any")
        epochs = 0
        while epochs < 40 or not lanes.metrics()["schedule"]["form"]:
            assert epochs < 1_000  # it measures again when a busy machine makes costs move
            lanes.apply([("+", epochs, P, n) for n in range(100)])
            epochs += 1
        found = lanes.metrics()
        schedule = found["schedule"]
        assert (found["epochs"], found["queries"]) == (epochs + 1, 1)
        assert found["updates"] == 100 * epochs
        assert set(schedule["measured"]) == {"serial", "inline", "pooled", "hybrid"}
        assert schedule["form"] in schedule["measured"]
        assert "median" in schedule["why"]
        placed = [lane for lanes in schedule["inline"] for lane in lanes] + schedule["pooled"]
        assert sorted(placed) == [0, 1, 2, 3]
        assert len(schedule["inline"]) + schedule["pool_workers"] <= 2
        assert [each["queries"] for each in found["lanes"]] == [["any"], [], [], []]
        assert found["problem"] is None
        assert repr(lanes) == f"<Lanes 4, multigraph, epoch {epochs + 1}, 1 query>"


def test_an_inline_thread_helps_the_pool(monkeypatch):
    """The worker of the pool is held up in a lane until all others of the pool are done."""
    begun, helped = Event(), [Event(), Event()]
    step = Lane.step
    waited: list[bool] = []

    def hold_up(lane: Lane, problem: Exception | None = None) -> None:
        if lane.number == 0:
            begun.set()
            waited.extend(event.wait(30) for event in helped)
        elif lane.number == 3:
            waited.append(begun.wait(30))
        step(lane, problem)
        if lane.number in (1, 2):
            helped[lane.number - 1].set()

    with Lanes(4, threads=2, schedule="hybrid") as lanes:
        monkeypatch.setattr(Lane, "step", hold_up)
        lanes.apply([("+", 1, P, n) for n in range(100)])
        found = lanes.metrics()["schedule"]
        assert (found["inline"], found["pooled"], found["pool_workers"]) == ([[3]], [0, 1, 2], 1)
    assert waited
    assert all(waited)


def test_times_of_epochs_are_those_of_all_lanes():
    with Lanes(2) as lanes:
        queries = [lanes.register(f"SELECT ?x {{ ?x {P} ?y }}") for _ in range(2)]
        lanes.apply([("+", 1, P, 2)], time=1_000)
        with lanes.snapshot() as found:
            assert found.time == 1_000
            assert {each.time for each in found.values()} == {1_000}
        with pytest.raises(triegs.InvalidUpdate, match="before 1000"):
            lanes.apply([("+", 1, P, 2)], time=500)
        assert queries[0].snapshot().time == 1_000
        with pytest.raises(StateError, match="no query"):
            lanes.snapshot(["nobody"])
        with lanes.snapshot(queries[0].name) as found:
            assert list(found) == [queries[0].name]
