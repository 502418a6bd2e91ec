"""Watermarks: of each stream, and of all streams together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from triegs.maintain.standing import Refused
from triegs.windows.outcomes import EventCounts
from triegs.windows.settings import EventTime
from triegs.windows.stream import Stream


class Watermarks:
    """`watermark` is that of the engine: epochs up to this time are published, and events up to
    it are final.
    """

    def __init__(
        self, streams: Mapping[str | None, Stream], settings: EventTime, counts: EventCounts
    ) -> None:
        self.watermark: int | None = None
        self._streams = streams
        self._settings = settings
        self._counts = counts

    def find_bound(self, stream: Stream) -> int | None:
        """The time up to which events of a stream are late."""
        own, common = stream.watermark, self.watermark
        if own is None or common is None:
            return common if own is None else own
        return max(own, common)

    def move_streams(self, streams: Iterable[Stream], time: int | None, is_end: bool) -> None:
        """Move the watermarks of streams: to a time, by the allowed lateness, or to their end."""
        for stream in streams:
            self._settle(stream, is_end)
            if is_end:
                stream.is_closed = True
                continue
            mark = time
            if mark is None and stream.newest is not None:
                mark = stream.newest - self._settings.lateness
            if mark is not None and (stream.watermark is None or mark > stream.watermark):
                stream.watermark = mark

    def follow_streams(self) -> None:
        """Move the engine's watermark as far as those of its streams allow."""
        found = self._find_watermark()
        if found is not None and (self.watermark is None or found > self.watermark):
            self.watermark = found
        for stream in self._streams.values():
            if len(stream.held) and self.find_bound(stream) is not None:
                self._settle(stream, stream.is_closed)

    def take_strays(self) -> list[Refused]:
        """The strays found as the watermark moved that no epoch has reported yet."""
        found: list[Refused] = []
        for stream in self._streams.values():
            if stream.strays:
                found += stream.strays
                stream.strays = []
        return found

    def find_end(self) -> int | None:
        """The first slide that can contain the last event; None before the first event."""
        ends = [
            cursor.window.first_slide(stream.newest)
            for stream in self._streams.values()
            if stream.newest is not None
            for cursor in stream.cursors
        ]
        return max(ends, default=None)

    def _settle(self, stream: Stream, is_end: bool) -> None:
        """Decide which events are stray, before and after the watermark moves."""
        if len(stream.held):
            bound = self.find_bound(stream)
            self._counts.ahead += stream.settle(bound, self._settings.max_ahead, is_end)

    def _find_watermark(self) -> int | None:
        """The least watermark of the streams that are neither closed nor idle."""
        streams = self._streams.values()
        if len(streams) == 1:
            (stream,) = streams
            return self.find_end() if stream.is_closed else stream.watermark
        highest = max((s.watermark for s in streams if s.watermark is not None), default=None)
        idle = self._settings.idle_timeout
        marks = []
        for stream in streams:
            if stream.is_closed:
                continue
            behind = stream.watermark
            if idle is not None and highest is not None and highest != behind:
                since = behind if behind is not None else self._find_start()
                if since is not None and highest - since > idle:
                    continue
            marks.append(behind)
        if not marks:
            return self.find_end()
        return None if None in marks else min(mark for mark in marks if mark is not None)

    def _find_start(self) -> int | None:
        """The first event time of all streams: a silent stream is waited for from there on."""
        firsts = (s.first for s in self._streams.values() if s.first is not None)
        return min(firsts, default=None)
