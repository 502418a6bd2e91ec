# ruff: noqa: T201
"""Sliding-window aggregation: DABA Lite and the finger B-tree against two stacks and recomputation.

Run it with `python -m bench.micro.swag [--quick]`. Each window slides by one event per step, after
it was filled. Events come in order, or displaced by up to a tenth of the window.

- *update*, *step*: processor time per event, the median of eleven chunks. An update is an insertion
  and an eviction; a step adds a query.
- *median*, *p99.9*, *longest*: single steps, by the processor's time stamp counter, including the
  cost of reading it, which is printed first. Where that counter advances in larger units than a
  step takes, most steps take no time in one of their runs, and the median is that of a step in a
  chunk. Interrupts lengthen steps at random. Therefore the same steps run several times from the
  same state, and the least time of each step counts: what takes long every time is due to the
  structure. In brackets is the longest step without this precaution, in the best of the runs.

The steps cover a full turn of the window, so that the flip of two stacks is among them. Answers are
checked at the end.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any, NamedTuple

import numba
import numpy as np

from bench.micro import swag_recompute, swag_steps, swag_two_stacks
from triegs.aggregates.swag.daba import DabaLite
from triegs.aggregates.swag.fiba import Fiba
from triegs.aggregates.swag.kernels.pool import BUMP
from triegs.aggregates.swag.operators import MAX, SUM, Operator
from triegs.aggregates.swag.templates import specialise
from triegs.jit.words import Words

WINDOWS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
CHUNKS = 11
REPEATS = 9
FEW_REPEATS = 3  # of what promises nothing for a single step
WARM = 1_000  # steps after the state is copied back, which empties the caches
MOST_RECOMPUTED = 10_000
DISPLACEMENT = 0.1
GOALS = {"in order": 10.0, "displaced": 2.0}  # million updates per second
LONGEST = 20  # times the median
FLAT = 2.0


class Subject(NamedTuple):
    """A structure with its arrays, filled by `run_updates`."""

    kernels: SimpleNamespace
    words: Words
    headers: Words
    used: Callable[[], int]


def make_subject(name: str, operator: Operator, window: int) -> Subject:
    if name in ("DABA Lite", "FiBA"):
        kind: Any = DabaLite if name == "DABA Lite" else Fiba
        made = kind(operator)
        kernels = specialise(operator, *kind.modules, swag_steps)
        words, headers = made._words, made._headers
        return Subject(kernels, words, headers, lambda: int(words[BUMP]))
    peer = swag_two_stacks if name == "two stacks" else swag_recompute
    words, headers = swag_two_stacks.make_arrays(window + 1, operator.width)
    return Subject(specialise(operator, peer, swag_steps), words, headers, lambda: words.size)


def draw_events(order: str, window: int, count: int, seed: int) -> tuple[Words, Words]:
    """Distinct times in order of arrival, and values. No event is late by a tenth of the window or
    more.
    """
    random = np.random.default_rng(seed)
    times = np.arange(count)
    if order == "displaced":
        times = np.argsort(times + random.uniform(0, DISPLACEMENT * window, count))
    return times, random.integers(-(10**6), 10**6, count)


def recompute(operator: Operator, times: Words, values: Words, window: int) -> object:
    live = values[times > times.max() - window]
    return int(live.sum() if operator.name == "sum" else live.max())


class Figures(NamedTuple):
    """Nanoseconds."""

    update: float
    step: float
    median: float
    tail: float
    longest: float
    undisturbed: float


def measure(name: str, operator: Operator, order: str, window: int, scale: float) -> Figures:
    turn = 2_000 if name == "recompute" else max(100_000, window + window // 10)
    chunk = max(2_000, min(200_000, 4 * window)) if name != "recompute" else 500
    total = window + 2 * CHUNKS * chunk + WARM + turn
    times, values = draw_events(order, window, total, window)
    subject = make_subject(name, operator, window)
    words, headers, kernels = subject.words, subject.headers, subject.kernels
    out = np.zeros(operator.width, np.int64)
    done = window
    kernels.run_updates(words, headers, times[:window], values[:window], window, out)
    found: list[float] = []
    for run in (kernels.run_updates, kernels.run_steps):
        run(words, headers, times[:0], values[:0], window, out)  # compiles
        spent = []
        for _ in range(CHUNKS):
            rows = slice(done, done + chunk)
            start = process_time()
            run(words, headers, times[rows], values[rows], window, out)
            spent.append((process_time() - start) / chunk * 1e9)
            done += chunk
        found.append(float(np.median(spent)))
    warm, rows = slice(done, done + WARM), slice(done + WARM, done + WARM + turn)
    saved, kept = words[: subject.used()].copy(), headers.copy()
    least = np.full(turn, np.iinfo(np.int64).max)
    ticks = np.zeros(turn, np.int64)
    worst = []
    for _ in range(REPEATS if name == "DABA Lite" else FEW_REPEATS):
        words[: len(saved)] = saved
        headers[:] = kept
        kernels.run_steps(words, headers, times[warm], values[warm], window, out)
        kernels.time_steps(words, headers, times[rows], values[rows], window, out, ticks)
        np.minimum(least, ticks, out=least)
        worst.append(int(ticks[swag_steps.AHEAD :].max()))
    done += WARM + turn
    answer = operator.lower(*operator.read(out))
    assert answer == recompute(operator, times[:done], values[:done], window), (name, order, window)
    least = least[swag_steps.AHEAD :]  # before, events are not read ahead
    update, step = found
    median = max(float(np.median(least)) * scale, step)
    figures = [np.percentile(least, 99.9), least.max(), min(worst)]
    return Figures(update, step, median, *(float(figure) * scale for figure in figures))


class Goals:
    """What each structure reached over all windows, against its goal."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str, str], list[float]] = {}
        self._longest: dict[tuple[str, str, str], float] = {}

    def note(self, name: str, operator: str, order: str, rate: float, longest: float) -> None:
        key = name, operator, order
        self._rates.setdefault(key, []).append(rate)
        self._longest[key] = max(longest, self._longest.get(key, 0.0))

    def show(self) -> None:
        print("\n| SWAG | goal | reached in the worst window | |")
        print("| --- " * 4 + "|")
        for key, rates in self._rates.items():
            name, operator, order = key
            if name != ("DABA Lite" if order == "in order" else "FiBA"):
                continue
            rows = [
                (f">= {GOALS[order]:.0f} M updates/s", f"{min(rates):.1f}",
                 min(rates) >= GOALS[order]),
                (f"flat: slowest window within {FLAT}x of the fastest",
                 f"{max(rates) / min(rates):.1f}x", max(rates) / min(rates) <= FLAT),
            ]  # fmt: skip
            if order == "in order":
                longest = self._longest[key]
                rows.append((f"longest step < {LONGEST}x the median", f"{longest:.0f}x",
                             longest < LONGEST))  # fmt: skip
            for goal, reached, is_met in rows:
                met = "met" if is_met else "MISSED"
                print(f"| {operator}, {order}: {name} | {goal} | {reached} | {met} |")


