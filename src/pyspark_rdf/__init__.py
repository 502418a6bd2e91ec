"""How Spark finds ``format("rdf")``: it looks into all modules whose names start with ``pyspark_``.

It does so whenever it meets a format that it does not know, so this must not fail.
"""

from contextlib import suppress

with suppress(ImportError):
    from triegs.spark.rdf.source import RdfSource as DefaultSource

__all__ = ["DefaultSource"]
