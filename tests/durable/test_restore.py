"""An engine that is opened again, at every possible point, has the same future."""

from __future__ import annotations

import shutil
from random import Random
from typing import Any

import pytest
from tests.durable.play import draw_script, look, make_options, play_all

from triegs import Engine, Progress, StateError

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_windowed", [False, True], ids=["plain", "windowed"])
def test_the_same_future_from_every_point(seed, is_windowed, tmp_path):
    random = Random(seed)
    options = make_options(random, is_windowed)
    script = draw_script(random, 14, is_windowed)
    with Engine(**options) as engine:
        expected = play_all(engine, script)
    whole = tmp_path / "whole"
    with Engine.open(whole, sync="never", **options) as engine:

        def keep(number: int) -> None:
            if random.random() < 0.2:
                engine.checkpoint()
            shutil.copytree(whole, tmp_path / str(number))

        assert play_all(engine, script, keep) == expected
    for number in range(len(script)):
        with Engine.open(tmp_path / str(number), sync="never") as engine:
            assert look(engine) == expected[number][1], number
            assert play_all(engine, script[number + 1 :]) == expected[number + 1 :], number


def test_an_engine_without_windows_keeps_the_times_of_its_epochs(tmp_path):
    with Engine.open(tmp_path) as engine:
        query = engine.register("SELECT ?x { ?x <a:p> ?y }", name="all")
        engine.apply([("+", 1, "<a:p>", 2)], time=5_000)
        engine.checkpoint()
        engine.apply([("+", 3, "<a:p>", 2)], time=6_000)
    with Engine.open(tmp_path) as engine:
        query = engine.queries["all"]
        with query.snapshot() as snapshot:
            assert (snapshot.time, len(snapshot)) == (6_000, 2)
        with pytest.raises(Exception, match="before 6000"):
            engine.apply([], time=5_999)


def test_held_epochs_are_held_again(tmp_path):
    with Engine.open(tmp_path) as engine:
        query = engine.register("SELECT ?x { ?x <a:p> ?y }", name="all")
        engine.apply([("+", 1, "<a:p>", 2)])
        engine.hold("early")
        engine.apply([("+", 2, "<a:p>", 2)])
        engine.checkpoint()
        engine.hold("kept")
        engine.hold("gone")
        engine.apply([("+", 3, "<a:p>", 2)])
        engine.release("gone")
    with Engine.open(tmp_path) as engine:
        assert dict(engine.holds) == {"kept": 3}
        assert engine.recovery is not None
        assert dict(engine.recovery.lost_holds) == {"early": 2}
        with engine.queries["all"].changes("kept") as steps:
            assert [step.to_arrow("python").to_pylist() for step in steps] == [
                [{"x": 3, "change": 1}]
            ]
    assert query.name == "all"


def test_a_named_subscription_resumes_in_the_next_process(tmp_path):
    def take(subscription, count):
        found: list[Any] = []
        for _ in range(count):
            event = subscription.poll()
            if isinstance(event, Progress):
                found.append(event.epoch)
            elif event is not None:
                found.append(sorted(tuple(row) for row in event.answers("python")))
        return found

    with Engine.open(tmp_path, sync="never") as engine:
        query = engine.register("SELECT ?x { ?x <a:p> ?y }", name="all")
        with query.subscribe(name="auditor") as subscription:
            assert take(subscription, 3) == [[], 1]
            engine.apply([("+", 1, "<a:p>", 2)])
            assert take(subscription, 2) == [[(1,)], 2]
            with pytest.raises(StateError, match="already"):
                query.subscribe(name="auditor")
        engine.apply([("+", 2, "<a:p>", 2)])
        with query.subscribe(name="auditor") as subscription:
            # Delivered, but nothing more was requested: it may not have been processed.
            assert take(subscription, 1) == [[(2,)]]
        engine.apply([("+", 3, "<a:p>", 2)])
    with Engine.open(tmp_path) as engine:
        query = engine.queries["all"]
        with query.subscribe(name="auditor") as subscription:
            assert take(subscription, 3) == [[(2,), (3,)], 4]
        engine.release("subscription auditor")
        with query.subscribe(name="auditor") as subscription:
            assert take(subscription, 2) == [[(1,), (2,), (3,)], 4]
