"""A log that a crash left incomplete, or that was damaged: what is cut off, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.durable.disk import PowerDisk
from tests.durable.small_log import (
    FOLDER,
    NEVER,
    PAYLOAD,
    THREE,
    contents,
    damage,
    expect,
    fill,
    open_log,
    put,
    read,
    segments,
)

from triegs.durable.frames import FRAME_SIZE, HEADER, make_frame, make_header
from triegs.durable.log import Found, Log
from triegs.durable.segments import Cut, verify
from triegs.errors import LogDamaged


@pytest.fixture
def disk() -> PowerDisk:
    return PowerDisk()


class TestCut:
    def test_a_record_of_any_length(self, disk):
        log = open_log(disk, **NEVER)
        fill(log, 2)
        (path,) = segments(disk)
        begin = disk.find_size(path)
        fill(log, 1)
        disk.die()
        data = disk.read(path)
        for end in range(begin, len(data)):
            put(disk, path, data[:end])
            log, found = Log.open(disk, FOLDER)
            if end == begin:
                assert found == Found(1, 2, None)
            else:
                assert found.cut is not None
                assert found.cut[:3] == Cut(path, begin, end - begin, "")[:3]
            assert read(log) == expect(2)
            fill(log, 1)
            log.close()
            assert Log.open(disk, FOLDER)[1] == Found(1, 3, None)

    def test_a_hole_before_records_that_were_never_synced(self, disk):
        log = open_log(disk, **NEVER)
        fill(log, 4)
        disk.die()
        (path,) = segments(disk)
        data = disk.read(path)
        begin = HEADER.size + FRAME_SIZE + PAYLOAD
        put(disk, path, data[:begin] + bytes(30) + data[begin + 30 :])
        log, found = Log.open(disk, FOLDER)
        assert found.last == 1
        assert found.cut is not None
        assert found.cut.offset == begin
        assert "never synced: 2" in found.cut.reason
        assert disk.find_size(path) < len(data)

    @pytest.mark.parametrize("left", [0, 1, HEADER.size - 1])
    def test_the_header_of_the_newest_segment(self, disk, left):
        log = open_log(disk, segment_bytes=1)
        fill(log, 3)
        log.close()
        path = FOLDER / f"{4:020}.log"
        disk.open(path).write([make_header(4)[:left]])
        log, found = Log.open(disk, FOLDER)
        assert found == Found(1, 3, Cut(path, 0, left, "the header is not complete"))
        fill(log, 1)
        assert read(log) == expect(4)

    def test_the_header_of_the_only_segment(self, disk):
        log = open_log(disk, segment_bytes=1)
        path = FOLDER / f"{7:020}.log"
        disk.replace(segments(disk)[0], path)
        put(disk, path, b"x" * HEADER.size)
        disk.die()
        log, found = Log.open(disk, FOLDER)
        assert found[:2] == (7, 6)
        assert log.append(0, []) == 7


class TestDamage:
    @pytest.fixture
    def paths(self, disk) -> list[Path]:
        log = open_log(disk, **THREE)
        fill(log, 8)
        log.close()
        return segments(disk)

    def test_a_missing_segment(self, disk, paths):
        disk.remove(paths[1])
        error = damage(disk)
        assert (error.file, error.offset) == (paths[2], 0)
        assert error.good_until == int(paths[1].stem) - 1
        assert "should be the first here" in error.reason

    def test_a_newer_format(self, disk, paths, monkeypatch):
        monkeypatch.setattr("triegs.durable.frames.VERSION", 2)
        newer = make_header(int(paths[-1].stem))
        monkeypatch.undo()
        put(disk, paths[-1], newer + disk.read(paths[-1])[HEADER.size :])
        assert "format version 2" in damage(disk).reason

    def test_a_renamed_segment(self, disk, paths):
        disk.replace(paths[-1], FOLDER / f"{9:020}.log")
        assert damage(disk).good_until == int(paths[-1].stem) - 1

    def test_a_gap_inside(self, disk, paths):
        data = disk.read(paths[-1])
        frame = b"".join(map(bytes, make_frame(10, 0, [b"later"])[0]))
        put(disk, paths[-1], data + frame)
        error = damage(disk)
        assert (error.offset, error.good_until) == (len(data), 8)
        assert "record 9 is missing" in error.reason

    def test_a_header_before_records(self, disk, paths):
        for path in paths:
            data = disk.read(path)
            put(disk, path, b"?" + data[1:])
            assert damage(disk).file == path
            put(disk, path, data)

    def test_an_older_segment_that_is_cut(self, disk, paths):
        data = disk.read(paths[0])
        put(disk, paths[0], data[: -2 * FRAME_SIZE - 1])
        assert "a newer segment follows" in damage(disk).reason

    def test_an_older_segment_without_all_of_its_last_frame(self, disk, paths):
        data = disk.read(paths[0])
        for size in range(FRAME_SIZE + 1):
            put(disk, paths[0], data[: len(data) - size])
            _, found = Log.open(disk, FOLDER)
            assert (found.first, found.cut) == (1, None)
            disk.die()

    def test_the_newest_segment_is_missing(self, disk, paths):
        disk.remove(paths[-1])
        error = damage(disk)
        assert error.file == paths[-2]
        assert f"the segment of record {int(paths[-1].stem)} is missing" in error.reason

    def test_while_reading(self, disk):
        log = open_log(disk)
        fill(log, 3)
        (path,) = segments(disk)
        data = bytearray(disk.read(path))
        data[HEADER.size + FRAME_SIZE] ^= 1
        put(disk, path, bytes(data))
        with pytest.raises(LogDamaged, match="since the log was opened"):
            read(log)

    def test_verify_changes_nothing(self, disk, paths):
        data = bytearray(disk.read(paths[1]))
        data[-FRAME_SIZE - 1] ^= 1
        put(disk, paths[1], bytes(data))
        before, operations = contents(disk), disk.operations
        found = verify(disk, FOLDER)
        assert (contents(disk), disk.operations) == (before, operations)
        assert [segment.file for segment in found] == paths
        assert [bool(segment.problem) for segment in found] == [path == paths[1] for path in paths]
        assert [segment.bytes for segment in found] == [disk.find_size(path) for path in paths]
        assert (found[0].first, found[0].last) == (1, int(paths[1].stem) - 1)


def flip_each(disk: PowerDisk) -> Iterator[Path]:
    """Each bit of each file is another once, for the time of one step."""
    for path, data in contents(disk).items():
        for place in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            put(disk, path, bytes(flipped))
            yield path
            disk.die()
        put(disk, path, data)


def try_open(disk: PowerDisk) -> tuple[Log, Found] | LogDamaged:
    before = contents(disk)
    try:
        return Log.open(disk, FOLDER)
    except LogDamaged as error:
        unchanged = contents(disk) == before
        return error if unchanged else pytest.fail("a damaged log was changed")


class TestFlips:
    """Nothing is misread, and no record is lost unsaid."""

    def make(self, disk: PowerDisk, **settings) -> tuple[Log, list[tuple[int, int, bytes]]]:
        log = open_log(disk, **settings)
        for number in range(1, 7):
            log.append(number, [bytes([number]) * (number % 4), b"+"])
        return log, read(log)

    def test_what_was_synced(self, disk):
        log, records = self.make(disk, segment_bytes=81)
        log.close()
        assert len(segments(disk)) == 3
        cuts = harmless = 0
        for path in flip_each(disk):
            result = try_open(disk)
            if isinstance(result, LogDamaged):
                assert result.file == path
            else:
                log, found = result
                assert read(log) == records
                cuts += found.cut is not None
                harmless += found.cut is None
        # Only in the last mark, which loses no record, and where an older segment ends.
        assert cuts == 8 * FRAME_SIZE
        assert harmless == 2 * 8 * FRAME_SIZE

    def test_what_was_never_synced(self, disk):
        _, records = self.make(disk, **NEVER)
        disk.die()
        for _ in flip_each(disk):
            result = try_open(disk)
            if isinstance(result, LogDamaged):
                assert result.offset == 0
            else:
                log, found = result
                assert found.cut is not None
                assert read(log) == records[: found.last]
                assert found.last < len(records)
