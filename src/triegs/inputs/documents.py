"""Turtle, TriG and RDF/XML, statement by statement through pyoxigraph.

A statement may go over many lines, so there is no place in the file to go on from: whoever resumes
reads the file again and skips events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyoxigraph as rdf

from triegs.inputs.bounds import Bounded
from triegs.inputs.files import InputFile
from triegs.inputs.graph_times import TimedGraphs
from triegs.inputs.statements import tell_problem
from triegs.inputs.streams import BrokenFile, Unpacked
from triegs.inputs.work import Found, Place, Work, make_insertions
from triegs.reasons import Reason
from triegs.terms import canonical_term, scope_label, scope_prefix

FORMATS = {
    "turtle": rdf.RdfFormat.TURTLE,
    "trig": rdf.RdfFormat.TRIG,
    "rdf-xml": rdf.RdfFormat.RDF_XML,
}
# What pyoxigraph calls nodes that have no label: 128 random bits.
_DRAWN = re.compile(r"_:[0-9a-f]{24,32}")
MOST_PROBLEMS = 1_000  # in a row, without a statement between them


class TermWriter:
    """Terms of pyoxigraph as text. Blank nodes are the file's own, and the same in every reading.

    Nodes without a label are numbered as they come: a run that is resumed must find them again.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._unlabelled = scope_prefix(f"{scope} without label")
        self._numbers: dict[str, str] = {}

    def write(self, term: Any) -> str:
        """The text of a term; `ValueError` for what is none of ours."""
        text = str(term)
        if text[0] == "_":
            if _DRAWN.fullmatch(text):
                number = len(self._numbers)
                return self._numbers.setdefault(text, f"{self._unlabelled}{number}")
            return scope_label(text, self._scope)
        if type(term) is rdf.Triple or "--" in text:  # a triple, perhaps a direction of text
            canonical_term(text)
        return text


def read_documents(file: InputFile, work: Work, place: Place) -> Iterator[Found]:
    """Every statement is an event; its graph is left out, or tells its time."""
    graphs = TimedGraphs(file, work, place) if work.options.graph_time else None
    skip = place.get("events", 0)
    given = 0
    with file.open_text() as chunks:
        for columns, lines in read_columns(file, work, chunks):
            if graphs is not None:
                yield from graphs.add(columns, np.array(lines))
                continue
            given += len(lines)
            skipped = min(skip, len(lines))
            skip -= skipped
            if skipped < len(lines):
                terms = [column[skipped:] for column in columns[:3]]
                times = work.clock.take(len(lines) - skipped)
                yield make_insertions(times, terms), {"events": given}
    if graphs is not None:
        yield from graphs.finish()


def read_columns(
    file: InputFile, work: Work, chunks: Iterator[bytes]
) -> Iterator[tuple[list[Any], list[int]]]:
    """Columns of subject, predicate, object and graph, up to a batch of rows; the line of each is
    not known and 0.
    """
    writer = TermWriter(file.scope)
    write = writer.write
    rows: list[tuple[str, str, str, str]] = []
    broken: BrokenFile | None = None
    problems = 0
    # Not buffered: a read that fails would lose what it has.
    bounded = Bounded(chunks, file.format)
    stream: Any = Unpacked(iter(bounded))
    statements = rdf.parse(stream, format=FORMATS[file.format])
    while True:
        try:
            for subject, predicate, term, graph in statements:
                bounded.note_statement()
                name = "" if type(graph) is rdf.DefaultGraph else write(graph)
                rows.append((write(subject), write(predicate), write(term), name))
                problems = 0
                if len(rows) >= work.options.batch_rows:
                    break
            else:
                break
        except BrokenFile as problem:
            broken = problem
            break
        except MemoryError as problem:  # a term that is too long for its buffer
            broken = BrokenFile(str(problem) or "there is not enough memory")
            break
        except SyntaxError as problem:
            problems += 1
            line = problem.lineno or 0
            work.quarantine.add(file.name, line, Reason.BAD_STATEMENT, tell_problem(problem), "")
            if problems >= MOST_PROBLEMS:
                broken = BrokenFile(f"more than {MOST_PROBLEMS} errors in a row")
                break
            continue
        except ValueError as problem:
            work.quarantine.add(file.name, 0, Reason.BAD_TERM, str(problem), "")
            continue
        yield _make_columns(rows), [0] * len(rows)
        rows = []
    if rows:
        yield _make_columns(rows), [0] * len(rows)
    if broken is not None:
        raise broken


def _make_columns(rows: list[tuple[str, str, str, str]]) -> list[Any]:
    return [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
