"""``format("rdf")``: RDF files as rows of Spark, batch and streaming.

Read in this order: `source` (Spark's interface), `settings` (options), `listing` (which files),
`cutting` (line boundaries), `splits` (what a task reads), `reading` (rows of a split); for streams
`file_log` (the order of files, and offsets) and `batch_limits` (the size of a micro-batch).
"""
