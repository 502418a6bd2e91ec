"""An engine on a disk that dies at any operation, loses power, or refuses: what was promised is
there, nothing comes twice, and the future is the same.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.durable.disk import Crash, Fault, PowerDisk
from tests.durable.play import (
    Step,
    check_published,
    draw_script,
    is_recorded,
    look,
    make_options,
    play,
    play_all,
)

from triegs import Engine, LogFailed, StateError
from triegs.durable import opening
from triegs.durable.log import Log
from triegs.mode import Mode

HOME = Path("/engine")
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
SEEDS = range(100 if SOAK else 10)


class NoLock:
    def __init__(self, _: Path) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_lock(monkeypatch):
    monkeypatch.setattr(opening, "Lock", NoLock)


def open_on(disk: PowerDisk, options: dict[str, Any], sync: Any = "never") -> Engine:
    mode = Mode(options["mode"]).value
    settings = opening.Settings(mode, options.get("window"), options.get("event_time"))
    return Engine._open(HOME, settings, disk, sync, None)


class Run:
    """A script on a disk, through any number of ends of the process."""

    def __init__(self, seed: int, sync: Any) -> None:
        self.random = Random(seed)
        is_windowed = self.random.random() < 0.6
        self.options = make_options(self.random, is_windowed)
        self.script: list[Step] = draw_script(self.random, 16, is_windowed)
        with Engine(**self.options) as engine:
            self.expected = play_all(engine, self.script)
        self.disk = PowerDisk()
        self.sync = sync
        self.engine = open_on(self.disk, self.options, sync)
        self.step = -1
        #: The last step of which it was said that it survives the loss of power.
        self.safe = -1

    @property
    def log(self) -> Log:
        journal = self.engine._internals.journal
        assert journal is not None
        return journal.log

    def go_on(self, until: int) -> None:
        """Make the next calls, as far as the process lives."""
        for number in range(self.step + 1, until):
            self.engine.note({"step": number})
            play(self.engine, self.script[number])
            self.step = number
            log = self.log
            if log.synced == log.last and self.engine.positions.get("step") == number:
                self.safe = number
            if self.random.random() < 0.1:
                self.engine.checkpoint()
                self.safe = max(self.safe, self.engine.positions.get("step", -1))
            assert look(self.engine) == self.expected[number][1]

    def come_back(self, least: int) -> None:
        """Open the directory again, and find out up to which step the engine has come."""
        self.engine = open_on(self.disk, self.options, self.sync)
        found = self.engine.positions.get("step", -1)
        # A step that writes nothing, such as a refused one, has no record.
        recorded = [n for n in range(least + 1) if is_recorded(self.script, self.expected, n)]
        assert found >= max(recorded, default=-1)
        self.step = found
        if found >= 0:
            assert look(self.engine) == self.expected[found][1], found
            check_published(self.engine, self.script[found], self.expected[found][0])

    def abandon(self) -> None:
        """The process is gone: nothing of the engine is written any more."""
        keeper = self.engine._internals.checkpoint_manager
        if keeper is not None and keeper._thread is not None:
            keeper._thread.join()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sync", ["always", "never"])
@pytest.mark.parametrize("end", ["death", "power"])
def test_any_end_at_any_operation(seed, sync, end):
    run = Run(seed, sync)
    for _ in range(4):
        run.disk.fail(run.random.randrange(25), Fault(crash=True, room=run.random.randrange(400)))
        with suppress(Crash):
            run.go_on(len(run.script))
        run.abandon()
        # Death alone loses nothing that a call has returned from.
        least = run.step if end == "death" else run.safe
        if end == "death":
            run.disk.die()
        else:
            run.disk.lose_power(run.random)
        run.come_back(least)
        run.safe = run.step
    run.disk.faults = {}
    run.go_on(len(run.script))
    assert look(run.engine) == run.expected[-1][1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
def test_a_disk_that_refuses(seed, number):
    run = Run(seed, "never")
    refused = 0
    while run.step < len(run.script) - 1 and refused < 5:
        run.disk.fail(run.random.randrange(12), Fault(number, room=run.random.randrange(200)))
        try:
            run.go_on(len(run.script))
        except (LogFailed, StateError):
            refused += 1
            run.disk.faults = {}
            if run.log._broken is None:
                # What was refused has changed nothing, and may be tried again.
                continue
            run.abandon()
            run.disk.die()
            run.come_back(run.step)
    run.disk.faults = {}
    run.go_on(len(run.script))
    assert look(run.engine) == run.expected[-1][1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sync", ["always", "never"])
def test_a_disk_that_is_full_for_a_while(seed, sync):
    """What is refused changes nothing and is tried again; the log need not be opened again."""
    run = Run(seed, sync)
    nothing = look(run.engine)
    problems: list[str] = []
    while run.step < len(run.script) - 1 and len(problems) < 5:
        run.disk.room = run.random.randrange(600)
        try:
            run.log.rotate()  # the old segment has room reserved for all of the script
            run.go_on(len(run.script))
        except (LogFailed, StateError) as problem:
            problems.append(str(problem))
            assert run.log.broken is None
            assert look(run.engine) == (run.expected[run.step][1] if run.step >= 0 else nothing)
        run.disk.room = None
    assert problems
    assert all("ENOSPC" in problem for problem in problems)
    run.go_on(len(run.script))
    assert look(run.engine) == run.expected[-1][1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sync", ["always", "never"])
def test_records_that_a_kernel_writes(seed, sync):
    """Without notes, which are written in the general way. An epoch has as many updates as its
    number says, so their number tells which epochs there are.
    """
    random, disk = Random(seed), PowerDisk()
    options = make_options(random, False)
    written = least = 0
    for _ in range(5):
        engine = open_on(disk, options, sync)
        journal = engine._internals.journal
        assert journal is not None
        done = engine.epoch
        assert done >= least
        assert engine.metrics()["updates"] == sum(range(1, done + 1))
        assert journal.log.synced == journal.log.last == done
        if random.random() < 0.5:
            disk.fail(random.randrange(30), Fault(crash=True, room=random.randrange(400)))
        with suppress(Crash):
            for number in range(done + 1, done + random.randrange(2, 30)):
                engine.apply([("+", f"<a:{number}>", "<a:p>", each) for each in range(number)])
                if random.random() < 0.1:
                    journal.log.sync()
                least = journal.log.synced
        written += journal.direct.count
        disk.lose_power(random)
    assert written > 5
