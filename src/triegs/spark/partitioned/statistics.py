"""Statistics of a running stream: label frequencies, frequent keys, and query costs.

Partitions count the keys of a batch, and the driver adds the counts up. Hot keys are reported, and
rescaling plans the new layout with these statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from triegs.partition.keys import find_hot
from triegs.partition.layout import Layout, QueryPlacement
from triegs.partition.sampling import MOST_KEYS, write_term
from triegs.partition.statistics import Key, Positions, StreamStatistics
from triegs.spark.partitioned.routing import COPY, FIRST, TERMS, group_rows
from triegs.sparql.model import Query

FILE = "seen.json"
#: The factor by which older counts shrink with each batch.
DECAY = 0.9
#: With fewer events, no key is reported as hot.
LEAST_EVENTS = 100
#: The most keys of a label and position that a partition reports. A hot key is by far the first of
#: its partition.
MOST_REPORTED = 4


class KeyCount(NamedTuple):
    """The number of events of a label with these terms at these positions."""

    label: str
    positions: Positions
    terms: tuple[str, ...]
    events: float

    @property
    def stream(self) -> tuple[str, Positions]:
        return self.label, self.positions


def count_keys(table: pa.Table, layout: Layout) -> Iterator[KeyCount]:
    """The most frequent keys among the events of a partition, for each label and key position. Of
    replicated events, only the first delivery counts. Cost: the rows.
    """
    reported = set()
    first = table.filter(pc.not_equal(table.column(FIRST), COPY)).combine_chunks()
    by_tag = group_rows(first.column("predicate").combine_chunks())
    for route in layout.routes:
        stream = route.label, route.positions
        if route.positions and route.tag in by_tag and stream not in reported:
            reported.add(stream)
            names = [TERMS[position] for position in route.positions]
            mine = first.select(names).take(pa.array(by_tag[route.tag]))
            counts = mine.group_by(names).aggregate([([], "count_all")])
            counts = counts.sort_by([("count_all", "descending")]).slice(0, MOST_REPORTED)
            for row in counts.to_pylist():
                terms = tuple(write_term(row[name]) for name in names)
                yield KeyCount(*stream, terms, row["count_all"])


class StatisticsCollector:
    """Decaying counts of labels and keys, and costs of queries.

    >>> collector = StatisticsCollector()
    >>> collector.add({"<a:p>": 8}, [KeyCount("<a:p>", (0,), ("<a:hub>",), 6)])
    >>> collector.summarize().keys
    {('<a:p>', (0,)): (Key(terms=('<a:hub>',), share=0.75),)}
    """

    def __init__(self) -> None:
        self._labels: dict[str, float] = {}
        self._keys: dict[tuple[str, Positions], dict[tuple[str, ...], float]] = {}
        self._costs: dict[str, float] = {}

    def add(
        self,
        labels: Mapping[str, float],
        keys: Iterable[KeyCount],
        costs: Mapping[str, float] | None = None,
    ) -> None:
        """Add a batch."""
        self._labels = _add_up(self._labels, labels)
        self._costs = _add_up(self._costs, costs or {})
        for stream, counts in self._keys.items():
            self._keys[stream] = {terms: DECAY * events for terms, events in counts.items()}
        for key in keys:
            counts = self._keys.setdefault(key.stream, {})
            counts[key.terms] = counts.get(key.terms, 0) + key.events
        for stream, counts in self._keys.items():
            top = sorted(counts.items(), key=lambda item: -item[1])
            self._keys[stream] = dict(top[:MOST_KEYS])

    def summarize(self) -> StreamStatistics | None:
        """The statistics so far; None before the first event."""
        total = sum(self._labels.values())
        if not total:
            return None
        shares = {label: events / total for label, events in self._labels.items()}
        keys = {
            stream: tuple(Key(terms, n / self._labels[stream[0]]) for terms, n in counts.items())
            for stream, counts in self._keys.items()
        }
        return StreamStatistics(shares, keys, self._costs)

    def list_hot(
        self, layout: Layout, queries: Mapping[str, Query]
    ) -> Iterator[tuple[QueryPlacement, Key, bool]]:
        """Hot keys, with the queries that are partitioned by them, and whether they are split."""
        found = self.summarize()
        if found is None or sum(self._labels.values()) < LEAST_EVENTS:
            return
        split = {(route.tag, term) for route in layout.routes for term in route.hot}
        for placement in layout.queries:
            if placement.key:
                for key in find_hot(
                    queries[placement.name], placement.key, layout.partitions, found
                ):
                    yield (
                        placement,
                        key,
                        any((tag, key.terms[0]) in split for tag in placement.labels),
                    )

    def write(self, home: Path) -> None:
        """Save to a checkpoint. Advisory, so a failure is ignored."""
        keys = [
            KeyCount(*s, terms, n)
            for s, counts in self._keys.items()
            for terms, n in counts.items()
        ]
        with suppress(OSError):
            (home / FILE).write_text(
                json.dumps([self._labels, keys, self._costs]), encoding="utf-8"
            )

    @classmethod
    def read(cls, home: Path) -> StatisticsCollector:
        """Load from a checkpoint; empty if that is impossible."""
        collector = cls()
        with suppress(OSError, ValueError, TypeError, LookupError):
            labels, keys, costs = json.loads((home / FILE).read_text(encoding="utf-8"))
            read: list[Any] = [KeyCount(k[0], tuple(k[1]), tuple(k[2]), k[3]) for k in keys]
            collector.add(labels, read, costs)
        return collector


def _add_up(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    found = {name: DECAY * amount for name, amount in old.items()}
    for name, amount in new.items():
        found[name] = found.get(name, 0) + amount
    return found
