"""Epochs that one call of a kernel makes and publishes: of updates, of one update, of a slide."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from triegs.errors import MemoryLimitReached
from triegs.jit.words import Words
from triegs.maintain.judges import Judges
from triegs.maintain.kernels.program import (
    CALL_BAD,
    CALL_CACHED,
    CALL_FREED,
    CALL_HAS_NEWS,
    CALL_HELD,
    CALL_MODE,
    CALL_SLIDE,
    CALL_SLIDE_WORDS,
    CALL_TICKS,
    CALL_WORDS,
    COUNTING,
    LISTED_PER_UPDATE,
    NEEDS_VERDICTS,
    WITHOUT_LOCK,
    run_epoch,
)
from triegs.maintain.kernels.slides import (
    FREED_BESIDE,
    LONG,
    MADE,
    MOST,
    NEEDS_LABELS,
    NEEDS_ROOM,
    SIZE,
    STAGE,
    TOO_MANY,
)
from triegs.maintain.kernels.tables import ENTRY_WORDS
from triegs.maintain.label_graphs import LabelGraphs
from triegs.maintain.model import Watch
from triegs.maintain.morsels import WorkerPool
from triegs.maintain.pace import Pace
from triegs.maintain.standing import NO_EVENT, Epoch, Publisher, Refused
from triegs.maintain.tables import Table
from triegs.maintain.views import Views
from triegs.mode import Mode
from triegs.store.packed import PackedStore, PackedVersion
from triegs.terms.dictionary import Dictionary, explain_row

PREDICATE = 2  # its column in an update
FEW_UPDATES = 64  # an epoch this small ends sooner than a lock changes hands
MOST_AT_ONCE = 4096  # updates of an epoch that one call makes and publishes
# A call that is expected to take longer runs without the interpreter's lock; one that takes much
# longer does not publish, because readers cannot pin meanwhile.
LONG_NS, LONGEST_NS = 250_000, 2_000_000
NO_WORDS: Words = np.empty(0, np.int64)
#: The result of a slide that cannot be made at once.
IMPOSSIBLE = -1


class SlideWords:
    """The words of a slide, see `triegs.maintain.kernels.slides`: one array at one address."""

    def __init__(self, size: int) -> None:
        self.words = np.zeros(size, np.int64)
        self.told = self.words.data  # a memoryview is faster for single words
        self.address = int(self.words.ctypes.data)


class AtOnce(Publisher):
    """A part of `triegs.maintain.compiled.CompiledCore`: what its calls need.

    If a call is not possible, nothing is changed, and the epoch is to be made in several calls:
    something is stalled, there is no room, the call would take long, or it met a fault.
    """

    #: The program: its table, and its arrays as one.
    table: Table
    _packed: Words

    def __init__(
        self, store: PackedStore, judges: Judges, mode: Mode, terms: Dictionary | None
    ) -> None:
        super().__init__(store)
        self._terms = terms or Dictionary()
        self.judges = judges
        #: For each label: its graph, and its predicate there.
        self.label_graphs = LabelGraphs()
        self.views = Views(store, mode, judges, self.label_graphs)
        self._log = np.zeros(1 << 16, np.int64)
        self._entries = self._refused = self._kept = NO_WORDS
        #: The updates that a slide wrote.
        self.updates = NO_WORDS
        self._room = 0  # updates that these arrays are large enough for
        self._last_slide = 0  # updates of the last slide
        self._call = np.zeros(CALL_WORDS, np.int64)
        self._told = self._call.data
        self.pace = Pace()
        #: A call that is expected to take longer runs without the interpreter's lock.
        self.long_ns = LONG_NS
        self._is_plain = True  # nothing is stalled
        self._is_quick = True  # an epoch may be made in one call
        #: The workers that share epochs with this thread, if there are others.
        self.worker_pool: WorkerPool | None = None
        self._watches: list[Watch] = []

    @abstractmethod
    def _abort(self, saved: Any) -> None: ...

    def share_epochs(self, pool: WorkerPool) -> None:
        """Have several workers make epochs, those that they want to."""
        self.worker_pool = pool
        self._follow_stalls(is_plain=self._is_plain)

    def _follow_stalls(self, *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._is_quick = is_plain and (self.worker_pool is None or not self.worker_pool.takes_all)

    def _wants_workers(self, count: int) -> bool:
        """Whether several workers are to make an epoch of so many updates."""
        return self.worker_pool is not None and self.worker_pool.wants(
            count, self.pace.expect(count)
        )

    def _note_call(self, count: int) -> None:
        """Learn from a call that this thread made alone."""
        self.pace.note(self._told[CALL_TICKS], count)
        if self.worker_pool is not None:
            self.worker_pool.note(
                count, self._told[CALL_TICKS] * self.pace.find_tick(), is_shared=False
            )

    def apply_at_once(self, flat: Words, counts: bool) -> Epoch | None:
        """An epoch in one call, see `CompiledCore.apply`; None if that is not possible."""
        count = flat.size >> 2
        expected = self.pace.expect(count) if count > FEW_UPDATES else 0.0
        if not self._is_quick or expected > LONGEST_NS:
            return None
        if count > self._room:
            self._make_scratch(count)
        if self._watches:
            try:
                self._add_digits(flat)
            except MemoryLimitReached:
                self._abort(None)
                return None
        told, judges, store = self._told, self.judges, self.store
        told[CALL_MODE] = (WITHOUT_LOCK if expected > self.long_ns else 0) | (
            COUNTING if counts else 0
        )
        has_requests = False
        while True:
            found, version = store.run_and_publish(
                run_epoch, flat, self._log, self.views.work, self._packed, self.label_graphs.words,
                self._entries, self._refused, judges.words, judges.requests, self._call, self._kept,
                *self._terms.arrays,
            )  # fmt: skip
            if found >= 0:
                break
            if found != NEEDS_VERDICTS:
                self._abort(None)
                return None
            has_requests = True
            self._answer()
        if count > FEW_UPDATES:
            self._note_call(count)
        if has_requests:
            judges.end_epoch()
        if self._watches:
            self.views.digits.commit()
        if counts and told[CALL_HAS_NEWS]:
            self._follow_terms(flat)
        return Epoch(version, self._list_refused(self._refused, found) if found else ())

    def apply_one(self, row: Words) -> tuple[int, PackedVersion] | None:
        """`apply_at_once` for the most frequent call: one update, with nothing to request.

        Returns whether it was refused, and the version.
        """
        if not self._is_quick or self._watches or not self._room:
            return None
        told, judges = self._told, self.judges
        told[CALL_MODE] = COUNTING
        outcome = self.store.run_and_publish(
            run_epoch, row, self._log, self.views.work, self._packed, self.label_graphs.words,
            self._entries, self._refused, judges.words, judges.requests, self._call, self._kept,
            *self._terms.arrays,
        )  # fmt: skip
        if outcome[0] < 0:
            self._abort(None)
            return None
        if told[CALL_HAS_NEWS]:
            self._follow_terms(row)
        return outcome

    def slide_at_once(self, slide: SlideWords) -> tuple[int, PackedVersion]:
        """An epoch in one call, of the updates that the call itself takes from a log of events;
        it also retires events and settles their terms.

        Updates that are made already are in `updates`, if `expect_slide` has allowed so many.

        Returns how many updates it refused, and the version; `updates` has the rows. The number is
        `NEEDS_LABELS`, or another negative one, if that is not possible.
        """
        if not self._is_quick or self._watches or self._wants_workers(max(1, self._last_slide)):
            return IMPOSSIBLE, self.store.newest
        if not self._room:
            self._make_scratch(FEW_UPDATES)
        told, call, judges, store = slide.told, self._told, self.judges, self.store
        told[MOST] = told[LONG] = FEW_UPDATES
        if told[STAGE] == MADE:
            self._bound_slide(slide, told[SIZE])
        elif self._last_slide > FEW_UPDATES:
            self._bound_slide(slide, self._last_slide + (self._last_slide >> 2))
        call[CALL_MODE] = 0
        call[CALL_SLIDE], call[CALL_SLIDE_WORDS] = slide.address, len(told)
        has_requests = False
        try:
            while True:
                found, version = store.run_and_publish(
                    run_epoch, self.updates, self._log, self.views.work, self._packed,
                    self.label_graphs.words, self._entries, self._refused, judges.words,
                    judges.requests, self._call, self._kept, *self._terms.arrays,
                )  # fmt: skip
                if found >= 0:
                    break
                if found == TOO_MANY:
                    if self._bound_slide(slide, told[SIZE]):
                        continue
                    return IMPOSSIBLE, version
                if found in (NEEDS_LABELS, NEEDS_ROOM):
                    return found, version
                if found != NEEDS_VERDICTS:
                    self._abort(None)
                    return IMPOSSIBLE, version
                has_requests = True
                self._answer()
        finally:
            call[CALL_SLIDE] = call[CALL_SLIDE_WORDS] = 0
        self._last_slide = count = told[SIZE]
        if count > FEW_UPDATES:
            self._note_call(count)
        if has_requests:
            judges.end_epoch()
        if call[CALL_HAS_NEWS]:
            self._follow_terms(None)
        return found, version

    def expect_slide(self, count: int) -> bool:
        """Whether a slide of so many updates may be made at once; then `updates` has room for
        them.
        """
        if not self._is_quick or self._watches or self._wants_workers(max(count, self._last_slide)):
            return False
        most = max(FEW_UPDATES, self._count_most(self.pace.expect(1)))
        if self._room < count <= most:
            self._make_scratch(count)
        return count <= most

    def _bound_slide(self, slide: SlideWords, count: int) -> bool:
        """Prepare for a slide of so many updates; returns whether it may be made at once."""
        expected = self.pace.expect(1)
        most = self._count_most(expected)
        if self._room < min(count, most):
            self._make_scratch(min(count, most))
        slide.told[MOST] = min(self._room, most)
        slide.told[LONG] = min(most, int(self.long_ns / expected)) if expected else most
        return count <= most

    @staticmethod
    def _count_most(expected: float) -> int:
        """Updates of a slide that may be made at once, if each takes so many nanoseconds."""
        return min(MOST_AT_ONCE, int(LONGEST_NS / expected)) if expected else MOST_AT_ONCE

    def _answer(self) -> None:
        """Answer what an epoch waits for."""
        try:
            self.judges.answer()
        except BaseException:
            self._abort(None)
            raise

    def _follow_terms(self, flat: Words | None) -> None:
        """Follow a call that settled terms, those of updates or of a slide, and has something to
        tell.
        """
        told = self._told
        freed = told[CALL_FREED], told[CALL_CACHED], told[CALL_HELD]
        self._terms.note_sifted(self._kept, *freed)
        bad = told[CALL_BAD]
        if bad >= 0:
            if flat is None:
                raise KeyError(f"{bad} was released more often than acquired")
            raise explain_row(flat, bad)

    def _make_scratch(self, count: int) -> None:
        """Make the arrays that a call needs for its updates."""
        self._room = max(FEW_UPDATES, 1 << (count - 1).bit_length())
        words = ENTRY_WORDS * (1 + self.table.selections)
        self._entries = np.empty(self._room * words, np.int64)
        self._refused = np.empty(2 * self._room, np.int64)
        self.updates = np.empty(4 * self._room, np.int64)
        kept = LISTED_PER_UPDATE * self._room + FREED_BESIDE
        self._kept = np.empty(2 * kept, np.int64)

    def _add_digits(self, flat: Words) -> None:
        """Add the digits of the terms that an epoch brings to sums."""
        by_label = [watch for watch in self._watches if watch.column != PREDICATE]
        self.views.add_new_digits(flat, by_label)
        if len(by_label) < len(self._watches):  # the labels of window graphs are not the terms
            self.views.add_digits(self.label_graphs.find(flat[PREDICATE::4])[1])

    @staticmethod
    def _list_refused(refused: Words, found: int) -> tuple[Refused, ...]:
        if found == 0:
            return ()
        return tuple(Refused(row, NO_EVENT) for row in sorted(refused[:found].tolist()))
