"""Graph times: ``<g> prov:generatedAtTime "…"`` in the default graph.

All triples of the graph ``<g>`` are events at that time. The time statement may come before or
after the triples. Memory is bounded: a time is kept for at least `REACH` statements after the last
use of its graph, and triples wait at least as long for it before they are quarantined as having no
time. The order of the file is kept, so a waiting triple delays those after it. All other statements
in the default graph have no time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.events.context import FilePosition, ReadBatch, ReadContext, make_insertions
from triegs.events.files import InputFile
from triegs.events.times import GOOD, MISSING, REASONS, read_times
from triegs.reasons import Reason
from triegs.terms.arrays import Words
from triegs.terms.term import XSD, parse_term

REACH = 65_536
NO_TIME = "no nearby statement gives the time of its graph"
NO_GRAPH = "it is not in a graph that has a time"
TWO_TIMES = "its graph already has another time"
TIME_TYPES = frozenset(
    XSD + name for name in ("dateTime", "dateTimeStamp", "date", "integer", "long", "int", "string")
)


class Waiting(NamedTuple):
    """Statements waiting for their times; ``first`` is the number of the first one."""

    columns: list[Any]
    lines: Words
    first: int


class Timed(NamedTuple):
    """Statements with their times."""

    columns: list[Any]
    lines: Words
    times: Words


class TimedGraphs:
    """Assigns each statement the time of its graph once it is known.

    `add` and `finish` yield events; `take` and `take_rest` yield statements with graph and line.
    """

    def __init__(self, file: InputFile, context: ReadContext, position: FilePosition) -> None:
        self._file = file
        self._context = context
        self._skip = position.get("events", 0)
        self._given = 0
        self._read = 0  # statements
        # By graph: its time, and the number of the last statement that uses it.
        self._times: dict[str, tuple[int, int]] = {}
        self._waiting: deque[Waiting] = deque()

    def add(self, columns: list[Any], lines: Words) -> Iterator[ReadBatch]:
        """Take the columns subject, predicate, object, graph; yield completed events."""
        for timed in self.take(columns, lines):
            yield self._make_events(timed)

    def finish(self) -> Iterator[ReadBatch]:
        """Yield the remaining events at the end of the file."""
        for timed in self.take_rest():
            yield self._make_events(timed)

    def take(self, columns: list[Any], lines: Words) -> Iterator[Timed]:
        first = self._read
        self._read += len(lines)
        kept = self._take_times(columns, lines, first)
        self._waiting.append(Waiting([c.filter(kept) for c in columns], lines[kept], first))
        yield from self._give(is_last=False)
        if len(self._times) > 2 * REACH:
            oldest = min([self._read, *(w.first for w in self._waiting)]) - REACH
            self._times = {g: entry for g, entry in self._times.items() if entry[1] >= oldest}

    def take_rest(self) -> Iterator[Timed]:
        yield from self._give(is_last=True)

    def _make_events(self, timed: Timed) -> ReadBatch:
        count = len(timed.times)
        skipped = min(self._skip, count)
        self._skip -= skipped
        self._given += count
        batch = make_insertions(timed.times, timed.columns[:3])
        return batch.slice(skipped), {"events": self._given}

    def _take_times(self, columns: list[Any], lines: Words, first: int) -> Any:
        """Record the time statements; returns a mask of all other statements."""
        subjects, predicates, objects, graphs = columns
        is_default = pc.equal(graphs, "")
        is_time = pc.and_(is_default, pc.equal(predicates, self._context.options.graph_time))
        rows = np.flatnonzero(is_time.to_numpy(zero_copy_only=False))
        found = zip(
            subjects.take(rows).to_pylist(), *read_time_terms(objects.take(rows)), strict=True
        )
        for row, (graph, time, problem) in zip(rows.tolist(), found, strict=True):
            known = self._times.get(graph, (time, first + row))
            is_known = first + row - known[1] <= REACH
            if not problem and is_known and known[0] != time:
                problem = TWO_TIMES
            if problem:
                self._quarantine(lines[row], Reason.BAD_TIME, problem, columns, row)
            else:
                self._times[graph] = (time, first + row)
                self._context.report.read += 1  # read, although not an event
        for row in np.flatnonzero(
            pc.and_not(is_default, is_time).to_numpy(zero_copy_only=False)
        ).tolist():
            self._quarantine(lines[row], Reason.NO_TIME, NO_GRAPH, columns, row)
        return pc.invert(is_default)

    def _give(self, is_last: bool) -> Iterator[Timed]:
        while self._waiting:
            oldest = self._waiting[0]
            is_overdue = is_last or self._read - oldest.first - len(oldest.lines) >= REACH
            times, known = self._find_times(oldest)
            if not known.all() and not is_overdue:
                return
            self._waiting.popleft()
            for row in np.flatnonzero(~known).tolist():
                self._quarantine(oldest.lines[row], Reason.NO_TIME, NO_TIME, oldest.columns, row)
            keep = pa.array(known)
            columns = [column.filter(keep) for column in oldest.columns]
            yield Timed(columns, oldest.lines[known], times[known])

    def _find_times(self, waiting: Waiting) -> tuple[Words, Any]:
        coded = waiting.columns[3].dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        last = np.zeros(len(coded.dictionary), np.int64)
        last[codes] = np.arange(len(codes))  # the last of equal codes wins
        times = np.zeros(len(coded.dictionary), np.int64)
        known = np.zeros(len(coded.dictionary), np.bool_)
        for code, graph in enumerate(coded.dictionary.to_pylist()):
            entry = self._times.get(graph)
            if entry is not None:
                times[code], known[code] = entry[0], True
                used = max(entry[1], waiting.first + int(last[code]))
                self._times[graph] = (entry[0], used)
        return times[codes], known[codes]

    def _quarantine(
        self, line: int, reason: Reason, detail: str, columns: list[Any], row: int
    ) -> None:
        if self._skip:
            return  # reported when it was first read
        record = " ".join(text for column in columns if (text := column[row].as_py())) + " ."
        self._context.quarantine.add(self._file.name, int(line), reason, detail, record)


def read_time_terms(terms: Any) -> tuple[list[int], list[str]]:
    """The times of literals, and a problem description for each (empty if valid).

    >>> read_time_terms(pa.array([
    ...     '"1970-01-01T00:00:01Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>', "<http://ex/now>"]))
    ([1000, 0], ['', '<http://ex/now> is not a time'])
    """
    texts = terms.to_pylist()
    parts = [parse_term(text) for text in texts]
    lexical = [part.lexical if part.datatype in TIME_TYPES else None for part in parts]
    times, states = read_times(pa.array(lexical, pa.string()))
    problems = [""] * len(texts)
    for row in np.flatnonzero(states != GOOD).tolist():
        is_text = lexical[row] is not None and states[row] != MISSING
        why = REASONS[states[row]] if is_text else "not a time"
        problems[row] = f"{texts[row][:80]} is {why}"
    return times.tolist(), problems
