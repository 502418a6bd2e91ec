"""How long the next epoch should take, from the ticks that kernels count."""

from __future__ import annotations

from time import perf_counter_ns

from triegs.maintain.kernels.program import read_clock

USUAL_NS = 200  # an update where the time is not known


class Pace:
    """The recent ticks per update of an epoch, and the length of a tick."""

    def __init__(self) -> None:
        self._started = read_clock(), perf_counter_ns()
        self._ticks = 0.0  # per update

    def find_tick(self) -> float:
        """The seconds per tick, from both clocks since this was created; 0 if the machine has no
        tick counter.
        """
        ticks, nanoseconds = self._started
        passed = read_clock() - ticks
        return (perf_counter_ns() - nanoseconds) / passed * 1e-9 if passed > 0 else 0.0

    def expect(self, count: int) -> float:
        """The nanoseconds that a call with that many updates should take, at the recent pace."""
        tick = self.find_tick()
        return 1e9 * tick * self._ticks * count if tick else USUAL_NS * count

    def note(self, ticks: int, count: int) -> None:
        """Learn from a call that took that many ticks without waiting for the lock."""
        self._ticks += (ticks / count - self._ticks) / 4
