"""A program that runs a pipeline in parts on a cluster, with executors in processes of their own.

``python -m tests.spark.cluster HOME MASTER PARTITIONS MARK``. It prints ``batch N`` as batches end,
and at last a line of JSON: what the queries show after each batch that can still be read, and the
figures. ``MARK`` is in the command line of every executor.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.spark.streams import QUERIES, make_window, read_stream

from triegs.spark import Distributed, start

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.task.maxFailures": "50",
    "spark.deploy.maxExecutorRetries": "-1",
    # A killed executor is no reason to shun its machine.
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
    # Executors have what we have.
    paths = os.pathsep.join(sys.path)
    builder = builder.config("spark.executorEnv.PYTHONPATH", paths)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def main(home: Path, master: str, partitions: int, mark: str) -> None:
    session = make_session(master, mark, home)

    def tell(figures: dict[str, Any]) -> None:
        print("batch", figures["spark"]["batchId"], flush=True)

    with start(
        read_stream(session, home / "in"), QUERIES, checkpoint=home / "state",
        window=make_window(True), partitions=partitions, trigger={"availableNow": True},
        sinks={name: home / "out" / name for name in QUERIES}, on_progress=tell,
    ) as pipeline:  # fmt: skip
        assert isinstance(pipeline, Distributed)
        pipeline.wait()
        shown: dict[str, Any] = {}
        batch = pipeline.batch
        for name in QUERIES:
            rows = pipeline.table(name).collect()
            shown[name] = sorted(str((tuple(row)[:-1], row[-1])) for row in rows)
        figures = pipeline.metrics()
        del figures["spark"]
        print(json.dumps({"batch": batch, "answers": shown, "figures": figures}), flush=True)
    session.stop()


if __name__ == "__main__":
    folder, where, count, name = sys.argv[1:]
    main(Path(folder), where, int(count), name)
