"""Window graphs: the same predicate under two windows is two relations.

In the core, a predicate within a window graph is a label of its own. Its id comes from the
dictionary, under a term that no input can contain, so ids stay dense. A label lives while an event
of its graph has the predicate, or a query names it.

An *event graph* has the events of one predicate, each with its time in place of the predicate. So
a pattern with a time is a pattern over three variables, and whatever holds for these holds for it.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from triegs.jit.words import Words
from triegs.maintain.label_graphs import LabelGraphs
from triegs.sparql.model import split_event_graph
from triegs.sparql.window import Window
from triegs.store.packed import PackedStore
from triegs.terms.dictionary import Dictionary
from triegs.terms.term import scope_label
from triegs.windows.cursor import NOTHING, Slide, WindowCursor
from triegs.windows.slide_rows import count_labels, emit_slide, label_rows

_SCOPE = "labels of a triegs window"
_FEW = 16  # up to this many terms are encoded faster one by one


class GraphKey(NamedTuple):
    """What a graph contains: the events of a window, with or without the static graph; or, with
    their times, the events of a predicate.
    """

    window: Window
    has_static: bool
    timed: str = ""


class WindowGraph:
    """The labels of one graph by predicate, and how many rows and queries reference each."""

    def __init__(
        self,
        number: int,
        key: GraphKey,
        cursor: WindowCursor,
        words: Dictionary,
        label_graphs: LabelGraphs,
    ) -> None:
        self.number = number
        self.key = key
        self.cursor = cursor
        self.uses = 0
        self._words = words
        self._label_graphs = label_graphs
        self._labels = self._counts = NOTHING
        self._reserve(63)

    def _reserve(self, index: int) -> None:
        """Make room for a predicate or a label. Both columns are parts of one array: see
        `triegs.maintain.kernels.slides`.
        """
        before = len(self._labels)
        if index < before:
            return
        self.size = size = max(index + 1, 2 * before)
        table = np.zeros(2 * size, np.int64)
        table[:size] = -1
        table[:before] = self._labels
        table[size : size + before] = self._counts
        self._labels, self._counts = table[:size], table[size:]
        self.address = int(table.ctypes.data)

    def find_label(self, predicate: int, epoch: int) -> int:
        """The label of a predicate, created if necessary."""
        found = int(self._labels[predicate]) if predicate < len(self._labels) else -1
        return self._make(predicate, epoch) if found < 0 else found

    def hold(self, predicate: int, change: int, epoch: int) -> None:
        """Add or remove a query that names the predicate."""
        label = self.find_label(predicate, epoch)
        self.count(np.array([[change, 0, label, 0]]), epoch)

    def read(self) -> Words:
        """The rows of all events of its window now, with plain predicates. Cost: their number."""
        return self.cursor.read()

    def translate(self, rows: Words, epoch: int) -> Words:
        """The rows with labels of this graph for predicates."""
        found = np.empty((len(rows), 4), np.int64)
        if not label_rows(rows, self._labels, found):
            self._make_all(rows[:, 2], epoch)
            label_rows(rows, self._labels, found)
        return found

    def emit(self, slide: Slide, epoch: int) -> Words:
        """What a slide removes and adds, with labels for predicates. Cost: the change."""
        log = self.cursor.log
        (expired, expired_end), (arrived, arrived_end) = slide.expired, slide.arrived
        size = max(0, expired_end - expired) + max(0, arrived_end - arrived) + len(slide.single)
        out = np.empty((size, 4), np.int64)
        for _ in range(2):
            end = emit_slide(
                log.rows, expired, expired_end, slide.single, arrived, arrived_end, self._labels,
                out,
            )  # fmt: skip
            if end >= 0:
                return out[:end]
            self._make_all(log.read(arrived, arrived_end, 1)[:, 2], epoch)  # the others have labels
        raise AssertionError("a row leaves a window that it was not in")

    def count(self, rows: Words, epoch: int) -> None:
        """Rows with labels were added and removed; frees labels without references."""
        if count_labels(rows, self._counts):
            self.forget(rows, epoch)

    def make_labels(self, predicates: Words, epoch: int) -> None:
        """Make the labels of these predicates that are missing."""
        self._make_all(predicates, epoch)

    def forget_labels(self, predicates: Words, epoch: int) -> None:
        """As `forget`, for rows with these predicates, of which some have no label."""
        labels = self._labels[predicates[predicates < len(self._labels)]]
        labels = labels[labels >= 0]
        self._free(find_distinct(labels[self._counts[labels] == 0]), epoch)

    def forget(self, rows: Words, epoch: int) -> None:
        """Free those labels of rows that have no references: nothing was added after all, or
        everything was removed.
        """
        labels = rows[:, 2]
        self._free(find_distinct(labels[self._counts[labels] == 0]), epoch)

    def drop(self, epoch: int) -> None:
        """Free every label."""
        self._free(self._labels[self._labels >= 0], epoch)

    def _make_all(self, predicates: Words, epoch: int) -> None:
        """Create the missing labels of these predicates."""
        if len(predicates) == 0:
            return
        self._reserve(int(predicates.max()))
        missing = find_distinct(predicates[self._labels[predicates] < 0])
        if len(missing) > _FEW:
            self._make_many(missing, epoch)
            return
        for predicate in missing.tolist():
            self._make(predicate, epoch)

    def _make_many(self, predicates: Words, epoch: int) -> None:
        stem = pa.scalar(scope_label(f"_:w{self.number}p", _SCOPE))
        names = pc.binary_join_element_wise(stem, pa.array(predicates).cast(pa.string()), "")
        labels = self._words.encode(names).ids
        self._words.acquire(labels, epoch)
        self._reserve(int(labels.max()))
        self._labels[predicates] = labels
        self._counts[labels] = 0
        self._label_graphs.add_all(labels, self.number, predicates)

    def _make(self, predicate: int, epoch: int) -> int:
        label = self._words.encode_one(f"_:w{self.number}p{predicate}", _SCOPE)
        self._words.acquire([label], epoch)
        self._reserve(max(predicate, label))
        self._labels[predicate] = label
        self._counts[label] = 0
        self._label_graphs.add(label, self.number, predicate)
        return label

    def _free(self, labels: Words, epoch: int) -> None:
        self._labels[self._label_graphs.remove(labels)] = -1
        self._words.release(labels.tolist() if len(labels) <= _FEW else labels, epoch)


class EventGraph(WindowGraph):
    """The events of one predicate, with their times as predicates. A label references its time."""

    def __init__(
        self, number: int, key: GraphKey, cursor: WindowCursor, words: Dictionary,
        label_graphs: LabelGraphs, epoch: int,
    ) -> None:  # fmt: skip
        super().__init__(number, key, cursor, words, label_graphs)
        self._predicate = words.encode_one(key.timed)
        words.acquire([self._predicate], epoch)

    def read(self) -> Words:
        cursor = self.cursor
        live = cursor.log.find_events(cursor.head, cursor.tail, self._predicate)
        return self._pick(np.concatenate([live, self._select(cursor.list_kills())]), 1)

    def emit(self, slide: Slide, epoch: int) -> Words:
        log, predicate = self.cursor.log, self._predicate
        expired = log.find_events(*slide.expired, predicate)
        gone = np.concatenate([expired, self._select(slide.single)])
        arrived = log.find_events(*slide.arrived, predicate)
        return self.translate(np.concatenate([self._pick(gone, -1), self._pick(arrived, 1)]), epoch)

    def drop(self, epoch: int) -> None:
        super().drop(epoch)
        self._words.release([self._predicate], epoch)

    def _select(self, positions: Words) -> Words:
        """Those of the graph's predicate among positions of events, dead or not."""
        found: Words = positions[self.cursor.log.pick(positions, 1)[:, 2] == self._predicate]
        return found

    def _pick(self, positions: Words, change: int) -> Words:
        """The rows of events, with their times as integers in place of the predicate."""
        log, words = self.cursor.log, self._words
        rows = log.pick(positions, change)
        if len(rows) == 0:
            return rows
        times, at = np.unique(log.read_times(positions), return_inverse=True)
        if len(times) <= _FEW:
            ids = np.array(words.encode_terms(times.tolist()), np.int64)
        else:
            ids = words.encode(pa.array(times)).ids
        rows[:, 2] = ids[at]
        return rows

    def _make(self, predicate: int, epoch: int) -> int:
        self._words.acquire([predicate], epoch)
        return super()._make(predicate, epoch)

    def _make_many(self, predicates: Words, epoch: int) -> None:
        self._words.acquire(predicates, epoch)
        super()._make_many(predicates, epoch)

    def _free(self, labels: Words, epoch: int) -> None:
        times = self._label_graphs.find(labels)[1]
        super()._free(labels, epoch)
        self._words.release(times.tolist() if len(times) <= _FEW else times, epoch)


