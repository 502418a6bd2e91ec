"""What goes wrong in one lane: no lane publishes, or all recover, or every later call says so."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from threading import Event, Thread

import pyarrow as pa
import pytest

from triegs.errors import BadOption, InvalidUpdate, MemoryLimitReached, QueryError, StateError
from triegs.lanes import Lanes
from triegs.sparql.window import Window
from triegs.store.packed import SMALLEST_LIMIT

P, Q = "<http://ex/p>", "<http://ex/q>"
#: Keeps the product of two fans; the other keeps next to nothing.
LARGE = f"SELECT DISTINCT ?x ?y {{ ?x {P} ?m . ?m {Q} ?y }}"
SMALL = f"ASK {{ ?x {P} ?y }}"
FORMS = ["serial", "inline", "pooled", "hybrid"]


class Planted(Exception):
    """A failure that a test has planned."""


def fan(count: int, sign: str = "+") -> pa.Table:
    """A product of count times count answers, over one node."""
    rows = [(sign, n, P, 0) for n in range(count)] + [(sign, 0, Q, n) for n in range(count)]
    columns = map(list, zip(*rows, strict=True))
    names = ("op", "subject", "predicate", "object")
    typed = [pa.array(column) for column in columns]
    return pa.table(dict(zip(names, typed, strict=True)))


def epochs(lanes: Lanes) -> set[int]:
    return {lane.engine.epoch for lane in lanes._together.lanes}


def plant(monkeypatch, lane, times: int, error: BaseException | None = None) -> list[int]:
    """Publishing fails in that lane, so many times; returns how often it was tried."""
    store = lane.engine._store
    publish = store.publish
    tried: list[int] = []

    def fail():
        tried.append(len(tried))
        if len(tried) <= times:
            raise error or Planted
        return publish()

    monkeypatch.setattr(store, "publish", fail)
    return tried


@pytest.mark.parametrize("form", FORMS)
def test_a_lane_without_room_holds_all_back(form):
    with Lanes(3, threads=2, schedule=form, memory_limit=SMALLEST_LIMIT) as lanes:
        lanes.register(SMALL)
        large = lanes.register(LARGE)
        lanes.apply(fan(20))
        before = lanes.epoch
        with pytest.raises(MemoryLimitReached) as caught:
            lanes.apply(fan(1_000))
        assert caught.value.__notes__ == [f"in lane {large.lane} of 3; no lane published"]
        assert epochs(lanes) == {before}
        for lane in lanes._together.lanes:
            lane.engine._store.check()
            lane.engine._dictionary.check()
        with lanes.snapshot() as found:
            assert len(found[large.name]) == 400
        report = lanes.apply(fan(5, "-"))
        assert (report.epoch, report.refused) == (before + 1, ())
        assert epochs(lanes) == {before + 1}


def test_a_strict_epoch_is_refused_by_all_and_reported_once():
    with Lanes(3, threads=2, schedule="inline") as lanes:
        lanes.register(SMALL)
        with pytest.raises(InvalidUpdate) as caught:
            lanes.apply([("-", 1, P, 2)] * 100, strict=True)
        assert not hasattr(caught.value, "__notes__")
        assert len(caught.value.refused) == 100
        assert epochs(lanes) == {1}
        report = lanes.apply([("-", 1, P, 2), ("?", 1, P, 2), ("+", 1, P, 2)])
        assert [place for place, _ in report.refused] == [0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_a_failure_between_the_phases_is_made_good(form, monkeypatch):
    """The others have published by then: so the lane that failed makes its epoch again."""
    with Lanes(3, threads=2, schedule=form) as lanes:
        query = lanes.register(f"SELECT ?x {{ ?x {P} ?y }}")
        tried = plant(monkeypatch, lanes._together.lanes[query.lane], 1)
        report = lanes.apply([("+", n, P, 0) for n in range(100)])
        assert len(tried) == 2
        assert epochs(lanes) == {report.epoch} == {2}
        with query.snapshot() as snapshot:
            assert len(snapshot) == 100
        monkeypatch.undo()
        for lane in lanes._together.lanes:
            lane.engine._dictionary.check()


def test_an_interrupt_between_the_phases_is_raised_once_all_have_published(monkeypatch):
    with Lanes(3, schedule="serial") as lanes:
        plant(monkeypatch, lanes._together.lanes[1], 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            lanes.apply([("+", 1, P, 2)])
        assert epochs(lanes) == {1}
        assert lanes.apply([("-", 1, P, 2)]).epoch == 2


def test_lanes_that_are_apart_say_so_and_take_nothing_more(monkeypatch):
    with Lanes(3, threads=2, schedule="inline") as lanes:
        query = lanes.register(f"SELECT ?x {{ ?x {P} ?y }}")
        plant(monkeypatch, lanes._together.lanes[2], 2)
        with pytest.raises(StateError, match="at epochs 2, 2, 1"):
            lanes.apply([("+", n, P, 0) for n in range(100)])
        assert "a lane failed to publish" in lanes.metrics()["problem"]
        for call in (lambda: lanes.apply([]), lambda: lanes.register(SMALL), query.close):
            with pytest.raises(StateError, match="a lane failed to publish"):
                call()
        with query.snapshot() as snapshot:
            assert len(snapshot) == 100


@pytest.mark.parametrize("form", FORMS)
def test_a_slide_that_fails_in_one_lane_is_published_by_the_next_call(form, monkeypatch):
    with Lanes(3, threads=2, schedule=form, window=Window("10s")) as lanes:
        query = lanes.register(f"SELECT ?x {{ ?x {P} ?y }}")
        lanes.push([(1_000, 1, P, 2), (11_000, 2, P, 2), (12_000, 2, P, 2, "-")])
        lane = lanes._together.lanes[1]
        prepare, calls = lane.engine._core.prepare, []

        def fail(*given, **options):
            calls.append(given)
            if len(calls) == 2:
                raise Planted
            return prepare(*given, **options)

        monkeypatch.setattr(lane.engine._core, "prepare", fail)
        with pytest.raises(Planted):
            lanes.advance(30_000)
        assert [slide.time for slide in lanes.published] == [10_000]
        assert epochs(lanes) == {2}
        assert [slide.time for slide in lanes.advance(30_000)] == [20_000, 30_000]
        assert epochs(lanes) == {4}
        with query.snapshot() as snapshot:
            assert len(snapshot) == 0


def test_a_slide_that_fails_to_publish_is_made_again(monkeypatch):
    with Lanes(3, threads=2, schedule="inline", window=Window("10s")) as lanes:
        query = lanes.register(f"SELECT ?x {{ ?x {P} ?y }}")
        lanes.push([(1_000, 1, P, 2), (11_000, 2, P, 2)])
        plant(monkeypatch, lanes._together.lanes[0], 1)
        assert [slide.time for slide in lanes.advance(20_000)] == [10_000, 20_000]
        assert epochs(lanes) == {3}
        with query.snapshot() as snapshot:
            assert [answer.x for answer in snapshot.answers("python")] == [2]


def test_events_without_room_in_one_lane_are_refused_by_all(caplog):
    window = Window("10s", slide="5s")
    with Lanes(3, threads=2, schedule="inline", window=window,
               memory_limit=SMALLEST_LIMIT) as lanes:  # fmt: skip
        small, large = lanes.register(SMALL), lanes.register(LARGE)
        lanes.push([(1_000, n, P, 0) for n in range(1_000)])
        lanes.push([(7_000, 0, Q, n) for n in range(1_000)])
        first, second, third, fourth = lanes.advance(20_000)
        assert [len(slide.refused) for slide in (first, second, third, fourth)] == [0, 1_000, 0, 0]
        assert epochs(lanes) == {fourth.epoch}
        assert len([r for r in caplog.records if "its events were refused" in r.message]) == 1
        for lane in lanes._together.lanes:
            assert lane.engine.metrics()["windows"]["refused"] == 1_000
            assert lane.engine.metrics()["windows"]["retained"] == 0
        lanes.push([(21_000, 1, P, 0), (21_000, 0, Q, 1)])
        lanes.advance(25_000)
        with lanes.snapshot() as found:
            assert len(found[large.name]) == len(found[small.name]) == 1


def test_a_query_that_fails_to_register_leaves_nothing_in_any_lane():
    with Lanes(2, memory_limit=SMALLEST_LIMIT) as lanes:
        lanes.apply(fan(1_000))
        before = lanes.epoch
        with pytest.raises(MemoryLimitReached):
            lanes.register(LARGE, name="large")
        with pytest.raises(QueryError):
            lanes.register("SELECT", name="large")
        assert epochs(lanes) == {before}
        assert not lanes.queries
        lanes.register(SMALL, name="large")
        with pytest.raises(StateError, match="already registered"):
            lanes.register(SMALL, name="large")


def test_a_second_thread_is_refused_while_lanes_update():
    with Lanes(2, schedule="serial") as lanes:
        began, goes_on = Event(), Event()

        def updates():
            began.set()
            goes_on.wait(30)
            yield ("+", 1, P, 2)

        worker = Thread(target=lambda: lanes.apply(updates()))
        worker.start()
        assert began.wait(30)
        with pytest.raises(StateError, match="another thread"):
            lanes.apply([])
        goes_on.set()
        worker.join()
        assert lanes.epoch == 1
    with pytest.raises(StateError, match="closed"):
        lanes.apply([])
    with pytest.raises(StateError, match="closed"):
        lanes.snapshot()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    with Lanes(2, threads=2, schedule="inline") as lanes:
        query = lanes.register(SMALL)
        lanes.apply(fan(100))
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # ends a child that waits for threads which it does not have
            with suppress(BaseException):
                report = lanes.apply(fan(100, "-"))
                with query.snapshot() as snapshot:
                    os._exit(0 if report.epoch == 3 and not snapshot else 1)
            os._exit(2)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert lanes.apply(fan(100, "-")).epoch == 3


@pytest.mark.parametrize(
    "options", [{"n": 0}, {"n": True}, {"n": 2, "threads": 0}, {"n": 2, "schedule": "fair"},
                {"n": 2, "schedule": "inline", "latency": "5ms"}, {"n": 2, "store": None},
             {"n": 2, "rules": "rdfs"}],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(BadOption):
        Lanes(**options)
