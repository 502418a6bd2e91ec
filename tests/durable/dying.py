"""Processes that play scripts on a real directory and die: by SIGKILL, at any moment or at a named
point. Run as a program, it prints how often each point was hit, as JSON; see `main`.

The parent has everything in memory and no thread; it forks a child for each life, so a life costs
what it does. A child tells each step that it has done through a pipe, and each opening looks at
what the lives before have left.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
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

from triegs import Engine
from triegs.durable.directory import SETTINGS
from triegs.durable.files import DiskFile, DiskFiles
from triegs.durable.inbox import commit_batch
from triegs.durable.opening import Settings
from triegs.mode import Mode

if TYPE_CHECKING:
    from typing_extensions import Buffer

PHASES = {
    "make": ("before", "after"),
    "write": ("before", "half", "after"),
    "sync": ("before", "after"),
    "swap": ("before", "after"),
    "remove": ("before", "after"),
}
#: What is done to which files.
DONE = {
    "log": ("write", "sync"),
    "segment": ("make", "write", "sync", "remove"),
    "checkpoint": ("make", "write", "sync", "swap", "remove"),
    "settings": ("make", "write", "sync", "swap"),
    "inbox": ("make", "write", "sync", "swap", "remove"),
}
#: Points by the names of file, operation and phase.
POINTS = [
    f"{what} {operation} {phase}"
    for what, operations in DONE.items()
    for operation in operations
    for phase in PHASES[operation]
]
LATER_POINTS = [point for point in POINTS if not point.startswith("settings")]
#: Points that a life comes by often, so that the first time is not the only one of interest.
OFTEN = ("log write", "log sync", "checkpoint write")
SYNCS: tuple[str, ...] = ("always", "50ms", "never")
ANY_MOMENT = "any moment"
TOO_LONG = 240.0
MOST_LIVES = 12


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class Trap:
    """Ends the process when it comes by a point for the n-th time."""

    def __init__(self, point: str, count: int, tell: Callable[[str], object]) -> None:
        self._point = point
        self._left = count
        self._tell = tell

    def is_for(self, point: str) -> bool:
        return point == self._point

    def is_at(self, point: str) -> bool:
        if point == self._point:
            self._left -= 1
        return point == self._point and self._left == 0

    def spring(self) -> None:
        self._tell(f"killed {self._point}")
        die()

    def come_by(self, point: str) -> None:
        if self.is_at(point):
            self.spring()


class DyingFile(DiskFile):
    """A file whose writes and syncs are points."""

    def __init__(self, path: Path, trap: Trap) -> None:
        self._trap = trap
        self._what = name_file(path)
        self._is_in_write = False
        is_new = not path.exists()
        what = "segment" if self._what == "log" else self._what
        if is_new:
            trap.come_by(f"{what} make before")
        super().__init__(path)
        if is_new:
            trap.come_by(f"{what} make after")

    def _name(self) -> str:
        """A log without records yet is a segment that is being made."""
        return "segment" if self._what == "log" and self.size <= 24 else self._what

    @property
    def number(self) -> int:
        """For a kernel, which comes by the same points as `write` but writes all or nothing."""
        if self._what != "log" or self._trap.is_for("log write half"):
            return -1
        self._trap.come_by("log write before")
        return super().number

    def follow(self, written: int) -> None:
        super().follow(written)
        if not self._is_in_write:
            self._trap.come_by("log write after")

    def write(self, parts: Sequence[Buffer]) -> None:
        self._is_in_write = True
        try:
            self._write(parts)
        finally:
            self._is_in_write = False

    def _write(self, parts: Sequence[Buffer]) -> None:
        point = f"{'segment' if self._what == 'log' and not self.size else self._what} write"
        self._trap.come_by(f"{point} before")
        if self._trap.is_at(f"{point} half"):
            whole = b"".join(memoryview(part).tobytes() for part in parts)
            super().write([whole[: len(whole) // 2]])
            self._trap.spring()
        super().write(parts)
        self._trap.come_by(f"{point} after")

    def sync(self) -> None:
        point = f"{self._name()} sync"
        self._trap.come_by(f"{point} before")
        super().sync()
        self._trap.come_by(f"{point} after")


class DyingFiles(DiskFiles):
    """A disk on which a process comes by the points of a trap."""

    def __init__(self, trap: Trap) -> None:
        self._trap = trap

    def open(self, path: Path) -> DyingFile:
        return DyingFile(path, self._trap)

    def replace(self, source: Path, target: Path) -> None:
        point = f"{name_file(target)} swap"
        self._trap.come_by(f"{point} before")
        super().replace(source, target)
        self._trap.come_by(f"{point} after")

    def remove(self, path: Path) -> None:
        what = name_file(path)
        point = f"{'segment' if what == 'log' else what} remove"
        if path.exists():
            self._trap.come_by(f"{point} before")
        super().remove(path)
        self._trap.come_by(f"{point} after")


def name_file(path: Path) -> str:
    folders = {"log": "log", "checkpoints": "checkpoint", "inbox": "inbox"}
    return folders.get(path.parent.name, "settings")


class Lives:
    """One script on one directory, through any number of lives."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.seed = seed
        self.random = Random(seed)
        is_windowed = self.random.random() < 0.6
        self.options = make_options(self.random, is_windowed)
        self.script: list[Step] = draw_script(self.random, 24, is_windowed)
        with Engine(**self.options) as engine:
            self.expected = play_all(engine, self.script)
        self.directory = directory
        self.sync = SYNCS[seed % len(SYNCS)]
        self.segment_bytes = self.random.choice([300, 1500])
        self.checkpoint_bytes = self.random.choice([500, 2000, None])
        self.lives = 0
        #: The last step that a life said it had done, or found done.
        self.done = -1

    def open(self, files: DyingFiles) -> Engine:
        mode = Mode(self.options["mode"]).value
        settings = Settings(mode, self.options.get("window"), self.options.get("event_time"))
        return Engine._open(
            self.directory, settings, files, self.sync, self.checkpoint_bytes, self.segment_bytes
        )

    def live(self, trap: Trap, tell: Callable[[str], object]) -> None:
        """Open the directory, check that it is as earlier lives left it, and continue."""
        files = DyingFiles(trap)
        engine = self.open(files)
        found = self.look_back(engine)
        tell(f"opened {found}")
        random = Random(self.random.random() + self.lives)
        for number in range(found + 1, len(self.script)):
            step = self.script[number]
            engine.note({"step": number})
            returned, expected = self.play(engine, number, files), self.expected[number]
            assert look(engine) == expected[1], (number, step, look(engine), expected[1])
            # A hold is no change: one of a life before may be there without the step that is noted
            # with the next change, and is then refused.
            is_there = step[0] in ("hold", "release") and number <= self.done + 1
            assert is_there or returned == expected[0], (number, step, returned, expected[0])
            tell(f"done {number}")
            if random.random() < 0.25:
                engine.checkpoint()
        engine.close()
        tell("finished")

    def play(self, engine: Engine, number: int, files: DyingFiles) -> Any:
        """Make one call; every second epoch comes by the inbox."""
        name, *given = step = self.script[number]
        if name != "apply" or given[1] or number % 2:
            return play(engine, step)
        commit_batch(self.directory, make_table(given[0]), "feed", number, files=files)
        ((_, _, report, problem),) = engine.take_inbox()
        assert problem is None, problem
        return report.epoch, report.refused

    def look_back(self, engine: Engine) -> int:
        """The step up to which an engine has come, which shows what an uninterrupted run does."""
        found: int = engine.positions.get("step", -1)
        assert found <= self.done + 1, (found, self.done)
        recorded = [n for n in range(self.done + 1) if is_recorded(self.script, self.expected, n)]
        assert found >= max(recorded, default=-1), (found, recorded)
        if found >= 0:
            shown, expected = look(engine), self.expected[found][1]
            assert shown == expected, (found, shown, expected, engine.recovery)
            check_published(engine, self.script[found], self.expected[found][0])
        return found

    def run(self, point: str, count: int, seconds: float | None) -> tuple[str, list[str]]:
        """One life in a child: how it ended, and what it reported."""
        self.lives += 1
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(readable)
            self._be_child(point, count, writable)
        os.close(writable)
        try:
            told = follow(child, readable, seconds)
        finally:
            os.close(readable)
        _, status = os.waitpid(child, 0)
        for line in told:
            word, _, number = line.partition(" ")
            if word in ("opened", "done"):
                self.done = max(self.done, int(number))
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, os.WTERMSIG(status)
            return "killed", told
        return ("finished" if os.WEXITSTATUS(status) == 0 else "wrong"), told

    def _be_child(self, point: str, count: int, writable: int) -> None:
        def tell(line: str) -> None:
            os.write(writable, f"{line}\n".encode())

        code = 1
        try:
            self.live(Trap(point, count, tell), tell)
            code = 0
        except BaseException:
            os.write(writable, traceback.format_exc().encode())
        finally:
            os._exit(code)


