"""Looking at a directory without changing anything: what is whole, and what opening it would give.

The files are read and all checksums looked at; then an engine is restored from them in memory, as
opening would do it, over a disk that is never written (`triegs.durable.overlay`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from triegs.durable.checkpoints import SUFFIX, UNFINISHED, Checkpoints
from triegs.durable.directory import LOCK, SETTINGS, read_settings
from triegs.durable.files import DiskFiles, Files
from triegs.durable.log import Log
from triegs.durable.opening import (
    CHECKPOINTS,
    LOG,
    Settings,
    check_files,
    choose,
    restore,
)
from triegs.durable.overlay import Overlay
from triegs.durable.segments import Segment, verify
from triegs.errors import StateDamaged, StateError, TriegsError

if TYPE_CHECKING:
    from triegs.engine import Engine

GOOD, TORN, UNFINISHED_PART, DAMAGED = "good", "torn", "unfinished", "damaged"
#: What no opening removes by itself.
BAD = (DAMAGED,)
#: A file that is written or removed meanwhile is looked at again so often.
TRIES = 5

Found = TypeVar("Found")


class Part(NamedTuple):
    """One file: its state, and in `details` what it has or what is wrong with it."""

    file: str
    state: str
    bytes: int
    details: str


class Restored(NamedTuple):
    """What opening gives: the state after `record`, of which `replayed` are behind `checkpoint`."""

    record: int
    epoch: int
    checkpoint: int
    replayed: int
    queries: tuple[str, ...]
    #: By name, why a query is refused by this version, and closed.
    lost_queries: Mapping[str, str]


class Inspection(NamedTuple):
    """What was found. `owner` says who has the directory open; then only files were looked at.

    `problem` is why opening would be refused, and `restored` what it would give, or, where it is
    refused, what is whole before the damage.
    """

    directory: Path
    owner: str | None
    parts: tuple[Part, ...]
    problem: str | None
    restored: Restored | None

    @property
    def is_good(self) -> bool:
        """Whether nothing is damaged; what a crash leaves behind is no damage."""
        return self.problem is None and not any(part.state in BAD for part in self.parts)


def inspect(directory: Path, files: Files | None = None) -> Inspection:
    """Look at every file, and restore the engine in memory unless somebody has it open.

    `StateError` if there is no engine. Cost: reads everything; memory and time of opening it.
    """
    disk = files or DiskFiles()
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "is not there"
        raise StateError(f"{directory} {what}")
    owner = find_owner(directory)
    parts = [*_look_at_settings(disk, directory), *_look_at_checkpoints(disk, directory)]
    parts += _look_at_log(disk, directory, owner is not None)
    if not parts:
        raise StateError(f"there is no engine in {directory}")
    if owner is not None:
        return Inspection(directory, owner, tuple(parts), None, None)
    try:
        return Inspection(directory, None, tuple(parts), None, _restore(directory, Overlay(disk)))
    except (TriegsError, OSError, ValueError, KeyError) as problem:
        rest = None
        with suppress(TriegsError, OSError, ValueError, KeyError):
            rest = _restore(directory, _cut(directory, Overlay(disk)))
        return Inspection(directory, None, tuple(parts), str(problem), rest)


def find_owner(directory: Path) -> str | None:
    """Who has a directory open; None if nobody has. Leaves no file behind."""
    import fcntl

    try:
        number = os.open(directory / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(number, 1 << 12, 0).decode("utf-8", "replace").strip()
        return text or "another process"
    finally:
        os.close(number)
    return None


def _look_at_settings(files: Files, directory: Path) -> Iterator[Part]:
    size = _measure(files, directory / SETTINGS)
    try:
        found = read_settings(files, directory)
    except TriegsError as problem:
        yield Part(SETTINGS, DAMAGED, size, str(problem))
        return
    if found is not None:
        window = "windows by query" if found["window"] is None else "a window for all queries"
        yield Part(SETTINGS, GOOD, size, f"mode {found['mode']}, {window}")
    elif any(_list(files, directory / folder) for folder in (LOG, CHECKPOINTS)):
        yield Part(SETTINGS, DAMAGED, 0, "it is missing")


def _look_at_checkpoints(files: Files, directory: Path) -> Iterator[Part]:
    folder = directory / CHECKPOINTS
    checkpoints = Checkpoints(Overlay(files), folder)
    for path in _list(files, folder):
        name, size = f"{CHECKPOINTS}/{path.name}", _measure(files, path)
        if path.suffix == UNFINISHED:
            yield Part(name, UNFINISHED_PART, size, "left by a crash; the next one removes it")
        if path.suffix != SUFFIX or not path.stem.isdigit():
            continue
        try:
            parts = [content for _, content in checkpoints.read(int(path.stem))]
            fields = parts[0].fields
            details = f"epoch {fields['epoch']}, behind record {fields['sequence']}"
            yield Part(name, GOOD, size, details)
        except FileNotFoundError:
            continue  # an older one, which its owner has just removed
        except StateDamaged as problem:
            yield Part(name, DAMAGED, size, f"{problem.reason}, at byte {problem.offset}")
        except (ValueError, KeyError, IndexError, OSError) as problem:
            yield Part(name, DAMAGED, size, f"it cannot be read: {problem}")


def _look_at_log(files: Files, directory: Path, is_owned: bool) -> Iterator[Part]:
    folder = directory / LOG
    segments = read_again(lambda: verify(files, folder), is_owned) if folder.is_dir() else []
    for segment in segments:
        name = f"{LOG}/{segment.file.name}"
        count = segment.last - segment.first + 1
        has = f"records {segment.first} to {segment.last}" if count else "no records"
        problem = segment.problem
        if problem is None or (problem.torn and is_owned):
            yield Part(name, GOOD, segment.bytes, has)
            continue
        where = f"{has}; {segment.bytes - problem.offset} bytes at {problem.offset}"
        if problem.torn:
            yield Part(name, TORN, segment.bytes, f"{where} are cut when it is opened")
        else:
            yield Part(name, DAMAGED, segment.bytes, f"{where}: {problem.reason}")


def read_again(read: Callable[[], list[Segment]], is_owned: bool) -> list[Segment]:
    """Segments, read again where that may be because their owner changes them meanwhile."""
    for _ in range(TRIES if is_owned else 1):
        with suppress(FileNotFoundError):
            found = read()
            if all(each.problem is None or each.problem.torn for each in found):
                break
    else:
        found = read()
    return found


def _restore(directory: Path, files: Overlay) -> Restored:
    """Open the directory in memory."""
    from triegs.engine import Engine

    kept = read_settings(files, directory)
    if kept is None:
        raise StateDamaged("it is missing", file=directory / SETTINGS)
    settings = Settings(None, None, None).agree(directory, kept)
    checkpoints = Checkpoints(files, directory / CHECKPOINTS)
    segments = Log.look(files, directory / LOG)
    check_files(directory, True, checkpoints, segments)
    parts, sequence, _ = choose(checkpoints, segments, directory)
    log, _ = Log.open(files, directory / LOG, sync="never", segments=segments)
    with log, _make(Engine, settings) as engine:
        replay, _ = restore(engine, log, parts, sequence)
        replay.finish()
        queries = tuple(sorted(engine.queries.keys() - replay.lost_queries.keys()))
        lost = replay.lost_queries
        return Restored(log.last, engine.epoch, sequence, replay.replayed, queries, lost)


def _make(make: Callable[..., Engine], settings: Settings) -> Engine:
    mode = settings.mode or "multigraph"
    return make(mode, window=settings.window, event_time=settings.event_time)


def _cut(directory: Path, files: Overlay) -> Overlay:
    """The same without what is behind the first damage of the log."""
    is_gone = False
    for segment in verify(files, directory / LOG):
        if is_gone or (segment.problem is not None and not segment.good_bytes):
            files.remove(segment.file)
            is_gone = True
        elif segment.problem is not None:
            files.open(segment.file).truncate(segment.good_bytes)
            is_gone = True
    return files


def _list(files: Files, folder: Path) -> list[Path]:
    try:
        return files.list_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _measure(files: Files, path: Path) -> int:
    try:
        return files.find_size(path)
    except OSError:
        return 0
