"""A partitioned pipeline equals the oracle after each batch."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
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
    read_stream,
    sum_changes,
    write_all,
    write_batch,
)

from triegs import (
    Engine,
    EventTime,
    InputError,
    StateError,
    TriegsError,
    UnsupportedQuery,
    Window,
    WindowError,
)
from triegs.errors import DirectoryInUse
from triegs.spark import BatchFailed, Distributed, Pipeline, Sink, changes, recompute, start
from triegs.testing import oracle
from triegs.testing.window_oracle import Event

NOW = {"availableNow": True}
SOAK = os.environ.get("TRIEGS_PROFILE") in ("long", "soak")
FEW = [(3, "multigraph", True), (2, "rdf", False)]
ALL = [(4, "multigraph", True), *FEW, (1, "multigraph", True), (2, "rdf", True)]


@pytest.fixture
def session(spark):
    return spark.get()


def read_answers(frame) -> dict[tuple[Any, ...], int]:
    rows = [tuple(row) for row in frame.collect()]
    found = {row[:-1]: row[-1] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.property
@pytest.mark.parametrize(("partitions", "mode", "is_windowed"), ALL if SOAK else FEW)
def test_each_batch_equals_the_oracle(session, tmp_path, partitions, mode, is_windowed):
    batches = draw_batches(20 + partitions, 4 if SOAK else 3)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    sinks = {name: tmp_path / name for name in QUERIES}
    with start(
        stream, QUERIES, checkpoint=tmp_path / "state", mode=mode, window=make_window(is_windowed),
        sinks=sinks, partitions=partitions, trigger=NOW,
    ) as pipeline:  # fmt: skip
        assert isinstance(pipeline, Distributed)
        pipeline.wait()
        expected = expect(batches, mode, is_windowed)
        figures = pipeline.metrics()
        assert figures["rows"] == sum(map(len, batches))
        for batch, shown in enumerate(expected):
            for name in QUERIES:
                assert sum_changes(tmp_path / name, 1, batch) == shown.answers[name], (batch, name)
        # A table is a job; sinks have shown each query, other tests have the tables of each.
        names = QUERIES if SOAK else ["path", "apart"]
        for batch, name in [(1, "path"), *((len(batches) - 1, name) for name in names)]:
            wanted = expected[batch].answers[name]
            assert read_answers(pipeline.table(name, batch)) == wanted, (batch, name)
        assert pipeline.count("path") == sum(expected[-1].answers["path"].values())
    if partitions > 1:
        held = [report["state_bytes"] for report in figures["partitions"]]
        assert all(0 < size < sum(held) for size in held)


def run(session, folder: Path, batches, home: Path, partitions: int = 2, **options: Any):
    """A pipeline that has processed all files."""
    for number, events in enumerate(batches):
        if not (folder / f"{number:05}.parquet").exists():
            write_batch(folder, number, events)
    options = {"window": make_window(True), "trigger": NOW, **options}
    pipeline = start(
        read_stream(session, folder), QUERIES, checkpoint=home / "state", partitions=partitions,
        sinks={name: home / name for name in QUERIES}, **options,
    )  # fmt: skip
    pipeline.wait()
    assert isinstance(pipeline, Distributed)
    return pipeline


def check_all(home: Path, pipeline, batches, tables=tuple(QUERIES)) -> None:
    shown = expect(batches, "multigraph", True)[-1]
    for name, answers in shown.answers.items():
        assert sum_changes(home / name, 1) == answers
        if name in tables:
            assert read_answers(pipeline.table(name)) == answers


def test_repeated_rescaling(session, tmp_path):
    """Each start repartitions the state of the one before, with more files and without."""
    lives = [(2, 2), (3, 3), (4, 3), (5, 1), (5, 1)] if SOAK else [(2, 2), (2, 3), (3, 1)]
    batches = draw_batches(41, 5, rows=16)
    seen: list[tuple[int | None, int]] = []
    for count, partitions in lives:
        with run(session, tmp_path / "in", batches[:count], tmp_path, partitions) as pipeline:
            is_last = len(seen) == len(lives) - 1
            check_all(tmp_path, pipeline, batches[:count], QUERIES if SOAK or is_last else ["path"])
            seen.append((pipeline.batch, count))
            # Earlier results stay readable, from the partitions of that time.
            for batch, read in seen if len(seen) == len(lives) else ():
                wanted = expect(batches[:read], "multigraph", True)[-1].answers["path"]
                assert read_answers(pipeline.table("path", batch)) == wanted


def test_rescaling_without_new_batches(session, tmp_path):
    """A start without new input keeps the state of the partitions before it."""
    batches = draw_batches(41, 3, rows=16)
    (tmp_path / "in").mkdir()
    for partitions in (4, 3) if SOAK else (3,):
        with run(session, tmp_path / "in", [], tmp_path, partitions) as pipeline:
            assert pipeline.batch is None
    # Without a soak, `test_repeated_rescaling` has the rest.
    more = [(2, 3), (2, 4), (2, 2), (3, 3)] if SOAK else []
    for count, partitions in [(2, 2), *more]:
        with run(session, tmp_path / "in", batches[:count], tmp_path, partitions) as pipeline:
            check_all(tmp_path, pipeline, batches[:count])


@pytest.mark.parametrize("is_windowed", [True, False] if SOAK else [True])
def test_a_static_graph_is_there_from_the_beginning(session, tmp_path, is_windowed):
    """Partitioned, rescaled, and in the driver: the answers of one engine."""
    batches = draw_batches(45, 3, rows=16, is_late=False)
    rows = [("+", EX(n % 3), EX("pq"[n % 2]), EX(n % 5 % 3)) for n in range(12)]
    names = ["op", "subject", "predicate", "object"]
    static = pa.table([list(column) for column in zip(*rows, strict=True)], names)
    (tmp_path / "static.nt").write_text("".join(f"{s} {p} {o} .\n" for _, s, p, o in rows))
    window = make_window(is_windowed)
    with Engine(window=window) as engine:
        engine.apply(static)
        queries = {name: engine.register(text, name=name) for name, text in QUERIES.items()}
        begun, shown = look(queries), []
        for events in batches:
            if is_windowed:
                engine.push(make_table(events))
                engine.advance()
            else:
                engine.apply(make_table(events).drop_columns(["time"]))
            shown.append(look(queries))
    assert begun.answers["path"]

    def check(home, count, given, **options: Any):
        stream = read_stream(session, write_all(home / "in", batches[:count]))
        sinks = {name: home / name for name in QUERIES}
        options |= {"window": window, "trigger": NOW, "sinks": sinks, "static": given}
        with start(stream, QUERIES, checkpoint=home / "state", **options) as pipeline:
            pipeline.wait()
            compare(home, count, pipeline)

    def compare(home, count, pipeline):
        for name, answers in shown[count - 1].answers.items():
            if SOAK or name in ("path", "apart"):
                assert read_answers(pipeline.table(name)) == answers, name
            # Sinks get it, too, in their first batch.
            found = sum_changes(home / name, 1 if isinstance(pipeline, Distributed) else 2)
            assert found == answers, name

    check(tmp_path / "driver", 3, static)
    # New partitions get it from those before them, and not twice.
    for given in [tmp_path / "static.nt", *([static] if SOAK else [])]:
        home = tmp_path / type(given).__name__
        check(home, 2, given, partitions=2)
        check(home, 3, given, partitions=3)


def test_rescaling_a_static_graph_before_the_first_batch(session, tmp_path):
    static = pa.table({"subject": [EX(1)], "predicate": [EX("p")], "object": [EX(2)]})
    (tmp_path / "in").mkdir()
    with run(session, tmp_path / "in", [], tmp_path, 2, static=static):
        pass
    with pytest.raises(
        StateError, match="has a static graph for another number of partitions; pass static again"
    ):
        run(session, tmp_path / "in", [], tmp_path, 3)
    batch = [Event(1, "+", (EX(2), EX("q"), EX(n))) for n in range(3)]
    batch += [Event(10, "+", (EX(0), EX("p"), EX(0)))]
    with run(session, tmp_path / "in", [batch], tmp_path, 3, static=static) as pipeline:
        found = read_answers(pipeline.table("path"))
        assert found == {(EX(1), EX(2), EX(n)): 1 for n in range(3)}


def test_a_static_graph_that_is_malformed(session, tmp_path):
    stream = read_stream(session, write_all(tmp_path / "in", draw_batches(4, 1)))
    bad = pa.table({"subject": [EX(1), "no term"], "predicate": [EX("p")] * 2, "object": [1, 2]})
    for number, (given, told) in enumerate(
        [
            (bad, "no term|1 updates are malformed"),
            (tmp_path / "absent.ttl", "absent.ttl"),
            (bad.drop_columns(["object"]), "no column '?object"),
        ]
    ):
        for partitions in (2, None):
            with pytest.raises(TriegsError, match=told):
                start(
                    stream, QUERIES, checkpoint=tmp_path / f"{number}", partitions=partitions,
                    static=given,
                )  # fmt: skip


@pytest.mark.skipif(not SOAK, reason="another judge of the same; make soak runs it")
def test_each_batch_equals_what_spark_recomputes(session, tmp_path):
    batches = draw_batches(43, 3, is_late=False)
    with run(session, tmp_path / "in", batches, tmp_path):
        pass
    log = session.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    log = log.selectExpr("*", "monotonically_increasing_id() AS n").cache()
    for batch, shown in enumerate(expect(batches, "multigraph", True)):
        if shown.time is None:
            continue
        for name, text in QUERIES.items():
            anew = recompute(
                text, log, [shown.time], window=make_window(True), columns={"order": "n"}
            )
            found = {tuple(row)[1:-1]: row[-1] for row in anew.collect()}
            assert found == sum_changes(tmp_path / name, 1, batch)
    log.unpersist()


def stream_changes(session, events, query: str, home: Path, **options: Any):
    """Spark's query, which has ended; its rows are files in ``out``."""
    before = session.conf.get("spark.sql.shuffle.partitions")
    try:
        found = changes(events, QUERIES[query], partitions=2, **options)
        assert found.isStreaming
        writer = found.writeStream.format("parquet").trigger(**NOW)
        writer = writer.option("checkpointLocation", str(home / "state"))
        running = writer.start(str(home / "out"))
        running.awaitTermination()
    finally:
        session.conf.set("spark.sql.shuffle.partitions", before)
    return running


