"""The order in which a stream first read files: a log on disk, which offsets point into.

Spark stores offsets, passes the last ones to a reader that restarts, and expects the same rows
between the same two offsets. So an offset must determine which files precede it. Listing them would
make every offset as long as the list, and modification times do not help: a file moved into a
directory may be older than one already read. So the list is an append-only log, and an offset is a
position in it: a number of entries, and bytes of the next.

1. An entry is synced to disk before Spark gets an offset after it.
2. A partial entry at the end, from a crash, is cut off; by 1, no offset points past it.
3. Entries of one file are contiguous: its bytes when it was first listed, then those by which it
   has grown.
4. Each query has its own log, with a random name that is in every offset.
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
from triegs.spark.rdf.settings import Settings
from triegs.spark.rdf.splits import REMEDY, FileSplit, report_changed

LINE_ENDS = (b"\n", b"\r", b".")


class Offset(NamedTuple):
    """A position in a log: before the entry of that number, or after some bytes of it.

    ``byte`` is an offset in the entry's file and ``line`` the number of the line that starts there;
    both are 0 before an entry. A new query is at the start of a log without a name.
    """

    log: str = ""
    entry: int = 0
    byte: int = 0
    line: int = 0

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def read_offset(given: Mapping[str, Any]) -> Offset:
    """An offset from a checkpoint.

    >>> read_offset(Offset("1f", 3, 80, 2).as_dict())
    Offset(log='1f', entry=3, byte=80, line=2)
    """
    try:
        return Offset(
            str(given["log"]), int(given["entry"]), int(given["byte"]), int(given["line"])
        )
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f'{json.dumps(given)} is not an offset of format("rdf"); the checkpoint belongs to '
            "another source"
        ) from None


class FileLog:
    """The entries of a log, in memory and on disk: some 100 bytes each.

    Only one process writes it, that of the query's reader.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.entries: list[FileSplit] = []
        self.last: dict[str, FileSplit] = {}  # by file
        self._path = folder / f"{name}.jsonl"
        self._size = 0

    @classmethod
    def make(cls, folder: Path) -> FileLog:
        """A log without entries; its file is created with the first one."""
        return cls(folder, token_hex(8))

    @classmethod
    def open(cls, folder: Path, name: str) -> FileLog:
        """The log of that name; `InputError` if it is missing or damaged. Cost: its entries."""
        log = cls(folder, name)
        try:
            data = log._path.read_bytes()
        except OSError as problem:
            raise InputError(
                f"{log._path}: cannot read the list of files that the stream has read "
                f"({problem.strerror}); it belongs to the checkpoint: restore it, or start with a "
                "new checkpoint",
                file=str(log._path),
            ) from None
        log._size = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: log._size].splitlines(), start=1):
            try:
                log._add(FileSplit(*json.loads(line)))
            except (TypeError, ValueError):
                raise InputError(
                    f"{log._path}, line {number}: not an entry of the file log",
                    file=str(log._path), line=number,
                ) from None  # fmt: skip
        return log

    def append(self, entries: Sequence[FileSplit]) -> None:
        """Add entries; durable on return."""
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
                f"{self._path}: cannot write the list of files that the stream has read "
                f"({problem.strerror}); set another directory with the option seenLocation",
                file=str(self._path),
            ) from None
        self._size += len(lines)
        for entry in entries:
            self._add(entry)

    def _add(self, entry: FileSplit) -> None:
        self.entries.append(entry)
        self.last[entry.path] = entry

    def list_splits(self, start: Offset, end: Offset) -> list[FileSplit]:
        """What lies between two offsets. Cost: the entries between them."""
        if end.entry > len(self.entries) or (end.byte and end.entry >= len(self.entries)):
            raise InputError(
                f"{self._path} has {len(self.entries)} entries, fewer than the checkpoint expects; "
                "it belongs to the checkpoint: restore it, or start with a new checkpoint",
                file=str(self._path),
            )
        splits = []
        for number in range(start.entry, end.entry + (end.byte > 0)):
            entry = self.entries[number]
            if number == start.entry and start.byte:
                entry = entry._replace(begin=start.byte, line=start.line)
            if number == end.entry:
                entry = entry._replace(end=end.byte)
            splits.append(entry)
        return splits


def find_new_splits(log: FileLog, found: Mapping[str, int], settings: Settings) -> list[FileSplit]:
    """Entries for what files have beyond the log, given the current files with sizes.

    Of a line-based file, its new complete lines; of any other, all of it, once. `InputError` for a
    file that is missing or has shrunk. Reads the ends of files that have changed.
    """
    for path in log.last.keys() - found.keys():
        report_changed(path, "is missing", settings)
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
            continue  # deleted meanwhile; reported at the next look if it was read before
        if entry is not None:
            entries.append(entry)
    return entries


def _find_whole(
    path: str, size: int, known: FileSplit | None, settings: Settings
) -> FileSplit | None:
    if known is None:
        return FileSplit(path, 0, size, 1)
    problem = f"has changed: {size:,} bytes, not {known.end:,}; only N-Triples and N-Quads may grow"
    report_changed(path, problem, settings)
    return None


def _find_lines(
    path: str, size: int, known: FileSplit | None, settings: Settings
) -> FileSplit | None:
    begin, line = 0, 1
    if known is not None:
        if size < known.end:
            problem = f"has shrunk: {size:,} bytes, not {known.end:,}"
            report_changed(path, problem, settings)
            return None
        begin = known.end
        line = known.line + count_lines(path, known.begin, known.end)
        _check_line_end(path, begin)
    end = find_whole_end(path, begin, size)
    return FileSplit(path, begin, end, line) if end > begin else None


def _check_line_end(path: str, offset: int) -> None:
    with Path(path).open("rb") as file:
        file.seek(offset - 1)
        if file.read(1) not in LINE_ENDS:
            raise InputError(
                f"{path} has changed: no line ends at byte {offset:,} any more; {REMEDY}",
                file=path,
            )
