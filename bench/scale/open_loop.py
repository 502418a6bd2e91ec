"""Open loop: slides arrive by a timetable, whether lanes are ready or not.

The latency of a slide is its completion minus its *scheduled* arrival, so time in the queue counts
in full. Each lane serves its arrivals in order. `make_timetable` has the load as a share of
measured capacity, and bursts; `serve` runs real lanes; `percentiles` sums up by class.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from threading import Condition
from time import perf_counter, sleep
from typing import NamedTuple

from bench.scale.accounting import Account, Stopwatch
from bench.scale.mixes import ScaleLane
from triegs.lanes.crew import Crew
from triegs.lanes.schedule import Schedule
from triegs.placement import plan_placement

SHARES = (0.5, 0.9, 0.99, 0.999)


class Arrival(NamedTuple):
    """A slide of a lane, seconds after the start."""

    at_s: float
    lane: int


class Served(NamedTuple):
    """A slide that was served: its class, when it arrived by the timetable, and its latency."""

    kind: str
    at_s: float
    latency_s: float


def make_timetable(
    lanes: int, arrivals: int, capacity: float, load: float, burst: int = 1
) -> list[Arrival]:
    """So many arrivals of each lane, all lanes at once: every `burst` slides together, at a load
    that is a share of the slides per second that all lanes together can do.

    >>> make_timetable(2, 2, capacity=10.0, load=0.5)
    [Arrival(at_s=0.0, lane=0), Arrival(at_s=0.0, lane=1), Arrival(at_s=0.4, lane=0), \
Arrival(at_s=0.4, lane=1)]
    """
    period = lanes / (capacity * load)
    times = (period * burst * (number // burst) for number in range(arrivals))
    return [Arrival(at, lane) for at in times for lane in range(lanes)]


def percentiles(served: Iterable[Served]) -> dict[str, dict[float, float]]:
    """Latencies by class, and of all under ``"all"``: at these shares, the smallest latency that at
    least this share of the slides does not exceed.

    >>> found = percentiles(Served("path", 0.0, float(n)) for n in range(1, 101))
    >>> found["all"][0.5], found["path"][0.99], found["path"][0.999]
    (50.0, 99.0, 100.0)
    """
    groups: dict[str, list[float]] = {}
    for kind, _, latency in served:
        groups.setdefault(kind, []).append(latency)
        groups.setdefault("all", []).append(latency)
    found = {}
    for kind, latencies in groups.items():
        ordered, count = sorted(latencies), len(latencies)
        ranks = {share: max(0, -int(-share * count // 1) - 1) for share in SHARES}
        found[kind] = {share: ordered[rank] for share, rank in ranks.items()}
    return found


class _Queue:
    """Lanes with arrivals that wait, by the time of the oldest; at most one worker has a lane."""

    def __init__(self, arrivals: Sequence[Arrival], lanes: Iterable[int], start: float) -> None:
        own = set(lanes)
        self._waiting: dict[int, list[float]] = {lane: [] for lane in own}
        for at, lane in reversed(arrivals):
            if lane in own:
                self._waiting[lane].append(at)
        self._ready = [(times[-1], lane) for lane, times in self._waiting.items() if times]
        heapq.heapify(self._ready)
        self._left = sum(map(len, self._waiting.values()))
        self._start = start
        self._changed = Condition()

    def take(self) -> tuple[int, float] | None:
        """The lane whose oldest arrival is next, once it has arrived; None at the end."""
        with self._changed:
            while not self._ready:
                if not self._left:
                    return None
                self._changed.wait()
            at, lane = heapq.heappop(self._ready)
            self._left -= 1
            self._waiting[lane].pop()
        wait = self._start + at - perf_counter()
        if wait > 0:
            sleep(wait)
        return lane, at

    def give_back(self, lane: int) -> None:
        with self._changed:
            if self._waiting[lane]:
                heapq.heappush(self._ready, (self._waiting[lane][-1], lane))
            self._changed.notify_all()


def serve(
    lanes: Sequence[ScaleLane], schedule: Schedule, arrivals: Sequence[Arrival]
) -> tuple[list[Served], Account]:
    """Serve a timetable with real lanes. Inline threads serve their own lanes, pool workers those
    of the pool, whichever has waited longest.
    """
    account = Account(schedule.threads)
    served: list[Served] = []
    start = perf_counter()
    pool = _Queue(arrivals, schedule.pooled, start)
    queues = [_Queue(arrivals, owned, start) for owned in schedule.inline]
    queues += [pool] * schedule.workers

    def work(queue: _Queue) -> None:
        busy, idle = 0.0, 0.0
        while True:
            asked = perf_counter()
            found = queue.take()
            began = perf_counter()
            idle += began - asked
            if found is None:
                break
            lane, at = found
            try:
                lanes[lane].run()
                ended = perf_counter()
            finally:  # or others would wait for it
                queue.give_back(lane)
            busy += ended - began
            served.append(Served(lanes[lane].kind, at, ended - start - at))
        account.busy_s.append(busy)
        account.add_idle("arrival", idle)

    crew = Crew(schedule.threads, plan_placement(None, schedule.threads))
    with Stopwatch(account):
        crew.run([partial(work, queue) for queue in queues])
    crew.close()
    return served, account


def replay(
    services_s: Mapping[int, float], schedule: Schedule, arrivals: Sequence[Arrival]
) -> list[tuple[int, float]]:
    """The latencies of a timetable for lanes with constant service times, without a clock: what
    `serve` would measure on cores of its own. Pairs of a lane and a latency.
    """
    found: list[tuple[int, float]] = []
    groups = [(owned, 1) for owned in schedule.inline]
    if schedule.workers:
        groups.append((schedule.pooled, schedule.workers))
    for members, workers in groups:
        free = [0.0] * workers
        until = dict.fromkeys(members, 0.0)
        own = [arrival for arrival in arrivals if arrival.lane in until]
        for at, lane in sorted(own, key=lambda arrival: (arrival.at_s, arrival.lane)):
            begin = max(at, heapq.heappop(free), until[lane])
            until[lane] = begin + services_s[lane]
            heapq.heappush(free, until[lane])
            found.append((lane, until[lane] - at))
    return found