def test_changes_as_a_stream(session, tmp_path):
    batches = draw_batches(44, 3 if SOAK else 2)
    events = read_stream(session, write_all(tmp_path / "in", batches))
    stream_changes(session, events, "twice", tmp_path, window=make_window(True))
    expected = expect(batches, "multigraph", True)[-1].answers["twice"]
    assert sum_changes(tmp_path / "out", 1) == expected
    with pytest.raises(UnsupportedQuery, match="partitioning does not help this query"):
        changes(events, "SELECT * { ?x ?p ?y }", partitions=2)
    # The checkpoint has the state of another query, and keeps it.
    after = [Event(batches[-1][-1].time + 1, "+", (EX(1), EX("p"), EX(1)))]
    write_batch(tmp_path / "in", len(batches), after)
    with pytest.raises(Exception, match="made with different queries"):
        stream_changes(session, events, "path", tmp_path, window=make_window(True))
    stream_changes(session, events, "twice", tmp_path, window=make_window(True))
    expected = expect([*batches, after], "multigraph", True)[-1].answers["twice"]
    assert sum_changes(tmp_path / "out", 1) == expected


@pytest.mark.parametrize("is_kept", [True, False] if SOAK else [True])
def test_a_stream_of_changes_reports_what_it_leaves_out(session, tmp_path, is_kept):
    good = [Event(n, "+", (EX(n), EX("p"), EX(0))) for n in (1, 6, 11)]
    bad = [Event(12, "+", (f"no term {n}", EX("p"), EX(0))) for n in range(3)]
    late = [Event(2, "+", (EX(7), EX("p"), EX(0))), Event(16, "-", (EX(8), EX("p"), EX(0)))]
    events = read_stream(session, write_all(tmp_path / "in", [good + bad[:2], late + bad[2:]]))
    aside = tmp_path / "aside" if is_kept else None
    query = stream_changes(
        session, events.repartition(3), "heads", tmp_path, window=Window(10, 1), name="parts",
        quarantine=aside, event_time=EventTime(late="quarantine"),
    )  # fmt: skip
    told = [each.observedMetrics["parts"] for each in query.recentProgress]
    assert [each["rows"] for each in told] == [3, 2]
    assert [each["quarantined"] for each in told] == [2, 2]
    assert [each["late"] for each in told] == [0, 1]
    assert sum(each["refused"] for each in told) == 1
    if aside is not None:
        # A new checkpoint repeats batch numbers; its rows go elsewhere.
        other = tmp_path / "other"
        stream_changes(session, events, "heads", other, window=Window(10, 1), quarantine=aside)
        kept = [json.loads(row["record"]) for row in pq.read_table(aside).to_pylist()]
        again = [e.triple[0] for e in bad]
        assert sorted(each["subject"] for each in kept) == sorted([EX(7), *again, *again])


