"""The files of the operating system, and the disk of the tests, by the same tests."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.durable.disk import Fault, PowerDisk

from triegs.durable.files import KEEP_SIZE, MOST_PARTS, DiskFile, DiskFiles, Files


@pytest.fixture(params=["disk", "power"])
def files(request) -> Files:
    return DiskFiles() if request.param == "disk" else PowerDisk()


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> Path:
    made = tmp_path / "a" / "b"
    files.make_folder(made)
    files.make_folder(made)
    return made


def test_what_is_written_is_read(files, folder):
    path = folder / "file"
    file = files.open(path)
    file.write([b"one", bytearray(b""), memoryview(b"two"), np.arange(3, dtype=np.uint8)])
    file.write([np.empty((0, 2)), np.zeros((2, 2), dtype=np.uint8)])
    expected = b"onetwo\0\1\2\0\0\0\0"
    assert file.size == files.find_size(path) == len(expected)
    assert files.read(path) == expected
    assert files.read(path, 3) == expected[3:]
    assert files.read(path, 3, 4) == expected[3:7]
    assert files.read(path, 12, 4) == expected[12:]
    assert files.read(path, 99, 4) == b""
    file.sync()
    file.truncate(3)
    file.write([b"!"])
    assert files.read(path) == b"one!"
    file.close()
    file.close()
    again = files.open(path)
    again.write([b"?"])
    again.close()
    assert files.read(path) == b"one!?"


def test_reserved_room_is_not_content(files, folder):
    path = folder / "file"
    file = files.open(path)
    file.write([b"one"])
    file.reserve(10_000)
    assert (file.size, files.find_size(path), files.read(path)) == (3, 3, b"one")
    file.reserve(10)
    file.write([b"two"])
    file.write([b"three", b"four"])
    file.sync()
    assert files.read(path) == b"onetwothreefour"
    file.truncate(6)
    file.reserve(50_000)
    file.write([b"!"])
    file.close()
    assert files.read(path) == b"onetwo!"


def measure_blocks(path: Path) -> int:
    return 512 * path.stat().st_blocks


def open_reserved(path: Path, size: int) -> DiskFile:
    """A file with one byte, and room for so many."""
    file = DiskFiles().open(path)
    file.write([b"x"])
    file.reserve(size)
    if measure_blocks(path) < size:
        pytest.skip("this file system reserves nothing")
    return file


def test_blocks_are_reserved_and_given_back(tmp_path):
    path = tmp_path / "file"
    file = open_reserved(path, 1 << 20)
    file.write([bytes(5_000)])
    assert path.stat().st_size == 5_001
    file.truncate(10)
    file.sync()
    assert measure_blocks(path) < 1 << 16
    file.reserve(1 << 20)
    file.close()
    assert (path.stat().st_size, measure_blocks(path) < 1 << 16) == (10, True)


def test_room_that_is_not_there(tmp_path):
    path = tmp_path / "file"
    file = open_reserved(path, 1 << 16)
    with pytest.raises(OSError, match=r"."):
        file.reserve(1 << 60)
    assert measure_blocks(path) < 1 << 16
    file.write([b"y"])
    file.close()
    assert path.read_bytes() == b"xy"


def test_a_file_in_which_nothing_can_be_reserved():
    """A device has no blocks; a file system may be unable to, and is written all the same."""
    file = DiskFiles().open(Path("/dev/null"))
    file.reserve(100)
    file.write([b"x"])
    file.close()


def test_a_system_that_can_reserve_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("triegs.durable.files.ALLOCATE", None)
    file = DiskFiles().open(tmp_path / "file")
    file.reserve(1 << 60)
    file.write([b"x"])
    file.close()
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_reservation_that_a_signal_interrupts(tmp_path, monkeypatch):
    calls = []

    def interrupt(*given: int) -> int:
        calls.append(given)
        ctypes.set_errno(errno.EINTR)
        return -1 if len(calls) < 3 else 0

    monkeypatch.setattr("triegs.durable.files.ALLOCATE", interrupt)
    file = DiskFiles().open(tmp_path / "file")
    file.write([b"x"])
    file.reserve(100)
    assert calls == 3 * [(file._number, KEEP_SIZE, 1, 99)]
    file.close()


def test_the_simulated_disk_runs_out_of_room():
    disk = PowerDisk()
    disk.room = 10
    file, other = disk.open(Path("/file")), disk.open(Path("/other"))
    file.reserve(6)
    with pytest.raises(OSError, match="ENOSPC"):
        other.reserve(5)
    with pytest.raises(OSError, match="ENOSPC"):
        other.write([b"abcde"])
    assert disk.read(Path("/other")) == b"abcd"
    file.write([b"123456"])
    with pytest.raises(OSError, match="ENOSPC"):
        file.write([b"7"])
    other.truncate(1)
    file.reserve(9)
    file.close()
    assert disk.room == 3


def test_more_buffers_than_one_call_takes(files, folder):
    file = files.open(folder / "file")
    parts = [bytes([place % 251]) * (place % 3) for place in range(3 * MOST_PARTS)]
    file.write(parts)
    file.close()
    assert files.read(folder / "file") == b"".join(parts)


def test_names(files, folder):
    for name in "cab":
        file = files.open(folder / name)
        file.write([name.encode()])
        file.close()
    assert [path.name for path in files.list_folder(folder)] == ["a", "b", "c"]
    files.replace(folder / "a", folder / "b")
    files.remove(folder / "c")
    files.sync_folder(folder)
    assert files.list_folder(folder) == [folder / "b"]
    assert files.read(folder / "b") == b"a"
    for call in (files.read, files.remove, files.find_size):
        with pytest.raises(FileNotFoundError):
            call(folder / "c")
    with pytest.raises(FileNotFoundError):
        files.list_folder(folder / "none")


def test_a_closed_file_is_not_written(files, folder):
    file = files.open(folder / "file")
    file.close()
    with pytest.raises(OSError, match=r"."):
        file.write([b"x"])


def test_short_writes_are_continued(monkeypatch, tmp_path):
    write_all = os.writev

    def write_some(number, parts):
        """At most three bytes at a time."""
        return write_all(number, [b"".join(parts)[:3]])

    monkeypatch.setattr(os, "writev", write_some)
    file = DiskFiles().open(tmp_path / "file")
    file.write([b"a", b"bc", b"", b"defghij", b"k"])
    file.close()
    assert (tmp_path / "file").read_bytes() == b"abcdefghijk"


def test_a_full_disk(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no such device here")
    file = DiskFiles().open(full)
    with pytest.raises(OSError, match="space") as caught:
        file.write([b"x"])
    assert caught.value.errno == errno.ENOSPC
    file.close()


def outcomes(prepare) -> set[bytes | None]:
    """What may be in a file after the power was lost."""
    found = set()
    for seed in range(300):
        disk = PowerDisk()
        prepare(disk)
        disk.lose_power(Random(seed))
        path = Path("/file")
        found.add(disk.read(path) if path in disk.list_folder(path.parent) else None)
    return found


def test_power_is_lost():
    def synced(disk):
        file = disk.open(Path("/file"))
        file.write([b"ab"])
        file.sync()
        disk.sync_folder(Path("/"))
        return file

    def unsynced_name(disk):
        disk.open(Path("/file")).sync()

    def unsynced_writes(disk):
        file = synced(disk)
        file.write([b"c"])
        file.write([b"d"])

    def unsynced_truncation(disk):
        file = synced(disk)
        file.truncate(1)
        file.write([b"c"])

    def unsynced_removal(disk):
        synced(disk)
        disk.remove(Path("/file"))

    assert outcomes(synced) == {b"ab"}
    assert outcomes(unsynced_name) == {None, b""}
    ends = {b"", b"c", b"cd", b"\0d", b"c\0", b"\0\0", b"\0"}
    assert outcomes(unsynced_writes) == {b"ab" + end for end in ends}
    assert outcomes(unsynced_truncation) == {b"ab", b"a", b"ac", b"a\0"}
    assert outcomes(unsynced_removal) == {None, b"ab"}


def test_the_disk_refuses():
    disk = PowerDisk()
    file = disk.open(Path("/file"))
    disk.fail(1, Fault(errno.ENOSPC, room=2))
    file.write([b"abc"])
    with pytest.raises(OSError, match="ENOSPC"):
        file.write([b"def"])
    file.write([b"g"])
    assert disk.read(Path("/file")) == b"abcdeg"
    disk.die()
    with pytest.raises(OSError, match="closed"):
        file.write([b"h"])
