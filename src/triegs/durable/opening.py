"""Opening a directory: the newest good checkpoint, the records behind it, and a journal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

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
from triegs.durable.keeper import Keeper
from triegs.durable.log import SEGMENT_BYTES, Cut, Log, Sync
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
    checkpoint, which are gone; ``lost_queries`` says by name why a query is refused by this
    version, and closed.
    """

    epoch: int
    checkpoint: int
    replayed: int
    cut: Cut | None
    damaged: tuple[StateDamaged, ...]
    lost_holds: Mapping[str, int]
    lost_queries: Mapping[str, str]
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
    found = math.nan
    with suppress(ValueError, TypeError):
        found = read_duration(sync) if isinstance(sync, str) else float(sync)
    if isinstance(sync, bool) or not 0 < found < math.inf:
        raise BadOption(f"sync is 'always', 'never' or a duration such as 100ms, not {sync!r}")
    return found


def open_engine(
    make: Callable[..., Engine],
    directory: Path,
    settings: Settings,
    files: Files,
    sync: str | float,
    checkpoint_bytes: int | None,
    segment_bytes: int = SEGMENT_BYTES,
) -> Engine:
    """An engine that stands where the directory says, and keeps it. Cost: the state, and what was
    done since the last checkpoint.
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
        parts, sequence, damaged = choose(checkpoints, segments, directory)
        # Up to here nothing on disk was changed.
        log, found = Log.open(
            files, directory / LOG, sync=policy, segment_bytes=segment_bytes, segments=segments
        )
        if kept is None:
            write_settings(files, directory, settings.write())
        is_refused, refusing = False, dict[int, list[int]]()
        while True:
            engine = make(
                settings.mode or "multigraph", window=settings.window,
                event_time=settings.event_time,
            )  # fmt: skip
            replay, is_failed = restore(
                engine, log, parts, sequence, is_last_refused=is_refused, refusing=refusing
            )
            if replay.exceeds is None:
                break
            # The process died before what the memory limit refused was taken back, or noted.
            if replay.has_slides:
                refusing.setdefault(log.last, []).append(replay.exceeds)
            else:
                is_refused = True
            parts = checkpoints.read(sequence) if sequence else None
        lost = replay.finish()
        check_room(engine, replay, directory)
        limit = engine._store.memory_limit
        engine._journal = journal = Journal(
            log, engine._dictionary, engine._windows.identities, limit
        )
        last = journal.last
        journal.positions = replay.positions
        engine._published = replay.published
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
            engine._queries[name].close()
        inbox = Inbox(files, directory)
        engine._keeper = Keeper(engine, lock, log, checkpoints, inbox, checkpoint_bytes)
        engine._keeper.recovery = Recovery(
            engine.epoch, sequence, replay.replayed, found.cut, tuple(damaged), lost,
            replay.lost_queries, perf_counter() - started,
        )  # fmt: skip
        return engine
    except BaseException as problem:
        if log is not None:
            with suppress(LogFailed):
                log.close()
        lock.close()
        if isinstance(problem, OSError):
            raise _refuse(directory, problem) from problem
        raise


def restore(
    engine: Engine, log: Log, parts: Iterator[tuple[str, Content]] | None, sequence: int,
    *, is_last_refused: bool = False, refusing: Mapping[int, Sequence[int]] | None = None,
) -> tuple[Replay, bool]:  # fmt: skip
    """Let a new engine stand where a checkpoint and the log behind its record say.

    Returns the replay, and whether the last record tells of what failed. What was done once is done
    again whatever the limit: where that is another, or memory is laid out otherwise, what had room
    then might have none.
    """
    with engine._store.without_limit():
        fields: dict[str, Any] = {"positions": {}, "holds": {}}
        if parts is not None:
            fields = restore_state(engine, parts)
        holds, failed, stopped, found = _look_ahead(log, sequence, fields["holds"])
        replay = Replay(engine, holds, stopped, {**found, **(refusing or {})})
        replay.positions.update(fields["positions"])
        replay.lost_queries.update(fields.get("lost_queries", {}))
        replay.limit = fields.get("limit")
        if is_last_refused:
            failed.add(log.last)
        return replay, _replay(log, sequence, replay, failed) or is_last_refused


def check_room(engine: Engine, replay: Replay, directory: Path) -> None:
    """See that what was restored is within the limit that the engine has now.

    What was accepted under this limit, or a smaller one, has room, even if it takes some more now
    because memory is laid out otherwise.
    """
    limit, before, used = engine._store.memory_limit, replay.limit, replay.count_bytes()
    if limit is not None and used > limit and (before is None or before > limit):
        raise MemoryLimitReached(
            f"the engine in {directory} takes {used:,} bytes: no room under {limit:,} bytes"
        )


def _refuse(directory: Path, problem: OSError) -> StateError:
    return StateError(f"the engine in {directory} cannot be opened: {problem}")


def check_files(
    directory: Path, has_settings: bool, checkpoints: Checkpoints, segments: list[Segment]
) -> None:
    """See that no file is missing, by the order in which they are made: the log, the settings,
    and before each checkpoint the segment behind it.
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
) -> tuple[Iterator[tuple[str, Content]] | None, int, list[StateDamaged]]:
    """The newest checkpoint that is whole and that the log follows."""
    damaged = []
    first = segments[0].first if segments else 1
    for sequence in checkpoints.list():
        try:
            parts = checkpoints.read(sequence)
        except StateDamaged as problem:
            damaged.append(problem)
            continue
        if first <= sequence + 1:
            return parts, sequence, damaged
        break
    if first > 1:
        missing = f"records before {first} are needed and gone"
        if damaged:
            reason, file, offset = damaged[0].reason, damaged[0].file, damaged[0].offset
            raise StateDamaged(f"{reason}; {missing}", file=file, offset=offset)
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
        try:
            content = unpack(record.payload)
            if record.sequence in failed:
                replay.define(content)
            else:
                limit = content.fields.get("limit")
                # Only the last record may have been refused, and be there: then it leaves less
                # than inserts do under the limit, and nobody was told that it was done. Half of
                # that is enough, for memory may be laid out otherwise now.
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
            reason = f"record {record.sequence} cannot be done again: {problem}"
            raise StateDamaged(reason, file=log.folder) from problem
    return False


def _look_ahead(
    log: Log, after: int, holds: dict[str, int]
) -> tuple[dict[str, int], set[int], dict[int, int], dict[int, list[int]]]:
    """The epochs that are held by name at the end of the log, the records that failed, of those
    that were not done to their ends how many slides were published, and which slides refused.
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
