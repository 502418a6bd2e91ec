"""Sources of an inbox, and the files that tasks stage. Starts no Spark."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from triegs import Engine
from triegs.errors import InputError, StateDamaged
from triegs.spark.inbox import staging
from triegs.spark.inbox.claims import Claim, find_claim, lock_claims, read_claims, write_claim
from triegs.spark.inbox.staging import (
    Reading,
    StagedFile,
    StagingArea,
    deliver_batch,
    deliver_job,
    find_folder,
    find_job_folder,
    stage_rows,
)

QUERY, P = "query 7", "<http://ex/p>"


def make_batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    schema = pa.schema([(name, pa.string()) for name in ("subject", "predicate", "object")])
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )


def stage(directory: Path, number: int, *tasks: list[tuple[Any, ...]]) -> list[StagedFile]:
    area = StagingArea(find_folder(directory, QUERY, number), f"batch {number}", "7")
    return [
        stage_rows([make_batch(*rows)], partition, area, Reading({}))
        for partition, rows in enumerate(tasks)
    ]


def deliver(directory: Path, number: int, files: list[StagedFile], **options: Any) -> bool:
    given = {"writer": QUERY, "source": None, "default": "feed", "stream": None, **options}
    return deliver_batch(directory, files, number, **given)


def take(directory: Path) -> tuple[list[tuple[str, int]], list[tuple[Any, ...]]]:
    with Engine.open(directory) as engine:
        name = "all"
        query = engine.queries.get(name) or engine.register("SELECT * { ?x ?p ?y }", name)
        taken = [(each.source, each.number) for each in engine.take_inbox()]
        with query.snapshot() as snap:
            return taken, sorted((a.x, a.p, a.y, a.multiplicity) for a in snap)


def test_staged_files_in_partition_order_once(tmp_path: Path) -> None:
    """A deletion in the second partition finds what the first inserted."""
    files = stage(tmp_path, 0, [("<a:1>", P, "<a:2>")] * 2, [("<a:3>", P, "<a:2>")])
    assert deliver(tmp_path, 0, files[::-1])
    assert not list((tmp_path / "staging").glob("*/*"))
    assert not deliver(tmp_path, 0, stage(tmp_path, 0, [("<a:1>", P, "<a:2>")]))
    assert not list((tmp_path / "staging").glob("*/*"))
    answers = [("<a:1>", P, "<a:2>", 2), ("<a:3>", P, "<a:2>", 1)]
    assert take(tmp_path) == ([("feed", 0)], answers)
    assert not deliver(tmp_path, 0, stage(tmp_path, 0, [("<a:1>", P, "<a:2>")]))
    assert take(tmp_path) == ([], answers)
    assert read_claims(tmp_path) == {"feed": Claim("feed", QUERY, 0, 3)}


def test_a_batch_without_rows_is_no_batch_of_the_inbox_and_has_its_number(tmp_path: Path) -> None:
    assert deliver(tmp_path, 0, stage(tmp_path, 0, [], []))
    assert deliver(tmp_path, 1, stage(tmp_path, 1, [("<a:1>", P, "<a:2>")]))
    assert take(tmp_path) == ([("feed", 1)], [("<a:1>", P, "<a:2>", 1)])


def test_malformed_rows_are_quarantined_and_counted_once(tmp_path: Path) -> None:
    rows = [("<a:1>", P, None), ("no term", P, "<a:2>"), ("<a:1>", P, "<a:2>")]
    assert deliver(tmp_path, 0, stage(tmp_path, 0, [], rows))
    assert not deliver(tmp_path, 0, stage(tmp_path, 0, [], rows))
    (path,) = (tmp_path / "quarantine").iterdir()
    assert path.name == "feed@00000000000000000000.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    told = [(each["file"], each["line"], each["reason"].partition(":")[0]) for each in found]
    assert told == [
        ("batch 0, partition 1", 1, "no object"),
        ("batch 0, partition 1", 2, "bad term"),
    ]
    assert json.loads(found[0]["record"]) == {"subject": "<a:1>", "predicate": P, "object": None}
    expected = Claim("feed", QUERY, 0, 1, {"bad term": 1, "no object": 1})
    assert read_claims(tmp_path) == {"feed": expected}


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_commit_that_died_before_it_noted_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    row = ("<a:1>", P, "<a:2>")
    with monkeypatch.context() as patch:
        patch.setattr(staging, "write_claim", die)
        with pytest.raises(KeyboardInterrupt):
            deliver(tmp_path, 0, stage(tmp_path, 0, [row]))
    if is_taken:
        assert take(tmp_path) == ([("feed", 0)], [(*row, 1)])
    # Files of the dead attempt are not read; the first file is the one that Spark names.
    assert deliver(tmp_path, 0, stage(tmp_path, 0, [row]))
    assert take(tmp_path) == ([] if is_taken else [("feed", 0)], [(*row, 1)])
    assert read_claims(tmp_path) == {"feed": Claim("feed", QUERY, 0, 1)}


def test_a_checkpoint_that_was_recreated(tmp_path: Path) -> None:
    deliver(tmp_path, 0, stage(tmp_path, 0, []))
    with pytest.raises(InputError, match=r"'feed' .* belongs to query 7, .* this is query 8\. If"):
        deliver(tmp_path, 0, stage(tmp_path, 0, []), writer="query 8")
    assert deliver(tmp_path, 0, stage(tmp_path, 0, []), writer="query 8", source="other")


@pytest.mark.parametrize(("number", "told"), [(0, "would be lost"), (3, "were lost")])
def test_batch_numbers_that_do_not_continue(tmp_path: Path, number: int, told: str) -> None:
    for each in (0, 1):
        deliver(tmp_path, each, stage(tmp_path, each, []))
    with pytest.raises(InputError, match=rf"writes batch {number}, .* up to 1: events {told}"):
        deliver(tmp_path, number, stage(tmp_path, number, []))
    with pytest.raises(InputError, match=r"writes batch 4, but .* has nothing"):
        deliver(tmp_path, 4, [], writer="query 8", source="other")


def test_a_source_that_is_renamed(tmp_path: Path) -> None:
    deliver(tmp_path, 0, [])
    with pytest.raises(InputError, match=r"query 7 writes .* as source 'feed', and now as 'a'"):
        deliver(tmp_path, 1, [], source="a")
    # The same checkpoint path in another spelling.
    assert deliver(tmp_path, 1, [], default="b")
    assert read_claims(tmp_path).keys() == {"feed"}


def test_jobs(tmp_path: Path) -> None:
    def write(row: tuple[Any, ...], number: int | None = None, source: str = "jobs") -> bool:
        folder = find_job_folder(tmp_path, "x")
        staged = stage_rows([make_batch(row)], 0, StagingArea(folder, "job x", "x"), Reading({}))
        return deliver_job(
            tmp_path, [staged], folder, source=source, default="", number=number, stream=None
        )

    first, second = ("<a:1>", P, "<a:2>"), ("<a:2>", P, "<a:2>")
    assert write(first)
    assert write(first)
    assert write(second, 20240501, "daily")
    assert not write(second, 20240501, "daily")
    with pytest.raises(InputError, match="numbers must increase: batch 20240430 would be lost"):
        write(second, 20240430, "daily")
    taken, answers = take(tmp_path)
    assert taken == [("daily", 20240501), ("jobs", 0), ("jobs", 1)]
    assert answers == [(*first, 2), (*second, 1)]
    with pytest.raises(InputError, match=r"'jobs' .* belongs to batch jobs"):
        deliver(tmp_path, 0, [], source="jobs")


def test_dead_jobs_leave_nothing_for_long(tmp_path: Path) -> None:
    folders = [find_job_folder(tmp_path, name) for name in ("old", "young", "own")]
    for folder in folders:
        folder.mkdir(parents=True)
    long_ago = time.time() - 90_000
    os.utime(folders[0], (long_ago, long_ago))
    deliver_job(tmp_path, [], folders[2], source=None, default="jobs", number=None, stream=None)
    assert list((tmp_path / "staging").iterdir()) == [folders[1]]


def test_dictionaries_of_partitions_become_one(tmp_path: Path) -> None:
    area = StagingArea(find_folder(tmp_path, QUERY, 0), "batch 0", "7")
    reading = Reading({}, "plain", {"": "http://ex/"})
    rows = [(":a", ":p", ":b"), (":c", ":p", "_:x")]
    files = [stage_rows([make_batch(row)] * 2, n, area, reading) for n, row in enumerate(rows)]
    assert deliver(tmp_path, 0, files)
    _, answers = take(tmp_path)
    assert [(x, m) for x, _, _, m in answers] == [("<http://ex/a>", 2), ("<http://ex/c>", 2)]


def test_a_file_of_a_source_that_is_broken(tmp_path: Path) -> None:
    with lock_claims(tmp_path):
        write_claim(tmp_path, Claim("feed", QUERY))
    (tmp_path / "sources" / "feed.json").write_text("{")
    with pytest.raises(StateDamaged, match=r"feed\.json"):
        find_claim(tmp_path, QUERY, None, "feed")
