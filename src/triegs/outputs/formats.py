"""Output formats and their properties."""

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


#: A document holds one result of one query, without an epoch.
RESULTS: dict[Format, Any] = {
    Format.SRJ: SrjWriter,
    Format.SRX: SrxWriter,
    Format.SPARQL_CSV: SparqlCsvWriter,
    Format.SPARQL_TSV: SparqlTsvWriter,
}
#: Not written to a terminal.
BINARY = frozenset({Format.ARROW, Format.PARQUET})
#: One stream can hold several queries with different columns.
MIXED = frozenset({Format.TABLE, Format.JSONL})
#: One stream holds only one result batch.
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
    """Writes the result batches of one query."""

    def write(self, result: ResultBatch) -> int:
        """Write the rows of a result batch; returns their number."""

    def close(self) -> None:
        """Write the end of the document. The sink stays open."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to write, and how. None means the default of the format.

    `stamps` adds the columns epoch and time. `most_rows` limits the rows of a table; 0 means all.
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
    """The format of a file name extension, or None.

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
    r"""A writer for the result batches of one query.

    With `is_mixed`, other queries share the sink, and rows include the query name. `is_stream`
    selects the Arrow IPC stream format, which can be read before it is complete.

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
