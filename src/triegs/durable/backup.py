"""Copying a directory, also while its owner writes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from triegs.durable.checkpoints import Checkpoints
from triegs.durable.directory import SETTINGS, read_settings
from triegs.durable.files import DiskFiles, Files
from triegs.durable.inbox import FOLDER as INBOX
from triegs.durable.inbox import SUFFIX as BATCH
from triegs.durable.inspection import Inspection, inspect
from triegs.durable.opening import CHECKPOINTS, LOG, Make
from triegs.durable.overlay import Overlay
from triegs.durable.segments import NAME, read_segment
from triegs.errors import LogDamaged, StateDamaged, StateError

#: The owner may remove a file before it is copied, once per two checkpoints.
TRIES = 10
#: The suffix of a copy until it is checked.
UNFINISHED = ".unfinished"


class Backup(NamedTuple):
    """What was copied: a checkpoint by its record (0 for none), and the log up to `record`."""

    target: Path
    checkpoint: int
    record: int
    bytes: int
    inspection: Inspection


def back_up(source: Path, target: Path, make: Make) -> Backup:
    """Copy the newest intact checkpoint, the log after it and the batches of the inbox to a new
    directory, and check the copy. `StateError` if the target exists, or there is nothing to copy.

    The copy gets its name once it is complete and durable. If the disk refuses it, that is a
    `StateError` too, and nothing remains. `make` makes an empty engine. Cost: the bytes, read and
    written, and that of opening the copy.
    """
    files = DiskFiles()
    if target.exists():
        raise StateError(f"{target} already exists and is not overwritten")
    if read_settings(files, source) is None:
        raise StateError(f"there is no engine in {source}")
    beside = target.with_name(target.name + UNFINISHED)
    if beside.exists():
        raise StateError(f"{beside} exists, perhaps from an interrupted copy; remove it")
    try:
        return _back_up(files, source, target, beside, make)
    except OSError as error:
        _remove(beside)
        raise StateError(f"the copy {target} was not written: {error}") from error


def _back_up(files: Files, source: Path, target: Path, beside: Path, make: Make) -> Backup:
    for _ in range(TRIES):
        try:
            checkpoint, record, size = _copy(files, source, beside)
            break
        except FileNotFoundError:
            _remove(beside)  # the owner has removed a file meanwhile
        except BaseException:
            _remove(beside)
            raise
    else:
        raise StateError(f"{source} changes faster than it can be copied; try again")
    found = inspect(beside, make)
    if not found.is_good:
        reason = found.problem or next(p.details for p in found.parts if p.state == "damaged")
        _remove(beside)
        raise StateDamaged(f"the copy is damaged: {reason}", file=target)
    files.replace(beside, target)
    try:
        files.sync_folder(target.parent)
    except OSError:
        _remove(target)
        raise
    return Backup(target, checkpoint, record, size, found._replace(directory=target))


def _copy(files: Files, source: Path, target: Path) -> tuple[int, int, int]:
    """The record of the checkpoint, the last record, and the bytes."""
    for folder in (LOG, CHECKPOINTS):
        files.make_folder(target / folder)
    # Before the log: a batch that is gone by then is in a record there.
    inbox = source / INBOX
    for batch in files.list_folder(inbox) if inbox.is_dir() else ():
        if batch.suffix == BATCH:
            files.make_folder(target / INBOX)
            _write(files, target / INBOX / batch.name, files.read(batch))
    checkpoint, path = _find_checkpoint(files, source)
    size = _write(files, target / SETTINGS, files.read(source / SETTINGS))
    if path is not None:
        size += _write(files, target / CHECKPOINTS / path.name, files.read(path))
    listed = _list_log(files, source)
    record = checkpoint
    for each, following in pairwise([*listed, None]):
        assert each is not None
        if following is not None and int(following.stem) <= checkpoint + 1:
            continue  # the checkpoint covers it
        data = files.read(each)
        segment = read_segment(each, data, None if following is None else int(following.stem))
        problem = segment.problem
        if problem is not None and not problem.torn:
            if _list_log(files, source) != listed:
                raise FileNotFoundError("the log continues in a new segment")
            reason = problem.reason
            raise LogDamaged(reason, file=each, offset=problem.offset, good_until=segment.last)
        size += _write(files, target / LOG / each.name, data[: segment.good_bytes])
        record = max(record, segment.last)
    for made in (target / LOG, target / CHECKPOINTS, target):
        files.sync_folder(made)
    return checkpoint, record, size


def _list_log(files: Files, source: Path) -> list[Path]:
    return [each for each in files.list_folder(source / LOG) if NAME.fullmatch(each.name)]


def _find_checkpoint(files: Files, source: Path) -> tuple[int, Path | None]:
    """The newest intact checkpoint."""
    checkpoints = Checkpoints(Overlay(files), source / CHECKPOINTS)
    for sequence in checkpoints.list():
        try:
            checkpoints.read(sequence)
        except StateDamaged:
            continue
        return sequence, checkpoints.path(sequence)
    return 0, None


def _write(files: Files, path: Path, data: bytes) -> int:
    file = files.open(path)
    try:
        file.write([data])
        file.sync()
    finally:
        file.close()
    return len(data)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
