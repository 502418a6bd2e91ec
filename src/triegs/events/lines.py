"""Reads a file as buffers that are split into records by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from triegs.events.streams import BrokenFile
from triegs.terms.arrays import Bytes

LEAST_BYTES = 1 << 16
BYTES_A_ROW = 128  # bytes read at once per row of a batch
LONGEST_RECORD = 1 << 26  # bytes; longer records are quarantined
TOO_LONG = "the line is longer than 64 MiB"


class Lines(NamedTuple):
    """A buffer with ``rows`` records at its start.

    ``number`` is the number of its first line (from 1); ``offset`` and ``next_number`` are the file
    offset and line number of the next buffer.
    """

    data: Bytes
    rows: int
    number: int
    offset: int
    next_number: int
    is_too_long: bool = False


# Finds records from the start of a buffer. Arguments: the data, whether it is the end of the file,
# and the most records to find. Returns the number of records, bytes and lines consumed.
Split = Callable[[Bytes, bool, int], tuple[int, int, int]]


def read_lines(
    chunks: Iterator[bytes], split: Split, most: int, offset: int, number: int, is_live: bool
) -> Iterator[Lines]:
    """Yield buffers with up to ``most`` records each; a buffer may have lines but no record.

    Memory is bounded by the rows of a batch or the longest record. For a broken file, all whole
    lines before the break are yielded first, then the error is raised. With ``is_live``, lines are
    passed on as they arrive. Without it, where a buffer ends depends only on where it starts, so a
    resumed reader finds the same buffers.
    """
    size = max(LEAST_BYTES, most * BYTES_A_ROW)
    rest = b""
    is_last = False
    while not is_last:
        wanted = size - len(rest) if len(rest) < size else size
        more, is_last, broken = _read_more(chunks, wanted, is_live)
        buffer = rest + more
        data = np.frombuffer(buffer, np.uint8)
        at = 0
        while at < len(data):
            left = len(data) - at
            if left < size and not (is_last or is_live or broken):
                break
            view = data[at : at + size]
            rows, passed, lines = split(view, is_last and left <= size, most)
            if passed == 0 and left > size:
                # A record longer than a buffer is read alone.
                view = data[at:]
                rows, passed, lines = split(view, is_last, 1)
            if passed == 0 and len(view) > LONGEST_RECORD and _has_line(view):
                # An unclosed quote: only its line is lost.
                rows, passed, lines = split(view, True, 1)
            if passed == 0:
                break
            offset += passed
            yield Lines(view, rows, number, offset, number + lines)
            number += lines
            at += passed
        if broken is not None:
            raise broken
        rest = buffer[at:]
        if len(rest) > LONGEST_RECORD:
            dropped, follow = _skip_line(chunks)
            offset += len(rest) + dropped
            yield Lines(np.frombuffer(rest, np.uint8), 0, number, offset, number + 1, True)
            rest = follow
            number += 1


def _read_more(
    chunks: Iterator[bytes], size: int, is_live: bool
) -> tuple[bytes, bool, Exception | None]:
    """Some bytes, whether they are the last, and the error that follows them, if any."""
    parts: list[bytes] = []
    length = 0
    try:
        while length < size:
            chunk = next(chunks, b"")
            if not chunk:
                return b"".join(parts), True, None
            parts.append(chunk)
            length += len(chunk)
            if is_live and b"\n" in chunk:
                break
    except BrokenFile as problem:
        return b"".join(parts), False, problem
    return b"".join(parts), False, None


def _has_line(data: Bytes) -> bool:
    return bool((data == 10).any())


def _skip_line(chunks: Iterator[bytes]) -> tuple[int, bytes]:
    """The length of the rest of a line with its end, and the bytes read after it."""
    dropped = 0
    for chunk in chunks:
        end = chunk.find(b"\n") + 1
        if end:
            return dropped + end, chunk[end:]
        dropped += len(chunk)
    return dropped, b""
