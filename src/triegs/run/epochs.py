"""Turns batches of events into published epochs, one at a time, so that each can be read.

Without windows, events are applied in order: consecutive events of equal time form an epoch, or a
fixed number of rows does. With windows, each slide is an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.engine import Engine
from triegs.errors import InvalidUpdate
from triegs.events.mapping.cells import Words
from triegs.events.mapping.rows import SAME_ROW, count_rows, find_starts
from triegs.lanes import Lanes
from triegs.maintain.standing import Refused
from triegs.reasons import Reason, Why
from triegs.run.refusals import Refusal
from triegs.terms.term import XSD
from triegs.windows.outcomes import Published as Slid

UPDATE = ("op", "subject", "predicate", "object")
SIGNS = {1: "+", -1: "-"}
TEXT = pa.large_string()
#: Epochs with fewer rows on average are applied as tuples.
FEW_ROWS = 8


class Published(NamedTuple):
    """A published epoch. ``time`` is the time of its last event, or of its slide."""

    epoch: int
    time: int | None
    refused: tuple[Refusal, ...] = ()


class Note(Protocol):
    """Commits the input position with the next record of an engine."""

    def __call__(self, stream: str | None, rows: int, time: int | None = None) -> None:
        """The record consumes `rows` rows of the stream's last batch; `time` is of the epoch."""


class Epochs(Protocol):
    """Feeds an engine, yielding after each epoch."""

    def feed(self, batch: pa.RecordBatch, stream: str | None = None) -> Iterator[Published]:
        """Take a batch of a stream; yields each epoch that it completes."""

    def end(self, stream: str | None) -> Iterator[Published]:
        """One of several streams has ended."""

    def finish(self) -> Iterator[Published]:
        """The input has ended: publish the rest."""

    def leave(self) -> Iterator[Published]:
        """The run is stopped before the end of its input: publish what is complete."""

    def resume(self) -> Iterator[Published]:
        """Publish what the previous run had accepted but not published."""

    def take_refused(self) -> list[Refusal]:
        """Refusals that no epoch has reported."""


