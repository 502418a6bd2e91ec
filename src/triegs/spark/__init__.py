"""Streaming graph queries on Apache Spark: streams of events in, standing queries, changes out.

`start` maintains queries over any streaming DataFrame, with an engine in the driver
(`triegs.spark.driver`) or one per partition in the executors (`triegs.spark.partitioned`).
`changes` is the changes of a partitioned query as a stream. `recompute` evaluates a query with
Spark SQL, `derive` closes triples under rules, `generate` writes workloads.
``spark.read.format("rdf")`` reads RDF files (`triegs.spark.rdf`), and
``df.writeStream.format("triegs")`` writes to the inbox of an engine (`triegs.spark.inbox`); Spark
discovers both formats where this package is installed. `SparkSource` reads files for
``triegs run --engine spark``. ``docs/spark.md`` describes what runs where.

The package can be imported without Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triegs.spark.answers import Sink
    from triegs.spark.deriving import derive
    from triegs.spark.driver.pipeline import Pipeline
    from triegs.spark.failures import BatchFailed
    from triegs.spark.file_source import SparkSource
    from triegs.spark.generating import generate
    from triegs.spark.launch import start
    from triegs.spark.partitioned.pipeline import Distributed
    from triegs.spark.partitioned.streaming import changes
    from triegs.spark.recomputing import recompute
    from triegs.spark.session import LocalSpark, SparkMissing, register

_HOME = {
    "BatchFailed": "failures",
    "Distributed": "partitioned.pipeline",
    "LocalSpark": "session",
    "Pipeline": "driver.pipeline",
    "Sink": "answers",
    "SparkMissing": "session",
    "SparkSource": "file_source",
    "changes": "partitioned.streaming",
    "derive": "deriving",
    "generate": "generating",
    "recompute": "recomputing",
    "register": "session",
    "start": "launch",
}

__all__ = [
    "BatchFailed", "Distributed", "LocalSpark", "Pipeline", "Sink", "SparkMissing", "SparkSource",
    "changes", "derive", "generate", "recompute", "register", "start",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded on first use: Spark's workers need only a small part of this package.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
