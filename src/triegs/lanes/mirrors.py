"""A registered query as the lanes without it see it: same windows, same terms, same epochs.

Every lane opens the window graphs of every query and references its constants, as the lane of the
query does. So all lanes judge the same events, slide at the same times, publish the same epochs and
give terms the same ids, and only the views of a query are in one lane. A window's cursor stays in
every lane until all of them have dropped the graph: one that there was no room to drop still
slides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triegs.durable.source import QuerySource
from triegs.engine.registration import list_constants
from triegs.lanes.together import Lane
from triegs.sparql import Query
from triegs.sparql.window import Window
from triegs.windows.window_graphs import GraphKey


class Mirror(NamedTuple):
    """What a lane references for a query of another lane."""

    query: Query
    keys: list[GraphKey]
    constants: list[int]


class Mirrors:
    """The mirrors of all queries, in all lanes."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._found: dict[str, dict[Lane, Mirror]] = {}
        #: Cursors of closed queries, until no lane has a graph left to drop.
        self._lingering: list[Window] = []

    def open(self, source: QuerySource, owner: Lane) -> None:
        """A query was registered in the lane `owner`. Fails only for lack of room, and then leaves
        no mirror.
        """
        name = str(source.name)
        found = self._found[name] = {}
        try:
            for lane in self._lanes:
                if lane is not owner:
                    found[lane] = self._open(lane, source)
        except BaseException:
            for lane, mirror in self._found.pop(name).items():
                self._close(lane, mirror)
            raise
        for lane in self._lanes:
            for window in self._list_windows(source, owner):
                lane.engine._windows.usage.open_cursor(window)

    def close(self, source: QuerySource, owner: Lane) -> None:
        """The query is being closed in the lane `owner`."""
        self._lingering += self._list_windows(source, owner)
        for lane, mirror in self._found.pop(str(source.name)).items():
            self._close(lane, mirror)
        self.follow()

    def move(self, source: QuerySource, owner: Lane, target: Lane) -> None:
        """The query goes from one lane to another, which has it already."""
        found = self._found[str(source.name)]
        found[owner] = self._open(owner, source)
        self._close(target, found.pop(target))

    def follow(self) -> None:
        """Close the cursors whose graphs are gone. May publish; the caller aligns the lanes."""
        if not self._lingering:
            return
        is_left = False
        for lane in self._lanes:
            usage = lane.engine._windows.usage
            usage.drop_unused()
            is_left |= usage.has_unused
            usage.has_unused = False  # it is tried here, not as a watermark moves
        if not is_left:
            windows, self._lingering = self._lingering, []
            for lane in self._lanes:
                for window in windows:
                    lane.engine._windows.usage.close_cursor(window)

    @staticmethod
    def _list_windows(source: QuerySource, owner: Lane) -> list[Window]:
        _, keys = owner.engine._windows.resolve(source.parse(), source.window)
        return list(dict.fromkeys(key.window for key in keys))

    @staticmethod
    def _open(lane: Lane, source: QuerySource) -> Mirror:
        """As `triegs.engine.registration` registers a query, but without views."""
        state = lane.engine._internals
        query, keys = state.windows.resolve(source.parse(), source.window)
        with state.update():
            constants = [state.dictionary.encode_one(term) for term in list_constants(query)]
            try:
                with state.windows.use(query, keys):
                    state.core.publish()
                state.dictionary.acquire(constants, state.store.newest.number)
            finally:
                state.free_terms()
            state.end_epoch()
        return Mirror(query, keys, constants)

    @staticmethod
    def _close(lane: Lane, mirror: Mirror) -> None:
        state = lane.engine._internals
        with state.update():
            state.core.publish()
            state.windows.release(mirror.query, mirror.keys)
            state.dictionary.release(mirror.constants, state.store.newest.number)
            state.free_terms()
            state.end_epoch()
