"""A registered query with its oracle, and all ways to read it."""

from __future__ import annotations

from copy import copy
from random import Random
from typing import Any

import pyarrow as pa

from triegs.errors import MultiplicityOverflow
from triegs.read.changes import Changes
from triegs.read.snapshot import Snapshot
from triegs.testing import oracle


def read(result):
    return [(tuple(answer), answer.multiplicity) for answer in result]


def read_arrow(result):
    return list_rows(result.to_arrow())


def read_runs(result):
    return list_rows(result.to_arrow(layout="factorised"))


def read_threads(result):
    return list_rows(result.read(workers=3))


def list_rows(table):
    columns = [column.to_pylist() for column in table.columns]
    return [(tuple(row), n) for *row, n in zip(*columns, strict=True)]


def read_batches(result):
    return [row for batch in result.batches(3) for row in list_rows(pa.Table.from_batches([batch]))]


def read_parts(result):
    return [row for part in result.split(3) for row in read(part)]


#: Forms of the same answers, in the same order.
FORMS = (read, read_arrow, read_batches, read_parts, read_runs, read_threads)


def subtract(after: dict, before: dict) -> dict:
    changes = {row: after.get(row, 0) - before.get(row, 0) for row in before.keys() | after.keys()}
    return {row: n for row, n in changes.items() if n}


class Standing:
    """A registered query with its oracle, what its text cuts off, and who follows it."""

    def __init__(self, query, text: str) -> None:
        self.query = query
        self.text = text
        self.question = copy(oracle.read_query(text))  # which remembers it
        self.cut = self.question.offset, self.question.limit
        self.question.offset, self.question.limit = 0, None
        #: The last good epoch, and its answers if they could be read.
        self.shown: tuple[int, list | None] = (0, [])
        self.was_large = False  # whether counts have been that may not have fitted
        self.subscription: Any = None
        self.told: dict = {}

    @property
    def is_cut(self) -> bool:
        return self.cut != (0, None)

    def check(self, rows, expected) -> None:
        """The rows are the oracle's; where LIMIT or OFFSET cut, as many of them as must be."""
        found = dict(rows)
        assert len(found) == len(rows), self.text
        if not self.is_cut:
            assert found == expected, self.text
            return
        offset, limit = self.cut
        left = max(0, sum(expected.values()) - offset)
        assert sum(found.values()) == (left if limit is None else min(left, limit)), self.text
        assert all(0 < n <= expected.get(row, 0) for row, n in found.items()), self.text

    def subscribe(self, random: Random) -> None:
        if not self.is_cut:
            self.subscription = self.query.subscribe(merge=random.random() < 0.7)

    def follow(self, rows) -> None:
        """What was told so far are the answers of the newest epoch. A step of an epoch whose counts
        did not fit is told again, with what came after it.
        """
        is_over = False
        while not is_over:
            try:
                event = self.subscription.poll()
                if isinstance(event, Snapshot):
                    self.told = dict(read(event))
                elif isinstance(event, Changes):
                    change = {tuple(change): change.change for change in event}
                    self.told = subtract(self.told, {row: -n for row, n in change.items()})
                is_over = event is None
            except MultiplicityOverflow:
                assert self.was_large, self.text
        assert self.told == dict(rows), self.text

    def close(self) -> None:
        if self.subscription is not None:
            self.subscription.close()
        self.query.close()
