"""Epochs by several workers: threads that take morsels of one epoch (`docs/maintenance.md`).

A `WorkerPool` belongs to one core. Its workers are threads that run one kernel without the
interpreter's lock; the thread that updates is worker 0. Each has a mapping of the arena with a
header of its own (`triegs.store.workers`), and scratch memory of its own. Whatever the pool cannot
do, such as an epoch with a fault or without room, is undone, and made again by one worker.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import perf_counter, sleep
from typing import Any
from weakref import finalize

import numpy as np

from triegs.jit.words import Words
from triegs.maintain.judges import LEAST_REQUESTS, Judges
from triegs.maintain.kernels import morsel_tables as m
from triegs.maintain.kernels.entries import sort_by_label
from triegs.maintain.kernels.morsels import run_worker
from triegs.maintain.kernels.tables import COUNTER_WORDS, ENTRY_WORDS
from triegs.maintain.kernels.work import BUFFER_WORDS, KEY
from triegs.maintain.morsel_plan import MorselPlan, find_slot
from triegs.maintain.relations import make_work
from triegs.maintain.schedulers import BY_NAME, Workers
from triegs.maintain.tables import Table
from triegs.placement import Placement, find_nodes, pin_thread, plan_placement
from triegs.store.kernels.layout import LOG_FULL
from triegs.store.kernels.stripes import MERGE_WORDS, MOST_WORKERS
from triegs.store.packed import PackedStore
from triegs.store.workers import WorkerArenas

STRIPES_PER_WORKER = 2
MOST_STRIPES = 16
# Blocks of 32 ids are a stripe's; from so many ids on, blocks of 1,024, of which fewer nodes are
# copied by several workers.
FEW_IDS = 1 << 17
SMALL_SHIFT, LARGE_SHIFT = 5, 10
LEAST_MINE = MERGE_WORDS + 2 * MOST_STRIPES + MOST_WORKERS
LEAST_LOG = 1 << 14
LOG_WORDS_PER_UPDATE, POOL_WORDS_PER_UPDATE = 16, 64
HAND_OFFS = 32  # measured at the start
PAYS_AT = 8  # hand-offs: an epoch that takes less is not worth sharing
TRIALS = 3  # epochs of a size that are made each way before one is chosen
MARGIN = 0.9  # what follows costs more behind several workers: publishing, and the lock
TRY_AGAIN = 64  # epochs after which the other way is tried again
NOT_PLACED = plan_placement(None, 0, {})


class Failed(Exception):
    """The pool could not make an epoch; it changed nothing that an abort does not undo."""


class WorkerPool:
    """Threads that make the epochs of one core together with the updater's."""

    def __init__(
        self, store: PackedStore, judges: Judges, workers: int, scheduler: str,
        placement: Placement = NOT_PLACED,
    ) -> None:  # fmt: skip
        self.workers, self.scheduler = workers, scheduler
        self.stripes = min(MOST_STRIPES, STRIPES_PER_WORKER * workers)
        self.placement, self.nodes = placement, find_nodes(placement, workers)
        self._store, self._judges = store, judges
        self._arenas = WorkerArenas(store, workers)
        self._plan: MorselPlan | None = None
        self._planned: Table | None = None
        self._state: Words = np.zeros(m.STATE_HEAD, np.int64)
        self._ticket = 0
        self._scratch = [_Scratch(number) for number in range(workers)]
        self._slots = np.empty(0, np.int64)
        self._entries = self._unsorted = self._bounds = self._refused = np.empty(0, np.int64)
        self._store_faults = 0  # of the last epoch that was given up
        self._problems: SimpleQueue[BaseException] = SimpleQueue()
        self._queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(workers - 1)]
        for number, queue in enumerate(self._queues, 1):
            if placement.cpus is not None:
                queue.put((pin_thread, (placement.cpus[number],)))
            Thread(target=_work, args=(queue, self._problems), daemon=True).start()
        self._finish = finalize(self, _stop, self._queues)
        self.epochs = self.failed = 0  # made, and given up
        #: Seconds until another thread has begun: what an epoch must be worth.
        self.hand_off = self._measure_hand_off()
        self._trials: dict[int, _Trial] = {}

    def close(self) -> None:
        """End the threads."""
        self._finish()

    def _measure_hand_off(self) -> float:
        """The median time of a call through the queue of another thread."""
        if not self._queues:
            return 0.0
        back: SimpleQueue[None] = SimpleQueue()
        seconds = []
        for _ in range(HAND_OFFS):
            start = perf_counter()
            self._queues[0].put((back.put, (None,)))
            back.get()
            seconds.append(perf_counter() - start)
        return sorted(seconds)[HAND_OFFS // 2]

    # Whether it pays

    @property
    def takes_all(self) -> bool:
        """Whether every epoch is to be shared, however small."""
        return self.scheduler not in ("serial", "adaptive")

    def wants(self, count: int, expected_ns: float) -> bool:
        """Whether the pool is to make an epoch of so many updates, which one worker is expected to
        need so long for.

        Adaptive: below a few hand-offs never; above, each way is timed for epochs of about that
        size, and the faster one is taken. Any other scheduler takes every epoch.
        """
        if self.takes_all:
            return True
        if self.scheduler == "serial":
            return False
        if expected_ns < 1e9 * PAYS_AT * self.hand_off:
            return False
        return self._trials.setdefault(count.bit_length(), _Trial()).choose()

    def note(self, count: int, seconds: float, *, is_shared: bool) -> None:
        """Learn how long an epoch took, made by the pool or by one worker."""
        trial = self._trials.get(count.bit_length())
        if trial is not None:
            trial.note(seconds / count, is_shared=is_shared)

    def describe(self) -> dict[str, Any]:
        """For `triegs.Engine.metrics`."""
        return {
            "workers": self.workers,
            "scheduler": self.scheduler,
            "epochs": self.epochs,
            "given_up": self.failed,
            "hand_off_us": round(1e6 * self.hand_off, 1),
            "placement": self.placement.describe(),
        }

    # One epoch

    def run(
        self, flat: Words, table: Table, packed: tuple[Words, Words, Words], graph_of: Words,
        work: Words, highest: int,
    ) -> tuple[Words, int]:  # fmt: skip
        """Make an epoch up to its publication; returns the indices of refused updates.

        `packed` has the lists with the counters, the numbers of labels by predicate, and the bounds
        of streams. Raises `Failed`: then the epoch must be aborted. `highest` is the highest id.
        """
        store, count = self._store, flat.size // 4
        if not self._arenas.make_pages(highest):
            raise Failed
        plan = self._follow(table, len(packed[0]))
        self._make_room(count, table, packed[0], work)
        if not self._arenas.equip(count):
            raise Failed
        is_done, self._slots = False, store.copy_slots()
        self._reset(plan, SMALL_SHIFT if highest < FEW_IDS else LARGE_SHIFT)

        def sort(words: Words, _: Words) -> int:
            return sort_by_label(
                words, flat, packed[1], table.words, self._bounds, self._unsorted, self._refused,
                work[KEY:],
            )  # fmt: skip

        try:
            self._state[plan.words[m.P_FOUND]] = store.run(sort)
            while not self._run_once(plan, flat, table, graph_of):
                self._answer()
            is_done = not self._state[m.S_FAULTY] and not store.faults
        finally:
            self._state[m.S_OPEN] = m.CLOSED  # nobody waits for an epoch that does not begin
            if not is_done:
                self._undo(plan)
            self._arenas.end_epoch()
        if not is_done:
            self._store_faults = store.faults
            raise Failed
        self.epochs += 1
        self._report(plan, packed)
        return self._list_refused(plan)

    def _follow(self, table: Table, words: int) -> MorselPlan:
        """The plan of a table."""
        if self._planned is not table or self._plan is None:
            lists = (words - COUNTER_WORDS * len(table.steps)) // 2
            self._plan = MorselPlan(
                table.words, lists, self._find_shape,
                Workers(self.workers, self.stripes, self.nodes), BY_NAME[self.scheduler],
            )  # fmt: skip
            self._planned = table
            jitter = self._state[m.S_JITTER]
            self._state = np.zeros(int(self._plan.words[m.P_END]), np.int64)
            self._state[m.S_JITTER] = jitter
            self._state[m.S_OPEN] = m.CLOSED
            self._trials.clear()
        return self._plan

    def _find_shape(self, address: int) -> int:
        return self._store.find_shape(find_slot(address))

    def _make_room(self, count: int, table: Table, lists: Words, work: Words) -> None:
        words = count * ENTRY_WORDS * (1 + table.selections)
        if self._entries.size < words:
            self._entries = np.empty(2 * words, np.int64)
        if self._refused.size < 2 * count:
            self._unsorted = np.empty(2 * count * ENTRY_WORDS, np.int64)
            self._refused = np.empty(4 * count, np.int64)
        if self._bounds.size != len(table.streams) + 2:
            self._bounds = np.zeros(len(table.streams) + 2, np.int64)
        for scratch in self._scratch:
            scratch.make_room(count, lists.size, self._bounds.size, work)
            if self._store_faults & LOG_FULL:
                scratch.grow()
        self._store_faults = 0

    def _reset(self, plan: MorselPlan, shift: int) -> None:
        state = self._state
        state[plan.words[m.P_CLAIMS] :] = 0
        state[[m.S_STOPPED, m.S_FAULTY, m.S_OPEN]] = 0
        state[m.S_SHIFT] = shift
        logs = [word for scratch in self._scratch for word in scratch.describe()]
        at = int(plan.words[m.P_LOGS])
        state[at : at + len(logs)] = logs

    def _run_once(self, plan: MorselPlan, flat: Words, table: Table, graph_of: Words) -> bool:
        """Run all workers until the epoch is done or stops; false if it waits for verdicts."""
        state, store, inside = self._state, self._store, int(plan.words[m.P_INSIDE])
        self._ticket += 1
        state[m.S_TICKET] = self._ticket

        def list_arguments(scratch: _Scratch, words: Words, roots: Words) -> tuple[Any, ...]:
            requests = scratch.requests if scratch.number else self._judges.requests
            refused = scratch.refused if scratch.number else self._refused
            return (
                scratch.number, self._ticket, words, scratch.log, scratch.lists, scratch.work,
                scratch.pool, scratch.mine, refused, scratch.bounds, requests, plan.words, state,
                self._entries, self._unsorted, self._refused, self._bounds, table.words,
                self._slots, roots,
                self._judges.words, flat, graph_of,
            )  # fmt: skip

        def run(words: Words, roots: Words) -> None:
            others = zip(self._scratch[1:], self._arenas.words, self._queues, strict=True)
            for scratch, own_words, queue in others:
                arguments = list_arguments(scratch, own_words, roots)
                queue.put((run_worker, arguments, state, inside + scratch.number))
            state[m.S_OPEN] = m.OPEN
            try:
                _call(run_worker, list_arguments(self._scratch[0], words, roots), state, inside)
            finally:
                state[m.S_OPEN] = m.CLOSED
                while state[inside + 1 : inside + self.workers].any():  # if this worker failed
                    sleep(0)

        state[m.S_STOPPED] = 0
        store.run(run)
        problems = []
        while not self._problems.empty():
            problems.append(self._problems.get())
        if problems:
            raise problems[0]
        # After a fault one worker's work is missing, whatever another has said since.
        return bool(state[m.S_FAULTY]) or int(state[m.S_STOPPED]) != m.WAITING

    def _answer(self) -> None:
        """Have the requests of all workers answered."""
        requests = self._judges.requests
        for scratch in self._scratch[1:]:
            end = int(scratch.requests[0])
            top = int(requests[0])
            if end > 1 and top + end - 1 <= requests.size:  # else they will be made again
                requests[top : top + end - 1] = scratch.requests[1:end]
                requests[0] = top + end - 1
            scratch.requests[0] = 1
        self._judges.answer()
        self._state[m.S_OPEN] = m.NOT_YET

    def _undo(self, plan: MorselPlan) -> None:
        """Free what no slot of the arena leads to, so that aborting the epoch frees the rest."""
        state, words = self._state, self._store.words
        merged_at, roots_at = int(plan.words[m.P_MERGED]), int(plan.words[m.P_ROOTS])
        owners_at = int(plan.words[m.P_OWNERS])
        for number, (slot, shape, is_whole) in enumerate(plan.outputs):
            at = merged_at + m.MERGED_WORDS * number
            if state[at] == m.MERGED:
                words[slot], words[slot + 1] = state[at + 1], state[at + 2]
            elif not is_whole:
                owners = owners_at + self.stripes * number
                for own in set(state[owners : owners + self.stripes].tolist()) - {0, 1}:
                    root = int(state[roots_at + 2 * (number * self.workers + own - 1)])
                    self._arenas.drop(root, shape)
        self.failed += 1
        for scratch in self._scratch[1:]:
            scratch.requests[0] = 1

    def _report(self, plan: MorselPlan, packed: tuple[Words, Words, Words]) -> None:
        """Leave the sizes of streams and lists and the counters of steps as a serial epoch does."""
        lists = packed[0]
        packed[2][:] = self._bounds
        at = int(plan.words[m.P_RANGES])
        ranges = self._state[at : at + 3 * plan.lists * self.stripes].reshape(plan.lists, -1, 3)
        lists[: 2 * plan.lists : 2] = 0
        lists[1 : 2 * plan.lists : 2] = (ranges[:, :, 2] - ranges[:, :, 1]).sum(axis=1)
        for scratch in self._scratch:
            lists[2 * plan.lists :] += scratch.lists[2 * plan.lists :]
            scratch.lists[2 * plan.lists :] = 0

    def _list_refused(self, plan: MorselPlan) -> tuple[Words, int]:
        """The indices of refused updates, and their number."""
        at = int(plan.words[m.P_FOUND])
        found = self._state[at : at + self.workers].tolist()
        total = found[0]
        for scratch, count in zip(self._scratch[1:], found[1:], strict=True):
            self._refused[total : total + count] = scratch.refused[:count]
            total += count
        return self._refused, total

    def waste_time(self, seed: int) -> None:
        """For tests: workers wait at random between morsels."""
        self._state[m.S_JITTER] = seed


class _Scratch:
    """The memory of one worker that only it writes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.log = self.pool = self.mine = self.lists = np.zeros(0, np.int64)
        self.refused = self.bounds = self.work = np.zeros(0, np.int64)
        self.requests: Words = np.zeros(LEAST_REQUESTS, np.int64)
        self.requests[0] = 1

    def make_room(self, count: int, lists: int, bounds: int, work: Words) -> None:
        if self.refused.size < count:
            self.refused = np.empty(2 * count, np.int64)
            self.mine = np.empty(max(LEAST_MINE, 2 * count * ENTRY_WORDS), np.int64)
            self.log = np.zeros(LEAST_LOG + 2 * LOG_WORDS_PER_UPDATE * count, np.int64)
            self.pool = np.zeros(LEAST_LOG + 2 * POOL_WORDS_PER_UPDATE * count, np.int64)
        if self.lists.size != lists:
            self.lists = np.zeros(lists, np.int64)
        if self.bounds.size != bounds:
            self.bounds = np.zeros(bounds, np.int64)
        if self.work.size < work.size:
            self.work = make_work(int(work[BUFFER_WORDS]))
            self.pool = np.zeros(max(self.pool.size, int(work[BUFFER_WORDS])), np.int64)

    def grow(self) -> None:
        """Double what an epoch found too small."""
        self.log = np.zeros(2 * self.log.size, np.int64)
        self.pool = np.zeros(2 * self.pool.size, np.int64)

    def describe(self) -> tuple[int, int, int, int]:
        return (
            int(self.log.ctypes.data), self.log.size, int(self.pool.ctypes.data), self.pool.size,
        )  # fmt: skip


class _Trial:
    """The time per update of epochs of about one size, made by the pool and by one worker."""

    def __init__(self) -> None:
        self._seconds = [0.0, 0.0]
        self._counts = [0, 0]
        self._since = 0

    def choose(self) -> bool:
        """Whether the pool is to make the next one."""
        for way in (0, 1):
            if self._counts[way] < TRIALS:
                return bool(way)
        is_faster = self._seconds[1] < MARGIN * self._seconds[0]
        return is_faster != (self._since >= TRY_AGAIN)

    def note(self, seconds: float, *, is_shared: bool) -> None:
        way = int(is_shared)
        before = self._seconds[way]
        self._seconds[way] = before + (seconds - before) / 4 if self._counts[way] else seconds
        self._counts[way] += 1
        self._since = 0 if self._since >= TRY_AGAIN else self._since + 1


def _work(queue: SimpleQueue[Any], problems: SimpleQueue[BaseException]) -> None:
    while (task := queue.get()) is not None:
        try:
            if len(task) == 2:
                task[0](*task[1])
            else:
                _call(*task)
        except BaseException as problem:
            problems.put(problem)


def _call(work: Callable[..., None], arguments: tuple[Any, ...], state: Words, inside: int) -> None:
    """Run a worker; if it raises, all stop."""
    try:
        work(*arguments)
    except BaseException:
        state[[m.S_FAULTY, m.S_STOPPED]] = 1, m.FAULTY
        state[inside] = 0
        raise


def _stop(queues: list[SimpleQueue[Any]]) -> None:
    for queue in queues:
        queue.put(None)
