"""The window oracle: the content of each window at each published time, by the definitions.

It imports nothing of triegs. It keeps all events in plain lists and recomputes the content of a
window at each slide; `triegs.testing.oracle` then answers queries over it. Every operation is
linear in all events so far, which is fine for tests.

>>> oracle = WindowOracle([Shape(width=10, slide=5)])
>>> oracle.push([Event(3, "+", ("<a>", "<p>", "<b>"))])
[]
>>> [(moment.time, dict(moment.held[0])) for moment in oracle.advance(20)]
[(5, {('<a>', '<p>', '<b>'): 1}), (10, {('<a>', '<p>', '<b>'): 1}), (15, {}), (20, {})]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Triple = tuple[str, str, str]
TimedTriple = tuple[str, str, str, str]


class Event(NamedTuple):
    """A pushed event, with an optional id. ``triple`` may also be a tuple of triples, those of a
    table row, which are inserted and deleted together.
    """

    time: int
    sign: str
    triple: Triple
    id: str | None = None


@dataclass(frozen=True)
class Shape:
    """A window: with `width` None nothing expires; with `slide` None it slides at each event time;
    with `last` it holds that many events, and each event is an epoch.
    """

    width: int | None = None
    slide: int | None = None
    start: int = 0
    is_closed_at_start: bool = False
    last: int | None = None
    stream: str | None = None

    @property
    def shift(self) -> int:
        return 1 if self.is_closed_at_start else 0

    def first_slide(self, time: int) -> int:
        """The first slide at or after a time (after it, if the end is excluded)."""
        if self.slide is None:
            return time
        slide = self.start + (time - self.start) // self.slide * self.slide
        while slide - self.shift < time:
            slide += self.slide
        return slide


class Moment(NamedTuple):
    """One published epoch: its time, the content of each window, the refused events, and the
    content of each window by triple and event time, as terms.
    """

    time: int
    held: list[Counter[Triple]]
    refused: list[int]
    timed: list[Counter[TimedTriple]]


@dataclass
class Kept:
    """An accepted event."""

    time: int
    triple: Triple
    id: str | None
    is_deleted: bool = False


@dataclass
class Cursor:
    """The state of a window: its last slide and, for a window of `last` events, where it begins."""

    shape: Shape
    last: int | None = None
    begin: int = 0
    live: list[Kept] = field(default_factory=list)


@dataclass
class Flow:
    """A stream: pending events as (time, arrival, event), and all accepted events."""

    waiting: list[tuple[int, int, Event]] = field(default_factory=list)
    entered: list[Kept] = field(default_factory=list)
    watermark: int | None = None
    #: The accepted times; the first few of a stream may be revoked.
    times: list[int] = field(default_factory=list)
    is_sure: bool = False
    #: Times and numbers of undecided events that are far from the rest.
    strays: list[tuple[int, int]] = field(default_factory=list)
    #: Numbers of events found to be out of range, which the next epoch reports.
    out_of_range: list[int] = field(default_factory=list)
    arrivals: int = 0
    is_closed: bool = False
    driven_at: int | None = None

    @property
    def newest(self) -> int | None:
        return max(self.times, default=None)

    @property
    def first(self) -> int | None:
        return min(self.times, default=None)

    def drop(self, numbers: set[int]) -> list[int]:
        self.waiting = [each for each in self.waiting if each[1] not in numbers]
        return sorted(numbers)


class WindowOracle:
    """Windows over streams. `late`, `ahead` and `repeated` count events that had no effect."""

    def __init__(
        self, shapes: list[Shape], lateness: int = 0, max_ahead: int = 86_400_000,
        idle: int | None = None,
    ) -> None:  # fmt: skip
        self.cursors = [Cursor(shape) for shape in shapes]
        self.flows = {shape.stream: Flow() for shape in shapes}
        self.lateness = lateness
        self.max_ahead = max_ahead
        self.idle = idle
        self.final: int | None = None
        self.late = self.ahead = self.repeated = 0

    def push(self, events: list[Event], stream: str | None = None) -> list[int]:
        """Add events; returns the numbers of those too late or too far ahead."""
        flow = self.flows[stream]
        refused = []
        for event in events:
            number = flow.arrivals
            flow.arrivals += 1
            bound = self._bound(flow)
            if bound is not None and event.time <= bound:
                self.late += 1
                refused.append(number)
                continue
            flow.waiting.append((event.time, number, event))
            if (bound is None and not flow.times) or self._is_near(event.time, flow):
                flow.times.append(event.time)
                flow.is_sure |= bound is not None or len(flow.times) >= 3
                if flow.is_sure:
                    out_of_range, flow.strays = flow.drop({n for _, n in flow.strays}), []
                else:
                    out_of_range = []
            else:
                flow.strays.append((event.time, number))
                group = self._group(flow, event.time)
                out_of_range = self._move(flow, group) if len(group) >= 3 else []
                undecided = len(flow.strays) + (0 if flow.is_sure else len(flow.times))
                if undecided > 16:
                    out_of_range = flow.drop({flow.strays.pop(0)[1]})
            self.ahead += len(out_of_range)
            refused += out_of_range
        return sorted(refused)

    def _bound(self, flow: Flow) -> int | None:
        return max((t for t in (flow.watermark, self.final) if t is not None), default=None)

    def _is_near(self, time: int, flow: Flow) -> bool:
        """Whether a time is within `max_ahead` of the stream. Once there is a watermark, it alone
        decides about times far back.
        """
        bound = self._bound(flow)
        reached = flow.times + ([] if bound is None else [bound])
        if not reached or time > max(reached) + self.max_ahead:
            return False
        return bound is not None or time >= min(flow.times) - self.max_ahead

    def _group(self, flow: Flow, time: int) -> list[tuple[int, int]]:
        """The strays connected to that time by steps of at most `max_ahead`."""
        ordered = sorted(flow.strays)
        groups: list[list[tuple[int, int]]] = []
        for each in ordered:
            if groups and each[0] - groups[-1][-1][0] <= self.max_ahead:
                groups[-1].append(each)
            else:
                groups.append([each])
        return next(group for group in groups if any(each[0] == time for each in group))

    def _move(self, flow: Flow, group: list[tuple[int, int]]) -> list[int]:
        """Move the stream to this group; drops all other undecided events and returns them."""
        wrong = {number for _, number in flow.strays} - {number for _, number in group}
        if not flow.is_sure:
            wrong |= {n for time, n, _ in flow.waiting if (time, n) not in flow.strays}
            flow.times = []
        flow.times += [time for time, _ in group]
        flow.strays, flow.is_sure = [], True
        return flow.drop(wrong)

    def _settle(self, flow: Flow) -> None:
        """Decide about strays, before and after a watermark moves."""
        if flow.times and not flow.is_sure:
            groups = [self._group(flow, time) for time, _ in flow.strays]
            largest = max(groups, key=len, default=[])
            flow.is_sure = True
            if len(largest) > len(flow.times):
                flow.is_sure = False
                self._lose(flow, self._move(flow, largest))
        bound, low = self._bound(flow), flow.first
        for each in list(flow.strays):
            time, number = each
            is_behind = low is not None and time < low - self.max_ahead
            if not is_behind and self._is_near(time, flow):
                flow.times.append(time)
                flow.is_sure = True
            elif flow.is_closed or (bound is not None and time <= bound):
                self._lose(flow, flow.drop({number}))
            else:
                continue
            flow.strays.remove(each)

    def _lose(self, flow: Flow, out_of_range: list[int]) -> None:
        self.ahead += len(out_of_range)
        flow.out_of_range += out_of_range

    def advance(self, to: int | None = None, stream: str | None = "*") -> list[Moment]:
        """Move the watermark of a stream, or of all (``"*"``)."""
        for name, flow in self.flows.items():
            if stream in ("*", name):
                self._settle(flow)
                mark = to
                if mark is None and flow.newest is not None:
                    mark = flow.newest - self.lateness
                if mark is not None:
                    flow.watermark = max(
                        mark, flow.watermark if flow.watermark is not None else mark
                    )
        return self._publish()

    def close(self, stream: str | None = "*") -> list[Moment]:
        for name, flow in self.flows.items():
            if stream in ("*", name):
                flow.is_closed = True
                self._settle(flow)
        return self._publish()

    def _find_final(self) -> int | None:
        marks = [flow.watermark for flow in self.flows.values()]
        known = [mark for mark in marks if mark is not None]
        firsts = [flow.first for flow in self.flows.values() if flow.first is not None]
        waited: list[int | None] = []
        for flow in self.flows.values():
            since = flow.watermark if flow.watermark is not None else min(firsts, default=None)
            is_idle = (
                self.idle is not None
                and bool(known)
                and since is not None
                and max(known) - since > self.idle
            )
            if not flow.is_closed and not is_idle:
                waited.append(flow.watermark)
        if waited:
            found = None if None in waited else min(m for m in waited if m is not None)
        else:
            ends = [
                cursor.shape.first_slide(newest)
                for cursor in self.cursors
                if (newest := self.flows[cursor.shape.stream].newest) is not None
            ]
            found = max(ends, default=None)
        both = [t for t in (found, self.final) if t is not None]
        return max(both, default=None)

    def _publish(self) -> list[Moment]:
        self.final = self._find_final()
        for flow in self.flows.values():
            if self._bound(flow) is not None:
                self._settle(flow)
        moments: list[Moment] = []
        order = list(self.flows)
        while True:
            due = [
                (time, 0 if cursor.shape.last is not None else 1, order.index(name), number)
                for number, cursor in enumerate(self.cursors)
                for name in [cursor.shape.stream]
                if (time := self._next(cursor)) is not None
                and self.final is not None
                and time <= self.final
            ]
            if not due:
                return moments
            time, rank, first, _ = min(due)
            chosen = [
                self.cursors[number]
                for *when, stream, number in due
                if when == [time, rank] and (rank == 1 or stream == first)
            ]
            refused: list[int] = []
            for name in self.flows:
                if sliding := [cursor for cursor in chosen if cursor.shape.stream == name]:
                    refused += self._slide(name, time, sliding)
            for flow in self.flows.values():
                refused += flow.out_of_range
                flow.out_of_range = []
            lives = [cursor.live for cursor in self.cursors]
            held = [count_triples(event.triple for event in live) for live in lives]
            moments.append(Moment(time, held, refused, [count_timed(live) for live in lives]))

    def _next(self, cursor: Cursor) -> int | None:
        flow, shape = self.flows[cursor.shape.stream], cursor.shape
        if shape.slide is None:
            if shape.last is None and flow.driven_at is not None:
                return flow.driven_at
            return min((time for time, _, _ in flow.waiting), default=None)
        if cursor.last is not None:
            return cursor.last + shape.slide
        return None if flow.first is None else shape.first_slide(flow.first)

    def _slide(self, name: str | None, time: int, due: list[Cursor]) -> list[int]:
        flow = self.flows[name]
        refused = []
        for cursor in due:
            if cursor.shape.last is None:
                cursor.last = time
        for shift in (1, 0):
            group = [cursor for cursor in due if cursor.shape.shift == shift]
            if not group:
                continue
            flow.waiting.sort(key=lambda each: each[:2])
            if group[0].shape.last is not None:
                events, flow.waiting = flow.waiting[:1], flow.waiting[1:]
            else:
                events = [each for each in flow.waiting if each[0] <= time - shift]
                flow.waiting = flow.waiting[len(events) :]
            for _, number, event in events:
                if not self._judge(flow, name, event):
                    refused.append(number)
            for cursor in group:
                cursor.live = self._read(flow, cursor, time)
        is_driven = any(cursor.shape.last is not None for cursor in due)
        flow.driven_at = time if is_driven else None
        return refused

    def _read(self, flow: Flow, cursor: Cursor, time: int) -> list[Kept]:
        shape = cursor.shape
        if shape.last is not None:
            live = [n for n, e in enumerate(flow.entered) if not e.is_deleted and n >= cursor.begin]
            if len(live) > shape.last:
                cursor.begin = live[-shape.last]
            return [flow.entered[n] for n in live[-shape.last :]]
        edge = time - shape.shift
        return [
            event
            for event in flow.entered
            if not event.is_deleted
            and event.time <= edge
            and (shape.width is None or event.time > edge - shape.width)
        ]

    def _is_retained(self, flow: Flow, name: str | None, number: int) -> bool:
        """Whether an event is live in some window of its stream, or may become so."""
        event = flow.entered[number]
        if event.is_deleted:
            return False
        for cursor in self.cursors:
            shape = cursor.shape
            if shape.stream != name:
                continue
            if shape.last is not None:
                if number >= cursor.begin:
                    return True
            elif (
                cursor.last is None
                or shape.width is None
                or event.time > cursor.last - shape.shift - shape.width
            ):
                return True
        return False

    def _judge(self, flow: Flow, name: str | None, event: Event) -> bool:
        retained = [n for n in range(len(flow.entered)) if self._is_retained(flow, name, n)]
        named = [n for n in retained if event.id is not None and flow.entered[n].id == event.id]
        if named and flow.entered[named[0]].triple != event.triple:
            return False
        if event.sign == "+":
            if named:
                self.repeated += 1
            else:
                flow.entered.append(Kept(event.time, event.triple, event.id))
            return True
        if event.id is None:
            named = [n for n in retained if flow.entered[n].triple == event.triple]
        if named:
            flow.entered[named[0]].is_deleted = True
        return bool(named)


def count_triples(events: Iterable[Any]) -> Counter[Triple]:
    """How often each triple occurs.

    >>> count_triples([("<a>", "<p>", "<b>"), (("<a>", "<p>", "<b>"), ("<b>", "<p>", "<c>"))])
    Counter({('<a>', '<p>', '<b>'): 2, ('<b>', '<p>', '<c>'): 1})
    """
    found: Counter[Triple] = Counter()
    for each in events:
        for triple in [each] if isinstance(each[0], str) else each:
            found[triple] += 1
    return found


def count_timed(events: Iterable[Kept]) -> Counter[TimedTriple]:
    """How often each triple occurs at each time.

    >>> count_timed([Kept(5, ("<a>", "<p>", "<b>"), None)])
    Counter({('<a>', '<p>', '<b>', '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'): 1})
    """
    found: Counter[TimedTriple] = Counter()
    for event in events:
        time = f'"{event.time}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        for triple, count in count_triples([event.triple]).items():
            found[(*triple, time)] += count
    return found
