"""Answers out: tables, CSV, JSON lines, Arrow, Parquet, and the result formats of SPARQL.

`Outputs` takes one `ResultBatch` after the other of the queries of a run and writes them to standard
output or to files; `open_writer` writes those of one query to one binary file. Both stay columnar:
texts are made once per distinct term of a batch and put together by Arrow.
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
