"""The inbox: batches that other processes commit, each taken exactly once.

A batch has a source and a number. It is one file in the inbox: a header and a frame, as in the log,
around an Arrow file. It is put there by a rename, so it is complete. The record of the epoch that
takes it has its number: batches of the source up to that number are taken, also if they are
committed again. A file is removed once that record survives a power loss.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pyarrow as pa

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
from triegs.terms.validation import clean_column

FOLDER, SUFFIX, REJECTED, UNFINISHED = "inbox", ".batch", ".rejected", ".unfinished"
#: A writer that has not finished a batch after a day is dead.
DEAD_SECONDS = 24 * 3600
NAME = re.compile(r"([A-Za-z0-9._-]+)@([0-9]{20})")
STREAM = b"triegs.stream"
#: The position with the last number taken of each source.
POSITION = "inbox"


class Batch(NamedTuple):
    """A batch in the inbox."""

    source: str
    number: int
    path: Path


class Taken(NamedTuple):
    """A batch that was taken, with its outcome; or why it was rejected."""

    source: str
    number: int
    outcome: Any
    problem: str | None = None


def commit_batch(
    directory: str | Path, table: pa.Table, source: str, number: int, *,
    stream: str | None = None, files: Files | None = None,
) -> bool:  # fmt: skip
    """Put a batch into the inbox of an engine's directory; False if it is there already.

    From any process. The table is as for `triegs.Engine.apply`, or with a column ``time`` as for
    `triegs.Engine.push` to that stream. The numbers of a source increase; a number is taken once.
    On return the batch survives a power loss. `StateError` if the disk refuses it; the call may be
    repeated. Cost: the table.
    """
    name = f"{source}@{number:020}"
    if NAME.fullmatch(name) is None or number < 0:
        raise ValueError(
            f"a source name has only letters, digits, '.', '_' and '-', not {source!r}"
        )
    disk = DiskFiles() if files is None else files
    refuse_foreign(disk, Path(directory))
    folder = Path(directory) / FOLDER
    disk.make_folder(folder)
    target = folder / f"{name}{SUFFIX}"
    if target in disk.list_folder(folder):
        disk.sync_folder(folder)  # whoever put it there may have failed to
        return False
    if stream is not None:
        more = {**(table.schema.metadata or {}), STREAM: stream.encode()}
        table = table.replace_schema_metadata(more)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    # A unique name: two processes that commit the same batch must not write to one file, nor may
    # one append to what another left when it died.
    beside = folder / f"{name}.{token_hex(8)}{UNFINISHED}"
    frame, _ = make_frame(number, 0, [sink.getvalue()])
    try:
        write_safely(disk, target, [[make_header(number), *frame]], beside)
    except OSError as error:
        raise StateError(f"batch {number} of {source} was not committed: {error}") from error
    return True


class Inbox:
    """The engine's side of the inbox."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._folder = directory / FOLDER
        files.make_folder(self._folder)
        #: By batch that this process took, its record.
        self._records: dict[Batch, int] = {}

    def list(self) -> list[Batch]:
        """The batches, by source and number."""
        found = []
        for path in self._files.list_folder(self._folder):
            match = NAME.fullmatch(path.stem) if path.suffix == SUFFIX else None
            if match is not None:
                found.append(Batch(match[1], int(match[2]), path))
        return sorted(found)

    def read(self, batch: Batch) -> tuple[pa.Table, str | None]:
        """The table of a batch, and its stream; `InputError` if it is not a batch."""
        try:
            data = self._files.read(batch.path)
        except OSError as error:
            raise StateError(f"a batch of the inbox cannot be read: {error}") from error
        try:
            version, number = read_header(data)
            if version > VERSION:
                raise FrameError(f"it has format {version}; this version reads up to {VERSION}")
            if number != batch.number:
                raise FrameError(f"it is of batch {number}")
            frame = read_frame(memoryview(data), HEADER.size)
            if frame.end != len(data):
                raise FrameError("there are bytes after the end")
            table = pa.ipc.open_file(pa.py_buffer(frame.payload)).read_all()
            for column in table.columns:
                clean_column(column)  # rows with invalid text are refused when the batch is taken
        except (FrameError, ValueError, pa.ArrowException, OSError) as problem:
            raise InputError(f"not a batch: {problem}", file=str(batch.path)) from None
        stream = (table.schema.metadata or {}).get(STREAM)
        return table, None if stream is None else stream.decode()

    def note(self, batch: Batch, record: int) -> None:
        """A batch was taken with that record."""
        self._records[batch] = record

    def reject(self, batch: Batch) -> None:
        """Rename a batch that cannot be taken, so that it is not tried again."""
        self._files.replace(batch.path, batch.path.with_suffix(REJECTED))

    def tidy(self, numbers: dict[str, int], is_safe: Callable[[int], bool]) -> None:
        """Remove batches whose record survives a power loss, and files of writers that died."""
        for path in self._files.list_folder(self._folder):
            if path.suffix == UNFINISHED and self._files.find_age(path) > DEAD_SECONDS:
                self._files.remove(path)
        for batch in self.list():
            if batch.number > numbers.get(batch.source, -1):
                continue
            if is_safe(self._records.get(batch, 0)):
                self._files.remove(batch.path)
                self._records.pop(batch, None)
