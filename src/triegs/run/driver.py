"""A run: events in, epochs, answers out, until the input ends or somebody stops it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import pyarrow as pa

from triegs.engine import Engine
from triegs.mapping.rows import count_rows
from triegs.run.epochs import Epochs, Published
from triegs.run.refusals import Refusals
from triegs.run.reporter import Reporter
from triegs.run.statistics import Statistics
from triegs.run.stop import Stop, Stopped

#: A stream and a batch of its events.
StreamBatch = tuple[str | None, pa.RecordBatch | None]

log = logging.getLogger("triegs.run")


def _say_nothing(_: Statistics) -> None:
    """For a run that nobody watches."""


class RunProgress(Protocol):
    """Notes where a run stands, so that another can go on there."""

    def resume(self) -> Published | None:
        """An epoch that is there and was not written."""

    def keep(self) -> None:
        """What is due was written."""

    def rest(self) -> None:
        """All epochs of a batch were written."""

    def finish(self, is_left: bool) -> None:
        """The run ends, perhaps before its input."""


@dataclass(slots=True)
class Run:
    """Drives an engine: `source` gives events, `epochs` makes epochs of them, `reporter` writes.

    `source` has pairs: the name of a stream, and a batch of its events, or None at its end.
    `watch` is called after each epoch and each batch. The engine's registered queries are those
    that `reporter` writes. `keeping` is for an engine that is kept in a directory.
    """

    engine: Engine
    source: Iterable[StreamBatch]
    epochs: Epochs
    reporter: Reporter
    stop: Stop = field(default_factory=Stop)
    watch: Callable[[Statistics], None] = _say_nothing
    statistics: Statistics = field(default_factory=Statistics)
    refusals: Refusals = field(default_factory=Refusals)
    keeping: RunProgress | None = None

    def go(self) -> Statistics:
        """Run to the end of the input, or until `stop` is asked; then write what is due.

        Whatever ends it, an epoch is finished and written before. Raises what the source and the
        engine raise; what was published until then is written.
        """
        start = perf_counter()
        try:
            if self.keeping is not None:
                self._resume(self.keeping)
            for stream, batch in self._read():
                self._take(stream, batch)
                if self.stop.is_requested:
                    break
            is_left = self.stop.is_requested
            self._publish(self.epochs.leave() if is_left else self.epochs.finish())
            self.refusals.add(self.epochs.take_refused())
            self.reporter.finish(self.engine.epoch)
            if self.keeping is not None:
                self.keeping.finish(is_left)
        finally:
            self.reporter.close()
            self.statistics.rows = self.reporter.rows
            self.statistics.reports = self.reporter.reports
            self.statistics.seconds = perf_counter() - start
        self.watch(self.statistics)
        return self.statistics

    def _resume(self, keeping: RunProgress) -> None:
        """Write what the run before has not, and what it had begun to publish."""
        epoch = keeping.resume()
        if epoch is not None:
            self._publish(iter([epoch]))
        if not self.stop.is_requested:
            self._publish(self.epochs.resume())

    def _read(self) -> Iterator[StreamBatch]:
        arriving = iter(self.source)
        while not self.stop.is_requested:
            try:
                with self.stop.waiting():
                    arrived = next(arriving, None)
            except Stopped:
                return
            if arrived is None:
                return
            yield arrived

    def _take(self, stream: str | None, batch: pa.RecordBatch | None) -> None:
        if batch is None:
            self._publish(self.epochs.end(stream))
            return
        if not batch.num_rows:
            return
        numbers = self.statistics
        numbers.events += count_rows(batch)
        newest = int(batch.column("time").to_numpy().max())
        if numbers.newest_event is None or newest > numbers.newest_event:
            numbers.newest_event = newest
        self._publish(self.epochs.feed(batch, stream))
        self.refusals.add(self.epochs.take_refused())
        self.watch(numbers)

    def _publish(self, epochs: Iterator[Published]) -> None:
        numbers = self.statistics
        while True:
            start = perf_counter()
            epoch = next(epochs, None)
            if epoch is None:
                if self.keeping is not None:
                    self.keeping.rest()
                return
            took = perf_counter() - start
            numbers.epochs.add(took)
            log.debug("epoch %d, time %s: %.3f ms", epoch.epoch, epoch.time, 1000 * took)
            numbers.newest_epoch = epoch.time
            self.refusals.add(epoch.refused)
            self.reporter.publish(epoch)
            if self.keeping is not None:
                self.keeping.keep()
            numbers.rows, numbers.reports = self.reporter.rows, self.reporter.reports
            self.watch(numbers)
            if self.stop.is_requested:
                return
