"""The directory of an engine: its owner, and the settings of the engine.

::

    engine.json    the format and the settings
    lock           the process that has it open
    log/           every change, in segments
    checkpoints/   the state after some record, the newest two
    inbox/         batches that other processes commit
    sources/       the Spark sink writes these three, possibly before there is an engine: its
    staging/       sources, its unfinished files,
    quarantine/    and malformed rows
"""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

from triegs.durable.files import Files, write_safely
from triegs.errors import DirectoryInUse, StateDamaged, StateError

FORMAT = 1
SETTINGS, LOCK = "engine.json", "lock"
#: What an engine and the Spark sink create in its directory, and what a new disk contains.
OURS = {
    SETTINGS, f"{SETTINGS}.unfinished", LOCK, "log", "checkpoints", "inbox", "sources", "staging",
    "quarantine", "lost+found",
}  # fmt: skip


class Lock:
    """Ownership of a directory, by one process at a time. It ends with the process, however that
    ends; the file that remains is not a lock.
    """

    def __init__(self, directory: Path) -> None:
        import fcntl

        path = directory / LOCK
        self._number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._number, 1 << 12, 0).decode("utf-8", "replace").strip()
            os.close(self._number)
            raise DirectoryInUse(
                f"{directory} is already open: {owner or 'by another process'}"
            ) from None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        text = f"process {os.getpid()} on {socket.gethostname()}, since {since}\n"
        os.ftruncate(self._number, 0)
        os.pwrite(self._number, text.encode(), 0)

    def close(self) -> None:
        """Release it. Idempotent."""
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)


def refuse_foreign(files: Files, directory: Path) -> None:
    """Refuse a directory that has content but no engine; nothing is written.

    A process that died while it created an engine leaves only files of an engine.
    """
    try:
        names = {path.name for path in files.list_folder(directory)}
        if SETTINGS in names:
            read_settings(files, directory)  # raises if it is not ours
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"the engine in {directory} cannot be opened: {error}") from error
    foreign = names - OURS
    if foreign and SETTINGS not in names:
        raise StateError(
            f"{directory} is not the directory of an engine: it has {min(foreign)!r} and no "
            f"{SETTINGS}; use a new or empty one"
        )


def sum_up(form: object, settings: object) -> int:
    """The checksum of a format and its settings; the same in every format."""
    return crc32(json.dumps([form, settings]).encode())


def write_settings(files: Files, directory: Path, settings: dict[str, Any]) -> None:
    """Store the settings of a new engine."""
    whole = {"format": FORMAT, "checksum": sum_up(FORMAT, settings), "settings": settings}
    write_safely(files, directory / SETTINGS, [[json.dumps(whole, indent=2).encode() + b"\n"]])


def read_settings(files: Files, directory: Path) -> dict[str, Any] | None:
    """The settings of the engine; None if there is none yet."""
    path = directory / SETTINGS
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None
    try:
        whole = json.loads(data)
        form = whole["format"]
        settings: dict[str, Any] = whole["settings"]
        is_good = whole["checksum"] == sum_up(form, settings)
    except (ValueError, KeyError, TypeError):
        raise StateDamaged("its content is not what was written", file=path) from None
    if not is_good:
        raise StateDamaged("the checksum is wrong", file=path)
    if form != FORMAT:
        raise StateError(f"{path} has format {form}; this version reads {FORMAT}")
    return settings
