"""The inbox: batches that other processes commit, each taken exactly once.

A batch has a source and a number. It lies in the inbox as one file: a header and a frame, as in the
log, around an Arrow file. A rename puts it there, so it is there as a whole or not at all. The
record of the epoch that takes it has the number: whatever has a number up to that was taken, also
if it is committed once more. A file goes when that record survives a loss of power.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pyarrow as pa

from triegs.dictionary.validation import clean_column
from triegs.durable.directory import refuse_foreign
from triegs.durable.files import DiskFiles, Files, write_safely
from triegs.durable.frames import (
    HEADER,
    VERSION,
    FrameError,
    make_frame,
    make_header,
    read_frame,
    read_header,
)  # fmt: skip
from triegs.errors import InputError, StateError

FOLDER, SUFFIX, REJECTED, UNFINISHED = "inbox", ".batch", ".rejected", ".unfinished"
#: Who has not finished a batch after a day is dead.
DEAD_SECONDS = 24 * 3600
NAME = re.compile(r"([A-Za-z0-9._-]+)@([0-9]{20})")
STREAM = b"triegs.stream"
#: The position that has the last number taken of each source.
POSITION = "inbox"


class Batch(NamedTuple):
    """A batch that lies in the inbox."""

    source: str
    number: int
    path: Path


class Taken(NamedTuple):
    """A batch that was taken, with what became of it; or why it was rejected."""

    source: str
    number: int
    outcome: Any
    problem: str | None = None


def commit_batch(
    directory: str | Path, table: pa.Table, source: str, number: int, *,
    stream: str | None = None, files: Files | None = None,
) -> bool:  # fmt: skip
    """Put a batch into the inbox of an engine's directory; False if it lies there already.

    From any process. The table is as for `triegs.Engine.apply`, or with a column ``time`` as for
    `triegs.Engine.push` to that stream. Numbers of a source grow; one that was taken is not taken
    again. On return the batch survives a loss of power. `StateError` if the disk refuses it: the
    same may be tried again. Cost: the table.
    """
    name = f"{source}@{number:020}"
    if NAME.fullmatch(name) is None or number < 0:
        raise ValueError(f"a source has letters, digits, '.', '_' and '-', not {source!r}")
    disk = DiskFiles() if files is None else files
    refuse_foreign(disk, Path(directory))
    folder = Path(directory) / FOLDER
    disk.make_folder(folder)
    target = folder / f"{name}{SUFFIX}"
    if target in disk.list_folder(folder):
        disk.sync_folder(folder)  # who put it there may have failed to
        return False
    if stream is not None:
        more = {**(table.schema.metadata or {}), STREAM: stream.encode()}
        table = table.replace_schema_metadata(more)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    # A name of its own: two who commit the same batch must not write into one file, nor one behind
    # what another left when it died.
    beside = folder / f"{name}.{token_hex(8)}{UNFINISHED}"
    frame, _ = make_frame(number, 0, [sink.getvalue()])
    try:
        write_safely(disk, target, [[make_header(number), *frame]], beside)
    except OSError as error:
        raise StateError(f"batch {number} of {source} was not committed: {error}") from error
    return True


class Inbox:
    """The engine's side of it."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._folder = directory / FOLDER
        files.make_folder(self._folder)
        #: By batch that this process took: the record that says so.
        self._records: dict[Batch, int] = {}

    def list(self) -> list[Batch]:
        """What lies there, source by source in the order of numbers."""
        found = []
        for path in self._files.list_folder(self._folder):
            match = NAME.fullmatch(path.stem) if path.suffix == SUFFIX else None
            if match is not None:
                found.append(Batch(match[1], int(match[2]), path))
        return sorted(found)

    def read(self, batch: Batch) -> tuple[pa.Table, str | None]:
        """The table of a batch, and its stream; `InputError` if it is none."""
        try:
            data = self._files.read(batch.path)
        except OSError as error:
            raise StateError(f"a batch of the inbox cannot be read: {error}") from error
        try:
            version, number = read_header(data)
            if version > VERSION:
                raise FrameError(f"it is of format {version}, and this reads up to {VERSION}")
            if number != batch.number:
                raise FrameError(f"it is of batch {number}")
            frame = read_frame(memoryview(data), HEADER.size)
            if frame.end != len(data):
                raise FrameError("there is something behind the end")
            table = pa.ipc.open_file(pa.py_buffer(frame.payload)).read_all()
            for column in table.columns:
                clean_column(column)  # a row with text that is none is refused when it is taken
        except (FrameError, ValueError, pa.ArrowException, OSError) as problem:
            raise InputError(f"not a batch: {problem}", file=str(batch.path)) from None
        stream = (table.schema.metadata or {}).get(STREAM)
        return table, None if stream is None else stream.decode()

    def note(self, batch: Batch, record: int) -> None:
        """A batch was taken; that record says so."""
        self._records[batch] = record

    def reject(self, batch: Batch) -> None:
        """Keep a batch that cannot be taken, where nobody takes it for one."""
        self._files.replace(batch.path, batch.path.with_suffix(REJECTED))

    def tidy(self, numbers: dict[str, int], is_safe: Callable[[int], bool]) -> None:
        """Remove what was taken, if the record that says so survives a loss of power; and what was
        left behind by who died while committing.
        """
        for path in self._files.list_folder(self._folder):
            if path.suffix == UNFINISHED and self._files.find_age(path) > DEAD_SECONDS:
                self._files.remove(path)
        for batch in self.list():
            if batch.number > numbers.get(batch.source, -1):
                continue
            if is_safe(self._records.get(batch, 0)):
                self._files.remove(batch.path)
                self._records.pop(batch, None)
