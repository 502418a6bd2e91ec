"""Opening a directory: the newest good checkpoint, the records after it, and a journal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from triegs.durable.checkpoint_manager import CheckpointManager
from triegs.durable.checkpoints import Checkpoints
from triegs.durable.columns import Content, unpack
from triegs.durable.directory import (
    SETTINGS,
    Lock,
    read_settings,
    refuse_foreign,
    write_settings,
)
from triegs.durable.files import Files
from triegs.durable.inbox import Inbox
from triegs.durable.journal import Journal, Kind
from triegs.durable.log import SEGMENT_BYTES, Log, Sync
from triegs.durable.protocol import RecoverableEngine
from triegs.durable.recovery import Recovery
from triegs.durable.replay import Replay
from triegs.durable.segments import Segment, name_segment
from triegs.durable.state import restore_state
from triegs.durations import read_duration
from triegs.errors import (
    BadOption,
    InvalidUpdate,
    LogFailed,
    MemoryLimitReached,
    MultiplicityOverflow,
    StateDamaged,
    StateError,
    WindowError,
)
from triegs.mode import Mode
from triegs.sparql.window import Window
from triegs.store.room import RESERVE_BYTES
from triegs.windows.settings import EventTime
from triegs.windows.state import read_window, write_window

LOG, CHECKPOINTS = "log", "checkpoints"
#: The errors of a call that fails again whenever it is repeated in the same state.
REFUSALS = (BadOption, InvalidUpdate, MultiplicityOverflow, StateError, WindowError)


Sections = Iterator[tuple[str, Content]]


class Settings(NamedTuple):
    """The settings that a directory stores; None takes what the directory has."""

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
        """The stored settings; `StateError` if those that are given differ."""
        given = self.write()
        for name, value in self._asdict().items():
            if value is not None and given[name] != kept[name]:
                raise StateError(
                    f"the engine in {directory} has {name} {kept[name]!r}, not {given[name]!r}"
                )
        window = None if kept["window"] is None else read_window(kept["window"])
        return Settings(kept["mode"], window, EventTime(*kept["event_time"]))


#: Makes an empty engine with the settings of a directory.
Make = Callable[[Settings], RecoverableEngine]


def read_sync(sync: str | float) -> Sync:
    """``"always"``, ``"never"``, or a duration such as ``"100ms"`` or milliseconds."""
    if sync == "always" or sync == "never":
        return sync  # type: ignore[return-value]
    found = math.nan
    with suppress(ValueError, TypeError):
        found = read_duration(sync) if isinstance(sync, str) else float(sync)
    if isinstance(sync, bool) or not 0 < found < math.inf:
        raise BadOption(f"sync must be 'always', 'never' or a duration such as 100ms, not {sync!r}")
    return found


def open_engine(
    make: Make,
    directory: Path,
    settings: Settings,
    files: Files,
    sync: str | float,
    checkpoint_bytes: int | None,
    segment_bytes: int = SEGMENT_BYTES,
) -> CheckpointManager:
    """Make an engine, restore it from the directory, and log its further changes there.

    `make` may be called several times; the last engine is the one that is open. Returns the manager
    of the directory. Cost: the state, and the changes since the last checkpoint.
    """
    started = perf_counter()
    policy = read_sync(sync)
    refuse_foreign(files, directory)
    try:
        files.make_folder(directory)
        lock = Lock(directory)
    except OSError as error:
        raise _refuse(directory, error) from error
    log: Log | None = None
    try:
        kept = read_settings(files, directory)
        if kept is not None:
            settings = settings.agree(directory, kept)
        checkpoints = Checkpoints(files, directory / CHECKPOINTS)
        segments = Log.look(files, directory / LOG)
        check_files(directory, kept is not None, checkpoints, segments)
        sections, sequence, damaged = choose(checkpoints, segments, directory)
        # Up to here nothing on disk was changed.
        log, found = Log.open(
            files, directory / LOG, sync=policy, segment_bytes=segment_bytes, segments=segments
        )
        if kept is None:
            write_settings(files, directory, settings.write())
        is_refused, refusing = False, dict[int, list[int]]()
        while True:
            engine = make(settings)
            replay, is_failed = restore(
                engine, log, sections, sequence, is_last_refused=is_refused, refusing=refusing
            )
            if replay.exceeds is None:
                break
            # The process died before it could undo or note what the memory limit refused.
            if replay.has_slides:
                refusing.setdefault(log.last, []).append(replay.exceeds)
            else:
                is_refused = True
            sections = checkpoints.read(sequence) if sequence else None
        lost = replay.finish()
        check_room(engine, replay, directory)
        limit = engine.store.memory_limit
        engine.journal = journal = Journal(log, engine.dictionary, engine.windows.identities, limit)
        last = journal.last
        journal.positions = replay.positions
        engine.published = replay.published
        if is_failed:
            with journal.record(Kind.NOTE, engine.epoch, {"failed": last}):
                pass
        for record, slides in refusing.items():
            journal.note_refusing(record, slides)
            journal.flush(engine.epoch)
        if replay.stop is not None:
            journal.note_stop(last, len(replay.published))
            journal.flush(engine.epoch)
        for name in replay.lost_queries:
            engine.close_query(name)
        inbox = Inbox(files, directory)
        manager = CheckpointManager(engine, lock, log, checkpoints, inbox, checkpoint_bytes)
        manager.recovery = Recovery(
            engine.epoch, sequence, replay.replayed, found.cut, tuple(damaged), lost,
            replay.lost_queries, perf_counter() - started,
        )  # fmt: skip
        return manager
    except BaseException as problem:
        if log is not None:
            with suppress(LogFailed):
                log.close()
        lock.close()
        if isinstance(problem, OSError):
            raise _refuse(directory, problem) from problem
        raise


def restore(
    engine: RecoverableEngine, log: Log, sections: Sections | None, sequence: int,
    *, is_last_refused: bool = False, refusing: Mapping[int, Sequence[int]] | None = None,
) -> tuple[Replay, bool]:  # fmt: skip
    """Restore a new engine from the sections of a checkpoint and the log after its record.

    Returns the replay, and whether the last record is of a change that failed. Changes are replayed
    without a memory limit: under another limit, or another layout of memory, what fitted then might
    not fit now.
    """
    with engine.store.without_limit():
        fields: dict[str, Any] = {"positions": {}, "holds": {}}
        if sections is not None:
            fields = restore_state(engine, sections)
        holds, failed, stopped, found = _look_ahead(log, sequence, fields["holds"])
        replay = Replay(engine, holds, stopped, {**found, **(refusing or {})})
        replay.positions.update(fields["positions"])
        replay.lost_queries.update(fields.get("lost_queries", {}))
        replay.limit = fields.get("limit")
        if is_last_refused:
            failed.add(log.last)
        return replay, _replay(log, sequence, replay, failed) or is_last_refused


def check_room(engine: RecoverableEngine, replay: Replay, directory: Path) -> None:
    """Check that the restored state is within the engine's current memory limit.

    State that was accepted under this limit or a smaller one is accepted even if it now takes
    somewhat more, because memory is laid out differently.
    """
    limit, before, used = engine.store.memory_limit, replay.limit, replay.count_bytes()
    if limit is not None and used > limit and (before is None or before > limit):
        raise MemoryLimitReached(
            f"the engine in {directory} takes {used:,} bytes: no room under {limit:,} bytes"
        )


def _refuse(directory: Path, problem: OSError) -> StateError:
    return StateError(f"the engine in {directory} cannot be opened: {problem}")


def check_files(
    directory: Path, has_settings: bool, checkpoints: Checkpoints, segments: list[Segment]
) -> None:
    """Check that no file is missing, by the order in which they are made: the log, the settings,
    and before each checkpoint the segment that follows it.
    """
    numbers, firsts = checkpoints.list(), [segment.first for segment in segments]
    if has_settings and not segments:
        raise StateDamaged("the log is missing", file=directory / LOG)
    if not has_settings and (numbers or any(segment.last for segment in segments)):
        reason = "this file is missing, and there is a log or a checkpoint"
        raise StateDamaged(reason, file=directory / SETTINGS)
    for sequence in numbers:
        following = name_segment(directory / LOG, sequence + 1)
        if sequence + 1 > firsts[0] and sequence + 1 not in firsts:
            raise StateDamaged("this segment of the log is missing", file=following)


def choose(
    checkpoints: Checkpoints, segments: list[Segment], directory: Path
) -> tuple[Sections | None, int, list[StateDamaged]]:
    """The newest intact checkpoint that the log continues."""
    damaged = []
    first = segments[0].first if segments else 1
    for sequence in checkpoints.list():
        try:
            sections = checkpoints.read(sequence)
        except StateDamaged as problem:
            damaged.append(problem)
            continue
        if first <= sequence + 1:
            return sections, sequence, damaged
        break
    if first > 1:
        missing = f"records before {first} are needed and gone"
        if damaged:
            reason, file, offset = damaged[0].reason, damaged[0].file, damaged[0].offset
            raise StateDamaged(f"{reason}; {missing}", file=file, offset=offset)
        raise StateDamaged(f"there is no checkpoint; {missing}", file=directory / CHECKPOINTS)
    return None, 0, damaged


def _replay(log: Log, after: int, replay: Replay, failed: set[int]) -> bool:
    """Replay the log; returns whether its last record is of a change that failed.

    A record is written before its change is made, so the outcome of the last one is unknown. If it
    is refused now it was refused then, and no caller was told otherwise.
    """
    segment = 0
    for record in log.read(after):
        if record.segment != segment:
            replay.begin_segment()
            segment = record.segment
        try:
            content = unpack(record.payload)
            if record.sequence in failed:
                replay.define(content)
            else:
                limit = content.fields.get("limit")
                # Only the last record can be there although it was refused: then it leaves less
                # room under the limit than inserts must. Half of that margin is enough, because
                # memory may be laid out differently now.
                if record.sequence == log.last and limit is not None:
                    replay.most = limit - RESERVE_BYTES // 2
                replay.take(record.kind, record.sequence, content)
                if replay.stop is not None and record.sequence < log.last:
                    raise replay.stop
        except MemoryLimitReached:
            raise
        except Exception as problem:
            if record.sequence == log.last and isinstance(problem, REFUSALS):
                return True
            reason = f"record {record.sequence} cannot be replayed: {problem}"
            raise StateDamaged(reason, file=log.folder) from problem
    return False


def _look_ahead(
    log: Log, after: int, holds: dict[str, int]
) -> tuple[dict[str, int], set[int], dict[int, int], dict[int, list[int]]]:
    """The epochs held by name at the end of the log, the records that failed, the number of slides
    published by those that stopped early, and the slides that refused their events.
    """
    found: dict[str, int | None] = dict(holds)
    failed, stopped, refusing = set(), {}, {}
    for record in log.read(after):
        fields = unpack(record.payload).fields
        found.update(fields.get("holds", {}))
        if "failed" in fields:
            failed.add(fields["failed"])
        stopped.update({int(each): slides for each, slides in fields.get("stopped", {}).items()})
        refusing.update({int(each): which for each, which in fields.get("refusing", {}).items()})
    kept = {name: epoch for name, epoch in found.items() if epoch is not None}
    return kept, failed, stopped, refusing
