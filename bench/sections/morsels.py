"""One query on one worker and on two: both engines get the same slides in turns.

A ratio is of one turn. In the end both have the answers that their window implies; cyclic patterns,
for which there is no such formula, have equal ones. The control is a loop that only computes, on
two threads; utilisation is the processor time of all threads against 1.05 * wall * threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter, process_time

from bench.answers import check
from bench.calls import Engine
from bench.report import Figure
from bench.run import Bench
from bench.scale.accounting import measure_spin
from bench.sections.cycles import limit_fan_out
from bench.subject import Bed
from bench.timing import take_turns
from triegs.options import SchedulerName
from triegs.workloads import (
    Workload,
    clique4,
    diamond,
    path2_ends,
    path3,
    rectangle,
    spider4x2,
    star5,
    triangle,
)

WORKERS, SLACK = 2, 1.05
SLIDES = 6  # of a turn
TREES: dict[str, tuple[Callable[..., Workload], float]] = {
    "path3 f8": (lambda **sizes: path3(8, **sizes), 1.4),
    "star5 b3": (lambda **sizes: star5(3, **sizes), 1.6),
    "spider4x2 b2": (lambda **sizes: spider4x2(2, **sizes), 1.6),
}
#: Shapes with their fan-outs.
RULES: dict[str, tuple[Callable[..., Workload], int]] = {
    "ends f8": (path2_ends, 8),
    "triangle f30": (triangle, 30),
    "rectangle f8": (rectangle, 8),
    "diamond f8": (diamond, 8),
    "4-clique f30": (clique4, 30),
}
#: A window as much larger than usual, which no cache holds.
LARGER = 33
NEVER_BELOW = 0.97


class Pair:
    """The same stream in two engines, one of them with several workers."""

    def __init__(
        self, make: Callable[..., Workload], window: int, slide: int, seed: int,
        scheduler: SchedulerName,
    ) -> None:  # fmt: skip
        sizes = {"window": window, "slide": slide, "seed": seed}
        self.one = Bed(make(**sizes)).load()
        engine = Engine("multigraph", workers=WORKERS, scheduler=scheduler)
        self.two = Bed(make(**sizes), engine=engine).load()
        self.ratios: list[float] = []
        self.seconds: list[float] = []
        self.shares: list[float] = []

    def run(self, seconds: float) -> None:
        self.take_turn()
        self.ratios.clear()  # the first one fills caches, and may compile
        for _ in take_turns(seconds, least=4):
            self.take_turn()

    def take_turn(self) -> None:
        found = []
        beds = (self.one, self.two) if len(self.ratios) % 2 else (self.two, self.one)
        for bed in beds:
            walls = []
            for slide in bed.draw(SLIDES):
                wall, busy = perf_counter(), process_time()
                bed.apply(slide)
                walls.append(perf_counter() - wall)
                if bed is self.two:
                    self.shares.append((process_time() - busy) / (SLACK * WORKERS * walls[-1]))
                bed.window.apply(slide)
            found.append((bed, median(walls)))
        times = dict(found)
        self.seconds.append(times[self.one])
        self.ratios.append(times[self.one] / times[self.two])

    def show(self, row: str, goal: float | None, table: str) -> Iterator[Figure]:
        yield Figure(row, "one worker, ms", 1e3 * median(self.seconds), table=table)
        yield Figure(row, "two workers", median(self.ratios), "x", goal, table=table)
        yield Figure(row, "utilisation", 100 * median(self.shares), "%", table=table)
        yield Figure(row, "spin control", measure_spin(WORKERS), "x", table=table)

    def check(self, *, is_tree: bool) -> None:
        if is_tree:
            self.one.check()
            self.two.check()
        else:
            check(self.two.digest(), self.one.digest(), self.one.workload.name)


def measure_morsels(bench: Bench) -> Iterator[Figure]:
    sizes = bench.settings
    for name, (make, goal) in TREES.items():
        for window in (sizes.window, LARGER * sizes.window):
            bench.say(f"{name} on two workers, {window:,} edges")
            pair = Pair(make, window, sizes.window // 6, sizes.seed, "prefix")
            pair.run(sizes.seconds)
            table = "large epochs" if window == sizes.window else "beyond caches"
            yield from pair.show(name, goal if window == sizes.window else None, table)
            pair.check(is_tree=window == sizes.window)
    for name, (shape, fan_out) in RULES.items():
        bench.say(f"{name} on two workers")
        rule = partial(shape, limit_fan_out(fan_out, sizes.window))
        pair = Pair(rule, sizes.window, sizes.slide, sizes.seed, "prefix")
        pair.run(sizes.seconds)
        yield from pair.show(name, None, "kept joins")
        pair.check(is_tree=False)
    for name, (make, _) in TREES.items():
        bench.say(f"{name}, adaptive")
        pair = Pair(make, sizes.window, sizes.slide // 2, sizes.seed, "adaptive")
        pair.run(sizes.seconds)
        ratio = median(pair.ratios)
        yield Figure(name, "two workers", ratio, "x", NEVER_BELOW, table="adaptive")
        pair.check(is_tree=True)
