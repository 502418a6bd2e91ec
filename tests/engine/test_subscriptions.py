"""Subscriptions: snapshot, changes and progress, steps that overflow, callbacks, streams."""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.engine.edges import P, Q, add, remove, rows

from triegs import (
    Changes,
    Engine,
    HistoryGone,
    MultiplicityOverflow,
    Progress,
    Snapshot,
    StateError,
)

PATH = f"SELECT ?x ?y ?z {{ ?x {P} ?y . ?y {Q} ?z }}"


@pytest.fixture
def engine():
    with Engine(retain_epochs=3) as made:
        yield made


ARMS = " . ".join(f"?x {P} ?y{arm}" for arm in range(7))
STAR = [(0, P, end) for end in range(1000)]


@pytest.mark.parametrize("progress", [True, False])
def test_a_step_that_overflows_is_delivered_again(engine, progress):
    query = engine.register(f"SELECT ?x {{ {ARMS} }}")
    with query.subscribe(snapshot=False, progress=progress) as subscription:
        engine.apply(add(*STAR))
        for _ in range(2):
            with pytest.raises(MultiplicityOverflow):
                subscription.poll()
            assert subscription.epoch == 1
        engine.apply(remove(*STAR[100:]))
        engine.apply([])
        assert rows(subscription.poll()) == {(0,): 100**7}
        assert subscription.poll() == (Progress(4) if progress else None)
        assert subscription.epoch == 4


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("read", [list, Changes.to_arrow, lambda step: list(step.batches(500))])
def test_a_step_whose_later_rows_overflow_is_delivered_again(read, progress):
    engine = Engine(retain_epochs=3)
    query = engine.register(f"SELECT ?x {{ {ARMS} }}")
    others = [(number, P, 1) for number in range(1, 3000)]
    with query.subscribe(snapshot=False, progress=progress) as subscription:
        engine.apply(add(*others, *STAR))
        for _ in range(2):
            with pytest.raises(MultiplicityOverflow):
                read(subscription.poll())
        if progress:  # also if it was requested before the changes were read
            step: Any = subscription.poll()
            assert subscription.poll() == Progress(2)
            with pytest.raises(MultiplicityOverflow):
                read(step)
        engine.apply(remove(*STAR[100:]))
        assert rows(subscription.poll()) == {(0,): 100**7, **{(n,): 1 for n in range(1, 3000)}}


@pytest.mark.parametrize("size", [0, 3000])
def test_a_named_subscription_does_not_skip_a_step(size):
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ {ARMS} }}")
        with query.subscribe(name="auditor") as subscription:
            assert [type(subscription.poll()) for _ in range(3)] == [Snapshot, Progress, type(None)]
            engine.apply(add(*((number, P, 1) for number in range(1, size)), *STAR))
            with pytest.raises(MultiplicityOverflow):
                rows(subscription.poll())
        assert engine.holds["subscription auditor"] == 1
        engine.apply(remove(*STAR[100:]))
        with query.subscribe(name="auditor") as subscription:
            assert rows(subscription.poll())[0,] == 100**7


def test_a_broken_stream_of_batches_repeats_its_step():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ {ARMS} }}")
        with query.subscribe(snapshot=False) as subscription:
            engine.apply(add(*STAR))
            with pytest.raises(MultiplicityOverflow):
                next(subscription.batches())
            engine.apply(remove(*STAR[100:]))
            assert next(subscription.batches()).to_pydict()["change"] == [100**7]


def test_a_callback_that_cannot_be_notified_ends_the_subscription():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ {ARMS} }}")
        told: list[Any] = []
        subscription: Any = query.subscribe(callback=told.append, snapshot=False, name="auditor")
        engine.apply(add(*STAR))
        subscription._thread.join(30)
        assert isinstance(subscription.error, MultiplicityOverflow)
        assert engine.holds.get("subscription auditor", 1) == 1
        assert told == []


class Mirror:
    """The result as a subscriber knows it; progress makes it durable."""

    def __init__(self) -> None:
        self.rows: Counter = Counter()
        self.saved: tuple[int | None, Counter] = None, Counter()

    def take(self, event):
        if isinstance(event, Snapshot):
            self.rows = Counter(rows(event))
        elif isinstance(event, Changes):
            self.rows = Counter(self.rows)
            self.rows.update(rows(event))
            self.rows = Counter({row: n for row, n in self.rows.items() if n})
        else:
            self.saved = event.epoch, self.rows

    def restart(self):
        """Forget what was not saved; returns where to resume."""
        since, self.rows = self.saved
        return since


def random_batch(random):
    labels, nodes = [P, Q], range(5)
    return [
        (random.choice("++-"), random.choice(nodes), random.choice(labels), random.choice(nodes))
        for _ in range(random.randrange(6))
    ]


