"""The log: what it promises, what it cuts, what it refuses."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.durable.disk import Crash, Fault, PowerDisk

from triegs.durable.files import DiskFiles
from triegs.durable.frames import FRAME_SIZE, GOES_ON, HEADER, make_frame, make_header
from triegs.durable.log import Cut, Found, Log
from triegs.durable.segments import verify
from triegs.errors import LogDamaged, LogFailed, StateError

LARGEST_KIND = GOES_ON - 1

FOLDER = Path("/log")
NEVER = {"sync": "never"}
# A record of this size, and three of them in a segment.
PAYLOAD = 40
THREE = {"segment_bytes": HEADER.size + 2 * (FRAME_SIZE + PAYLOAD) + 1}


@pytest.fixture
def disk() -> PowerDisk:
    return PowerDisk()


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


class TestRecords:
    def test_begins_empty_and_continues(self, disk):
        log, found = Log.open(disk, FOLDER)
        assert found == Found(1, 0, None)
        assert (log.first, log.last, log.synced, read(log)) == (1, 0, 0, [])
        fill(log, 4)
        log.close()
        log, found = Log.open(disk, FOLDER)
        assert found == Found(1, 4, None)
        fill(log, 2)
        assert read(log) == expect(6)

    def test_buffers_of_any_kind(self, disk):
        log = open_log(disk)
        table = np.arange(6, dtype="<i4").reshape(2, 3)
        log.append(0, [])
        log.append(
            LARGEST_KIND,
            [b"", b"ab", bytearray(b"c"), memoryview(b"d"), table.data, np.empty(0).data],
        )
        assert read(log) == [(1, 0, b""), (2, LARGEST_KIND, b"abcd" + table.tobytes())]
        with pytest.raises(ValueError, match="kind"):
            log.append(LARGEST_KIND + 1, [])
        with pytest.raises(ValueError, match="kind"):
            log.append(-1, [])
        with pytest.raises(BufferError, match="contiguous"):
            log.append(0, [table[:, 1].data])
        assert log.last == 2

    @pytest.mark.parametrize("settings", [NEVER, {}])
    def test_segments(self, disk, settings):
        log = open_log(disk, **settings, **THREE)
        fill(log, 8)
        firsts = [int(path.stem) for path in segments(disk)]
        assert firsts[0] == 1
        assert len(firsts) >= 3
        for after in range(10):
            assert read(log, after) == expect(8, after + 1)
        log.close()
        log = open_log(disk, **THREE)
        assert read(log) == expect(8)

    def test_a_record_larger_than_a_segment(self, disk):
        log = open_log(disk, segment_bytes=10)
        for number in range(3):
            log.append(number, [bytes(1000)])
        assert len(segments(disk)) == 3

    def test_reading_is_bounded_by_the_call(self, disk):
        log = open_log(disk, **THREE)
        fill(log, 5)
        records = log.read()
        fill(log, 3)
        assert [record.sequence for record in records] == [1, 2, 3, 4, 5]

    def test_trim(self, disk):
        log = open_log(disk, **NEVER, **THREE)
        fill(log, 9)
        firsts = [int(path.stem) for path in segments(disk)]
        assert log.trim(firsts[1] - 1) == []
        assert [int(path.stem) for path in log.trim(firsts[2])] == firsts[:2]
        assert read(log) == expect(9, firsts[2])
        log.trim(100)
        assert [int(path.stem) for path in segments(disk)] == firsts[-1:]
        assert log.first == firsts[-1]
        log.close()
        log, found = Log.open(disk, FOLDER)
        assert found == Found(firsts[-1], 9, None)
        fill(log, 1)
        assert read(log)[-1] == expect(10)[-1]

    def test_sequence_numbers_continue_without_any_record(self, disk):
        log = open_log(disk, segment_bytes=1)
        fill(log, 3)
        disk.fail(7, Fault())  # the write of a record into the segment made for it
        with pytest.raises(LogFailed):
            log.append(0, [b"x"])
        log.trim(100)
        assert (log.first, log.last) == (4, 3)
        disk.die()
        log, found = Log.open(disk, FOLDER)
        assert found == Found(4, 3, None)
        assert log.append(0, []) == 4

    def test_files_of_others_are_left_alone(self, disk):
        fill(open_log(disk), 1)
        disk.open(FOLDER / "1.log").write([b"?"])
        disk.open(FOLDER / "lock").write([b"?"])
        assert Log.open(disk, FOLDER)[1] == Found(1, 1, None)


class TestUndo:
    @pytest.mark.parametrize("settings", [NEVER, {}])
    def test_the_number_is_used_again(self, disk, settings):
        log = open_log(disk, **settings)
        fill(log, 2)
        log.undo(log.append(0, [b"wrong"]))
        assert (log.last, log.synced) == (2, 2)
        fill(log, 1)
        log.close()
        assert read(open_log(disk)) == expect(3)

    def test_only_what_the_last_append_wrote(self, disk):
        log = open_log(disk)
        fill(log, 3)
        for sequence in (0, 2, 4):
            with pytest.raises(StateError, match=f"record {sequence} "):
                log.undo(sequence)
        log.undo(3)
        with pytest.raises(StateError, match="record 2 "):
            log.undo(2)
        assert not log.wait(3, timeout=0)

    def test_what_stays_is_known_to_be_synced(self, disk):
        log = open_log(disk, **NEVER)
        fill(log, 2)
        log.sync()
        fill(log, 1)
        log.undo(3)
        fill(log, 1)
        log.sync()
        log.undo(3)
        disk.die()
        (path,) = segments(disk)
        data = bytearray(disk.read(path))
        data[HEADER.size + FRAME_SIZE] ^= 1
        put(disk, path, bytes(data))
        assert "record 1 was synced" in damage(disk).reason

    def test_after_a_segment_that_was_not_made(self, disk):
        log = open_log(disk, **NEVER, **THREE)
        fill(log, 3)
        disk.fail(4, Fault())
        with pytest.raises(LogFailed, match="a segment was not made"):
            fill(log, 1)
        log.undo(3)
        fill(log, 4)
        log.close()
        assert read(open_log(disk)) == expect(6)

    def test_an_interrupt(self, disk):
        log = open_log(disk)
        for place in range(3):
            fill(log, 3 - log.last)
            disk.fail(place, Fault(crash=True))
            with pytest.raises(Crash):
                log.undo(3)
            fill(log, 1)
            assert read(log) == expect(3)

    def test_a_failure_breaks_the_log(self, disk):
        log = open_log(disk)
        fill(log, 2)
        disk.fail(0, Fault())
        with pytest.raises(LogFailed, match="not removed"):
            log.undo(2)
        assert log.synced == 1
        with pytest.raises(LogFailed, match="not removed"):
            log.append(0, [])


class TestSync:
    def test_always(self, disk):
        log = open_log(disk)
        for number in range(1, 4):
            fill(log, 1)
            assert log.synced == number
            assert log.wait(number)

    def test_never(self, disk):
        log = open_log(disk, **NEVER)
        fill(log, 3)
        assert (log.synced, log.metrics().unsynced) == (0, 3)
        assert not log.wait(4)
        assert log.synced == 0
        assert log.wait(2)
        assert log.synced == 3
        fill(log, 1)
        log.close()
        assert log.synced == 4

    def test_after_some_milliseconds(self, disk):
        with open_log(disk, sync=1.0) as log:
            for number in range(1, 20):
                fill(log, 1)
                assert log.wait(number, timeout=60)
            assert log.synced == 19
            assert not log.wait(20, timeout=60)
        assert read(open_log(disk)) == expect(19)

    def test_waiting_ends(self, disk):
        log = open_log(disk, sync=1e9)
        fill(log, 1)
        assert not log.wait(1, timeout=0.001)
        log.close()
        assert log.wait(1)
        log.close()
        with pytest.raises(StateError, match="closed"):
            log.append(0, [])

    def test_appending_continues_during_a_sync(self, disk, monkeypatch):
        begun, go_on = threading.Event(), threading.Event()
        log = open_log(disk, **NEVER)
        content = disk.names[segments(disk)[0]]
        sync = content.sync

        def slow():
            begun.set()
            assert go_on.wait(60)
            sync()

        fill(log, 1)
        monkeypatch.setattr(content, "sync", slow)
        thread = threading.Thread(target=log.sync)
        thread.start()
        assert begun.wait(60)
        fill(log, 2)
        assert log.synced == 0
        go_on.set()
        thread.join()
        monkeypatch.undo()
        # The sync may have had the later ones too, but it promised the first only.
        assert log.synced == 1
        disk.die()
        # So the mark after them does not turn a hole into damage.
        (path,) = segments(disk)
        data = disk.read(path)
        begin = HEADER.size + FRAME_SIZE + PAYLOAD
        put(disk, path, data[:begin] + bytes(30) + data[begin + 30 :])
        assert read(open_log(disk)) == expect(1)

    def test_a_failed_sync_is_not_tried_again(self, disk):
        log = open_log(disk, **NEVER)
        fill(log, 2)
        disk.fail(0, Fault())
        for _ in range(2):
            with pytest.raises(LogFailed, match="a sync failed"):
                log.wait(2)
            with pytest.raises(LogFailed, match="a sync failed"):
                log.append(0, [])
        assert (log.synced, log.last) == (0, 2)
        log.close()

    def test_a_failed_sync_in_the_background(self, disk):
        log = open_log(disk, sync=1)
        disk.fail(1, Fault())
        fill(log, 1)
        with pytest.raises(LogFailed, match="a sync failed"):
            log.wait(1, timeout=60)
        with pytest.raises(LogFailed, match="a sync failed"):
            log.append(0, [])
        log.close()

    def test_an_append_that_is_not_synced_is_undone(self, disk):
        log = open_log(disk)
        fill(log, 1)
        disk.fail(1, Fault())
        with pytest.raises(LogFailed, match="a sync failed"):
            log.append(0, [b"x"])
        log.close()
        assert read(open_log(disk)) == expect(1)

    @pytest.mark.parametrize("sync", [0, -1, "sometimes"])
    def test_no_such_policy(self, disk, sync):
        with pytest.raises(ValueError, match="milliseconds"):
            open_log(disk, sync=sync)


class TestRefusal:
    @pytest.mark.parametrize("room", [0, 1, 30])
    @pytest.mark.parametrize("settings", [NEVER, {}])
    def test_a_full_disk(self, disk, settings, room):
        log = open_log(disk, **settings)
        fill(log, 2)
        for _ in range(2):
            disk.fail(0, Fault(errno.ENOSPC, room))
            with pytest.raises(LogFailed, match="ENOSPC"):
                log.append(0, [bytes(100)])
            assert not log.broken
        fill(log, 2)
        log.close()
        assert read(open_log(disk)) == expect(4)

    def test_half_a_record_cannot_come_back(self, disk):
        """Zeros, or what is written next, could complete it."""
        log = open_log(disk, **NEVER)
        disk.fail(0, Fault(errno.ENOSPC, 1000))
        with pytest.raises(LogFailed):
            log.append(0, [bytes(100)])
        (path,) = segments(disk)
        assert disk.names[path].unsafe == []
        assert disk.find_size(path) == HEADER.size

    def test_half_a_record_that_stays(self, disk):
        log = open_log(disk)
        fill(log, 2)
        disk.fail(0, Fault(errno.ENOSPC, 30), times=2)
        for _ in range(2):
            with pytest.raises(LogFailed, match="not removed"):
                log.append(0, [bytes(100)])
        assert log.broken
        log.close()
        log, found = Log.open(disk, FOLDER)
        assert found.cut is not None
        assert found.cut.bytes == 30
        assert read(log) == expect(2)

    @pytest.mark.parametrize("place", range(7))
    def test_a_new_segment(self, disk, place):
        """Each operation on the way to a new segment fails once."""
        log = open_log(disk, segment_bytes=1, **NEVER)
        fill(log, 2)
        disk.fail(place, Fault(errno.ENOSPC, 10))
        try:
            fill(log, 1)
        except LogFailed:
            assert bool(log.broken) == (place == 0)
        if log.broken:
            log.close()
            log = open_log(disk)
        fill(log, 4 - log.last)
        log.close()
        assert read(open_log(disk)) == expect(4)

    def test_an_interrupt_leaves_nothing_behind(self, disk):
        log = open_log(disk)
        fill(log, 1)
        for room in (10, 1000):
            disk.fail(0, Fault(room=room, crash=True))
            with pytest.raises(Crash):
                log.append(0, [b"interrupted"])
        fill(log, 2)
        assert read(log) == expect(3)
        log.close()
        assert Log.open(disk, FOLDER)[1] == Found(1, 3, None)

    def test_trim_may_be_tried_again(self, disk):
        log = open_log(disk, **THREE)
        fill(log, 9)
        for place in range(4):
            disk.fail(place, Fault())
            with pytest.raises(LogFailed, match="old segment"):
                log.trim(7)
            fill(log, 1)
            if log.first > 1:
                break
        log.trim(7)
        assert read(log) == expect(log.last, log.first)

    @pytest.mark.parametrize("place", range(6))
    def test_opening(self, disk, place):
        disk.fail(place, Fault(room=5))
        with pytest.raises(LogFailed, match="cannot be opened"):
            open_log(disk)
        fill(open_log(disk), 1)
        assert Log.open(disk, FOLDER)[1] == Found(1, 1, None)


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


def test_on_the_disk_of_the_system(tmp_path):
    folder = tmp_path / "a" / "log"
    log, found = Log.open(DiskFiles(), folder, sync=5, segment_bytes=300)
    assert found == Found(1, 0, None)
    fill(log, 20)
    log.undo(20)
    assert log.wait(19, timeout=60)
    metrics = log.metrics()
    assert (metrics.records, metrics.unsynced) == (20, 0)
    assert metrics.bytes == 20 * (FRAME_SIZE + PAYLOAD)
    assert metrics.syncs >= 1
    assert metrics.sync_seconds >= metrics.last_sync_seconds > 0
    log.trim(10)
    log.close()
    with (folder / max(path.name for path in folder.iterdir())).open("ab") as file:
        file.write(b"torn")
    log, found = Log.open(DiskFiles(), folder)
    assert found.cut is not None
    assert (found.last, found.cut.bytes) == (19, 4)
    assert read(log) == expect(19, found.first)
    log.close()


def test_a_process_that_is_killed(tmp_path):
    program = f"""
import os, signal
from pathlib import Path
from triegs.durable.files import DiskFiles
from triegs.durable.log import Log
log, _ = Log.open(DiskFiles(), Path({str(tmp_path)!r}), sync="never", segment_bytes=300)
for number in range(1, 11):
    log.append(number % 5, [bytes([number]) * {PAYLOAD}])
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    log, found = Log.open(DiskFiles(), tmp_path)
    assert found == Found(1, 10, None)
    assert read(log) == expect(10)
    log.close()
