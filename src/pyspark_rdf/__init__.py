"""How Spark discovers ``format("rdf")``: it imports all modules whose names start with
``pyspark_``.

It does so for any format that it does not know, so this import must not fail.
"""

from contextlib import suppress

with suppress(ImportError):
    from triegs.spark.rdf.source import RdfSource as DefaultSource

__all__ = ["DefaultSource"]
