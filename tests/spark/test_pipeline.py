"""A pipeline equals the engine and the oracle after each batch."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import (
    EX,
    QUERIES,
    SCHEMA,
    draw_batches,
    expect,
    look,
    make_table,
    make_window,
    read_sink,
    read_stream,
    sum_changes,
    write_all,
    write_batch,
)  # fmt: skip

from triegs import DirectoryInUse, Engine, InputError, QueryError, StateError
from triegs.spark import BatchFailed, Sink, recompute, start
from triegs.spark.answers import make_frame
from triegs.testing.window_oracle import Event

SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")

NOW = {"availableNow": True}


@pytest.fixture
def session(spark):
    return spark.get()


FEW = [("multigraph", True), ("rdf", False)]


@pytest.mark.parametrize(
    ("mode", "is_windowed"), [*FEW, *([("multigraph", False), ("rdf", True)] if SOAK else [])]
)
def test_each_batch_equals_the_oracle_and_the_engine(session, tmp_path, mode, is_windowed):
    batches = draw_batches(5 + is_windowed, 6 if SOAK else 4)
    window = make_window(is_windowed)
    seen: list[Any] = []
    running: Any = {}
    stream = read_stream(session, write_all(tmp_path / "in", batches))

    def see(*_):
        is_started.wait(60)
        seen.append(look(running["pipeline"].queries))

    sinks: dict[str, Any] = {name: [tmp_path / name] for name in QUERIES}
    sinks["path"].append(see)
    is_started = threading.Event()
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", mode=mode, window=window, sinks=sinks,
        views=False,
    ) as pipeline:  # fmt: skip
        running["pipeline"] = pipeline
        is_started.set()
        pipeline.process_all()
        expected = expect(batches, mode, is_windowed)
        assert seen == expected
        assert pipeline.metrics()["rows"] == sum(map(len, batches))
        epochs = pipeline.engine.epoch
    with Engine(mode, window=window) as engine:
        direct = {name: engine.register(text, name) for name, text in QUERIES.items()}
        for events, shown in zip(batches, expected, strict=True):
            table = make_table(events)
            if is_windowed:
                engine.push(table)
                engine.advance()
            elif events:
                engine.apply(table.drop_columns(["time"]))
            assert look(direct) == shown
        assert engine.epoch == epochs
    for name, answers in expected[-1].answers.items():
        assert sum_changes(tmp_path / name) == answers


@pytest.mark.parametrize(
    ("mode", "is_windowed"), [("rdf", False), *([("multigraph", True)] if SOAK else [])]
)
def test_each_snapshot_equals_what_is_recomputed(session, tmp_path, mode, is_windowed):
    """A log has no late events, so there are none; without windows a batch has a single time.

    Without a soak the oracle recomputes; tests/spark/test_recompute.py has Spark against it.
    """
    from pyspark.sql import functions

    batches = draw_batches(11 + is_windowed, 5, is_late=False)
    if not is_windowed:
        batches = [[each._replace(time=n) for each in events] for n, events in enumerate(batches)]
    window = make_window(is_windowed)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    seen: dict[str, dict[int, Any]] = {name: {} for name in QUERIES}

    def see(name, frame, batch):
        for row in frame.collect():
            time = row["time"] if is_windowed else batch
            seen[name].setdefault(time, {})[tuple(row[2:-1])] = row["multiplicity"]

    sinks = {name: Sink(partial(see, name), what="snapshot") for name in QUERIES}
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", mode=mode, window=window, sinks=sinks,
        views=False, trigger=NOW,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
    assert sum(map(len, seen.values())) > 8
    expected = expect(batches, mode, is_windowed)
    if not is_windowed:
        for batch, shown in enumerate(expected):
            for name, answers in shown.answers.items():
                assert seen[name].get(batch, {}) == answers, (batch, name)
    if not SOAK:
        return
    log = session.read.schema(SCHEMA).parquet(str(tmp_path / "in")).withColumn(
        "n", functions.monotonically_increasing_id()
    )  # fmt: skip
    slides = [each.time for each in expected]
    times = [time for time in slides if time is not None] if is_windowed else range(len(batches))
    for name, text in QUERIES.items():
        found: dict[int, Any] = {}
        anew = recompute(text, log, times, mode=mode, window=window, columns={"order": "n"})
        for row in anew.collect():
            found.setdefault(row["time"], {})[tuple(row[1:-1])] = row["multiplicity"]
        assert found == seen[name], name


def test_changes_are_delivered_epoch_by_epoch(session, tmp_path):
    batches = [[Event(t, "+", (EX(t), EX("p"), EX(0))) for t in (1, 7, 13, 29)]]
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    query = {"all": f"SELECT ?x {{ ?x {EX('p')} ?y }}"}
    with start(
        stream, query, checkpoint=tmp_path / "state", window=make_window(True), trigger=NOW,
        sinks={"all": tmp_path / "out"}, views=False,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
    rows = [tuple(row.values())[1:] for row in pq.read_table(tmp_path / "out").to_pylist()]
    assert [time for time, *_ in rows] == [5, 10, 15, 15, 20, 25]
    assert sorted(rows) == sorted([
        (5, EX(1), 1), (10, EX(7), 1), (15, EX(1), -1), (15, EX(13), 1), (20, EX(7), -1),
        (25, EX(13), -1),
    ])  # fmt: skip


def test_a_restart_resumes(session, tmp_path):
    batches = draw_batches(3, 6)
    folder = write_all(tmp_path / "in", batches[:3])
    options: dict[str, Any] = {
        "checkpoint": tmp_path / "state", "window": make_window(True), "trigger": NOW,
        "sinks": {"path": tmp_path / "out"}, "views": False,
    }  # fmt: skip
    with start(read_stream(session, folder), QUERIES, **options) as pipeline:
        pipeline.wait()
        assert look(pipeline.queries) == expect(batches[:3], "multigraph", True)[-1]
    for number in (3, 4, 5):
        write_batch(folder, number, batches[number])
    with start(read_stream(session, folder), QUERIES, **options) as pipeline:
        pipeline.wait()
        assert look(pipeline.queries) == expect(batches, "multigraph", True)[-1]
        assert pipeline.metrics()["batches"] == 3
    assert sum_changes(tmp_path / "out") == look_up(batches, "path")


def look_up(batches, name):
    return expect(batches, "multigraph", True)[-1].answers[name]


@pytest.mark.parametrize("is_windowed", [False, True])
def test_a_failed_delivery_is_repeated(session, tmp_path, is_windowed):
    batches = draw_batches(8, 4, rows=20)
    folder = write_all(tmp_path / "in", batches)
    common: dict[str, Any] = {"window": make_window(is_windowed), "trigger": NOW, "views": False}
    with start(
        read_stream(session, folder), QUERIES, checkpoint=tmp_path / "whole",
        sinks={"path": tmp_path / "expected"}, **common,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
    told = []

    def fail_once(frame, batch):
        told.append((batch, sorted(map(tuple, frame.collect()))))
        if batch == 2 and len(told) == 3:
            raise OSError("the disk of the sink is full")

    options: dict[str, Any] = {
        "checkpoint": tmp_path / "state",
        "sinks": {"path": [tmp_path / "out", fail_once]},
    }
    with start(read_stream(session, folder), QUERIES, **options, **common) as pipeline:
        with pytest.raises(BatchFailed, match="batch 2: the disk of the sink is full"):
            pipeline.wait()
        shown = look(pipeline.queries)
    with start(read_stream(session, folder), QUERIES, **options, **common) as pipeline:
        pipeline.wait()
        assert pipeline.metrics()["replayed"] == 1
        assert shown == expect(batches, "multigraph", is_windowed)[2]
    assert [batch for batch, _ in told] == [0, 1, 2, 2, 3]
    assert told[2] == told[3]
    assert read_sink(tmp_path / "out") == read_sink(tmp_path / "expected")


def test_malformed_rows_are_quarantined_and_the_others_applied(session, tmp_path, caplog):
    caplog.set_level("INFO", "triegs.spark")
    nothing: Any = None
    bad = [
        Event(1, "+", ("not a term", EX("p"), EX(0))), Event(nothing, "+", (EX(1), EX("p"), EX(0))),
        Event(1, "?", (EX(1), EX("p"), EX(0))), Event(1, "+", (nothing, EX("p"), EX(0))),
    ]  # fmt: skip
    good = [Event(0, "+", (EX(1), EX("p"), EX(2))), Event(9, "-", (EX(7), EX("p"), EX(2)))]
    stream = read_stream(session, write_all(tmp_path / "in", [bad + good]))
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", trigger=NOW, views=False
    ) as pipeline:
        pipeline.wait()
        figures = pipeline.metrics()
    assert (figures["rows"], figures["quarantined"], figures["refused"]) == (2, 4, 1)
    rows = pq.read_table(tmp_path / "state" / "quarantine").to_pylist()
    assert sorted(row["reason"].split(":")[0] for row in rows) == [
        "bad op", "bad term", "no subject", "no time",
    ]  # fmt: skip
    assert '"subject": "not a term"' in "".join(row["record"] for row in rows)
    assert "4 malformed rows quarantined" in caplog.text
    assert "1 events refused; first, number 1: no live event" in caplog.text


def test_late_events_and_one_at_the_beginning_of_time(session, tmp_path):
    events = [[Event(0, "+", (EX(1), EX("p"), EX(2))), Event(21, "+", (EX(1), EX("p"), EX(2)))],
              [Event(3, "+", (EX(2), EX("p"), EX(2)))]]  # fmt: skip
    stream = read_stream(session, write_all(tmp_path / "in", events))
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", trigger=NOW, window=make_window(True),
        sinks={"twice": tmp_path / "out"}, views=False,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        figures = pipeline.metrics()
        assert figures["engine"]["windows"]["late"] == 1
        assert look(pipeline.queries).time == 20


def test_views_show_the_newest_answers_and_held_ones(session, tmp_path):
    folder = tmp_path / "in"
    write_batch(folder, 0, [Event(0, "+", (EX(1), EX("p"), EX(2)))])
    text = {"edges": f"SELECT ?x ?y {{ ?x {EX('p')} ?y }}"}
    with start(read_stream(session, folder), text, checkpoint=tmp_path / "state") as pipeline:
        pipeline.process_all()
        first = [(EX(1), EX(2), 1)]
        assert [tuple(row) for row in session.table("edges").collect()] == first
        frame = session.table("edges")
        pipeline.hold("noon")
        write_batch(folder, 1, [Event(0, "+", (EX(3), EX("p"), EX(4)))])
        pipeline.process_all()
        assert frame.count() == session.table("edges").count() == 2
        assert [tuple(row) for row in session.table("edges_as_of_noon").collect()] == first
        asked = "SELECT x FROM edges WHERE y LIKE '%4>'"
        assert [row.x for row in session.sql(asked).collect()] == [EX(3)]
        assert pipeline.table("edges", as_of="noon").count() == 1
        pipeline.release("noon")
        with pytest.raises(Exception, match="noon"):
            pipeline.table("edges", as_of="noon").count()
        name = str(pipeline.hold("older"))  # digits, and the number of a held epoch
        write_batch(folder, 2, [Event(0, "+", (EX(5), EX("p"), EX(6)))])
        pipeline.process_all()
        assert pipeline.hold(name) > int(name)
        assert session.table(f"edges_as_of_{name}").count() == 3
        assert pipeline.table("edges", as_of=int(name)).count() == 2
        assert pipeline.engine.metrics()["queries"] == 1
    assert not session.catalog.tableExists("edges")


def test_figures_are_reported_after_each_batch(session, tmp_path, caplog, monkeypatch):
    def refuse(event):
        raise AssertionError("a report was converted, which takes a tenth of a second per batch")

    monkeypatch.setattr("pyspark.sql.streaming.listener.QueryProgressEvent.fromJObject", refuse)
    batches = draw_batches(6, 3)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    told: list[Any] = []
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", trigger=NOW, views=False,
        on_progress=told.append,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        wait_until(lambda: len(told) >= 3)
        assert pipeline.metrics()["rows"] == sum(map(len, batches))
    assert [each["batch"] for each in told[:3]] == sorted(each["batch"] for each in told[:3])
    assert told[-1]["spark"]["batchId"] == 2
    assert set(told[-1]["timing"]) == {"collect", "open", "engine", "commit", "sinks"}
    with (
        caplog.at_level("INFO", "triegs.spark"),
        start(stream, QUERIES, checkpoint=tmp_path / "other", trigger=NOW, views=False) as pipeline,
    ):
        pipeline.wait()
        wait_until(lambda: "batch 2:" in caplog.text)


def wait_until(is_so):
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it never came")


def test_snapshots_every_few_batches(session, tmp_path):
    batches = draw_batches(4, 5)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    sink = Sink(tmp_path / "out", "snapshot", every=2)
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", trigger=NOW, sinks={"path": sink},
        views=False,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
    expected = expect(batches, "multigraph", False)
    assert [path.stem[-1] for path in sorted((tmp_path / "out").glob("*.parquet"))] == list("024")
    for batch in (0, 2, 4):
        rows = pq.read_table(tmp_path / "out" / f"{batch:020}.parquet").to_pylist()
        found = {(row["x"], row["y"], row["z"]): row["multiplicity"] for row in rows}
        assert found == expected[batch].answers["path"]


def test_many_chunks_are_few_tasks(session):
    table = pa.concat_tables([pa.table({"x": [f"<a:{n}>"], "change": [n]}) for n in range(50)])
    frame = make_frame(session, table)
    assert frame.rdd.getNumPartitions() <= session.sparkContext.defaultParallelism
    assert sorted(tuple(row) for row in frame.collect()) == sorted(
        zip(*table.to_pydict().values(), strict=True)
    )
    assert make_frame(session, table.slice(0, 0)).collect() == []


def test_readers_hold_a_snapshot_while_batches_run(session, tmp_path):
    batches = draw_batches(9, 4, rows=30)
    folder = write_all(tmp_path / "in", batches[:1])
    with start(
        read_stream(session, folder), QUERIES, checkpoint=tmp_path / "state", views=False
    ) as pipeline:
        pipeline.process_all()
        with pipeline.queries["path"].snapshot() as held:
            before = {tuple(answer): answer.multiplicity for answer in held}
            for number in (1, 2, 3):
                write_batch(folder, number, batches[number])
            pipeline.process_all()
            assert {tuple(answer): answer.multiplicity for answer in held} == before
        assert look(pipeline.queries) == expect(batches, "multigraph", False)[-1]


def test_what_is_refused_before_anything_starts(session, tmp_path):
    stream = read_stream(session, write_all(tmp_path / "in", [[]]))
    state = tmp_path / "state"

    def refuse(problem, match, events=stream, queries=QUERIES, **options):
        with pytest.raises(problem, match=match):
            start(events, queries, **{"checkpoint": state, **options})

    refuse(InputError, "is not a streaming DataFrame", events=stream.sparkSession.range(3))
    refuse(InputError, "no column 's' for subject; its columns: time", columns={"subject": "s"})
    refuse(InputError, "maps 'subjekt'", columns={"subjekt": "subject"})
    refuse(QueryError, "line 1", queries={"bad": "SELECT ?x { ?x"})
    refuse(StateError, "no text", queries={"bad": {"root": "x"}})
    refuse(TypeError, "queries maps names to texts, .* not str", queries=QUERIES["path"])
    refuse(TypeError, "a query is a str, not int", queries={"bad": 5})
    refuse(TypeError, "a number of engines, not '2'", partitions="2")
    refuse(
        ValueError, "sinks has 'none', which is not one of the queries", sinks={"none": tmp_path}
    )
    refuse(StateError, "driver can lock", checkpoint="hdfs://host/state")
    limit = {"few": QUERIES["path"] + " LIMIT 3"}
    for options in ({}, {"partitions": 2}):
        refuse(StateError, "'few' needs changes, and a query with LIMIT or OFFSET has none",
               queries=limit, sinks={"few": tmp_path / "few"}, **options)  # fmt: skip
        refuse(StateError, "the sink of 'path' must be a directory on the driver's disk, not s3://b/x",
               sinks={"path": "s3://b/x"}, **options)  # fmt: skip
    assert not (tmp_path / "few").exists()
    refuse(InputError, "a window needs a time column", events=stream.drop("time"),
           window=make_window(True), checkpoint=tmp_path / "other")  # fmt: skip
    # Nothing is left that would prevent the next start.
    with start(stream, QUERIES, checkpoint=state, trigger=NOW, views=False) as pipeline:
        refuse(DirectoryInUse, "is already open", views=False)
        pipeline.wait()
    other: dict[str, Any] = {**QUERIES, "path": QUERIES["twice"]}
    refuse(StateError, "another query 'path'", queries=other)
    for option, value in {"keep": ["count"], "root": "?y", "window": make_window(True)}.items():
        other = {**QUERIES, "path": {"text": QUERIES["path"], option: value}}
        refuse(StateError, f"'path' of the checkpoint has {option} .*, not ", queries=other)
    other = {**QUERIES, "path": {"text": QUERIES["path"], "keeps": ["count"]}}
    refuse(StateError, "unknown option 'keeps'", queries=other)
    same: dict[str, Any] = {**QUERIES, "path": {"text": QUERIES["path"], "keep": []}}
    with start(stream, same, checkpoint=state, trigger=NOW, views=False) as pipeline:
        pipeline.wait()


def test_a_checkpoint_that_is_not_the_engines(session, tmp_path):
    batches = draw_batches(2, 3)
    folder = write_all(tmp_path / "in", batches)
    options: dict[str, Any] = {"checkpoint": tmp_path / "state", "trigger": NOW, "views": False}
    with start(read_stream(session, folder), QUERIES, **options) as pipeline:
        pipeline.wait()
    spark = tmp_path / "state" / "spark"
    spark.rename(tmp_path / "away")
    with (
        start(read_stream(session, folder), QUERIES, **options) as pipeline,
        pytest.raises(BatchFailed, match=r"batch 0: Spark's checkpoint .* does not belong to"),
    ):
        pipeline.wait()
    # The engine's state is lost, and Spark does not repeat the batches.
    (tmp_path / "state").rename(tmp_path / "old")
    (tmp_path / "state").mkdir()
    (tmp_path / "away").rename(spark)
    write_batch(folder, 3, batches[0])
    with (
        start(read_stream(session, folder), QUERIES, **options) as pipeline,
        pytest.raises(
            BatchFailed, match="batch 3: the engine has batches up to -1, and Spark continues"
        ),
    ):
        pipeline.wait()


def test_names_that_spark_cannot_distinguish(session, tmp_path):
    """Refused at the start with Spark's defaults; a case-sensitive session runs it."""
    options: Any = {"checkpoint": tmp_path / "state", "trigger": NOW}
    stream = read_stream(session, write_all(tmp_path / "in", [[]]))
    twins = session.readStream.schema(f"{SCHEMA}, Time long").parquet(str(tmp_path / "in"))
    text = f"SELECT ?x ?X {{ ?x {EX('p')} ?X }}"
    by_case = "spark.sql.caseSensitive"
    before = session.conf.get(by_case)
    session.conf.set(by_case, "false")
    try:
        for problem, match, events, queries in [
            (InputError, "cannot distinguish the columns 'time' and 'Time'", twins, QUERIES),
            (StateError, "columns 'x' and 'X' of the query 'q';", stream, {"q": text}),
            (StateError, "'Time' and 'time' of", stream, {"q": text.replace("?X", "?Time")}),
            (StateError, "the queries 'q' and 'Q'; .* views=False", stream,
             {"q": QUERIES["path"], "Q": QUERIES["heads"]}),
        ]:  # fmt: skip
            for partitions in (None, 2):
                if "views" not in match or partitions is None:
                    with pytest.raises(problem, match=match):
                        start(events, queries, partitions=partitions, **options)
    finally:
        session.conf.set(by_case, before)
    with start(stream, {"q": text}, sinks={"q": tmp_path / "out"}, **options) as pipeline:
        pipeline.wait()


