"""``triegs backup``: a copy that opens, of a directory that is closed or in use."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from threading import Thread

import pytest
from tests.durable.test_check import flip, list_files
from tests.durable.test_check import state as state  # noqa: PLC0414
from typer.testing import CliRunner, Result

from triegs import Engine, StateDamaged
from triegs.cli.app import app
from triegs.durable import backup as backups
from triegs.errors import StateError

QUERY = "SELECT ?x ?y { ?x <a:p> ?y }"


def back_up(source: Path, target: Path, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["backup", str(source), str(target)])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def test_a_copy_has_the_newest_checkpoint_and_the_log_after_it(state, tmp_path):
    copy = tmp_path / "copy"
    done = back_up(state, copy)
    assert done.stdout.startswith(
        f"copied {state} to {copy}: the checkpoint of record 7 and the log up to record 10, "
    )
    assert done.stdout.endswith("good: restores epoch 10, up to record 10, with 1 query\n")
    assert [path.name for path in sorted(copy.iterdir())] == ["checkpoints", "engine.json", "log"]
    assert len(list_files(copy, "checkpoints")) == 1
    with Engine.open(copy) as engine, engine.queries["all"].snapshot() as snapshot:
        assert len(snapshot) == 9


def test_nothing_is_overwritten(state, tmp_path):
    (tmp_path / "copy").mkdir()
    assert "already exists" in back_up(state, tmp_path / "copy", code=2).stderr
    (tmp_path / "other.unfinished").mkdir()
    assert "perhaps from an interrupted copy" in " ".join(
        back_up(state, tmp_path / "other", code=2).stderr.split()
    )
    for source, said in (
        (tmp_path, "there is no engine"),
        (tmp_path / "gone", "is not there"),
        (state / "engine.json", "is not a directory"),
    ):
        stderr = back_up(source, tmp_path / "third", code=2).stderr
        assert "Invalid value for DIR: " in stderr
        assert said in " ".join(stderr.split())
    assert not (tmp_path / "third").exists()


def test_a_torn_tail_is_not_copied(state, tmp_path):
    segment = list_files(state, "log")[-1]
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(b"\xabtgRhalf")
    back_up(state, tmp_path / "copy")
    assert (tmp_path / "copy" / "log" / segment.name).stat().st_size == size


def test_what_is_damaged_is_not_copied(state, tmp_path):
    flip(list_files(state, "checkpoints")[-1], 50)
    back_up(state, tmp_path / "older")  # from the checkpoint before
    path = list_files(state, "log")[-1]
    flip(path, path.stat().st_size // 2)
    assert path.name in back_up(state, tmp_path / "copy", code=1).stderr
    assert [each.name for each in tmp_path.iterdir() if "copy" in each.name] == []


def test_copies_of_a_directory_that_is_in_use(tmp_path):
    """Each is a state that the engine went through."""
    source = tmp_path / "state"
    with Engine.open(source, sync="never", checkpoint_bytes=2_000) as engine:
        engine.register(QUERY, name="all")
        copies = [tmp_path / f"copy{number}" for number in range(4)]
        thread = Thread(target=lambda: deque(map(engine.backup, copies), maxlen=0))
        thread.start()
        number = 0
        while thread.is_alive():
            number += 1
            engine.apply([("+", number, "<a:p>", number)])
        thread.join()
    seen = []
    for copy in copies:
        with Engine.open(copy, sync="never") as other:
            with other.queries["all"].snapshot() as snapshot:
                rows = sorted(row.x for row in snapshot.answers("python"))
            assert rows == list(range(1, other.epoch))
            seen.append(other.epoch)
    assert seen == sorted(seen)


def test_what_is_removed_meanwhile_is_tried_again(state, tmp_path, monkeypatch):
    copy, calls = backups._copy, []

    def fail_first(*arguments):
        calls.append(arguments)
        if len(calls) < 3:
            raise FileNotFoundError
        return copy(*arguments)

    monkeypatch.setattr(backups, "_copy", fail_first)
    back_up(state, tmp_path / "copy")
    calls.clear()
    monkeypatch.setattr(backups, "TRIES", 2)
    assert "try again" in back_up(state, tmp_path / "other", code=2).stderr


def test_an_engine_without_a_directory_has_no_copy(tmp_path):
    with Engine() as engine, pytest.raises(StateError, match="has no directory"):
        engine.backup(tmp_path / "copy")
    assert issubclass(StateDamaged, Exception)
