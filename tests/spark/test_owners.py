"""The directory of a sink belongs to one query of one checkpoint; conflicts are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triegs import DirectoryInUse, StateError
from triegs.errors import StateDamaged
from triegs.spark import Sink
from triegs.spark.answers import list_sinks, write_once
from triegs.spark.checks import require_outside
from triegs.spark.owners import NOTES, OWNER, Owners

ROWS = pa.table({"x": ["<a:b>"], "change": [1]})


def begin(home: Path, sinks: dict[str, Any], told: int, known: Any = ("a", "b")) -> Any:
    """One start of a pipeline without batches: the first batch of each sink."""
    owners = Owners(home, list_sinks(sinks, ["a", "b"]), known, told)
    try:
        owners.claim()
        return owners.begin(told)
    finally:
        owners.close()


def test_a_directory_stays_with_its_query(tmp_path):
    out = tmp_path / "out"
    assert begin(tmp_path / "state", {"a": out}, -1, ()) == {"a": [0]}
    write_once(out, 0, ROWS)
    assert begin(tmp_path / "state", {"a": out}, 0) == {"a": [0]}
    # The checkpoint may have moved, and the batch after the last may be written already.
    shutil.move(tmp_path / "state", tmp_path / "moved")
    write_once(out, 1, ROWS)
    assert begin(tmp_path / "moved", {"a": out}, 0) == {"a": [0]}
    assert pq.read_table(out).num_rows == 2
    assert [path.name for path in out.iterdir() if path.name[0] != "0"] == [OWNER]


@pytest.mark.parametrize(
    ("home", "name", "sink", "told", "message"),
    [
        (
            "other",
            "a",
            "{}",
            -1,
            "contains the changes of query 'a' of checkpoint .*state, so it cannot be",
        ),
        (
            "other",
            "a",
            "{}",
            5,
            "cannot be used for the changes of query 'a' of checkpoint .*other;",
        ),
        (
            "state",
            "b",
            "{}",
            0,
            "contains the changes of query 'a' .* cannot be used for the changes of query 'b'",
        ),
        ("state", "a", "snapshot", 0, "cannot be used for the snapshot of query 'a'"),
        ("state", "a", "{}", -1, "has batch 1, but the checkpoint .* has none: it was replaced"),
    ],
)
def test_another_owner_is_refused(tmp_path, home, name, sink, told, message):
    out = tmp_path / "out"
    begin(tmp_path / "state", {"a": out}, -1, ())
    for batch in range(2):
        write_once(out, batch, ROWS)
    before = (out / OWNER).read_bytes()
    with pytest.raises(StateError, match=message):
        begin(tmp_path / home, {name: Sink(out, sink) if sink == "snapshot" else out}, told)
    assert (out / OWNER).read_bytes() == before
    assert begin(tmp_path / "state", {"a": out}, 1) == {"a": [0]}


def test_nothing_is_written_unless_all_are_free(tmp_path):
    begin(tmp_path / "state", {"a": tmp_path / "out"}, -1, ())
    write_once(tmp_path / "out", 0, ROWS)
    sinks = {"a": tmp_path / "new", "b": tmp_path / "out"}
    with pytest.raises(StateError, match="a directory of its own"):
        begin(tmp_path / "other", sinks, -1, ())
    assert not (tmp_path / "new" / OWNER).exists() or not (tmp_path / "new" / OWNER).read_bytes()
    assert begin(tmp_path / "third", {"a": tmp_path / "new"}, -1, ()) == {"a": [0]}


def test_one_that_runs_keeps_its_directory(tmp_path):
    """Even against a copy of its own checkpoint, and before it has written anything."""
    running = Owners(tmp_path / "state", list_sinks({"a": tmp_path / "out"}, ["a"]), (), -1)
    running.claim()
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    for home in ("copy", "other"):
        with pytest.raises(
            DirectoryInUse,
            match=r"in use by a running pipeline for the changes of query 'a' of .*state",
        ):
            begin(tmp_path / home, {"a": tmp_path / "out"}, -1, ())
    running.close()
    # Nothing was written to it, so others may use it.
    assert begin(tmp_path / "other", {"a": tmp_path / "out"}, -1, ()) == {"a": [0]}


def test_files_without_an_owner(tmp_path):
    """From a version without owners, a checkpoint adopts only what it may have written."""
    out = tmp_path / "out"
    for batch in range(3):
        write_once(out, batch, ROWS)
    for told, known, message in [
        (-1, (), "has changes that .* did not write"),
        (1, ("b",), "has changes that .* did not write"),
        (0, ("a",), "has batch 2, but the checkpoint .* has only batches up to 0"),
    ]:
        with pytest.raises(StateError, match=message):
            begin(tmp_path / "state", {"a": out}, told, known)
    sinks: dict[str, Any] = {"a": [out, print], "b": [tmp_path / "none yet", print]}
    assert begin(tmp_path / "state", sinks, 2, ("a",)) == {"a": [0, 0], "b": [3, 3]}
    assert begin(tmp_path / "state", sinks, 5, ("a", "b")) == {"a": [0, 0], "b": [3, 3]}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "part-0.parquet").write_bytes(b"")
    with pytest.raises(StateError, match=r"belong to no batch, such as part-0\.parquet"):
        begin(tmp_path / "state", {"a": tmp_path / "mine"}, 5)
    with pytest.raises(StateError, match="is a file"):
        begin(tmp_path / "state", {"a": tmp_path / "mine" / "part-0.parquet"}, 5)


def test_a_new_sink_begins_with_the_next_batch(tmp_path):
    home, out = tmp_path / "state", tmp_path / "out"
    begin(home, {"a": out}, -1, ())
    write_once(out, 0, ROWS)
    both: dict[str, Any] = {"a": [out, tmp_path / "more", print], "b": tmp_path / "b"}
    firsts = {"a": [0, 5, 5], "b": [5]}
    assert begin(home, both, 4, ("a",)) == firsts
    assert begin(home, both, 4) == firsts  # it died before batch 5 was committed
    assert begin(home, both, 5) == firsts
    # Batch 5 was Spark's own, so it was not delivered.
    owners = Owners(home, list_sinks({"a": [out, tmp_path / "later"]}, ["a"]), ("a",), 5)
    owners.claim()
    owners.close()
    assert begin(home, {"a": [out, tmp_path / "later"]}, 6) == {"a": [0, 7]}


def test_a_sink_that_was_left_out(tmp_path):
    home, out = tmp_path / "state", tmp_path / "out"
    sinks: dict[str, Any] = {"a": [out, print]}
    begin(home, sinks, -1, ())
    write_once(out, 0, ROWS)
    for _ in range(2):
        begin(home, {}, 0)
    assert begin(home, sinks, 0) == {"a": [0, 0]}  # it has missed nothing
    begin(home, {}, 0)
    begin(home, {}, 3)  # batches ran without it
    with pytest.raises(StateError, match=r"lacks batches: the checkpoint .* without this sink"):
        begin(home, sinks, 3)
    assert begin(home, {"a": [tmp_path / "new", print]}, 3) == {"a": [4, 4]}


def test_a_query_that_was_closed_leaves_its_directory(tmp_path):
    begin(tmp_path / "state", {"a": tmp_path / "out"}, -1, ())
    write_once(tmp_path / "out", 0, ROWS)
    with pytest.raises(StateError, match="an earlier query 'a' of this checkpoint"):
        begin(tmp_path / "state", {"a": tmp_path / "out"}, 0, ("b",))


def test_a_quarantine_of_another_checkpoint(tmp_path):
    write_once(tmp_path / "quarantine", 4, ROWS)
    with pytest.raises(StateError, match=r"quarantine has batch 4, but the checkpoint .* has none"):
        begin(tmp_path, {}, -1, ())
    assert begin(tmp_path, {}, 3) == {}


def test_what_a_crash_can_leave(tmp_path):
    """A partly written owner counts as none; notes are written atomically."""
    out = tmp_path / "out"
    out.mkdir()
    (out / OWNER).write_text('{"identity": "ab')
    assert begin(tmp_path / "state", {"a": out}, -1, ()) == {"a": [0]}
    (tmp_path / "state" / f"{NOTES}.unfinished").write_text('{"iden')
    assert begin(tmp_path / "state", {"a": out}, 2) == {"a": [0]}
    assert json.loads((out / OWNER).read_bytes())["query"] == "a"
    (tmp_path / "state" / NOTES).write_text("{")
    with pytest.raises(StateDamaged, match=NOTES):
        begin(tmp_path / "state", {"a": out}, 2)


def test_sinks_that_cannot_be(tmp_path, monkeypatch):
    def refuse(problem: Any, match: str, given: Any, home: Path = tmp_path / "state") -> None:
        with pytest.raises(problem, match=match):
            require_outside(list_sinks(given, ["a", "b"]), home)

    out = tmp_path / "out"
    (tmp_path / "link").symlink_to(out)
    refuse(StateError, "is also the sink of 'a'; each sink needs", {"a": out, "b": out})
    refuse(StateError, "is also the sink of 'a'", {"a": out, "b": f"{tmp_path}/x/../out"})
    refuse(StateError, "is also the sink of 'a'", {"a": [out, Sink(tmp_path / "link", "snapshot")]})
    refuse(StateError, "of 'b' overlaps .*out, the sink of 'a'", {"a": out, "b": out / "b"})
    refuse(StateError, "overlaps the checkpoint's own files", {"a": tmp_path / "state"})
    refuse(
        StateError, "overlaps the checkpoint's own files", {"a": tmp_path / "state" / "quarantine"}
    )
    refuse(StateError, r"driver's disk, not s3://b/x; to write elsewhere", {"a": "s3://b/x"})
    refuse(StateError, r"driver's disk, not hdfs://b/x", {"b": Sink("hdfs://b/x", "snapshot")})
    refuse(TypeError, "a function or a Sink, not int", {"a": 3})
    refuse(TypeError, "a function or a Sink, not NoneType", {"a": None})
    monkeypatch.chdir(tmp_path)
    found = list_sinks({"a": ["x", f"file://{tmp_path}/y%20z", print]}, ["a"])["a"]
    assert [sink.target for sink in found] == [tmp_path / "x", tmp_path / "y z", print]
    require_outside({"a": found}, tmp_path / "state")
    require_outside(list_sinks({"a": "state/changes"}, ["a"]), tmp_path / "state")
