"""Damage at every offset of a small synced log: it is refused there, or nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.durable.disk import PowerDisk

from triegs.durable.checkpoints import Checkpoints, Section
from triegs.durable.frames import FRAME_SIZE, HEADER
from triegs.durable.log import Log
from triegs.errors import LogDamaged, StateDamaged

FOLDER = Path("/log")
RECORDS = [b"one", b"", b"three" * 9, b"four" * 5, "«tgR is the magic of a frame".encode()]


def flip(data: bytes, at: int, _: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def remove(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + data[at + size :]


def insert(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + b"\xab" * size + data[at:]


def clear(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


HARMS: list[tuple[Callable[[bytes, int, int], bytes], int]] = [
    (flip, 1), (remove, 1), (remove, 3), (remove, 8), (remove, 31), (insert, 1), (insert, 5),
    (insert, 8), (insert, 24), (clear, 1), (clear, 16), (clear, 50),
]  # fmt: skip
every_harm = pytest.mark.parametrize(
    ("harm", "size"), HARMS, ids=[f"{harm.__name__} {size}" for harm, size in HARMS]
)


def write_log(sync: Any, segment_bytes: int = 1 << 20) -> dict[Path, bytes]:
    disk = PowerDisk()
    log, _ = Log.open(disk, FOLDER, sync=sync, segment_bytes=segment_bytes)
    for number, payload in enumerate(RECORDS):
        log.append(number, [payload])
    log.close()
    return {path: disk.read(path) for path in disk.list_folder(FOLDER)}


def put_files(files: dict[Path, bytes]) -> PowerDisk:
    disk = PowerDisk()
    for path, data in files.items():
        disk.make_folder(path.parent)
        disk.open(path).write([data])
    return disk


def try_open(disk: PowerDisk) -> LogDamaged | list[bytes]:
    """Why a log is refused, or the records that it has."""
    try:
        log, _ = Log.open(disk, FOLDER)
    except LogDamaged as problem:
        return problem
    with log:
        return [bytes(each.payload) for each in log.read()]


@every_harm
@pytest.mark.parametrize("sync", ["always", "never"])
def test_every_offset_of_a_synced_log(sync, harm, size):
    ((path, whole),) = write_log(sync).items()
    refused = 0
    # Nothing after the mark of the last record would reveal the mark.
    for at in range(len(whole) - FRAME_SIZE - size + 1):
        data = harm(whole, at, size)
        disk = put_files({path: data})
        found = try_open(disk)
        if isinstance(found, list):
            assert found == RECORDS, at
            assert at >= len(whole) - 2 * FRAME_SIZE or data == whole
            continue
        refused += 1
        assert disk.read(path) == data
        assert (found.file, found.good_until < len(RECORDS)) == (path, True)
        assert found.offset < at + size
    assert refused > len(whole) // 2


@every_harm
def test_every_offset_of_an_older_segment(harm, size):
    files = write_log("always", segment_bytes=100)
    path, *later = files
    assert later
    for at in range(len(files[path])):
        disk = put_files({**files, path: harm(files[path], at, size)})
        found = try_open(disk)
        if isinstance(found, list):
            assert found == RECORDS, at
        else:
            assert (found.file, found.offset < at + size) == (path, True)


def test_bytes_that_moved_are_no_torn_end_also_if_nothing_was_synced():
    disk = PowerDisk()
    log, _ = Log.open(disk, FOLDER, sync="never")
    for number, payload in enumerate(RECORDS):
        log.append(number, [payload])
    (path,) = disk.list_folder(FOLDER)
    whole = disk.read(path)
    second = HEADER.size + FRAME_SIZE + 8
    for at in range(HEADER.size, len(whole) - 2 * FRAME_SIZE - len(RECORDS[-1])):
        for harmed in (remove(whole, at, 1), insert(whole, at, 5)):
            disk = put_files({path: harmed})
            with pytest.raises(LogDamaged, match="moved") as caught:
                Log.open(disk, FOLDER)
            assert caught.value.offset == HEADER.size or caught.value.offset >= second


@every_harm
def test_every_offset_of_a_checkpoint(harm, size):
    disk = PowerDisk()
    parts = [Section("head", {"epoch": 7}), Section("rows", {"more": "text"})]
    Checkpoints(disk, FOLDER).write(3, parts)
    path = Checkpoints(disk, FOLDER).path(3)
    whole = disk.read(path)
    for at in range(len(whole)):
        data = harm(whole, at, size)
        if data != whole:
            with pytest.raises(StateDamaged):
                Checkpoints(put_files({path: data}), FOLDER).read(3)