def test_a_query_that_stalls_stops_its_sink_and_no_other_query(session, tmp_path):
    many = [Event(0, "+", (EX(0), EX("p"), EX(0)))] * 1500
    folder = write_all(tmp_path / "in", [many, many[:1]])
    body = " . ".join(f"?v{n} {EX('p')} ?v{n + 1}" for n in range(8))
    queries = {"huge": f"SELECT ?v0 {{ {body} }}", "small": f"SELECT ?a {{ ?a {EX('p')} ?b }}"}
    options: dict[str, Any] = {"trigger": NOW, "views": False}
    sinks = {"small": tmp_path / "small"}
    with start(
        read_stream(session, folder), queries, checkpoint=tmp_path / "one", sinks=sinks, **options
    ) as pipeline:
        pipeline.wait()
        assert pipeline.metrics()["engine"]["stalled"] == ["huge"]
    assert sum_changes(tmp_path / "small") == {(EX(0),): 1501}
    sinks = {"small": tmp_path / "small of two", "huge": tmp_path / "huge"}
    with (
        start(
            read_stream(session, folder), queries, checkpoint=tmp_path / "two", sinks=sinks,
            **options,
        ) as pipeline,
        pytest.raises(BatchFailed, match=r"batch 0: the sink of 'huge': .* 64 bits"),
    ):  # fmt: skip
        pipeline.wait()


