"""The file format of a log: a header per segment, then frames.

::

    header   magic 8 bytes | version u32 | checksum u32 | first sequence u64
    frame    magic 4 bytes | checksum u32 | sequence u64 | kind u32 | length u32 | payload | zeros

All numbers are little-endian, and zeros pad a frame to a multiple of 8 bytes. The checksum of a
frame is the CRC-32 of everything after it, zeros included; that of a header covers version and
first sequence. Later versions keep this header, so that an older program can detect them.

A frame of the kind `MARK` is not a record: all records up to its sequence number had been synced
when it was written. It distinguishes damage from what a crash may leave: an incomplete record was
never synced, unless a mark after it says so. A frame of the kind `GOES_ON` at the end of a segment
says that the next one was created, so that its loss is detected.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from triegs.jit.words import CHECKSUM

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


def find_checksum() -> int:
    """The address of the function behind `crc32`, for kernels; 0 if it is not found."""
    expected = crc32(HEADER_MAGIC)
    for name in (getattr(zlib, "__file__", None), None, "libz.so.1", "libz.dylib"):
        with suppress(OSError, AttributeError, TypeError):
            address = ctypes.cast(ctypes.CDLL(name).crc32, ctypes.c_void_p).value or 0
            if CHECKSUM(address)(0, HEADER_MAGIC, len(HEADER_MAGIC)) == expected:
                return address
    return 0


class FrameError(ValueError):
    """There is no complete frame or header at this offset; says why."""


class Frame(NamedTuple):
    """A frame as read, from offset `start` to `end`."""

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
    """The buffers to write and their size. Cost: one checksum over the payload, no copy."""
    length = sum([memoryview(part).nbytes for part in parts])
    if length > LONGEST:
        raise ValueError(f"a record has at most {LONGEST} bytes, not {length}")
    checked = CHECKED.pack(sequence, kind, length)
    zeros = ZEROS[: -length % 8]
    behind = [*parts, zeros] if zeros else parts
    checksum = crc32(checked)
    for part in behind:
        checksum = crc32(part, checksum)
    opening = OPENING.pack(FRAME_MAGIC, checksum)
    return [opening + checked, *behind], FRAME_SIZE + length + len(zeros)


def read_frame(data: memoryview, start: int) -> Frame:
    """The frame at an offset. Cost: one checksum over it."""
    if len(data) < start + FRAME_SIZE:
        raise FrameError("the head of a record is not complete")
    magic, checksum = OPENING.unpack_from(data, start)
    if magic != FRAME_MAGIC:
        raise FrameError("there is no record at this offset")
    sequence, kind, length = CHECKED.unpack_from(data, start + OPENING.size)
    payload = start + FRAME_SIZE
    end = payload + length + -length % 8
    if end > len(data):
        raise FrameError("a record is not complete")
    if checksum != crc32(data[start + OPENING.size : end]):
        raise FrameError("the checksum of a record is wrong")
    return Frame(sequence, kind, data[payload : payload + length], start, end)


def find_frames(data: bytes, start: int) -> Iterator[Frame]:
    """The complete frames at or after an offset, whatever is between them. Cost: linear in the
    bytes. Frames are found at any alignment, because a lost or inserted byte shifts what follows.
    """
    view = memoryview(data)
    # The magic may occur in a term, followed by any length. Real frames do not overlap, so their
    # checksums together cover less than this.
    left = 4 * len(data)
    while (start := data.find(FRAME_MAGIC, start)) >= 0:
        try:
            left -= measure_frame(view, start)
            if left < 0:
                raise FrameError("the rest is not searched")
            frame = read_frame(view, start)
        except FrameError:
            start += 1
        else:
            yield frame
            start = frame.end


def measure_frame(data: memoryview, start: int) -> int:
    """The length field of a possible frame at an offset."""
    if len(data) < start + FRAME_SIZE:
        raise FrameError("the head of a record is not complete")
    _, _, length = CHECKED.unpack_from(data, start + OPENING.size)
    if start + FRAME_SIZE + length > len(data):
        raise FrameError("a record is not complete")
    return int(length)
