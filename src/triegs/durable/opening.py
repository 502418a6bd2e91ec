"""Opening a directory: the newest good checkpoint, the records behind it, and a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from triegs.durable.checkpoints import Checkpoints
from triegs.durable.columns import Content, unpack
from triegs.durable.directory import Lock, read_settings, write_settings
from triegs.durable.files import Files
from triegs.durable.inbox import Inbox
from triegs.durable.journal import Journal, Kind
from triegs.durable.keeper import Keeper
from triegs.durable.log import Cut, Log, Sync
from triegs.durable.replay import Replay
from triegs.durable.state import restore_state
from triegs.durations import read_duration
from triegs.errors import (
    InvalidUpdate,
    MultiplicityOverflow,
    StateDamaged,
    StateError,
    WindowError,
)
from triegs.mode import Mode
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime
from triegs.windows.state import read_window, write_window

if TYPE_CHECKING:
    from triegs.engine import Engine

LOG, CHECKPOINTS = "log", "checkpoints"
#: What makes a call fail, whenever it is made in the same state.
REFUSALS = (InvalidUpdate, MultiplicityOverflow, StateError, WindowError)


class Recovery(NamedTuple):
    """What opening a directory found.

    ``checkpoint`` is the record after which the state was taken that was read, 0 for none, and
    ``replayed`` counts the records behind it. ``cut`` is what a crash had left unfinished;
    ``damaged`` are checkpoints that were not read; ``lost_holds`` are held epochs from before the
    checkpoint, which are gone.
    """

    epoch: int
    checkpoint: int
    replayed: int
    cut: Cut | None
    damaged: tuple[StateDamaged, ...]
    lost_holds: Mapping[str, int]
    seconds: float


class Settings(NamedTuple):
    """What an engine keeps for good; None stands for what the directory says."""

    mode: str | None
    window: Window | None
    event_time: EventTime | None

    def write(self) -> dict[str, Any]:
        time = self.event_time or EventTime()
        return {
            "mode": Mode(self.mode or Mode.MULTIGRAPH).value,
            "window": None if self.window is None else write_window(self.window),
            "event_time": [time.lateness, time.late.value, time.max_ahead, time.idle_timeout],
        }

    def agree(self, directory: Path, kept: dict[str, Any]) -> Settings:
        """The settings of an engine that is there, which those that are given must not deny."""
        given = self.write()
        for name, value in self._asdict().items():
            if value is not None and given[name] != kept[name]:
                raise StateError(
                    f"the engine in {directory} has {name} {kept[name]!r}, not {given[name]!r}"
                )
        window = None if kept["window"] is None else read_window(kept["window"])
        return Settings(kept["mode"], window, EventTime(*kept["event_time"]))


def read_sync(sync: str | float) -> Sync:
    """``"always"``, ``"never"``, or a duration such as ``"100ms"`` or milliseconds."""
    if sync == "always" or sync == "never":
        return sync  # type: ignore[return-value]
    found = read_duration(sync) if isinstance(sync, str) else float(sync)
    if found <= 0:
        raise ValueError(f"sync is 'always', 'never' or a duration, not {sync!r}")
    return found


def open_engine(
    make: Callable[..., Engine],
    directory: Path,
    settings: Settings,
    files: Files,
    sync: str | float,
    checkpoint_bytes: int | None,
) -> Engine:
    """An engine that stands where the directory says, and keeps it. Cost: the state, and what was
    done since the last checkpoint.
    """
    started = perf_counter()
    policy = read_sync(sync)
    files.make_folder(directory)
    lock = Lock(directory)
    log: Log | None = None
    try:
        kept = read_settings(files, directory)
        if kept is None:
            write_settings(files, directory, settings.write())
        else:
            settings = settings.agree(directory, kept)
        checkpoints = Checkpoints(files, directory / CHECKPOINTS)
        log, found = Log.open(files, directory / LOG, sync=policy)
        engine = make(
            settings.mode or "multigraph", window=settings.window, event_time=settings.event_time
        )
        sequence, replay, is_failed, damaged = restore(engine, checkpoints, log)
        lost = replay.finish()
        engine._journal = journal = Journal(log, engine._dictionary, engine._windows.identities)
        journal.positions = replay.positions
        if is_failed:
            with journal.record(Kind.NOTE, engine.epoch, {"failed": journal.last}):
                pass
        engine._windows.recording = _recording(engine, journal)
        inbox = Inbox(files, directory)
        engine._keeper = Keeper(engine, lock, log, checkpoints, inbox, checkpoint_bytes)
        engine._keeper.recovery = Recovery(
            engine.epoch, sequence, replay.replayed, found.cut, tuple(damaged), lost,
            perf_counter() - started,
        )  # fmt: skip
        return engine
    except BaseException:
        if log is not None:
            log.close()
        lock.close()
        raise


def restore(
    engine: Engine, checkpoints: Checkpoints, log: Log
) -> tuple[int, Replay, bool, list[StateDamaged]]:
    """Let a new engine stand where the newest good checkpoint and the log say.

    Returns the record of the checkpoint, the replay, whether the last record tells of what failed,
    and what is wrong with checkpoints that were passed over.
    """
    parts, sequence, damaged = _choose(checkpoints, log, log.folder.parent)
    fields: dict[str, Any] = {"positions": {}, "holds": {}}
    if parts is not None:
        fields = restore_state(engine, parts)
    holds, failed = _look_ahead(log, sequence, fields["holds"])
    replay = Replay(engine, holds)
    replay.positions.update(fields["positions"])
    is_failed = _replay(log, sequence, replay, failed)
    return sequence, replay, is_failed, damaged


def _recording(engine: Engine, journal: Journal) -> Callable[[int], AbstractContextManager[None]]:
    return lambda time: journal.record(Kind.SLIDE, engine.epoch, {"time": time})


def _choose(
    checkpoints: Checkpoints, log: Log, directory: Path
) -> tuple[Iterator[tuple[str, Content]] | None, int, list[StateDamaged]]:
    """The newest checkpoint that is whole and that the log follows."""
    damaged = []
    for sequence in checkpoints.list():
        try:
            parts = checkpoints.read(sequence)
        except StateDamaged as problem:
            damaged.append(problem)
            continue
        if log.first <= sequence + 1:
            if log.last < sequence:
                reason = f"the log ends with record {log.last}; a checkpoint is of {sequence}"
                raise StateDamaged(reason, file=directory / LOG)
            return parts, sequence, damaged
        break
    if log.first > 1:
        missing = f"records before {log.first} are needed and gone"
        if damaged:
            first = damaged[0]
            raise StateDamaged(f"{first.reason}; {missing}", file=first.file, offset=first.offset)
        raise StateDamaged(f"there is no checkpoint; {missing}", file=directory / CHECKPOINTS)
    return None, 0, damaged


def _replay(log: Log, after: int, replay: Replay, failed: set[int]) -> bool:
    """Do everything again that the log tells; whether its last record tells of what failed.

    A record is written before what it tells is done, so of the last one we do not know: if that is
    refused now, it was refused then, and nobody was told otherwise.
    """
    segment = 0
    for record in log.read(after):
        if record.segment != segment:
            replay.begin_segment()
            segment = record.segment
        content = unpack(record.payload)
        if record.sequence in failed:
            replay.define(content)
            continue
        try:
            replay.take(record.kind, content)
        except REFUSALS as problem:
            if record.sequence == log.last:
                return True
            reason = f"record {record.sequence} cannot be done again: {problem}"
            raise StateDamaged(reason, file=log.folder) from problem
    return False


def _look_ahead(log: Log, after: int, holds: dict[str, int]) -> tuple[dict[str, int], set[int]]:
    """The epochs that are held by name at the end of the log, and the records that failed."""
    found: dict[str, int | None] = dict(holds)
    failed = set()
    for record in log.read(after):
        fields = unpack(record.payload).fields
        found.update(fields.get("holds", {}))
        if "failed" in fields:
            failed.add(fields["failed"])
    return {name: epoch for name, epoch in found.items() if epoch is not None}, failed
