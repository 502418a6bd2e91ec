"""How a log lies in its files: a header per segment, then one frame after the other.

::

    header   magic 8 bytes | version u32 | checksum u32 | first sequence u64
    frame    magic 4 bytes | checksum u32 | sequence u64 | kind u32 | length u32 | payload | zeros

All numbers are little-endian, and zeros fill a frame up to a multiple of 8 bytes. The checksum of a
frame is the CRC-32 of all that stands behind it, the zeros too; that of a header is over version
and first sequence. A later version keeps this header, so that an older program can tell.

A frame of the kind `MARK` is no record: it says that all records up to its sequence number had been
synced when it was written. It tells damage from what a crash may leave: a record that is not whole
was never synced, unless a mark behind it says so. A frame of the kind `GOES_ON` says at the end of
a segment that the next one has been made, so that its loss can be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from typing_extensions import Buffer

VERSION = 1
MARK = 0xFFFF_FFFF
GOES_ON = 0xFFFF_FFFE
LONGEST = 0xFFFF_FFFF

HEADER = Struct("<8sIIQ")
HEADER_MAGIC = b"triegs\x1aL"
HEADER_CHECKED = Struct("<IQ")

OPENING = Struct("<4sI")
CHECKED = Struct("<QII")
FRAME_SIZE = OPENING.size + CHECKED.size
FRAME_MAGIC = b"\xabtgR"
ZEROS = bytes(8)


class FrameError(ValueError):
    """No whole frame, or no whole header, is at this place; says why."""


class Frame(NamedTuple):
    """A frame as found: it lies from `start` to `end`."""

    sequence: int
    kind: int
    payload: memoryview
    start: int
    end: int


def make_header(first: int) -> bytes:
    checksum = crc32(HEADER_CHECKED.pack(VERSION, first))
    return HEADER.pack(HEADER_MAGIC, VERSION, checksum, first)


def read_header(data: bytes) -> tuple[int, int]:
    """The version of a segment and its first sequence number."""
    if len(data) < HEADER.size:
        raise FrameError("the header is not complete")
    magic, version, checksum, first = HEADER.unpack_from(data)
    if magic != HEADER_MAGIC:
        raise FrameError("this is not the header of a log")
    if checksum != crc32(HEADER_CHECKED.pack(version, first)):
        raise FrameError("the checksum of the header is wrong")
    return version, first


def make_frame(sequence: int, kind: int, parts: Sequence[Buffer]) -> tuple[list[Buffer], int]:
    """The buffers to write and their size. Cost: one checksum over the payload, no copy of it."""
    length = sum([memoryview(part).nbytes for part in parts])
    if length > LONGEST:
        raise ValueError(f"a record of {length} bytes: at most {LONGEST}")
    checked = CHECKED.pack(sequence, kind, length)
    zeros = ZEROS[: -length % 8]
    behind = [*parts, zeros] if zeros else parts
    checksum = crc32(checked)
    for part in behind:
        checksum = crc32(part, checksum)
    opening = OPENING.pack(FRAME_MAGIC, checksum)
    return [opening + checked, *behind], FRAME_SIZE + length + len(zeros)


def read_frame(data: memoryview, start: int) -> Frame:
    """The frame at a place. Cost: one checksum over it."""
    if len(data) < start + FRAME_SIZE:
        raise FrameError("the head of a record is not complete")
    magic, checksum = OPENING.unpack_from(data, start)
    if magic != FRAME_MAGIC:
        raise FrameError("there is no record at this place")
    sequence, kind, length = CHECKED.unpack_from(data, start + OPENING.size)
    payload = start + FRAME_SIZE
    end = payload + length + -length % 8
    if end > len(data):
        raise FrameError("a record is not complete")
    if checksum != crc32(data[start + OPENING.size : end]):
        raise FrameError("the checksum of a record is wrong")
    return Frame(sequence, kind, data[payload : payload + length], start, end)


def find_frames(data: bytes, start: int) -> Iterator[Frame]:
    """The whole frames at or behind a place, whatever lies between them, and at any offset: what
    a byte was taken from, or put into, is moved. Cost: in the bytes.
    """
    view = memoryview(data)
    # The magic may be part of somebody's text, with any length behind it; the frames that are
    # there do not overlap, so the checksums of all of them are over less than this.
    left = 4 * len(data)
    while (start := data.find(FRAME_MAGIC, start)) >= 0:
        try:
            left -= measure_frame(view, start)
            if left < 0:
                raise FrameError("no more is looked at than may be true")
            frame = read_frame(view, start)
        except FrameError:
            start += 1
        else:
            yield frame
            start = frame.end


def measure_frame(data: memoryview, start: int) -> int:
    """The length that is said at a place, of a frame that may be there."""
    if len(data) < start + FRAME_SIZE:
        raise FrameError("the head of a record is not complete")
    _, _, length = CHECKED.unpack_from(data, start + OPENING.size)
    if start + FRAME_SIZE + length > len(data):
        raise FrameError("a record is not complete")
    return int(length)
