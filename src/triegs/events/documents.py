"""Turtle, TriG and RDF/XML, statement by statement through pyoxigraph.

A statement can span many lines, so there is no offset to resume from: a resumed run reads the file
again and skips events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyoxigraph as rdf

from triegs.events.bounds import Bounded
from triegs.events.context import FilePosition, ReadBatch, ReadContext, make_insertions
from triegs.events.files import InputFile
from triegs.events.graph_times import TimedGraphs
from triegs.events.statements import describe_problem
from triegs.events.streams import BrokenFile, Unpacked
from triegs.reasons import Reason
from triegs.terms.term import canonical_term, scope_label, scope_prefix

FORMATS = {
    "turtle": rdf.RdfFormat.TURTLE,
    "trig": rdf.RdfFormat.TRIG,
    "rdf-xml": rdf.RdfFormat.RDF_XML,
}
# The label pyoxigraph gives to an unlabelled node: 128 random bits.
_DRAWN = re.compile(r"_:[0-9a-f]{24,32}")
MOST_PROBLEMS = 1_000  # consecutive, with no statement between them
MOST_TEXT = 16 << 20  # characters of a batch


class TermWriter:
    """Writes pyoxigraph terms as text. Blank nodes are scoped to the file and stable across reads.

    Unlabelled nodes are numbered in order of appearance, so that a resumed run finds them again.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._unlabelled = scope_prefix(f"{scope} without label")
        self._numbers: dict[str, str] = {}

    def write(self, term: Any) -> str:
        """The text of a term; `ValueError` if it is not supported."""
        text = str(term)
        if text[0] == "_":
            if _DRAWN.fullmatch(text):
                number = len(self._numbers)
                return self._numbers.setdefault(text, f"{self._unlabelled}{number}")
            return scope_label(text, self._scope)
        if type(term) is rdf.Triple or "--" in text:  # a triple term, or perhaps a text direction
            canonical_term(text)
        return text


def read_documents(
    file: InputFile, context: ReadContext, position: FilePosition
) -> Iterator[ReadBatch]:
    """Yield an event per statement. Its graph is dropped, or gives its time."""
    graphs = TimedGraphs(file, context, position) if context.options.graph_time else None
    skip = position.get("events", 0)
    given = 0
    with file.open_text() as chunks:
        for columns, lines in read_columns(file, context, chunks):
            if graphs is not None:
                yield from graphs.add(columns, np.array(lines))
                continue
            given += len(lines)
            skipped = min(skip, len(lines))
            skip -= skipped
            if skipped < len(lines):
                terms = [column[skipped:] for column in columns[:3]]
                times = context.clock.take(len(lines) - skipped)
                yield make_insertions(times, terms), {"events": given}
    if graphs is not None:
        yield from graphs.finish()


def read_columns(
    file: InputFile, context: ReadContext, chunks: Iterator[bytes]
) -> Iterator[tuple[list[Any], list[int]]]:
    """Columns of subject, predicate, object and graph, up to a batch of rows, with line numbers.

    Line numbers are unknown here and always 0. A batch ends before its rows do if its texts are
    large, because a long prefix can make much of a short file.
    """
    writer = TermWriter(file.scope)
    write = writer.write
    rows: list[tuple[str, str, str, str]] = []
    size = 0
    broken: BrokenFile | None = None
    problems = 0
    # Unbuffered: a failing read would lose the data read so far.
    bounded = Bounded(chunks, file.format)
    stream: Any = Unpacked(iter(bounded))
    statements = rdf.parse(stream, format=FORMATS[file.format])
    while True:
        try:
            for subject, predicate, term, graph in statements:
                bounded.note_statement()
                name = "" if type(graph) is rdf.DefaultGraph else write(graph)
                row = write(subject), write(predicate), write(term), name
                rows.append(row)
                size += sum(map(len, row))
                problems = 0
                if len(rows) >= context.options.batch_rows or size >= MOST_TEXT:
                    break
            else:
                break
        except BrokenFile as problem:
            broken = problem
            break
        except MemoryError as problem:  # a term too long for its buffer
            broken = BrokenFile(str(problem) or "out of memory")
            break
        except SyntaxError as problem:
            problems += 1
            line = problem.lineno or 0
            context.quarantine.add(
                file.name, line, Reason.BAD_STATEMENT, describe_problem(problem), ""
            )
            if problems >= MOST_PROBLEMS:
                broken = BrokenFile(f"more than {MOST_PROBLEMS} errors in a row")
                break
            continue
        except ValueError as problem:
            context.quarantine.add(file.name, 0, Reason.BAD_TERM, str(problem), "")
            continue
        yield _make_columns(rows), [0] * len(rows)
        rows, size = [], 0
    if rows:
        yield _make_columns(rows), [0] * len(rows)
    if broken is not None:
        raise broken


def _make_columns(rows: list[tuple[str, str, str, str]]) -> list[Any]:
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
