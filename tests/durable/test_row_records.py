"""Records that a kernel writes: they have the bytes of those that are written in the general way,
and a file that refuses them is left to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.durable.disk import room

from triegs import Engine
from triegs.durable import direct
from triegs.durable.columns import unpack
from triegs.durable.files import DiskFile, DiskFiles, Files, find_write
from triegs.durable.frames import find_checksum
from triegs.durable.journal import Journal, Kind, Recording
from triegs.durable.log import Log
from triegs.durable.record_kernel import CODES, DECLINED, LENGTH, RECORD_WORDS, TORN, write_text
from triegs.errors import LogFailed
from triegs.jit.jit import short_kernel
from triegs.jit.words import Words, checksum_bytes, load
from triegs.terms.dictionary import Dictionary
from triegs.windows.encoding import NO_ID, Events

LONG = f'"{"long " * 600}"'  # longer than the memory that a row of it has
NUMBERS = st.integers(-(2**62), 2**62)
TERMS = st.sampled_from([0, 1, 2, -7, 2**40, -(2**62), "<a:p>", "<a:q>", '"é"@en', "_:b", LONG])
ROWS = st.lists(st.tuples(st.sampled_from([1, -1]), TERMS, TERMS, TERMS), max_size=9)
STREAMS = st.sampled_from([None, "http://ex/s", 'a "quoted" é\n\x05', "s" * 900])
EPOCHS = st.tuples(
    st.just("epoch"), ROWS,
    st.fixed_dictionaries(
        {"strict": st.booleans(), "time": st.none() | NUMBERS, "malformed": st.integers(0, 2**40)}
    ),
)  # fmt: skip
EVENTS = st.tuples(
    st.just("events"), ROWS,
    st.fixed_dictionaries({"stream": STREAMS, "given": st.integers(0, 99)}),
    st.lists(NUMBERS, min_size=9, max_size=9), st.sampled_from([None, "ids", "kept"]),
)  # fmt: skip
MOVES = st.tuples(
    st.sampled_from([Kind.ADVANCE, Kind.MOVE]),
    st.fixed_dictionaries({"to": st.none() | NUMBERS, "stream": STREAMS, "end": st.booleans()}),
)
SLIDES = st.tuples(st.just(Kind.SLIDE), st.fixed_dictionaries({"time": NUMBERS}))
CALLS = st.tuples(
    EPOCHS | EVENTS | MOVES | SLIDES,
    st.sampled_from(["kept", "kept", "kept", "undone", "noted", "synced", "freed", "terms"]),
)
PLAIN = {"strict": False, "time": None, "malformed": 0}
INTEGERS = [(1, 0, 1, 2), (-1, 0, 1, -7)]
TEXTS = [(1, "<a:p>", "<a:q>", '"é"@en')]


class Undone(Exception):
    pass


class Written:
    """A dictionary and a log on the real disk, whose records are written in one of two ways."""

    def __init__(
        self, folder: Path, is_direct: bool, limit: int | None = None, segment_bytes: int = 2_000,
        files: Files | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.words, self.identities = Dictionary(), Dictionary()
        self.log, _ = Log.open(
            files or DiskFiles(), folder, sync="never", segment_bytes=segment_bytes
        )
        self.journal = Journal(self.log, self.words, self.identities, limit)
        assert self.journal.direct.is_possible
        self.journal.direct.is_possible = is_direct

    def encode(self, drawn: list[Any]) -> Words:
        rows = np.empty((len(drawn), 4), np.int64)
        for place, (change, *terms) in enumerate(drawn):
            rows[place] = [change, *self.words.encode_terms(terms)]
        return rows

    def record(self, epoch: int, call: tuple[Any, ...]) -> Recording:
        what, *given = call
        if what == "epoch":
            return self.journal.record_rows(epoch, self.encode(given[0]), given[1])
        if what == "events":
            return self.journal.record_events(epoch, self.make_events(*given), given[1])
        return self.journal.record(what, epoch, given[0])

    def make_events(
        self, drawn: list[Any], fields: Mapping[str, Any], times: list[int], unusual: str | None
    ) -> Events:
        size = len(drawn)
        ids = np.full(size, NO_ID, np.int64)
        if unusual == "ids" and size:
            ids[0] = self.identities.encode_one(fields["given"])
        found = np.array(times[:size], np.int64)
        found.flags.writeable = size % 2 == 0
        kept = np.arange(size) if unusual == "kept" else None
        return Events(found, self.encode(drawn), ids, fields["given"], kept, [])

    def make(self, epoch: int, call: tuple[Any, ...], how: str) -> None:
        if how == "noted":
            self.journal.note({"at": epoch})
        try:
            with self.record(epoch, call):
                if how == "undone":
                    raise Undone
        except Undone:
            pass
        if how == "synced":
            self.log.sync()
        elif how == "freed":
            # All terms go, and the next ones get their ids.
            self.words.collect(epoch)
        elif how == "terms":
            self.words.encode_terms(range(epoch, epoch + 2_000))

    def close(self) -> dict[str, bytes]:
        self.log.close()
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}


@pytest.mark.property
@given(st.lists(CALLS, max_size=12), st.none() | st.integers(0, 2**50))
@example([(("epoch", INTEGERS, PLAIN), "kept")] * 3, None)
@example(
    [
        (("epoch", [], {"strict": True, **numbers}), "kept")
        for numbers in ({"malformed": 0, "time": 5}, {"time": 5, "malformed": 0})
    ],
    None,
)
@example([(("epoch", TEXTS, PLAIN), how) for how in ("kept", "undone", "kept", "freed")], 1 << 30)
@example([(("epoch", INTEGERS, PLAIN), how) for how in ("terms", "freed", "kept")], None)
@example([(("epoch", [(1, LONG, 1, 2)], PLAIN), "kept")] * 4, None)
@example([((Kind.SLIDE, {"time": time}), "kept") for time in (0, -1, 9, 10, -10, 2**62)], None)
@example([(("events", INTEGERS, {"stream": None, "given": 2}, [7] * 9, None), "kept")] * 3, None)
def test_both_ways_write_the_same_bytes(calls, limit):
    with TemporaryDirectory() as home:
        both = [
            Written(Path(home, str(is_direct)), is_direct, limit) for is_direct in (True, False)
        ]
        for epoch, (call, how) in enumerate(calls):
            for written in both:
                written.make(epoch, call, how)
        found, expected = (list(written.log.read()) for written in both)
        assert [each.sequence for each in found] == list(range(1, len(found) + 1))
        kept = [call for call, how in calls if how != "undone"]
        for record, (_, *given) in zip(found, kept, strict=True):
            fields = unpack(record.payload).fields
            drawn = given[1] if len(given) > 1 else given[0]
            assert {name: fields[name] for name in drawn} == drawn
            assert fields.get("limit") == limit
        assert len(found) == len(expected)
        files, others = (written.close() for written in both)
        assert files == others
        assert both[1].journal.direct.count == 0


def test_usual_records_are_written_by_the_kernel(tmp_path):
    written = Written(tmp_path / "log", True, segment_bytes=1 << 20)
    usual = [
        ("epoch", INTEGERS, PLAIN), ("epoch", TEXTS, PLAIN), ("epoch", [], PLAIN),
        ("events", TEXTS, {"stream": "http://ex/s", "given": 1}, [5], None),
        (Kind.ADVANCE, {"to": 5, "stream": None, "end": False}), (Kind.SLIDE, {"time": 7}),
    ]  # fmt: skip
    written.make(0, usual[0], "kept")  # reserves room
    counts = []
    for epoch, call in enumerate(usual, 1):
        written.make(epoch, call, "kept")
        counts.append(written.journal.direct.count)
    assert counts == [1, 2, 3, 4, 5, 6]
    for call, how in (
        (usual[0], "noted"), (("epoch", [(1, LONG, 1, 2)], PLAIN), "kept"),
        (("events", TEXTS, {"stream": None, "given": 1}, [5], "ids"), "kept"),
        (("events", TEXTS, {"stream": "s" * 900, "given": 1}, [5], None), "kept"),
    ):  # fmt: skip
        written.make(9, call, how)
    assert written.journal.direct.count == 6
    written.make(9, usual[0], "undone")  # gives back the room
    written.make(9, usual[0], "kept")
    written.make(9, usual[0], "kept")
    assert written.journal.direct.count == 8
    assert len(list(written.log.read())) == 13
    written.close()


def test_the_memory_of_many_rows_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("triegs.durable.journal.MOST_ROWS", 1)
    both = [Written(tmp_path / str(is_direct), is_direct) for is_direct in (True, False)]
    for epoch, size in enumerate([1, 500, 1, 1, 2, 1]):
        drawn = [(1, number, 2, 3) for number in range(size)]
        for written in both:
            written.make(epoch, ("epoch", drawn, PLAIN), "kept")
    assert len(both[0].journal.direct._buffer) < 500
    assert both[0].journal.direct.count == 2
    assert both[0].close() == both[1].close()


class Spy:
    """What the kernel returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[int] = []
        write: Callable[..., int] = vars(direct)["write_record"]

        def watched(*arguments: Any) -> int:
            self.found.append(write(*arguments))
            return self.found[-1]

        monkeypatch.setattr(direct, "write_record", watched)


