"""Memory that other processes read: files in memory, freed with the last process that uses them.

A `MemoryFile` is made by ``memfd_create``, so nothing stays behind if a process is killed. Another
process of the same user opens it through ``/proc`` by a `FileRef`: the number of the process, that
of the descriptor, and the name, which is random and so tells whether it still is the same file.

A reader cannot write what it maps: the operating system ends a process that tries. Its arrays claim
to be writable all the same, because kernels are compiled for such arrays.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakMethod

import numpy as np
from numpy.typing import DTypeLike, NDArray

from triegs.errors import SnapshotExpired, StateError

NEEDS_LINUX = (
    "memory that other processes read needs Linux (memfd_create, and fallocate for memory files), "
    f"not {sys.platform}; leave out shared_memory"
)
IS_AVAILABLE = sys.platform == "linux" and hasattr(os, "memfd_create")
ALIGNMENT = 64


class FileRef(NamedTuple):
    """Where another process finds a file, and how to recognise it."""

    process: int
    descriptor: int
    name: str
    size: int


class MemoryFile:
    """A file in memory, of a fixed size; memory is provided as it is written.

    >>> file = MemoryFile("example", 4096)
    >>> os.pwrite(file.descriptor, b"abc", 0), os.pread(file.descriptor, 3, 0)
    (3, b'abc')
    >>> copy = open_file(file.refer())
    >>> os.pread(copy, 3, 0)
    b'abc'
    >>> os.close(copy)
    """

    def __init__(self, kind: str, size: int) -> None:
        if not IS_AVAILABLE:
            raise StateError(NEEDS_LINUX)
        import fcntl

        self.name = f"triegs-{kind}-{secrets.token_hex(12)}"
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.descriptor = -1
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.descriptor = os.memfd_create(self.name, flags)
        os.ftruncate(self.descriptor, self.size)
        # A reader of a file that somebody made shorter would be ended by a signal.
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)

    def refer(self) -> FileRef:
        return FileRef(os.getpid(), self.descriptor, self.name, self.size)

    def measure(self) -> int:
        """The bytes that it takes."""
        return os.fstat(self.descriptor).st_blocks * 512

    def close(self) -> None:
        """Close the file; its memory stays until nobody maps it."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            self.close()


class Mapping(mmap.mmap):
    """A file in the memory of the process that writes it; keeps the file open."""

    file: MemoryFile


def map_for_writing(file: MemoryFile) -> Mapping:
    mapping = Mapping(file.descriptor, file.size, flags=mmap.MAP_SHARED)
    mapping.file = file
    with suppress(OSError):  # a kernel built without it
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def allocate_shared(kind: str, count: int) -> NDArray[np.int64]:
    """Zeroed words that other processes can read, at a fixed address. `OSError` if the system
    refuses.
    """
    file = MemoryFile(kind, count * 8)
    return np.frombuffer(map_for_writing(file), np.int64, count)


def find_mapping(array: NDArray[Any]) -> Mapping | None:
    """The mapping that an array is in, unless it is in private memory."""
    base: object = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, Mapping) else None


def find_address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def find_offset(array: NDArray[Any], mapping: mmap.mmap) -> int:
    """The position of an array in its file."""
    return find_address(array) - find_address(np.frombuffer(mapping, np.uint8, 1))


def remove_from(words: NDArray[np.int64], first: int) -> bool:
    """Return memory from a word on to the system, as zeros; False for an array in private memory.

    Only unmapping it would leave it in the file.
    """
    mapping = find_mapping(words)
    if mapping is None:
        return False
    start = -(-first * words.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    if start < len(mapping):
        mapping.madvise(mmap.MADV_REMOVE, start)
    return True


def move_to_file(kind: str, arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Copies of some arrays in one file."""
    starts, size = [], 0
    for array in arrays:
        starts.append(size)
        size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    mapping = map_for_writing(MemoryFile(kind, max(size, 1)))
    moved = []
    for array, start in zip(arrays, starts, strict=True):
        copy = np.frombuffer(mapping, array.dtype, array.size, start).reshape(array.shape)
        copy[...] = array
        moved.append(copy)
    return moved


# Reading


def read_link(path: str) -> str:
    return os.readlink(path)  # noqa: PTH115 (thrice as fast as `Path`)


def open_file(ref: FileRef) -> int:
    """A descriptor of another process's file, of its own: locks on it are this process's.

    `SnapshotExpired` if it is gone, which includes its process; `StateError` if it may not be read.
    """
    path, wanted = f"/proc/{ref.process}/fd/{ref.descriptor}", f"/memfd:{ref.name} (deleted)"
    try:
        # The number may be another file's by now, and to open that may do anything.
        if read_link(path) == wanted:
            own = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if read_link(f"/proc/self/fd/{own}") == wanted:
                return own
            os.close(own)
    except PermissionError:
        raise StateError(
            f"process {os.getpid()} may not read the memory of process {ref.process}: "
            f"both must run as the same user"
        ) from None
    except OSError:
        pass
    raise SnapshotExpired("it is closed, or its process has ended")


def is_there(ref: FileRef) -> bool:
    """Whether its process still has a file open."""
    with suppress(OSError):
        path = f"/proc/{ref.process}/fd/{ref.descriptor}"
        return read_link(path) == f"/memfd:{ref.name} (deleted)"
    return False


class ReadMapping:
    """Another process's file, mapped for reading."""

    def __init__(self, ref: FileRef) -> None:
        own = open_file(ref)
        try:
            self._mapping = mmap.mmap(own, ref.size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        except OSError as problem:
            raise StateError(f"cannot map {ref.size:,} bytes of shared memory: {problem}") from None
        finally:
            os.close(own)
        if hasattr(mmap, "MADV_DONTDUMP"):
            self._mapping.madvise(mmap.MADV_DONTDUMP)
        self._address = find_address(np.frombuffer(self._mapping, np.uint8, 1))

    def view(self, kind: DTypeLike, shape: tuple[int, ...], offset: int = 0) -> NDArray[Any]:
        """An array in it, which keeps it mapped."""
        return np.asarray(_View(self._mapping, self._address + offset, np.dtype(kind), shape))


class _View:
    """What NumPy makes an array of that it takes for writable."""

    def __init__(
        self, mapping: mmap.mmap, address: int, kind: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self._mapping = mapping
        self.__array_interface__ = {
            "version": 3, "data": (address, False), "typestr": kind.str, "shape": shape,
        }  # fmt: skip


# Forks

_CALLED: list[WeakMethod[Callable[[], None]]] = []


def call_after_fork(method: Callable[[], None]) -> None:
    """Call a method in each process that is forked from this one, while its object exists."""
    _CALLED[:] = [each for each in _CALLED if each() is not None]
    _CALLED.append(WeakMethod(method))


def _call_all() -> None:
    for each in _CALLED:
        method = each()
        if method is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_call_all)
