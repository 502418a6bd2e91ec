"""Changes of an engine in two phases, for engines that publish together: see `triegs.lanes`.

Each method is that of `triegs.Engine` with the same name, as a generator that pauses before it
publishes (`triegs.maintain.preparing`). There is no journal: such engines have no directory.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from triegs.engine.epochs import Epochs, UpdateOptions, check_batch
from triegs.engine.event_time import PushOptions, TimedEvents
from triegs.engine.report import Report
from triegs.engine.state import FEW_TERMS, EngineState
from triegs.events.load import encode_statements
from triegs.events.updates import Batch
from triegs.jit.words import Words
from triegs.maintain.preparing import Preparing
from triegs.maintain.standing import Epoch
from triegs.sparql.window import EVERY, name_stream
from triegs.windows.outcomes import Published, Pushed


class PreparedChanges:
    """The changes of one engine that can wait for those of others."""

    def __init__(self, state: EngineState, epochs: Epochs, timed_events: TimedEvents) -> None:
        self._state = state
        self._epochs = epochs
        self._timed_events = timed_events

    def apply(self, updates: Any, options: UpdateOptions) -> Preparing[Report]:
        """An epoch of updates."""
        state = self._state
        strict, time = options.strict, options.time
        state.begin_update()
        try:
            if time is None:
                return (yield from self._apply(self._epochs.encode(updates, options), strict))
            state.windows.take_times()
            batch = self._epochs.encode(updates, options)
            state.clock.begin(time)
            try:
                return (yield from self._apply(batch, strict))
            finally:
                state.clock.end()
        finally:
            state.end_update(FEW_TERMS)

    def load(self, statements: Sequence[pa.RecordBatch]) -> Preparing[Report]:
        """An epoch of the statements of a file, which was read for all engines at once."""
        state = self._state
        state.begin_update()
        try:
            batch = encode_statements(state.dictionary, statements)
            return (yield from self._apply(batch, strict=False))
        finally:
            state.end_update(1)

    def push(self, events: Any, options: PushOptions) -> Preparing[Pushed]:
        """Timed events; they are taken in after the pause."""
        state = self._state
        stream = name_stream(options.stream)
        state.begin_update()
        try:
            found = self._timed_events.encode(events, options, stream)
            yield
            return state.windows.push(found, stream)
        finally:
            state.end_update(FEW_TERMS)

    def slide(
        self, to: Any, stream: str | None, close: bool
    ) -> Generator[Published | None, None, list[Exception]]:
        """The slides up to a watermark. For each it pauses three times: before it is published;
        with what was published; and once emitters and subscribers have it. Returns what emitters
        raised.

        If a slide fails or is aborted, its events are judged, and the next call begins with it.
        """
        state = self._state
        stream = stream if stream == EVERY else name_stream(stream)
        problems: list[Exception] = []
        state.begin_update()
        windows = state.windows
        try:
            windows.move_watermark(to, stream, close)
            for preparing in windows.prepare_due():
                try:
                    published = yield from preparing
                except BaseException:
                    windows.publisher.judge_due()
                    raise
                published = published._replace(epoch=published.epoch - state.clock.first)
                yield published
                self._timed_events.notify(published, problems)
                yield None
        finally:
            state.end_update(1)
        return problems

    def publish_empty(self) -> None:
        """An epoch without changes. Nothing in it can fail."""
        state = self._state
        with state.update():
            state.core.publish()
            if state.is_watched:
                state.end_epoch()

    def _apply(self, batch: Batch, strict: bool) -> Preparing[Report]:
        check_batch(batch, strict)
        epoch = yield from self._apply_rows(batch.rows, strict)
        return self._epochs.conclude(batch, epoch)

    def _apply_rows(self, rows: Words, strict: bool) -> Preparing[Epoch]:
        """Apply rows to the static graph, and count their terms."""
        state = self._state
        if not state.windows.is_used:
            return (yield from state.core.prepare(rows, strict, counts=True))
        epoch = yield from state.windows.prepare_static(rows, strict)
        kept = np.delete(rows, [row for row, _ in epoch.refused], axis=0)
        state.dictionary.settle(kept, epoch.version.number)
        return epoch
