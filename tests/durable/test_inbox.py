"""Batches that other processes commit: each is taken once, whatever happens."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from triegs import Engine, StateError, Window
from triegs.durable.inbox import commit_batch

QUERY = "SELECT ?x { ?x <a:p> ?y }"


def make_table(*numbers, **more):
    rows = [{"subject": n, "predicate": "<a:p>", "object": 0, **more} for n in numbers]
    return pa.Table.from_pylist(rows)


def read(engine):
    with engine.queries["all"].snapshot() as snapshot:
        return {row.x: row.multiplicity for row in snapshot.answers("python")}


@pytest.fixture
def home(tmp_path):
    with Engine.open(tmp_path / "engine") as engine:
        engine.register(QUERY, name="all")
    return tmp_path / "engine"


def test_batches_are_taken_in_order_and_once(home):
    for number in (3, 1, 2):
        assert commit_batch(home, make_table(number), "feed", number)
    assert not commit_batch(home, make_table(9), "feed", 3)
    commit_batch(home, make_table(7), "another", 1)
    with Engine.open(home) as engine:
        taken = engine.take_inbox()
        assert [(each.source, each.number) for each in taken] == [
            ("another", 1), ("feed", 1), ("feed", 2), ("feed", 3),
        ]  # fmt: skip
        assert engine.take_inbox() == []
        commit_batch(home, make_table(2), "feed", 2)
        assert engine.take_inbox() == []
        assert read(engine) == {1: 1, 2: 1, 3: 1, 7: 1}
        taken[-1].outcome.wait_durable()
        engine.take_inbox()
        assert list((home / "inbox").iterdir()) == []


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_batch_is_not_taken_again_by_the_next_process(home, tmp_path, is_synced):
    commit_batch(home, make_table(1), "feed", 1)
    with Engine.open(home, sync="never") as engine:
        engine.take_inbox()
        if is_synced:
            engine.checkpoint()
        # As a process would leave it that is killed here.
        shutil.copytree(home, tmp_path / "copy")
        assert len(list((home / "inbox").glob("*.batch"))) == 1
    with Engine.open(tmp_path / "copy") as engine:
        assert read(engine) == {1: 1}
        assert engine.take_inbox() == []
        assert list((tmp_path / "copy" / "inbox").iterdir()) == []
        assert read(engine) == {1: 1}


def test_a_batch_whose_epoch_is_lost_is_taken_again(home, tmp_path):
    commit_batch(home, make_table(1), "feed", 1)
    shutil.copytree(home, tmp_path / "before")
    with Engine.open(home, sync="never") as engine:
        engine.take_inbox()
        # The log as it was, because nothing was synced; the file is still there.
        shutil.copytree(home / "inbox", tmp_path / "before" / "inbox", dirs_exist_ok=True)
    with Engine.open(tmp_path / "before") as engine:
        assert len(engine.take_inbox()) == 1
        assert read(engine) == {1: 1}


def test_timed_batches_are_pushed(tmp_path):
    with Engine.open(tmp_path, window=Window(10, 5, stream="http://ex/s")) as engine:
        engine.register(QUERY, name="all")
        commit_batch(tmp_path, make_table(1, time=3), "feed", 1, stream="http://ex/s")
        [taken] = engine.take_inbox()
        assert taken.outcome.accepted == 1
        engine.advance(5)
        assert read(engine) == {1: 1}


def test_what_is_no_batch_is_renamed_and_reported(home):
    inbox = home / "inbox"
    (inbox / f"feed@{1:020}.batch").write_bytes(b"no table")
    commit_batch(home, pa.table({"subject": [1]}), "feed", 2)
    commit_batch(home, make_table(3), "feed", 3)
    (inbox / "notes.txt").write_text("not ours")
    with Engine.open(home) as engine:
        taken = engine.take_inbox()
        assert [each.problem is None for each in taken] == [False, False, True]
        assert "not a batch" in (taken[0].problem or "")
        assert "predicate" in (taken[1].problem or "")
        assert read(engine) == {3: 1}
        assert sorted(path.suffix for path in inbox.iterdir() if "@" in path.name)[-2:] == [
            ".rejected", ".rejected",
        ]  # fmt: skip


def test_bad_calls(home):
    with pytest.raises(ValueError, match="a source name has only letters"):
        commit_batch(home, make_table(1), "a/b", 1)
    with pytest.raises(StateError, match="no directory"):
        Engine().take_inbox()
