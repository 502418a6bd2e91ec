"""Directories that hold no engine, cannot be written, or have another owner."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.durable.disk import read_all

from triegs import (
    DirectoryInUse,
    Engine,
    LogFailed,
    StateError,
    TriegsError,
)
from triegs.durable import opening
from triegs.durable.files import DiskFiles

# Directories that have no engine


def test_an_empty_directory_and_one_that_is_not_there(tmp_path):
    for directory in (tmp_path, tmp_path / "a" / "b"):
        with Engine.open(directory) as engine:
            assert engine.epoch == 0
            assert engine.recovery is not None
            assert engine.recovery.cut is None


def test_a_directory_that_is_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    for place in (path, path / "below"):
        with pytest.raises(StateError, match=f"the engine in {place} cannot be opened"):
            Engine.open(place)
    assert path.read_text() == "text"


@pytest.mark.parametrize("name", ["engine.json", "log", "checkpoints", "lock"])
def test_a_file_that_is_a_directory_or_the_other_way(tmp_path, name):
    with Engine.open(tmp_path) as engine:
        engine.apply([("+", 1, "<a:p>", 2)])
        engine.checkpoint()
    path = tmp_path / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("")
    else:
        path.unlink()
        path.mkdir()
    with pytest.raises(TriegsError, match=str(path)):
        Engine.open(tmp_path)


class ReadOnly(DiskFiles):
    """A disk that takes nothing, as the system says it of one without permission."""

    def __init__(self, number: int) -> None:
        self._number = number

    def _refuse(self, path: Path) -> Any:
        raise OSError(self._number, os.strerror(self._number), str(path))

    def make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._refuse(folder)

    def open(self, path: Path) -> Any:
        self._refuse(path)

    def remove(self, path: Path) -> None:
        self._refuse(path)

    def replace(self, source: Path, target: Path) -> None:
        self._refuse(target)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_read_only_directory(tmp_path, number, is_new):
    if not is_new:
        with Engine.open(tmp_path) as engine:
            engine.apply([("+", 1, "<a:p>", 2)])
    before = read_all(tmp_path)
    settings = opening.Settings(None, None, None)
    with pytest.raises((LogFailed, StateError), match=str(tmp_path)) as problem:
        Engine._open(tmp_path, settings, ReadOnly(number), "never", None)
    assert os.strerror(number) in str(problem.value)
    assert read_all(tmp_path) == before
    with Engine.open(tmp_path) as engine:
        assert engine.epoch == (0 if is_new else 1)


def test_a_lock_that_cannot_be_made(tmp_path, monkeypatch):
    def refuse(path: Any, *_: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(StateError, match=r"cannot be opened: .*Read-only.*lock"):
            Engine.open(tmp_path)


# Owners


def test_a_second_owner_in_this_process(tmp_path):
    with Engine.open(tmp_path) as engine:
        with pytest.raises(DirectoryInUse, match=f"process {os.getpid()} on"):
            Engine.open(tmp_path)
        engine.apply([("+", 1, "<a:p>", 2)])
    with Engine.open(tmp_path) as engine:
        assert engine.epoch == 1


OWNER = """
import sys
from triegs import Engine
engine = Engine.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_owner_elsewhere(tmp_path):
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(DirectoryInUse, match=f"process {owner.pid} on"):
            Engine.open(tmp_path)
        owner.kill()
        owner.wait()
        # The lock ends with the process.
        with Engine.open(tmp_path) as engine:
            assert engine.epoch == 0