def find_distinct(values: Words) -> Words:
    """The values in order, each once; for thousands of them `numpy.unique` is slower."""
    found = np.sort(values)
    is_first = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    return found[is_first]


def read_number(name: str) -> int:
    """
    >>> read_number("#3"), read_number("#4@<http://ex/p>")
    (3, 4)
    """
    return int(split_event_graph(name)[0][1:])


class WindowGraphs:
    """All window graphs, by number and by key."""

    def __init__(self, words: Dictionary, label_graphs: LabelGraphs, store: PackedStore) -> None:
        self._words = words
        self._label_graphs = label_graphs
        self._store = store
        self._numbers: dict[GraphKey, int] = {}
        self._last = 0
        self._numbering = Lock()
        self.by_number: dict[int, WindowGraph] = {}

    @property
    def newest(self) -> int:
        """The number of the newest version."""
        return self._store.newest.number

    def number(self, key: GraphKey) -> int:
        """The number that a graph has, or will have; none is given twice."""
        with self._numbering:  # queries are compiled before the engine is locked
            found = self._numbers.get(key)
            if found is None:
                self._last += 1
                found = self._numbers[key] = self._last
            return found

    def make(self, key: GraphKey, cursor: WindowCursor) -> WindowGraph:
        number = self.number(key)
        parts = number, key, cursor, self._words, self._label_graphs
        found = EventGraph(*parts, self.newest) if key.timed else WindowGraph(*parts)
        self.by_number[number] = found
        return found

    def drop(self, graph: WindowGraph) -> None:
        graph.drop(self.newest)
        del self.by_number[graph.number]
        del self._numbers[graph.key]

    def find_label(self, name: str) -> int:
        """The label that a plan calls ``#3 <predicate>``; -3 for ``#3``, all of a graph."""
        graph, _, predicate = name.partition(" ")
        number = read_number(graph)
        if not predicate:
            return -number
        return self.by_number[number].find_label(self._words.encode_one(predicate), self.newest)
