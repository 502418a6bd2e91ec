"""Rows of a file split, by the readers of `triegs.events`.

Each row has a ``position``: its line number in N-Triples and N-Quads, its statement number in other
formats. A malformed record is a row without terms that describes the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.errors import InputError
from triegs.events.context import Clock, Options, ReadContext, TermReading
from triegs.events.documents import read_columns
from triegs.events.files import InputFile
from triegs.events.frames import keep_terms, read_frame_rows
from triegs.events.graph_times import TimedGraphs
from triegs.events.lines import read_lines
from triegs.events.report import LONGEST_WRITTEN, InputReport, Quarantine
from triegs.events.statements import StatementScanner
from triegs.events.streams import CHUNK, BrokenFile, drop_mark
from triegs.reasons import Reason
from triegs.spark.rdf.listing import is_by_line, open_file
from triegs.spark.rdf.settings import BY_LINE, RecordMode, Settings
from triegs.spark.rdf.splits import FileSplit, is_readable
from triegs.terms.arrays import Words

BATCH_ROWS = 32_768
TERMS = ("subject", "predicate", "object", "graph")
TEXT, NUMBER = pa.string(), pa.int64()
TYPES = {"position": NUMBER, "time": NUMBER}  # of columns that are not strings


class Problem(NamedTuple):
    """A malformed record; ``position`` is None if it is unknown."""

    position: int | None
    text: str
    record: str | None


class Rows(NamedTuple):
    """Statements as columns of four terms (empty for the default graph), and the problems among
    them.
    """

    terms: list[Any]
    positions: Words
    problems: list[Problem]
    times: Words | None = None


class Collector(Quarantine):
    """Collects malformed records, or raises at the first."""

    def __init__(self, *, is_strict: bool) -> None:
        super().__init__(InputReport(), None, is_strict, append=False)
        self._found: list[tuple[int, str, str | bytes]] = []

    def add(self, file: str, line: int, reason: Reason, detail: str, record: str | bytes) -> None:
        super().add(file, line, reason, detail, record)
        self._found.append((line, str(reason.describe(detail)), record))

    def drain(self, *, is_counted: bool) -> list[Problem]:
        """The records collected since the last call; ``is_counted``: their lines are positions."""
        found, self._found = self._found, []
        problems = []
        for line, text, record in found:
            if not is_counted and line:
                text = f"line {line}: {text}"
            shown = _show(record)
            problems.append(Problem(line if is_counted else None, text, shown or None))
        return problems


def _show(record: str | bytes) -> str:
    if isinstance(record, str):
        record = record[:LONGEST_WRITTEN].encode("utf-8", "backslashreplace")
    return record[: 4 * LONGEST_WRITTEN].decode("utf-8", "backslashreplace")[:LONGEST_WRITTEN]


def read_split(
    split: FileSplit, settings: Settings, columns: list[tuple[str, bool]]
) -> Iterator[Any]:
    """Record batches of a split with these columns, in file order.

    Memory is bounded by the batch size and the longest record. A file that cannot be read to its
    end yields a row with that problem after the rows before it, or raises `InputError`.
    """
    file = open_file(split.path, settings)
    if not is_readable(split, settings, may_be_longer=is_by_line(file, settings)):
        return
    work = _make_work(settings)
    collector = work.quarantine
    assert isinstance(collector, Collector)
    rows = _read_rows(file, split, settings, work, collector)
    if settings.graph_time is not None:
        rows = _add_times(rows, TimedGraphs(file, work, {}), collector)
    try:
        for each in rows:
            yield from _make_batch(each, file, settings, columns)
    except BrokenFile as problem:
        is_permitted = settings.mode is RecordMode.PERMISSIVE and not _is_passing(problem)
        if not is_permitted:
            raise InputError(f"{file.name}: {problem}", file=file.name) from problem
        broken = [*collector.drain(is_counted=file.format in BY_LINE)]
        broken.append(Problem(None, f"broken file: {problem}", None))
        yield from _make_batch(_make_empty(broken), file, settings, columns)


def _is_passing(problem: BrokenFile) -> bool:
    """Whether the disk failed rather than the file: a retry may succeed."""
    cause = problem.__cause__
    return isinstance(cause, OSError) and cause.errno is not None


def _make_work(settings: Settings) -> ReadContext:
    options = Options(
        columns={},
        given=frozenset(),
        terms=TermReading.NTRIPLES,
        prefixes={},
        batch_rows=BATCH_ROWS,
        graph_time=settings.graph_time,
    )
    collector = Collector(is_strict=settings.mode is RecordMode.FAILFAST)
    return ReadContext(options, Clock(0), collector, InputReport())


def _read_rows(
    file: InputFile, split: FileSplit, settings: Settings, work: ReadContext, collector: Collector
) -> Iterator[Rows]:
    if is_by_line(file, settings):
        yield from _scan(file, split, _read_range(split), work, collector)
    elif file.format in BY_LINE:
        with file.open_text() as chunks:
            yield from _scan(file, split, chunks, work, collector)
    else:
        number = 0
        for terms in _read_statements(file, work):
            count = len(terms[0])
            positions = np.arange(number + 1, number + count + 1)
            yield Rows(terms, positions, collector.drain(is_counted=False))
            number += count
        yield _make_empty(collector.drain(is_counted=False))


def _scan(
    file: InputFile,
    split: FileSplit,
    chunks: Iterator[bytes],
    work: ReadContext,
    collector: Collector,
) -> Iterator[Rows]:
    scanner = StatementScanner(file, work)
    rows = work.options.batch_rows
    for found in read_lines(chunks, scanner.split, rows, split.begin, split.line, False):
        terms, lines = scanner.read(found)
        yield Rows(terms, lines, collector.drain(is_counted=True))


def _read_range(split: FileSplit) -> Iterator[bytes]:
    chunks = _read_bytes(split)
    return chunks if split.begin else drop_mark(chunks)


def _read_bytes(split: FileSplit) -> Iterator[bytes]:
    try:
        with Path(split.path).open("rb") as file:
            file.seek(split.begin)
            left = split.end - split.begin
            while left:
                chunk = file.read(min(left, CHUNK))
                if not chunk:
                    raise InputError(
                        f"{split.path} shrank while it was being read", file=split.path
                    )
                left -= len(chunk)
                yield chunk
    except OSError as problem:
        raise InputError(f"{split.path}: {problem.strerror}", file=split.path) from problem


def _read_statements(file: InputFile, work: ReadContext) -> Iterator[list[Any]]:
    """Columns of the four terms, for formats that are not line-based."""
    if file.format == "jelly":
        for frame in read_frame_rows(file):
            kept = keep_terms(frame, file, work, len(TERMS))
            for at in range(0, len(kept), work.options.batch_rows):
                piece = kept[at : at + work.options.batch_rows]
                yield [pa.array(column, TEXT) for column in zip(*piece, strict=True)]
        return
    with file.open_text() as chunks:
        for columns, _ in read_columns(file, work, chunks):
            yield columns


def _add_times(rows: Iterator[Rows], graphs: TimedGraphs, collector: Collector) -> Iterator[Rows]:
    """The rows whose graphs have a time; the others become problems."""
    for each in rows:
        problems = each.problems
        for timed in graphs.take(each.terms, each.positions):
            problems += collector.drain(is_counted=True)
            yield Rows(timed.columns, timed.lines, problems, timed.times)
            problems = []
        problems += collector.drain(is_counted=True)
        if problems:
            yield _make_empty(problems)
    for timed in graphs.take_rest():
        problems = collector.drain(is_counted=True)
        yield Rows(timed.columns, timed.lines, problems, timed.times)


def _make_empty(problems: list[Problem]) -> Rows:
    nothing = np.empty(0, np.int64)
    return Rows([pa.array([], TEXT)] * len(TERMS), nothing, problems, nothing)


def _make_batch(
    rows: Rows, file: InputFile, settings: Settings, columns: list[tuple[str, bool]]
) -> Iterator[Any]:
    """The rows as a record batch with the requested columns, if there are any."""
    problems = rows.problems if settings.mode is RecordMode.PERMISSIVE else []
    count = len(rows.positions)
    if not count + len(problems):
        return
    arrays = {}
    for name, _ in columns:
        kind = TYPES.get(name, TEXT)
        good = _make_column(name, rows, count, kind)
        if problems:
            good = pa.concat_arrays([good, _make_problem_column(name, problems, kind)])
        arrays[name] = good
    if "file" in arrays:
        arrays["file"] = pa.repeat(pa.scalar(file.name, TEXT), count + len(problems))
    schema = pa.schema(
        [pa.field(name, TYPES.get(name, TEXT), is_nullable) for name, is_nullable in columns]
    )
    batch = pa.RecordBatch.from_arrays([arrays[name] for name, _ in columns], schema=schema)
    yield _put_in_order(batch, rows.positions, problems) if problems else batch


def _make_column(name: str, rows: Rows, count: int, kind: Any) -> Any:
    if name in TERMS:
        terms = rows.terms[TERMS.index(name)]
        if name != "graph":
            return terms
        return pc.if_else(pc.equal(terms, ""), pa.scalar(None, TEXT), terms)
    if name == "position":
        return pa.array(rows.positions)
    if name == "time" and rows.times is not None:
        return pa.array(rows.times)
    return pa.nulls(count, kind)


def _make_problem_column(name: str, problems: list[Problem], kind: Any) -> Any:
    values = {
        "position": [problem.position for problem in problems],
        "problem": [problem.text for problem in problems],
        "record": [problem.record for problem in problems],
    }
    return pa.array(values.get(name, [None] * len(problems)), kind)


def _put_in_order(batch: Any, positions: Words, problems: list[Problem]) -> Any:
    """Problems among the rows at their positions in the file, those without a position last."""
    last = np.iinfo(np.int64).max
    theirs = [last if problem.position is None else problem.position for problem in problems]
    order = np.argsort(np.concatenate([positions, np.array(theirs, np.int64)]), kind="stable")
    return batch.take(pa.array(order))
