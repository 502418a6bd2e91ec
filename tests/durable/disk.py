"""A disk in memory that loses power, dies at any operation, or refuses it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

SECTOR = 512
#: The file in an engine directory that names its owner.
LOCK = "lock"


class Crash(Exception):
    """The process ends here, in the middle of an operation."""


@dataclass
class Fault:
    """What happens at an operation: a crash, or an error of this number.

    A write leaves its first `room` bytes, and all of it only before a crash.
    """

    number: int = errno.EIO
    room: int = 0
    crash: bool = False

    def find_room(self, size: int) -> int:
        return min(self.room, size if self.crash else max(size - 1, 0))

    def strike(self) -> None:
        if self.crash:
            raise Crash
        raise OSError(self.number, errno.errorcode[self.number])


# A change of content: bytes at an offset, or a new size.
Change = tuple[int, bytes] | int


def change(data: bytearray, made: Change) -> None:
    if isinstance(made, int):
        del data[made:]
        data.extend(bytes(made - len(data)))
    else:
        offset, content = made
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : offset + len(content)] = content


@dataclass
class Content:
    """The content of a file: what is on the disk, what was changed since, and what is seen."""

    safe: bytes = b""
    unsafe: list[Change] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)

    def change(self, made: Change) -> None:
        self.unsafe.append(made)
        change(self.seen, made)

    def sync(self) -> None:
        self.safe = bytes(self.seen)
        self.unsafe = []

    def lose(self, random: Random) -> None:
        """Keep any of the unsafe changes, and of each write any part."""
        data = bytearray(self.safe)
        likely = random.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        for made in self.unsafe:
            for piece in tear(made, random):
                if random.random() < likely:
                    change(data, piece)
                elif not isinstance(piece, int) and random.random() < 0.2:
                    # The size is there without the bytes.
                    change(data, (piece[0], bytes(data[piece[0] :][: len(piece[1])])))
                    change(data, max(len(data), piece[0] + len(piece[1])))
        self.seen = data
        self.sync()


def tear(made: Change, random: Random) -> Iterator[Change]:
    """The pieces of which each may be lost: whole, two of any size, or sectors."""
    if isinstance(made, int):
        yield made
        return
    offset, content = made
    form = random.randrange(3)
    if form == 0 or not content:
        yield made
    elif form == 1:
        at = random.randrange(len(content))
        yield offset, content[:at]
        yield offset + at, content[at:]
    else:
        begin = 0
        while begin < len(content):
            end = begin + SECTOR - (offset + begin) % SECTOR
            yield offset + begin, content[begin:end]
            begin = end


# A change of names: the content that a name has from now on, or None.
Named = tuple[Path, Content | None]


class PowerDisk:
    """All of `Files`. What was not synced may be lost; what was is kept.

    `faults` has what happens at an operation, by how many that change the disk came before it.
    `room` is how many bytes more it has room for, if it is not without end. Room that is reserved
    for a file belongs to it until it is written, cut or closed; what dies leaves it reserved.
    """

    def __init__(self) -> None:
        self.folders = {Path("/")}
        self.names: dict[Path, Content] = {}
        self.safe_names: dict[Path, Content] = {}
        self.unsafe_names: list[tuple[Named, ...]] = []
        self.operations = 0
        self.faults: dict[int, Fault] = {}
        self.life = 0
        self.room: int | None = None

    def take_room(self, size: int) -> int:
        """How many of these bytes there is room for; they are taken."""
        if self.room is None:
            return size
        taken = max(0, min(size, self.room))
        self.room -= taken
        return taken

    def fail(self, after: int, fault: Fault, times: int = 1) -> None:
        """Let operations fail, the first of them after so many others."""
        self.faults = {self.operations + after + place: fault for place in range(times)}

    def die(self) -> None:
        """The process ends: its files are closed, and what was written stays as it is."""
        self.faults = {}
        self.life += 1

    def lose_power(self, random: Random) -> None:
        """End in any state that a disk can be in after the power was lost."""
        self.die()
        likely = random.choice([0.0, 0.5, 1.0])
        for group in self.unsafe_names:
            if random.random() < likely:
                self._name(self.safe_names, group)
        self.names = dict(self.safe_names)
        self.unsafe_names = []
        for content in self.names.values():
            content.lose(random)

    def operate(self) -> Fault | None:
        fault = self.faults.pop(self.operations, None)
        self.operations += 1
        return fault

    def operate_or_strike(self) -> None:
        if fault := self.operate():
            fault.strike()

    def find(self, path: Path) -> Content:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return self.names[path]

    def read(self, path: Path, start: int = 0, length: int | None = None) -> bytes:
        content = bytes(self.find(path).seen)
        return content[start:] if length is None else content[start : start + length]

    def list_folder(self, folder: Path) -> list[Path]:
        if folder not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
        return sorted(path for path in self.names if path.parent == folder)

    def find_size(self, path: Path) -> int:
        return len(self.find(path).seen)

    def find_age(self, path: Path) -> float:
        return 0.0

    def make_folder(self, folder: Path) -> None:
        self.operate_or_strike()
        self.folders |= {folder, *folder.parents}

    def open(self, path: Path) -> PowerFile:
        if path not in self.names:
            self.operate_or_strike()
            self._rename(((path, Content()),))
        return PowerFile(self, self.names[path])

    def replace(self, source: Path, target: Path) -> None:
        self.operate_or_strike()
        self._rename(((target, self.find(source)), (source, None)))

    def remove(self, path: Path) -> None:
        self.operate_or_strike()
        self.find(path)
        self._rename(((path, None),))

    def sync_folder(self, folder: Path) -> None:
        self.operate_or_strike()
        for group in self.unsafe_names:
            if any(path.parent == folder for path, _ in group):
                self._name(self.safe_names, group)
        self.unsafe_names = [
            group for group in self.unsafe_names if all(path.parent != folder for path, _ in group)
        ]

    def _rename(self, group: tuple[Named, ...]) -> None:
        self.unsafe_names.append(group)
        self._name(self.names, group)

    @staticmethod
    def _name(names: dict[Path, Content], group: tuple[Named, ...]) -> None:
        for path, content in group:
            if content is None:
                names.pop(path, None)
            else:
                names[path] = content


class SystemFile:
    """A file of the system without a name. It ends with the object: what dies closes nothing."""

    def __init__(self) -> None:
        self.number = os.memfd_create("written")

    def __del__(self) -> None:
        os.close(self.number)


class PowerFile:
    """A file of a `PowerDisk`, of no use after the process that opened it."""

    def __init__(self, disk: PowerDisk, content: Content) -> None:
        self._disk = disk
        self._content = content
        self._life = disk.life
        self._closed = False
        self._reserved = 0
        self._written: SystemFile | None = None

    def _operate(self) -> Fault | None:
        if self._closed or self._life != self._disk.life:
            raise OSError(errno.EBADF, "the file is closed")
        return self._disk.operate()

    @property
    def size(self) -> int:
        return len(self._content.seen)

    @property
    def number(self) -> int:
        """A file of the system, to which a kernel may write unless something happens to that."""
        disk = self._disk
        is_gone = self._closed or self._life != disk.life
        if is_gone or disk.room is not None or disk.operations in disk.faults:
            return -1
        if self._written is None:
            self._written = SystemFile()
        return self._written.number

    def follow(self, written: int) -> None:
        assert self._written is not None
        fault = self._operate()  # another thread may have made the operations before it
        self._content.change((self.size, os.pread(self._written.number, written, self.size)))
        if fault is not None and fault.crash:
            fault.strike()
        elif fault is not None:
            self._disk.faults[self._disk.operations] = fault

    def reserve(self, size: int) -> None:
        """Size and content stay, so a loss of power has nothing to lose; a crash leaves nothing."""
        if fault := self._operate():
            fault.strike()
        more = size - max(self._reserved, self.size)
        if more <= 0:
            return
        taken = self._disk.take_room(more)
        if taken < more:
            self._give_back(taken)
            raise OSError(errno.ENOSPC, errno.errorcode[errno.ENOSPC])
        self._reserved = size

    def write(self, parts: Sequence[Buffer]) -> None:
        content = b"".join(memoryview(part).tobytes() for part in parts)
        fault = self._operate()
        kept = content if fault is None else content[: fault.find_room(len(content))]
        free = max(0, self._reserved - self.size)
        if len(kept) > free:
            kept = kept[: free + self._disk.take_room(len(kept) - free)]
        if kept:
            self._content.change((self.size, kept))
        if fault:
            fault.strike()
        if len(kept) < len(content):
            raise OSError(errno.ENOSPC, errno.errorcode[errno.ENOSPC])

    def sync(self) -> None:
        if fault := self._operate():
            fault.strike()
        self._content.sync()

    def truncate(self, size: int) -> None:
        if fault := self._operate():
            fault.strike()
        self._give_back(max(self._reserved, self.size) - size)
        self._reserved = 0
        self._content.change(size)

    def close(self) -> None:
        if not self._closed and self._life == self._disk.life:
            self._give_back(max(0, self._reserved - self.size))
        self._closed = True

    def _give_back(self, size: int) -> None:
        if self._disk.room is not None:
            self._disk.room += size


def read_all(directory: Path) -> dict[Path, bytes]:
    """The files of a directory on the real disk, without the lock."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.name != LOCK)
    return {path: path.read_bytes() for path in found}


@contextmanager
def room(size: int | None) -> Iterator[None]:
    """No file may be longer: the system refuses further bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if size is None else size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