def make_updates(first: int, count: int) -> list[tuple[Any, ...]]:
    return [("+", first + number, "<a:p>", f"<a:{number}>") for number in range(count)]


@pytest.mark.parametrize("sync", ["always", "1ms", "never"])
def test_a_file_that_may_not_grow(sync, tmp_path, monkeypatch):
    """The kernel writes a part of a record, which is removed, and the call changes nothing."""
    spy = Spy(monkeypatch)
    with Engine.open(tmp_path / "state", sync=sync) as engine:
        query = engine.register("SELECT ?x ?y { ?x <a:p> ?y }", "all")
        for number in range(0, 50, 10):
            engine.apply(make_updates(number, 10))
        (path,) = (tmp_path / "state" / "log").iterdir()
        before, epoch = path.read_bytes(), engine.epoch
        with room(len(before) + 100), pytest.raises(LogFailed, match="File too large"):
            engine.apply(make_updates(50, 10))
        assert spy.found[-1] == TORN
        assert max(spy.found) > 0
        assert engine.epoch == epoch
        assert path.read_bytes()[: len(before)] == before
        engine.apply(make_updates(50, 20))
        with query.snapshot() as snapshot:
            seen = sorted(map(str, snapshot))
        assert len(seen) == 70
    with Engine.open(tmp_path / "state") as engine:
        assert engine.recovery is not None
        assert engine.recovery.cut is None
        with engine.queries["all"].snapshot() as snapshot:
            assert sorted(map(str, snapshot)) == seen


