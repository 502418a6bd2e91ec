"""File access of durable state, behind protocols so that tests can replace the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Without fdatasync, fsync does the same and more.
sync_data = getattr(os, "fdatasync", os.fsync)

#: The suffix of a file that is being written.
UNFINISHED = ".unfinished"

# The most buffers per call that every system accepts.
MOST_PARTS = 1024


def load_allocate() -> Any:
    """The call of the system that allocates blocks after the end of a file and leaves its size;
    None where there is none.
    """
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call


ALLOCATE = load_allocate()
KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
#: What a system says that cannot reserve in this file.
CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV, errno.EINVAL)


def find_write() -> int:
    """The address of the call of the system that writes at an offset, for kernels; 0 where there is
    none.
    """
    with suppress(OSError, TypeError):  # TypeError: there is no such library on Windows
        library = ctypes.CDLL(None)
        # Where both exist, the offsets of the other one may have 32 bits.
        call = getattr(library, "pwrite64", None) or getattr(library, "pwrite", None)
        return ctypes.cast(call, ctypes.c_void_p).value or 0 if call else 0
    return 0


class File(Protocol):
    """A file that is open for appending."""

    @property
    def size(self) -> int:
        """Where the next write begins."""

    @property
    def number(self) -> int:
        """The descriptor, for a kernel that writes at `size`, which is then told by `follow`; -1 if
        only `write` may.
        """

    def follow(self, written: int) -> None:
        """So many bytes were written by the descriptor."""

    def reserve(self, size: int) -> None:
        """Reserve room, so that the disk cannot be full before the file has this size; the content
        and the size do not change. An OSError says that there is no such room.
        """

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append all of it, or raise an OSError; then a prefix of it may be written."""

    def sync(self) -> None:
        """On return, the content survives a power loss; the name may not, see `sync_folder`."""

    def truncate(self, size: int) -> None:
        """Cut, and write there next. Reserved room is given back."""

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
        self._number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._end = os.fstat(self._number).st_size
        self._reserved = 0

    @property
    def size(self) -> int:
        return self._end

    @property
    def number(self) -> int:
        return self._number

    def follow(self, written: int) -> None:
        self._end += written

    def reserve(self, size: int) -> None:
        """Allocate blocks after the end. Cost: one system call.

        Where the system cannot, nothing is reserved, and a full disk refuses a write instead.
        """
        more = size - self._end
        if size <= self._reserved or more <= 0 or ALLOCATE is None:
            return
        while ALLOCATE(self._number, KEEP_SIZE, self._end, more) != 0:
            number = ctypes.get_errno()
            if number == errno.EINTR:
                continue
            if number in CANNOT_RESERVE:
                return
            with suppress(OSError):
                self.truncate(self._end)  # a part may be allocated
            raise OSError(number, os.strerror(number))
        self._reserved = size

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append all of it. Cost: one system call, if the disk has room."""
        if len(parts) == 1:
            part = parts[0]
            written = os.pwrite(self._number, part, self._end)
            if written == memoryview(part).nbytes:
                self.follow(written)
                return
            self.follow(written)
        else:
            written = 0
        views = [memoryview(part) for part in parts]
        # An empty view cannot be cast.
        rest = [view.cast("B") for view in views if view.nbytes]
        while True:
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if not rest:
                return
            rest[0] = rest[0][written:]
            written = os.pwritev(self._number, rest[:MOST_PARTS], self._end)
            self.follow(written)

    def sync(self) -> None:
        sync_data(self._number)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._number, size)
        self._end, self._reserved = size, 0

    def close(self) -> None:
        """Close, and give back what was reserved. Idempotent, because the descriptor may belong to
        another file by then.
        """
        if self._number >= 0 and self._reserved > self._end:
            with suppress(OSError):
                self.truncate(self._end)
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
