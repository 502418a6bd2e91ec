"""Damage at every place of a small log that was synced: it is refused there, or nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.durable.disk import PowerDisk

from triegs.durable.checkpoints import Checkpoints, Part
from triegs.durable.frames import FRAME_SIZE, HEADER
from triegs.durable.log import Log
from triegs.errors import LogDamaged, StateDamaged

FOLDER = Path("/log")
RECORDS = [b"one", b"", b"three" * 9, b"four" * 5, "«tgR is the magic of a frame".encode()]
Harm = Callable[[bytes, int], bytes]
HARMS: dict[str, Harm] = {
    "flip": lambda data, at: data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :],
    **{
        f"remove {size}": lambda data, at, size=size: data[:at] + data[at + size :]
        for size in (1, 3, 8, 31)
    },
    **{
        f"insert {size}": lambda data, at, size=size: data[:at] + b"\xab" * size + data[at:]
        for size in (1, 5, 8, 24)
    },
    **{
        f"zero {size}": lambda data, at, size=size: (
            data[:at] + bytes(len(data[at : at + size])) + data[at + size :]
        )
        for size in (1, 16, 50)
    },
}
#: How many bytes of the file are no longer there or not what they were.
REACH = {name: 1 if name == "flip" else int(name.split()[1]) for name in HARMS}


def write_log(sync: str, segment_bytes: int = 1 << 20) -> dict[Path, bytes]:
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


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("sync", ["always", "never"])
def test_every_place_of_a_synced_log(sync, harm):
    ((path, whole),) = write_log(sync).items()
    refused = 0
    # Behind the mark of the last record there is nothing that would tell of the mark.
    for at in range(len(whole) - FRAME_SIZE - REACH[harm] + 1):
        data = HARMS[harm](whole, at)
        disk = put_files({path: data})
        found = try_open(disk)
        if isinstance(found, list):
            assert found == RECORDS, at
            assert at >= len(whole) - 2 * FRAME_SIZE or data == whole
            continue
        refused += 1
        assert disk.read(path) == data
        assert (found.file, found.good_until < len(RECORDS)) == (path, True)
        assert found.offset < at + REACH[harm]
    assert refused > len(whole) // 2


@pytest.mark.parametrize("harm", HARMS)
def test_every_place_of_an_older_segment(harm):
    files = write_log("always", segment_bytes=100)
    path, *later = files
    assert later
    for at in range(len(files[path])):
        disk = put_files({**files, path: HARMS[harm](files[path], at)})
        found = try_open(disk)
        if isinstance(found, list):
            assert found == RECORDS, at
        else:
            assert (found.file, found.offset < at + REACH[harm]) == (path, True)


def test_bytes_that_moved_are_no_torn_end_also_if_nothing_was_synced():
    disk = PowerDisk()
    log, _ = Log.open(disk, FOLDER, sync="never")
    for number, payload in enumerate(RECORDS):
        log.append(number, [payload])
    (path,) = disk.list_folder(FOLDER)
    whole = disk.read(path)
    second = HEADER.size + FRAME_SIZE + 8
    for at in range(HEADER.size, len(whole) - 2 * FRAME_SIZE - len(RECORDS[-1])):
        for harm in ("remove 1", "insert 5"):
            disk = put_files({path: HARMS[harm](whole, at)})
            with pytest.raises(LogDamaged, match="moved") as caught:
                Log.open(disk, FOLDER)
            assert caught.value.offset == HEADER.size or caught.value.offset >= second


@pytest.mark.parametrize("harm", HARMS)
def test_every_place_of_a_checkpoint(harm):
    disk = PowerDisk()
    parts = [Part("head", {"epoch": 7}), Part("rows", {"more": "text"})]
    Checkpoints(disk, FOLDER).write(3, parts)
    path = Checkpoints(disk, FOLDER).path(3)
    whole = disk.read(path)
    for at in range(len(whole)):
        data = HARMS[harm](whole, at)
        if data != whole:
            with pytest.raises(StateDamaged):
                Checkpoints(put_files({path: data}), FOLDER).read(3)
