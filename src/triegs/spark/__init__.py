"""Events that Apache Spark reads: the first, thin pipeline, for files and one process.

`session` starts Spark in local mode, `ordering` decides which files one streaming query reads,
`source` turns its micro-batches into batches of events, as `triegs.inputs` does without Spark.
So whatever drives an engine from a source drives it from Spark as well.

Not here yet: any streaming DataFrame as input, state that survives with the number of the last
batch (exactly once), answers as a sink, engines on several machines. ``docs/spark.md`` says more.

Nothing of this package needs Spark to be imported.
"""

from __future__ import annotations

from triegs.spark.session import LocalSpark, SparkMissing
from triegs.spark.source import SparkSource

__all__ = ["LocalSpark", "SparkMissing", "SparkSource"]
