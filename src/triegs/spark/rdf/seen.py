"""The order in which a stream has seen files: a log on disk, which offsets point into.

Spark keeps offsets, hands the last ones to a reader that starts again, and expects the same rows
between the same two. So an offset has to say which files lie before it. To list them all would make
every offset as long as the list. The times of files cannot tell it: a file that is moved into a
directory may be older than one that was read. So the list is in a log of its own, to which entries
are added and never changed, and an offset is a place in it: a number of entries, and bytes of the
next.

1. An entry is on disk, synced, before an offset behind it is given to Spark.
2. What a crash leaves of an entry at the end is cut off; by 1 no offset points behind it.
3. Entries of one file follow each other without a gap: the bytes that it had when it was looked at,
   then those by which it has grown.
4. Each query has a log of its own: its name is drawn, and is in every offset.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from triegs.durable.files import DiskFiles
from triegs.errors import InputError
from triegs.spark.rdf.cutting import count_lines, find_whole_end
from triegs.spark.rdf.listing import is_by_line, open_file
from triegs.spark.rdf.parts import START_ANEW, Part, tell_backwards
from triegs.spark.rdf.settings import Settings

LINE_ENDS = (b"\n", b"\r", b".")


class Offset(NamedTuple):
    """A place in a log: before the entry of that number, or after some bytes of it.

    ``byte`` is a place in the entry's file and ``line`` the number of the line that starts there;
    both are 0 before an entry. A new query is at the start of a log that has no name yet.
    """

    log: str = ""
    entry: int = 0
    byte: int = 0
    line: int = 0

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def read_offset(given: Mapping[str, Any]) -> Offset:
    """An offset of a checkpoint.

    >>> read_offset(Offset("1f", 3, 80, 2).as_dict())
    Offset(log='1f', entry=3, byte=80, line=2)
    """
    try:
        return Offset(
            str(given["log"]), int(given["entry"]), int(given["byte"]), int(given["line"])
        )
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{json.dumps(given)} is no offset of rdf; the checkpoint is of another source"
        ) from None


class SeenLog:
    """The entries of a log, in memory and on disk: some 100 bytes each.

    One process writes it, that of the reader that Spark has for the query.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.entries: list[Part] = []
        self.last: dict[str, Part] = {}  # of each file
        self._path = folder / f"{name}.jsonl"
        self._size = 0

    @classmethod
    def make(cls, folder: Path) -> SeenLog:
        """A log without entries; it is on disk once it has one."""
        return cls(folder, token_hex(8))

    @classmethod
    def open(cls, folder: Path, name: str) -> SeenLog:
        """The log of that name; `InputError` if it is gone or damaged. Cost: its entries."""
        log = cls(folder, name)
        try:
            data = log._path.read_bytes()
        except OSError as problem:
            raise InputError(
                f"{log._path}: the list of files that the stream has seen cannot be read "
                f"({problem.strerror}); it goes with the checkpoint: put it back, or start anew "
                "with another checkpoint",
                file=str(log._path),
            ) from None
        log._size = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: log._size].splitlines(), start=1):
            try:
                log._take(Part(*json.loads(line)))
            except (TypeError, ValueError):
                raise InputError(
                    f"{log._path}, line {number}: no entry of a seen file",
                    file=str(log._path), line=number,
                ) from None  # fmt: skip
        return log

    def append(self, entries: Sequence[Part]) -> None:
        """Add entries; on return they survive a loss of power."""
        lines = "".join(json.dumps(entry, ensure_ascii=True) + "\n" for entry in entries).encode()
        try:
            is_new = not self._path.parent.exists() or not self._path.exists()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.truncate(self._size)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                for folder in (self._path.parent, self._path.parent.parent):
                    DiskFiles().sync_folder(folder)
        except OSError as problem:
            raise InputError(
                f"{self._path}: the list of files that the stream has seen cannot be written "
                f"({problem.strerror}); give a directory for it by the option seenLocation",
                file=str(self._path),
            ) from None
        self._size += len(lines)
        for entry in entries:
            self._take(entry)

    def _take(self, entry: Part) -> None:
        self.entries.append(entry)
        self.last[entry.path] = entry

    def list_parts(self, start: Offset, end: Offset) -> list[Part]:
        """What lies between two offsets. Cost: the entries between them."""
        if end.entry > len(self.entries) or (end.byte and end.entry >= len(self.entries)):
            raise InputError(
                f"{self._path} has {len(self.entries)} entries, fewer than the checkpoint knows; "
                "it goes with the checkpoint: put it back, or start anew with another checkpoint",
                file=str(self._path),
            )
        parts = []
        for number in range(start.entry, end.entry + (end.byte > 0)):
            entry = self.entries[number]
            if number == start.entry and start.byte:
                entry = entry._replace(begin=start.byte, line=start.line)
            if number == end.entry:
                entry = entry._replace(end=end.byte)
            parts.append(entry)
        return parts


def find_new(log: SeenLog, found: Mapping[str, int], settings: Settings) -> list[Part]:
    """Entries for what files have beyond the log, given what there is now with sizes.

    Of a file that is read by line, whole lines; of another, all of it, once. `InputError` for a
    file that is gone or has less than was seen of it. Reads the ends of files that have changed.
    """
    for path in log.last.keys() - found.keys():
        tell_backwards(path, "is gone", settings)
    entries = []
    for path, size in found.items():
        known = log.last.get(path)
        if size == (known.end if known else 0):
            continue
        file = open_file(path, settings)
        try:
            if not is_by_line(file, settings):
                entry = _find_whole(path, size, known, settings)
            else:
                entry = _find_lines(path, size, known, settings)
        except FileNotFoundError:
            continue  # gone since; told at the next look if it was seen before
        if entry is not None:
            entries.append(entry)
    return entries


def _find_whole(path: str, size: int, known: Part | None, settings: Settings) -> Part | None:
    if known is None:
        return Part(path, 0, size, 1)
    told = f"has changed: {size:,} bytes, not {known.end:,}; only N-Triples and N-Quads may grow"
    tell_backwards(path, told, settings)
    return None


def _find_lines(path: str, size: int, known: Part | None, settings: Settings) -> Part | None:
    begin, line = 0, 1
    if known is not None:
        if size < known.end:
            told = f"is shorter: {size:,} bytes, not {known.end:,}"
            tell_backwards(path, told, settings)
            return None
        begin = known.end
        line = known.line + count_lines(path, known.begin, known.end)
        _check_line_end(path, begin)
    end = find_whole_end(path, begin, size)
    return Part(path, begin, end, line) if end > begin else None


def _check_line_end(path: str, place: int) -> None:
    with Path(path).open("rb") as file:
        file.seek(place - 1)
        if file.read(1) not in LINE_ENDS:
            raise InputError(
                f"{path} is not what was read: no line ends at byte {place:,} any more; "
                f"{START_ANEW}",
                file=path,
            )
