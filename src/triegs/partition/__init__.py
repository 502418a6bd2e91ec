"""How a stream is partitioned: the key of a query, the layout of several, and statistics.

Read in this order: `statistics` (what is known about a stream), `sampling` (the same from a
sample), `keys` (the partitioning key of one query), `layout` (routes and placements of several).
"""
