"""Spaces: the same label under two windows is two relations.

In the core a predicate within a space is a label of its own. Its id comes from the dictionary, as
that of a term that nobody can write, so ids stay dense. A label lives while an event in its space
has the predicate, or a query names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from triegs.dictionary import Dictionary
from triegs.maintain.base import Origins
from triegs.sparql.window import Window
from triegs.windows.judging import Words

_SCOPE = "labels of a triegs window"


class SpaceKey(NamedTuple):
    """What a space holds: the events of a window, with the static graph or without."""

    window: Window
    has_static: bool


class Space:
    """Labels of one space by predicate, and how many rows and queries name each."""

    def __init__(self, number: int, key: SpaceKey, words: Dictionary, origins: Origins) -> None:
        self.number = number
        self.key = key
        self.uses = 0
        self._words = words
        self._origins = origins
        self._labels = np.full(64, -1, np.int64)
        self._counts = np.zeros(64, np.int64)

    def find_label(self, predicate: int, epoch: int) -> int:
        """The label of a predicate, made if need be."""
        self._reach(predicate)
        found = int(self._labels[predicate])
        return self._make(predicate, epoch) if found < 0 else found

    def hold(self, predicate: int, change: int, epoch: int) -> None:
        """Count a query that names the predicate, or one less."""
        self.find_label(predicate, epoch)
        self._counts[predicate] += change
        self._free(np.array([predicate]), epoch)

    def translate(self, rows: Words, epoch: int) -> Words:
        """The rows with labels of this space for predicates."""
        predicates = rows[:, 2]
        if len(rows) == 0:
            return rows
        self._reach(int(predicates.max()))
        labels = self._labels[predicates]
        if labels.min() < 0:
            for predicate in np.unique(predicates[labels < 0]).tolist():
                self._make(predicate, epoch)
            labels = self._labels[predicates]
        found = rows.copy()
        found[:, 2] = labels
        return found

    def count(self, rows: Words, epoch: int) -> None:
        """Rows with plain predicates have come and gone; frees what nobody names."""
        if len(rows) == 0:
            return
        predicates = rows[:, 2]
        np.add.at(self._counts, predicates, rows[:, 0])
        empty = predicates[self._counts[predicates] == 0]
        if len(empty):
            self._free(np.unique(empty), epoch)

    def drop(self, epoch: int) -> None:
        """Let every label go."""
        self._counts[:] = 0
        self._free(np.flatnonzero(self._labels >= 0), epoch)

    def _reach(self, predicate: int) -> None:
        size = len(self._labels)
        if predicate >= size:
            size = max(predicate + 1, 2 * size)
            more = size - len(self._labels)
            self._labels = np.concatenate([self._labels, np.full(more, -1, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])

    def _make(self, predicate: int, epoch: int) -> int:
        label = self._words.encode_one(f"_:w{self.number}p{predicate}", _SCOPE)
        self._words.acquire([label], epoch)
        self._labels[predicate] = label
        self._origins[label] = (-self.number, predicate)
        return label

    def _free(self, predicates: Words, epoch: int) -> None:
        for predicate in predicates[self._counts[predicates] == 0].tolist():
            label = int(self._labels[predicate])
            self._labels[predicate] = -1
            del self._origins[label]
            self._words.release([label], epoch)


class Spaces:
    """All spaces by number and by what they hold."""

    def __init__(self, words: Dictionary, origins: Origins, epoch: Callable[[], int]) -> None:
        self._words = words
        self._origins = origins
        self._epoch = epoch
        self._numbers: dict[SpaceKey, int] = {}
        self._last = 0
        self.by_number: dict[int, Space] = {}

    def number(self, key: SpaceKey) -> int:
        """The number that a space has, or will have; one is never given twice."""
        found = self._numbers.get(key)
        if found is None:
            self._last += 1
            found = self._numbers[key] = self._last
        return found

    def make(self, key: SpaceKey) -> Space:
        number = self.number(key)
        found = self.by_number[number] = Space(number, key, self._words, self._origins)
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
