"""Checkpoints in the background, while epochs are made and readers hold snapshots."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.durable.play import PLAIN, draw_edge, look

from triegs import Engine, Window
from triegs.durable import opening
from triegs.durable.checkpoints import Checkpoints
from triegs.durable.files import DiskFile, DiskFiles

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")


class SlowFiles(DiskFiles):
    """A disk on which a checkpoint is written only while it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.began = threading.Event()

    def open(self, path: Path) -> DiskFile:
        if path.parent.name == "checkpoints":
            self.began.set()
            assert self.may.wait(60)
        return super().open(path)


def open_on(files: DiskFiles, directory: Path, least: int | None = None, **given: Any) -> Engine:
    settings = opening.Settings(None, given.pop("window", None), None)
    return Engine._open(directory, settings, files, "never", least, **given)


def test_a_checkpoint_has_what_was_true_when_it_began(tmp_path):
    files = SlowFiles()
    directory = tmp_path / "engine"
    engine = open_on(files, directory, 1)
    query = engine.register(PLAIN["all"], "all")
    engine.note({"step": 0})
    engine.apply([("+", 1, "<a:p>", 2)])
    assert files.began.wait(60)
    seen = look(engine)
    # It follows the first of these records; more follow before a byte of it is written.
    keeper = engine._internals.checkpoint_manager
    assert keeper is not None
    for number in range(1, 20):
        engine.note({"step": number, f"more {number}": number})
        engine.apply([("+", number, f"<a:{number}>", f'"text {number}"'), ("-", 1, "<a:p>", 2)])
    query.close()
    files.may.set()
    keeper.wait()
    checkpoints = Checkpoints(files, directory / "checkpoints")
    sequence = checkpoints.list()[0]
    # As after a power failure that leaves the checkpoint and no record after it.
    shutil.copytree(directory, tmp_path / "copy")
    for path in (tmp_path / "copy" / "log").iterdir():
        if int(path.stem) == sequence + 1:
            path.write_bytes(path.read_bytes()[:24])
        elif int(path.stem) > sequence:
            path.unlink()
    with Engine.open(tmp_path / "copy") as again:
        assert again.epoch <= seen[0]
        step = again.positions.get("step", -1)
        assert step <= 0
        assert [name for name in again.positions if name.startswith("more")] == []
        assert again.epoch == step + 2
    engine.close()


def test_what_a_window_has_yet_to_remove_is_unchanged(tmp_path):
    """An event was deleted, and one of two windows still shows it until its next slide."""
    files = SlowFiles()
    directory = tmp_path / "engine"
    engine = open_on(files, directory)
    for name, slide in (("quick", 5), ("slow", 20)):
        engine.register("SELECT ?x { ?x <a:p> ?y }", name, window=Window(40, slide))
    engine.push(
        [(1, 1, "<a:p>", 1, "+", "e1"), (21, 2, "<a:p>", 1), (22, 1, "<a:p>", 1, "-", "e1")]
    )
    engine.advance(25)
    seen = look(engine)
    keeper = engine._internals.checkpoint_manager
    assert keeper is not None
    keeper.begin()
    assert files.began.wait(60)
    engine.advance(40)
    end = look(engine)
    files.may.set()
    keeper.finish()
    engine.close()
    with Engine.open(directory) as again:
        assert look(again) == end
    # Without what came after the checkpoint.
    (newest,) = [p for p in (directory / "log").iterdir() if int(p.stem) > 1]
    newest.write_bytes(newest.read_bytes()[:24])
    with Engine.open(directory) as again:
        assert look(again) == seen
        again.advance(40)
        assert look(again) == end


@pytest.mark.parametrize("seed", range(10 if SOAK else 1))
@pytest.mark.parametrize("window", [None, Window(20, 10)], ids=["plain", "windowed"])
def test_updates_readers_and_checkpoints_at_once(tmp_path, seed, window):
    random = Random(seed)
    directory = tmp_path / "engine"
    engine = open_on(DiskFiles(), directory, 3000, window=window, segment_bytes=2000)
    query = engine.register(PLAIN["path"], "path")
    engine.register(PLAIN["all"], "all")
    stop = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                with query.snapshot() as snapshot:
                    first = {tuple(row): row.multiplicity for row in snapshot}
                    assert {tuple(row): row.multiplicity for row in snapshot} == first
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    checkpoints = copies = 0
    live: list[Any] = []
    try:
        for number in range(160):
            added = [draw_edge(random) for _ in range(6)] + [(number, "<http://ex/p>", -number)]
            gone = [live.pop(random.randrange(len(live))) for _ in range(min(len(live), 5))]
            live += added
            engine.note({"step": number})
            if window is not None:
                engine.push([(number, *edge) for edge in added])
                engine.advance()
            engine.apply([*(("+", *edge) for edge in added), *(("-", *edge) for edge in gone)])
            done = engine.metrics()["durable"]["checkpoints"]
            if done > checkpoints:
                checkpoints = done
                copies += 1
                copy_and_compare(engine, directory, tmp_path / "copy", number)
            if random.random() < 0.02:
                engine.checkpoint()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert problems == []
    assert copies > 3
    keeper = engine._internals.checkpoint_manager
    assert keeper is not None
    keeper.wait()
    engine.apply([("-", *edge) for edge in live])
    if window is not None:
        engine.close_stream()
    engine.checkpoint()
    # Nothing is held by a checkpoint that was written.
    figures = engine.metrics()
    assert figures["held_epochs"] == 0
    assert figures["retained_bytes"] == 0
    assert figures["durable"]["checkpoint_error"] is None
    if window is None:
        engine._internals.free_terms()
        constants = 2
        assert engine.metrics()["terms"]["live"] == constants
    engine.close()


def copy_and_compare(engine: Engine, directory: Path, copy: Path, number: int) -> None:
    """A copy of the directory between two updates opens to the state."""
    keeper = engine._internals.checkpoint_manager
    assert keeper is not None
    keeper.wait()  # a copy is no snapshot of a folder in which files are removed
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    with Engine.open(copy, sync="never") as again:
        assert again.positions["step"] == number
        assert look(again) == look(engine)
        figures = again.metrics()
        assert figures["retained_bytes"] == 0
        # What the log had defined is released, except what is still named.
        again._internals.free_terms()
        engine._internals.free_terms()
        assert again.metrics()["terms"]["live"] == engine.metrics()["terms"]["live"]
