"""N-Triples and N-Quads: a kernel reads the common lines, pyoxigraph the unusual ones.

Lines are independent, so a malformed line affects no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyoxigraph as rdf

from triegs.events.bounds import MOST_NESTED, NESTED, TOO_NESTED
from triegs.events.context import FilePosition, ReadBatch, ReadContext, make_insertions
from triegs.events.files import InputFile
from triegs.events.graph_times import TimedGraphs
from triegs.events.lines import TOO_LONG, Lines, read_lines
from triegs.events.scan_kernels import UNUSUAL, copy_column, measure_column, split_statements
from triegs.reasons import Reason
from triegs.terms.arrays import Bytes, Words
from triegs.terms.term import canonical_term, scope_prefix
from triegs.terms.validation import is_utf8

PARTS = 4
TOGETHER = 64  # unusual lines per pyoxigraph call
GRAPH = 3
FORMATS = {"n-triples": rdf.RdfFormat.N_TRIPLES, "n-quads": rdf.RdfFormat.N_QUADS}


class StatementScanner:
    """Splits buffers of one file into statements; reuses its arrays between buffers."""

    def __init__(self, file: InputFile, context: ReadContext) -> None:
        self._file = file
        self._context = context
        self._format = FORMATS[file.format]
        self._prefix = np.frombuffer(scope_prefix(file.scope).encode(), np.uint8)
        rows = context.options.batch_rows
        self._spans = np.empty((rows, PARTS, 2), np.int64)
        self._lines = np.empty((rows, 3), np.int64)
        self._states = np.empty(rows, np.uint8)

    def split(self, data: Bytes, is_last: bool, most: int) -> tuple[int, int, int]:
        has_graph = self._file.format == "n-quads"
        return split_statements(
            data, 0, is_last, has_graph, self._spans, self._lines, self._states[:most]
        )

    def read(self, found: Lines) -> tuple[list[Any], Words]:
        """The columns subject, predicate, object, graph of the last `split`, and line numbers.

        The default graph is the empty string. Malformed lines are quarantined.
        """
        if found.is_too_long:
            record = bytes(found.data[: 1 << 17])
            self._context.quarantine.add(
                self._file.name, found.number, Reason.BAD_LINE, TOO_LONG, record
            )
        kept = np.arange(found.rows)
        extra = b""
        unusual = np.flatnonzero(self._states[: found.rows] == UNUSUAL)
        if len(unusual):
            extra, bad = self._read_unusual(found, unusual.tolist())
            kept = np.delete(kept, bad)
        columns = [
            make_column(found.data, extra, self._spans, part, kept, self._prefix)
            for part in range(PARTS)
        ]
        return columns, self._lines[kept, 2] + found.number

    def _read_unusual(self, found: Lines, rows: list[int]) -> tuple[bytes, list[int]]:
        """Parse lines with pyoxigraph: their concatenated terms, and the rejected rows."""
        pieces: list[bytes] = []
        bad: list[int] = []
        spans = self._lines[rows].tolist()
        data = found.data.data
        for first in range(0, len(rows), TOGETHER):
            lines = [bytes(data[start:end]) for start, end, _ in spans[first : first + TOGETHER]]
            try:
                pieces += self._read_together(lines)
                continue
            except (SyntaxError, ValueError, MemoryError):
                pass  # find the bad lines below
            for at, line in enumerate(lines, first):
                try:
                    pieces += self._read_together([line])
                except (SyntaxError, ValueError, MemoryError) as problem:
                    reason = Reason.BAD_TERM if type(problem) is ValueError else Reason.BAD_LINE
                    number = found.number + spans[at][2]
                    why = describe_problem(problem)
                    if not is_utf8(line):
                        reason = Reason.NOT_UTF8
                    self._context.quarantine.add(self._file.name, number, reason, why, line)
                    bad.append(rows[at])
        good = np.setdiff1d(rows, bad)
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64) + len(found.data)
        self._spans[good, :, 1] = ends.reshape(-1, PARTS)
        self._spans[good, :, 0] = np.concatenate([[len(found.data)], ends])[:-1].reshape(-1, PARTS)
        return b"".join(pieces), bad

    def _read_together(self, lines: list[bytes]) -> list[bytes]:
        """The terms of some lines, four per line; raises if a line is malformed."""
        if any(line.count(NESTED) > MOST_NESTED for line in lines):
            raise ValueError(TOO_NESTED)
        terms: list[bytes] = []
        for subject, predicate, term, graph in rdf.parse(b"\n".join(lines), format=self._format):
            name = b"" if type(graph) is rdf.DefaultGraph else write_term(graph)
            terms += (write_term(subject), write_term(predicate), write_term(term), name)
        if len(terms) != PARTS * len(lines):
            raise ValueError("the line does not contain exactly one statement")
        return terms


def write_term(term: Any) -> bytes:
    """A pyoxigraph term as canonical text; `ValueError` if it is not supported."""
    text = str(term)
    if type(term) is rdf.Triple or "--" in text:  # a triple term, or perhaps a text direction
        canonical_term(text)
    return text.encode()


def describe_problem(problem: Exception) -> str:
    """The pyoxigraph error without its location, which is relative to the parsed lines."""
    text = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    return str(text).partition(": ")[2] if str(text).startswith("Parser error") else str(text)


def make_column(
    data: Bytes, extra: bytes, spans: Words, part: int, rows: Words, prefix: Bytes | None
) -> Any:
    """The texts of spans as an Arrow array; ``prefix`` replaces the ``_:`` of blank nodes."""
    added = -1 if prefix is None else len(prefix) - 2
    others = np.frombuffer(extra, np.uint8)
    offsets = np.empty(len(rows) + 1, np.int64)
    measure_column(data, others, spans, part, rows, added, offsets)
    target = np.empty(int(offsets[-1]), np.uint8)
    front = others if prefix is None else prefix
    copy_column(data, others, spans, part, rows, front, offsets, target)
    ends = pa.py_buffer(offsets.astype(np.int32))
    return pa.StringArray.from_buffers(len(rows), ends, pa.py_buffer(target))


def read_statements(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    """Yield an event per statement. Its graph is dropped, or gives its time."""
    scanner = StatementScanner(file, context)
    graphs = TimedGraphs(file, context, position) if context.options.graph_time else None
    offset, number = position.get("offset", 0), position.get("line", 1)
    with file.open_text(offset) as chunks:
        rows = context.options.batch_rows
        is_live = file.path is None
        for found in read_lines(chunks, scanner.split, rows, offset, number, is_live):
            columns, lines = scanner.read(found)
            if graphs is not None:
                yield from graphs.add(columns, lines)
                continue
            times = context.clock.take(len(lines))
            position = {"offset": found.offset, "line": found.next_number}
            yield make_insertions(times, columns[:GRAPH]), position
    if graphs is not None:
        yield from graphs.finish()
