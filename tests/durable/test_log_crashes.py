"""The log on a disk that loses power, in a process that dies, against a plain list."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.durable.disk import Crash, Fault, PowerDisk

from triegs.durable.frames import FRAME_MAGIC
from triegs.durable.log import Log, Sync
from triegs.errors import LogFailed

FOLDER = Path("/data/log")
SYNCS: list[Sync] = ["always", "never"]
SIZES = [0, 1, 7, 8, 30, 600, 1100]
FILLINGS = [b"\0", FRAME_MAGIC + b"....", b"abc", b"\xff"]
ROOMS = [0, 1, 8, 20, 24, 31, 33, 600, 5_000]
# So many lives are led for each example that is drawn: drawing costs more than living.
LIVES = 8
STEPS = 60

Known = tuple[int, int, bytes]


class Life:
    """A log and its model: `kept` is what was appended and not undone.

    `doubt` is a record that may be there or not: its append or undo did not end.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = PowerDisk()
        self.sync: Sync = random.choice(SYNCS)
        self.segment_bytes = random.choice([1, 150, 2_000])
        # A disk that refuses now and then, or a sound one.
        self.fault_rate = random.choice([0.0, 0.3])
        # One that others fill and empty, too, or one without end.
        self.full_rate = random.choice([0.0, 0.2])
        self.log: Log | None = None
        self.kept: list[Known] = []
        self.doubt: Known | None = None
        self.safe = 0
        self.first = 1
        self.trimmed = 1
        self.can_undo = False
        self.power_lost = False

    def step(self) -> None:
        if self.random.random() < self.fault_rate:
            self.plan_fault(self.random.randrange(6))
        if self.random.random() < self.full_rate:
            self.disk.room = self.random.choice([None, None, 0, 60, 700, 20_000, 400_000])
        if self.log is None:
            if self.random.random() < 0.5:
                self.lose_power()
            self.open()
        else:
            names = ["append", "undo", "wait", "trim", "read", "close", "die"]
            (name,) = self.random.choices(names, [12, 4, 3, 2, 1, 1, 2])
            getattr(self, name)()
        self.check()

    def plan_fault(self, after: int) -> None:
        number = self.random.choice([errno.EIO, errno.ENOSPC])
        fault = Fault(number, self.random.choice(ROOMS), self.random.random() < 0.5)
        self.disk.fail(after, fault, self.random.choice([1, 1, 2, 3]))

    def attempt(self, call: Callable[[Log], object]) -> bool:
        """Whether it was done. After a crash the log is gone; after a failure it may continue."""
        assert self.log is not None
        try:
            call(self.log)
        except Crash:
            self.die()
            return False
        except LogFailed:
            return False
        return True

    def die(self) -> None:
        self.log = None
        self.can_undo = False
        self.power_lost = False
        self.disk.die()

    def draw_part(self) -> bytes:
        size = self.random.choice(SIZES)
        filling = self.random.choice([*FILLINGS, self.random.randbytes(5)])
        return (filling * size)[:size]

    def append(self) -> None:
        kind = self.random.randrange(3)
        parts = [self.draw_part() for _ in range(self.random.randrange(3))]
        record = (len(self.kept) + 1, kind, b"".join(parts))
        numbers: list[int] = []
        was_broken = self.log and self.log.broken
        self.can_undo = self.attempt(lambda log: numbers.append(log.append(kind, parts)))
        if self.can_undo:
            assert numbers == [record[0]]
            self.kept.append(record)
            self.doubt = None
        elif self.log is None or (self.sync == "always" and self.log.broken and not was_broken):
            self.doubt = record

    def undo(self) -> None:
        if not self.can_undo:
            return
        self.can_undo = False
        record = self.kept.pop()
        self.safe = min(self.safe, record[0] - 1)
        if not self.attempt(lambda log: log.undo(record[0])):
            assert self.log is None or self.log.broken
            self.doubt = record

    def wait(self) -> None:
        if self.attempt(lambda log: log.wait(len(self.kept))) and self.log and not self.log.broken:
            assert self.log.synced >= len(self.kept)

    def trim(self) -> None:
        before = len(self.kept) - self.random.randrange(-2, 6)
        self.trimmed = max(self.trimmed, before)
        removed: list[Path] = []
        if self.attempt(lambda log: removed.extend(log.trim(before))) and removed and self.log:
            self.first = self.log.first

    def read(self) -> None:
        if self.log is not None and not self.log.broken:
            self.compare(self.log)

    def close(self) -> None:
        if self.attempt(lambda log: log.close()) and self.log and not self.log.broken:
            self.safe = len(self.kept)
        self.die()

    def lose_power(self) -> None:
        faults = self.disk.faults
        self.disk.lose_power(self.random)
        self.disk.faults = faults
        self.power_lost = True

    def open(self) -> None:
        refuses = bool(self.disk.faults) or self.disk.room is not None
        try:
            log, found = Log.open(
                self.disk, FOLDER, sync=self.sync, segment_bytes=self.segment_bytes
            )
        except (Crash, LogFailed):
            assert refuses
            self.disk.die()
            return
        allowed = [*self.kept, self.doubt] if self.doubt else self.kept
        assert len(allowed) >= found.last >= (self.safe if self.power_lost else len(self.kept))
        assert self.first <= found.first <= self.trimmed
        assert (log.first, log.last, log.synced) == (found.first, found.last, found.last)
        self.kept = allowed[: found.last]
        self.doubt = None
        self.log = log
        self.compare(log)

    def compare(self, log: Log) -> None:
        found = [(number, kind, bytes(payload)) for _, number, kind, payload in log.read()]
        assert found == [record for record in self.kept if record[0] >= log.first]

    def check(self) -> None:
        if self.log is None:
            return
        assert self.safe <= self.log.synced <= self.log.last
        if not self.log.broken:
            assert self.log.last == len(self.kept)
        self.safe = min(self.log.synced, len(self.kept))


@given(st.randoms(use_true_random=True))
def test_after_any_crash_there_is_a_beginning_of_what_was_appended(random):
    for _ in range(LIVES):
        seed = random.getrandbits(64)
        life = Life(Random(seed))
        try:
            for _ in range(STEPS):
                life.step()
        except BaseException as error:
            error.add_note(f"in the life of Random({seed})")
            raise
