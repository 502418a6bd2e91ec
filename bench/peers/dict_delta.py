"""The peer: dictionaries of sets, and the answers that each edge of a slide takes part in.

As one would write it in plain Python for one known query: for each label the objects of a subject
and the subjects of an object; an edge that goes is expanded before it is taken out, one that comes
after it was put in. A slide's deletions come first, so each changed answer is listed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from bench.answers import Digest, digest_columns
from bench.contest import Consumer
from bench.peers.dict_shapes import EXPANDING, Pairs, Row, Rows, list_edges
from bench.peers.dict_suffix import Suffix
from triegs.workloads import Slide, Workload


class Changes(NamedTuple):
    """Answers that went, answers that came, and answers whose count, the last value, changed."""

    gone: Rows
    new: Rows
    counted: Rows


class DictDelta:
    """The answers' changes of one workload; for a reader of all answers also the answers."""

    name: ClassVar[str] = "dict delta join"
    consumers: ClassVar = frozenset({Consumer.NONE, Consumer.CHANGES, Consumer.FULL})

    def __init__(self, workload: Workload, load: Slide, consumer: Consumer) -> None:
        self._tables = {label: Pairs() for label in workload.labels}
        shape = workload.name.split()[0]
        self._suffix = Suffix(self._tables) if shape == "path5-prefix" else None
        self._expand = {} if self._suffix else EXPANDING[shape](self._tables)
        # None while nobody wants them: they are as many as the full result.
        self._answers: dict[Row, int] | None = {} if consumer is Consumer.FULL else None
        if self._answers is None:
            self.take(load)
        else:
            self._keep(self.take_changes(load))

    def take(self, slide: Slide) -> None:
        """Without a reader of all answers only the tables; otherwise the answers too."""
        if self._answers is not None:
            self._keep(self.take_changes(slide))
        elif self._suffix:
            self._suffix.take(slide)
        else:
            for label, subject, obj in list_edges(slide.deletions):
                self._tables[label].drop(subject, obj)
            for label, subject, obj in list_edges(slide.insertions):
                self._tables[label].add(subject, obj)

    def read(self) -> list[tuple[Row, int]]:
        """A stable copy, as the answers themselves change with the next slide."""
        if self._answers is None:  # nobody asked before: list them from the tables
            return [(row, 1) for row in self._list_all()]
        return list(self._answers.items())

    def count(self) -> int:
        raise NotImplementedError

    def take_changes(self, slide: Slide) -> Changes:
        if self._suffix:
            return Changes([], [], self._suffix.take_changes(slide))
        gone: Rows = []
        new: Rows = []
        tables, expand = self._tables, self._expand
        for label, subject, obj in list_edges(slide.deletions):
            gone += expand[label](subject, obj)
            tables[label].drop(subject, obj)
        for label, subject, obj in list_edges(slide.insertions):
            tables[label].add(subject, obj)
            new += expand[label](subject, obj)
        return Changes(gone, new, [])

    def digest(self, rows: Changes | list[tuple[Row, int]]) -> Digest:
        if isinstance(rows, Changes):
            signed = [(*row, -1) for row in rows.gone] + [(*row, 1) for row in rows.new]
            signed += rows.counted
        else:
            signed = [(*row, count) for row, count in rows]
        if not signed:
            return Digest(0, 0)
        *columns, counts = np.array(signed, np.int64).T
        return digest_columns(columns, counts)

    def count_rows(self, rows: Changes | list[tuple[Row, int]]) -> int:
        return sum(map(len, rows)) if isinstance(rows, Changes) else len(rows)

    def _keep(self, changes: Changes) -> None:
        answers = self._answers
        assert answers is not None
        for row in changes.gone:
            answers.pop(row, None)
        answers |= dict.fromkeys(changes.new, 1)
        for *row, change in changes.counted:
            key = tuple(row)
            count = answers.pop(key, 0) + change
            if count:
                answers[key] = count

    def _list_all(self) -> Iterator[Row]:
        if self._suffix:
            for *row, count in self._suffix.list_all():
                yield from [tuple(row)] * count
            return
        label = next(reversed(self._tables))
        found: dict[Row, None] = {}  # a triangle has three edges of its one label
        for subject, objects in self._tables[label].out.items():
            for obj in objects:
                found |= dict.fromkeys(self._expand[label](subject, obj))
        yield from found
