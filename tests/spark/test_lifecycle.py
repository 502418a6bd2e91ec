"""How a pipeline ends: stopped while its source is busy, from a sink, or by its source."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.spark.streams import (
    EX,
    QUERIES,
    SCHEMA,
    draw_batches,
    expect,
    look,
    read_sink,
    read_stream,
    sum_changes,
    write_all,
)

from triegs import Engine, StateError
from triegs.spark import BatchFailed, start
from triegs.testing.window_oracle import Event

NOW = {"availableNow": True}
QUERY = {"path": QUERIES["path"]}
#: A limit for what must not hang; nothing is measured by it.
PATIENCE = 300


@pytest.fixture
def session(spark):
    return spark.get()


def run_within(call) -> None:
    """Call it in a thread, and fail if it does not return."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as problem:
            raised.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it hangs"
    if raised:
        raise raised[0]


@pytest.mark.parametrize("partitions", [None, 2])
def test_it_is_closed_while_the_source_is_busy(session, tmp_path, partitions):
    """The next batch is always available, so Spark starts it while the last one ends."""
    batches = [[Event(n, "+", (EX(n), EX("p"), EX(0)))] for n in range(30)]
    stream = read_stream(session, write_all(tmp_path / "in", batches))
    is_in, may_go_on = threading.Event(), threading.Event()

    def hold_up(_: Any, batch: int) -> None:
        if batch == 1:
            is_in.set()
            may_go_on.wait(PATIENCE)

    pipeline = start(
        stream, QUERY, checkpoint=tmp_path / "state", partitions=partitions,
        sinks={"path": hold_up},
    )  # fmt: skip
    waited: list[bool] = []
    waiting = threading.Thread(target=lambda: waited.append(pipeline.wait()), daemon=True)
    waiting.start()
    assert is_in.wait(PATIENCE)
    closing = threading.Thread(target=pipeline.close, daemon=True)
    closing.start()
    may_go_on.set()
    closing.join(PATIENCE)
    assert not closing.is_alive(), "close() waits for Spark, and Spark for close()"
    waiting.join(PATIENCE)
    assert waited == [True]
    assert pipeline.failure is None
    assert not pipeline.query.isActive
    run_within(pipeline.stop)
    run_within(pipeline.close)


def test_a_sink_stops_its_pipeline(session, tmp_path):
    batches = draw_batches(3, 6)
    told: list[int] = []
    refused: list[str] = []

    def stop_soon(_: Any, batch: int) -> None:
        is_started.wait(PATIENCE)
        told.append(batch)
        if batch == 1:
            running[0].stop()
            try:
                running[0].close()
            except StateError as problem:
                refused.append(str(problem))

    is_started, running = threading.Event(), []
    sinks = {"path": [tmp_path / "out", stop_soon]}
    folder = write_all(tmp_path / "in", batches)
    options: Any = {"checkpoint": tmp_path / "state", "sinks": sinks, "views": False}
    with start(read_stream(session, folder), QUERY, **options) as pipeline:
        running.append(pipeline)
        is_started.set()
        run_within(pipeline.wait)
        assert told == [0, 1]
        assert refused == ["a sink cannot close its pipeline; it can stop it"]
        with pytest.raises(BatchFailed, match="the pipeline was stopped"):
            pipeline.process_all()
        shown = look(pipeline.queries)
        assert shown.answers["path"] == expect(batches[:2], "multigraph", False)[-1].answers["path"]
    with start(read_stream(session, folder), QUERY, **options, trigger=NOW) as pipeline:
        pipeline.wait()
    assert told == [0, 1, 2, 3, 4, 5]
    wanted = expect(batches, "multigraph", False)[-1].answers["path"]
    assert sum_changes(tmp_path / "out") == wanted
    assert read_sink(tmp_path / "out")


@pytest.mark.parametrize("partitions", [None, 2])
def test_a_callback_exits(session, tmp_path, partitions):
    """Spark waits for an answer, which it would never get."""

    def exit_soon(*_: Any) -> None:
        raise SystemExit("that is all")

    stream = read_stream(session, write_all(tmp_path / "in", draw_batches(3, 2)))
    options: Any = {"checkpoint": tmp_path / "state", "partitions": partitions, "views": False}
    with start(stream, QUERY, **options, trigger=NOW, sinks={"path": exit_soon}) as pipeline:
        with pytest.raises(BatchFailed, match="batch 0: that is all"):
            run_within(pipeline.wait)
        run_within(pipeline.stop)
    with start(stream, QUERY, **options, trigger=NOW, on_progress=exit_soon) as pipeline:
        run_within(pipeline.wait)


def test_a_failing_source_is_reported_in_its_own_words(session, tmp_path):
    """And not in those of the query plan."""
    from pyspark.sql import functions
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self):  # noqa: N802
            return {"n": 0}

        def read(self, start):
            raise RuntimeError("the upstream said no: 503")

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "failing"

        def schema(self):
            return SCHEMA

        def simpleStreamReader(self, schema):  # noqa: N802
            return Reader()

    session.dataSource.register(Source)
    stream = read_stream(session, write_all(tmp_path / "in", draw_batches(3, 1)))
    (tmp_path / "rdf").mkdir()
    (tmp_path / "rdf" / "a.nt").write_text("<a:b> <a:c> <a:d> .\nnonsense\n")
    rdf = session.readStream.format("rdf").option("mode", "FAILFAST").load(str(tmp_path / "rdf"))
    for number, (events, told) in enumerate([
        (session.readStream.format("failing").load(),
         "Spark failed: RuntimeError: the upstream said no: 503"),
        (stream.withColumn("time", functions.expr("cast('abc' as bigint)")),
         r"Spark failed: \[CAST_INVALID_INPUT\] The value 'abc' of "),
        (rdf, "batch 0: .*a.nt, line 2: bad line"),
    ]):  # fmt: skip
        with (
            start(
                events, QUERIES, checkpoint=tmp_path / str(number), trigger=NOW, views=False
            ) as pipeline,
            pytest.raises(BatchFailed, match=told) as caught,
        ):
            pipeline.wait()
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is not None


def test_an_engine_is_closed_by_what_it_calls(tmp_path):
    """The engine holds no lock while it calls its subscribers."""
    with Engine.open(tmp_path / "engine") as engine:
        query = engine.register(QUERIES["path"], "path")
        is_over = threading.Event()

        def close(_: Any) -> None:
            engine.close()
            is_over.set()

        subscription = query.subscribe(callback=close)
        run_within(lambda: is_over.wait(PATIENCE))
        assert is_over.is_set()
        run_within(subscription.close)
        with pytest.raises(StateError, match="closed"):
            engine.apply([("+", 1, EX("p"), 2)])
