"""Damage of every kind: an opening that succeeds shows a state of the uninterrupted run and says
what is lost; any other names the file, and changes nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from tests.durable.disk import LOCK, Fault, PowerDisk, read_all
from tests.durable.play import draw_script, look, make_options, play_all

from triegs import (
    Engine,
    LogDamaged,
    LogFailed,
    StateDamaged,
    StateError,
    Window,
)
from triegs.durable import frames, opening
from triegs.durable.directory import write_settings
from triegs.durable.files import DiskFiles
from triegs.durable.frames import (
    FRAME_SIZE,
    HEADER,
    HEADER_CHECKED,
    HEADER_MAGIC,
    MARK,
    find_frames,
    read_frame,
)
from triegs.durable.inbox import commit_batch
from triegs.durable.journal import Journal

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
PER_REGION = 12 if SOAK else 2


class Kept:
    """A directory with two checkpoints and several segments, and what was seen after each step."""

    def __init__(self, home: Path, sync: str) -> None:
        random = Random(5)
        self.directory = home / "kept"
        options = make_options(random, True)
        script = draw_script(random, 30, True)
        with Engine(**options) as engine:
            self.expected = [seen for _, seen in play_all(engine, script)]
        settings = opening.Settings(
            options["mode"], options.get("window"), options.get("event_time")
        )
        engine = Engine._open(self.directory, settings, DiskFiles(), sync, None, segment_bytes=900)

        def follow(number: int) -> None:
            if number in (10, 17, 24):
                engine.checkpoint()

        play_all(engine, script, follow)
        # A copy is what the death of the process leaves.
        self.left = home / "left"
        shutil.copytree(self.directory, self.left)
        engine.close()

    @property
    def files(self) -> list[Path]:
        found = [path for path in sorted(self.left.rglob("*")) if path.is_file()]
        return [path.relative_to(self.left) for path in found if path.name != LOCK]


@pytest.fixture(scope="module", params=["always", "never"])
def kept(request, tmp_path_factory) -> Kept:
    return Kept(tmp_path_factory.mktemp("damage"), request.param)


@pytest.fixture
def copy(kept: Kept, tmp_path: Path) -> Path:
    shutil.copytree(kept.left, tmp_path / "copy")
    return tmp_path / "copy"


def open_damaged(kept: Kept, directory: Path) -> tuple[StateDamaged | None, int]:
    """Open: what was refused, or up to which step the engine has come, every answer right."""
    before = read_all(directory)
    try:
        engine = Engine.open(directory, sync="never")
    except StateDamaged as problem:
        refusal = problem
    else:
        with engine:
            return None, look_at(engine, kept)
    assert read_all(directory) == before, "nothing on disk was changed"
    assert f"{refusal.file}, byte {refusal.offset}: {refusal.reason}" in str(refusal)
    assert directory in refusal.file.parents
    return refusal, -1


def look_at(engine: Engine, kept: Kept) -> int:
    """The step up to which an engine has come: its answers are right, and it says what is lost."""
    found: int = engine.positions.get("step", -1)
    recovery = engine.recovery
    assert recovery is not None
    if found < 0:
        assert recovery.cut
        return found
    assert look(engine) == kept.expected[found]
    assert recovery.cut or found == len(kept.expected) - 1, "lost in silence"
    return found


def list_regions(path: Path) -> Iterator[tuple[str, int, int]]:
    """The regions of a file, each by name, start and end."""
    data = path.read_bytes()
    if path.suffix == ".json":
        step = max(1, len(data) // 12)
        yield from (
            (f"text {at}", at, min(at + step, len(data))) for at in range(0, len(data), step)
        )
        return
    for name, start, end in (
        ("magic", 0, 8), ("version", 8, 12), ("checksum", 12, 16), ("first", 16, HEADER.size)
    ):  # fmt: skip
        yield f"header {name}", start, end
    at, number = HEADER.size, 0
    while at < len(data):
        frame = read_frame(memoryview(data), at)
        kind = "mark" if frame.kind == MARK else f"frame {number}"
        cells = {"magic": 4, "checksum": 8, "sequence": 16, "kind": 20, "length": 24}
        start = at
        for cell, end in cells.items():
            yield f"{kind} {cell}", start, at + end
            start = at + end
        end = start + len(frame.payload)
        middle = (start + end) // 2
        for name, begin, stop in (("head", start, middle), ("tail", middle, end)):
            if begin < stop:
                yield f"{kind} payload {name}", begin, stop
        if end < frame.end:
            yield f"{kind} zeros", end, frame.end
        at, number = frame.end, number + 1


def test_a_flipped_bit_in_any_region(kept, copy):
    random = Random(1)
    outcomes = {"refused": 0, "opened": 0}
    for name in kept.files:
        path = copy / name
        regions = list(list_regions(kept.left / name))
        if name.parts[0] == "log" and not SOAK:
            regions = random.sample(regions, min(len(regions), 12))
        for region, start, end in regions:
            for _ in range(1 if name.parts[0] == "log" and not SOAK else PER_REGION):
                place, bit = random.randrange(start, end), random.randrange(8)
                restore(kept, copy)
                data = bytearray(path.read_bytes())
                data[place] ^= 1 << bit
                path.write_bytes(data)
                problem, _ = open_damaged(kept, copy)
                outcomes["opened" if problem is None else "refused"] += 1
                if name.parts[0] == "engine.json":
                    assert problem is not None, (region, place, bit)
                    assert problem.file == path
    assert min(outcomes.values()) > 0, outcomes


def restore(kept: Kept, copy: Path) -> None:
    shutil.rmtree(copy)
    shutil.copytree(kept.left, copy)


def test_a_file_that_ends_too_early(kept, copy):
    random = Random(2)
    newest = max(name for name in kept.files if name.parts[0] == "log")
    data = (kept.left / newest).read_bytes()
    ends = {HEADER.size, *(frame.end for frame in find_frames(data, HEADER.size))}
    for name in kept.files:
        for _ in range(PER_REGION * 2):
            restore(kept, copy)
            path = copy / name
            size = random.randrange(path.stat().st_size)
            # The newest segment, cut off between two records, is one that ends there.
            if name != newest or size not in ends:
                os.truncate(path, size)
                open_damaged(kept, copy)


def test_a_file_that_is_missing(kept, copy):
    for name in kept.files:
        restore(kept, copy)
        (copy / name).unlink()
        problem, found = open_damaged(kept, copy)
        # Only what an older checkpoint would need is not missed.
        oldest = min((kept.left / "log").iterdir()).name
        is_spare = name.parts[0] == "checkpoints" or name.name == oldest
        assert (problem is None) == is_spare, (name, problem)
        assert problem or found == len(kept.expected) - 1


@pytest.mark.parametrize("folder", ["log", "checkpoints"])
@pytest.mark.parametrize("is_folder_gone", [True, False])
def test_all_files_of_a_folder_missing(kept, copy, folder, is_folder_gone):
    shutil.rmtree(copy / folder)
    if not is_folder_gone:
        (copy / folder).mkdir()
    problem, _ = open_damaged(kept, copy)
    assert problem is not None
    assert problem.file.relative_to(copy).parts[0] == folder


def test_a_log_without_checkpoints_that_is_missing(tmp_path):
    with Engine.open(tmp_path) as engine:
        engine.apply([("+", 1, "<a:p>", 2)])
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(StateDamaged, match="the log is missing"):
        Engine.open(tmp_path)


def test_both_checkpoints_damaged(kept, copy):
    for path in (copy / "checkpoints").iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    problem, _ = open_damaged(kept, copy)
    assert problem is not None
    assert "records before" in str(problem)


def test_the_newest_checkpoint_damaged_is_reported(kept, copy):
    newest = max((copy / "checkpoints").iterdir())
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    with Engine.open(copy) as engine:
        assert look(engine) == kept.expected[-1]
        assert engine.recovery is not None
        assert [each.file for each in engine.recovery.damaged] == [newest]


def make_newer_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    _, _, _, first = HEADER.unpack_from(data)
    version = frames.VERSION + 1
    checksum = crc32(HEADER_CHECKED.pack(version, first))
    HEADER.pack_into(data, 0, HEADER_MAGIC, version, checksum, first)
    path.write_bytes(data)


def test_a_damaged_checkpoint_replaces_no_intact_one(tmp_path):
    """Errors of the disk, one after the other: each time an intact checkpoint is left."""
    with Engine.open(tmp_path) as engine:
        engine.register("SELECT ?x { ?x <a:p> ?y }", "all")
        engine.checkpoint()
    for number in range(3):
        with Engine.open(tmp_path) as engine:
            assert engine.epoch == number + 1
            engine.apply([("+", number, "<a:p>", 2)])
            engine.checkpoint()
        newest = max((tmp_path / "checkpoints").iterdir())
        newest.write_bytes(newest.read_bytes()[:-1])
    with Engine.open(tmp_path) as engine, engine.queries["all"].snapshot() as snapshot:
        assert (engine.epoch, len(snapshot)) == (4, 3)


def test_a_newer_format(kept, copy, monkeypatch):
    for folder in ("log", "checkpoints"):
        restore(kept, copy)
        for path in (copy / folder).iterdir():
            make_newer_header(path)
        problem, _ = open_damaged(kept, copy)
        assert problem is not None
        assert f"{frames.VERSION + 1}" in problem.reason
        assert "this version reads" in problem.reason
    restore(kept, copy)
    settings = opening.Settings("rdf", None, None).write()
    with monkeypatch.context() as patch:
        patch.setattr("triegs.durable.directory.FORMAT", 7)
        write_settings(DiskFiles(), copy, settings)
    before = read_all(copy)
    with pytest.raises(StateError, match=r"engine\.json has format 7; this version reads 1"):
        Engine.open(copy)
    assert read_all(copy) == before


def test_settings_that_disagree(tmp_path):
    with Engine.open(tmp_path, "rdf", window=Window("10s")):
        pass
    before = read_all(tmp_path)
    for given, name in (
        ({"mode": "multigraph"}, "mode"),
        ({"window": Window("20s")}, "window"),
    ):
        with pytest.raises(StateError, match=f"has {name} .*, not"):
            Engine.open(tmp_path, **given)
    assert read_all(tmp_path) == before
    with Engine.open(tmp_path, "rdf", window=Window("10s")) as engine:
        assert engine.mode.value == "rdf"


def test_what_a_checkpoint_and_the_settings_left_unfinished(kept, copy):
    names = ["checkpoints/00000000000000000007.unfinished", "engine.json.unfinished"]
    for name in names:
        (copy / name).write_bytes(b"half")
    (copy / "checkpoints/notes.txt").write_text("whatever")
    assert open_damaged(kept, copy) == (None, len(kept.expected) - 1)
    with Engine.open(copy) as engine:
        engine.checkpoint()
    assert not (copy / names[0]).exists()


# Clocks


@pytest.mark.parametrize("jump", [-(10**9), 10**9])
def test_a_clock_that_jumps(kept, copy, monkeypatch, jump):
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    for path in read_all(copy):
        os.utime(path, (now() - jump, now() - jump))
    assert open_damaged(kept, copy) == (None, len(kept.expected) - 1)
    with Engine.open(copy, sync="50ms") as engine:
        engine.checkpoint()
        assert engine.apply([("+", 1, "<a:p>", 2)]).wait_durable(60)
        seen = look(engine)
    with Engine.open(copy) as engine:
        assert look(engine) == seen


# What the disk refuses while an engine is open


class NoLock:
    def __init__(self, _: Path) -> None:
        pass

    def close(self) -> None:
        pass


def open_on(disk: Any, **options: Any) -> Engine:
    settings = opening.Settings(None, None, None)
    return Engine._open(Path("/engine"), settings, disk, "never", None, **options)


@pytest.fixture
def disk(monkeypatch) -> PowerDisk:
    monkeypatch.setattr(opening, "Lock", NoLock)
    return PowerDisk()


def test_an_update_is_done_though_its_checkpoint_cannot_begin(disk):
    settings = opening.Settings(None, None, None)
    engine = Engine._open(Path("/engine"), settings, disk, "never", 1)
    disk.fail(3, Fault(errno.ENOSPC))  # behind room, a record and its sync: the next segment
    assert engine.apply([("+", 1, "<a:p>", 2)]).epoch == 1
    assert "segment" in engine.metrics()["durable"]["checkpoint_error"]
    disk.faults = {}
    engine.apply([("+", 1, "<a:p>", 2)])
    engine.close()
    assert engine.metrics()["durable"]["checkpoint_error"] is None
    disk.die()
    assert open_on(disk).epoch == 2


def test_a_checkpoint_that_finds_no_room_leaves_nothing(disk):
    engine = open_on(disk)
    engine.apply([("+", 1, "<a:p>", 2)])
    engine.checkpoint()
    refused = 0
    for after in range(1, 9):
        disk.fail(after, Fault(errno.ENOSPC, room=10))
        with suppress(StateError):
            engine.checkpoint()
            continue
        assert "ENOSPC" in engine.metrics()["durable"]["checkpoint_error"]
        refused += 1
        disk.faults = {}
        assert not [path for path in disk.names if path.suffix == ".unfinished"]
    assert refused > 4
    engine.checkpoint()
    engine.close()
    disk.die()
    assert open_on(disk).epoch == 1


def test_terms_of_a_record_that_was_refused_are_defined_again(disk):
    engine = open_on(disk)
    query = engine.register("SELECT ?x ?y { ?x <a:p> ?y }", name="all")
    engine.apply([("+", "<a:1>", "<a:p>", "<a:2>")])
    find_journal(engine).log.rotate()
    disk.fail(1, Fault(errno.ENOSPC))  # behind room for it
    with pytest.raises(LogFailed):
        engine.apply([("+", "<a:2>", "<a:p>", "<a:1>")])
    disk.faults = {}
    engine.apply([("+", "<a:2>", "<a:p>", "<a:1>")])
    with query.snapshot() as snapshot:
        shown = sorted(map(tuple, snapshot))
    engine.close()
    disk.die()
    with open_on(disk) as engine, engine.queries["all"].snapshot() as snapshot:
        assert sorted(map(tuple, snapshot)) == shown


def find_journal(engine: Engine) -> Journal:
    journal = engine._internals.journal
    assert journal is not None
    return journal


def test_a_mark_that_fills_a_segment_does_not_separate_a_record_from_its_terms(disk, monkeypatch):
    engine = open_on(disk, segment_bytes=600)
    journal = find_journal(engine)
    describe = journal.describe_rows

    def describe_and_sync(rows: Any) -> Any:
        found = describe(rows)
        journal.log.sync()  # as the thread does that syncs: it writes a mark
        return found

    monkeypatch.setattr(journal, "describe_rows", describe_and_sync)
    for number in range(40):
        engine.apply([("+", number % 3, "<a:p>", number % 5)])
    assert len(journal.log._firsts) > 3
    seen = look(engine)
    engine.close()
    disk.die()
    assert look(open_on(disk)) == seen


def test_positions_that_are_no_values_are_refused_at_once(tmp_path):
    with Engine.open(tmp_path) as engine:
        with pytest.raises(TypeError):
            engine.note({"input": object()})
        places = [1, 2]
        engine.note({"input": places})
        places.append(3)
        engine.apply([("+", 1, "<a:p>", 2)])
        assert engine.positions == {"input": [1, 2]}
    with Engine.open(tmp_path) as engine:
        assert engine.positions == {"input": [1, 2]}


def test_malformed_updates_stay_counted(tmp_path):
    with Engine.open(tmp_path) as engine:
        engine.apply([("+", 1, "<a:p>", 2), ("+", 1, "no term", 2), ("-", 5, "<a:p>", 5)])
        seen = look(engine)
        assert engine.metrics()["refused"] == 2
    with Engine.open(tmp_path) as engine:
        assert look(engine) == seen


def test_log_damaged_says_how_far_it_is_good(kept, copy):
    first = min((copy / "log").iterdir())
    data = bytearray(first.read_bytes())
    data[HEADER.size + FRAME_SIZE] ^= 4
    first.write_bytes(data)
    problem, _ = open_damaged(kept, copy)
    assert isinstance(problem, LogDamaged)
    assert problem.good_until >= int(first.stem) - 1


def test_every_bit_of_the_settings(tmp_path):
    with Engine.open(tmp_path, "rdf", window=Window("10s")):
        pass
    path = tmp_path / "engine.json"
    data = path.read_bytes()
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(StateDamaged, match=r"engine\.json, byte 0"):
            Engine.open(tmp_path)
    path.write_bytes(data)
    Engine.open(tmp_path).close()


def test_a_batch_of_the_inbox_with_a_flipped_bit_or_cut_off_is_rejected(tmp_path):
    table = pa.Table.from_pylist([{"subject": 1, "predicate": "<a:p>", "object": 2}])
    with Engine.open(tmp_path, sync="always") as engine:
        commit_batch(tmp_path, table, "feed", 1)
        (path,) = (tmp_path / "inbox").iterdir()
        data = path.read_bytes()
        path.unlink()
        flipped = [data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :] for at in range(len(data))]
        cut = [data[:size] for size in range(0, len(data), 7)]
        for bad in [*flipped, *cut, data + b"more", data + data]:
            path.write_bytes(bad)
            [taken] = engine.take_inbox()
            assert "not a batch" in (taken.problem or "")
        path.with_name(f"feed@{2:020}.batch").write_bytes(data)
        assert "it is of batch 1" in (engine.take_inbox()[0].problem or "")
        assert engine.epoch == 0
        commit_batch(tmp_path, table, "feed", 1)
        assert [taken.problem for taken in engine.take_inbox()] == [None]
        assert engine.epoch == 1


def test_what_another_left_unfinished_in_the_inbox_is_left_alone_for_a_day(tmp_path):
    row = {"subject": 1, "predicate": "<a:p>", "object": 2}
    table = pa.Table.from_pylist([row])
    disk = KeepsNames()
    commit_batch(tmp_path, table, "feed", 1, files=disk)
    commit_batch(tmp_path, table, "feed", 2, files=disk)
    assert len({name.split(".")[1] for name in disk.made}) == 2
    left = [tmp_path / "inbox" / f"feed@{3:020}.{name}.unfinished" for name in ("new", "old")]
    for path in left:
        path.write_bytes(b"begun")
    os.utime(left[1], (0, 0))
    with Engine.open(tmp_path) as engine:
        assert [taken.number for taken in engine.take_inbox()] == [1, 2]
    assert [path.exists() for path in left] == [True, False]


class KeepsNames(DiskFiles):
    """A disk that knows which files were made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def open(self, path: Path) -> Any:
        self.made.append(path.name)
        return super().open(path)
