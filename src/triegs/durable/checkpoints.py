"""Checkpoints: the state after one record, each in a file of its own.

A file begins as a segment of the log does, with the sequence number of that record, and has one
frame per part; the last one says that it is the last. It is written beside, synced, and given its
name at the end, so what has the name is whole, or was damaged later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from triegs.durable.columns import NO_COLUMNS, Columns, Content, pack, unpack
from triegs.durable.files import Files, write_safely
from triegs.durable.frames import (
    HEADER,
    VERSION,
    Frame,
    FrameError,
    make_frame,
    make_header,
    read_frame,
    read_header,
)
from triegs.errors import StateDamaged

if TYPE_CHECKING:
    from typing_extensions import Buffer

SUFFIX, UNFINISHED = ".checkpoint", ".unfinished"
#: The kinds of frames, by the names of parts.
KINDS = {"head": 1, "events": 2, "rows": 3, "end": 4}
NAMES = {kind: name for name, kind in KINDS.items()}
#: So many stay: should the newest be damaged, the one before and the log make up for it.
KEPT = 2


class Part(NamedTuple):
    """A part of a state, to be written."""

    name: str
    fields: Mapping[str, Any]
    columns: Columns = NO_COLUMNS


class Written(NamedTuple):
    """A checkpoint that was written."""

    sequence: int
    bytes: int


def make_blocks(sequence: int, parts: Iterable[Part]) -> Iterator[Sequence[Buffer]]:
    """The content of a checkpoint: the header, a frame per part, and an end frame."""
    yield [make_header(sequence)]
    number = 0
    for number, (name, fields, columns) in enumerate(parts, 1):
        yield make_frame(number, KINDS[name], pack(fields, columns))[0]
    yield make_frame(number + 1, KINDS["end"], [])[0]


class Checkpoints:
    """The checkpoints in a folder, each known by the record that it stands behind."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder

    def list(self) -> list[int]:
        """The sequence numbers, the newest first."""
        try:
            names = [path.name for path in self._files.list_folder(self._folder)]
        except FileNotFoundError:
            return []
        found = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
        return sorted((int(name) for name in found if name.isdecimal()), reverse=True)

    def path(self, sequence: int) -> Path:
        return self._folder / f"{sequence:020}{SUFFIX}"

    def write(self, sequence: int, parts: Iterable[Part]) -> Written:
        """Write a checkpoint; on return it survives a loss of power. Memory: one part.

        An OSError leaves nothing behind, as far as the disk allows.
        """
        self._files.make_folder(self._folder)
        target = self.path(sequence)
        blocks = make_blocks(sequence, parts)
        size = write_safely(self._files, target, blocks, target.with_suffix(UNFINISHED))
        return Written(sequence, size)

    def read(self, sequence: int) -> Iterator[tuple[str, Content]]:
        """The parts of a checkpoint; all checksums are looked at before the first is given.

        `StateDamaged` says what is wrong with it. Memory: the file.
        """
        path = self.path(sequence)
        data = memoryview(self._files.read(path))
        frames: list[Frame] = []
        at = 0
        try:
            version, first = read_header(bytes(data[: HEADER.size]))
            if version > VERSION:
                reason = f"it is of format {version}, and this program reads up to {VERSION}"
                raise StateDamaged(reason, file=path)
            if first != sequence:
                raise FrameError(f"it is of record {first}")
            at = HEADER.size
            while not frames or frames[-1].kind != KINDS["end"]:
                frame = read_frame(data, at)
                if frame.sequence != len(frames) + 1 or frame.kind not in NAMES:
                    raise FrameError("a part is not the next one")
                frames.append(frame)
                at = frame.end
            if at != len(data):
                raise FrameError("there is something behind the end")
        except FrameError as problem:
            raise StateDamaged(str(problem), file=path, offset=at) from None
        return ((NAMES[each.kind], unpack(each.payload)) for each in frames[:-1])

    def tidy(self) -> int:
        """Remove all but the newest few, and what was never finished; returns the sequence number
        of the oldest that is left, 0 if there is none.
        """
        numbers = self.list()
        for sequence in numbers[KEPT:]:
            self._remove(self.path(sequence))
        for path in self._files.list_folder(self._folder):
            if path.suffix == UNFINISHED:
                self._remove(path)
        return min(numbers[:KEPT], default=0)

    def _remove(self, path: Path) -> None:
        try:
            self._files.remove(path)
        except FileNotFoundError:
            return