def make_table(batch: list[Any]) -> pa.Table:
    """Updates as the inbox takes them."""
    integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
    rows = [[integer(cell) if isinstance(cell, int) else cell for cell in row] for row in batch]
    names = ["op", "subject", "predicate", "object"]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def follow(child: int, readable: int, seconds: float | None) -> list[str]:
    """Everything that a child reports; it is killed after so many seconds."""
    data = b""
    end = time.monotonic() + (TOO_LONG if seconds is None else seconds)
    is_killed = False
    while True:
        left = None if is_killed else max(0.0, end - time.monotonic())
        ready, _, _ = select.select([readable], [], [], left)
        if not ready:
            assert seconds is not None, "a life does not end"
            os.kill(child, signal.SIGKILL)
            is_killed = True
        elif part := os.read(readable, 1 << 16):
            data += part
        else:
            return data.decode().splitlines()


def main(home: Path, kills: int, seed: int) -> int:
    """Kill so often and at every point, over all policies; each fourth time at a random moment,
    else at the point that was hit least so far.
    """
    random = Random(seed)
    hits: Counter[str] = Counter()
    syncs: Counter[str] = Counter()
    warm_up(home / "warm", seed)
    scripts = 0
    while scripts < kills and (
        hits.total() < kills
        or scripts % len(SYNCS)
        or not all(hits[each] for each in [*POINTS, ANY_MOMENT])
    ):
        run = Lives(seed * 1000 + scripts, home / str(scripts))
        scripts += 1
        while True:
            point, count, seconds = choose(random, hits, run)
            end, told = run.run(point, count, seconds)
            if end != "killed":
                break
            hits[point or ANY_MOMENT] += 1
            syncs[run.sync] += 1
        if end == "wrong":
            print("\n".join([f"seed {run.seed}, life {run.lives}, {point!r} {count}", *told]))
            return 1
        shutil.rmtree(run.directory)
    print(json.dumps({"hits": hits, "syncs": syncs, "scripts": scripts}))
    return 0


def choose(random: Random, hits: Counter[str], run: Lives) -> tuple[str, int, float | None]:
    """A point and at which passing of it, or seconds."""
    if run.lives >= MOST_LIVES:
        return "", 0, None
    is_first = not (run.directory / SETTINGS).exists()
    if not is_first and random.random() < 0.25:
        return "", 0, random.random() * 0.5
    points = POINTS if is_first else LATER_POINTS
    least = min(hits[point] for point in points)
    point = random.choice([point for point in points if hits[point] == least])
    most = 10 if point.startswith(OFTEN) else 1 if point.startswith("settings") else 2
    return point, random.randint(1, most), None


def warm_up(directory: Path, seed: int) -> None:
    """Load all compiled code before the first fork."""
    for number in range(3):
        run = Lives(seed + number, directory / str(number))
        run.sync = "never"
        run.live(Trap("", 0, id), id)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
