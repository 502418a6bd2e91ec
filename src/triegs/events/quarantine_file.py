"""The quarantine file: whole lines only, even when the disk is full."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from triegs.errors import CannotWrite

BUFFER_BYTES = 1 << 16
BLOCK_BYTES = 1 << 16


class QuarantineFile:
    """A text file written line by line.

    Raises `CannotWrite` if the disk rejects a write. The buffered text is then dropped and the file
    is cut back to its last whole line, as far as the disk allows.

    With `append`, writing continues at the end of an existing file, after removing a last line that
    a crash left incomplete.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool) -> None:
        self._path = Path(path)
        self._buffer: list[bytes] = []
        self._bytes = 0
        if append and self._path.is_file():
            drop_incomplete_line(self._path)
        self._file = self._path.open("ab" if append else "wb", buffering=0)

    def write(self, text: str) -> None:
        """Buffer text; it is flushed at a line end once enough has accumulated."""
        data = text.encode("utf-8", "replace")
        self._buffer.append(data)
        self._bytes += len(data)
        if self._bytes > BUFFER_BYTES and text.endswith("\n"):
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines to the file."""
        data = memoryview(b"".join(self._buffer))
        self._buffer, self._bytes = [], 0
        if not data:
            return
        before = os.fstat(self._file.fileno()).st_size
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(before)
            raise CannotWrite.name(self._path, error) from error

    def close(self) -> None:
        """Flush and close. Idempotent."""
        if self._file.closed:
            return
        try:
            self.flush()
        finally:
            self._file.close()


def drop_incomplete_line(path: Path) -> None:
    """Truncate a file after its last line end. Cost: the bytes that are removed."""
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - BLOCK_BYTES)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                end = begin + found + 1
                break
            end = begin
        if end < size:
            file.truncate(end)
