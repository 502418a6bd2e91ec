"""Checkpoints: the state after one record, each in a file of its own.

A file begins like a segment of the log, with the sequence number of that record, and has one frame
per section and a final one. It is written under another name, synced, and renamed at the end, so a
file with the final name is complete, or was damaged later.
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
#: The kinds of frames, by the names of sections.
KINDS = {"head": 1, "events": 2, "rows": 3, "end": 4, "answers": 5}
NAMES = {kind: name for name, kind in KINDS.items()}
#: So many are kept: if the newest is damaged, the one before and the log replace it.
KEPT = 2


class Section(NamedTuple):
    """A section of a checkpoint, to be written."""

    name: str
    fields: Mapping[str, Any]
    columns: Columns = NO_COLUMNS


class Written(NamedTuple):
    """A checkpoint that was written."""

    sequence: int
    bytes: int


def make_blocks(sequence: int, sections: Iterable[Section]) -> Iterator[Sequence[Buffer]]:
    """The content of a checkpoint: the header, a frame per section, and an end frame."""
    yield [make_header(sequence)]
    number = 0
    for number, (name, fields, columns) in enumerate(sections, 1):
        yield make_frame(number, KINDS[name], pack(fields, columns))[0]
    yield make_frame(number + 1, KINDS["end"], [])[0]


class Checkpoints:
    """The checkpoints in a folder, by the last record that each covers."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._damaged: set[int] = set()  # as far as they were read

    def list(self) -> list[int]:
        """The sequence numbers, newest first."""
        try:
            names = [path.name for path in self._files.list_folder(self._folder)]
        except FileNotFoundError:
            return []
        found = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
        return sorted((int(name) for name in found if name.isdecimal()), reverse=True)

    def path(self, sequence: int) -> Path:
        return self._folder / f"{sequence:020}{SUFFIX}"

    def write(self, sequence: int, sections: Iterable[Section]) -> Written:
        """Write a checkpoint; on return it survives a power loss. Memory: one section.

        After an OSError no file remains, as far as the disk allows.
        """
        self._files.make_folder(self._folder)
        target = self.path(sequence)
        blocks = make_blocks(sequence, sections)
        size = write_safely(self._files, target, blocks, target.with_suffix(UNFINISHED))
        self._damaged.discard(sequence)
        return Written(sequence, size)

    def read(self, sequence: int) -> Iterator[tuple[str, Content]]:
        """The sections of a checkpoint; all checksums are verified before the first is returned.

        `StateDamaged` says what is wrong. Memory: the file.
        """
        path = self.path(sequence)
        data = memoryview(self._files.read(path))
        frames: list[Frame] = []
        at = 0
        try:
            version, first = read_header(bytes(data[: HEADER.size]))
            if version > VERSION:
                reason = f"it has format {version}; this version reads up to {VERSION}"
                raise StateDamaged(reason, file=path)
            if first != sequence:
                raise FrameError(f"it is of record {first}")
            at = HEADER.size
            while not frames or frames[-1].kind != KINDS["end"]:
                frame = read_frame(data, at)
                if frame.sequence != len(frames) + 1 or frame.kind not in NAMES:
                    raise FrameError("a section is out of order")
                frames.append(frame)
                at = frame.end
            if at != len(data):
                raise FrameError("there are bytes after the end")
        except FrameError as problem:
            self._damaged.add(sequence)
            raise StateDamaged(str(problem), file=path, offset=at) from None
        return ((NAMES[each.kind], unpack(each.payload)) for each in frames[:-1])

    def tidy(self) -> int:
        """Remove old, damaged and unfinished checkpoints; returns the sequence number of the oldest
        that is left, 0 without any. A damaged one must not take the place of an intact one.
        """
        numbers = [number for number in self.list() if number not in self._damaged]
        for sequence in [*self._damaged, *numbers[KEPT:]]:
            self._remove(self.path(sequence))
        self._damaged.clear()
        for path in self._files.list_folder(self._folder):
            if path.suffix == UNFINISHED:
                self._remove(path)
        return min(numbers[:KEPT], default=0)

    def _remove(self, path: Path) -> None:
        try:
            self._files.remove(path)
        except FileNotFoundError:
            return