def test_counts_that_do_not_fit(session, tmp_path):
    """The query stalls and raises when it is read; the others continue. With a sink the batch
    fails, because there is nothing to deliver.
    """
    asked = {
        "huge": " . ".join(f"?x {EX('p')} ?y" for _ in range(5)).join(["SELECT ?x {", "}"]),
        "plain": f"SELECT ?x ?y {{ ?x {EX('p')} ?y }}",
    }
    many = [Event(1, "+", (EX(0), EX("p"), EX(0)))] * 7_200  # to the fifth, more than 2 to the 63rd
    few = [Event(2, "+", (EX(n), EX("p"), EX(0))) for n in (1, 2)]
    stream = read_stream(session, write_all(tmp_path / "in", [few, many, few]))
    options: Any = {"partitions": 2, "trigger": NOW}
    with start(stream, asked, checkpoint=tmp_path / "one", **options) as pipeline:
        assert isinstance(pipeline, Distributed)
        pipeline.wait()
        wanted = {(EX(0), EX(0)): 7_200, (EX(1), EX(0)): 2, (EX(2), EX(0)): 2}
        assert read_answers(pipeline.table("plain")) == wanted
        assert read_answers(pipeline.table("huge", 0)) == {(EX(1),): 1, (EX(2),): 1}
        with pytest.raises(Exception, match="MultiplicityOverflow: huge:"):
            pipeline.table("huge").collect()
        with pytest.raises(Exception, match="MultiplicityOverflow: huge:"):
            pipeline.count("huge")
    sinks = {"huge": tmp_path / "huge"}
    told_of = pytest.raises(BatchFailed, match=r"batch 1: .*huge: ")
    options |= {"checkpoint": tmp_path / "two", "sinks": sinks}
    with start(stream, asked, **options) as pipeline, told_of:
        pipeline.wait()


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_rows_that_are_late_null_malformed_and_ahead(session, tmp_path, policy):
    good = [Event(t, "+", (EX(t), EX("p"), EX(0))) for t in (1, 6, 11)]
    rows = [
        *good,
        Event(12, "+", (None, EX("p"), EX(0))),  # type: ignore[arg-type]
        Event(12, "+", ("no term", EX("p"), EX(0))),
        Event(10**12, "+", (EX(9), EX("p"), EX(0))),
    ]
    late = [Event(2, "+", (EX(7), EX("p"), EX(0))), Event(16, "-", (EX(8), EX("p"), EX(0)))]
    more = [Event(21, "+", (EX(5), EX("unread"), EX(0)))]
    asked = EventTime(late=policy)
    with run(session, tmp_path / "in", [rows, late, more], tmp_path, event_time=asked) as pipeline:
        figures = pipeline.metrics()
    assert figures["ahead"] == figures["late"] == figures["refused"] == 1
    wanted = {
        "ahead": (10**12, EX(9)), "bad term": (12, "no term"), "no subject": (12, None),
        "late": (2, EX(7)),
    }  # fmt: skip
    if policy == "drop":
        del wanted["late"]
    assert figures["quarantined"] == len(wanted)
    kept = {}
    for row in pq.read_table(tmp_path / "state" / "quarantine").to_pylist():
        record = json.loads(row["record"])
        assert record["predicate"] == EX("p")
        kept[row["reason"].split(":")[0]] = record["time"], record["subject"]
    assert kept == wanted
    assert figures["labels"][EX("unread")] == 1


