"""A disk that is read and never written: changes are kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triegs.durable.files import Files

if TYPE_CHECKING:
    from typing_extensions import Buffer


class MemoryFile:
    """A file in memory; closing it does nothing."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def number(self) -> int:
        return -1

    def follow(self, written: int) -> None:
        raise NotImplementedError  # there is no descriptor

    def reserve(self, size: int) -> None:
        """Nothing to do: memory has room."""

    def write(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self.data += memoryview(part).cast("B")

    def sync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        del self.data[size:]

    def close(self) -> None:
        pass


class Overlay:
    """The files of a disk with changes over them. Memory: the files that are opened for writing."""

    def __init__(self, disk: Files) -> None:
        self._disk = disk
        #: Changed files; None for removed ones.
        self._changed: dict[Path, MemoryFile | None] = {}

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        if path not in self._changed:
            return self._disk.read(path, start, length)
        data = self._find(path).data
        return bytes(data[start:] if length is None else data[start : start + length])

    def find_age(self, path: Path) -> float:
        return 0.0 if path in self._changed else self._disk.find_age(path)

    def list_folder(self, folder: Path) -> list[Path]:
        try:
            found = set(self._disk.list_folder(folder))
        except FileNotFoundError:
            found = set()
        for path, file in self._changed.items():
            if path.parent == folder:
                found.discard(path) if file is None else found.add(path)
        return sorted(found)

    def find_size(self, path: Path) -> int:
        return self._find(path).size if path in self._changed else self._disk.find_size(path)

    def make_folder(self, folder: Path) -> None:
        """Nothing to do: a missing folder has no files."""

    def open(self, path: Path) -> MemoryFile:
        file = self._changed.get(path)
        if file is None:
            is_there = path not in self._changed and path in self.list_folder(path.parent)
            file = self._changed[path] = MemoryFile(self._disk.read(path) if is_there else b"")
        return file

    def replace(self, source: Path, target: Path) -> None:
        self._changed[target] = MemoryFile(self.read(source))
        self.remove(source)

    def remove(self, path: Path) -> None:
        self.find_size(path)  # raises if it does not exist
        self._changed[path] = None

    def sync_folder(self, folder: Path) -> None:
        pass

    def _find(self, path: Path) -> MemoryFile:
        file = self._changed[path]
        if file is None:
            raise FileNotFoundError(path)
        return file
