"""The log: what it promises, and what it does when the disk refuses."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.durable.disk import Crash, Fault, PowerDisk
from tests.durable.small_log import (
    FOLDER,
    NEVER,
    PAYLOAD,
    THREE,
    damage,
    expect,
    fill,
    open_log,
    put,
    read,
    segments,
)

from triegs.durable.files import DiskFiles
from triegs.durable.frames import FRAME_SIZE, GOES_ON, HEADER
from triegs.durable.log import LEAST_RESERVED, Found, Log
from triegs.errors import LogFailed, StateError

LARGEST_KIND = GOES_ON - 1


@pytest.fixture
def disk() -> PowerDisk:
    return PowerDisk()


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
        disk.fail(
            8, Fault()
        )  # the write of a record into the segment made for it, after room for it
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
        with pytest.raises(LogFailed, match="a segment was not created"):
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
        disk.fail(2, Fault())
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
        # The first time room is reserved; it was given back with what was written of the record.
        for place in (0, 1):
            disk.fail(place, Fault(errno.ENOSPC, room))
            with pytest.raises(LogFailed, match="ENOSPC"):
                log.append(0, [bytes(100)])
            assert not log.broken
        fill(log, 2)
        log.close()
        assert read(open_log(disk)) == expect(4)

    @pytest.mark.parametrize("sync", ["always", "never"])
    def test_a_disk_without_room_for_a_record(self, disk, sync):
        """No byte is written, so nothing is cut or synced; smaller records still fit."""
        log = open_log(disk, sync=sync)
        fill(log, 1)
        log.close()
        log = open_log(disk, sync=sync)
        (path,) = segments(disk)
        before, size = disk.find_size(path), FRAME_SIZE + PAYLOAD
        disk.room = size + 2 * FRAME_SIZE
        for _ in range(2):
            operations = disk.operations
            with pytest.raises(LogFailed, match=r"was not written.*ENOSPC"):
                log.append(0, [bytes(500)])
            assert disk.operations == operations + 2  # asked for much, and for as much as needed
            assert (disk.find_size(path), log.broken) == (before, None)
        fill(log, 1)
        disk.room = 0
        with pytest.raises(LogFailed, match="ENOSPC"):
            fill(log, 1)
        disk.room = 1 << 20
        fill(log, 2)
        log.close()
        assert read(open_log(disk)) == expect(4)

    def test_room_is_reserved_once_for_many_records(self, disk):
        log = open_log(disk, **NEVER)
        disk.room = LEAST_RESERVED + 10_000
        fill(log, 1)
        left = disk.room
        assert left < 10_000
        operations = disk.operations
        fill(log, 100)
        assert (disk.operations - operations, disk.room) == (100, left)
        log.close()
        assert disk.room == LEAST_RESERVED + 10_000 - 101 * (FRAME_SIZE + PAYLOAD) - FRAME_SIZE
        assert read(open_log(disk)) == expect(101)

    def test_a_sync_never_finds_the_disk_full(self, disk):
        """All room that records need was theirs before they were written."""
        log = open_log(disk, **NEVER)
        fill(log, 1)
        disk.room = 0
        fill(log, 5)
        log.sync()
        assert log.synced == 6
        disk.lose_power(Random(1))
        assert read(open_log(disk)) == expect(6)

    def test_half_a_record_cannot_come_back(self, disk):
        """Zeros, or what is written next, could complete it."""
        log = open_log(disk, **NEVER)
        disk.fail(1, Fault(errno.ENOSPC, 1000))
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
    # What was reserved is still so, but no part of the files.
    reserved = measure_blocks(tmp_path)
    log, found = Log.open(DiskFiles(), tmp_path)
    assert found == Found(1, 10, None)
    assert read(log) == expect(10)
    log.close()
    if reserved < LEAST_RESERVED:
        pytest.skip("this file system reserves nothing")
    assert measure_blocks(tmp_path) < LEAST_RESERVED // 2


def measure_blocks(folder: Path) -> int:
    return sum(512 * path.stat().st_blocks for path in folder.iterdir())