class AppliedEpochs:
    """Applies events in order. An epoch has `rows` rows if given, else all events of equal time.

    `note` makes the run resumable; it is called before each epoch. `time` is the largest time
    published so far.

    >>> engine = Engine()
    >>> names = ["time", "op", "subject", "predicate", "object"]
    >>> batch = pa.record_batch([[5, 5, 6], [1, 1, -1], [1, 1, 1], ["<a:p>"] * 3, [2, 3, 2]], names)
    >>> epochs = AppliedEpochs(engine)
    >>> [*epochs.feed(batch), *epochs.finish()]
    [Published(epoch=1, time=5, refused=()), Published(epoch=2, time=6, refused=())]
    """

    def __init__(
        self,
        engine: Engine | Lanes,
        rows: int | None = None,
        *,
        strict: bool = False,
        note: Note | None = None,
        time: int | None = None,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._strict = strict
        self._note = note
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._time = time
        self._stream: str | None = None
        self._given = 0  # rows of the last batch

    def feed(self, batch: pa.RecordBatch, stream: str | None = None) -> Iterator[Published]:
        self._stream, self._given = stream, batch.num_rows
        ends = self._find_ends(batch)
        start = 0
        if ends and self._pending_rows:
            start = ends.pop(0)
            self._buffer(batch.slice(0, start))
            yield self._apply(start)
        if len(ends) * FEW_ROWS > batch.num_rows and not _has_row_deletions(batch):
            # A table per tiny epoch would dominate the cost.
            columns = [batch.column(name).to_pylist() for name in UPDATE]
            times = batch.column("time").to_pylist()
            for stop in ends:
                rows = list(zip(*(column[start:stop] for column in columns), strict=True))
                yield self._publish(rows, max(times[start:stop]), stop)
                start = stop
            ends = []
        for stop in ends:
            part = batch.slice(start, stop - start)
            yield self._publish(join_batches([part]), _latest(part), stop)
            start = stop
        self._buffer(batch.slice(start))

    def finish(self) -> Iterator[Published]:
        if self._pending_rows:
            yield self._apply(self._given)

    def leave(self) -> Iterator[Published]:
        """Publish the buffered events, unless the next run can read them again."""
        return self.finish() if self._note is None else iter(())

    def resume(self) -> Iterator[Published]:
        return iter(())

    def end(self, stream: str | None) -> Iterator[Published]:  # noqa: ARG002
        return iter(())

    def take_refused(self) -> list[Refusal]:
        return []

    def _find_ends(self, batch: pa.RecordBatch) -> list[int]:
        """Where epochs end in this batch; 0 if the buffered events form one already."""
        if self._rows is not None:
            # The ends of table rows; without a mapping, each event is a row.
            last = find_starts(batch)[1:]
            waiting = sum(map(count_rows, self._pending))
            found: list[int] = last[self._rows - waiting - 1 :: self._rows].tolist()
            return found
        times = batch.column("time").to_numpy()
        ends: list[int] = (np.flatnonzero(times[1:] != times[:-1]) + 1).tolist()
        if self._pending_rows and len(times) and times[0] != self._last_time():
            return [0, *ends]
        return ends

    def _last_time(self) -> int:
        last: int = self._pending[-1].column("time")[-1].as_py()
        return last

    def _buffer(self, part: pa.RecordBatch) -> None:
        if part.num_rows:
            self._pending.append(part)
            self._pending_rows += part.num_rows

    def _apply(self, taken: int) -> Published:
        batches, self._pending, self._pending_rows = self._pending, [], 0
        return self._publish(join_batches(batches), max(map(_latest, batches)), taken)

    def _publish(
        self, updates: pa.Table | list[tuple[Any, ...]], newest: int, taken: int
    ) -> Published:
        # Nothing is late without a window, but published time never decreases.
        self._time = newest if self._time is None else max(self._time, newest)
        if self._note is not None:
            self._note(self._stream, taken, self._time)
        report = self._engine.apply(updates, strict=self._strict)
        starts = find_starts(updates) if report.refused and isinstance(updates, pa.Table) else None
        refused = [describe_refused(updates, self._time, each, starts) for each in report.refused]
        return Published(report.epoch, self._time, tuple(refused))


class WindowedEpochs:
    """Pushes timed events through the engine's windows; each due slide is an epoch.

    After each batch the watermark advances to its largest time minus the allowed lateness. `note`
    makes the run resumable: it is called before each push, and streams stay open at the end of the
    input. Late events are reported as refused only with `reports_late`.
    """

    def __init__(
        self,
        engine: Engine | Lanes,
        *,
        strict: bool = False,
        note: Note | None = None,
        reports_late: bool = True,
    ) -> None:
        self._engine = engine
        self._strict = strict
        self._note = note
        self._tells_late = reports_late
        self._refused: list[Refusal] = []

    def feed(self, batch: pa.RecordBatch, stream: str | None = None) -> Iterator[Published]:
        table = pa.table(batch)
        if self._note is not None:
            self._note(stream, batch.num_rows)
        pushed = self._engine.push(table, stream)
        starts = find_starts(table) if pushed.refused else None
        for number, reason in pushed.refused:
            is_late = reason.kind is Reason.LATE
            if is_late and not self._tells_late:
                continue
            index = number - pushed.first
            if index < 0:  # from an earlier batch
                self._refuse(number, reason, None)
                continue
            assert starts is not None
            time = table.column("time")[int(starts[index])].as_py()
            refusal = describe_refused(table, time, Refused(index, reason), starts)
            if self._strict and not is_late:
                raise InvalidUpdate(f"{refusal.record} at {time}: {reason}")
            self._refused.append(refusal)
        # The events are accepted; slides are published one by one.
        return self._convert(self._engine.each_slide())

    def end(self, stream: str | None) -> Iterator[Published]:
        yield from self._convert(self._engine.each_slide(stream=stream, close=True))

    def finish(self) -> Iterator[Published]:
        """Publish everything buffered; a resumable run closes no stream."""
        if self._note is None:
            yield from self._convert(self._engine.each_slide(close=True))
        else:
            end = self._engine.find_end()
            if end is not None:
                yield from self._convert(self._engine.each_slide(end))
        for number, reason in self._engine._windows.take_strays():
            self._refuse(number, reason, None)

    def resume(self) -> Iterator[Published]:
        """Publish the slides that are due for events pushed before."""
        if self._engine.find_end() is not None:
            yield from self._convert(self._engine.each_slide())

    def leave(self) -> Iterator[Published]:
        """Publish nothing: a slide that is not due may still change."""
        return iter(())

    def take_refused(self) -> list[Refusal]:
        """Refusals since the last epoch."""
        refused, self._refused = self._refused, []
        return refused

    def _convert(self, slides: Iterator[Slid]) -> Iterator[Published]:
        for epoch, time, refused in slides:
            for number, reason in refused:
                self._refuse(number, reason, time)
            yield Published(epoch, time, tuple(self.take_refused()))

    def _refuse(self, number: int, reason: Why, time: int | None) -> None:
        record = f"event {number} of its stream"
        if self._strict:
            raise InvalidUpdate(f"{record}: {reason}")
        self._refused.append(Refusal(reason, time, record))


class WholeBatches(AppliedEpochs):
    """Each input batch is an epoch, for runs that write only at the end, where epoch boundaries do
    not matter.
    """

    def _find_ends(self, batch: pa.RecordBatch) -> list[int]:
        return [batch.num_rows] if batch.num_rows else []


def _has_row_deletions(batch: pa.RecordBatch) -> bool:
    """Whether rows of several triples are deleted, which only a table can express."""
    if SAME_ROW not in batch.schema.names:
        return False
    return bool((batch.column("op").to_numpy() < 0).any())


def _latest(part: pa.RecordBatch) -> int:
    return int(part.column("time").to_numpy().max())


def describe_refused(
    events: pa.Table | list[tuple[Any, ...]],
    time: int | None,
    refused: Refused,
    starts: Words | None = None,
) -> Refusal:
    """Describe a refused update, whose index refers to these events or rows of triples."""
    if isinstance(events, pa.Table):
        assert starts is not None
        start, end = starts[refused.row : refused.row + 2].tolist()
        triples = [[events.column(name)[at].as_py() for name in UPDATE] for at in range(start, end)]
    else:
        triples = [list(events[refused.row])]
    sign = triples[0][0]
    shown = " . ".join(" ".join(map(str, terms)) for _, *terms in triples)
    return Refusal(refused.reason, time, f"{SIGNS.get(sign, sign)} {shown}")


def join_batches(batches: list[pa.RecordBatch]) -> pa.Table:
    """One table of updates from batches whose terms may have different types.

    >>> iri = pa.array(["<a:b>"]).dictionary_encode()
    >>> batches = [pa.record_batch([[1], term], ["op", "object"]) for term in ([5], iri)]
    >>> join_batches(batches).column("object").to_pylist()
    ['"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '<a:b>']
    """
    names = [name for name in (*UPDATE, SAME_ROW) if name in batches[0].schema.names]
    columns = []
    for name in names:
        arrays = [batch.column(name) for batch in batches]
        is_one = all(array.type == arrays[0].type for array in arrays)
        if (name != SAME_ROW and not is_one) or any(_is_large(array) for array in arrays):
            arrays = [_write_texts(array) for array in arrays]
        columns.append(pa.chunked_array(arrays))
    return pa.Table.from_arrays(columns, names)


def _is_large(column: Any) -> bool:
    """Whether a small slice carries the dictionary of a whole batch."""
    return pa.types.is_dictionary(column.type) and len(column.dictionary) > 4 * len(column)


def _write_texts(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.take(column.indices)
    if pa.types.is_integer(column.type):
        texts = column.cast(pa.string())
        return pc.binary_join_element_wise('"', texts, f'"^^<{XSD}integer>', "").cast(TEXT)
    return column.cast(TEXT)
