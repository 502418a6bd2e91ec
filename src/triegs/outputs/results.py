"""The SPARQL 1.1 result formats: JSON, XML, CSV and TSV. Each result batch is a document.

They have no epochs or multiplicities: by default an answer is repeated by its multiplicity. With a
multiplicity column, the count is an additional variable of type xsd:integer.
"""

from __future__ import annotations

from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from triegs.outputs.lines import Cells, Speller, join_rows, spell_numbers, write_rows
from triegs.outputs.result_batch import Head, Kind, Multiplicity, ResultBatch, arrange, pick_name
from triegs.outputs.texts import (
    join,
    keep_ntriples,
    quote_csv,
    quote_json,
    spell_plain,
    spell_srj,
    spell_srx,
)
from triegs.terms.term import XSD

INTEGER = f"^^<{XSD}integer>"


class ResultWriter:
    """Common base of the four formats: start, rows of cells, end; or the answer of an ASK."""

    #: Whether several documents may follow one another in one file.
    is_sequence = False
    row_start, separator, row_end = "", "", ""

    def __init__(self, sink: BinaryIO, head: Head, multiplicity: Multiplicity) -> None:
        self.sink = sink
        self.head = head
        self.multiplicity = multiplicity
        self.spellers = [Speller(partial(self.spell, name), self.unbound()) for name in head.names]

    def unbound(self) -> str:
        return ""

    def spell(self, name: str, terms: Any) -> Any:
        """The cells of a column."""
        raise NotImplementedError

    def begin(self, names: list[str]) -> str:
        raise NotImplementedError

    def end(self) -> str:
        return ""

    def answer(self, verdict: str) -> str:
        """The document of an ASK."""
        raise NotImplementedError

    def write(self, result: ResultBatch) -> int:
        """Write a document; returns its number of rows."""
        if self.head.is_ask:
            return self._write_answer(result)
        names = list(self.head.names)
        is_counted = self.multiplicity is Multiplicity.COLUMN or result.kind is Kind.CHANGES
        count = ""
        if is_counted:
            count = "multiplicity" if result.kind is Kind.SNAPSHOT else "change"
            count = pick_name(count, names)
            names.append(count)
        self.sink.write(self.begin(names).encode())
        written = 0
        for batch in arrange(result, self.head, self.multiplicity):
            cells = [
                speller.spell(column)
                for speller, column in zip(self.spellers, batch.columns, strict=False)
            ]
            if count:
                texts, indices = spell_numbers(batch.column(batch.num_columns - 1))
                cells.append(Cells(self.spell(count, join('"', texts, '"' + INTEGER)), indices))
            self.put(self._join(cells, batch.num_rows), written == 0)
            written += batch.num_rows
        self.sink.write(self.end().encode())
        return written

    def _join(self, cells: list[Cells], rows: int) -> Any:
        if not cells:
            return join_rows(cells, [self.row_start + self.row_end], rows)
        inner = [self.separator for _ in cells[1:]]
        return join_rows(cells, [self.row_start, *inner, self.row_end], rows)

    def put(self, rows: Any, is_first: bool) -> None:  # noqa: ARG002
        """Write the rows of a batch."""
        write_rows(self.sink, rows)

    def _write_answer(self, result: ResultBatch) -> int:
        for batch in arrange(result, self.head, self.multiplicity):
            for verdict in batch.column(0).to_pylist():
                self.sink.write(self.answer("true" if verdict else "false").encode())
        return 1

    def close(self) -> None:
        """A document is complete when it is written."""


class SrjWriter(ResultWriter):
    """SPARQL 1.1 Query Results JSON, one line per document."""

    is_sequence = True
    row_start, row_end = ",{", "}"

    def spell(self, name: str, terms: Any) -> Any:
        return join(f",{_quote(name)}:", spell_srj(terms))

    def begin(self, names: list[str]) -> str:
        variables = ",".join(map(_quote, names))
        return f'{{"head":{{"vars":[{variables}]}},"results":{{"bindings":['

    def end(self) -> str:
        return "]}}\n"

    def answer(self, verdict: str) -> str:
        return f'{{"head":{{}},"boolean":{verdict}}}\n'

    def put(self, rows: Any, is_first: bool) -> None:
        # Each member starts with a comma, because the members before it may be unbound.
        rows = pc.replace_substring(rows, ",{,", ",{", max_replacements=1)
        write_rows(self.sink, rows, skip=1 if is_first else 0)


class SrxWriter(ResultWriter):
    """SPARQL Query Results XML Format."""

    row_start, row_end = "<result>", "</result>\n"

    def spell(self, name: str, terms: Any) -> Any:
        return join(f'<binding name="{name}">', spell_srx(terms), "</binding>")

    def begin(self, names: list[str]) -> str:
        variables = "".join(f'<variable name="{name}"/>' for name in names)
        return f"{XML_START}<head>{variables}</head>\n<results>\n"

    def end(self) -> str:
        return "</results>\n</sparql>\n"

    def answer(self, verdict: str) -> str:
        return f"{XML_START}<head/>\n<boolean>{verdict}</boolean>\n</sparql>\n"


class SparqlCsvWriter(ResultWriter):
    """SPARQL 1.1 Query Results CSV: plain texts, without datatypes and languages."""

    separator, row_end = ",", "\r\n"

    def unbound(self) -> str:
        # An empty line would not be a row.
        return '""' if len(self.head.names) == 1 else ""

    def spell(self, name: str, terms: Any) -> Any:  # noqa: ARG002
        return quote_csv(spell_plain(terms))

    def begin(self, names: list[str]) -> str:
        return ",".join(names) + self.row_end

    def answer(self, verdict: str) -> str:
        return verdict + self.row_end


class SparqlTsvWriter(ResultWriter):
    """SPARQL 1.1 Query Results TSV: terms in N-Triples form, which contains no tabs."""

    separator, row_end = "\t", "\n"

    def spell(self, name: str, terms: Any) -> Any:  # noqa: ARG002
        return keep_ntriples(terms)

    def begin(self, names: list[str]) -> str:
        return "\t".join(f"?{name}" for name in names) + self.row_end

    def answer(self, verdict: str) -> str:
        return verdict + self.row_end


XML_START = '<?xml version="1.0" encoding="UTF-8"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'


def _quote(text: str) -> str:
    quoted: str = quote_json(pa.array([text]))[0].as_py()
    return quoted
