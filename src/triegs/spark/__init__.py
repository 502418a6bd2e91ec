"""The data pipeline on Apache Spark: streams of events in, standing queries, answers out.

`start` keeps queries over any streaming DataFrame, in an engine that lives in the driver (see
`triegs.spark.pipeline`) or in parts in the executors (`triegs.spark.distributed`). `changes` are
those of such parts, as a stream. `recompute` answers a query by Spark SQL, `generate` writes
workloads.
``spark.read.format("rdf")`` reads files of RDF, and ``df.writeStream.format("triegs")`` writes to
the inbox of an engine; both names are known where this package is installed. `SparkSource` reads
files by Spark for ``triegs run --engine spark``. ``docs/spark.md`` says what runs where.

Nothing of this package needs Spark to be imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triegs.spark.answers import Sink
    from triegs.spark.distributed.pipeline import Distributed
    from triegs.spark.distributed.streaming import changes
    from triegs.spark.failures import BatchFailed
    from triegs.spark.generating import generate
    from triegs.spark.pipeline import Pipeline, start
    from triegs.spark.recomputing import recompute
    from triegs.spark.session import LocalSpark, SparkMissing, register
    from triegs.spark.source import SparkSource

_HOME = {
    "BatchFailed": "failures",
    "Distributed": "distributed.pipeline",
    "LocalSpark": "session",
    "Pipeline": "pipeline",
    "Sink": "answers",
    "SparkMissing": "session",
    "SparkSource": "source",
    "changes": "distributed.streaming",
    "generate": "generating",
    "recompute": "recomputing",
    "register": "session",
    "start": "pipeline",
}

__all__ = [
    "BatchFailed", "Distributed", "LocalSpark", "Pipeline", "Sink", "SparkMissing", "SparkSource",
    "changes", "generate", "recompute", "register", "start",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded on first use: Spark's workers import this package for a small part of it.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
