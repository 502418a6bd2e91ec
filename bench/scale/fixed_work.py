"""Strong scaling: the same slides of the same lanes, on any number of threads.

A lane's slides follow one another, so one thread at a time runs a lane. An inline thread takes
turns among the lanes that it owns. Pool workers take the lanes of the pool from one queue, the
longest first; a lane returns to the queue until it is done. Inline threads help with that when
their own lanes are done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from time import perf_counter

from bench.scale.accounting import Account, Stopwatch
from bench.scale.mixes import ScaleLane
from triegs.lanes.crew import Crew, Share
from triegs.lanes.schedule import Schedule
from triegs.placement import plan_placement


def run_fixed_work(lanes: Sequence[ScaleLane], schedule: Schedule) -> Account:
    """Run every lane to the end of its slides; returns what that cost."""
    account = Account(schedule.threads)
    ended: list[tuple[str, float]] = []
    queue = deque(schedule.pooled)

    def run_share(owned: tuple[int, ...]) -> None:
        busy = 0.0
        for left in (deque(owned), queue):
            while True:
                try:
                    number = left.popleft()
                except IndexError:  # others may return their lanes, but each has a worker then
                    break
                start = perf_counter()
                lanes[number].run()
                busy += perf_counter() - start
                if not lanes[number].is_done:
                    left.append(number)
        account.busy_s.append(busy)
        ended.append(("queue" if schedule.workers else "gate", perf_counter()))

    crew = Crew(schedule.threads, plan_placement(None, schedule.threads))
    owned = [*schedule.inline, *((),) * schedule.workers]
    shares: list[Share] = [partial(run_share, lanes) for lanes in owned]
    with Stopwatch(account):
        crew.run(shares)
    last = max(moment for _, moment in ended)
    for reason, moment in ended:
        account.add_idle(reason, last - moment)
    crew.close()
    return account
