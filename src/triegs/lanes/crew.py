"""Threads that run shares of work, and what each of them has spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import getpid
from queue import SimpleQueue
from threading import Thread
from time import perf_counter, thread_time

from triegs.placement import Placement, pin_thread

Share = Callable[[], None]


class Crew:
    """A number of threads, of which the calling one is the first, unless threads are pinned: the
    caller's thread is not ours to pin. Threads start when they are first needed.
    """

    def __init__(self, threads: int, placement: Placement) -> None:
        self.threads = threads
        self.placement = placement
        #: Seconds of processor time and of the wall clock that each thread has spent on shares.
        self.cpu_s = [0.0] * threads
        self.wall_s = [0.0] * threads
        self._is_pinned = placement.cpus is not None
        self._queues: dict[int, SimpleQueue[Share | None]] = {}
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._process = getpid()

    def run(self, shares: Sequence[Share]) -> None:
        """Run all shares, the first on the calling thread, and wait for all of them. An interrupt
        is raised only after that.
        """
        if self._process != getpid():  # forked: the threads are those of the other process
            self._queues, self._done, self._process = {}, SimpleQueue(), getpid()
        sent, problem = 0, None
        try:
            for number, share in enumerate(shares):
                if number or self._is_pinned:
                    self._find_queue(number).put(share)
                    sent += 1
            if shares and not self._is_pinned:
                self._spend(0, shares[0])
        except BaseException as error:
            problem = error
        while sent:
            try:
                problem = self._done.get() or problem
                sent -= 1
            except BaseException as error:
                problem = error
        if problem is not None:
            raise problem

    def close(self) -> None:
        """End the threads. Those that were pinned to CPUs are gone with them."""
        for queue in self._queues.values():
            queue.put(None)
        self._queues = {}

    def _find_queue(self, number: int) -> SimpleQueue[Share | None]:
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = SimpleQueue()
            name = f"triegs lanes {number}"
            Thread(target=self._work, args=(number, queue), name=name, daemon=True).start()
        return queue

    def _work(self, number: int, queue: SimpleQueue[Share | None]) -> None:
        cpus = self.placement.cpus
        if cpus is not None:
            pin_thread(cpus[number])
        while (share := queue.get()) is not None:
            problem = None
            try:
                self._spend(number, share)
            except BaseException as error:
                problem = error
            share = None
            self._done.put(problem)

    def _spend(self, number: int, share: Share) -> None:
        wall, cpu = perf_counter(), thread_time()
        try:
            share()
        finally:
            self.cpu_s[number] += thread_time() - cpu
            self.wall_s[number] += perf_counter() - wall
