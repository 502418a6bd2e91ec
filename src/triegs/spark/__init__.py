"""Events that Apache Spark reads: the first, thin pipeline, for files and one process.

`session` starts Spark in local mode, `ordering` decides which files one streaming query reads,
`source` turns its micro-batches into batches of events, as `triegs.inputs` does without Spark.
So whatever drives an engine from a source drives it from Spark as well.

Not here yet: any streaming DataFrame as input, state that survives with the number of the last
batch (exactly once), answers as a sink, engines on several machines. ``docs/spark.md`` says more.

Nothing of this package needs Spark to be imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triegs.spark.generating import generate
    from triegs.spark.recomputing import recompute
    from triegs.spark.session import LocalSpark, SparkMissing
    from triegs.spark.source import SparkSource

_HOME = {
    "LocalSpark": "session",
    "SparkMissing": "session",
    "SparkSource": "source",
    "generate": "generating",
    "recompute": "recomputing",
}

__all__ = ["LocalSpark", "SparkMissing", "SparkSource", "generate", "recompute"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: Spark's workers import this package for a small part of it.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
