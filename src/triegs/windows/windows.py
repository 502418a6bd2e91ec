"""The windows of an engine: events in, epochs out. Read this first.

```
push ──► pending ──(watermark)──► log ──► cursors: what expires, what arrives ──► graphs ──► core
```
`usage` opens and closes windows for queries, `stream` holds events, `watermarks` decides how far
time has moved, `publication` publishes the slides that are due, `emission` passes their answers
on. Every step costs what changes, whatever the width of the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from triegs.errors import StateError
from triegs.jit.words import Words
from triegs.maintain.kernels.judging import SAME_ROW
from triegs.maintain.label_graphs import LabelGraphs
from triegs.maintain.preparing import Preparing, finish
from triegs.maintain.standing import Epoch, Refused
from triegs.read.snapshot import Snapshot
from triegs.reasons import Reason
from triegs.sparql.model import Query
from triegs.sparql.window import EVERY, Window, name_stream
from triegs.store.packed import PackedStore
from triegs.terms.dictionary import Dictionary
from triegs.windows.at_once import SlideCore
from triegs.windows.emission import Emission, EmitOptions, Emitter, Emitters
from triegs.windows.encoding import NO_ID, Events, encode_events, read_watermark
from triegs.windows.few_events import FewEvents
from triegs.windows.outcomes import EventCounts, Published, Pushed
from triegs.windows.publication import Record, SlideClock, SlidePublisher, record_nothing
from triegs.windows.reasoning import Reasoning
from triegs.windows.settings import EventTime, Late
from triegs.windows.static_data import StaticCore, apply_static
from triegs.windows.stream import Stream
from triegs.windows.stream_aggregates import StreamAggregates
from triegs.windows.usage import GraphCore, WindowUsage
from triegs.windows.watermarks import Watermarks
from triegs.windows.window_graphs import GraphKey, WindowGraph, WindowGraphs


class WindowCore(GraphCore, StaticCore, SlideCore, Protocol):
    """What windows need of the core."""

    long_ns: int

    @property
    def label_graphs(self) -> LabelGraphs: ...


class Windows:
    """The windows of one engine, which ensures that one thread at a time updates.

    `window` is the one of queries without their own; its events are retained from the start.
    """

    def __init__(
        self, core: WindowCore, words: Dictionary, store: PackedStore, clock: SlideClock,
        settings: EventTime | None = None, window: Window | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings or EventTime()
        #: What moves the time of this engine, once it is known: "events" or "time".
        self.takes: str | None = None
        self.counts = EventCounts()
        self._core = core
        self._words = words
        self._graphs = WindowGraphs(words, core.label_graphs, store)
        self.reasoning = Reasoning(core, words, store, self._graphs)
        self.usage = WindowUsage(
            core, words, self._graphs, self.counts, window, self.reasoning,
            lambda: clock.find(self._graphs.newest),
        )  # fmt: skip
        self.streams = self.usage.streams
        self.identities = self.usage.identities
        self.watermarks = Watermarks(self.streams, self.settings, self.counts)
        self.aggregates = StreamAggregates(self.usage, words, store)
        self.publisher = SlidePublisher(
            self.streams, self._graphs, core, clock, self.watermarks, self.counts, self.aggregates,
            self.reasoning,
        )  # fmt: skip
        self._emitters = Emitters(self.usage.cursors)
        self._few = FewEvents(words, self.identities, self.settings.max_ahead)
        self.find_label = self._graphs.find_label
        if window is not None:
            self.usage.open([GraphKey(window, True)])

    @property
    def is_used(self) -> bool:
        """Whether any query or aggregate has a window, or the engine has one."""
        return bool(self.streams)

    @property
    def watermark(self) -> int | None:
        return self.watermarks.watermark

    # Queries

    def resolve(self, query: Query, window: Window | None) -> tuple[Query, list[GraphKey]]:
        """The query with a graph for each atom that reads a window, and the keys of these."""
        return self.usage.resolve(query, window)

    def use(self, query: Query, keys: Sequence[GraphKey]) -> AbstractContextManager[None]:
        """Open the graphs of a query while it is registered; close them if that fails."""
        return self.usage.use(query, keys)

    def release(self, query: Query, keys: Iterable[GraphKey]) -> None:
        """Close the graphs of a query."""
        self.usage.hold(query, -1)
        self.usage.close(keys)

    def emit(
        self, take: Callable[[], Snapshot], query: Query, keys: Sequence[GraphKey],
        sink: Callable[[Emission], object], options: EmitOptions,
    ) -> Emitter:  # fmt: skip
        """Pass results on after each slide; see `triegs.StandingQuery.emit`."""
        return self._emitters.add(take, query, keys, sink, options)

    def emit_slide(self, epoch: int, time: int) -> list[Exception]:
        """Run the emitters of the windows that slid last; returns what they raised."""
        if not self._emitters.is_used:
            return []
        return self._emitters.emit_slide(epoch, time, self.publisher.slid)

    def find_graph(self, key: GraphKey) -> WindowGraph | None:
        """The graph of a key, if a query or the engine uses it."""
        graphs = self._graphs.by_number.values()
        return next((graph for graph in graphs if graph.key == key), None)

    # Static data

    def apply_static(self, rows: Words, is_strict: bool) -> Epoch:
        """An epoch of the static graph, applied to every window graph that includes it."""
        if self.reasoning.is_used:
            return self.reasoning.apply_static(rows, is_strict)
        return finish(apply_static(self._core, self._graphs, rows, is_strict, pauses=False))

    def prepare_static(self, rows: Words, is_strict: bool) -> Preparing[Epoch]:
        """As `apply_static`, but pauses before it publishes. Not for an engine with rules."""
        assert not self.reasoning.is_used, "lanes have no rules"
        return apply_static(self._core, self._graphs, rows, is_strict, pauses=True)

    def take_times(self) -> None:
        """Epochs are given times by the caller, so no events may move the time."""
        if self.is_used or self.takes == "events":
            raise StateError("this engine has windows: push and advance move its time")
        self.takes = "time"

    # Events

    def count_arrivals(self, name: str | None) -> int:
        """The number of events pushed to a stream so far."""
        return self._find_stream(name).arrivals

    def encode(self, events: Any, name: str | None) -> Events:
        """Events by ids, for a stream that is open."""
        if self.takes == "time":
            raise StateError("this engine takes epochs by apply(..., time=...), not by push")
        stream = self._find_stream(name)
        if stream.is_closed:
            raise StateError(f"{stream.title} is closed")
        return encode_events(self._words, self.identities, events)

    def push_few(self, events: Sequence[Any], name: str | None) -> Pushed | None:
        """Take in a few tuples by the shortest path; None, with nothing changed, if they do not
        qualify: they are in order, and their times are integers near the stream.
        """
        stream = self._find_few(name)
        if stream is None:
            return None
        pushed = self._few.push(events, stream, self.watermarks.find_bound(stream))
        if pushed is not None:
            self.takes = "events"
        return pushed

    def push_few_logged(
        self, events: Sequence[Any], name: str | None,
        record: Callable[[Events], AbstractContextManager[None]],
    ) -> Pushed | None:  # fmt: skip
        """As `push_few`, within the record of the events, which are insertions without ids."""
        stream = self._find_few(name)
        count = 0 if stream is None else self._few.encode(events)
        if stream is None or not count or self._few.is_marked:
            return None
        found = self._few.read(count)
        with record(found):
            pushed = self._few.take(count, stream, self.watermarks.find_bound(stream))
            if pushed is None:
                ids = np.full(count, NO_ID, np.int64)
                found = found._replace(times=found.times.copy(), rows=found.rows.copy(), ids=ids)
                pushed = self.push(found, name)
        self.takes = "events"
        return pushed

    def _find_few(self, name: str | None) -> Stream | None:
        """The stream, if it may take few events by the shortest path."""
        stream = self.streams.get(name)
        if stream is None or self.takes == "time" or stream.is_closed or len(stream.held):
            return None
        return stream

    def push(self, found: Events, name: str | None) -> Pushed:
        """Take in events; see `triegs.Engine.push`."""
        self.takes = "events"
        stream = self._find_stream(name)
        bound = self.watermarks.find_bound(stream)
        first, accepted, late, strays = stream.add(found, bound, self.settings.max_ahead)
        refused = [Refused(first + row, reason) for row, reason in found.refused]
        refused += [Refused(number, Reason.TOO_EARLY.describe()) for number in strays]
        if self.settings.late is Late.QUARANTINE:
            why = Reason.LATE.describe(f"its time is at or before the watermark, {bound}")
            refused += [Refused(number, why) for number in late.tolist()]
        self.counts.late += len(late)
        self.counts.ahead += len(strays)
        self.counts.refused += found.given - int(np.count_nonzero(found.ids != SAME_ROW))
        return Pushed(first, accepted, len(late), tuple(sorted(refused)))

    def _find_stream(self, name: str | None) -> Stream:
        name = name_stream(name)
        stream = self.streams.get(name)
        if stream is None:
            what = "the stream without a name" if name is None else f"the stream {name}"
            known = ", ".join("the one without a name" if n is None else n for n in self.streams)
            hint = f"windows read {known}" if known else "there is no window; see Engine(window=…)"
            raise StateError(f"no window reads {what}; {hint}")
        return stream

    def _find_streams(self, name: str | None) -> list[Stream]:
        if name != EVERY:
            return [self._find_stream(name)]
        if not self.streams:
            raise StateError("there is no window; see Engine(window=…)")
        return list(self.streams.values())

    # Time

    def move_watermark(self, to: Any, name: str | None, is_end: bool) -> None:
        """Move the watermark of one stream or of all; at the end, expect no more events."""
        streams = self._find_streams(name)
        time = read_watermark(to)
        self.watermarks.move_streams(streams, time, is_end)
        if self.usage.has_unused:
            self.usage.drop_unused()
        self.watermarks.follow_streams()

    def find_end(self) -> int | None:
        """The first slide that can contain the last event; None before the first event."""
        return self.watermarks.find_end()

    def take_strays(self) -> list[Refused]:
        """The strays found as the watermark moved that no epoch has reported yet."""
        return self.watermarks.take_strays()

    def publish_due(self, record: Record = record_nothing) -> Iterator[Published]:
        """Publish all slides up to the watermark, in order; each is made within `record`."""
        return self.publisher.publish_due(record)

    def prepare_due(self) -> Iterator[Preparing[Published]]:
        """As `publish_due`, but each slide pauses before it is published."""
        return self.publisher.prepare_due()

    def metrics(self) -> dict[str, Any]:
        """The ``windows`` figures of `triegs.Engine.metrics`."""
        streams = list(self.streams.values())
        cursors = list(self.usage.cursors.values())
        return {
            "watermark": self.watermark,
            "late": self.counts.late,
            "ahead": self.counts.ahead,
            "refused": self.counts.refused,
            "repeated": self.counts.repeated + sum(stream.repeated for stream in streams),
            "in_gaps": self.counts.gaps + sum(cursor.gaps for cursor in cursors),
            "pending": sum(len(stream.pending) for stream in streams),
            "retained": sum(len(stream.log) for stream in streams),
            "bytes": sum(stream.log.bytes for stream in streams),
        }
