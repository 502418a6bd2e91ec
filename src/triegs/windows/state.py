"""The windows of an engine as fields and events, and back: all that their future depends on.

What spaces show follows from the logs and from the static graph, so it is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from triegs.maintain.standing import Refused
from triegs.reasons import Reason
from triegs.sparql.window import Bounds, Kind, Window
from triegs.windows.feed import Feed
from triegs.windows.log import Frozen
from triegs.windows.manager import Windows
from triegs.windows.pending import NOTHING, Timed

OF_WINDOWS = ("watermark", "takes", "late", "ahead", "refused", "gaps", "repeated")
OF_STREAM = (
    "watermark", "judged", "is_closed", "has_ids", "has_deletions", "arrivals", "repeated",
    "unshown",
)  # fmt: skip
OF_FEED = ("head", "tail", "low", "live", "gaps", "due")


class Captured(NamedTuple):
    """Fields as JSON has them; and by stream the events that are retained, and those that wait."""

    fields: dict[str, Any]
    events: list[tuple[Frozen, Timed]]

    def close(self) -> None:
        """Let the streams write where they like; nothing more is read."""
        for log, _ in self.events:
            log.close()


class Piece(NamedTuple):
    """Some events: the number of their stream, and whether they wait or are retained."""

    stream: int
    is_pending: bool
    events: Timed


def write_window(window: Window) -> list[Any]:
    """
    >>> read_window(write_window(Window("10s", slide="5s"))) == Window("10s", slide="5s")
    True
    """
    return [
        window.kind.value, window.width, window.slide, window.start, window.bounds.value,
        window.stream,
    ]  # fmt: skip


def read_window(fields: list[Any]) -> Window:
    kind, width, slide, start, bounds, stream = fields
    return Window._make(Kind(kind), width, slide, start, Bounds(bounds), stream)


def capture(windows: Windows) -> Captured:
    """What there is now. Cost: the events that wait; retained ones are copied later."""
    streams = []
    events = []
    for name, stream in windows.streams.items():
        described = {each: getattr(stream, each) for each in OF_STREAM}
        described["name"] = name
        described["start"] = stream.log.start
        described["place"] = stream.place.tolist()
        described["held"] = stream.held.tolist()
        described["refused_events"] = _describe_refused(stream.refused)
        described["astray_events"] = _describe_refused(stream.astray)
        described["feeds"] = [_describe(feed) for feed in stream.feeds]
        streams.append(described)
        events.append((stream.log.freeze(), stream.pending.copy()))
    fields = {each: getattr(windows, each) for each in OF_WINDOWS}
    return Captured({**fields, "streams": streams}, events)


def list_pieces(captured: Captured, rows: int) -> Iterator[Piece]:
    """All events in pieces of so many rows, from any thread. Memory: one piece."""
    for number, (log, pending) in enumerate(captured.events):
        for first in range(log.start, log.end, rows):
            yield Piece(number, False, log.read(first, min(first + rows, log.end)))
        for first in range(0, len(pending.times), rows):
            yield Piece(number, True, pending.pick(slice(first, first + rows)))


def _describe_refused(refused: Iterable[Refused]) -> list[list[Any]]:
    return [[place, why.kind, why.detail] for place, why in refused]


def _read_refused(described: Iterable[list[Any]]) -> list[Refused]:
    return [Refused(place, Reason(kind).describe(detail)) for place, kind, detail in described]


def _describe(feed: Feed) -> dict[str, Any]:
    found = {each: getattr(feed, each) for each in OF_FEED}
    return {**found, "window": write_window(feed.window), "kills": list(feed.kills)}


def restore(windows: Windows, fields: dict[str, Any], pieces: Iterable[Piece]) -> None:
    """Stand as the windows that were captured; the queries are there, and saw no event yet.

    The spaces are filled by `Windows.fill_all`.
    """
    for each in OF_WINDOWS:
        setattr(windows, each, fields[each])
    parts: dict[tuple[int, bool], list[Timed]] = {}
    for piece in pieces:
        parts.setdefault(piece[:2], []).append(piece.events)
    for number, described in enumerate(fields["streams"]):
        stream = windows.streams.get(described["name"])
        if stream is None:  # what nobody reads, and was kept for want of room to drop it
            windows.repeated += described["repeated"]
            windows.gaps += sum(feed["gaps"] for feed in described["feeds"])
            continue
        # In the order in which they were made: it decides between events of one time.
        windows.streams[described["name"]] = windows.streams.pop(described["name"])
        for each in OF_STREAM:
            setattr(stream, each, described[each])
        stream.place = np.array(described["place"], np.int64)
        stream.held = np.array(described["held"], np.int64).reshape(-1, 3)
        stream.refused = _read_refused(described["refused_events"])
        stream.astray = _read_refused(described["astray_events"])
        log, pending = (_join(parts.get((number, is_pending), [])) for is_pending in (False, True))
        stream.restore(described["start"], log, pending)
        feeds = {feed.window: feed for feed in stream.feeds}
        for feed_fields in described["feeds"]:
            feed = feeds.get(read_window(feed_fields["window"]))
            if feed is None:
                windows.gaps += feed_fields["gaps"]
                continue
            for each in OF_FEED:
                setattr(feed, each, feed_fields[each])
            feed.kills = list(feed_fields["kills"])


def _join(parts: list[Timed]) -> Timed:
    """Parts that follow each other as one."""
    columns = zip(NOTHING, *parts, strict=True)
    return Timed(*(np.concatenate(column) for column in columns))
