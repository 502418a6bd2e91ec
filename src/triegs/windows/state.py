"""The windows of an engine as numbers and arrays, and back: all that their future depends on.

What spaces show follows from the logs and from the static graph, so it is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from triegs.maintain.standing import Refused
from triegs.sparql.window import Bounds, Kind, Window
from triegs.windows.feed import Feed
from triegs.windows.judging import Words
from triegs.windows.manager import Windows
from triegs.windows.pending import Timed

Translate = Callable[[NDArray[Any]], Words]
OF_WINDOWS = ("watermark", "takes", "late", "ahead", "refused", "gaps", "repeated")
OF_STREAM = (
    "watermark", "judged", "first", "newest", "is_closed", "has_ids", "has_deletions", "arrivals",
    "repeated", "unshown",
)  # fmt: skip
OF_FEED = ("head", "tail", "low", "live", "gaps", "due")
PARTS = ("log", "pending")


class WindowState(NamedTuple):
    """Fields as JSON has them, and arrays by name; ids are those of the dictionaries."""

    fields: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


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


def capture(windows: Windows) -> WindowState:
    """What there is now. Cost: the events that wait or are retained."""
    arrays: dict[str, NDArray[Any]] = {}
    streams = []
    for number, (name, stream) in enumerate(windows.streams.items()):
        described = {each: getattr(stream, each) for each in OF_STREAM}
        described["name"] = name
        described["start"] = stream.log.start
        described["refused_events"] = [list(each) for each in stream.refused]
        described["feeds"] = [_describe(feed) for feed in stream.feeds]
        for part, events in zip(PARTS, (stream.log.copy(), stream.pending.copy()), strict=True):
            for column, values in events._asdict().items():
                arrays[f"{part}{number}_{column}"] = values
        streams.append(described)
    fields = {each: getattr(windows, each) for each in OF_WINDOWS}
    return WindowState({**fields, "streams": streams}, arrays)


def _describe(feed: Feed) -> dict[str, Any]:
    found = {each: getattr(feed, each) for each in OF_FEED}
    return {**found, "window": write_window(feed.window), "kills": feed.kills}


def restore(windows: Windows, state: WindowState, terms: Translate, identities: Translate) -> None:
    """Stand as the windows that were captured; the queries are there, and saw no event yet.

    The spaces are filled by `Windows.fill_all`.
    """
    for each in OF_WINDOWS:
        setattr(windows, each, state.fields[each])
    for number, described in enumerate(state.fields["streams"]):
        stream = windows.streams.get(described["name"])
        if stream is None:  # what nobody reads, and was kept for want of room to drop it
            windows.repeated += described["repeated"]
            windows.gaps += sum(feed["gaps"] for feed in described["feeds"])
            continue
        # In the order in which they were made: it decides between events of one time.
        windows.streams[described["name"]] = windows.streams.pop(described["name"])
        for each in OF_STREAM:
            setattr(stream, each, described[each])
        stream.refused = [Refused(*each) for each in described["refused_events"]]
        log, pending = (_read(state.arrays, f"{part}{number}", terms, identities) for part in PARTS)
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


def _read(
    arrays: dict[str, NDArray[Any]], part: str, terms: Translate, identities: Translate
) -> Timed:
    given = arrays[f"{part}_rows"]
    rows = np.empty(given.shape, np.int64)
    rows[:, 0] = given[:, 0]
    rows[:, 1:] = terms(given[:, 1:])
    return Timed(
        arrays[f"{part}_times"].astype(np.int64), rows, identities(arrays[f"{part}_ids"]),
        arrays[f"{part}_arrivals"].astype(np.int64),
    )  # fmt: skip