@pytest.mark.parametrize("partitions", [None, 2])
def test_the_time_of_an_event(session, tmp_path, caplog, partitions):
    """Such queries run in the driver, even if partitions are requested."""
    batches = draw_batches(9, 3)
    queries = {"times": f"SELECT ?x ?t {{ ?x {EX('p')} ?y {{| triegs:time ?t |}} }}"}
    window = make_window(True)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    with start(
        stream, queries, checkpoint=tmp_path / "state", window=window, views=False,
        partitions=partitions,
    ) as pipeline:  # fmt: skip
        pipeline.process_all()
        shown = look(pipeline.queries)
    assert ("the time of its event" in caplog.text) == (partitions is not None)
    with Engine(window=window) as engine:
        direct = {name: engine.register(text, name) for name, text in queries.items()}
        for events in batches:
            engine.push(make_table(events))
            engine.advance()
        assert look(direct) == shown
    assert shown.answers["times"]


def test_integers_and_labels_that_nobody_reads(session, tmp_path):
    """Integer events do not pass through Python on executors; malformed rows are reported."""
    rows = [
        (1, EX("p"), 2), (2, EX("q"), 3), (2, EX("other"), 3), (None, EX("p"), 3),
        (1, None, 2), (5, "no term", 6),
    ]  # fmt: skip
    columns = list(zip(*rows, strict=True))
    table = pa.table({n: pa.array(c) for n, c in zip("spo", columns, strict=True)})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    stream = session.readStream.schema("s long, p string, o long").parquet(str(tmp_path / "in"))
    names = {"subject": "s", "predicate": "p", "object": "o"}
    query = {**QUERIES, "any": "SELECT ?p { ?x ?p ?y }"}
    with start(
        stream, query, checkpoint=tmp_path / "state", columns=names, trigger=NOW, views=False
    ) as pipeline:
        pipeline.wait()
        integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
        shown = look(pipeline.queries).answers
        assert shown["path"] == {(integer(1), integer(2), integer(3)): 1}
        assert shown["any"] == {(EX("p"),): 1, (EX("q"),): 1, (EX("other"),): 1}
        assert pipeline.metrics()["quarantined"] == 3
    kept = pq.read_table(tmp_path / "state" / "quarantine").column("reason").to_pylist()
    assert sorted(reason.partition(":")[0] for reason in kept) == [
        "bad term", "no predicate", "no subject",
    ]  # fmt: skip
