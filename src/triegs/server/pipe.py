"""A sink that a thread writes and the event loop reads, bounded in bytes and in time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from threading import Condition
from time import monotonic
from typing import Any

from triegs.errors import SnapshotExpired

CHUNK = 1 << 18
#: What is written at once is sent as it is, up to this size: each further piece costs a copy.
LARGEST = 1 << 20
#: Without copies, large chunks are better: each costs the threads several turns.
PASSED = 1 << 21
#: Smaller parts are copied together.
LEAST_PART = 1 << 12
#: Unread bytes for which the writer waits.
MOST_UNREAD = 1 << 22


class Abandoned(Exception):
    """The reader has left."""


class Parts:
    """A chunk in several places of memory, which the connection sends without joining them.

    >>> chunk = Parts([b"ab", memoryview(b"cd")])
    >>> len(chunk), bytes(chunk)
    (4, b'abcd')
    """

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: list[bytes | memoryview]) -> None:
        self._parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._parts)

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)


Chunk = bytes | Parts


class Pipe:
    """A binary file for the writers of `triegs.outputs`.

    The writer waits while `MOST_UNREAD` bytes are unread. After `seconds` it gets
    `SnapshotExpired`, so a client that does not read cannot hold an epoch.
    """

    closed = False

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._until = monotonic() + seconds
        self._buffer = bytearray()
        self._size = 0
        self._parts: list[bytes | memoryview] = []
        self._passed = 0
        self._chunks: deque[Chunk] = deque()
        self._unread = 0
        self._changed = Condition()
        self._is_over = False
        self._is_abandoned = False
        self._error: BaseException | None = None

    # The thread that writes

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        size = len(view)
        self._size += size
        if size < CHUNK:
            self._buffer += view
            if len(self._buffer) >= CHUNK:
                self.flush()
            return size
        self.flush()
        for start in range(0, size, LARGEST):
            self._send(bytes(view[start : start + LARGEST]))
        return size

    def pass_on(self, data: Any) -> int:
        """Write memory that stays as it is until it is sent: without a copy, unless it is small."""
        view = memoryview(data).cast("B")
        size = len(view)
        self._size += size
        if size < LEAST_PART:
            self._buffer += view
        else:
            self._end_part()
            self._parts.append(view)
        self._passed += size
        if self._passed >= PASSED:
            self.flush()
        return size

    def _end_part(self) -> None:
        if self._buffer:
            self._parts.append(bytes(self._buffer))
            self._buffer.clear()

    def flush(self) -> None:
        self._flush()

    def _flush(self, is_last: bool = False) -> None:
        self._end_part()
        parts, self._parts, self._passed = self._parts, [], 0
        if len(parts) == 1 and isinstance(parts[0], bytes):
            self._send(parts[0], is_last)
        elif parts:
            self._send(Parts(parts), is_last)

    def _send(self, chunk: Chunk, is_last: bool = False) -> None:
        with self._changed:
            while self._unread + len(chunk) > MOST_UNREAD and self._unread:
                if self._is_abandoned:
                    break
                if not self._changed.wait(max(self._until - monotonic(), 0)):
                    raise SnapshotExpired("the response took longer than its lease")
            if self._is_abandoned:
                raise Abandoned
            self._chunks.append(chunk)
            self._unread += len(chunk)
            # At once, so that a small result is seen to be all.
            self._is_over = is_last
        self._notify()

    def finish(self, error: BaseException | None = None) -> None:
        """The end, or why there is none."""
        if error is None:
            try:
                self._flush(is_last=True)
            except (Abandoned, SnapshotExpired) as problem:
                error = problem
        self._error = error
        self._is_over = True
        self._notify()

    def _notify(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.set)

    def tell(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    # The event loop

    async def read_first(self) -> tuple[Chunk, bool]:
        """What there is once a chunk is full or all is written, and whether it is all. Raises what
        the writer raised.
        """
        await self._wait()
        found = self._take()
        is_all = self._is_over and not self._chunks
        if is_all and self._error is not None:
            raise self._error
        return found, is_all

    async def read_rest(self) -> AsyncIterator[Chunk]:
        """The chunks after the first. An error ends it by raising: the client sees a response that
        breaks off, not a short one.
        """
        while True:
            await self._wait()
            while self._chunks:
                yield self._take()
            if self._is_over and not self._chunks:
                if self._error is not None:
                    raise self._error
                return

    def abandon(self) -> None:
        """Nobody reads on."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()

    async def _wait(self) -> None:
        while not self._chunks and not self._is_over:
            self._arrived.clear()
            if not self._chunks and not self._is_over:
                await self._arrived.wait()

    def _take(self) -> Chunk:
        with self._changed:
            found = self._chunks.popleft() if self._chunks else b""
            self._unread -= len(found)
            self._changed.notify_all()
        return found


class Passing:
    """A pipe as a file for memory that stays as it is: see `Pipe.pass_on`."""

    closed = False

    def __init__(self, pipe: Pipe) -> None:
        self.write = pipe.pass_on
        self.flush = pipe.flush
        self.tell = pipe.tell
        self.writable, self.readable, self.seekable = pipe.writable, pipe.readable, pipe.seekable
