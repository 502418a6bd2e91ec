"""Decides when a run reads its queries, and passes the results to the writers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from triegs.engine.standing_query import StandingQuery
from triegs.outputs import Kind, Outputs, ResultBatch
from triegs.read.snapshot import Snapshot
from triegs.run.epochs import Published
from triegs.run.row_order import sort_rows
from triegs.sparql.window import Window

log = logging.getLogger("triegs.run")


class Emit(StrEnum):
    """What to write for a query: answers, changes, or both."""

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
    """Which changes to write: all, insertions (ISTREAM), or deletions (DSTREAM)."""

    ALL = "all"
    POSITIVE = "positive"
    NEGATIVE = "negative"


class When(StrEnum):
    """After which epochs to write."""

    EPOCH = "epoch"
    SLIDE = "slide"
    END = "end"


@dataclass(slots=True)
class RunQuery:
    """A query of a run: what to write, its windows, and the snapshot from which the next changes
    start (None for the empty result).
    """

    query: StandingQuery
    kinds: tuple[Kind, ...]
    sign: Sign = Sign.ALL
    windows: tuple[Window, ...] = ()
    before: Snapshot | None = None

    def slides_at(self, time: int | None) -> bool:
        """Whether one of its windows may slide at that time."""
        return time is None or any(
            window.slide is None or window.last_slide(time) == time for window in self.windows
        )


@dataclass(slots=True)
class Reporter:
    """Writes the queries after the epochs selected by `every`.

    A number is a period in milliseconds of event time: the first epoch at or after each multiple is
    written. With `is_sorted`, rows without ORDER BY are sorted by text instead of in the engine's
    order, which a resumed run would not reproduce.
    """

    queries: list[RunQuery]
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
        """Note an epoch, and write it if it is due."""
        self._last, self._is_written = epoch, False
        if self._is_due(epoch):
            self._write(epoch)

    def finish(self, epoch: int) -> None:
        """The run ends with that epoch: write what is due at the end."""
        last = self._last or Published(epoch, None)
        if self.every is When.END or (isinstance(self.every, int) and not self._is_written):
            self._write(last)

    def close(self) -> None:
        """Release the snapshots from which the next changes would start."""
        for each in self.queries:
            if each.before is not None:
                each.before.close()
                each.before = None

    def describe(self) -> dict[str, int | bool | None]:
        """The state that a resuming run needs."""
        return {"due": self._due, "is_written": self._is_written}

    def resume(self, reported: Mapping[str, Any], last: Published) -> None:
        """Continue after an epoch, from the state of `describe`."""
        self._last = last
        self._due = reported.get("due")
        self._is_written = reported.get("is_written", True)

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
        for each in self.queries:
            if self.every is When.SLIDE and not each.slides_at(epoch.time):
                continue
            if not self._note_stall(each.query):
                self._write_query(each, epoch)
        self.outputs.flush()
        self.reports += 1
        self._is_written = True

    def _note_stall(self, query: StandingQuery) -> bool:
        """Whether a query cannot be written because its counts overflow; logged once."""
        if query.error is None:
            self.stalled.discard(query.name)
            return False
        if query.name not in self.stalled:
            log.warning("%s is stalled and is not written: %s", query.name, query.error)
            self.stalled.add(query.name)
        return True

    def _write_query(self, each: RunQuery, epoch: Published) -> None:
        now = each.query.snapshot()
        try:
            for kind in each.kinds:
                batches = read_batches(each, now, kind)
                is_ordered = kind is Kind.SNAPSHOT and bool(each.query.query.order)
                if self.is_sorted and not is_ordered:
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
    """The answers of a snapshot, or its changes from the previous one."""
    if kind is Kind.SNAPSHOT:
        return now.batches(compact=True)
    if each.before is None:
        return pick_sign(map(name_changes, now.batches(compact=True)), each.sign)
    return pick_sign(now.diff(each.before).batches(compact=True), each.sign)


def name_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Answers as changes from the empty result."""
    return batch.rename_columns([*batch.schema.names[:-1], "change"])


def pick_sign(batches: Iterable[pa.RecordBatch], sign: Sign) -> Iterator[pa.RecordBatch]:
    """The changes of a sign, given in the last column.

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
