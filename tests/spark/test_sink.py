"""``format("triegs")``: events from DataFrames into the inbox of an engine, exactly once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.spark.feed import (
    FILES,
    QUERY,
    ROWS,
    P,
    find_expected,
    open_engine,
    read_answers,
    start,
    write_files,
)

from triegs import Engine
from triegs.spark import LocalSpark
from triegs.spark.inbox.claims import Claim, read_claims

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def run(session: Any, folder: Path, directory: Path, **options: Any) -> None:
    start(session, folder, directory, **options).awaitTermination()


def fail(session: Any, folder: Path, directory: Path, **options: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(session, folder, directory, **options)
    return str(caught.value)


def test_a_stream_by_name(spark: LocalSpark, tmp_path: Path) -> None:
    """Spark discovers the data source without registration."""
    rows = write_files(tmp_path / "in")
    run(spark.get(), tmp_path / "in", tmp_path / "engine")
    with open_engine(tmp_path / "engine") as engine:
        taken = engine.take_inbox()
        assert [each.number for each in taken] == list(range(FILES))
        assert [each.outcome.accepted for each in taken] == [ROWS] * FILES
        assert read_answers(engine) == find_expected(rows)
    (claim,) = read_claims(tmp_path / "engine").values()
    expected = (FILES - 1, len(rows), {"bad term": FILES})
    assert (claim.last, claim.rows, claim.quarantined) == expected
    quarantined = sorted((tmp_path / "engine" / "quarantine").iterdir())
    assert [path.name for path in quarantined] == [
        f"{claim.source}@{number:020}.jsonl" for number in range(FILES)
    ]
    entry = json.loads(quarantined[3].read_text())
    assert entry["file"] == "batch 3, partition 0"
    assert entry["line"] == ROWS + 1
    assert not list((tmp_path / "engine" / "staging").glob("*/*"))


def test_a_stream_resumes_and_a_new_checkpoint_is_refused(
    spark: LocalSpark, tmp_path: Path
) -> None:
    session, engine = spark.get(), tmp_path / "engine"
    write_files(tmp_path / "in", 2)
    run(session, tmp_path / "in", engine)
    later = tmp_path / "in" / "later.json"
    later.write_text(json.dumps({"time": 9_000, "subject": 1, "predicate": P, "object": 2}) + "\n")
    run(session, tmp_path / "in", engine)
    (claim,) = read_claims(engine).values()
    assert (claim.last, claim.rows) == (2, 2 * ROWS)  # 1 and 2 are not terms as strings
    assert claim.quarantined["bad term"] == 3
    before = sorted((engine / "inbox").iterdir())
    shutil.rmtree(tmp_path / "checkpoint")
    told = fail(session, tmp_path / "in", engine)
    assert f"source '{claim.source}' of {engine} belongs to {claim.writer}" in told
    assert "Use the old checkpoint, or an empty engine directory" in told
    assert sorted((engine / "inbox").iterdir()) == before
    run(session, tmp_path / "in", engine, checkpoint=tmp_path / "other", source="more")
    assert read_claims(engine)["more"].last == 2


def test_a_new_directory_with_an_old_checkpoint_is_refused(
    spark: LocalSpark, tmp_path: Path
) -> None:
    session, engine = spark.get(), tmp_path / "engine"
    write_files(tmp_path / "in", 2)
    run(session, tmp_path / "in", engine)
    shutil.rmtree(engine)
    (tmp_path / "in" / "later.json").write_text("")
    (tmp_path / "in" / "more.json").write_text('{"time": 1}\n')
    assert "has nothing: events were lost" in fail(session, tmp_path / "in", engine)


def test_columns_streams_and_ids(spark: LocalSpark, tmp_path: Path) -> None:
    """Columns with other names and types; a repeated id counts once; a named stream."""
    session = spark.get()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(
        '{"at": "2024-05-01T10:00:00Z", "s": 1, "o": 2.5, "key": 7}\n'
        '{"at": "2024-05-01T10:00:00Z", "s": 1, "o": 2.5, "key": 7}\n'
        '{"at": null, "s": 1, "o": 2.5, "key": 8}\n'
    )
    frame = session.readStream.schema("at timestamp, s long, o double, key long")
    frame = frame.json(str(tmp_path / "in")).selectExpr("*", f"'{P}' AS p", "1 AS sign")
    writer = frame.writeStream.format("triegs").option("checkpointLocation", str(tmp_path / "c"))
    writer = writer.option("columns", '{"subject": "s", "predicate": "p", "object": "o"}')
    writer = writer.option("time", "at").option("op", "sign").option("id", "key")
    writer = writer.option("stream", "http://ex/s").option("source", "feed")
    writer.trigger(availableNow=True).start(str(tmp_path / "engine")).awaitTermination()
    claim = read_claims(tmp_path / "engine")["feed"]
    assert (claim.rows, claim.quarantined) == (2, {"no time": 1})
    with Engine.open(tmp_path / "engine") as engine:
        text = "SELECT * FROM NAMED WINDOW <http://ex/w> ON <http://ex/s> [RANGE 10s] "
        query = engine.register(text + "{ WINDOW <http://ex/w> { ?x ?p ?y } }")
        (taken,) = engine.take_inbox()
        assert taken.problem is None
        engine.close_stream()
        with query.snapshot() as snap:
            (answer,) = snap.answers("python")
            assert (answer.x, answer.y, answer.multiplicity) == (1, 2.5, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"subject": "who"},
            "the DataFrame has no column 'who' for subject; its columns: time, op, subject",
        ),
        ({"columns": '{"graph": "g"}'}, "columns maps 'graph', which is not one of time, op"),
        ({"columns": "subject"}, "the option 'columns' must be a JSON object of strings"),
        ({"source": "a/b"}, "a source name has only letters, digits, '.', '_' and '-', not 'a/b'"),
        ({"terms": "turtle"}, "terms must be one of ntriples, plain, integers"),
        ({"strict": "true"}, "batch 0, partition 0, line 6: bad term: object: "),
        ({"path": "s3://b/x"}, "on a disk that all executors share, not 's3://b/x'"),
        ({"time": "op"}, "'+' is neither a number of milliseconds"),
    ],
)
def test_what_is_wrong_is_reported(
    spark: LocalSpark, tmp_path: Path, options: dict[str, str], told: str
) -> None:
    write_files(tmp_path / "in", 1)
    if options == {"time": "op"}:
        run(spark.get(), tmp_path / "in", tmp_path / "engine", **options)
        (path,) = (tmp_path / "engine" / "quarantine").iterdir()
        assert told in path.read_text()
        return
    assert told in fail(spark.get(), tmp_path / "in", tmp_path / "engine", **options)
    assert not list((tmp_path / "engine").glob("inbox/*"))
    assert not list((tmp_path / "engine").glob("staging/*/*"))


def test_a_batch_job(spark: LocalSpark, tmp_path: Path) -> None:
    session = spark.get()
    rows = [(n % 3, P, n) for n in range(20)]
    frame = session.createDataFrame(rows, "subject int, predicate string, object int")
    writer = frame.repartition(3).write.format("triegs").option("path", str(tmp_path / "engine"))
    writer.mode("append").save()
    writer.mode("append").option("source", "daily").option("batch", 4).save()
    writer.mode("append").option("source", "daily").option("batch", 4).save()
    with Engine.open(tmp_path / "engine") as engine:
        engine.register(QUERY, "all")
        taken = [(each.source, each.number) for each in engine.take_inbox()]
        assert taken == [("daily", 4), ("spark-jobs", 0)]
        with engine.queries["all"].snapshot() as snap:
            assert len(snap) == 20
            assert {answer.multiplicity for answer in snap} == {2}
    assert read_claims(tmp_path / "engine")["daily"] == Claim("daily", "batch jobs", 4, 20)
    assert not list((tmp_path / "engine" / "staging").iterdir())
    with pytest.raises(Exception, match="only appends events"):
        writer.mode("overwrite").save()
