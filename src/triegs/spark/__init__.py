"""The data pipeline on Apache Spark: streams of events in, standing queries, answers out.

`start` keeps queries over any streaming DataFrame, in an engine that lives in the driver: see
`triegs.spark.pipeline`. `SparkSource` reads files by Spark for whatever drives an engine from a
source, as ``triegs run --engine spark`` does. ``docs/spark.md`` says what runs where.

Nothing of this package needs Spark to be imported.
"""

from __future__ import annotations

from triegs.spark.answers import Sink
from triegs.spark.failures import BatchFailed
from triegs.spark.pipeline import Pipeline, start
from triegs.spark.session import LocalSpark, SparkMissing
from triegs.spark.source import SparkSource

__all__ = [
    "BatchFailed", "LocalSpark", "Pipeline", "Sink", "SparkMissing", "SparkSource", "start",
]  # fmt: skip
