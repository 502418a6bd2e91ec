"""How Spark discovers ``format("triegs")``: it imports all modules whose names start with
``pyspark_``.

It imports them together, so a failure here would break every other format.
"""

from contextlib import suppress

with suppress(Exception):
    from triegs.spark.data_source import TriegsDataSource as DefaultSource  # noqa: F401