@pytest.mark.parametrize("partitions", [2, 5] if SOAK else [3])
def test_more_partitions_than_keys(session, tmp_path, partitions):
    """All events have one key; empty partitions advance with the others."""
    events = [Event(t, "+", (EX("hub"), EX("pq"[t % 2]), EX("hub"))) for t in range(1, 30)]
    batches = [events[:15], events[15:]]
    with run(session, tmp_path / "in", batches, tmp_path, partitions) as pipeline:
        check_all(tmp_path, pipeline, batches)
        figures = pipeline.metrics()
    assert len(figures["partitions"]) == partitions
    assert figures["skew"] > 1


def test_a_hot_key_is_reported_and_then_split(session, tmp_path, caplog):
    """Two thirds of the hashed events have one key; the next start splits it."""
    asked = {"star": f"SELECT ?x ?y ?z {{ ?x {EX('p')} ?y . ?x {EX('q')} ?z }}"}
    events = [
        Event(1, "+", (EX("hub" if n % 3 else n), EX("pq"[n % 2]), EX(n % 7))) for n in range(180)
    ]
    answers = oracle.answers(oracle.read_query(asked["star"]), Counter(e.triple for e in events))
    stream = read_stream(session, write_all(tmp_path / "in", [events]))
    options: Any = {"checkpoint": tmp_path / "state", "trigger": NOW}
    for partitions, is_split in [(4, False), (3, True)]:
        with start(stream, asked, partitions=partitions, **options) as found:
            assert isinstance(found, Distributed)
            found.wait()
            assert read_answers(found.table("star")) == answers
            figures = found.metrics()
            assert any(route.hot for route in found.layout.routes) == is_split
            if is_split:  # more of the same, split over partitions
                more = [event._replace(time=2) for event in events]
                write_batch(tmp_path / "in", 1, more)
        if not is_split:
            (hot,) = figures["hot_keys"]
            assert hot["share"] == pytest.approx(2 / 3, abs=0.01)
            assert hot == {**hot, "query": "star", "key": "?x", "term": EX("hub")}
            assert not hot["is_split"]
    assert "star: 67% of the events hashed by ?x have the key <http://ex/hub>" in caplog.text
    with start(stream, asked, partitions=3, **options) as found:
        found.wait()
        assert isinstance(found, Distributed)
        assert read_answers(found.table("star")) == {row: 4 * n for row, n in answers.items()}
        assert found.metrics()["skew"] < 1.5
        assert [hot["is_split"] for hot in found.metrics()["hot_keys"]] == [True]


