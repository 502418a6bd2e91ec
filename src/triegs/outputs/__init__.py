"""Answers out: tables, CSV, JSON lines, Arrow, Parquet, and the result formats of SPARQL.

`Outputs` takes `Step` after `Step` of the queries of a run and writes them to standard output or to
files; `open_writer` writes one query's steps to one binary file. Both stay columnar: texts are made
once per distinct term of a batch and put together by Arrow.
"""

from triegs.outputs.formats import Format, Options, find_format, open_writer
from triegs.outputs.sinks import CannotWrite, Outputs
from triegs.outputs.steps import Head, Kind, Multiplicity, Step, TermText

__all__ = [
    "CannotWrite",
    "Format",
    "Head",
    "Kind",
    "Multiplicity",
    "Options",
    "Outputs",
    "Step",
    "TermText",
    "find_format",
    "open_writer",
]
