"""What a pipeline in parts sees of its stream: how often labels come, which keys are frequent, and
what queries cost.

Parts count the keys of a batch, the driver adds up what they tell. Keys that are hot by it are
reported, and the layout of another number of parts goes by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from triegs.compiler.layout import Layout, Placed
from triegs.compiler.observing import MOST_KEYS, write_term
from triegs.compiler.partitions import Key, Observed, Positions, find_hot
from triegs.spark.distributed.routing import COPY, FIRST, TERMS, group_rows
from triegs.sparql.model import Query

FILE = "seen.json"
#: What of the counts is left when a batch comes.
LEFT = 0.9
#: Of fewer events none is called hot.
LEAST_EVENTS = 100
#: So many keys of a stream are told by a part. A hot one is the first of its part by far.
MOST_TOLD = 4


class Counted(NamedTuple):
    """So many events of a label have these terms at these positions."""

    label: str
    positions: Positions
    terms: tuple[str, ...]
    events: float

    @property
    def stream(self) -> tuple[str, Positions]:
        return self.label, self.positions


def count_keys(table: pa.Table, layout: Layout) -> Iterator[Counted]:
    """The most frequent keys in what a part got, for each label and place of the key; what other
    parts got as well is counted by the first of them only. Cost: the rows.
    """
    told = set()
    first = table.filter(pc.not_equal(table.column(FIRST), COPY)).combine_chunks()
    by_tag = group_rows(first.column("predicate").combine_chunks())
    for route in layout.routes:
        stream = route.label, route.positions
        if route.positions and route.tag in by_tag and stream not in told:
            told.add(stream)
            names = [TERMS[position] for position in route.positions]
            mine = first.select(names).take(pa.array(by_tag[route.tag]))
            counts = mine.group_by(names).aggregate([([], "count_all")])
            counts = counts.sort_by([("count_all", "descending")]).slice(0, MOST_TOLD)
            for row in counts.to_pylist():
                terms = tuple(write_term(row[name]) for name in names)
                yield Counted(*stream, terms, row["count_all"])


class Seen:
    """Counts of labels and keys and costs of queries, in which older batches weigh less.

    >>> seen = Seen()
    >>> seen.add({"<a:p>": 8}, [Counted("<a:p>", (0,), ("<a:hub>",), 6)])
    >>> seen.observe().keys
    {('<a:p>', (0,)): (Key(terms=('<a:hub>',), share=0.75),)}
    """

    def __init__(self) -> None:
        self._labels: dict[str, float] = {}
        self._keys: dict[tuple[str, Positions], dict[tuple[str, ...], float]] = {}
        self._costs: dict[str, float] = {}

    def add(
        self,
        labels: Mapping[str, float],
        keys: Iterable[Counted],
        costs: Mapping[str, float] | None = None,
    ) -> None:
        """Count a batch."""
        self._labels = _add_up(self._labels, labels)
        self._costs = _add_up(self._costs, costs or {})
        for stream, counts in self._keys.items():
            self._keys[stream] = {terms: LEFT * events for terms, events in counts.items()}
        for key in keys:
            counts = self._keys.setdefault(key.stream, {})
            counts[key.terms] = counts.get(key.terms, 0) + key.events
        for stream, counts in self._keys.items():
            top = sorted(counts.items(), key=lambda item: -item[1])
            self._keys[stream] = dict(top[:MOST_KEYS])

    def observe(self) -> Observed | None:
        """Shares of labels and keys; None before the first event."""
        total = sum(self._labels.values())
        if not total:
            return None
        shares = {label: events / total for label, events in self._labels.items()}
        keys = {
            stream: tuple(Key(terms, n / self._labels[stream[0]]) for terms, n in counts.items())
            for stream, counts in self._keys.items()
        }
        return Observed(shares, keys, self._costs)

    def list_hot(
        self, layout: Layout, queries: Mapping[str, Query]
    ) -> Iterator[tuple[Placed, Key, bool]]:
        """Keys that are hot, with the queries that are cut by them, and whether they are split."""
        seen = self.observe()
        if seen is None or sum(self._labels.values()) < LEAST_EVENTS:
            return
        split = {(route.tag, term) for route in layout.routes for term in route.hot}
        for placed in layout.queries:
            if placed.key:
                for key in find_hot(queries[placed.name], placed.key, layout.partitions, seen):
                    yield placed, key, any((tag, key.terms[0]) in split for tag in placed.labels)

    def write(self, home: Path) -> None:
        """Leave it in a checkpoint. It is advice, so that it fails is no harm."""
        keys = [
            Counted(*s, terms, n) for s, found in self._keys.items() for terms, n in found.items()
        ]
        with suppress(OSError):
            (home / FILE).write_text(
                json.dumps([self._labels, keys, self._costs]), encoding="utf-8"
            )

    @classmethod
    def read(cls, home: Path) -> Seen:
        """What a checkpoint has; nothing if it is not to be read."""
        seen = cls()
        with suppress(OSError, ValueError, TypeError, LookupError):
            labels, keys, costs = json.loads((home / FILE).read_text(encoding="utf-8"))
            read: list[Any] = [Counted(k[0], tuple(k[1]), tuple(k[2]), k[3]) for k in keys]
            seen.add(labels, read, costs)
        return seen


def _add_up(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    found = {name: LEFT * amount for name, amount in old.items()}
    for name, amount in new.items():
        found[name] = found.get(name, 0) + amount
    return found