def test_many_queries_are_lanes(session, tmp_path):
    labels = [EX(f"l{n}") for n in range(4)]
    asked = {
        f"q{n}": f"SELECT DISTINCT ?y {{ ?x {label} ?y . ?z {label} ?w }}"
        for n, label in enumerate(labels)
    }
    batch = [Event(1, "+", (EX(n % 5), labels[n % 4], EX(n % 3))) for n in range(40)]
    stream = read_stream(session, write_all(tmp_path / "in", [batch]))
    with start(stream, asked, checkpoint=tmp_path / "state", partitions=2, trigger=NOW) as found:
        assert isinstance(found, Distributed)
        found.wait()
        assert sorted(placement.partitions for placement in found.layout.queries) == [
            (0,),
            (0,),
            (1,),
            (1,),
        ]
        for n in range(4):
            wanted = {(each.triple[2],): 1 for each in batch if each.triple[1] == labels[n]}
            assert read_answers(found.table(f"q{n}")) == wanted
        figures = found.metrics()
    assert figures["fan_out"] == 1
    assert figures["costs"].keys() == asked.keys()
    assert min(figures["costs"].values()) > 0
    assert all(report["delivered"] < 40 for report in figures["partitions"])


@pytest.mark.skipif(not SOAK, reason="test_partitions has it without Spark; make soak runs it")
def test_a_lane_that_costs_most_is_alone(session, tmp_path):
    """The same events, but filters on them take far longer, even more so under load."""
    labels = [EX(f"l{n}") for n in range(4)]
    asked = {}
    for n in range(4):
        first, *others = labels[n:] + labels[:n]
        beside = " . ".join(f"?s{i} {label} ?o{i}" for i, label in enumerate(others))
        # No key helps: the other atoms would be replicated.
        asked[f"q{n}"] = f"SELECT DISTINCT ?y {{ ?x {first} ?y . {beside} }}"
    filters = "".join(f" FILTER(?x != ?y || ?y = {EX(n)})" for n in range(20))
    asked["q3"] = asked["q3"].replace("}", filters + "}")
    ends = [(n, n % 7) if n % 4 == 3 else (0, 0) for n in range(1_200)]
    batch = [Event(1, "+", (EX(x), labels[n % 4], EX(y))) for n, (x, y) in enumerate(ends)]
    stream = read_stream(session, write_all(tmp_path / "in", [batch]))
    options: Any = {"checkpoint": tmp_path / "state", "trigger": NOW}

    wanted = oracle.answers(oracle.read_query(asked["q3"]), Counter(e.triple for e in batch))

    def list_alone(**more: Any) -> list[str]:
        with start(stream, asked, **{**options, **more}) as found:
            assert isinstance(found, Distributed)
            found.wait()
            assert read_answers(found.table("q3")) == wanted
            counts = Counter(placement.partitions for placement in found.layout.queries)
            return [
                placement.name
                for placement in found.layout.queries
                if counts[placement.partitions] == 1
            ]

    assert list_alone(partitions=3) != ["q3"]  # no statistics yet
    assert list_alone(partitions=2) == ["q3"]
    rows = make_table(batch)
    sample = pa.table({name: [None, *rows.column(name).to_pylist()] for name in rows.schema.names})
    assert list_alone(partitions=2, checkpoint=tmp_path / "other", sample=sample) == ["q3"]


