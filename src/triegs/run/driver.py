"""The main loop of a run, until the input ends or the run is stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

import pyarrow as pa

from triegs.engine import Engine
from triegs.events.mapping.rows import count_rows
from triegs.lanes import Lanes
from triegs.run.epochs import Epochs, Published
from triegs.run.refusals import Refusals
from triegs.run.reporter import Reporter
from triegs.run.statistics import Statistics
from triegs.run.stop import Stop, Stopped

#: A stream and a batch of its events, None at its end.
StreamBatch = tuple[str | None, pa.RecordBatch | None]

log = logging.getLogger("triegs.run")


def _ignore(_: Statistics) -> None:
    """The default `watch`."""


class RunProgress(Protocol):
    """Records the progress of a run so that another can resume it."""

    def resume(self) -> Published | None:
        """The newest epoch, if it was not written."""

    def commit(self) -> None:
        """Everything due was written."""

    def checkpoint(self) -> None:
        """All epochs of a batch were written."""

    def finish(self, is_left: bool) -> None:
        """The run ends, perhaps before its input."""


@dataclass(slots=True)
class Run:
    """Drives an engine: reads from `source`, applies through `epochs`, writes through `reporter`.

    `source` yields pairs of a stream name and a batch, or None at the end of the stream. `watch` is
    called after each epoch and batch. `progress` makes the run of a durable engine resumable.
    """

    engine: Engine | Lanes
    source: Iterable[StreamBatch]
    epochs: Epochs
    reporter: Reporter
    stop: Stop = field(default_factory=Stop)
    watch: Callable[[Statistics], None] = _ignore
    statistics: Statistics = field(default_factory=Statistics)
    refusals: Refusals = field(default_factory=Refusals)
    progress: RunProgress | None = None

    def go(self) -> Statistics:
        """Run until the input ends or a stop is requested, then write what is due.

        The current epoch is always completed and written first. Errors of the source and the engine
        are raised after published epochs were written.
        """
        start = perf_counter()
        try:
            if self.progress is not None:
                self._resume(self.progress)
            for stream, batch in self._read():
                self._take(stream, batch)
                if self.stop.is_requested:
                    break
            is_left = self.stop.is_requested
            self._publish(self.epochs.leave() if is_left else self.epochs.finish())
            self.refusals.add(self.epochs.take_refused())
            self.reporter.finish(self.engine.epoch)
            if self.progress is not None:
                self.progress.finish(is_left)
        finally:
            self.reporter.close()
            self.statistics.rows = self.reporter.rows
            self.statistics.reports = self.reporter.reports
            self.statistics.seconds = perf_counter() - start
        self.watch(self.statistics)
        return self.statistics

    def _resume(self, progress: RunProgress) -> None:
        """Write the epochs that the previous run left unwritten or unpublished."""
        epoch = progress.resume()
        if epoch is not None:
            self._publish(iter([epoch]))
        if not self.stop.is_requested:
            self._publish(self.epochs.resume())

    def _read(self) -> Iterator[StreamBatch]:
        batches = iter(self.source)
        while not self.stop.is_requested:
            try:
                with self.stop.waiting():
                    batch = next(batches, None)
            except Stopped:
                return
            if batch is None:
                return
            yield batch

    def _take(self, stream: str | None, batch: pa.RecordBatch | None) -> None:
        if batch is None:
            self._publish(self.epochs.end(stream))
            return
        if not batch.num_rows:
            return
        statistics = self.statistics
        statistics.events += count_rows(batch)
        newest = int(batch.column("time").to_numpy().max())
        if statistics.newest_event is None or newest > statistics.newest_event:
            statistics.newest_event = newest
        self._publish(self.epochs.feed(batch, stream))
        self.refusals.add(self.epochs.take_refused())
        self.watch(statistics)

    def _publish(self, epochs: Iterator[Published]) -> None:
        statistics = self.statistics
        while True:
            start = perf_counter()
            epoch = next(epochs, None)
            if epoch is None:
                if self.progress is not None:
                    self.progress.checkpoint()
                return
            took = perf_counter() - start
            statistics.epochs.add(took)
            log.debug("epoch %d, time %s: %.3f ms", epoch.epoch, epoch.time, 1000 * took)
            statistics.newest_epoch = epoch.time
            self.refusals.add(epoch.refused)
            self.reporter.publish(epoch)
            if self.progress is not None:
                self.progress.commit()
            statistics.rows, statistics.reports = self.reporter.rows, self.reporter.reports
            self.watch(statistics)
            if self.stop.is_requested:
                return
