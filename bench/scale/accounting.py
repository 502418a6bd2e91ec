"""Where the processor time of a run went: budget, utilisation, idleness, and the machine's share.

A run on C threads may spend at most 1.05 · wall · C processor seconds in all threads of the
process: more means that something beyond the budget has helped. The *spin control* is a loop over
registers beside each figure, on one thread and on C: what it loses is lost to the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Barrier, Thread
from time import perf_counter, process_time

from numba import njit

from bench.answers import WrongAnswer

BUDGET = 1.05
SPINS = 20_000_000


@dataclass(slots=True)
class Account:
    """Seconds of one run on `threads` threads. Idle seconds are by reason: ``queue`` (an empty
    pool), ``gate`` (own lanes done, others not), ``arrival`` (nothing has arrived yet).
    """

    threads: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    busy_s: list[float] = field(default_factory=list)
    idle_s: dict[str, float] = field(default_factory=dict)

    @property
    def is_within_budget(self) -> bool:
        return self.cpu_s <= BUDGET * self.wall_s * self.threads

    @property
    def utilisation(self) -> float:
        """The share of the threads' wall clock that was spent on slides."""
        return sum(self.busy_s) / (self.wall_s * self.threads) if self.wall_s else 0.0

    def add_idle(self, reason: str, seconds: float) -> None:
        self.idle_s[reason] = self.idle_s.get(reason, 0.0) + seconds


class Stopwatch:
    """Wall and processor time of a block, of all threads of the process."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def __enter__(self) -> Stopwatch:
        self._started = perf_counter(), process_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._started
        self._account.wall_s = perf_counter() - wall
        self._account.cpu_s = process_time() - cpu


def compare_checksums(found: Mapping[int, object]) -> None:
    """Raise `WrongAnswer`, which voids the run, unless all widths have the same checksums."""
    first = next(iter(found))
    for width, checksum in found.items():
        if checksum != found[first]:
            raise WrongAnswer(
                f"the checksums of {first} and {width} threads differ: they did different work"
            )


@njit(nogil=True)
def spin(count: int) -> int:
    """Additions and shifts that stay in registers, without the interpreter's lock."""
    found = 1
    for number in range(count):
        found ^= (found << 7) + number
        found ^= found >> 3
    return found


def measure_spin(threads: int, count: int = SPINS) -> float:
    """How much faster so many threads spin than one: at most their number, less on a busy or
    slower machine.
    """
    spin(1)
    rates = []
    for width in (1, threads):
        gate = Barrier(width + 1)

        def run(gate: Barrier = gate) -> None:
            gate.wait()
            spin(count)

        workers = [Thread(target=run) for _ in range(width)]
        for worker in workers:
            worker.start()
        gate.wait()
        start = perf_counter()
        for worker in workers:
            worker.join()
        rates.append(width / (perf_counter() - start))
    return rates[1] / rates[0]
