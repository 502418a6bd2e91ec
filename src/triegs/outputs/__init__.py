"""Answers out: tables, CSV, JSON lines, Arrow, Parquet, and the result formats of SPARQL.

`Outputs` takes one `Bulletin` after the other of the queries of a run and writes them to standard
output or to files; `open_writer` writes those of one query to one binary file. Both stay columnar:
texts are made once per distinct term of a batch and put together by Arrow.
"""

from triegs.errors import CannotWrite
from triegs.outputs.bulletins import Bulletin, Head, Kind, Multiplicity, TermText
from triegs.outputs.formats import Format, Options, find_format, open_writer
from triegs.outputs.sinks import Outputs

__all__ = [
    "Bulletin",
    "CannotWrite",
    "Format",
    "Head",
    "Kind",
    "Multiplicity",
    "Options",
    "Outputs",
    "TermText",
    "find_format",
    "open_writer",
]
