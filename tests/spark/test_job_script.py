"""A job as a newcomer runs it, ``.venv/bin/python job.py`` without activating the environment; and
one whose session is stopped while a pipeline runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.streams import EX, make_table

from triegs.spark import SparkMissing
from triegs.spark.session import find_java, require_spark
from triegs.testing.window_oracle import Event

JOB = """
import json
import sys
from pyspark.sql import SparkSession
import triegs.spark

def main():
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    schema = "time long, op string, subject string, predicate string, object string"
    events = spark.readStream.schema(schema).parquet("in")
    with triegs.spark.start(
        events, {"all": "SELECT ?x { ?x <http://ex/p> ?y }"}, checkpoint="state",
        sinks={"all": "out"}, trigger={"availableNow": True},
    ) as pipeline:
        pipeline.wait()
        print("view", json.dumps(sorted(tuple(row) for row in spark.table("all").collect())))
        print("python", spark.sparkContext.pythonExec == sys.executable)
    print("rdf", spark.read.format("rdf").load("a.nt").count())
    with triegs.spark.start(
        events, {"all": "SELECT ?x { ?x <http://ex/p> ?y }"}, checkpoint="state",
        sinks={"all": "out"},
    ) as pipeline:
        pipeline.process_all()
        spark.stop()
        for wait in (pipeline.wait, pipeline.process_all):
            try:
                wait()
            except triegs.spark.BatchFailed as problem:
                print(wait.__name__, problem)
        with pipeline.queries["all"].snapshot() as snapshot:
            print("answers", snapshot.count(), pipeline.metrics()["batches"])
    print("closed", pipeline.engine)

main()
"""


@pytest.mark.skipif(os.name != "posix", reason="has a shell script for a python")
def test_a_plain_script(tmp_path: Path) -> None:
    """The python3 on PATH is a different one, which does not even run."""
    try:
        require_spark()
    except SparkMissing as missing:
        pytest.skip(str(missing))
    import pyarrow.parquet as pq

    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "a.nt").write_text("<a:b> <a:c> <a:d> .\n")
    (tmp_path / "in").mkdir()
    events = [Event(n, "+", (EX(n), EX("p"), EX(0))) for n in (1, 2)]
    pq.write_table(make_table(events), tmp_path / "in" / "0.parquet")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "python3"):
        (folder / name).write_text("#!/bin/sh\necho 'this is the python of PATH' >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    java = find_java()
    assert java is not None
    path = [str(folder), str(Path(java).parent), "/usr/bin", "/bin"]
    env = {"PATH": ":".join(path), "HOME": os.environ.get("HOME", str(tmp_path))}
    passed = (
        "JAVA_HOME", "PYTHONPATH", "SPARK_HOME", "SPARK_SUBMIT_OPTS", "TRIEGS_CACHE",
        "NUMBA_DISABLE_JIT",
    )  # fmt: skip
    for name in passed:
        if name in os.environ:
            env[name] = os.environ[name]
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert json.loads(told["view"]) == [[EX(1), 1], [EX(2), 1]]
    assert (told["python"], told["rdf"]) == ("True", "1")
    told_of = "the Spark session was stopped while the pipeline was running; "
    assert told["wait"].startswith(told_of)
    assert told["process_all"].startswith(told_of)
    assert told["answers"] == "2 0"
    assert told["closed"].startswith("<Engine multigraph, closed")
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 1
