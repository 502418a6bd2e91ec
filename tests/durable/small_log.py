"""A log of small records on a disk in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.durable.disk import PowerDisk

from triegs.durable.frames import FRAME_SIZE, HEADER
from triegs.durable.log import Log
from triegs.errors import LogDamaged

FOLDER = Path("/log")
NEVER = {"sync": "never"}
# A record of this size, and three of them in a segment.
PAYLOAD = 40
THREE = {"segment_bytes": HEADER.size + 2 * (FRAME_SIZE + PAYLOAD) + 1}


def open_log(disk: PowerDisk, **settings) -> Log:
    return Log.open(disk, FOLDER, **settings)[0]


def fill(log: Log, count: int) -> None:
    for number in range(log.last + 1, log.last + 1 + count):
        assert log.append(number % 5, [bytes([number]) * PAYLOAD]) == number


def expect(count: int, first: int = 1) -> list[tuple[int, int, bytes]]:
    return [(number, number % 5, bytes([number]) * PAYLOAD) for number in range(first, count + 1)]


def read(log: Log, after: int = 0) -> list[tuple[int, int, bytes]]:
    return [(sequence, kind, bytes(payload)) for _, sequence, kind, payload in log.read(after)]


def segments(disk: PowerDisk) -> list[Path]:
    return disk.list_folder(FOLDER)


def contents(disk: PowerDisk) -> dict[Path, bytes]:
    return {path: disk.read(path) for path in segments(disk)}


def put(disk: PowerDisk, path: Path, data: bytes) -> None:
    """Change a file behind the log's back, on the disk itself."""
    content = disk.names[path]
    content.seen = bytearray(data)
    content.sync()


def damage(disk: PowerDisk) -> LogDamaged:
    """Opening refuses, twice alike, and changes nothing."""
    before = contents(disk)
    with pytest.raises(LogDamaged) as caught:
        open_log(disk)
    with pytest.raises(LogDamaged) as again:
        open_log(disk)
    assert str(again.value) == str(caught.value)
    assert contents(disk) == before
    error = caught.value
    assert f"{error.file}, byte {error.offset}: {error.reason}" in str(error)
    return error
