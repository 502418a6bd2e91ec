"""JSON lines: one object on each line.

Arrow parses whole buffers. Where it cannot, because a line is malformed or a column mixes types,
Python's own parser reads line by line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from triegs.errors import BadTerm, InputError
from triegs.events.context import (
    TERMS,
    FilePosition,
    ReadBatch,
    ReadContext,
    key_cell,
    list_mapped_columns,
    refuse_untimed,
)
from triegs.events.event_columns import Faults, shape_events
from triegs.events.files import InputFile
from triegs.events.lines import TOO_LONG, Lines, read_lines
from triegs.events.scan_kernels import split_lines
from triegs.reasons import Reason, shorten
from triegs.terms.arrays import Bytes, Words
from triegs.terms.values import write_value

OPENING, CLOSING = ord("{"), ord("}")
#: Lines with more brackets are not given to Arrow: its stack overflows at some ten thousand.
MOST_OPEN = 1_000


class ObjectScanner:
    """Splits buffers of one file into objects."""

    def __init__(self, file: InputFile, context: ReadContext, is_timed: bool | None) -> None:
        self._file = file
        self._context = context
        self.is_timed = is_timed  # decided by the first record
        options = context.options
        self._is_mapped = options.mapping is not None
        self._wanted = dict(options.columns)
        self._cells: tuple[str, ...] = TERMS
        if options.mapping is not None:
            cells = {key_cell(name): name for name in options.mapping.columns}
            self._wanted = list_mapped_columns(options) | cells
            self._cells = tuple(cells)
        self._names: list[str] = []  # of the first record
        self._lines = np.empty((context.options.batch_rows, 3), np.int64)
        #: What keeps Arrow from reading times itself: it accepts other spellings and years.
        self._texts: pa.Schema | None = None

    def split(self, data: Bytes, is_last: bool, most: int) -> tuple[int, int, int]:
        return split_lines(data, 0, is_last, self._lines[:most])

    def read(self, found: Lines) -> Any:
        """The events of the records found by the last `split`."""
        faults = Faults()
        columns = self._read_quickly(found)
        if columns is None:
            columns = self._read_carefully(found, faults)
        self._check_columns(columns, found.rows, faults)

        def locate(row: int) -> tuple[int, bytes]:
            start, end, number = self._lines[row].tolist()
            return found.number + number, found.data[start:end].tobytes()

        return shape_events(
            columns, found.rows, self._context, self._file.name, self._file.scope, locate, faults,
            lambda: (self._file.row_scope, found.number + self._lines[: found.rows, 2]),
        )  # fmt: skip

    def _read_quickly(self, found: Lines) -> dict[str, Any] | None:
        """All columns through Arrow, or None if it fails or disagrees with the lines."""
        starts, ends = self._lines[: found.rows, 0], self._lines[: found.rows, 1]
        block = found.data[: ends[-1]]
        is_trimmed = (block[ends - 1] == CLOSING).all() and (block[starts] == OPENING).all()
        if not is_trimmed or self._context.options.terms != "ntriples" or _is_deep(block, starts):
            return None
        try:
            str(block.data, "utf-8")  # Arrow does not check
            table = self._parse(block)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            self._texts = None  # the times of the next ones may be numbers
            return None
        if table.num_rows != found.rows or len(set(table.column_names)) != table.num_columns:
            return None
        self._names = table.column_names
        columns = {}
        for ours, theirs in self._wanted.items():
            if theirs not in table.column_names:
                continue
            column = table.column(theirs).combine_chunks()
            kind = column.type
            if not pa.types.is_string(kind) and not pa.types.is_int64(kind):
                return None
            columns[ours] = column
        return columns

    def _parse(self, block: Bytes) -> Any:
        """The table of Arrow's parser, with times as texts if some are; or one of its errors."""
        # A single block, so that each column has a single type.
        options = pj.ReadOptions(use_threads=False, block_size=max(len(block), 1))
        name = self._wanted.get("time")
        while True:
            parsing = pj.ParseOptions(explicit_schema=self._texts)
            table = pj.read_json(pa.BufferReader(pa.py_buffer(block)), options, parsing)
            at = -1 if name is None else table.schema.get_field_index(name)
            if at < 0 or not pa.types.is_timestamp(table.schema.field(at).type):
                return table
            self._texts = pa.schema([(name, pa.string())])

    def _read_carefully(self, found: Lines, faults: Faults) -> dict[str, Any]:
        values: dict[str, list[Any]] = {}
        names = self._wanted
        # A mapping keeps the digits of a number as written.
        read = partial(json.loads, parse_float=str if self._is_mapped else None)
        spans = self._lines[: found.rows].tolist()
        data = found.data.data
        for row in range(found.rows):
            start, end, _ = spans[row]
            record: Any = None
            try:
                record = read(bytes(data[start:end]))
                if not isinstance(record, dict):
                    faults.add(
                        row, Reason.BAD_LINE.describe(f"not a JSON object: {shorten(record)}")
                    )
            except UnicodeDecodeError as problem:
                faults.add(row, Reason.NOT_UTF8.describe(f"byte {problem.start + 1} of the line"))
            except (ValueError, RecursionError) as problem:
                faults.add(row, Reason.BAD_LINE.describe(f"not JSON: {problem}"))
            if not isinstance(record, dict):
                continue
            self._names = self._names or list(record)
            for ours, theirs in names.items():
                value = record.get(theirs)
                if value is not None:
                    if ours not in values:
                        values[ours] = [None] * found.rows
                    values[ours][row] = value
        return {name: _make_column(name, values[name], faults) for name in names if name in values}

    def _check_columns(self, columns: dict[str, Any], rows: int, faults: Faults) -> None:
        """Fill in missing columns; the first record decides which ones are required."""
        bad = faults.reasons
        first = next((row for row in range(rows) if row not in bad), None)
        if first is None:
            columns.clear()
        elif self.is_timed is None:
            for name in () if self._is_mapped else TERMS:
                theirs = self._context.options.columns[name]
                if name not in columns:
                    raise InputError(
                        f"{self._file.name}: no record has a member {theirs!r}",
                        file=self._file.name,
                    )
            mapping = self._context.options.mapping
            if mapping is not None and not any(name in columns for name in self._cells):
                what = f"no record of {self._file.name} has the"
                raise mapping.refuse_column(mapping.columns[0], self._names, what)
            self.is_timed = "time" in columns and columns["time"][first].is_valid
            if "time" in self._context.options.given:
                self.is_timed = True
            if self._is_mapped and self._context.options.is_timed and not self.is_timed:
                raise refuse_untimed(self._file.name, self._names)
        for name in (*self._cells, *(("time",) if self.is_timed else ())):
            columns.setdefault(name, pa.nulls(rows, pa.string()))
        if not self.is_timed and "time" in columns:
            for row in range(rows):
                if columns["time"][row].is_valid:
                    why = "the first record has no time, so no record may"
                    faults.add(row, Reason.BAD_TIME.describe(why))
            del columns["time"]