def test_a_subscriber_gets_a_snapshot_then_changes_and_progress(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    engine.apply(add((1, P, 1)))
    with query.subscribe() as subscription:
        assert rows(subscription.poll()) == {(1,): 1}
        assert subscription.poll() == Progress(2)
        assert subscription.poll() is None
        engine.apply(add((2, P, 1)))
        engine.apply([])
        assert rows(subscription.poll()) == {(2,): 1}
        assert [subscription.poll() for _ in range(3)] == [Progress(3), Progress(4), None]
        assert subscription.epoch == 4
    assert subscription.poll() is None
    assert engine.metrics()["pins"] == []


def test_a_subscriber_may_want_changes_only(engine):
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    engine.apply(add((1, P, 1)))
    with query.subscribe(snapshot=False, progress=False) as subscription:
        assert subscription.poll() is None
        engine.apply(add((2, P, 1)))
        assert rows(subscription.poll()) == {(2,): 1}


def test_a_slow_subscriber_gets_one_merged_step():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        with query.subscribe(snapshot=False) as subscription:
            for number in range(50):
                engine.apply(add((number, P, 1)) + remove((number - 1, P, 1)))
            changes: Any = subscription.poll()
            assert (changes.since, changes.epoch, rows(changes)) == (1, 51, {(49,): 1})
            assert subscription.poll() == Progress(51)
            assert engine.metrics()["held_epochs"] == 2


@pytest.mark.parametrize("seed", range(10))
def test_a_subscriber_killed_and_resumed_has_the_current_result(seed):
    random = Random(seed)
    with Engine(retain_epochs=4) as engine:
        query = engine.register(PATH)
        mirror, subscription, resumed, lost = Mirror(), None, 0, 0
        for _ in range(80):
            engine.apply(random_batch(random))
            if subscription is None and random.random() < 0.4:
                since = mirror.restart()
                try:
                    subscription = query.subscribe(since=since)
                    resumed += since is not None
                except HistoryGone:
                    assert engine.epoch - since > 4
                    subscription = query.subscribe()
                    lost += 1
            while subscription is not None and random.random() < 0.8:
                event = subscription.poll()
                if event is None:
                    with query.snapshot() as snapshot:
                        assert mirror.saved == (engine.epoch, rows(snapshot))
                    break
                mirror.take(event)
                if random.random() < 0.1:
                    subscription = None  # killed
        assert resumed + lost > 3


def test_the_updater_never_waits_for_a_subscriber():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        seen: list = []
        entered, go_on = threading.Event(), threading.Event()

        def take(event):
            seen.append(event if isinstance(event, Progress) else rows(event))
            entered.set()
            assert go_on.wait(30)

        subscription = query.subscribe(callback=take, snapshot=False, merge=True)
        engine.apply(add((1, P, 1)))
        assert entered.wait(30)
        for number in range(200):
            engine.apply(add((number, P, 2)))
        assert seen == [{(1,): 1}]
        assert engine.metrics()["held_epochs"] <= 2
        go_on.set()
        deadline = time.monotonic() + 30
        while subscription.epoch < engine.epoch and time.monotonic() < deadline:
            time.sleep(0.01)
        subscription.close()
        assert seen[-1] == Progress(engine.epoch)
        assert subscription.error is None


def test_a_callback_that_fails_ends_the_subscription(caplog):
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")

        def fail(_):
            raise RuntimeError("no")

        subscription: Any = query.subscribe(callback=fail)
        subscription._thread.join(30)
        assert isinstance(subscription.error, RuntimeError)
        assert "has ended" in caplog.text
        assert engine.metrics()["pins"] == []


@pytest.mark.parametrize("end", ["engine", "query", "subscription"])
def test_iteration_ends_with_what_it_follows(end):
    engine = Engine()
    query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
    subscription = query.subscribe()
    events: list = []
    reader = threading.Thread(target=lambda: events.extend(map(repr, subscription)))
    reader.start()
    engine.apply(add((1, P, 1)))
    followed: dict[str, Any] = {"engine": engine, "query": query, "subscription": subscription}
    followed[end].close()
    reader.join(30)
    assert not reader.is_alive()
    assert events[1:2] == ["Progress(epoch=1)"]


def test_a_subscription_is_an_arrow_stream():
    with Engine() as engine:
        query = engine.register(f"SELECT ?x {{ ?x {P} ?y }}")
        engine.apply(add((1, P, 1), (1, P, 2)))
        subscription = query.subscribe()
        batches = subscription.batches(terms="ntriples")
        found = [next(batches), next(batches)]
        engine.apply(remove((1, P, 1)))
        found.append(next(batches))
        subscription.close()
        found += list(batches)
        table = pa.Table.from_batches(found).to_pydict()
        assert [table["change"], table["epoch"]] == [[2, -1], [2, 3]]
        with pytest.raises(ValueError, match="without end"):
            query.subscribe().batches(terms="python")  # type: ignore[arg-type]


def test_two_threads_do_not_share_a_subscription():
    with Engine() as engine:
        subscription = engine.register(f"SELECT ?x {{ ?x {P} ?y }}").subscribe(snapshot=False)
        waiting = threading.Thread(target=subscription.poll, args=(None,))
        waiting.start()
        while not engine._publications.waiting:
            time.sleep(0.001)
        with pytest.raises(StateError, match="another thread"):
            subscription.poll()
        subscription.close()
        waiting.join(30)
        assert not waiting.is_alive()
