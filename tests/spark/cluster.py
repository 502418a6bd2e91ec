"""A program that runs a partitioned pipeline on a cluster, with executors in separate processes.

``python -m tests.spark.cluster HOME MASTER MARK OPTIONS``; the options are JSON: ``partitions``,
``mode``, ``is_windowed`` and ``times``. It prints ``batch N`` as batches end, and lines of JSON:
while batches run, the results that a thread reads of committed batches; at the end, the final
answers, or with ``times`` those after each batch, what Spark recomputes for them, and the figures.
``MARK`` is in the command line of every executor.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from tests.spark.streams import QUERIES, SCHEMA, make_window, read_stream

from triegs.spark import Distributed, recompute, start

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.task.maxFailures": "50",
    "spark.deploy.maxExecutorRetries": "-1",
    # A killed executor must not exclude its machine.
    "spark.excludeOnFailure.enabled": "false",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.sql.session.timeZone": "UTC",
}


def make_session(master: str, mark: str, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("triegs tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.executor.extraJavaOptions", f"-Dtriegs.mark={mark}")
    builder = builder.config("spark.local.dir", str(folder / "local"))
    # Executors run the same Python.
    paths = os.pathsep.join(sys.path)
    builder = builder.config("spark.executorEnv.PYTHONPATH", paths)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def read(frame: Any) -> list[str]:
    return sorted(str((tuple(row)[:-1], row[-1])) for row in frame.collect())


def audit(pipeline: Distributed, is_over: Event, failures: list[Exception]) -> None:
    """Read results of random committed batches, one after the other."""
    random = Random(os.getpid())
    while not is_over.is_set():
        last = pipeline.batch
        if last is None:
            is_over.wait(0.1)
            continue
        name, batch = random.choice(list(QUERIES)), random.randrange(last + 1)
        try:
            say(batch=batch, name=name, read=read(pipeline.table(name, batch)))
        except Exception as problem:
            failures.append(problem)
            return


def compute_anew(session: Any, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The answers of each query at each of the times."""
    window = make_window(options["is_windowed"])
    log = session.read.schema(SCHEMA).parquet(str(folder))
    log = log.selectExpr("*", "monotonically_increasing_id() AS n").cache()
    found: dict[str, Any] = {}
    for name, text in QUERIES.items():
        anew = recompute(
            text, log, options["times"], mode=options["mode"], window=window, columns={"order": "n"}
        )
        by_time: dict[int, list[str]] = {}
        for time, *terms, count in anew.collect():
            by_time.setdefault(time, []).append(str((tuple(terms), count)))
        found[name] = {time: sorted(rows) for time, rows in by_time.items()}
    return found


def main(home: Path, master: str, mark: str, options: dict[str, Any]) -> None:
    session = make_session(master, mark, home)

    def tell(figures: dict[str, Any]) -> None:
        sys.stdout.write(f"batch {figures['spark']['batchId']}\n")
        sys.stdout.flush()

    with start(
        read_stream(session, home / "in"), QUERIES, checkpoint=home / "state",
        mode=options["mode"], window=make_window(options["is_windowed"]),
        partitions=options["partitions"], trigger={"availableNow": True}, on_progress=tell,
        sinks={name: home / "out" / name for name in QUERIES},
    ) as pipeline:  # fmt: skip
        assert isinstance(pipeline, Distributed)
        is_over = Event()
        failures: list[Exception] = []
        auditor = Thread(target=audit, args=(pipeline, is_over, failures))
        auditor.start()
        try:
            pipeline.wait()
        finally:
            is_over.set()
            auditor.join()
        if failures:
            raise failures[0]
        last = pipeline.batch
        assert last is not None
        batches = range(last + 1) if options["times"] else [last]
        shown = {b: {name: read(pipeline.table(name, b)) for name in QUERIES} for b in batches}
        anew = compute_anew(session, home / "in", options) if options["times"] else None
        figures = pipeline.metrics()
        del figures["spark"]
        say(answers=shown, anew=anew, figures=figures)
    session.stop()


if __name__ == "__main__":
    folder, where, name, asked = sys.argv[1:]
    main(Path(folder), where, name, json.loads(asked))
