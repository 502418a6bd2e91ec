"""Clocks: samples, their middle and their tail, and turns that share a stretch of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Samples:
    """Seconds of one kind of work. The middle is a median: a busy machine has long outliers.

    The clock is the wall's, or `process_time` for the work of all threads of this process alone:
    that is the fairer one between systems of one thread each on a machine that others use too.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.seconds: list[float] = []
        self._clock = clock

    def time(
        self, work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        start = self._clock()
        result = work(*args, **kwargs)
        self.seconds.append(self._clock() - start)
        return result

    @property
    def middle(self) -> float:
        return median(self.seconds)

    @property
    def rate(self) -> float:
        return 1 / self.middle

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Rival:
    """Two kinds of work that take turns, and how much faster the first is.

    The machine may be slow in one turn and fast in the next, but hardly between the two halves of
    a turn: so the ratio is taken turn by turn, and its median counts.
    """

    def __init__(self) -> None:
        self.ours, self.theirs = Samples(), Samples()
        self._ratios: list[float] = []

    def add_turn(self, ours: Samples, theirs: Samples) -> None:
        self.ours.seconds += ours.seconds
        self.theirs.seconds += theirs.seconds
        self._ratios.append(theirs.middle / ours.middle)

    @property
    def ratio(self) -> float:
        return median(self._ratios)


def take_turns(seconds: float, least: int = 2) -> Iterator[int]:
    """Turn after turn until the time is used up, but at least some."""
    start = perf_counter()
    turn = 0
    while turn < least or perf_counter() - start < seconds:
        yield turn
        turn += 1
