"""The shortest path of a push: a few tuples in one call of a kernel with preset arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triegs.events.signs import CHANGES
from triegs.events.times import EARLIEST, LATEST
from triegs.jit.words import Words
from triegs.maintain.kernels.judging import NO_TIME, NONE
from triegs.terms.dictionary import Dictionary
from triegs.windows.encoding import Events, name_identity
from triegs.windows.outcomes import Pushed
from triegs.windows.sifting import (
    FEW_AHEAD,
    FEW_BEGIN,
    FEW_BOUND,
    FEW_COUNT,
    FEW_END,
    FEW_EPOCH,
    FEW_FIRST,
    FEW_IDS,
    FEW_IS_MARKED,
    FEW_ROWS,
    FEW_SIGNS,
    FEW_TIMES,
    FEW_WORDS,
    MOST_FEW,
    take_few,
)
from triegs.windows.stream import Stream

#: What an event lacks that is an insertion without an id.
_PLAIN: tuple[Any, ...] = (None, None, None, None, "+", None)
NO_IDS: Words = np.empty(0, np.int64)


class FewEvents:
    """The words of a few events. `count` is the number of pushes that took this path."""

    def __init__(self, words: Dictionary, identities: Dictionary, max_ahead: int) -> None:
        self.count = 0
        #: Whether the events that are noted have signs and ids of their own.
        self.is_marked = False
        self._words, self._identities = words, identities
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
        self.is_marked = False
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
        except (TypeError, ValueError):  # more columns, or something is wrong
            return self._encode_marked(events)
        return count

    def _encode_marked(self, events: Sequence[Any]) -> int:
        """As `encode`, with signs and ids."""
        told, encode = self._told, self._words.encode_one
        try:
            for at, event in enumerate(events):
                if type(event) not in (tuple, list) or len(event) < 4:
                    return 0
                time, subject, predicate, obj, sign, name = tuple(event) + _PLAIN[len(event) :]
                if type(time) is not int or not EARLIEST <= time <= LATEST:
                    return 0
                row = FEW_ROWS + 4 * at
                told[FEW_TIMES + at], told[FEW_SIGNS + at] = time, CHANGES[sign]
                told[row], told[row + 1], told[row + 2] = 1, encode(subject), encode(predicate)
                told[row + 3], told[FEW_IDS + at] = encode(obj), NONE
                if name is not None:
                    told[FEW_IDS + at] = self._identities.encode_one(name_identity(name))
        except (KeyError, TypeError, ValueError):
            return 0  # the long path says what is wrong
        self.is_marked = True
        return len(events)

    def read(self, count: int) -> Events:
        """The events that are noted, until others are; not with marks."""
        times = self._few[FEW_TIMES : FEW_TIMES + count]
        rows = self._few[FEW_ROWS : FEW_ROWS + 4 * count].reshape(-1, 4)
        return Events(times, rows, NO_IDS, count, None, [])

    def take(self, count: int, stream: Stream, bound: int | None) -> Pushed | None:
        """Take in the events that are noted, as `push` does."""
        told = self._told
        queue, first = stream.pending.queue, stream.arrivals
        told[FEW_COUNT], told[FEW_FIRST] = count, first
        told[FEW_BOUND] = NO_TIME if bound is None else bound
        told[FEW_EPOCH], told[FEW_IS_MARKED] = stream.epoch, self.is_marked
        told[FEW_BEGIN], told[FEW_END] = queue.begin, queue.end
        if not take_few(self._few, stream.span, queue.words, *self._words.counted):
            return None
        queue.end += count
        if self.is_marked:
            signs, ids = (self._few[at : at + count] for at in (FEW_SIGNS, FEW_IDS))
            stream.hold_marks(ids, has_deletions=int(signs.min()) < 0)
        stream.arrivals = first + count
        self.count += 1
        return Pushed(first, count, 0, ())
