"""The memory limit of a packed store: growing, compacting, and exceeding it temporarily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from triegs.errors import BadOption, MemoryLimitReached
from triegs.jit.words import Words
from triegs.store.kernels.layout import (
    BUMP,
    FRESH,
    LIMIT,
    NODE_WORDS,
    RETAINED,
    ROOM_WORDS,
    SHARED_NODES,
    SLOT_WORDS,
    SLOTS,
    START,
    UNSHARED,
)
from triegs.store.kernels.measure import measure_fresh
from triegs.store.kernels.memory import WORD_BYTES, copy_arena, grow_arena, make_arena, slack_words
from triegs.store.relations import PackedVersion
from triegs.store.room import LIMIT_FRACTION, RESERVE_BYTES, compact, count_free, count_used, sweep
from triegs.store.shared_arena import make_shared_arena
from triegs.store.versions import VersionedArena


class Workers(Protocol):
    """Others that hold nodes of an arena, see `triegs.store.workers`."""

    def publish(self, holds: Words) -> None: ...

    def abort(self) -> None: ...

    def settle(self) -> bool: ...

    def count_held(self) -> int: ...


SMALLEST_LIMIT = 2 * RESERVE_BYTES


class LimitedArena(VersionedArena):
    """A versioned arena that grows up to a limit. `memory_limit` is in bytes; None is no limit."""

    def __init__(self, memory_limit: int | None, reserve: bool, shared_memory: bool) -> None:
        if memory_limit is not None and memory_limit < SMALLEST_LIMIT:
            raise BadOption(
                f"memory_limit {memory_limit}: must be at least {SMALLEST_LIMIT:,} bytes"
            )
        self._limit_bytes = memory_limit
        self._limit_words = None if memory_limit is None else memory_limit // WORD_BYTES
        #: Whether other processes can read it.
        self.is_shared = shared_memory
        super().__init__(
            make_shared_arena(self._limit_words)
            if shared_memory
            else make_arena(self._limit_words, reserve=reserve)
        )
        # The newest version at the last compaction, and when pages were last swept.
        self._compacted: PackedVersion | None = None
        self._swept: PackedVersion | None = None
        self.workers: Workers | None = None
        #: How often pages were removed.
        self.sweeps = 0

    @property
    def memory_limit(self) -> int | None:
        return self._limit_bytes

    @property
    def current_limit(self) -> int | None:
        """`memory_limit`, or None while it is suspended."""
        return None if self._limit_words is None else self._limit_bytes

    def make_room(self) -> bool:
        """Make room for the next changes; returns whether there was any to be had.

        Before the first change of an epoch this may move all nodes, which ends the writer's scans.
        """
        with self._memory:
            return self._make_room(moves=True)

    def _make_room(self, *, moves: bool) -> bool:
        """Free what readers have released, grow, or compact. The caller has locked `_memory`.

        Without `moves` no node moves, because the writer may be in the middle of a scan.
        """
        self._release_gone()
        has_settled = self._settle_workers()
        if self._follow_pins() or has_settled:
            return True
        # Processes that read a shared arena have mapped it where it is, all that there may be.
        larger = None if self.is_shared else grow_arena(self.words, self._limit_words)
        if larger is None:
            return self._sweep_pages() or (moves and self._compact())
        self.words = larger
        return True

    def _settle_workers(self) -> bool:
        """Take back the memory that workers hold; returns whether they held any."""
        return self.workers is not None and self.workers.settle()

    def _most_unused(self) -> int:
        """The most words that unused pages of shared blocks may take."""
        return NODE_WORDS * int(min(self.words[UNSHARED], self.words[SHARED_NODES]))

    def _sweep_pages(self) -> bool:
        """Free the pages of shared blocks that no version uses; returns whether there were any.

        Only if they may be a sixteenth of the limit, and once per version: an epoch that is refused
        leaves pages, and trying it again makes them again. The caller has locked `_memory`. Costs a
        visit of every node.
        """
        words = self.words
        limit = self._limit_words or words.size - START
        if self._swept is self._newest or LIMIT_FRACTION * self._most_unused() < limit:
            return False
        self._swept = self._newest
        self.sweeps += 1
        with self._pins:
            versions = [self._newest, *self._held.values()]
        slots = words[SLOTS : SLOTS + SLOT_WORDS * len(self._shapes)]
        roots = [(slots, np.array(self._shapes, np.int64))]
        roots += [(version.roots, version.list_shapes()) for version in versions]
        return sweep(words, self._walk, roots)

    def refuse(self, what: str, why: str = "") -> MemoryLimitReached:
        """The error of a change that found no room."""
        limit = self._limit_bytes or self.words.nbytes
        return MemoryLimitReached(f"{what}: no room under {limit:,} bytes{why}")

    def _compact(self, *, again: bool = False) -> bool:
        """Move all nodes together if that frees enough; returns whether it did.

        Only between epochs and while no version is held; unless `again`, at most once per version.
        The caller has locked `_memory`. Costs a visit of every node.
        """
        words, newest = self.words, self._newest
        limit = self._limit_words or words.size - START
        gain = count_free(words) + self._most_unused()
        if (self._compacted is newest and not again) or LIMIT_FRACTION * gain < limit:
            return False
        end = SLOTS + newest.roots.size
        with self._pins:  # so that nobody pins meanwhile
            if self._held or words[FRESH] or words[RETAINED]:
                return False
            slots = words[SLOTS : SLOTS + SLOT_WORDS * len(self._shapes)]
            if (words[SLOTS:end] != newest.roots).any() or slots[newest.roots.size :].any():
                return False  # in the middle of an epoch
            compact(words, self._walk, self._shapes)
            newest.words, newest.digest = words, None
            newest.roots[:] = words[SLOTS:end]
            self._compacted = newest
        return True

    def lift_limit(self) -> None:
        """Allow more than the limit until `restore_limit`: enough to copy all nodes, or to drop
        any number of relations. Costs a copy of the arena if it has to grow.
        """
        if self._limit_words is None:
            return
        with self._memory:
            self._settle_workers()
            wanted = START + self._limit_words + slack_words(self._limit_words)
            if self.words.size < wanted:
                self.words = copy_arena(self.words, wanted)
            self.words[LIMIT] = wanted

    def restore_limit(self) -> None:
        """Enforce the limit again; changes fail until enough memory is free.

        If the arena exceeds the limit by a sixteenth and no version is held, it is compacted and
        the excess goes back to the system. Otherwise the excess is reused first.
        """
        if self._limit_words is None:
            return
        with self._memory:
            self._settle_workers()
            self._follow_pins()
            words = self.words
            words[LIMIT] = min(START + self._limit_words, words.size)
            if int(words[BUMP]) - START > self._limit_words + self._limit_words // LIMIT_FRACTION:
                self._compact(again=True)

    def is_within_limit(self) -> bool:
        """Whether one more change would find room if the current epoch were published now.

        Costs a visit of each node that the epoch has retired.
        """
        if self._limit_words is None:
            return True
        with self._memory:
            self._release_gone()
            self._settle_workers()
            self._follow_pins()
            freed = int(measure_fresh(self.words, self.holds))
            most = self._limit_words + freed - ROOM_WORDS
            if count_used(self.words) > most:
                self._sweep_pages()
            return count_used(self.words) <= most

    @contextmanager
    def without_limit(self) -> Iterator[None]:
        limit, self._limit_words = self._limit_words, None
        self.words[LIMIT] = self.words.size
        try:
            yield
        finally:
            self._limit_words = limit
            self.restore_limit()
