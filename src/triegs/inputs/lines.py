"""A file as a run of buffers that are split into records, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from triegs.dictionary.arrays import Bytes
from triegs.inputs.streams import BrokenFile

LEAST_BYTES = 1 << 16
BYTES_A_ROW = 128  # read at once for each row of a batch
LONGEST_RECORD = 1 << 26  # bytes; whatever is longer is set aside
TOO_LONG = "the line has more than 64 MiB"


class Lines(NamedTuple):
    """A buffer of which the first records are found.

    ``rows`` records lie in it; ``number`` is that of the first line (from 1), ``offset`` and
    ``next_number`` tell where the next buffer starts in the file.
    """

    data: Bytes
    rows: int
    number: int
    offset: int
    next_number: int
    is_too_long: bool = False


# Finds records in a buffer from the start: the data, whether they are the last of the file, and the
# most records to find. Gives the number of records, of bytes and of lines that were passed.
Split = Callable[[Bytes, bool, int], tuple[int, int, int]]


def read_lines(
    chunks: Iterator[bytes], split: Split, most: int, offset: int, number: int, is_live: bool
) -> Iterator[Lines]:
    """Buffers with up to ``most`` records each; a buffer may have lines but no record.

    Memory is bounded by the rows of a batch, or by the longest record. A file that breaks raises
    after all whole lines before the break were given. With ``is_live`` nothing waits for more;
    without, where a buffer ends depends on nothing but where it starts, so that a reader that goes
    on from its start finds the same one.
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
                # A record that is longer than all this goes alone.
                view = data[at:]
                rows, passed, lines = split(view, is_last, 1)
            if passed == 0 and len(view) > LONGEST_RECORD and _has_line(view):
                # A quote that nothing closes: only the line that has it is lost.
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
    """Some bytes, whether they are the last, and what broke the file behind them."""
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
    """How many bytes the rest of a line has, with its end, and what was read behind it."""
    dropped = 0
    for chunk in chunks:
        end = chunk.find(b"\n") + 1
        if end:
            return dropped + end, chunk[end:]
        dropped += len(chunk)
    return dropped, b""