def test_the_engine_is_in_the_driver_where_partitioning_does_not_help(session, tmp_path, caplog):
    stream = read_stream(session, write_all(tmp_path / "in", draw_batches(4, 1)))
    query = {"all": "SELECT * { ?x ?p ?y }"}
    for _ in range(2):
        with start(
            stream, query, checkpoint=tmp_path / "state", mode="distributed", trigger=NOW,
            views=False,
        ) as pipeline:  # fmt: skip
            assert isinstance(pipeline, Pipeline)
            pipeline.wait()
            assert look(pipeline.queries).answers["all"]
    assert "a predicate is a variable" in caplog.text
    assert "has its engine in the driver" in caplog.text


def test_what_is_refused(session, tmp_path):
    stream = read_stream(session, write_all(tmp_path / "in", draw_batches(4, 1)))

    def begin(queries=QUERIES, events=stream, **options: Any):
        return start(events, queries, checkpoint=tmp_path / "state", partitions=2, **options)

    with pytest.raises(WindowError, match="a window that advances by events"):
        begin(window=Window.triples(3))
    with pytest.raises(InputError, match="partitions cannot check whether an id was used"):
        begin(events=stream.withColumn("id", stream["subject"]))
    with pytest.raises(InputError, match="a window needs a time column"):
        begin(events=stream.drop("time"), window=Window(5))
    with pytest.raises(
        StateError, match="needs snapshots, which partitioned pipelines do not deliver"
    ):
        begin(sinks={"path": Sink(tmp_path, what="snapshot")})
    with pytest.raises(StateError, match="'memory_limit' is an option of an engine"):
        begin(memory_limit=10)
    with pytest.raises(InputError, match="the sample has no column 'object'"):
        begin(sample=pa.table({"subject": [1], "predicate": [EX("p")]}))
    with pytest.raises(ValueError, match="partitions must be at least 1"):
        start(stream, QUERIES, checkpoint=tmp_path / "state", partitions=0)
    assert not (tmp_path / "state").exists()
    with begin(trigger=NOW) as pipeline:
        assert isinstance(pipeline, Distributed)
        with pytest.raises(DirectoryInUse):
            begin()
        pipeline.wait()
        with pytest.raises(
            StateError, match="there is no query 'other'; the queries are path, twice"
        ):
            pipeline.table("other")
        with pytest.raises(
            StateError, match="batch 9 has not been committed yet; the last one is 0"
        ):
            pipeline.table("path", 9)
    with pytest.raises(StateError, match="belongs to a partitioned pipeline; set partitions"):
        start(stream, QUERIES, checkpoint=tmp_path / "state")
    with pytest.raises(StateError, match="was made with different queries"):
        begin({"path": QUERIES["path"]})


