"""CSV and TSV with a header line.

CSV is quoted as in RFC 4180. A record is one line, because terms in N-Triples form contain no line
breaks; only plain or mapped cells may span several lines. TSV has no quoting: its cells are plain
terms, as in SPARQL TSV results.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.events.context import FilePosition, ReadBatch, ReadContext, TermReading, find_columns
from triegs.events.event_columns import Faults, shape_events
from triegs.events.files import InputFile
from triegs.events.lines import TOO_LONG, Lines, read_lines
from triegs.events.scan_kernels import (
    OPEN_QUOTE,
    PLAIN,
    TEXT_AFTER_QUOTE,
    WRONG_WIDTH,
    split_fields,
    split_lines,
)
from triegs.events.statements import make_column
from triegs.events.streams import skip_bytes, transcode
from triegs.reasons import Reason
from triegs.terms.arrays import Bytes

DELIMITERS = {"csv": ",", "tsv": "\t"}
NO_QUOTE = -1
REASONS = {
    OPEN_QUOTE: "a quote is not closed",
    TEXT_AFTER_QUOTE: "there is text after a closing quote",
}


class FieldScanner:
    """Splits buffers of one file into cells."""

    def __init__(self, file: InputFile, context: ReadContext, header: list[str] | None) -> None:
        self.header: list[str] = []
        self._file = file
        self._context = context
        self._delimiter = context.options.delimiter or DELIMITERS[file.format]
        quote = ord('"') if file.format == "csv" else NO_QUOTE
        is_long = context.options.terms is TermReading.PLAIN or context.options.mapping is not None
        self._form = (ord(self._delimiter), quote, is_long)
        rows = context.options.batch_rows
        self._lines = np.empty((rows, 3), np.int64)
        self._states = np.empty(rows, np.uint8)
        if header:
            self._set_header(header)

    def split(self, data: Bytes, is_last: bool, most: int) -> tuple[int, int, int]:
        if not self.header:
            rows, passed, lines = split_lines(data, 0, is_last, self._lines[:1])
            if rows:
                start, end, _ = self._lines[0].tolist()
                line = data[start:end].tobytes().decode("utf-8", "replace")
                is_csv = self._file.format == "csv"
                sign = self._delimiter
                cells = next(csv.reader([line], delimiter=sign)) if is_csv else line.split(sign)
                self._set_header([cell.strip() for cell in cells])
            return 0, passed, lines
        return split_fields(
            data, 0, is_last, self._form, self._wanted,
            self._spans, self._lines, self._states[:most],
        )  # fmt: skip

    def _set_header(self, header: list[str]) -> None:
        self.header = header
        columns = find_columns(header, self._file.name, self._context.options)
        read = sorted(set(columns.values()))  # a column may serve several purposes
        self._slots = {name: read.index(column) for name, column in columns.items()}
        self._wanted = np.full(len(header), -1, np.int64)
        self._wanted[read] = np.arange(len(read))
        self._spans = np.empty((len(self._states), len(read), 2), np.int64)

    def read(self, found: Lines) -> Any:
        """The events of the records found by the last `split`."""
        rows = found.rows
        faults = Faults()
        states = self._states[:rows]
        for row in np.flatnonzero(states != PLAIN).tolist():
            state = int(states[row])
            width = f"the line does not have {len(self.header)} fields"
            why = width if state == WRONG_WIDTH else REASONS[state]
            faults.add(row, Reason.BAD_LINE.describe(why))
        self._check_encoding(found, faults)
        if faults.reasons:
            self._spans[list(faults.reasons)] = 0
        numbers = np.arange(rows)
        columns = {}
        for name, slot in self._slots.items():
            column = make_column(found.data, b"", self._spans, slot, numbers, None)
            columns[name] = column if name in ("time", "op") else _empty_to_null(column)

        def locate(row: int) -> tuple[int, bytes]:
            start, end, number = self._lines[row].tolist()
            return found.number + number, found.data[start:end].tobytes()

        return shape_events(
            columns, rows, self._context, self._file.name, self._file.scope, locate, faults,
            lambda: (self._file.row_scope, found.number + self._lines[:rows, 2]),
        )  # fmt: skip

    def _check_encoding(self, found: Lines, faults: Faults) -> None:
        if not found.rows:
            return
        try:
            str(found.data[: self._lines[found.rows - 1, 1]].data, "utf-8")
        except UnicodeDecodeError:
            for row in range(found.rows):
                start, end, _ = self._lines[row].tolist()
                try:
                    str(found.data[start:end].data, "utf-8")
                except UnicodeDecodeError as problem:
                    faults.add(
                        row, Reason.NOT_UTF8.describe(f"byte {problem.start + 1} of the line")
                    )


def _empty_to_null(column: Any) -> Any:
    is_empty = pc.match_like(column, "")  # `pc.equal` would import pandas for its second argument
    if not is_empty.true_count:
        return column
    return pc.if_else(is_empty, pa.scalar(None, pa.string()), column)


def read_separated(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    scanner = FieldScanner(file, context, position.get("header"))
    offset, number = position.get("offset", 0), position.get("line", 1)
    encoding = context.options.encoding
    with file.open_bytes() if encoding else file.open_text(offset) as chunks:
        if encoding:
            chunks = skip_bytes(transcode(chunks, encoding), offset)
        rows = context.options.batch_rows
        is_live = file.path is None
        for found in read_lines(chunks, scanner.split, rows, offset, number, is_live):
            position = {
                "offset": found.offset,
                "line": found.next_number,
                "header": scanner.header,
            }
            if found.is_too_long:
                record = bytes(found.data[: 1 << 17])
                context.quarantine.add(file.name, found.number, Reason.BAD_LINE, TOO_LONG, record)
            elif found.rows:
                yield scanner.read(found), position
