"""Checking a directory without changing it: which files are intact, and what opening would give.

All files are read and all checksums verified. Then an engine is restored in memory, as opening
would do it, over a disk that is never written (`triegs.durable.overlay`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from triegs.durable.checkpoints import SUFFIX, UNFINISHED, Checkpoints
from triegs.durable.directory import LOCK, SETTINGS, read_settings
from triegs.durable.files import DiskFiles, Files
from triegs.durable.log import Log
from triegs.durable.opening import (
    CHECKPOINTS,
    LOG,
    Make,
    Settings,
    check_files,
    choose,
    restore,
)
from triegs.durable.overlay import Overlay
from triegs.durable.segments import Segment, verify
from triegs.errors import StateDamaged, StateError, TriegsError

GOOD, TORN, UNFINISHED_FILE, DAMAGED = "good", "torn", "unfinished", "damaged"
#: What opening does not repair by itself.
BAD = (DAMAGED,)
#: A file that changes meanwhile is read again this often.
TRIES = 5


class CheckedFile(NamedTuple):
    """One file: its state, and in `details` what it contains or what is wrong with it."""

    file: str
    state: str
    bytes: int
    details: str


class Restored(NamedTuple):
    """What opening gives: the state after `record`, with `replayed` records after `checkpoint`."""

    record: int
    epoch: int
    checkpoint: int
    replayed: int
    queries: tuple[str, ...]
    #: By name, why this version refuses a query, which is then closed.
    lost_queries: Mapping[str, str]


class Inspection(NamedTuple):
    """What was found. `owner` says who has the directory open; then only files were checked.

    `problem` is why opening would fail. `restored` is what it would give or, if it would fail, what
    is intact before the damage.
    """

    directory: Path
    owner: str | None
    parts: tuple[CheckedFile, ...]
    problem: str | None
    restored: Restored | None

    @property
    def is_good(self) -> bool:
        """Whether nothing is damaged; what a crash leaves is not damage."""
        return self.problem is None and not any(part.state in BAD for part in self.parts)


def inspect(directory: Path, make: Make, files: Files | None = None) -> Inspection:
    """Check every file, and restore the engine in memory unless a process has it open.

    `make` makes an empty engine. `StateError` if the directory has none. Cost: reads everything,
    and the memory and time of opening it.
    """
    disk = files or DiskFiles()
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "is not there"
        raise StateError(f"{directory} {what}")
    owner = find_owner(directory)
    parts = [*_check_settings(disk, directory), *_check_checkpoints(disk, directory)]
    parts += _check_log(disk, directory, owner is not None)
    if not parts:
        raise StateError(f"there is no engine in {directory}")
    if owner is not None:
        return Inspection(directory, owner, tuple(parts), None, None)
    try:
        restored = _restore(directory, Overlay(disk), make)
        return Inspection(directory, None, tuple(parts), None, restored)
    except (TriegsError, OSError, ValueError, KeyError) as problem:
        intact = None
        with suppress(TriegsError, OSError, ValueError, KeyError):
            intact = _restore(directory, _cut(directory, Overlay(disk)), make)
        return Inspection(directory, None, tuple(parts), str(problem), intact)


def find_owner(directory: Path) -> str | None:
    """The process that has a directory open, or None. Leaves no file behind."""
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


def _check_settings(files: Files, directory: Path) -> Iterator[CheckedFile]:
    size = _measure(files, directory / SETTINGS)
    try:
        found = read_settings(files, directory)
    except TriegsError as problem:
        yield CheckedFile(SETTINGS, DAMAGED, size, str(problem))
        return
    if found is not None:
        window = "windows by query" if found["window"] is None else "a window for all queries"
        yield CheckedFile(SETTINGS, GOOD, size, f"mode {found['mode']}, {window}")
    elif any(_list(files, directory / folder) for folder in (LOG, CHECKPOINTS)):
        yield CheckedFile(SETTINGS, DAMAGED, 0, "it is missing")


def _check_checkpoints(files: Files, directory: Path) -> Iterator[CheckedFile]:
    folder = directory / CHECKPOINTS
    checkpoints = Checkpoints(Overlay(files), folder)
    for path in _list(files, folder):
        name, size = f"{CHECKPOINTS}/{path.name}", _measure(files, path)
        if path.suffix == UNFINISHED:
            yield CheckedFile(
                name, UNFINISHED_FILE, size, "left by a crash; the next one removes it"
            )
        if path.suffix != SUFFIX or not path.stem.isdigit():
            continue
        try:
            sections = [content for _, content in checkpoints.read(int(path.stem))]
            fields = sections[0].fields
            details = f"epoch {fields['epoch']}, after record {fields['sequence']}"
            yield CheckedFile(name, GOOD, size, details)
        except FileNotFoundError:
            continue  # an older one, which its owner has just removed
        except StateDamaged as problem:
            yield CheckedFile(name, DAMAGED, size, f"{problem.reason}, at byte {problem.offset}")
        except (ValueError, KeyError, IndexError, OSError) as problem:
            yield CheckedFile(name, DAMAGED, size, f"it cannot be read: {problem}")


def _check_log(files: Files, directory: Path, is_owned: bool) -> Iterator[CheckedFile]:
    folder = directory / LOG
    segments = read_again(lambda: verify(files, folder), is_owned) if folder.is_dir() else []
    for segment in segments:
        name = f"{LOG}/{segment.file.name}"
        count = segment.last - segment.first + 1
        has = f"records {segment.first} to {segment.last}" if count else "no records"
        problem = segment.problem
        if problem is None or (problem.torn and is_owned):
            yield CheckedFile(name, GOOD, segment.bytes, has)
            continue
        where = f"{has}; {segment.bytes - problem.offset} bytes at {problem.offset}"
        if problem.torn:
            yield CheckedFile(name, TORN, segment.bytes, f"{where} are cut when it is opened")
        else:
            yield CheckedFile(name, DAMAGED, segment.bytes, f"{where}: {problem.reason}")


def read_again(read: Callable[[], list[Segment]], is_owned: bool) -> list[Segment]:
    """Segments, read again if the owner may have changed them meanwhile."""
    for _ in range(TRIES if is_owned else 1):
        with suppress(FileNotFoundError):
            found = read()
            if all(each.problem is None or each.problem.torn for each in found):
                break
    else:
        found = read()
    return found


def _restore(directory: Path, files: Overlay, make: Make) -> Restored:
    """Open the directory in memory."""
    kept = read_settings(files, directory)
    if kept is None:
        raise StateDamaged("it is missing", file=directory / SETTINGS)
    settings = Settings(None, None, None).agree(directory, kept)
    checkpoints = Checkpoints(files, directory / CHECKPOINTS)
    segments = Log.look(files, directory / LOG)
    check_files(directory, True, checkpoints, segments)
    sections, sequence, _ = choose(checkpoints, segments, directory)
    log, _ = Log.open(files, directory / LOG, sync="never", segments=segments)
    with log, closing(make(settings)) as engine:
        replay, _ = restore(engine, log, sections, sequence)
        replay.finish()
        queries = tuple(sorted(engine.queries.keys() - replay.lost_queries.keys()))
        lost = replay.lost_queries
        return Restored(log.last, engine.epoch, sequence, replay.replayed, queries, lost)


def _cut(directory: Path, files: Overlay) -> Overlay:
    """The same files without what follows the first damage of the log."""
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