class OtherFile(DiskFile):
    """A file whose descriptor is that of another one."""

    other = -1

    @property
    def number(self) -> int:
        return self.other


class OtherFiles(DiskFiles):
    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDWR)

    def open(self, path: Path) -> OtherFile:
        file = OtherFile(path)
        file.other = self.number
        return file


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_an_error_is_left_to_the_general_way(tmp_path, monkeypatch):
    spy = Spy(monkeypatch)
    files = OtherFiles("/dev/full")
    refused = Written(tmp_path / "refused", True, files=files)
    plain = Written(tmp_path / "plain", False)
    for epoch in range(5):
        for written in (refused, plain):
            written.make(epoch, ("epoch", TEXTS, PLAIN), "kept")
    assert spy.found == [DECLINED, TORN, TORN, TORN, TORN]  # first, no room is reserved
    assert refused.journal.direct.count == 0
    assert refused.close() == plain.close()
    os.close(files.number)


def test_a_log_that_is_synced_meanwhile(tmp_path):
    """Marks, which another thread writes, and records of a kernel do not overwrite each other."""
    with Engine.open(tmp_path / "state", sync=0.1) as engine:
        engine.register("SELECT ?x ?y { ?x <a:p> ?y }", "all")
        journal, syncs, number = engine._internals.journal, 0, 0
        assert journal is not None
        while journal.direct.count < 300 or syncs < 5:
            engine.apply(make_updates(number, 3))
            number += 1
            syncs = engine.metrics()["durable"]["syncs"]
        seen = engine.metrics()["updates"], engine.epoch
    with Engine.open(tmp_path / "state") as engine:
        assert engine.recovery is not None
        assert engine.recovery.cut is None
        assert (engine.metrics()["updates"], engine.epoch) == seen


