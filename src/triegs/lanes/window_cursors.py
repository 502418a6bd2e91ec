"""Windows of queries, in every lane: all lanes judge the same events and slide at the same times.

A query's window is a graph in the lane of the query. Every lane has a cursor of it besides, which
moves through the stream and adds nothing to the lane's graph. A cursor stays until the graph is
gone: a graph that there was no room to drop still slides.
"""

from __future__ import annotations

from collections.abc import Sequence

from triegs.lanes.together import Lane
from triegs.sparql.window import Window


class WindowCursors:
    """The cursors that lanes have for the queries of other lanes."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        #: Windows of closed queries, by the lane that could not drop their graphs yet.
        self._lingering: dict[Lane, list[Window]] = {}

    def open(self, windows: Sequence[Window]) -> None:
        """A query with these windows was registered in some lane."""
        for lane in self._lanes:
            for window in windows:
                lane.engine._windows.usage.open_cursor(window)

    def close(self, windows: Sequence[Window], owner: Lane) -> None:
        """A query with these windows was closed, or moved to another lane."""
        self._lingering.setdefault(owner, []).extend(windows)
        self.follow()

    def follow(self) -> None:
        """Close the cursors whose graphs are gone. May publish; the caller aligns the lanes."""
        for owner, windows in list(self._lingering.items()):
            usage = owner.engine._windows.usage
            usage.drop_unused()
            if usage.has_unused:
                usage.has_unused = False  # it is tried here, not as a watermark moves
                continue
            del self._lingering[owner]
            for lane in self._lanes:
                for window in windows:
                    lane.engine._windows.usage.close_cursor(window)
