"""Spaces: the same label under two windows is two relations.

In the core a predicate within a space is a label of its own. Its id comes from the dictionary, as
that of a term that nobody can write, so ids stay dense. A label lives while an event in its space
has the predicate, or a query names it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from triegs.dictionary import Dictionary
from triegs.maintain.origins import Origins
from triegs.sparql.window import Window
from triegs.windows.feed import Feed, Slide
from triegs.windows.judging import Words, count_labels, emit_slide

_SCOPE = "labels of a triegs window"


class SpaceKey(NamedTuple):
    """What a space holds: the events of a window, with the static graph or without."""

    window: Window
    has_static: bool


class Space:
    """Labels of one space by predicate, and how many rows and queries name each."""

    def __init__(
        self, number: int, key: SpaceKey, feed: Feed, words: Dictionary, origins: Origins
    ) -> None:
        self.number = number
        self.key = key
        self.feed = feed
        self.uses = 0
        self._words = words
        self._origins = origins
        self._labels = np.full(64, -1, np.int64)
        self._counts = np.zeros(64, np.int64)

    def find_label(self, predicate: int, epoch: int) -> int:
        """The label of a predicate, made if need be."""
        found = int(self._labels[predicate]) if predicate < len(self._labels) else -1
        return self._make(predicate, epoch) if found < 0 else found

    def hold(self, predicate: int, change: int, epoch: int) -> None:
        """Count a query that names the predicate, or one less."""
        label = self.find_label(predicate, epoch)
        self.count(np.array([[change, 0, label, 0]]), epoch)

    def translate(self, rows: Words, epoch: int) -> Words:
        """The rows with labels of this space for predicates."""
        if len(rows) == 0:
            return rows
        self._make_all(rows[:, 2], epoch)
        found = rows.copy()
        found[:, 2] = self._labels[rows[:, 2]]
        return found

    def emit(self, slide: Slide, epoch: int) -> Words:
        """What a slide takes away and brings, with labels for predicates. Cost: the change."""
        log = self.feed.log
        (gone, gone_end), (come, come_end) = slide.expired, slide.arrived
        size = max(0, gone_end - gone) + max(0, come_end - come) + len(slide.single)
        out = np.empty((size, 4), np.int64)
        for _ in range(2):
            end = emit_slide(
                log.rows, gone, gone_end, slide.single, come, come_end, self._labels, out
            )
            if end >= 0:
                return out[:end]
            self._make_all(log.read(come, come_end, 1)[:, 2], epoch)  # what goes has a label
        raise AssertionError("a row leaves a window that it was not in")

    def count(self, rows: Words, epoch: int) -> None:
        """Rows with labels have come and gone; frees what nobody names."""
        if count_labels(rows, self._counts):
            labels = rows[:, 2]
            self._free(np.unique(labels[self._counts[labels] == 0]), epoch)

    def forget(self, rows: Words, epoch: int) -> None:
        """Rows with labels did not come: free what nobody names."""
        labels = rows[:, 2]
        self._free(np.unique(labels[self._counts[labels] == 0]), epoch)

    def drop(self, epoch: int) -> None:
        """Let every label go."""
        self._free(self._labels[self._labels >= 0], epoch)

    def _make_all(self, predicates: Words, epoch: int) -> None:
        """Have labels for all of these predicates."""
        if len(predicates) == 0:
            return
        self._labels = reach(self._labels, int(predicates.max()), -1)
        for predicate in np.unique(predicates[self._labels[predicates] < 0]).tolist():
            self._make(predicate, epoch)

    def _make(self, predicate: int, epoch: int) -> int:
        label = self._words.encode_one(f"_:w{self.number}p{predicate}", _SCOPE)
        self._words.acquire([label], epoch)
        self._labels = reach(self._labels, predicate, -1)
        self._counts = reach(self._counts, label, 0)
        self._labels[predicate] = label
        self._counts[label] = 0
        self._origins.add(label, self.number, predicate)
        return label

    def _free(self, labels: Words, epoch: int) -> None:
        for label in labels.tolist():
            self._labels[self._origins.remove(label)] = -1
            self._words.release([label], epoch)


def reach(array: Words, place: int, filler: int) -> Words:
    """The array, grown to have that place."""
    size = len(array)
    if place < size:
        return array
    more = np.full(max(place + 1, 2 * size) - size, filler, np.int64)
    return np.concatenate([array, more])


class Spaces:
    """All spaces by number and by what they hold."""

    def __init__(self, words: Dictionary, origins: Origins, epoch: Callable[[], int]) -> None:
        self._words = words
        self._origins = origins
        self._epoch = epoch
        self._numbers: dict[SpaceKey, int] = {}
        self._last = 0
        self._numbering = Lock()
        self.by_number: dict[int, Space] = {}

    def number(self, key: SpaceKey) -> int:
        """The number that a space has, or will have; one is never given twice."""
        with self._numbering:  # a query is compiled, and asks, before the engine is locked
            found = self._numbers.get(key)
            if found is None:
                self._last += 1
                found = self._numbers[key] = self._last
            return found

    def make(self, key: SpaceKey, feed: Feed) -> Space:
        number = self.number(key)
        found = self.by_number[number] = Space(number, key, feed, self._words, self._origins)
        return found

    def drop(self, space: Space) -> None:
        space.drop(self._epoch())
        del self.by_number[space.number]
        del self._numbers[space.key]

    def find_label(self, graph: str) -> int:
        """The label that a plan names by ``#3 <predicate>``, or -3 for ``#3``: all of a space."""
        number, _, predicate = graph[1:].partition(" ")
        if not predicate:
            return -int(number)
        space = self.by_number[int(number)]
        return space.find_label(self._words.encode_one(predicate), self._epoch())
