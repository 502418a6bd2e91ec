"""One run of a partitioned pipeline on single-core executors: ``python -m bench.partitions_job
HOME``.

``HOME/job.json`` has ``executors``, ``partitions`` and ``window_ms``. Every two files in
``HOME/in`` are a batch. Prints the figures of each batch as a line of JSON, and finally the number
of answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from triegs import Window
from triegs.spark import Distributed, start

EX = "<http://ex/{}>".format
QUERY = f"SELECT ?x ?y ?z {{ ?x {EX('p')} ?y . ?y {EX('q')} ?z . ?u {EX('r')} ?z }}"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.sql.session.timeZone": "UTC",
}


def main(home: Path) -> None:
    from pyspark.sql import SparkSession

    asked = json.loads((home / "job.json").read_text(encoding="utf-8"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local-cluster[{asked['executors']},1,1024]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(home / "local"))
    builder = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    schema = session.read.parquet(str(home / "in")).schema
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 2)
    events = reader.option("maxFileAge", "36500d").parquet(str(home / "in"))

    def report(figures: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(figures) + "\n")

    with start(
        events, {"query": QUERY}, checkpoint=home / "state", partitions=asked["partitions"],
        window=Window(asked["window_ms"], slide=1_000), trigger={"availableNow": True},
        on_progress=report,
    ) as pipeline:  # fmt: skip
        assert isinstance(pipeline, Distributed)
        pipeline.wait()
        sys.stdout.write(json.dumps({"total": pipeline.count("query")}) + "\n")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
