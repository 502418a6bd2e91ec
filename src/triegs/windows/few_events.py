"""The shortest path of a push: a few tuples in one call of a kernel with preset arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triegs.events.times import EARLIEST, LATEST
from triegs.terms.dictionary import Dictionary
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
        count = len(events)
        if not 0 < count <= MOST_FEW:
            return None
        told, encode = self._told, self._words.encode_one
        row, at = FEW_ROWS, FEW_TIMES
        try:
            for event in events:
                kind = type(event)
                time, subject, predicate, obj = event
                if (kind is not tuple and kind is not list) or type(time) is not int:
                    return None
                if not EARLIEST <= time <= LATEST:
                    return None
                told[at], told[row] = time, 1
                told[row + 1] = encode(subject)
                told[row + 2] = encode(predicate)
                told[row + 3] = encode(obj)
                row += 4
                at += 1
        except (TypeError, ValueError):
            return None  # the long path says what is wrong
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
