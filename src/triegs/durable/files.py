"""File access of durable state, behind protocols so that tests can replace the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Without fdatasync, fsync does the same and more.
sync_data = getattr(os, "fdatasync", os.fsync)

#: The suffix of a file that is being written.
UNFINISHED = ".unfinished"

# The most buffers per call that every system accepts.
MOST_PARTS = 1024


class File(Protocol):
    """A file that is open for appending."""

    @property
    def size(self) -> int: ...

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append all of it, or raise an OSError; then a prefix of it may be written."""

    def sync(self) -> None:
        """On return, the content survives a power loss; the name may not, see `sync_folder`."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """A disk. Every method raises an OSError if the disk refuses."""

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start`, all or `length` of them, fewer at the end of the file."""

    def list_folder(self, folder: Path) -> list[Path]:
        """The content of a folder, sorted by name."""

    def find_size(self, path: Path) -> int: ...

    def find_age(self, path: Path) -> float:
        """Seconds since a file was last written; 0 if it is gone."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, so that they survive a power loss."""

    def open(self, path: Path) -> File:
        """Open for appending; create the file if necessary."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename atomically, replacing the target."""

    def remove(self, path: Path) -> None: ...

    def sync_folder(self, folder: Path) -> None:
        """On return, what was created, renamed or removed here survives a power loss."""


class DiskFile:
    """A file of the operating system."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)

    @property
    def size(self) -> int:
        return os.fstat(self._number).st_size

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append all of it. Cost: one system call, if the disk has room."""
        views = [memoryview(part) for part in parts]
        if len(views) <= MOST_PARTS:
            written = os.writev(self._number, views)
            if written == sum(view.nbytes for view in views):
                return
        else:
            written = 0
        # An empty view cannot be cast.
        rest = [view.cast("B") for view in views if view.nbytes]
        while True:
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if not rest:
                return
            rest[0] = rest[0][written:]
            written = os.writev(self._number, rest[:MOST_PARTS])

    def sync(self) -> None:
        sync_data(self._number)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._number, size)

    def close(self) -> None:
        """Close. Idempotent, because the descriptor may belong to another file by then."""
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)


class DiskFiles:
    """The disk of the operating system."""

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            if length is None:
                return file.readall()
            found = bytearray()
            while len(found) < length and (part := file.read(length - len(found))):
                found += part
            return bytes(found)

    def list_folder(self, folder: Path) -> list[Path]:
        return sorted(folder.iterdir())

    def find_size(self, path: Path) -> int:
        return path.stat().st_size

    def find_age(self, path: Path) -> float:
        try:
            return time() - path.stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self.make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self.sync_folder(folder.parent)

    def open(self, path: Path) -> DiskFile:
        return DiskFile(path)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def write_safely(
    files: Files, target: Path, blocks: Iterable[Sequence[Buffer]], temporary: Path | None = None
) -> int:
    """Write a file so that it appears complete or not at all; returns its size in bytes.

    The blocks go to a temporary file in the same folder, which is synced and renamed; then the
    folder is synced. On return the file survives a loss of power. An `OSError` leaves nothing
    behind, as far as the disk allows. Concurrent writers need distinct `temporary` names. Memory:
    one block.
    """
    beside = temporary or target.with_name(f"{target.name}{UNFINISHED}")
    try:
        with suppress(FileNotFoundError):
            files.remove(beside)  # left by a crash
        file = files.open(beside)
        try:
            for block in blocks:
                file.write(block)
            file.sync()
            size = file.size
        finally:
            file.close()
        files.replace(beside, target)
    except OSError:
        with suppress(OSError):
            files.remove(beside)
        raise
    files.sync_folder(target.parent)
    return size
