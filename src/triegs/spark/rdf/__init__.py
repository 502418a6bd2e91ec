"""``format("rdf")``: files of RDF as rows of Spark, batch and stream.

Read in this order: `source` (what Spark asks), `settings` (options), `listing` (which files),
`cutting` (where files of lines may be cut), `parts` (what a task reads), `reading` (rows of a
part); for streams `seen` (in which order files came, and offsets) and `taking` (how much of that a
micro-batch has).
"""
