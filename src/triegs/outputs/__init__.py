"""Writes answers as tables, CSV, JSON lines, Arrow, Parquet, and SPARQL result formats.

`Outputs` writes the `ResultBatch` objects of all queries of a run to standard output or files;
`open_writer` writes those of one query to one binary file. Both are columnar: each distinct term of
a batch is formatted once, and Arrow assembles the rows.
"""

from triegs.errors import CannotWrite
from triegs.outputs.formats import Format, Options, find_format, open_writer
from triegs.outputs.result_batch import Head, Kind, Multiplicity, ResultBatch, TermText
from triegs.outputs.sinks import Outputs

__all__ = [
    "CannotWrite",
    "Format",
    "Head",
    "Kind",
    "Multiplicity",
    "Options",
    "Outputs",
    "ResultBatch",
    "TermText",
    "find_format",
    "open_writer",
]
