"""Follows a growing file."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds between polls at the end of a file.
PAUSE = 0.1


class FollowedFile(io.RawIOBase):
    """Reads a file as it grows, until `is_over` returns true.

    A file that shrinks was replaced, which raises `OSError`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "events.nt"
    ...     _ = path.write_text("first ")
    ...     with FollowedFile(path, lambda: True) as file:
    ...         file.read1(100), file.read1(100)
    (b'first ', b'')
    """

    def __init__(self, path: str | os.PathLike[str], is_over: Callable[[], bool]) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115
        self._is_over = is_over
        self.name = os.fspath(path)
        #: Scopes its blank nodes, stable across runs.
        self.scope = str(Path(path).resolve())

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, target: Any) -> int:
        while True:
            found = self._file.readinto(target)
            if found:
                return found
            if self._is_over():
                return 0
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise OSError("the file shrank while it was being followed")
            time.sleep(PAUSE)

    def read1(self, size: int = io.DEFAULT_BUFFER_SIZE) -> bytes:
        """The available bytes, up to `size`; waits if there are none."""
        return self.read(size) or b""

    def close(self) -> None:
        self._file.close()
        super().close()
