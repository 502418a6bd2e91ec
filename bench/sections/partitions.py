"""A partitioned pipeline: what a batch costs its state store, how often engines are reused, and the
speedup of a second executor beside the law of replication.

Executors are processes of one core. The answers of every run are compared with those of an engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.answers import WrongAnswer
from bench.partitions_job import EX, QUERY
from bench.report import Figure, Sense
from bench.run import Bench, LeftOut
from bench.sections.pipeline import _write
from triegs import Engine, Window
from triegs.durable.source import QuerySource
from triegs.partition.keys import plan_partitions
from triegs.partition.layout import lay_out
from triegs.partition.statistics import StreamStatistics
from triegs.spark import SparkMissing
from triegs.spark.encoded_batch import EncodedBatch
from triegs.spark.partitioned.job import Job, make_job
from triegs.spark.partitioned.partition import Partition
from triegs.spark.partitioned.routing import make_router
from triegs.spark.session import require_spark
from triegs.sparql import parse

#: Rows of a batch, and the number of nodes: for the speedup, and for a window that grows.
ROWS, GROWING_ROWS = 200_000, 60_000
#: Batches, and the first ones, in which the JVMs still compile.
BATCHES, SKIPPED = 20, 8
#: The share of r, which goes to all partitions; p and q share the remainder equally.
REPLICATED = 0.2
BATCH_MS, WINDOW_MS = 1_000, 4_000
GROWTH_GOAL, HIT_GOAL = 1.3, 95.0


def measure_partitions(bench: Bench) -> Iterator[Figure]:
    try:
        require_spark()
    except SparkMissing as missing:
        raise LeftOut(str(missing)) from None
    with TemporaryDirectory() as folder:
        home = Path(folder)
        bench.say("two executors")
        two = _run(home / "two", executors=2, partitions=2, window_ms=WINDOW_MS)
        bench.say("one executor")
        one = _run(home / "one", executors=1, partitions=1, window_ms=WINDOW_MS)
        bench.say("the same without Spark")
        alone = [_run_alone(home / "two" / "in", partitions) for partitions in (1, 2)]
        yield from _compare(one, two, alone[0] / alone[1])
        growing: Any = {"rows": GROWING_ROWS, "executors": 2, "partitions": 2}
        bench.say("a small window")
        less = _run(home / "less", window_ms=WINDOW_MS, **growing)
        bench.say("a window of ten times the size")
        more = _run(home / "more", window_ms=10 * WINDOW_MS, begins=40, **growing)
        yield from _grow(less, more)


def _draw(rng: np.random.Generator, batch: int, rows: int) -> pa.Table:
    ends = rng.integers(0, rows, (2, rows))
    labels = pa.array([EX("p"), EX("q"), EX("r")])
    shares = [(1 - REPLICATED) / 2, (1 - REPLICATED) / 2, REPLICATED]
    chosen = labels.take(pa.array(rng.choice(3, rows, p=shares)))
    times = np.sort(rng.integers(0, BATCH_MS, rows)) + batch * BATCH_MS
    names = ["time", "subject", "predicate", "object"]
    return pa.table([times, ends[0], chosen, ends[1]], names)


def _run(home: Path, *, rows: int = ROWS, begins: int = 0, **asked: int) -> list[dict[str, Any]]:
    """The figures of each batch after the first ones; `begins` batches fill the window in one."""
    rng = np.random.default_rng(1)
    tables = [_draw(rng, batch, rows) for batch in range(begins + BATCHES)]
    if begins:
        tables = [pa.concat_tables(tables[:begins]), *tables[begins:]]
    # Two files per batch, like a topic with partitions: the first stage can use two cores, too.
    _write(home / "in", [half for table in tables for half in _halve(table)])
    (home / "job.json").write_text(json.dumps(asked), encoding="utf-8")
    program = [sys.executable, "-m", "bench.partitions_job", str(home)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=1_200)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    *figures, last = printed
    with Engine(window=Window(asked["window_ms"], slide=1_000)) as engine:
        query = engine.register(QUERY)
        for table in tables:
            engine.push(table)
            engine.advance()
        with query.snapshot() as snapshot:
            if snapshot.count() != last["total"]:
                raise WrongAnswer(f"{last['total']} answers, {snapshot.count()} of one engine")
    return figures


def _halve(table: pa.Table) -> list[pa.Table]:
    middle = table.num_rows // 2
    return [table.slice(0, middle), table.slice(middle)]


def _run_alone(folder: Path, partitions: int) -> float:
    """Seconds of the slowest partition of a batch; each partition has a process, and there is no
    Spark.
    """
    sources = {"query": QuerySource(QUERY, "query", None, (), None, {})}
    layout = lay_out({"query": sources["query"].parse()}, partitions)
    window = Window(WINDOW_MS, slide=1_000)
    job = make_job(layout, sources, None, window, None, None, is_timed=True)
    with get_context("spawn").Pool(partitions) as pool:
        files = sorted(folder.glob("*.parquet"))
        take = partial(_take_all, job, list(zip(files[::2], files[1::2], strict=True)))
        seconds = pool.map(take, range(partitions), chunksize=1)
    return float(median(max(each) for each in list(zip(*seconds, strict=True))[SKIPPED:]))


def _take_all(job: Job, batches: list[tuple[Path, Path]], number: int) -> list[float]:
    """Seconds of a partition for each batch."""
    columns = {name: name for name in ("time", "subject", "predicate", "object")}
    route = make_router(columns, job)
    partition, newest, seconds = Partition(job, number), None, []
    for paths in batches:
        table = pa.concat_tables(map(pq.read_table, paths))
        routed = pa.Table.from_batches(route(iter(table.to_batches())))
        rows = routed.filter(pc.equal(routed.column("slot"), job.slots[number])).to_pylist()
        mine = [
            EncodedBatch(row["task"], row["number"], row["kind"], row["payload"]) for row in rows
        ]
        begun = perf_counter()
        _, newest = partition.take(mine, newest)
        seconds.append(perf_counter() - begun)
    partition.close()
    return seconds


def _time(figures: list[dict[str, Any]]) -> float:
    """Seconds of a batch."""
    return float(median(each["spark"]["durationMs"]["triggerExecution"] / 1e3 for each in figures))


def _engine_time(figures: list[dict[str, Any]]) -> float:
    """Seconds of the slowest partition of a batch."""
    return float(
        median(max(partition["engine_s"] for partition in each["partitions"]) for each in figures)
    )


def _compare(
    one: list[dict[str, Any]], two: list[dict[str, Any]], alone: float
) -> Iterator[Figure]:
    observed = StreamStatistics({EX("p"): (1 - REPLICATED) / 2, EX("q"): (1 - REPLICATED) / 2,
                         EX("r"): REPLICATED})  # fmt: skip
    chosen = plan_partitions(parse(QUERY), 2, observed).chosen
    assert chosen is not None
    table = "a second executor"
    last = two[-1]
    sent = last["sent"]
    copied = last["labels"][EX("r")] / sent
    yield Figure("replicated events, f", "measured", copied, table=table)
    yield Figure("replicated events, f", "by the law", chosen.replicated, table=table)
    yield Figure("deliveries of an event", "measured", last["fan_out"], table=table)
    yield Figure("deliveries of an event", "by the law", 1 + copied, table=table)
    law = chosen.find_speedup(2)
    ours = _engine_time(one[SKIPPED:]) / _engine_time(two[SKIPPED:])
    yield Figure("speed-up of the engines", "measured", ours, "x", table=table)
    yield Figure("speed-up of the engines", "without Spark", alone, "x", table=table)
    yield Figure("speed-up of the engines", "by the law", law, "x", table=table)
    whole = _time(one[SKIPPED:]) / _time(two[SKIPPED:])
    yield Figure("speed-up of a whole batch", "measured", whole, "x", table=table)
    yield Figure("speed-up of a whole batch", "by the law", law, "x", table=table)
    steady = two[SKIPPED:]
    hits = steady[-1]["hits"] - two[SKIPPED - 1]["hits"]
    looked = hits + steady[-1]["builds"] - two[SKIPPED - 1]["builds"]
    yield Figure("engines found", "%", 100 * hits / looked, "%", HIT_GOAL, table="engines found")


def _grow(less: list[dict[str, Any]], more: list[dict[str, Any]]) -> Iterator[Figure]:
    table = "a window of ten times the size"
    for row, read in (
        (
            "bytes to the state store",
            lambda each: sum(p["written_bytes"] for p in each["partitions"]),
        ),
        (
            "ms for the state of a partition",
            lambda each: 1e3 * max(p["state_s"] for p in each["partitions"]),
        ),
        ("ms of a batch", lambda each: each["spark"]["durationMs"]["triggerExecution"]),
    ):
        small, large = (median(map(read, each[SKIPPED:])) for each in (less, more))
        yield Figure(row, f"{WINDOW_MS // 1_000} s", small, table=table)
        yield Figure(row, f"{WINDOW_MS // 100} s", large, table=table)
        goal = GROWTH_GOAL if row != "ms of a batch" else None
        yield Figure(row, "ratio", large / small, "x", goal, Sense.AT_MOST, table)
