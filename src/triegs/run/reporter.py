"""When a run reads its queries, and what it hands to the writers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.outputs import Kind, Outputs, ResultBatch
from triegs.read.snapshot import Snapshot
from triegs.run.epochs import Published
from triegs.run.row_order import sort_rows
from triegs.sparql.window import Window
from triegs.standing_query import StandingQuery

log = logging.getLogger("triegs.run")


class Emit(StrEnum):
    """What is written of a query: its answers, what has changed, or both."""

    SNAPSHOT = "snapshot"
    CHANGES = "changes"
    BOTH = "both"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """
        >>> [kind.value for kind in Emit.BOTH.kinds]
        ['snapshot', 'changes']
        """
        if self is Emit.BOTH:
            return (Kind.SNAPSHOT, Kind.CHANGES)
        return (Kind(self.value),)


class Sign(StrEnum):
    """Which changes are wanted: all, what comes (ISTREAM), what goes (DSTREAM)."""

    ALL = "all"
    POSITIVE = "positive"
    NEGATIVE = "negative"


class When(StrEnum):
    """After which epochs a run writes."""

    EPOCH = "epoch"
    SLIDE = "slide"
    END = "end"


@dataclass(slots=True)
class RunQuery:
    """A query of a run, what is wanted of it, the windows that it reads, and the snapshot that the
    next changes are from, None for no answers at all.
    """

    query: StandingQuery
    kinds: tuple[Kind, ...]
    sign: Sign = Sign.ALL
    windows: tuple[Window, ...] = ()
    before: Snapshot | None = None

    def slides_at(self, time: int | None) -> bool:
        """Whether one of its windows may slide then."""
        return time is None or any(
            window.slide is None or window.last_slide(time) == time for window in self.windows
        )


@dataclass(slots=True)
class Reporter:
    """Writes the queries after the epochs that `every` names.

    A number for `every` is a period in milliseconds of event time: the first epoch at or after
    each multiple of it is written. If `is_sorted`, rows are written in the order of their texts,
    and not in that of the engine, which another process that goes on with it does not have.
    """

    asked: list[RunQuery]
    outputs: Outputs
    every: When | int
    rows: int = 0
    reports: int = 0
    is_sorted: bool = False
    stalled: set[str] = field(default_factory=set)
    _due: int | None = None
    _last: Published | None = None
    _is_written: bool = True

    def publish(self, epoch: Published) -> None:
        """Take notice of an epoch, and write if it is one to be written."""
        self._last, self._is_written = epoch, False
        if self._is_due(epoch):
            self._write(epoch)

    def finish(self, epoch: int) -> None:
        """The run ends with that epoch: write what only its end asks for."""
        last = self._last or Published(epoch, None)
        if self.every is When.END or (isinstance(self.every, int) and not self._is_written):
            self._write(last)

    def close(self) -> None:
        """Let go of what the next changes would be from."""
        for each in self.asked:
            if each.before is not None:
                each.before.close()
                each.before = None

    def describe(self) -> dict[str, int | bool | None]:
        """What a run must know that goes on where this one is."""
        return {"due": self._due, "is_written": self._is_written}

    def resume(self, told: Mapping[str, Any], last: Published) -> None:
        """Go on behind an epoch as another, which was described so."""
        self._last = last
        self._due = told.get("due")
        self._is_written = told.get("is_written", True)

    def _is_due(self, epoch: Published) -> bool:
        if not isinstance(self.every, int):
            return self.every is not When.END
        if epoch.time is None:
            return False
        if self._due is not None and epoch.time < self._due:
            return False
        self._due = epoch.time - epoch.time % self.every + self.every
        return True

    def _write(self, epoch: Published) -> None:
        for each in self.asked:
            if self.every is When.SLIDE and not each.slides_at(epoch.time):
                continue
            if not self._note_stall(each.query):
                self._write_query(each, epoch)
        self.outputs.flush()
        self.reports += 1
        self._is_written = True

    def _note_stall(self, query: StandingQuery) -> bool:
        """Whether a query cannot be written because its counts do not fit; told once."""
        if query.error is None:
            self.stalled.discard(query.name)
            return False
        if query.name not in self.stalled:
            log.warning("%s is stalled and not written: %s", query.name, query.error)
            self.stalled.add(query.name)
        return True

    def _write_query(self, each: RunQuery, epoch: Published) -> None:
        now = each.query.snapshot()
        try:
            for kind in each.kinds:
                batches = read_batches(each, now, kind)
                if self.is_sorted:
                    batches = sort_rows(batches)
                result = ResultBatch(kind, now.epoch, epoch.time, batches)
                self.rows += self.outputs.write(each.query.name, result)
        except BaseException:
            now.close()
            raise
        if Kind.CHANGES not in each.kinds:
            now.close()
            return
        if each.before is not None:
            each.before.close()
        each.before = now


def read_batches(each: RunQuery, now: Snapshot, kind: Kind) -> Iterable[pa.RecordBatch]:
    """The answers of a snapshot, or how they differ from the one before."""
    if kind is Kind.SNAPSHOT:
        return now.batches()
    if each.before is None:
        return pick_sign(map(name_changes, now.batches()), each.sign)
    return pick_sign(now.diff(each.before).batches(), each.sign)


def name_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Answers as changes from none at all."""
    return batch.rename_columns([*batch.schema.names[:-1], "change"])


def pick_sign(batches: Iterable[pa.RecordBatch], sign: Sign) -> Iterator[pa.RecordBatch]:
    """The changes of that sign; the last column has them.

    >>> batch = pa.record_batch({"x": ["a", "b"], "change": [1, -2]})
    >>> [part.to_pydict() for part in pick_sign([batch], Sign.NEGATIVE)]
    [{'x': ['b'], 'change': [-2]}]
    """
    compare = {Sign.POSITIVE: pc.greater, Sign.NEGATIVE: pc.less}.get(sign)
    for batch in batches:
        if compare is None:
            yield batch
        else:
            yield batch.filter(compare(batch.column(batch.num_columns - 1), 0))
