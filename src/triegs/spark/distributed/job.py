"""What the tasks of a distributed pipeline are told: plain data that Spark can send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from triegs.compiler.layout import Layout
from triegs.durable.source import QuerySource
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

#: A time that nothing is ahead of; what is too far ahead is judged for all parts at once.
FAR = "36500d"


class Job(NamedTuple):
    """``identity`` tells this pipeline's engines from all others in a process; ``slots`` are the
    keys of the parts, ``queries`` what `QuerySource.write` made of each, by name.
    """

    identity: str
    layout: Layout
    slots: tuple[int, ...]
    queries: Mapping[str, Mapping[str, Any]]
    mode: str
    window: Window | None
    event_time: EventTime
    stream: str | None
    is_timed: bool
    #: Queries whose changes parts give; of others only the state is kept.
    wanted: tuple[str, ...] = ()
    #: Queries with a sink that is new, and its first batch, in which parts give what was before.
    firsts: tuple[tuple[str, int], ...] = ()
    #: Where parts keep files while they run.
    folder: str | None = None
    #: Where a part that has no state finds what it begins with, and the newest time then.
    seeds: str | None = None
    newest: int | None = None
    #: Keys of parts that are no more, and the batch in which they are told.
    retired: tuple[int, ...] = ()
    retired_in: int = -1

    def list_sources(self, part: int) -> list[QuerySource]:
        """The queries that a part keeps, with the labels that they read there."""
        return [
            QuerySource.read(self.queries[placed.name])._replace(labels=placed.labels)
            for placed in self.layout.queries
            if part in placed.parts
        ]

    def make_event_time(self) -> EventTime:
        asked = self.event_time
        return EventTime(asked.lateness, asked.late, FAR, asked.idle_timeout)
