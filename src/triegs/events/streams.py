"""Bytes of a file: plain, gzip or zstd, from a path, an open file or standard input.

All valid data before a break is yielded before `BrokenFile` is raised. zstd may withhold up to
`SMALL` bytes of it.
"""

from __future__ import annotations

import codecs
import io
import sys
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any

import pyarrow as pa

SMALL = 8_192
CHUNK = 1 << 18
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class BrokenFile(Exception):
    """A file that cannot be read further, with the reason."""


class Unpacked(io.RawIOBase):
    """An iterator of chunks as a binary file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, b"")
            if not chunk:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def read_some(self) -> bytes:
        """The next available bytes; empty at the end."""
        if self._rest:
            found, self._rest = bytes(self._rest), memoryview(b"")
            return found
        return next(self._chunks, b"")


def read_chunks(file: IO[bytes], compression: str) -> Iterator[bytes]:
    """The decompressed bytes of a file as they arrive; no chunk is empty."""
    unpack = {"none": _read_plain, "gzip": _read_gzip, "zstd": _read_zstd}[compression]
    try:
        yield from unpack(file)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as problem:
        raise BrokenFile(_explain(problem)) from problem


def _explain(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem) or type(problem).__name__


def _read_plain(file: IO[bytes]) -> Iterator[bytes]:
    # `read1` returns what a pipe has, so that a slow writer does not delay its data.
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK):
        yield chunk


def _read_gzip(file: IO[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    is_fresh = True  # between two members, where a file may end
    for packed in _read_plain(file):
        while packed:
            if is_fresh and not packed.strip(b"\0"):
                break  # padding
            if found := unpacker.decompress(packed, CHUNK):
                yield found
            is_fresh = unpacker.eof
            if unpacker.eof:
                packed = unpacker.unused_data
                unpacker = zlib.decompressobj(wbits=31)
            else:
                packed = unpacker.unconsumed_tail
    if not is_fresh:
        yield from filter(None, [unpacker.flush()])
        if not unpacker.eof:
            raise BrokenFile("the gzip data is truncated")


def _read_zstd(file: IO[bytes]) -> Iterator[bytes]:
    # Small reads: a large failing read would lose the data it had decompressed.
    with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
        problem: OSError | None = None
        while problem is None:
            parts: list[bytes] = []
            try:
                while len(parts) < CHUNK // SMALL and (part := stream.read(SMALL)):
                    parts.append(part)
            except OSError as found:
                problem = found
            if not parts:
                break
            yield b"".join(parts)
        if problem is not None:
            text = str(problem)
            raise BrokenFile("the zstd data is truncated" if "Truncated" in text else text)


def drop_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Text without its UTF-8 byte order mark; UTF-16 is rejected."""
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= 4:
            break
    if start.startswith(UTF16_MARKS) or (len(start) >= 4 and start[:4].count(0) == 2):
        raise BrokenFile("the text is UTF-16, not UTF-8")
    start = start.removeprefix(UTF8_MARK)
    if start:
        yield start
    yield from chunks


def transcode(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    r"""Text of another encoding as UTF-8, without a byte order mark.

    >>> b"".join(transcode(iter([b"caf\xe9"]), "latin-1")).decode()
    'café'
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    is_first = True
    read = 0
    try:
        for chunk in chain(chunks, [b""]):
            text = decoder.decode(chunk, final=not chunk)
            read += len(chunk)
            if is_first and text:
                text, is_first = text.removeprefix("\ufeff"), False
            if text:
                yield text.encode()
    except UnicodeError:
        raise BrokenFile(f"the text is not valid {encoding}, near byte {read}") from None


def skip_bytes(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    """The chunks without their first ``count`` bytes."""
    for chunk in chunks:
        if count >= len(chunk):
            count -= len(chunk)
            continue
        yield chunk[count:]
        count = 0


def open_standard_input() -> IO[bytes]:
    return sys.stdin.buffer
