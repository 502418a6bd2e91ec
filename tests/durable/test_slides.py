"""`advance` and `close_stream` are there whole or not at all; `each_slide` slide by slide."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.durable.disk import Crash, Fault, PowerDisk
from tests.durable.play import look

from triegs import Engine, LogFailed, MemoryLimitReached, Window, WindowError
from triegs.durable import opening
from triegs.maintain.at_once import IMPOSSIBLE
from triegs.windows.publication import SlidePublisher

HOME = Path("/engine")
P = "<http://ex/p>"
TEXT = f"SELECT ?x {{ ?x {P} ?y }}"
EVENTS = [(time, time, P, 1) for time in (1, 3, 8, 13, 17, 22)]
SLIDES = [5, 10, 15, 20, 25]


class NoLock:
    def __init__(self, _: Path) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_lock(monkeypatch):
    monkeypatch.setattr(opening, "Lock", NoLock)


def open_on(disk: PowerDisk, sync: Any = "never", least: int | None = None) -> Engine:
    return Engine._open(HOME, opening.Settings(None, Window(10, 5), None), disk, sync, least)


def begin(disk: PowerDisk, sync: Any = "never") -> Engine:
    engine = open_on(disk, sync)
    engine.register(TEXT, "all")
    engine.push(EVENTS)
    return engine


def advance(engine: Engine) -> Any:
    engine.note({"to": 25})
    return engine.advance(to=25)


def close(engine: Engine) -> Any:
    engine.note({"to": 25})
    return engine.close_stream()


CALLS = {"advance": advance, "close_stream": close}


@pytest.fixture(scope="module", params=CALLS)
def call(request) -> Any:
    """A call, and what an engine shows before and after it, and what the call returns."""
    made = CALLS[request.param]
    with Engine(window=Window(10, 5)) as engine:
        engine.register(TEXT, "all")
        engine.push(EVENTS)
        before = look(engine)
        returned = made(engine)
        assert [each.time for each in returned] == SLIDES
        return made, before, look(engine), returned


def come_back(disk: PowerDisk, call: Any, sync: Any = "never") -> bool:
    """Reopen, and check that the call is complete or absent, and that everything continues."""
    make, before, after, returned = call
    with open_on(disk, sync) as engine:
        is_there = engine.positions.get("to") == 25
        if is_there:
            assert look(engine) == after
            assert list(engine.published) == returned
        else:
            assert look(engine) == before
            assert engine.published == ()
            assert make(engine) == returned
        assert look(engine) == after
        assert engine.apply([]).epoch == returned[-1].epoch + 1
    return is_there


@pytest.mark.parametrize("sync", ["always", "never"])
def test_a_death_at_every_operation_of_the_disk(call, sync):
    outcomes = []
    for place in range(100):
        disk = PowerDisk()
        engine = begin(disk, sync)
        disk.fail(place, Fault(room=30 if place % 2 else 1 << 20, crash=True))
        try:
            call[0](engine)
        except Crash:
            disk.die()
            outcomes.append(come_back(disk, call, sync))
        else:
            break
    assert outcomes
    assert outcomes == sorted(outcomes)


@pytest.mark.parametrize("published", range(len(SLIDES)))
def test_a_death_between_two_slides(call, published, monkeypatch):
    disk = PowerDisk()
    engine = begin(disk)
    make = engine._windows.publisher.publish
    slides: list[int] = []

    def publish(due: Any) -> Any:
        if len(slides) == published:
            disk.life += 1  # nothing is written any more
            raise Crash
        slides.append(due.time)
        return make(due)

    monkeypatch.setattr(engine._windows.publisher, "publish", publish)
    with suppress(Crash, LogFailed, OSError):
        call[0](engine)
    assert len(slides) == published
    disk.die()
    assert come_back(disk, call)


@pytest.mark.parametrize("room", [0, 40])
def test_a_full_disk_changes_nothing(call, room):
    make, before, after, returned = call
    disk = PowerDisk()
    engine = begin(disk)
    disk.fail(0, Fault(errno.ENOSPC, room))
    with pytest.raises(LogFailed, match="ENOSPC"):
        make(engine)
    assert look(engine) == before
    assert make(engine) == returned == list(engine.published)
    assert look(engine) == after
    disk.die()
    assert come_back(disk, call)


@pytest.mark.parametrize("published", range(len(SLIDES)))
@pytest.mark.parametrize("is_full", [False, True])
def test_a_slide_that_the_memory_limit_refuses(call, published, is_full, monkeypatch):
    make, _, after, returned = call
    disk = PowerDisk()
    engine = begin(disk)
    apply, begun = engine._core.apply, engine.epoch

    def refuse(*arguments: Any) -> Any:
        if engine.epoch == begun + published:
            if is_full:
                disk.fail(0, Fault(errno.ENOSPC))
            raise MemoryLimitReached("no room")
        return apply(*arguments)

    slide_at_once = engine._core.slide_at_once

    def hinder(slide: Any) -> Any:
        if engine.epoch == begun + published:
            return IMPOSSIBLE, engine._core.store.newest
        return slide_at_once(slide)

    monkeypatch.setattr(engine._core, "apply", refuse)
    monkeypatch.setattr(engine._core, "slide_at_once", hinder)
    with pytest.raises(MemoryLimitReached):
        make(engine)
    monkeypatch.undo()
    monkeypatch.setattr(opening, "Lock", NoLock)
    assert list(engine.published) == returned[:published]
    if is_full:  # the next record has what was not written
        engine.note({"more": 1}, now=True)
    shown = look(engine)
    disk.die()
    with open_on(disk) as engine:
        assert look(engine) == shown
        assert list(engine.published) == returned[:published]
        # A query that comes now is filled as it would have been without the end.
        engine.register(TEXT, "late", window=Window(10, 5)).close()
        late = engine.advance()
        assert [each.time for each in late] == SLIDES[published:]
        assert look(engine)[1:] == after[1:]


def test_the_memory_limit_at_the_last_record(monkeypatch):
    disk = PowerDisk()
    engine = begin(disk)
    engine.advance(to=25)
    disk.die()
    whole = SlidePublisher.publish

    def stop(publisher: Any, due: Any) -> Any:
        if due.time == 15:
            raise MemoryLimitReached("no room")
        return whole(publisher, due)

    monkeypatch.setattr(SlidePublisher, "publish", stop)
    engine = open_on(disk)
    assert [each.time for each in engine.published] == SLIDES[:2]
    shown = look(engine)
    monkeypatch.setattr(SlidePublisher, "publish", whole)
    disk.die()
    with open_on(disk) as engine:
        assert look(engine) == shown
        assert [each.time for each in engine.advance()] == SLIDES[2:]


def test_an_emitter_that_fails_keeps_no_slide_back(caplog):
    with Engine(window=Window(10, 5)) as engine:
        query = engine.register(TEXT)
        told: list[Any] = []
        fails = [10, 15]

        def take(emission: Any) -> None:
            if emission.time in fails:
                raise RuntimeError(f"no {emission.time}")
            told.append((emission.time, emission.answers.to_pydict()["x"]))

        query.emit(take, "ISTREAM", terms="python")
        other: list[int] = []
        query.emit(lambda emission: other.append(emission.time))
        engine.push(EVENTS)
        with pytest.raises(RuntimeError, match="no 10"):
            engine.advance(to=25)
        assert other == SLIDES
        assert [each.time for each in engine.published] == SLIDES
        # The next emission has what it missed: 8, 13 and 17 are new since the slide at 5.
        assert [(time, sorted(found)) for time, found in told] == [
            (5, [1, 3]),
            (20, [13, 17]),
            (25, [22]),
        ]
        assert "an emitter failed after epoch 3" in caplog.text
        assert engine.metrics()["epochs"] == 6


def test_each_slide_hands_out_all_slides_before_what_an_emitter_raised():
    with Engine(window=Window(10, 5)) as engine:
        query = engine.register(TEXT)
        query.emit(lambda emission: 1 // (emission.time - 10))
        engine.push(EVENTS)
        found: list[int] = []
        with pytest.raises(ZeroDivisionError):
            found.extend(each.time for each in engine.each_slide(to=25))
        assert [each.time for each in engine.published] == [25]
        assert engine.advance(to=25) == []


@pytest.mark.parametrize("handed", range(len(SLIDES)))
@pytest.mark.parametrize("how", ["full", "left", "killed"])
def test_each_slide_continues_where_it_stopped(handed, how):
    disk = PowerDisk()
    engine = begin(disk)
    slides: Any = engine.each_slide(to=25)
    times = [next(slides).time for _ in range(handed)]
    if how == "full":
        disk.fail(0 if handed else 1, Fault(errno.ENOSPC, 20))
        with pytest.raises(LogFailed):
            next(slides)
        assert engine.epoch == 1 + handed
        if handed:
            assert [each.time for each in engine.published] == times[-1:]
        times += [each.time for each in engine.each_slide()]
        assert times == SLIDES
    elif how == "left":
        slides.close()
        if handed:
            times += [each.time for each in engine.advance()]
            assert times == SLIDES
    disk.die()
    with open_on(disk) as engine:
        times += [each.time for each in engine.advance(to=25)]
        assert times == SLIDES


CHILD = """
import os, signal, sys
from triegs import Engine, Window
directory, fatal = sys.argv[1], int(sys.argv[2])
engine = Engine.open(directory, window=Window(10, 5), sync="never")
query = engine.register("SELECT ?x { ?x <http://ex/p> ?y }", "all")
engine.push([(time, time, "<http://ex/p>", 1) for time in (1, 3, 8, 13, 17, 22)])
def take(emission):
    if emission.time == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
query.emit(take)
engine.note({"to": 25})
engine.advance(to=25)
"""


def test_a_process_that_is_killed_between_two_slides(tmp_path, monkeypatch):
    monkeypatch.undo()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD, str(tmp_path / "state"), "15"]
    done = subprocess.run(command, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    with Engine.open(tmp_path / "state") as engine:
        assert engine.positions["to"] == 25
        assert [each.time for each in engine.published] == SLIDES
        with engine.queries["all"].snapshot() as snapshot:
            assert (snapshot.time, sorted(row.x for row in snapshot.answers("python"))) == (
                25, [17, 22],
            )  # fmt: skip
        assert engine.advance() == []


@pytest.mark.parametrize("to", ["soon", "", -(2**63)])
def test_a_watermark_that_is_no_time_is_not_recorded(to):
    disk = PowerDisk()
    with begin(disk) as engine:
        for move in (engine.advance, lambda to: list(engine.each_slide(to=to))):
            with pytest.raises(WindowError, match="a watermark must be a time, not"):
                move(to)
        assert [each.time for each in engine.advance(to=10)] == [5, 10]
    with open_on(disk) as engine:
        assert [each.time for each in engine.advance(to=25)] == [15, 20, 25]