#: Updates a directory, and tells after each call how many updates there were; dies when a kernel
#: has written so many records, before the log has noted the last one.
PROGRAM = """
import os, signal, sys
from triegs import Engine
from triegs.durable.files import DiskFile

left, follow = int(sys.argv[2]), DiskFile.follow

def follow_or_die(file, written):
    global left
    left -= sys._getframe(1).f_code.co_name == "append_directly"
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    follow(file, written)

DiskFile.follow = follow_or_die
with Engine.open(sys.argv[1], sync="5ms") as engine:
    while True:
        first = engine.metrics()["updates"]
        engine.apply([("+", first + number, "<a:p>", f"<a:{first}>") for number in range(3)])
        print(first + 3, flush=True)
"""


def test_a_process_that_is_killed_loses_no_record_of_the_kernel(tmp_path):
    for calls, left in ((50, -1), (1000, 40), (200, -1)):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "state"), str(left)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            told = list(islice(process.stdout, calls))
            process.kill()
            told += process.stdout
        assert process.returncode == -signal.SIGKILL
        assert (len(told) < calls) == (left > 0)
        with Engine.open(tmp_path / "state") as engine:
            found = engine.metrics()["updates"]
            # A call that had not returned is complete or absent.
            assert found - int(told[-1]) == 3 if left > 0 else found - int(told[-1]) in (0, 3)
            assert engine.recovery is not None
            assert left < 0 or engine.recovery.cut is None


@short_kernel
def call_checksum(told: Words) -> int:
    return checksum_bytes(load(told, 0), load(told, 1), load(told, 2))


@pytest.mark.property
@given(st.binary(min_size=24, max_size=600), st.integers(0, 2**32 - 1), st.integers(0, 3))
@example(b"\0" * 64, 0, 0)
@example(b"\xff" * 600, 0, 1)
def test_the_checksum_is_that_of_zlib(data, seed, words):
    content = np.frombuffer(data[: len(data) // 8 * 8], np.uint8) ^ np.uint8(seed & 255)
    start = min(8 * words, len(content) - 16)
    told = np.array([find_checksum(), content.ctypes.data + start, len(content) - start], np.int64)
    assert call_checksum(told) == zlib.crc32(content[start:].tobytes())


def test_long_checksums():
    content = np.random.default_rng(1).integers(0, 256, 40_000, np.uint8)
    for size in (*range(16, 400, 8), 13_808, 40_000):
        told = np.array([find_checksum(), content.ctypes.data, size], np.int64)
        assert call_checksum(told) == zlib.crc32(content[:size].tobytes())


@pytest.mark.property
@given(st.lists(NUMBERS | st.sampled_from([0, 9, 10, 99, -9, -10]), max_size=5))
def test_numbers_in_a_template(numbers):
    told = np.zeros(RECORD_WORDS, np.int64)
    told[: len(numbers)] = numbers
    template = "".join(f"<{chr(place)}>" for place in range(len(numbers))).encode()
    out = np.zeros(500, np.uint8)
    end = write_text(told, np.frombuffer(bytearray(template), np.uint8), 0, len(template), out, 0)
    assert out[:end].tobytes().decode() == "".join(f"<{number}>" for number in numbers)


def test_what_the_kernel_needs_is_found():
    assert find_write() != 0
    assert LENGTH < CODES <= ord(" ")
