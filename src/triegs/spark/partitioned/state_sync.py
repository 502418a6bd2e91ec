"""The directory of an engine, kept as chunks in a state store.

An engine only appends to its log and writes each checkpoint once, so a batch adds to the store only
what it added to the log. When the log has outgrown the checkpoint, a new checkpoint replaces both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from triegs.durable.directory import LOCK
from triegs.engine import Engine

#: The most bytes of a chunk; Spark moves one at a time.
CHUNK_BYTES = 1 << 20
#: A shorter log is not worth a checkpoint.
LEAST_LOG_BYTES = 1 << 20
CHECKPOINTS, LOG = "checkpoints", "log"


class Chunk(NamedTuple):
    """Bytes of a file; chunks of a file are ordered by number."""

    file: str
    number: int
    data: bytes


class Store(Protocol):
    """A state store of chunks by file and number."""

    def put(self, piece: Chunk) -> None: ...

    def remove(self, file: str, number: int) -> None: ...


class StateSync:
    """Writes the changes of a directory to a store since the last `save`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        #: By file: how many bytes are stored, and in how many chunks.
        self._stored: dict[str, tuple[int, int]] = {}
        self._image_bytes = 0

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self._stored.values())

    def restore(self, chunks: Iterable[Chunk]) -> int:
        """Write the files in a store to the directory; returns their number."""
        files: dict[str, dict[int, bytes]] = {}
        for file, number, data in chunks:
            files.setdefault(file, {})[number] = data
        for file, found in files.items():
            path = self._directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = b"".join(found[number] for number in sorted(found))
            path.write_bytes(whole)
            self._stored[file] = len(whole), 1 + max(found)
        self._image_bytes = self._measure(CHECKPOINTS)
        return len(files)

    def save(self, engine: Engine, store: Store) -> int:
        """Store what is new, and remove what is gone; returns the bytes written."""
        if self._measure(LOG) > max(LEAST_LOG_BYTES, self._image_bytes):
            engine.checkpoint()
            self._drop_older(engine)
            self._image_bytes = self._measure(CHECKPOINTS)
        written = 0
        there = {str(path.relative_to(self._directory)): path for path in self._list_files()}
        for file in [file for file in self._stored if file not in there]:
            for number in range(self._stored.pop(file)[1]):
                store.remove(file, number)
        for file, path in there.items():
            size, chunks = self._stored.get(file, (0, 0))
            with path.open("rb") as opened:
                opened.seek(size)
                while data := opened.read(CHUNK_BYTES):
                    store.put(Chunk(file, chunks, data))
                    chunks += 1
                    size += len(data)
                    written += len(data)
            self._stored[file] = size, chunks
        return written

    def _list_files(self) -> Iterator[Path]:
        for path in sorted(self._directory.rglob("*")):
            if path.is_file() and path.name != LOCK and path.suffix != ".unfinished":
                yield path

    def _measure(self, folder: str) -> int:
        return sum(path.stat().st_size for path in (self._directory / folder).glob("*"))

    def _drop_older(self, engine: Engine) -> None:
        """Recovery opens only the newest checkpoint and the log after it."""
        *older, newest = sorted((self._directory / CHECKPOINTS).glob("*"))
        for path in older:
            path.unlink()
        assert engine._internals.journal is not None
        engine._internals.journal.log.trim(int(newest.stem) + 1)
