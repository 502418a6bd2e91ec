"""The formats by name, and what each can do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

from triegs.outputs.lines import CsvWriter, JsonLinesWriter, name_columns
from triegs.outputs.result_batch import Head, Multiplicity, ResultBatch, TermText
from triegs.outputs.results import SparqlCsvWriter, SparqlTsvWriter, SrjWriter, SrxWriter


class Format(StrEnum):
    """How answers are written."""

    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"
    SRJ = "srj"
    SRX = "srx"
    SPARQL_CSV = "sparql-csv"
    SPARQL_TSV = "sparql-tsv"


#: One document is one result of one query: no place for a second, nor for an epoch.
RESULTS: dict[Format, Any] = {
    Format.SRJ: SrjWriter,
    Format.SRX: SrxWriter,
    Format.SPARQL_CSV: SparqlCsvWriter,
    Format.SPARQL_TSV: SparqlTsvWriter,
}
#: Not for a terminal.
BINARY = frozenset({Format.ARROW, Format.PARQUET})
#: Several queries, each with columns of its own, fit into one stream of these.
MIXED = frozenset({Format.TABLE, Format.JSONL})
#: Only the first result fits into one stream of these.
SINGLE = frozenset({Format.SRX, Format.SPARQL_CSV, Format.SPARQL_TSV})

ENDINGS = {
    "csv": Format.CSV,
    "jsonl": Format.JSONL,
    "ndjson": Format.JSONL,
    "arrow": Format.ARROW,
    "arrows": Format.ARROW,
    "feather": Format.ARROW,
    "parquet": Format.PARQUET,
    "srj": Format.SRJ,
    "srx": Format.SRX,
    "tsv": Format.SPARQL_TSV,
    "txt": Format.TABLE,
}


class Writer(Protocol):
    """Writes the results of one query."""

    def write(self, result: ResultBatch) -> int:
        """Write the rows of a result; how many they are."""

    def close(self) -> None:
        """Write what stands behind the last result. The sink stays open."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is written, and how. None stands for what suits the format.

    `stamps` are the columns epoch and time. `most_rows` bounds the rows of a table, 0 for all.
    """

    format: Format = Format.TABLE
    multiplicity: Multiplicity | None = None
    terms: TermText | None = None
    stamps: bool = True
    most_rows: int = 0

    @property
    def counts(self) -> Multiplicity:
        if self.multiplicity is not None:
            return self.multiplicity
        return Multiplicity.EXPAND if self.format in RESULTS else Multiplicity.COLUMN


def find_format(path: str) -> Format | None:
    """The format that the ending of a file name tells.

    >>> find_format("out/{query}.parquet").value, find_format("answers")
    ('parquet', None)
    """
    return ENDINGS.get(path.rpartition(".")[2].lower()) if "." in path else None


def open_writer(
    sink: BinaryIO,
    head: Head,
    options: Options,
    *,
    is_mixed: bool = False,
    is_stream: bool = True,
    width: int | None = None,
    is_coloured: bool = False,
) -> Writer:
    r"""A writer of one query's results to a binary file.

    `is_mixed` says that other queries write there too; rows then name their query. `is_stream`
    chooses the form of Arrow IPC that can be read before it is complete.

    >>> from io import BytesIO
    >>> import pyarrow as pa
    >>> from triegs.outputs import Kind
    >>> batch = pa.record_batch({"x": pa.array(["<a:b>"]).dictionary_encode(), "multiplicity": [2]})
    >>> sink = BytesIO()
    >>> writer = open_writer(sink, Head("q", ("x",)), Options(Format.CSV))
    >>> writer.write(ResultBatch(Kind.SNAPSHOT, 3, 20, [batch]))
    1
    >>> sink.getvalue()
    b'epoch,time,x,multiplicity\n3,20,<a:b>,2\n'
    """
    counts = options.counts
    if options.format in RESULTS:
        writer: Writer = RESULTS[options.format](sink, head, counts)
        return writer
    if options.format is Format.TABLE:
        from triegs.outputs.table import TableWriter

        return TableWriter(
            sink, head, counts, options.terms or TermText.SHORT,
            most_rows=options.most_rows, width=width, is_coloured=is_coloured,
        )  # fmt: skip
    columns = name_columns(head, stamps=options.stamps, query=is_mixed, multiplicity=counts)
    arguments = (sink, head, columns, counts, options.terms or TermText.NTRIPLES)
    if options.format is Format.CSV:
        return CsvWriter(*arguments)
    if options.format is Format.JSONL:
        return JsonLinesWriter(*arguments)
    from triegs.outputs.columns import ArrowFileWriter, ArrowStreamWriter, ParquetWriter

    if options.format is Format.PARQUET:
        return ParquetWriter(*arguments)
    return ArrowStreamWriter(*arguments) if is_stream else ArrowFileWriter(*arguments)
