"""A file that grows while it is read."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds between two looks at the end of a file.
PAUSE = 0.1


class FollowedFile(io.RawIOBase):
    """Reads a file as it grows; the end of it comes when `is_over` says so.

    A file that becomes shorter was replaced: that is an `OSError`, not a reason to read on from
    the middle of something else.

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
        #: Keeps its blank nodes apart from those of others, in every run.
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
                raise OSError("the file became shorter while it was followed")
            time.sleep(PAUSE)

    def read1(self, size: int = io.DEFAULT_BUFFER_SIZE) -> bytes:
        """What there is, at most so much; waits while there is nothing."""
        return self.read(size) or b""

    def close(self) -> None:
        self._file.close()
        super().close()
