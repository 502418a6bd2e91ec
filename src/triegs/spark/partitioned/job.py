"""What the tasks of a partitioned pipeline need to know: plain data that Spark can send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from triegs.mode import Mode
from triegs.partition.layout import Layout
from triegs.spark.partitioned.slots import find_slots
from triegs.sparql.window import Window
from triegs.windows.settings import EventTime

if TYPE_CHECKING:
    from triegs.durable.source import QuerySource
    from triegs.read.merging import GroupMerger

#: A limit that no event exceeds: stray times are judged once for all partitions, by their newest
#: time.
FAR = "36500d"


class Job(NamedTuple):
    """``identity`` distinguishes this pipeline's engines from others in a process; ``slots`` are
    the keys of the partitions; ``queries`` maps names to the output of `QuerySource.write`.
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
    #: Queries whose changes the partitions output; for the others they only maintain the state.
    wanted: tuple[str, ...] = ()
    #: Queries with a new sink, and its first batch, in which partitions also output the answers so
    #: far.
    firsts: tuple[tuple[str, int], ...] = ()
    #: Where partitions keep files while they run.
    folder: str | None = None
    #: Where a partition without state finds its initial events, and the newest time at that point.
    seeds: str | None = None
    newest: int | None = None
    #: Keys of retired partitions, and the batch in which they are notified.
    retired: tuple[int, ...] = ()
    retired_in: int = -1
    #: Rules as text; partitions derive what follows from their events.
    rules: str = ""

    def list_sources(self, partition: int) -> list[QuerySource]:
        """The queries that a partition maintains, with the tags that they read there."""
        from triegs.durable.source import QuerySource  # only tasks need it, and it is large

        found = []
        for placement in self.layout.queries:
            if partition in placement.partitions:
                source = QuerySource.read(self.queries[placement.name])
                is_partial = placement.is_summed and source.parse().grouping is not None
                found.append(source._replace(labels=placement.labels, is_partial=is_partial))
        return found

    def make_merger(self, name: str) -> GroupMerger | None:
        """Of a query with aggregates whose groups span partitions: what merges them."""
        from triegs.durable.source import QuerySource
        from triegs.read.merging import GroupMerger

        (placement,) = (each for each in self.layout.queries if each.name == name)
        query = QuerySource.read(self.queries[name]).parse()
        is_merged = placement.is_summed and query.grouping is not None
        return GroupMerger(query) if is_merged else None

    def make_event_time(self) -> EventTime:
        given = self.event_time
        return EventTime(given.lateness, given.late, FAR, given.idle_timeout)


def make_job(
    layout: Layout, queries: Mapping[str, QuerySource], mode: str | Mode | None,
    window: Window | None, event_time: EventTime | None, stream: str | None, is_timed: bool,
) -> Job:  # fmt: skip
    sources = {name: source.write() for name, source in queries.items()}
    return Job(
        uuid4().hex, layout, find_slots(layout.partitions), sources,
        Mode(mode or Mode.MULTIGRAPH).value, window, event_time or EventTime(), stream, is_timed,
    )  # fmt: skip
