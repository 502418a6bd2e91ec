"""Makes the format ``triegs`` known to Spark, which looks for packages of such names.

Spark imports all of them at once, so a failure here would take every other format down with it.
"""

from contextlib import suppress

with suppress(Exception):
    from triegs.spark.sink import TriegsDataSource as DefaultSource  # noqa: F401
