"""The data source ``triegs`` under the name ``faulty``, which kills Spark and its driver at a
point.

``FAULTY`` has the point, the batch and the driver's process id, such as ``"noted 2 4711"``. Spark
runs writers in separate processes, which import this module from ``PYTHONPATH``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triegs.spark.data_source import TriegsDataSource
from triegs.spark.inbox import staging
from triegs.spark.inbox.sink import StreamWriter


def kill_all(driver: int) -> None:
    """Kill the Java process above this one, the driver, and this one."""
    daemon = os.getppid()
    java = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    for process in (java, driver, os.getpid()):
        os.kill(process, signal.SIGKILL)


def fail_at(point: str, number: int) -> None:
    wanted, batch, driver = os.environ.get("FAULTY", "none 0 0").split()
    if (point, number) == (wanted, int(batch)):
        kill_all(int(driver))


def fail_before(function: Callable[..., Any], point: str, number: int) -> Callable[..., Any]:
    def call(*given: Any, **options: Any) -> Any:
        fail_at(point, number)
        return function(*given, **options)

    return call


class FaultyWriter(StreamWriter):
    def write(self, iterator: Any) -> Any:
        from pyspark import TaskContext

        found = super().write(iterator)
        fail_at("written", int(TaskContext.get().getLocalProperty("streaming.sql.batchId")))
        return found

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        fail_at("staged", batchId)
        functions = {"problems": "commit_batch", "committed": "write_claim"}
        before = {name: getattr(staging, name) for name in functions.values()}
        for point, name in functions.items():
            setattr(staging, name, fail_before(before[name], point, batchId))
        try:
            super().commit(messages, batchId)
        finally:
            for name, function in before.items():
                setattr(staging, name, function)
        fail_at("noted", batchId)


class Faulty(TriegsDataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: Any, overwrite: bool) -> FaultyWriter:  # noqa: N802
        return FaultyWriter(super().streamWriter(schema, overwrite)._target)
