"""A run: events in, epochs, answers out, until the input ends or somebody stops it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import pyarrow as pa

from triegs.engine import Engine
from triegs.run.epochs import Epochs, Published
from triegs.run.refusals import Refusals
from triegs.run.reporting import Reporter
from triegs.run.statistics import Statistics
from triegs.run.stopping import Stop, Stopped

#: A stream and a batch of its events.
Arrived = tuple[str | None, pa.RecordBatch | None]

log = logging.getLogger("triegs.run")


def _say_nothing(_: Statistics) -> None:
    """For a run that nobody watches."""


@dataclass(slots=True)
class Run:
    """Drives an engine: `source` gives events, `epochs` makes epochs of them, `reporter` writes.

    `source` has pairs: the name of a stream, and a batch of its events, or None at its end.
    `watch` is called after each epoch and each batch. The engine's registered queries are those
    that `reporter` writes.
    """

    engine: Engine
    source: Iterable[Arrived]
    epochs: Epochs
    reporter: Reporter
    stop: Stop = field(default_factory=Stop)
    watch: Callable[[Statistics], None] = _say_nothing
    statistics: Statistics = field(default_factory=Statistics)
    refusals: Refusals = field(default_factory=Refusals)

    def go(self) -> Statistics:
        """Run to the end of the input, or until `stop` is asked; then write what is due.

        Whatever ends it, an epoch is finished and written before. Raises what the source and the
        engine raise; what was published until then is written.
        """
        start = perf_counter()
        try:
            for stream, batch in self._read():
                self._take(stream, batch)
                if self.stop.is_asked:
                    break
            is_left = self.stop.is_asked
            self._publish(self.epochs.leave() if is_left else self.epochs.finish())
            self.reporter.finish(self.engine.epoch)
        finally:
            self.statistics.rows = self.reporter.rows
            self.statistics.reports = self.reporter.reports
            self.statistics.seconds = perf_counter() - start
        self.watch(self.statistics)
        return self.statistics

    def _read(self) -> Iterator[Arrived]:
        arriving = iter(self.source)
        while not self.stop.is_asked:
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
        numbers.events += batch.num_rows
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
                return
            took = perf_counter() - start
            numbers.epochs.add(took)
            log.debug("epoch %d, time %s: %.3f ms", epoch.epoch, epoch.time, 1000 * took)
            numbers.newest_epoch = epoch.time
            self.refusals.add(epoch.refused)
            self.reporter.publish(epoch)
            numbers.rows, numbers.reports = self.reporter.rows, self.reporter.reports
            self.watch(numbers)
            if self.stop.is_asked:
                return