def _is_deep(block: Bytes, starts: Words) -> bool:
    """Whether a line may be nested too deeply for Arrow's stack."""
    data = block.tobytes()
    if data.count(b"{") + data.count(b"[") <= len(starts) + MOST_OPEN:
        return False
    opens = ((block == OPENING) | (block == ord("["))).astype(np.int64)
    return bool((np.add.reduceat(opens, starts) > MOST_OPEN).any())


def _make_column(name: str, values: list[Any], faults: Faults) -> Any:
    """An Arrow column of mixed values; unsupported ones are faults."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int} and all(-(1 << 63) <= v < 1 << 63 for v in values if v is not None):
        return pa.array(values, pa.int64())
    texts: list[str | None] = []
    for row, value in enumerate(values):
        text = None
        if isinstance(value, dict | list):
            why = f"{name}: neither a string nor a number: {shorten(value)}"
            faults.add(row, Reason.BAD_LINE.describe(why))
        elif value is not None:
            try:
                is_text = isinstance(value, str)
                text = value if is_text or name not in TERMS else write_value(value)
                text = text if isinstance(text, str) else json.dumps(text)
                text.encode()
            except (BadTerm, UnicodeEncodeError) as problem:
                faults.add(row, Reason.BAD_TERM.describe(f"{name}: {problem}"))
                text = None
        texts.append(text)
    return pa.array(texts, pa.string())


def read_json_lines(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    scanner = ObjectScanner(file, context, position.get("timed"))
    offset, number = position.get("offset", 0), position.get("line", 1)
    with file.open_text(offset) as chunks:
        rows = context.options.batch_rows
        is_live = file.path is None
        for found in read_lines(chunks, scanner.split, rows, offset, number, is_live):
            if found.is_too_long:
                record = bytes(found.data[: 1 << 17])
                context.quarantine.add(file.name, found.number, Reason.BAD_LINE, TOO_LONG, record)
            elif found.rows:
                batch = scanner.read(found)
                position = {"offset": found.offset, "line": found.next_number}
                yield batch, {**position, "timed": scanner.is_timed}