def test_a_sink_that_comes_later(session, tmp_path):
    """Changes before the sink existed are not delivered to it; later ones are."""
    batches = draw_batches(9, 3, rows=40, is_late=False)
    folder = tmp_path / "in"
    options: Any = {"checkpoint": tmp_path / "state", "partitions": 2, "trigger": NOW}
    stream = read_stream(session, write_all(folder, batches[:1]))
    with start(stream, QUERIES, **options) as pipeline:
        pipeline.wait()
        assert pipeline.metrics()["changes"] == 0
    write_batch(folder, 1, batches[1])
    write_batch(folder, 2, batches[2])
    with start(stream, QUERIES, sinks={"path": tmp_path / "path"}, **options) as pipeline:
        pipeline.wait()
        assert pipeline.metrics()["changes"] > 0
    last = expect(batches, "multigraph", False)[-1]
    assert sum_changes(tmp_path / "path", 1) == last.answers["path"]


def test_a_failed_delivery_is_repeated(session, tmp_path):
    batches = draw_batches(8, 3, rows=20)
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    told = []

    def fail_once(frame, batch):
        told.append((batch, sorted(map(str, frame.collect()))))
        if len(told) == 2:
            raise OSError("the disk of the sink is full")

    options: Any = {"checkpoint": tmp_path / "state", "partitions": 2, "trigger": NOW}
    told_of = pytest.raises(BatchFailed, match="batch 1: the disk of the sink is full")
    with start(stream, QUERIES, sinks={"path": fail_once}, **options) as pipeline, told_of:
        pipeline.wait()
    with start(stream, QUERIES, sinks={"path": fail_once}, **options) as pipeline:
        pipeline.wait()
    assert [batch for batch, _ in told] == [0, 1, 1, 2]
    assert told[1] == told[2]
