"""The windows of an engine as fields and events, and back.

Window graphs follow from the logs and from the static graph, so they are rebuilt. The names of the
fields are part of the format on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from triegs.maintain.standing import Refused
from triegs.reasons import Reason
from triegs.sparql.window import Bounds, Kind, Window
from triegs.windows.cursor import WindowCursor
from triegs.windows.log import Frozen
from triegs.windows.pending import NOTHING, Timed
from triegs.windows.windows import Windows

OF_COUNTS = ("late", "ahead", "refused", "gaps", "repeated")
OF_STREAM = (
    "watermark", "judged", "is_closed", "has_ids", "has_deletions", "arrivals", "repeated",
    "unshown",
)  # fmt: skip
OF_CURSOR = ("head", "tail", "low", "live", "gaps", "due")


class Captured(NamedTuple):
    """Fields for JSON; and by stream, the retained and the pending events."""

    fields: dict[str, Any]
    events: list[tuple[Frozen, Timed]]

    def close(self) -> None:
        """Allow the streams to overwrite retained events; nothing more is read."""
        for log, _ in self.events:
            log.close()


class EventChunk(NamedTuple):
    """Some events: the number of their stream, and whether they are pending or retained."""

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
    """The state now. Cost: the pending events; retained ones are copied later."""
    streams = []
    events = []
    for name, stream in windows.streams.items():
        described = {each: getattr(stream, each) for each in OF_STREAM}
        described["name"] = name
        described["start"] = stream.log.start
        described["place"] = stream.span.tolist()
        described["held"] = stream.held.tolist()
        described["refused_events"] = _describe_refused(stream.refused)
        described["astray_events"] = _describe_refused(stream.strays)
        described["feeds"] = [_describe(cursor) for cursor in stream.cursors]
        streams.append(described)
        events.append((stream.log.freeze(), stream.pending.copy()))
    fields: dict[str, Any] = {"watermark": windows.watermark, "takes": windows.takes}
    fields |= {each: getattr(windows.counts, each) for each in OF_COUNTS}
    return Captured({**fields, "streams": streams}, events)


def list_chunks(captured: Captured, rows: int) -> Iterator[EventChunk]:
    """All events in chunks of at most that many rows, from any thread. Memory: one chunk."""
    for number, (log, pending) in enumerate(captured.events):
        for first in range(log.start, log.end, rows):
            yield EventChunk(number, False, log.read(first, min(first + rows, log.end)))
        for first in range(0, len(pending.times), rows):
            yield EventChunk(number, True, pending.pick(slice(first, first + rows)))


def _describe_refused(refused: Iterable[Refused]) -> list[list[Any]]:
    return [[number, why.kind, why.detail] for number, why in refused]


def _read_refused(described: Iterable[list[Any]]) -> list[Refused]:
    return [Refused(number, Reason(kind).describe(detail)) for number, kind, detail in described]


def _describe(cursor: WindowCursor) -> dict[str, Any]:
    found = {each: getattr(cursor, each) for each in OF_CURSOR}
    return {**found, "window": write_window(cursor.window), "kills": list(cursor.kills)}


def restore(windows: Windows, fields: dict[str, Any], chunks: Iterable[EventChunk]) -> None:
    """Restore captured windows; the queries are registered, and no event was pushed yet.

    `WindowUsage.fill_all` fills the graphs afterwards.
    """
    windows.watermarks.watermark, windows.takes = fields["watermark"], fields["takes"]
    for each in OF_COUNTS:
        setattr(windows.counts, each, fields[each])
    by_stream: dict[tuple[int, bool], list[Timed]] = {}
    for chunk in chunks:
        by_stream.setdefault(chunk[:2], []).append(chunk.events)
    for number, described in enumerate(fields["streams"]):
        stream = windows.streams.get(described["name"])
        if stream is None:  # without readers, kept because there was no room to drop it
            windows.counts.repeated += described["repeated"]
            windows.counts.gaps += sum(each["gaps"] for each in described["feeds"])
            continue
        # In the order of creation, which decides between events of one time.
        windows.streams[described["name"]] = windows.streams.pop(described["name"])
        for each in OF_STREAM:
            setattr(stream, each, described[each])
        stream.span = np.array(described["place"], np.int64)
        stream.held = np.array(described["held"], np.int64).reshape(-1, 3)
        stream.refused = _read_refused(described["refused_events"])
        stream.strays = _read_refused(described["astray_events"])
        log, pending = (_join(by_stream.get((number, waits), [])) for waits in (False, True))
        stream.restore(described["start"], log, pending)
        cursors = {cursor.window: cursor for cursor in stream.cursors}
        for cursor_fields in described["feeds"]:
            cursor = cursors.get(read_window(cursor_fields["window"]))
            if cursor is None:
                windows.counts.gaps += cursor_fields["gaps"]
                continue
            for each in OF_CURSOR:
                setattr(cursor, each, cursor_fields[each])
            cursor.kills = list(cursor_fields["kills"])


def _join(chunks: list[Timed]) -> Timed:
    """Consecutive chunks as one."""
    columns = zip(NOTHING, *chunks, strict=True)
    return Timed(*(np.concatenate(column) for column in columns))
