"""``triegs check``: what is whole, what is damaged, what is recoverable; nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from triegs import Engine
from triegs.cli.app import app
from triegs.durable.inspection import find_owner
from triegs.engine.directories import inspect
from triegs.errors import StateError

QUERY = "SELECT ?x ?y { ?x <a:p> ?y }"


def check(directory: Path, *arguments: str, code: int = 0) -> Result:
    before = read_all(directory)
    done = CliRunner().invoke(app, ["check", str(directory), *arguments])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    assert read_all(directory) == before
    return done


def read_all(directory: Path) -> dict[str, bytes]:
    paths = directory.rglob("*") if directory.is_dir() else ()
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in paths}


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    path.write_bytes(data)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two checkpoints and some records after each, in three segments."""
    directory = tmp_path / "state"
    with Engine.open(directory, sync="never") as engine:
        engine.register(QUERY, name="all")
        for number in range(9):
            engine.apply([("+", number, "<a:p>", number)])
            if number in (2, 5):
                engine.checkpoint()
    return directory


def list_files(state: Path, folder: str) -> list[Path]:
    return sorted((state / folder).iterdir())


def test_all_is_good(state):
    done = check(state)
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[:-2]] == ["good"] * 5
    assert lines[-1] == "good: restores epoch 10, up to record 10, with 1 query"
    (state / "lock").unlink()
    check(state)


def test_for_machines(state):
    found = json.loads(check(state, "--json").stdout)
    assert (found["good"], found["owner"], found["problem"]) == (True, None, None)
    assert found["restored"] == {
        "record": 10, "epoch": 10, "checkpoint": 7, "replayed": 3, "queries": ["all"],
            "lost_queries": {},
    }  # fmt: skip
    assert {part["state"] for part in found["parts"]} == {"good"}


def test_a_torn_tail_is_no_damage_and_is_not_cut_here(state):
    segment = list_files(state, "log")[-1]
    with segment.open("ab") as file:
        file.write(b"\xabtgRhalf")
    done = check(state)
    assert "torn" in done.stdout
    assert "8 bytes at" in done.stdout
    assert "restores epoch 10" in done.stdout


def test_an_unfinished_checkpoint_is_no_damage(state):
    (state / "checkpoints" / f"{9:020}.unfinished").write_bytes(b"begun")
    assert "unfinished" in check(state).stdout


@pytest.mark.parametrize("part", range(12))
def test_flipped_bits_in_the_log(state, part):
    path = list_files(state, "log")[-1]
    flip(path, path.stat().st_size * part // 12)
    done = check(state, code=1)
    assert "damaged: " in done.stdout
    assert path.name in done.stdout


@pytest.mark.parametrize("part", range(12))
def test_flipped_bits_in_the_newest_checkpoint_lose_nothing(state, part):
    path = list_files(state, "checkpoints")[-1]
    flip(path, path.stat().st_size * part // 12)
    done = check(state, code=1)
    assert "damaged, but nothing is lost: restores epoch 10" in done.stdout


def test_flipped_bits_in_the_settings(state):
    flip(state / "engine.json", 40)
    assert "engine.json" in check(state, code=1).stdout.splitlines()[-2]


def test_what_is_intact_before_the_damage_is_reported(state):
    path = list_files(state, "log")[-1]
    flip(path, path.stat().st_size // 2)
    done = check(state, code=1)
    assert "intact before the damage: epoch 8, up to record 8, with 1 query" in done.stdout


@pytest.mark.parametrize("missing", ["engine.json", "log", "checkpoints"])
def test_missing_files(state, missing):
    path = state / missing
    for each in [path] if path.is_file() else list_files(state, missing):
        each.unlink()
    assert "damaged: " in check(state, code=1).stdout


def test_a_missing_segment_in_the_middle(state):
    list_files(state, "log")[0].unlink()
    check(state)  # the newest checkpoint has what was in it
    list_files(state, "checkpoints")[-1].unlink()
    assert "needed and gone" in check(state, code=1).stdout


def test_no_engine(tmp_path):
    assert "there is no engine in" in check(tmp_path, code=2).stderr
    assert "is not there" in check(tmp_path / "nowhere", code=2).stderr
    (tmp_path / "file").write_text("")
    assert "is not a directory" in check(tmp_path / "file", code=2).stderr
    with pytest.raises(StateError):
        inspect(tmp_path)


def test_a_directory_that_is_open(state):
    with Engine.open(state) as engine:
        owner = find_owner(state)
        done: Any = check(state)
        assert done.stdout.splitlines()[-1] == (
            f"in use by {owner}: checked the files only; no file is damaged"
        )
        engine.apply([("+", 1, "<a:p>", 1)])
        engine.sync()  # or the log is written to while it is checked
        flip(list_files(state, "checkpoints")[-1], 100)
        assert "a file is damaged" in check(state, code=1).stdout
    assert find_owner(state) is None
