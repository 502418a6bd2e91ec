"""Statistics of a run, in constant memory."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

#: Histogram bins of durations, each 2% wider than the previous one, from 100 ns.
LEAST, STEP, BINS = 1e-7, math.log(1.02), 1_500


class Durations:
    """A histogram of durations in seconds; percentiles are accurate to 2%.

    >>> durations = Durations()
    >>> for milliseconds in range(1, 101):
    ...     durations.add(milliseconds / 1000)
    >>> durations.count, round(durations.percentile(50), 3), round(durations.percentile(90), 2)
    (100, 0.05, 0.09)
    """

    def __init__(self) -> None:
        self._bins = np.zeros(BINS, np.int64)
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        number = int(math.log(max(seconds, LEAST) / LEAST) / STEP)
        self._bins[min(number, BINS - 1)] += 1
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)

    def percentile(self, percent: float) -> float:
        """The given percentile; 0 if there are no durations."""
        if not self.count:
            return 0.0
        wanted = math.ceil(self.count * percent / 100)
        number = int(np.searchsorted(np.cumsum(self._bins), wanted))
        return min(LEAST * math.exp((number + 0.5) * STEP), self.longest)


class Statistics:
    """Counts of a run: ``events`` read, ``rows`` written in ``reports`` reports."""

    def __init__(self) -> None:
        self.events = 0
        self.reports = 0
        self.rows = 0
        self.epochs = Durations()
        self.seconds = 0.0
        #: The largest event time, and the time of the newest epoch.
        self.newest_event: int | None = None
        self.newest_epoch: int | None = None

    @property
    def lag(self) -> int | None:
        """How many milliseconds the newest epoch is behind the newest event."""
        if self.newest_event is None or self.newest_epoch is None:
            return None
        return max(0, self.newest_event - self.newest_epoch)


def measure_memory() -> int:
    """The peak memory of this process in bytes; 0 if unknown."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def describe(
    statistics: Statistics, metrics: dict[str, Any], quarantined: int, refused: int
) -> list[tuple[str, str]]:
    """The lines of ``--stats`` as names and values."""
    epochs = statistics.epochs
    rate = statistics.events / statistics.seconds if statistics.seconds else 0.0
    stored = sum(group.get("bytes", 0) for group in (metrics["terms"], metrics["windows"]))
    stored += metrics["live_bytes"] + metrics["shared_bytes"]
    lines = [
        ("events", f"{statistics.events:,}"),
        ("epochs", f"{epochs.count:,}"),
        ("late", f"{metrics['windows']['late']:,}"),
        ("quarantined", f"{quarantined:,}"),
        ("refused", f"{refused:,}"),
        ("affected bindings", f"{metrics['affected_bindings']:,}"),
        ("rows written", f"{statistics.rows:,} in {statistics.reports:,} reports"),
        ("epoch time p50", write_seconds(epochs.percentile(50))),
        ("epoch time p99", write_seconds(epochs.percentile(99))),
        ("elapsed", f"{write_seconds(statistics.seconds)}, {rate:,.0f} events/s"),
        ("graph, views, terms", write_bytes(stored)),
    ]
    most = measure_memory()
    return [*lines, ("peak memory", write_bytes(most))] if most else lines


def write_seconds(seconds: float) -> str:
    """
    >>> write_seconds(0.0000123), write_seconds(0.25), write_seconds(75.04), write_seconds(9_000)
    ('12.3 µs', '250.0 ms', '75.0 s', '2.5 h')
    """
    for factor, unit in ((86_400, "d"), (3_600, "h"), (1, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.1f} {unit}"
    return f"{seconds / 1e-6:.1f} µs"


def write_bytes(count: int) -> str:
    """
    >>> write_bytes(512), write_bytes(5_300_000)
    ('512 B', '5.3 MB')
    """
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"
