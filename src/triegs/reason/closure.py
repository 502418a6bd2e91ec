"""A closure: the facts of one graph and what rules derive from them, until when each holds.

`Closure.change` runs one epoch and returns the changes of its triples; `keep` or `undo` ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from triegs.jit.words import Ids, Words
from triegs.reason.kernels.closure import dump_facts, end_epoch, run_closure
from triegs.reason.kernels.facts import fill_primary, find_fact, move_heads, renumber_buckets
from triegs.reason.kernels.layout import (
    FINISHED,
    M_BUCKET,
    M_BUCKETS,
    M_CAPACITY,
    M_DERIVED,
    M_FREE,
    M_FRESH,
    M_HEADS,
    M_JOINED,
    M_LIVE,
    M_OUT,
    M_REFUSED,
    M_RETRACTED,
    M_ROWS,
    M_SHOWS_STATIC,
    M_STALE,
    M_TIME,
    M_TOUCHED,
    META_WORDS,
    NEXT,
    NO_BUCKETS,
    NO_FACTS,
    NO_HEAP,
    NO_OUT,
    PREDICATE,
    SCRATCH_WORDS,
    STATED,
    STATIC_ROW,
    TOO_MANY,
    TOUCH_WORDS,
)
from triegs.reason.tables import Program

FIRST_FACTS = 256
FIRST_BUCKETS = 64
FIRST_HEADS = 256
#: Up to so many facts arrays double; then they grow by a quarter, which leaves less unused.
MANY_FACTS = 1 << 20
#: Room for the changes of an epoch that is kept for the next one, in words.
MOST_KEPT_OUT = 1 << 22
#: Buckets are numbered from the beginning again once so many have been used.
MOST_BUCKETS = 1 << 30
#: Before every time.
NO_TIME_YET = -(1 << 62)
_NO_WORDS: Words = np.empty(0, np.int64)


class Change(NamedTuple):
    """The changes of the triples of an epoch, rows ``(change, s, p, o)``, and the rows given to it
    that were refused. `rows` is overwritten by the next epoch.
    """

    rows: Words
    refused: list[int]


class Sizes(NamedTuple):
    """How large the arrays were when an epoch began that has grown them, and the facts used."""

    facts: int
    capacity: int
    primary: int
    heads: int
    heap: int


def double_until(size: int, least: int) -> int:
    """The size, doubled until it is large enough.

    >>> double_until(256, 200), double_until(256, 600)
    (256, 1024)
    """
    while size < least:
        size *= 2
    return size


class Closure:
    """The facts of one graph under the rules of a program.

    `check_room` is called before arrays grow, with the bytes that would be added; what it raises
    ends the epoch, which the caller then undoes.
    """

    def __init__(
        self, program: Program, check_room: Callable[[int], object], *, shows_static: bool = True
    ) -> None:
        self.program = program
        self._check_room = check_room
        # The kernel begins the epoch anew if it stops while it states the rules' facts.
        stated = sum(not rule.body for rule in program.rules.rules)
        stride, capacity = program.stride, double_until(FIRST_FACTS, stated)
        heads = double_until(FIRST_HEADS, 2 * program.indexes * (stated + 2))
        self._facts: Ids = np.zeros(stride * capacity, np.int32)
        self._primary: Ids = np.zeros(2 * capacity, np.int32)
        self._heads = np.zeros(heads, np.int64)
        self._touched: Ids = np.zeros(TOUCH_WORDS * capacity, np.int32)
        self._doubted: Ids = np.zeros(capacity, np.int32)
        self._out = np.zeros(4 * capacity, np.int64)
        self._heap = np.zeros(capacity, np.int64)
        self._buckets = np.full(2 * FIRST_BUCKETS, -1, np.int64)
        self._scratch = np.zeros(SCRATCH_WORDS, np.int64)
        self._refused = np.zeros(FIRST_FACTS, np.int64)
        self._meta = np.zeros(META_WORDS, np.int64)
        self._told = self._meta.data  # a memoryview is faster for single words
        self._told[M_CAPACITY] = capacity
        self._told[M_FREE] = -1
        self._told[M_TIME] = NO_TIME_YET
        self._told[M_SHOWS_STATIC] = int(shows_static)
        self._statics = np.full(FIRST_FACTS, STATIC_ROW, np.int64)
        self._time = NO_TIME_YET
        self._used = 0  # facts when the epoch began, with free ones
        self._before: Sizes | None = None
        if capacity > FIRST_FACTS:
            check_room(self.bytes)

    def change(self, rows: Words, leaves: Words | None = None, time: int | None = None) -> Change:
        """Run an epoch over statements ``(change, s, p, o)``, judged in order.

        `leaves` has the time at which each event leaves, `STATIC_ROW` for a static statement;
        without it all are static. `time` is the epoch's: what leaves then or before is gone.
        Cost: the facts that begin to hold longer, with their joins, and what leaves.
        """
        told, flat = self._told, rows.reshape(-1)
        count = flat.size >> 2
        if count > len(self._refused):
            self._refused = np.zeros(2 * count, np.int64)
            self._statics = np.full(2 * count, STATIC_ROW, np.int64)
        if told[M_BUCKETS] >= MOST_BUCKETS:
            renumber_buckets(self._facts, self.program.stride, self._buckets, self._meta)
        told[M_ROWS] = count
        self._used = told[M_FRESH]
        told[M_TIME] = self._time if time is None else time
        times = self._statics if leaves is None else leaves
        while True:
            outcome = run_closure(
                self.program.words, self._facts, self._primary, self._heads, self._buckets,
                self._heap, self._touched, self._doubted, self._meta, self._scratch, flat, times,
                self._refused, self._out,
            )  # fmt: skip
            if outcome == FINISHED:
                break
            self._grow(outcome)
        assert told[M_STALE] == 0, "a window keeps an event that has left"
        refused = self._refused[: told[M_REFUSED]].tolist() if told[M_REFUSED] else []
        return Change(self._out[: 4 * told[M_OUT]].reshape(-1, 4), refused)

    def keep(self) -> None:
        """Make the epoch final."""
        self._time = self._told[M_TIME]
        self._end(1)
        self._before = None
        if len(self._out) > MOST_KEPT_OUT:
            self._out = np.zeros(4 * FIRST_FACTS, np.int64)

    def undo(self) -> None:
        """Undo the epoch, finished or not. Arrays that it has grown are as small as before, or
        an epoch that is refused for lack of memory would leave none to the next.
        """
        self._end(0)
        if self._before is not None:
            self._shrink(self._before)
            self._before = None

    def _end(self, is_kept: int) -> None:
        end_epoch(
            self.program.words, self._facts, self._primary, self._heads, self._buckets,
            self._touched, self._doubted, self._meta, is_kept,
        )  # fmt: skip

    def _grow(self, outcome: int) -> None:
        if self._before is None:
            self._before = Sizes(
                self._used, self._told[M_CAPACITY], len(self._primary), len(self._heads),
                len(self._heap),
            )  # fmt: skip
        if outcome == NO_HEAP:
            self._check_room(self._heap.nbytes)
            self._heap.resize(2 * len(self._heap), refcheck=False)
        elif outcome == NO_BUCKETS:
            self._check_room(self._buckets.nbytes)
            self._move_buckets()
        elif outcome == NO_OUT:
            size = 4 * self._told[M_TOUCHED]
            size = max(size, min(2 * size, MOST_KEPT_OUT))
            self._check_room(8 * size - self._out.nbytes)
            self._out = np.zeros(size, np.int64)  # an earlier one may still be read
        elif outcome == TOO_MANY:
            raise OverflowError("a triple is stated more than 2**31 - 1 times")
        else:
            assert outcome == NO_FACTS
            told = self._told
            if told[M_FREE] < 0 and told[M_FRESH] == told[M_CAPACITY]:
                self._grow_facts()
            if 2 * (told[M_HEADS] + 2 * self.program.indexes) > len(self._heads):
                self._check_room(self._heads.nbytes)
                grown = np.zeros(2 * len(self._heads), np.int64)
                move_heads(self.program.words, self._facts, self._heads, grown)
                self._heads = grown

    def _shrink(self, before: Sizes) -> None:
        """Make the arrays as large as they were. Facts that the epoch added had the last numbers,
        or free ones. Cost: the facts.
        """
        told, stride = self._told, self.program.stride
        facts = self._facts[: stride * before.facts].reshape(-1, stride)
        free = np.flatnonzero(facts[:, PREDICATE] < 0)
        facts[free[:-1], NEXT] = free[1:]
        facts[free[-1:], NEXT] = -1
        told[M_FREE] = int(free[0]) if len(free) else -1
        told[M_FRESH], told[M_CAPACITY] = before.facts, before.capacity
        size = before.heads  # an old fact may have become a generator, which it stays
        while 2 * (told[M_HEADS] + 2 * self.program.indexes) > size:
            size *= 2
        heads = np.zeros(size, np.int64)
        move_heads(self.program.words, self._facts, self._heads, heads)
        self._heads = heads
        del facts
        self._facts.resize(stride * before.capacity, refcheck=False)
        self._touched.resize(TOUCH_WORDS * before.capacity, refcheck=False)
        self._doubted.resize(before.capacity, refcheck=False)
        self._heap.resize(before.heap, refcheck=False)
        self._primary = np.zeros(before.primary, np.int32)
        fill_primary(self._facts, self._primary, stride, self._meta)
        if len(self._out) > MOST_KEPT_OUT:
            self._out = np.zeros(4 * FIRST_FACTS, np.int64)

    def _grow_facts(self) -> None:
        """Make room for more facts. Arrays grow in place, so a large closure is not there twice."""
        before = self._told[M_CAPACITY]
        capacity = before + max(min(before, MANY_FACTS), before // 4)
        by_fact = [
            (self._facts, self.program.stride),
            (self._touched, TOUCH_WORDS),
            (self._doubted, 1),
        ]
        slots = len(self._primary) * (1 + (2 * capacity > len(self._primary)))
        more = 4 * (capacity - before) * sum(size for _, size in by_fact)
        self._check_room(more + 4 * slots - self._primary.nbytes)
        for array, size in by_fact:
            array.resize(size * capacity, refcheck=False)
        if slots > len(self._primary):
            self._primary = np.zeros(slots, np.int32)
            fill_primary(self._facts, self._primary, self.program.stride, self._meta)
        self._told[M_CAPACITY] = capacity

    def _move_buckets(self) -> None:
        size = len(self._buckets) // 2
        grown = np.full(4 * size, -1, np.int64)
        numbers = np.arange(self._told[M_BUCKET], self._told[M_BUCKETS])
        pairs, target = self._buckets.reshape(-1, 2), grown.reshape(-1, 2)
        target[numbers & (2 * size - 1)] = pairs[numbers & (size - 1)]
        self._buckets = grown

    # Reading

    def count(self, subject: int, predicate: int, obj: int) -> int:
        """The number of static statements of a triple."""
        stride = self.program.stride
        fact = find_fact(self._facts, self._primary, stride, 0, subject, predicate, obj, 0)
        return 0 if fact < 0 else int(self._facts[fact * stride + STATED])

    def read_stated(self) -> Words:
        """The static statements, as rows ``(count, s, p, o)``. Cost: the closure."""
        return self._dump(0, 1)[:, :4]

    def read_shown(self) -> Words:
        """All triples, as rows ``(weight, s, p, o)``. Cost: the closure."""
        return self._dump(0, 0)[:, :4]

    def read_facts(self, predicate: int) -> Words:
        """The facts of a predicate, one row of columns each. Cost: the closure."""
        return self._dump(predicate, 0)[:, 1 : 1 + self.program.arities[predicate]]

    def _dump(self, predicate: int, is_stated: int) -> Words:
        given = self._facts, self.program.stride, self._meta, predicate, is_stated
        out = np.empty(5 * dump_facts(*given, _NO_WORDS), np.int64)
        dump_facts(*given, out)
        return out.reshape(-1, 5)

    @property
    def bytes(self) -> int:
        arrays = (
            self._facts, self._primary, self._heads, self._touched, self._doubted, self._out,
            self._heap, self._buckets,
        )  # fmt: skip
        return sum(array.nbytes for array in arrays)

    def measure(self) -> dict[str, int]:
        """The figures of this closure."""
        told = self._told
        return {
            "facts": told[M_LIVE],
            "derivations": told[M_DERIVED],
            "joined": told[M_JOINED],
            "retracted": told[M_RETRACTED],
            "bytes": self.bytes,
        }
