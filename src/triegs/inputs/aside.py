"""The file that records go to which are set aside: whole lines, also on a full disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from triegs.errors import CannotWrite

WAITING_BYTES = 1 << 16
PIECE_BYTES = 1 << 16


class AsideFile:
    """Text that is written line by line. `CannotWrite` if the disk refuses it: then what was not
    written is dropped, and the file ends with a whole line, as far as the disk allows.

    With `append` it is gone on with, without a line that the end of a process has left unfinished.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool) -> None:
        self._path = Path(path)
        self._waiting: list[bytes] = []
        self._bytes = 0
        if append and self._path.is_file():
            cut_unfinished(self._path)
        self._file = self._path.open("ab" if append else "wb", buffering=0)

    def write(self, text: str) -> None:
        """Take a part of a line, or its end."""
        data = text.encode("utf-8", "replace")
        self._waiting.append(data)
        self._bytes += len(data)
        if self._bytes > WAITING_BYTES and text.endswith("\n"):
            self.flush()

    def flush(self) -> None:
        """Let readers have the lines so far."""
        data = memoryview(b"".join(self._waiting))
        self._waiting, self._bytes = [], 0
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
        """Write what waits. Harmless when repeated."""
        if self._file.closed:
            return
        try:
            self.flush()
        finally:
            self._file.close()


def cut_unfinished(path: Path) -> None:
    """Take away what is behind the last line of a file. Cost: that part."""
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end:
            begin = max(0, end - PIECE_BYTES)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                end = begin + found + 1
                break
            end = begin
        if end < size:
            file.truncate(end)