def calibrate() -> tuple[float, float]:
    """Nanoseconds of a tick, and of reading the clock."""
    kernels = specialise(replace(MAX, builtin=False), *DabaLite.modules, swag_steps)
    ticks = np.zeros(20_000_000, np.int64)
    kernels.time_nothing(ticks[:1])
    start = perf_counter()
    total = kernels.time_nothing(ticks)
    scale = (perf_counter() - start) * 1e9 / total
    return scale, float(np.median(ticks)) * scale


def main(quick: bool) -> None:
    scale, clock = calibrate()
    print(f"# {platform.processor() or platform.machine()}, Python {platform.python_version()}, "
          f"numba {numba.__version__}; reading the clock {clock:.0f} ns")  # fmt: skip
    print("| ns per event | window | update | step | median | p99.9 | longest | M updates/s |")
    print("| --- " * 8 + "|")
    goals = Goals()
    for operator in (replace(SUM, builtin=False), replace(MAX, builtin=False)):
        for order, names in (
            ("in order", ("DABA Lite", "FiBA", "two stacks", "recompute")),
            ("displaced", ("FiBA",)),
        ):
            for name in names:
                for window in WINDOWS[: 3 if quick else None]:
                    if name == "recompute" and window > MOST_RECOMPUTED:
                        continue
                    figures = measure(name, operator, order, window, scale)
                    rate = 1e3 / figures.update
                    print(
                        f"| {name}, {operator.name}, {order} | {window:,} | {figures.update:.1f} | "
                        f"{figures.step:.1f} | {figures.median:.1f} | {figures.tail:.0f} | "
                        f"{figures.longest:,.0f} ({figures.undisturbed:,.0f}) | {rate:.1f} |",
                        flush=True,
                    )
                    goals.note(name, operator.name, order, rate, figures.longest / figures.median)
    goals.show()


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
