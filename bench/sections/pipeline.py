"""The pipeline on Spark, against the engine alone, Spark's own floor, and Spark SQL.

Every batch is a Parquet file. The engine alone reads the same files with pyarrow. Spark evaluates
the query at a slide with `triegs.spark.recompute`, over the events of the window.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.answers import WrongAnswer
from bench.report import Figure, Sense
from bench.run import Bench, LeftOut
from triegs import Engine, Window
from triegs.spark import LocalSpark, SparkMissing, recompute, start

EX = "<http://ex/{}>".format
QUERY = f"SELECT ?x ?y ?z {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z }}"
EVENTS, BATCHES, NODES = 1_000_000, 4, 200_000
RATE_GOALS = {"integers": 30.0, "strings": 15.0}
TINY_ROWS, TINY_BATCHES, SKIPPED, FLOOR_GOAL_MS = 10, 25, 8, 50.0
WINDOW_MS, SLIDE_MS, SLIDES, SPARK_GOAL = 30_000, 1_000, 100, 20.0
NOW = {"availableNow": True}


def measure_pipeline(bench: Bench) -> Iterator[Figure]:
    try:
        local = LocalSpark()
    except SparkMissing as missing:
        raise LeftOut(str(missing)) from None
    with local, TemporaryDirectory() as folder:
        session = local.get()
        for kind in RATE_GOALS:
            bench.say(f"a million events in a batch, {kind}")
            yield from _measure_rate(session, Path(folder) / kind, kind)
        bench.say("tiny batches")
        yield from _measure_floor(session, Path(folder) / "tiny")
        bench.say("slides, and Spark from scratch")
        yield from _measure_slides(session, Path(folder) / "slides")


def _draw(rng: np.random.Generator, rows: int, nodes: int, kind: str) -> pa.Table:
    """Edges between random nodes, half of them p and half q."""
    numbers = rng.integers(0, nodes, (2, rows))
    names = pa.array([EX(n) for n in range(nodes)])
    ends = [pa.array(n) if kind == "integers" else names.take(pa.array(n)) for n in numbers]
    labels = pa.array([EX("p"), EX("q")]).take(pa.array(rng.integers(0, 2, rows)))
    return pa.table([ends[0], labels, ends[1]], ["subject", "predicate", "object"])


def _write(folder: Path, tables: list[pa.Table]) -> list[Path]:
    """A file per table, in the order that Spark reads."""
    folder.mkdir(parents=True)
    paths = []
    for number, table in enumerate(tables):
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
        paths.append(path)
    return paths


def _read(session: Any, folder: Path) -> Any:
    schema = session.read.parquet(str(folder)).schema
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.option("maxFileAge", "36500d").parquet(str(folder))


def _run(events: Any, home: Path, **options: Any) -> tuple[list[dict[str, Any]], Any]:
    """The figures of each batch, and the final time and number of answers."""
    reported: dict[int, dict[str, Any]] = {}

    def report(figures: dict[str, Any]) -> None:
        reported[figures["spark"]["batchId"]] = figures

    with start(
        events, {"query": QUERY}, checkpoint=home, trigger=NOW, views=False, on_progress=report,
        **options,
    ) as pipeline:  # fmt: skip
        pipeline.wait()
        batches = pipeline.metrics()["batches"]
        _wait(lambda: len(reported) >= batches)
        with pipeline.queries["query"].snapshot() as snapshot:
            found = snapshot.time, snapshot.count()
    return [reported[batch] for batch in sorted(reported)], found


def _wait(is_so: Callable[[], bool]) -> None:
    for _ in range(300):
        if is_so():
            return
        sleep(0.1)


def _measure_rate(session: Any, folder: Path, kind: str) -> Iterator[Figure]:
    rng = np.random.default_rng(1)
    paths = _write(folder / "in", [_draw(rng, EVENTS, NODES, kind) for _ in range(BATCHES)])
    reports, (_, found) = _run(_read(session, folder / "in"), folder / "state")
    seconds = [each["spark"]["durationMs"]["triggerExecution"] / 1e3 for each in reports]
    alone = []
    with Engine() as engine:
        query = engine.register(QUERY)
        for path in paths:
            begun = perf_counter()
            engine.apply(pq.read_table(path))
            alone.append(perf_counter() - begun)
        with query.snapshot() as snapshot:
            if snapshot.count() != found:
                raise WrongAnswer(f"{found} answers with Spark, {snapshot.count()} without")
    # The first batch of a session starts its Python workers.
    ours, theirs = median(seconds[1:]), median(alone[1:])
    table = "a batch of a million"
    yield Figure(kind, "k events/s", EVENTS / ours / 1e3, table=table)
    yield Figure(kind, "engine alone, k events/s", EVENTS / theirs / 1e3, table=table)
    goal = RATE_GOALS[kind]
    yield Figure(kind, "of its rate", 100 * theirs / ours, "%", goal, table=table)
    remaining = ours
    for step in reports[-1]["timing"]:
        took = median(each["timing"][step] for each in reports[1:])
        remaining -= took
        yield Figure(kind, f"{step} ms", 1e3 * took, table="where its time goes")
    yield Figure(kind, "Spark's own ms", 1e3 * remaining, table="where its time goes")


def _measure_floor(session: Any, folder: Path) -> Iterator[Figure]:
    rng = np.random.default_rng(2)
    tables = [_draw(rng, TINY_ROWS, 50, "strings") for _ in range(TINY_BATCHES)]
    _write(folder / "in", tables)
    events = _read(session, folder / "in")
    writer = events.writeStream.foreachBatch(lambda *_: None)
    floor = writer.option("checkpointLocation", str(folder / "floor")).trigger(**NOW).start()
    floor.awaitTermination()
    below = [each["durationMs"]["triggerExecution"] for each in floor.recentProgress]
    reports, _ = _run(events, folder / "state")
    above = [each["spark"]["durationMs"]["triggerExecution"] for each in reports]
    ours, theirs = median(above[SKIPPED:]), median(below[SKIPPED:])
    table = "a tiny batch"
    yield Figure("ten events", "ms", ours, table=table)
    yield Figure("ten events", "empty foreachBatch ms", theirs, table=table)
    yield Figure(
        "ten events", "adds ms", ours - theirs, "", FLOOR_GOAL_MS, Sense.AT_MOST, table
    )  # fmt: skip


def _measure_joins(
    events: Any, folder: Path, window: Window, end: int
) -> Iterator[Figure]:  # fmt: skip
    """New answers, by a pipeline (which also delivers removed ones) and by a join of two streams.

    Two edges are an answer if some window has both; the last window ends at `end`.
    """
    from pyspark.sql import functions

    def take(frame: Any, _: int) -> None:
        frame.agg(functions.sum("change")).collect()

    reports, (_, found) = _run(events, folder / "delivered", window=window, sinks={"query": take})
    seconds = [each["spark"]["durationMs"]["triggerExecution"] / 1e3 for each in reports]
    timed = events.withColumn("at", functions.timestamp_millis("time")).withWatermark(
        "at", "1 millisecond"
    )
    sides = [
        timed.where(timed["predicate"] == EX(label)).alias(label) for label in "pq"
    ]  # fmt: skip
    near = f"p.at BETWEEN q.at - INTERVAL {WINDOW_MS} MILLISECONDS AND q.at + "
    near += f"INTERVAL {WINDOW_MS} MILLISECONDS"
    slide = f"ceil(greatest(p.time, q.time) / {SLIDE_MS}) * {SLIDE_MS}"
    both = f"p.object = q.subject AND {near} AND least(p.time, q.time) > {slide} - {WINDOW_MS}"
    both += f" AND {slide} <= {end}"
    joined = sides[0].join(sides[1], functions.expr(both))
    joined = joined.selectExpr("p.subject", "q.object", "least(p.time, q.time) AS since")
    live = [0]

    def add_rows(frame: Any, _: int) -> None:
        live[0] += frame.agg(functions.count_if(frame["since"] > end - WINDOW_MS)).first()[0]

    writer = joined.writeStream.foreachBatch(add_rows).trigger(**NOW)
    query = writer.option("checkpointLocation", str(folder / "joined")).start()
    query.awaitTermination()
    theirs = [
        each["durationMs"]["triggerExecution"] / 1e3
        for each in query.recentProgress
        if each["numInputRows"]
    ]
    if live[0] != found:
        raise WrongAnswer(f"{found} answers by the pipeline, {live[0]} by a join of streams")
    rates = [SLIDES / median(each[1:]) for each in (seconds, theirs)]
    row = "with all changes delivered"
    yield Figure(row, "slides/s", rates[0], table="slides")
    yield Figure(row, "a join of streams, slides/s", rates[1], table="slides")
    yield Figure(row, "times the join", rates[0] / rates[1], "x", SPARK_GOAL, table="slides")


def _measure_slides(session: Any, folder: Path) -> Iterator[Figure]:
    """An event each millisecond: batches of a hundred slides; the first fills the window."""
    rng = np.random.default_rng(3)
    rows = SLIDES * SLIDE_MS
    tables = []
    for number in range(3):
        times = pa.array(np.arange(rows) + number * rows)
        tables.append(_draw(rng, rows, 4_000, "integers").append_column("time", times))
    _write(folder / "in", tables)
    window = Window(WINDOW_MS, slide=SLIDE_MS)
    events = _read(session, folder / "in")
    yield from _measure_joins(events, folder, window, (3 * rows - 1) // SLIDE_MS * SLIDE_MS)
    reports, (time, found) = _run(events, folder / "state", window=window)
    batches = [each["spark"]["durationMs"]["triggerExecution"] / 1e3 for each in reports[1:]]
    ours = SLIDES / median(batches)
    log = session.read.parquet(str(folder / "in")).cache()
    log.count()
    count = None
    taken = []
    for end in (time - 2 * SLIDE_MS, time - SLIDE_MS, time):
        begun = perf_counter()
        live = log.where(f"time > {end - WINDOW_MS} AND time <= {end}")
        answers = recompute(QUERY, live, [end], window=window)
        count = answers.groupBy().sum("multiplicity").collect()[0][0]
        taken.append(perf_counter() - begun)
    if count != found:
        raise WrongAnswer(f"{found} answers by the pipeline, {count} by Spark SQL")
    theirs = 1 / min(taken)
    table = "slides"
    row = f"{WINDOW_MS:,} events, {SLIDE_MS:,} in and out"
    yield Figure(row, "slides/s", ours, table=table)
    yield Figure(row, "Spark SQL anew, slides/s", theirs, table=table)
    yield Figure(row, "times that", ours / theirs, "x", SPARK_GOAL, table=table)
