"""Where the time of a slide and of a single update goes, beside what the memory of this machine
allows in the same run.

A slide replaces the nodes that it changes: `replaced` is what a snapshot held across it retains.
Copying so many bytes once is the least that a slide can take; what it takes beyond that is search,
arithmetic and cache misses, whose price is the last column of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit

from bench.iris import IriBed
from bench.report import Figure
from bench.run import Bench
from bench.sections.beds import each_bed
from bench.sections.reasoning import spin
from bench.sections.single import list_updates
from bench.subject import Bed
from bench.timing import Samples, take_turns
from triegs.maintain import at_once, compiled
from triegs.maintain.kernels.tables import C_TICKS
from triegs.terms import row_encoding
from triegs.workloads import path3

COPIED_BYTES = 64 << 20
CHASED_LINES = 1 << 20  # of 64 bytes: 64 MB, beyond all caches
STEPS = 50_000
LINE_WORDS = 8
SLIDES = 16


def measure_limits(bench: Bench) -> Iterator[Figure]:
    bench.say("the machine")
    machine = Machine()
    for name, bed in each_bed(bench):
        bench.say(f"where the time of {name} goes")
        yield from _measure_slides(bench, name, bed, machine)
    bench.say("where the time of one update goes")
    yield from _measure_single(bench)
    yield from machine.show()


class Machine:
    """Copying, a dependent load from memory, and arithmetic: each measured again with every turn,
    because neighbours of a virtual machine change them.
    """

    def __init__(self) -> None:
        self._source = np.zeros(COPIED_BYTES, np.uint8)
        self._target = np.ones(COPIED_BYTES, np.uint8)
        order = np.random.default_rng(1).permutation(CHASED_LINES)
        self._lines = np.zeros(CHASED_LINES * LINE_WORDS, np.int64)
        self._lines[order * LINE_WORDS] = np.roll(order, -1) * LINE_WORDS
        self._place = 0
        self.copies, self.chases, self.spins = Samples(), Samples(), Samples()
        chase(self._lines, 0, 1)

    def measure(self) -> None:
        self.copies.time(np.copyto, self._target, self._source)
        self._place = self.chases.time(chase, self._lines, self._place, STEPS)
        self.spins.time(spin)

    @property
    def bytes_per_s(self) -> float:
        return COPIED_BYTES / self.copies.middle

    def show(self) -> Iterator[Figure]:
        table = "machine"
        yield Figure("this run", "copying, GB/s", self.bytes_per_s / 1e9, table=table)
        yield Figure("this run", "spin ms", 1e3 * self.spins.middle, table=table)
        miss = 1e9 * self.chases.middle / STEPS
        yield Figure("this run", "a load from memory, ns", miss, table=table)


@njit(cache=False)
def chase(lines: Any, place: int, count: int) -> int:
    """Follow a cycle through all lines, one load after the other."""
    for _ in range(count):
        place = lines[place]
    return place


class Profile:
    """The seconds spent in two kernels while `watch` is open."""

    def __init__(self) -> None:
        self.encoding = self.epoch = 0.0

    @contextmanager
    def watch(self) -> Iterator[None]:
        places = [
            (row_encoding, "encode_rows", "encoding"),
            (at_once, "run_epoch", "epoch"), (compiled, "run_epoch", "epoch"),
        ]  # fmt: skip
        saved = [(module, name, getattr(module, name)) for module, name, _ in places]
        for (module, name, kernel), (_, _, field) in zip(saved, places, strict=True):
            setattr(module, name, self._measure(kernel, field))
        try:
            yield
        finally:
            for module, name, kernel in saved:
                setattr(module, name, kernel)

    def _measure(self, kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            start = perf_counter()
            found = kernel(*given)
            setattr(self, name, getattr(self, name) + perf_counter() - start)
            return found

        return run


def _measure_slides(bench: Bench, name: str, bed: Bed, machine: Machine) -> Iterator[Figure]:
    slides, profile, replaced = Samples(), Profile(), []
    before = _count_step_seconds(bed)
    for _ in take_turns(bench.settings.seconds / 2):
        machine.measure()
        for number, slide in enumerate(bed.draw(SLIDES)):
            if number == 0:
                with bed.query.snapshot():
                    bed.apply(slide)
                    replaced.append(bed.engine.metrics()["retained_bytes"])
            else:
                with profile.watch():
                    slides.time(bed.apply, slide)
            bed.window.apply(slide)
    bed.check()
    total = sum(slides.seconds)
    # Of all slides, the profiled and the others: by the share of the profiled ones.
    count = len(slides.seconds)
    steps = (_count_step_seconds(bed) - before) * count / (count + len(replaced))
    yield Figure(name, "slide µs", 1e6 * slides.middle)
    shares = {
        "encoding": profile.encoding,
        "steps": steps,
        "judging, publishing, terms": profile.epoch - steps,
        "Python": total - profile.encoding - profile.epoch,
    }
    for column, seconds in shares.items():
        yield Figure(name, column, 100 * seconds / total, "%")
    size = float(np.median(replaced))
    yield Figure(name, "replaced, KB", size / 1e3)
    yield Figure(name, "copying that, µs", 1e6 * size / machine.bytes_per_s)


def _count_step_seconds(bed: Bed) -> float:
    core = bed.engine._core
    ticks = sum(counters[C_TICKS] for counters in core.count_work().values())
    return float(ticks * core.pace.find_tick())


def _measure_single(bench: Bench) -> Iterator[Figure]:
    settings = bench.settings
    workload = path3(8, window=settings.window, slide=settings.slide, seed=settings.seed)
    beds = {"strings": IriBed(workload).load(), "integers": Bed(workload).load()}
    for kind, bed in beds.items():
        whole, profile, encoding = Samples(), Profile(), Samples()
        encode = bed.engine._dictionary.encode_one
        (slide,) = bed.draw(1)
        updates = list_updates(slide)
        with profile.watch():
            for update in updates:
                whole.time(bed.engine.apply, [update])
        for sign, subject, _, obj in updates:
            if sign == "+":  # these are known now, as most terms are; interning takes longer
                encoding.time(encode, subject)
                encoding.time(encode, obj)
        bed.window.apply(slide)
        bed.check()
        count, table = len(updates), "one update"
        yield Figure(kind, "median µs", 1e6 * whole.middle, table=table)
        yield Figure(kind, "kernel, mean µs", 1e6 * profile.epoch / count, table=table)
        yield Figure(kind, "looking up a term, µs", 1e6 * encoding.middle, table=table)
