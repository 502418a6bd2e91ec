"""With rules, the part of a closure for which a partition answers.

A partition also derives triples that others own, and has replicas. Its queries read only what it
owns: each atom reads a tag, under which this module passes on the triples of the atom's label whose
key the partition owns, or all of them for an atom without the key. So each match is found once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triegs.durable.opening import Settings
from triegs.engine import Engine
from triegs.jit.words import Words
from triegs.partition.layout import Layout
from triegs.spark.partitioned.job import Job
from triegs.terms.dictionary import Dictionary
from triegs.terms.partition_hash import find_partitions


class OwnedTriples:
    """For `Reasoning.select`: from changed triples to those that queries read, under tags.

    Cost: the rows for each route of their label, and the text of each key.
    """

    def __init__(self, layout: Layout, number: int, words: Dictionary) -> None:
        self._layout = layout
        self._number = number
        self._words = words
        self._labels: list[tuple[int, int]] = []

    def __call__(self, rows: Words) -> Words:
        if len(rows) == 0:
            return rows
        found = [np.empty((0, 4), np.int64)]
        owners: dict[int, Words] = {}
        for route, (label, tag) in zip(self._layout.routes, self._find_labels(), strict=True):
            is_mine = rows[:, 2] == label
            if not is_mine.any():
                continue
            if route.positions:
                (position,) = route.positions
                if position not in owners:
                    owners[position] = self._find_owners(rows[:, position + 1])
                is_mine &= owners[position] == self._number
            mine = rows[is_mine]
            mine[:, 2] = tag
            found.append(mine)
        return np.concatenate(found)

    def _find_labels(self) -> list[tuple[int, int]]:
        """The ids of the label and the tag of each route. They are kept: there are few, and queries
        name them for as long as the partition lives.
        """
        if not self._labels:
            encode = self._words.encode_one
            pairs = [(encode(route.label), encode(route.tag)) for route in self._layout.routes]
            self._words.acquire(np.array(pairs, np.int64).reshape(-1))
            self._labels = pairs
        return self._labels

    def _find_owners(self, ids: Words) -> Words:
        """The partition that owns each term; ids are reused, so their owners are not kept."""
        return find_partitions([self._words.decode(ids)], self._layout.partitions)


def make_engine(job: Job, number: int) -> type[Engine]:
    """The engine class of a partition: with rules, it shows what the partition owns, from the first
    triple that a recovery derives.
    """
    if not job.rules:
        return Engine

    class PartitionEngine(Engine):
        @classmethod
        def _make(cls, settings: Settings, **options: Any) -> Engine:
            made = super()._make(settings, **options)
            words = made._dictionary
            made._windows.reasoning.select = OwnedTriples(job.layout, number, words)
            return made

    return PartitionEngine
