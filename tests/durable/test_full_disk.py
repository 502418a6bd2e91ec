"""A full disk: one clear message, nothing half done, and the next attempt resumes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.durable.disk import Fault, PowerDisk, room
from typer.testing import CliRunner, Result

from triegs import CannotWrite, Engine, LogFailed, StateError
from triegs.cli.app import app
from triegs.durable import backup, inbox, opening
from triegs.durable.files import DiskFiles
from triegs.durable.inbox import Inbox, commit_batch
from triegs.events import lines, open_input
from triegs.events.quarantine_file import QuarantineFile
from triegs.outputs import sinks

LIKES = "likes=SELECT ?x ?y { ?x <a:likes> ?y }"
SHAPES = {
    "epochs": ["--emit", "both"],
    "slides": ["--window", "8", "--slide", "4", "--emit", "changes"],
}
needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")


def call(*arguments: Any, size: int | None = None) -> Result:
    with room(size):
        return CliRunner().invoke(app, list(map(str, arguments)))


def write_events(path: Path) -> None:
    """Good ones, malformed ones, and deletions that find nothing."""
    rows = []
    for number in range(120):
        subject = f"nobody {number}" if number % 5 == 4 else f"<a:{number % 23}>"
        sign = "-" if number % 7 == 3 else "+"
        rows.append(f"{number // 3},{sign},{subject},<a:likes>,<a:{number % 11}>\n")
    path.write_text("time,op,subject,predicate,object\n" + "".join(rows))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setitem(open_input.__kwdefaults__, "batch_rows", 10)
    monkeypatch.setattr(lines, "LEAST_BYTES", 64)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_resumes_after_every_refused_write(shape, tmp_path, monkeypatch):
    events = tmp_path / "events.csv"
    write_events(events)

    def run(name: str, size: int | None = None) -> Result:
        home = tmp_path / name
        return call(
            "run", LIKES, "-i", events, *SHAPES[shape], "--state", home / "state",
            "--output", home / "out.csv", "--quarantine", home / "aside.jsonl", size=size,
        )  # fmt: skip

    (tmp_path / "whole").mkdir()
    (tmp_path / "full").mkdir()
    assert run("whole").exit_code == 0
    for owner, method in ((sinks._Sink, "flush"), (QuarantineFile, "flush")):
        calls = iter([True, True, False])
        flush = getattr(owner, method)

        def refuse(this: Any, calls: Any = calls, flush: Any = flush) -> None:
            if not next(calls, True):
                raise CannotWrite("no room")
            flush(this)

        with monkeypatch.context() as patch:
            patch.setattr(owner, method, refuse)
            done = run("full")
        assert (done.exit_code, done.stderr) == (1, "error: no room\n")
    said = set()
    for size in (700, 900, 1_200, 1_700, 2_500, 4_000, 6_000, 9_000, 13_000):
        done = run("full", size)
        if done.exit_code == 0:
            break
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1), (done.stderr, done.exception)
        assert done.stderr.startswith("error: ")
        assert "File too large" in done.stderr
        said |= {word for word in ("out.csv", "aside.jsonl", "/log") if word in done.stderr}
    assert said
    assert run("full").exit_code == 0
    for name in ("out.csv", "aside.jsonl"):
        found, expected = (
            (tmp_path / folder / name).read_text().splitlines() for folder in ("full", "whole")
        )
        if name == "out.csv":
            assert found == expected
        else:
            # Those of the current batch may appear twice; refusals of the last epoch may not.
            assert {json.loads(line)["record"] for line in found} >= {
                json.loads(line)["record"] for line in expected if "line" in json.loads(line)
            }


@needs_full_device
@pytest.mark.parametrize(
    ("form", "every"),
    [
        *((form, "epoch") for form in ("table", "csv", "jsonl", "arrow", "parquet")),
        *((form, "end") for form in ("csv", "parquet", "srj", "srx", "sparql-csv", "sparql-tsv")),
    ],
)
def test_results_in_every_format(form, every, tmp_path):
    write_events(tmp_path / "events.csv")
    done = call(
        "run", LIKES, "-i", tmp_path / "events.csv", "--output", "/dev/full", "--format", form,
        "--every", every,
    )  # fmt: skip
    assert done.exit_code == 1
    assert done.stderr == "error: cannot write /dev/full: No space left on device\n"


@needs_full_device
def test_a_quarantine(tmp_path):
    write_events(tmp_path / "events.csv")
    done = call("run", LIKES, "-i", tmp_path / "events.csv", "--quarantine", "/dev/full")
    assert done.exit_code == 1
    assert done.stderr == "error: cannot write /dev/full: No space left on device\n"


def test_quarantined_lines_stay_complete(tmp_path):
    path = tmp_path / "aside"
    path.write_text("first\nhalf of a l")
    file = QuarantineFile(path, append=True)
    file.write("sec")
    file.write("ond\n")
    file.flush()
    file.write("x" * 100 + "\n")
    with room(50), pytest.raises(CannotWrite, match=r"cannot write .*aside: File too large"):
        file.flush()
    file.write("third\n")
    file.close()
    file.close()
    assert path.read_text() == "first\nsecond\nthird\n"
    path.write_text("no line at all")
    QuarantineFile(path, append=True).close()
    assert path.read_text() == ""


class Refusing(DiskFiles):
    """A disk that refuses its n-th operation of those that write."""

    left = 0

    def refuse(self) -> None:
        Refusing.left -= 1
        if Refusing.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: Path) -> Any:
        self.refuse()
        file: Any = super().open(path)
        write = file.write

        def written(parts: Any) -> None:
            self.refuse()
            write(parts)

        file.write = written
        return file

    def replace(self, source: Path, target: Path) -> None:
        self.refuse()
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        self.refuse()
        super().sync_folder(folder)


def test_a_backup_leaves_nothing_behind(tmp_path, monkeypatch):
    with Engine.open(tmp_path / "state") as engine:
        engine.register("SELECT ?x { ?x <a:p> ?y }", "all")
        engine.apply([("+", 1, "<a:p>", 2)])
        engine.checkpoint()
        engine.apply([("+", 2, "<a:p>", 2)])
        monkeypatch.setattr(backup, "DiskFiles", Refusing)
        for number in range(100):
            Refusing.left = number
            before = sorted(each.name for each in tmp_path.iterdir())
            try:
                engine.backup(tmp_path / "copy")
            except StateError as problem:
                said = str(problem)
            else:
                break
            assert "copy was not written: [Errno 28] No space left on device" in said
            assert sorted(each.name for each in tmp_path.iterdir()) == before == ["state"]
        assert number > 8
        monkeypatch.undo()
        assert engine.apply([]).epoch == 4
    with Engine.open(tmp_path / "copy") as copy:
        assert copy.epoch == 3


def test_the_command_says_why_a_backup_was_not_written(tmp_path):
    with Engine.open(tmp_path / "state") as engine:
        engine.apply([("+", number, "<a:p>", 2) for number in range(100)])
    done = call("backup", tmp_path / "state", tmp_path / "copy", size=100)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "copy was not written: [Errno 27] File too large" in done.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["state"]


def test_a_batch_for_the_inbox_can_be_tried_again():
    home = Path("/engine")
    table = pa.table({"subject": [1], "predicate": ["<a:p>"], "object": [2]})
    for number in range(20):
        disk = PowerDisk()
        disk.make_folder(home / inbox.FOLDER)
        disk.fail(number, Fault(errno.ENOSPC))
        try:
            commit_batch(home, table, "feed", 7, files=disk)
        except (StateError, OSError) as problem:
            said = problem
        else:
            break
        if number:  # behind the folder
            assert isinstance(said, StateError)
            assert "batch 7 of feed was not committed: [Errno 28]" in str(said)
        assert not [each for each in disk.names if each.suffix == inbox.UNFINISHED]
        commit_batch(home, table, "feed", 7, files=disk)
        (batch,) = Inbox(disk, home).list()
        assert Inbox(disk, home).read(batch)[0].num_rows == 1
    assert number > 3


@pytest.mark.parametrize("tries_again", [False, True])
def test_a_held_epoch_moves_with_what_is_noted_of_it_or_not_at_all(tries_again, monkeypatch):
    class NoLock:
        def __init__(self, _: Path) -> None:
            pass

        def close(self) -> None:
            pass

    def open_on(disk: PowerDisk) -> Engine:
        settings = opening.Settings(None, None, None)
        return Engine._open(Path("/engine"), settings, disk, "never", None)

    monkeypatch.setattr(opening, "Lock", NoLock)
    disk = PowerDisk()
    engine = open_on(disk)
    engine.register("SELECT ?x { ?x <a:p> ?y }", "all")
    engine.hold("written")
    engine.note({"written": 1}, now=True)
    engine.apply([("+", 7, "<a:p>", 1)])
    engine.release("written")
    engine.hold("written")
    disk.fail(0, Fault(errno.ENOSPC))
    with pytest.raises(LogFailed):
        engine.note({"written": 2}, now=True)
    if tries_again:
        engine.note({"written": 2}, now=True)
    engine.close()
    with open_on(disk) as engine:
        expected = 2 if tries_again else 1
        assert (engine.holds["written"], engine.positions["written"]) == (expected, expected)
        with engine.queries["all"].changes(since="written") as steps:
            assert sum(len(list(step)) for step in steps) == (0 if tries_again else 1)
