"""Timed events: `Engine.push`, and the watermarks that publish their slides."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, NamedTuple

from triegs.durable.journal import Kind
from triegs.engine.state import FEW_TERMS, EngineState
from triegs.errors import LogFailed
from triegs.sparql.window import EVERY, name_stream
from triegs.windows.encoding import Events, read_watermark
from triegs.windows.outcomes import Published, Pushed
from triegs.windows.rows import RowReading, read_rows

log_messages = logging.getLogger("triegs")


class PushOptions(NamedTuple):
    """The options of `Engine.push`."""

    stream: str | None = None
    mapping: str | Iterable[str] | None = None
    columns: Mapping[str, str] | None = None
    time_unit: str | None = None


#: Without options: not made anew for each push.
PLAIN_PUSH = PushOptions()


class TimedEvents:
    """Takes timed events in and publishes slides as watermarks move."""

    def __init__(self, state: EngineState) -> None:
        self._state = state

    def push(self, events: Any, options: PushOptions) -> Pushed:
        state = self._state
        stream = name_stream(options.stream)
        state.begin_update()
        windows, journal = state.windows, state.journal
        try:
            _, mapping, columns, time_unit = options
            is_plain = mapping is None and not columns and time_unit is None
            if is_plain and type(events) is list:
                if journal is None:
                    pushed = windows.push_few(events, stream)
                else:
                    pushed = windows.push_few_logged(events, stream, partial(self._record, stream))
                if pushed is not None:
                    return pushed
            found = self.encode(events, options, stream)
            if journal is None:
                return windows.push(found, stream)
            with self._record(stream, found):
                return windows.push(found, stream)
        except BaseException:
            state.drop_notes()
            raise
        finally:
            state.end_update(FEW_TERMS)

    def _record(self, stream: str | None, events: Events) -> AbstractContextManager[None]:
        """The record of a push."""
        journal = self._state.journal
        assert journal is not None
        fields = {"stream": stream, "given": events.given}
        return journal.record_events(self._state.epoch, events, fields)

    def encode(self, events: Any, options: PushOptions, stream: str | None) -> Events:
        """Events by ids."""
        state, windows = self._state, self._state.windows
        _, mapping, columns, time_unit = options
        read = None
        if mapping is not None or columns or time_unit is not None:
            reading = RowReading(mapping, columns, state.base, state.prefixes, stream, time_unit)
            first = windows.count_arrivals(stream)
            read = read_rows(events, reading, f"stream {stream or ''}", first, is_timed=True)
            events = read.table
        found = windows.encode(events, stream)
        return found if read is None else read.index_events(found)

    def advance(self, to: Any, stream: str | None, close: bool) -> list[Published]:
        """Move the watermark and publish what is due; one record covers all of it."""
        state = self._state
        stream = stream if stream == EVERY else name_stream(stream)
        state.begin_update()
        windows = state.windows
        found: list[Published] = []
        problems: list[Exception] = []
        at_once = windows.publisher.at_once
        made = at_once.count
        try:
            if state.checkpoint_manager is not None:
                # Before, not after: until the caller has the slides of this call, the log must
                # be able to produce them again.
                state.checkpoint_manager.begin_if_due()
            if state.journal is None:
                windows.move_watermark(to, stream, close)
            else:
                time = read_watermark(to)
                with state.record(Kind.ADVANCE, to=time, stream=stream, end=close):
                    windows.move_watermark(to, stream, close)
            begin, record = state.store.newest.number, self._last_record
            refusing: list[int] = []
            try:
                for each in windows.publish_due():
                    if windows.publisher.has_refused:
                        refusing.append(len(found))
                    epoch, time, refused = each
                    published = Published(epoch - state.clock.first, time, refused)
                    found.append(published)
                    self.notify(published, problems)
            except BaseException:
                self._stop_slides(record, state.store.newest.number - begin)
                raise
            finally:
                if refusing:
                    self._note_refusing(record, refusing)
                state.published = tuple(found)
        except BaseException:
            state.drop_notes()
            raise
        finally:
            # A slide in one call has freed some terms itself.
            few = FEW_TERMS if at_once.count - made == len(found) else 1
            state.end_update(few, checkpoints=False)
        if problems:
            raise problems[0]
        return found

    def each_slide(self, to: Any, stream: str | None, close: bool) -> Iterator[Published]:
        """As `advance`, one slide at a time: a record for the watermark and one for each slide."""
        state = self._state
        stream = stream if stream == EVERY else name_stream(stream)
        state.begin_update()
        windows = state.windows
        problems: list[Exception] = []
        try:
            time = read_watermark(to)
            with state.record(Kind.MOVE, to=time, stream=stream, end=close):
                windows.move_watermark(to, stream, close)
            slides = windows.publish_due(lambda time: state.record(Kind.SLIDE, time=time))
            for each in slides:
                self._note_refusing(self._last_record, [0] if windows.publisher.has_refused else [])
                published = each._replace(epoch=each.epoch - state.clock.first)
                state.published = (published,)
                self.notify(published, problems)
                yield published
        except Exception:
            state.drop_notes()
            raise
        finally:
            state.end_update(1)
        if problems:
            raise problems[0]

    @property
    def _last_record(self) -> int:
        journal = self._state.journal
        return 0 if journal is None else journal.last

    def _note_refusing(self, record: int, slides: list[int]) -> None:
        """Log which slides of a record refused their events for lack of memory."""
        state = self._state
        if state.journal is not None and slides:
            state.journal.note_refusing(record, slides)
            with suppress(LogFailed):  # then it goes with the next record
                state.journal.flush(state.epoch)

    def _stop_slides(self, record: int, slides: int) -> None:
        """Log how many slides a call published before it failed."""
        state = self._state
        state.windows.publisher.judge_due()
        if state.journal is not None:
            state.journal.note_stop(record, slides)
            with suppress(LogFailed):  # then it goes with the next record
                state.journal.flush(state.epoch)

    def notify(self, published: Published, problems: list[Exception]) -> None:
        """A slide was published: run emitters, notify subscribers, free terms."""
        state = self._state
        if state.aggregating.has_answers:
            state.aggregating.follow_answers()
        found = state.windows.emit_slide(published.epoch, published.time)
        if found:
            message = "an emitter failed after epoch %d"
            log_messages.error(message, published.epoch, exc_info=found[0])
            problems += found
        if state.is_watched:
            state.end_epoch()
        if state.dictionary.is_due(FEW_TERMS) or state.windows.identities.is_due(FEW_TERMS):
            state.free_terms()
