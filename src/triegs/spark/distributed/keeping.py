"""The directory of an engine, kept as pieces in a state store.

An engine writes its log at the end only, and a checkpoint once; so what a batch adds to the store
is what it has added to the log. When the log has grown as long as the checkpoint, a new one takes
the place of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from triegs.durable.directory import LOCK
from triegs.engine import Engine

#: Bytes of a piece at most; Spark moves one at a time.
PIECE_BYTES = 1 << 20
#: No checkpoint is worth its trouble for a log that is shorter.
LEAST_LOG_BYTES = 1 << 20
CHECKPOINTS, LOG = "checkpoints", "log"


class Piece(NamedTuple):
    """Bytes of a file; the number of a piece says where they go."""

    file: str
    number: int
    data: bytes


class Store(Protocol):
    """Where pieces are kept, by file and number."""

    def put(self, piece: Piece) -> None: ...

    def remove(self, file: str, number: int) -> None: ...


class Keeping:
    """Tells a store what has become of a directory since the last time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        #: By file: how many bytes are kept, and in how many pieces.
        self._kept: dict[str, tuple[int, int]] = {}
        self._image_bytes = 0

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self._kept.values())

    def restore(self, pieces: Iterable[Piece]) -> int:
        """Write the files that a store has; returns how many there are."""
        parts: dict[str, dict[int, bytes]] = {}
        for file, number, data in pieces:
            parts.setdefault(file, {})[number] = data
        for file, found in parts.items():
            path = self._directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = b"".join(found[number] for number in sorted(found))
            path.write_bytes(whole)
            self._kept[file] = len(whole), 1 + max(found)
        self._image_bytes = self._measure(CHECKPOINTS)
        return len(parts)

    def save(self, engine: Engine, store: Store) -> int:
        """Keep what is new, and forget what is gone; returns the bytes that were written."""
        if self._measure(LOG) > max(LEAST_LOG_BYTES, self._image_bytes):
            engine.checkpoint()
            self._drop_older(engine)
            self._image_bytes = self._measure(CHECKPOINTS)
        written = 0
        there = {str(path.relative_to(self._directory)): path for path in self._list_files()}
        for file in [file for file in self._kept if file not in there]:
            for number in range(self._kept.pop(file)[1]):
                store.remove(file, number)
        for file, path in there.items():
            size, pieces = self._kept.get(file, (0, 0))
            with path.open("rb") as opened:
                opened.seek(size)
                while data := opened.read(PIECE_BYTES):
                    store.put(Piece(file, pieces, data))
                    pieces += 1
                    size += len(data)
                    written += len(data)
            self._kept[file] = size, pieces
        return written

    def _list_files(self) -> Iterator[Path]:
        for path in sorted(self._directory.rglob("*")):
            if path.is_file() and path.name != LOCK and path.suffix != ".unfinished":
                yield path

    def _measure(self, folder: str) -> int:
        return sum(path.stat().st_size for path in (self._directory / folder).glob("*"))

    def _drop_older(self, engine: Engine) -> None:
        """Only the newest checkpoint is opened, and what the log has behind it."""
        *older, newest = sorted((self._directory / CHECKPOINTS).glob("*"))
        for path in older:
            path.unlink()
        assert engine._internals.journal is not None
        engine._internals.journal.log.trim(int(newest.stem) + 1)
