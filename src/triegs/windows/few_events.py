"""The shortest path of a push: a few tuples in one call of a kernel with preset arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triegs.events.times import EARLIEST, LATEST
from triegs.jit.words import Words
from triegs.terms.dictionary import Dictionary
from triegs.windows.encoding import Events
from triegs.windows.judging import NO_TIME
from triegs.windows.outcomes import Pushed
from triegs.windows.sifting import (
    FEW_AHEAD,
    FEW_BEGIN,
    FEW_BOUND,
    FEW_COUNT,
    FEW_END,
    FEW_EPOCH,
    FEW_FIRST,
    FEW_ROWS,
    FEW_TIMES,
    FEW_WORDS,
    MOST_FEW,
    take_few,
)
from triegs.windows.stream import Stream

NO_IDS: Words = np.empty(0, np.int64)


class FewEvents:
    """The words of a few events. `count` is the number of pushes that took this path."""

    def __init__(self, words: Dictionary, max_ahead: int) -> None:
        self.count = 0
        self._words = words
        self._few = np.zeros(FEW_WORDS, np.int64)
        self._told = self._few.data  # a memoryview is faster for single words
        self._told[FEW_AHEAD] = max_ahead

    def push(self, events: Sequence[Any], stream: Stream, bound: int | None) -> Pushed | None:
        """Take in events, or None if they do not qualify; then nothing is changed, except that
        some of their terms may be in the dictionary.
        """
        count = self.encode(events)
        return self.take(count, stream, bound) if count else None

    def encode(self, events: Sequence[Any]) -> int:
        """Note events for `take`; returns their number, or 0 if they do not qualify."""
        count = len(events)
        if not 0 < count <= MOST_FEW:
            return 0
        told, encode = self._told, self._words.encode_one
        row, at = FEW_ROWS, FEW_TIMES
        try:
            for event in events:
                kind = type(event)
                time, subject, predicate, obj = event
                if (kind is not tuple and kind is not list) or type(time) is not int:
                    return 0
                if not EARLIEST <= time <= LATEST:
                    return 0
                told[at], told[row] = time, 1
                told[row + 1] = encode(subject)
                told[row + 2] = encode(predicate)
                told[row + 3] = encode(obj)
                row += 4
                at += 1
        except (TypeError, ValueError):
            return 0  # the long path says what is wrong
        return count

    def read(self, count: int) -> Events:
        """The events that are noted, until others are; without ids."""
        times = self._few[FEW_TIMES : FEW_TIMES + count]
        rows = self._few[FEW_ROWS : FEW_ROWS + 4 * count].reshape(-1, 4)
        return Events(times, rows, NO_IDS, count, None, [])

    def take(self, count: int, stream: Stream, bound: int | None) -> Pushed | None:
        """Take in the events that are noted, as `push` does."""
        told = self._told
        queue, first = stream.pending.queue, stream.arrivals
        told[FEW_COUNT], told[FEW_FIRST] = count, first
        told[FEW_BOUND] = NO_TIME if bound is None else bound
        told[FEW_EPOCH] = stream.epoch
        told[FEW_BEGIN], told[FEW_END] = queue.begin, queue.end
        if not take_few(self._few, stream.span, queue.words, *self._words.counted):
            return None
        queue.end += count
        stream.arrivals = first + count
        self.count += 1
        return Pushed(first, count, 0, ())
