"""The windows of an engine: events in, epochs out. Read this first.

```
push ──► pending ──(watermark)──► log ──► feeds: what expires, what arrives ──► spaces ──► core
```
A *stream* has events that wait and a log of those that were judged; a *feed* is one window over one
stream, two positions in its log; a *space* has the labels under which a feed's events, perhaps with
the static graph, stand in the core. Everything costs what changes, whatever the width.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import numpy as np

from triegs.dictionary import Dictionary
from triegs.errors import InvalidUpdate, MemoryLimitReached, StateError, WindowError
from triegs.maintain.origins import Origins
from triegs.maintain.standing import NO_EVENT, Epoch, Refused, show_refused
from triegs.options import ArrowTerms
from triegs.read.snapshot import Snapshot
from triegs.reasons import Reason
from triegs.sparql.model import Operator, Query, is_variable
from triegs.sparql.stream_clauses import WHOLE
from triegs.sparql.window import EVERY, Span, Window, name_stream
from triegs.store.packed import PackedStore
from triegs.windows.clock import Clock
from triegs.windows.emission import Emission, Emitter, Policy
from triegs.windows.encoding import Events, encode_events, read_time
from triegs.windows.feed import Feed, Slide
from triegs.windows.judging import NO_TIME, SAME_ROW, Words
from triegs.windows.settings import EventTime, Late
from triegs.windows.spaces import Space, SpaceKey, Spaces
from triegs.windows.stream import Stream

log_messages = logging.getLogger("triegs")


class Pushed(NamedTuple):
    """What became of a push.

    ``first`` is the number of its first event in the stream; ``accepted`` events wait for their
    slide; ``late`` counts those that came too late; ``refused`` has what was malformed or
    quarantined, by number in the stream. Events of earlier pushes are among them if their times
    have turned out to be astray: see `triegs.EventTime`.
    """

    first: int
    accepted: int
    late: int
    refused: tuple[Refused, ...]

    def __repr__(self) -> str:
        counts = f"first={self.first}, accepted={self.accepted}, late={self.late}"
        return f"Pushed({counts}, refused={show_refused(self.refused)})"


class Published(NamedTuple):
    """One epoch that a watermark brought: its number, its time, and the events that were refused
    while it was made, by number in their stream.
    """

    epoch: int
    time: int
    refused: tuple[Refused, ...] = ()

    def __repr__(self) -> str:
        refused = show_refused(self.refused)
        return f"Published(epoch={self.epoch}, time={self.time}, refused={refused})"


class Due(NamedTuple):
    """A slide: its time, and the windows that slide then, by their streams."""

    time: int
    feeds: dict[Stream, list[Feed]]


#: Entered with the time of an epoch while it is made.
Record = Callable[[int], AbstractContextManager[None]]


def record_nothing(_: int) -> AbstractContextManager[None]:
    """For slides that no record tells of, or one that tells of all."""
    return nullcontext()


class EmitOptions(NamedTuple):
    """As `triegs.standing_query.StandingQuery.emit` takes them."""

    operator: str | None
    report: str
    every: Span | None
    terms: ArrowTerms


class GraphCore(Protocol):
    """What windows need of the core."""

    @property
    def origins(self) -> Origins: ...

    def apply(self, rows: Words, is_strict: bool = False) -> Epoch: ...

    def count(self, subject: int, predicate: int, obj: int) -> int: ...

    def static_rows(self) -> Iterator[tuple[tuple[int, ...], int]]: ...


class Windows:
    """Streams, feeds and spaces of one engine; the engine sees that one thread at a time updates.

    `window` is the one for queries without their own; its events are retained from the start.
    """

    def __init__(
        self, core: GraphCore, words: Dictionary, store: PackedStore, clock: Clock,
        settings: EventTime | None = None, window: Window | None = None,
    ) -> None:  # fmt: skip
        _check_window(window)
        self.settings = settings or EventTime()
        self.window = window
        self.streams: dict[str | None, Stream] = {}
        #: Epochs up to this time are published, and events up to it are final.
        self.watermark: int | None = None
        self.takes: str | None = None
        self.late = self.ahead = self.refused = 0
        self._core = core
        self._words = words
        self._store = store
        self._clock = clock
        self.identities = Dictionary()
        self.feeds: dict[Window, Feed] = {}
        self._spaces = Spaces(words, core.origins, self._number)
        self.gaps = self.repeated = 0  # of what is gone
        self._has_unused = False
        self._slid: Collection[Feed] = ()  # in the last epoch
        self._emitters: list[Emitter] = []
        #: Whether the next slide refuses what comes, because it did so when it was made first.
        self.is_refusing = False
        #: Whether the last slide did.
        self.has_refused = False
        self.find_label = self._spaces.find_label
        if window is not None:
            self.open([SpaceKey(window, True)])

    def _number(self) -> int:
        return self._store.newest.number

    @property
    def _newest(self) -> int:
        return self._store.newest.number

    @property
    def is_used(self) -> bool:
        return bool(self._spaces.by_number)

    # Queries

    def resolve(self, query: Query, window: Window | None) -> tuple[Query, list[SpaceKey]]:
        """The query with a space for each atom that reads a window, and these spaces.

        A window of the text is for its own blocks; atoms outside read the static graph. A window
        that was given, or else the engine's, is for the whole query, beside the static graph.
        """
        _check_window(window)
        if query.windows and window is not None:
            raise WindowError("the query has windows in its text; give it no other")
        named = dict(query.windows)
        if window is None and not named:
            window = self.window
        outside = named.pop(WHOLE, window)
        # A window that no atom reads has epochs all the same.
        keys = {name: SpaceKey(each, False) for name, each in named.items()}
        if outside is not None:
            keys[WHOLE] = SpaceKey(outside, True)
        numbers = {name: f"#{self._spaces.number(key)}" for name, key in keys.items()}
        read = query.graphs or (WHOLE,) * len(query.atoms)
        graphs = tuple(numbers.get(name, "") for name in read)
        windows = tuple((name, key.window) for name, key in keys.items())
        found = replace(query, graphs=graphs if any(graphs) else (), windows=windows)
        return found, list(dict.fromkeys(keys.values()))

    def open(self, keys: Iterable[SpaceKey]) -> None:
        """Count one more user of each space; a new one is filled from what is retained.

        Cost of a new one: its window, and the static graph if it reads that.
        """
        opened: list[SpaceKey] = []
        for key in keys:
            space = self._spaces.by_number.get(self._spaces.number(key))
            if space is None:
                space = self._spaces.make(key, self._make_feed(key.window))
                try:
                    self._fill(space)
                except BaseException:
                    self._drop_space(space)
                    self.close(opened)
                    raise
            space.uses += 1
            opened.append(key)

    @contextmanager
    def use(self, query: Query, keys: Sequence[SpaceKey]) -> Iterator[None]:
        """Open the spaces of a query that is about to be registered; close them if it is not."""
        self.open(keys)
        self.hold(query, 1)
        try:
            yield
        except BaseException:
            self.hold(query, -1)
            self.close(keys)
            raise

    def close(self, keys: Iterable[SpaceKey]) -> None:
        """Count one user less; what nobody uses is dropped, its events too."""
        for key in keys:
            self._spaces.by_number[self._spaces.number(key)].uses -= 1
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Take what nobody uses out of the core.

        Closing must not fail for want of room: what finds none stays, up to date and unread, until
        the next call.
        """
        self._has_unused = False
        for space in [each for each in self._spaces.by_number.values() if each.uses == 0]:
            rows = self._read(space)
            rows[:, 0] = -rows[:, 0]
            try:
                if len(rows):
                    self._core.apply(space.translate(rows, self._newest))
            except MemoryLimitReached:
                self._has_unused = True
            else:
                self._drop_space(space)

    def hold(self, query: Query, change: int) -> None:
        """Let the labels that a query names live, or not any more."""
        for atom, graph in zip(query.atoms, query.graphs, strict=False):
            if graph and not is_variable(atom.predicate):
                space = self._spaces.by_number[int(graph[1:])]
                predicate = self._words.encode_one(atom.predicate)
                space.hold(predicate, change, self._newest)

    def _make_feed(self, window: Window) -> Feed:
        """The feed of a window, made if need be: it starts from what is retained."""
        feed = self.feeds.get(window)
        if feed is None:
            name = window.stream
            stream = self.streams.get(name)
            if stream is None:
                stream = Stream(name, self._words, self.identities, self._number)
                self.streams[name] = stream
            feed = self.feeds[window] = Feed(window, stream.log)
            stream.feeds.append(feed)
            if stream.judged is not None:
                feed.begin_late(stream.judged)
        return feed

    def _fill(self, space: Space) -> None:
        rows = self._read(space)
        if len(rows):
            labelled = space.translate(rows, self._newest)
            self._core.apply(labelled)
            space.count(labelled, self._newest)

    def fill_all(self, static: Words) -> None:
        """Fill the static graph and every space at once, in an epoch: of an engine that has
        neither. `static` has the number of events for the change. Cost: all of it.
        """
        parts = [static]
        labelled = []
        for space in self._spaces.by_number.values():
            rows = [space.feed.read(), *([static] if space.key.has_static else [])]
            labelled.append(space.translate(np.concatenate(rows), self._newest))
        self._core.apply(np.concatenate([*parts, *labelled]))
        for space, found in zip(self._spaces.by_number.values(), labelled, strict=True):
            space.count(found, self._newest)

    def _read(self, space: Space) -> Words:
        """Everything in a space, with plain predicates; the change is the number of events."""
        rows = [space.feed.read()]
        if space.key.has_static:
            static = [(count, *key) for key, count in self._core.static_rows()]
            rows.append(np.array(static, np.int64).reshape(-1, 4))
        return np.concatenate(rows)

    def _drop_space(self, space: Space) -> None:
        self._spaces.drop(space)
        window = space.key.window
        feed = space.feed
        if any(other.feed is feed for other in self._spaces.by_number.values()):
            return
        del self.feeds[window]
        self.gaps += feed.gaps
        stream = self.streams[window.stream]
        stream.feeds.remove(feed)
        if stream.feeds:
            stream.retire()
        else:
            stream.clear()
            self.repeated += stream.repeated
            del self.streams[window.stream]

    def take_times(self) -> None:
        """Epochs have a time of their own: then there are no events that would move it."""
        if self.is_used or self.takes == "events":
            raise StateError("this engine has windows: its time moves by push and advance")
        self.takes = "time"

    # Results as streams

    def emit(
        self, take: Callable[[], Snapshot], query: Query, keys: Sequence[SpaceKey],
        sink: Callable[[Emission], object], options: EmitOptions,
    ) -> Emitter:  # fmt: skip
        """Hand results on after each slide; see `triegs.standing_query.StandingQuery.emit`."""
        if not keys:
            raise WindowError("only a query with a window has slides; subscribe to this one")
        said = query.output.operator.value if query.output is not None else "RSTREAM"
        try:
            operator = Operator((options.operator or said).upper())
            policy = Policy(options.report)
        except ValueError as problem:
            raise WindowError(f"{problem}; see StandingQuery.emit") from None
        feeds = [self.feeds[key.window] for key in keys]
        found = Emitter(take, feeds, sink, operator, policy, options.every, options.terms)
        self._emitters.append(found)
        return found

    def follow(self, epoch: int, time: int) -> list[Exception]:
        """An epoch was published by a slide; returns what emitters raised. None of it may keep the
        next slide, or another emitter, from its turn.
        """
        problems: list[Exception] = []
        if self._emitters:
            self._emitters = [each for each in self._emitters if not each.is_closed]
            for each in self._emitters:
                try:
                    each.follow(epoch, time, self._slid)
                except Exception as problem:
                    problems.append(problem)
        return problems

    # Static data

    def judge_static(self, rows: Words) -> tuple[Refused, ...]:
        """Which deletions of a static batch find nothing. Cost: the deletions."""
        gone = rows[rows[:, 0] < 0, 1:].tolist()
        counts = {key: self._core.count(*key) for key in map(tuple, gone)}
        refused = []
        for place, (change, *terms) in enumerate(rows.tolist() if counts else ()):
            key = tuple(terms)
            if key not in counts:
                continue
            if counts[key] + change < 0:
                refused.append(Refused(place, NO_EVENT))
            else:
                counts[key] += change
        return tuple(refused)

    def apply_static(self, rows: Words, is_strict: bool) -> Epoch:
        """An epoch of the static graph, in every space that shows it."""
        refused = self.judge_static(rows)
        if refused and is_strict:
            message = f"{len(refused)} updates of a strict epoch were invalid; nothing changed"
            raise InvalidUpdate(message, refused)
        kept = np.delete(rows, [place for place, _ in refused], axis=0) if refused else rows
        spaces = [each for each in self._spaces.by_number.values() if each.key.has_static]
        parts = [space.translate(kept, self._newest) for space in spaces]
        version, _ = self._core.apply(np.concatenate([kept, *parts]))
        for space, labelled in zip(spaces, parts, strict=True):
            space.count(labelled, version.number)
        return Epoch(version, refused)

    # Events

    def count_arrivals(self, name: str | None) -> int:
        """How many events were pushed to a stream so far."""
        return self._find_stream(name).arrivals

    def encode(self, events: Any, name: str | None) -> Events:
        """Events by ids, for a stream that takes them."""
        if self.takes == "time":
            raise StateError("this engine takes epochs by apply(..., time=...), not by push")
        stream = self._find_stream(name)
        if stream.is_closed:
            raise StateError(f"{stream.title} is closed")
        return encode_events(self._words, self.identities, events)

    def push(self, found: Events, name: str | None) -> Pushed:
        """Take events in; see `triegs.Engine.push`."""
        self.takes = "events"
        stream = self._find_stream(name)
        bound = self._bound(stream)
        first, accepted, late, astray = stream.add(found, bound, self.settings.max_ahead)
        refused = [Refused(first + place, reason) for place, reason in found.refused]
        refused += [Refused(number, Reason.TOO_EARLY.describe()) for number in astray]
        if self.settings.late is Late.QUARANTINE:
            why = Reason.LATE.describe(f"its time is at or before the watermark, {bound}")
            refused += [Refused(number, why) for number in late.tolist()]
        self.late += len(late)
        self.ahead += len(astray)
        self.refused += found.given - int(np.count_nonzero(found.ids != SAME_ROW))
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

    def move(self, to: Any, name: str | None, is_end: bool) -> None:
        """Move the watermark of one stream or of all; or, at the end, expect no more events."""
        streams = self._find_streams(name)
        time = None if to is None else read_time(to)
        if time == NO_TIME:
            raise WindowError(f"a watermark is a time, not {to!r}")
        for stream in streams:
            self._settle(stream, is_end)
            if is_end:
                stream.is_closed = True
                continue
            mark = time
            if mark is None and stream.newest is not None:
                mark = stream.newest - self.settings.lateness
            if mark is not None and (stream.watermark is None or mark > stream.watermark):
                stream.watermark = mark
        if self._has_unused:
            self._drop_unused()
        found = self._find_watermark()
        if found is not None and (self.watermark is None or found > self.watermark):
            self.watermark = found
        for stream in self.streams.values():
            if self._bound(stream) is not None:
                self._settle(stream, stream.is_closed)

    def _bound(self, stream: Stream) -> int | None:
        """The time up to which events of a stream are late."""
        marks = [t for t in (stream.watermark, self.watermark) if t is not None]
        return max(marks, default=None)

    def _settle(self, stream: Stream, is_end: bool) -> None:
        """Find out what is astray, before and after the watermark moves."""
        self.ahead += stream.settle(self._bound(stream), self.settings.max_ahead, is_end)

    def take_astray(self) -> list[Refused]:
        """What was found to be astray as the watermark moved, and no epoch has told."""
        found = [each for stream in self.streams.values() for each in stream.astray]
        for stream in self.streams.values():
            stream.astray = []
        return found

    def _find_watermark(self) -> int | None:
        """The least of the streams that are neither closed nor idle."""
        streams = list(self.streams.values())
        highest = max((s.watermark for s in streams if s.watermark is not None), default=None)
        idle = self.settings.idle_timeout
        marks = []
        for stream in streams:
            if stream.is_closed:
                continue
            behind = stream.watermark
            if idle is not None and highest is not None and highest != behind:
                since = behind if behind is not None else self._began(streams)
                if since is not None and highest - since > idle:
                    continue
            marks.append(behind)
        if marks:
            found = None if None in marks else min(mark for mark in marks if mark is not None)
        else:
            found = self.find_end()
        return found

    def find_end(self) -> int | None:
        """The first slide that can hold the last event; None before there is any event."""
        ends = [
            feed.window.first_slide(stream.newest)
            for stream in self.streams.values()
            if stream.newest is not None
            for feed in stream.feeds
        ]
        return max(ends, default=None)

    @staticmethod
    def _began(streams: Sequence[Stream]) -> int | None:
        """The first time of all streams: from there on a silent one is waited for."""
        return min((s.first for s in streams if s.first is not None), default=None)

    def publish_due(self, record: Record = record_nothing) -> Iterator[Published]:
        """Publish all slides up to the watermark, in order; each is made within `record`."""
        while (due := self._find_due()) is not None:
            with record(due.time):
                found = self._publish(due)
            yield found

    def judge_due(self) -> None:
        """Judge the events of the next slide that is due, as publishing it begins: so engines of
        which one failed to publish it, and one did not try, stand at the same place.
        """
        due = self._find_due()
        if due is not None:
            self._work_out(due)

    def _find_due(self) -> Due | None:
        """The next slide up to the watermark."""
        if self.watermark is None:
            return None
        due = [
            (time, 0 if feed.is_by_event else 1, feed, stream)
            for stream in self.streams.values()
            for feed in stream.feeds
            if (time := self._due(feed, stream)) is not None and time <= self.watermark
        ]
        if not due:
            return None
        time, rank = min(each[:2] for each in due)
        group = [each for each in due if each[:2] == (time, rank)]
        if rank == 0:  # the events of several streams come one after the other
            group = [each for each in group if each[3] is group[0][3]]
        by_stream: dict[Stream, list[Feed]] = {}
        for _, _, feed, stream in group:
            by_stream.setdefault(stream, []).append(feed)
        return Due(time, by_stream)

    @staticmethod
    def _due(feed: Feed, stream: Stream) -> int | None:
        """The time of a feed's next slide."""
        if feed.due is not None:
            return feed.due
        if feed.is_by_event and stream.unshown is not None:
            return stream.unshown
        if feed.is_driven:
            return stream.pending.first_time
        return None if stream.first is None else feed.window.first_slide(stream.first)

    def _work_out(self, due: Due) -> dict[Feed, Slide]:
        slides: dict[Feed, Slide] = {}
        for stream, feeds in due.feeds.items():
            self._slide(stream, due.time, feeds, slides)
        return slides

    def _publish(self, due: Due) -> Published:
        """One epoch: every window that is due slides, and the core takes all changes at once."""
        time, slides = due.time, self._work_out(due)
        self.has_refused = False
        try:
            if self.is_refusing:
                raise MemoryLimitReached(str(Reason.NO_ROOM))
            parts, version = self._show(time, slides)
        except MemoryLimitReached as problem:
            # What expires must go, or the windows would stand still for good.
            kills = {feed: list(feed.kills) for stream in due.feeds for feed in stream.feeds}
            refused = self._refuse(due, slides)
            if not any(refused.values()):
                raise
            try:
                parts, version = self._show(time, slides)
            except BaseException:  # held epochs leave no room even for that
                for stream, positions in refused.items():
                    stream.take_back(positions)
                for feed, before in kills.items():
                    feed.kills = before
                raise
            log_messages.warning("slide at %d: its events were refused: %s", time, problem)
            self.has_refused = True
        for feed, slide in slides.items():
            feed.commit(slide, time)
        self._slid = slides.keys()
        for space, rows in parts:
            space.count(rows, version)
        reported: list[Refused] = []
        for stream in due.feeds:
            reported += stream.refused
            stream.refused = []
            stream.unshown = None
            stream.retire()
        self.refused += len(reported)
        reported += self.take_astray()
        return Published(version, time, tuple(reported))

    def _show(self, time: int, slides: dict[Feed, Slide]) -> tuple[list[tuple[Space, Words]], int]:
        """Publish an epoch of slides; returns the rows of each space, and the version's number."""
        parts = [
            (space, space.emit(slide, self._newest))
            for space in self._spaces.by_number.values()
            if (slide := slides.get(space.feed)) is not None
        ]
        rows = parts[0][1] if len(parts) == 1 else np.concatenate([rows for _, rows in parts])
        self._clock.begin(time)
        try:
            version, refused = self._core.apply(rows)
        except BaseException:
            for space, labelled in parts:
                space.forget(labelled, self._newest)
            raise
        finally:
            self._clock.end()
        assert not refused, "a window took back what it had not shown"
        return parts, version.number

    def _refuse(self, due: Due, slides: dict[Feed, Slide]) -> dict[Stream, list[int]]:
        """Refuse the events that slides bring, and work the slides out anew; returns where they
        were.

        An event that another window shows already goes from there as if it had been deleted.
        """
        found: dict[Stream, list[int]] = {}
        for stream, feeds in due.feeds.items():
            killed = found[stream] = []
            for feed in feeds:
                killed += stream.refuse(*slides[feed].arrived, Reason.NO_ROOM)
            for feed in stream.feeds:
                feed.note_kills(killed, feed.head, feed.tail)
            for feed in feeds:
                slides[feed] = feed.slide(due.time)
        return found

    def _slide(self, stream: Stream, time: int, due: list[Feed], slides: dict[Feed, Slide]) -> None:
        """Expire, judge what is due, and work out the slides of one stream's windows."""
        lows = {f: f.expire(time) if f in due else f.low for f in stream.feeds}
        for edge in sorted({feed.edge(time) for feed in due}):
            if killed := stream.judge_until(edge, due[0].is_by_event, lows):
                for feed in stream.feeds:
                    head, tail = slides[feed][:2] if feed in slides else (feed.head, feed.tail)
                    feed.note_kills(killed, head, tail)
            for feed in due:
                if feed.edge(time) == edge:
                    slides[feed] = feed.slide(time)

    # Figures

    def metrics(self) -> dict[str, Any]:
        streams = list(self.streams.values())
        feeds = list(self.feeds.values())
        return {
            "watermark": self.watermark,
            "late": self.late,
            "ahead": self.ahead,
            "refused": self.refused,
            "repeated": self.repeated + sum(stream.repeated for stream in streams),
            "in_gaps": self.gaps + sum(feed.gaps for feed in feeds),
            "pending": sum(len(stream.pending) for stream in streams),
            "retained": sum(len(stream.log) for stream in streams),
            "bytes": sum(stream.log.bytes for stream in streams),
        }


def _check_window(window: object) -> None:
    if window is not None and not isinstance(window, Window):
        hint = f"; write Window({window!r})" if isinstance(window, str | int | timedelta) else ""
        raise WindowError(f"a window is a triegs.Window, not {window!r}{hint}")
