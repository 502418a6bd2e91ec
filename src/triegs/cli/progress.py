"""The progress line of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from shutil import get_terminal_size
from time import monotonic
from typing import Any, BinaryIO

from triegs.outputs.table import describe_time
from triegs.run.statistics import Statistics, write_seconds

#: Seconds between updates, and before the first one, so that short runs show none.
PAUSE, FIRST = 0.1, 0.5
BAR = 10


class Progress:
    """Draws a progress line on standard error.

    `measure` returns the fraction of the input that was read, or None if unknown.
    """

    def __init__(self, is_shown: bool, measure: Callable[[], float | None]) -> None:
        self._is_shown = is_shown
        self._measure = measure
        self._is_drawn = False
        self._start = monotonic()
        self._next = self._start + FIRST
        self._events = 0
        self._before = self._start
        self._rate = 0.0

    def update(self, statistics: Statistics) -> None:
        """Redraw the line, at most once per `PAUSE`."""
        now = monotonic()
        if not self._is_shown or now < self._next:
            return
        self._next = now + PAUSE
        fresh = (statistics.events - self._events) / max(now - self._before, 1e-6)
        # A moving average: the newest value has a weight of one fifth.
        self._rate = fresh if not self._events else 0.8 * self._rate + 0.2 * fresh
        self._events, self._before = statistics.events, now
        width = get_terminal_size().columns - 1
        text = describe(statistics, self._rate, self._measure(), width)
        self._write(f"\r\x1b[2K{text}")
        self._is_drawn = True

    def hide(self) -> None:
        """Erase the line; the next update redraws it."""
        if self._is_drawn:
            self._write("\r\x1b[2K")
            self._is_drawn = False

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def describe(statistics: Statistics, rate: float, fraction: float | None, width: int = 200) -> str:
    """The progress line, without the bar if it does not fit.

    >>> statistics = Statistics()
    >>> statistics.events = 1_200_000
    >>> statistics.newest_event, statistics.newest_epoch = 30_000, 25_000
    >>> describe(statistics, 310_400, 0.45)
    '━━━━       45%  1.2 M events  310.4 k/s  watermark 25000  lag 5.0 s  0 rows'
    >>> describe(statistics, 310_400, 0.45, 70)
    '45%  1.2 M events  310.4 k/s  watermark 25000  lag 5.0 s  0 rows'
    """
    words = [f"{write_count(statistics.events)} events", f"{write_count(int(rate))}/s"]
    if statistics.newest_epoch is not None:
        words.append(f"watermark {describe_time(statistics.newest_epoch)}")
    if statistics.lag is not None:
        words.append(f"lag {write_seconds(statistics.lag / 1000) if statistics.lag else '0 s'}")
    words.append(f"{write_count(statistics.rows)} rows")
    text = "  ".join(words)
    if fraction is None:
        return text[:width]
    done = min(1.0, max(0.0, fraction))
    text = f"{done:.0%}  {text}"
    bar = f"{'━' * int(BAR * done):{BAR}} "
    return f"{bar}{text}" if len(bar) + len(text) <= width else text[:width]


def write_count(count: int) -> str:
    """
    >>> write_count(950), write_count(310_400), write_count(1_200_000)
    ('950', '310.4 k', '1.2 M')
    """
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return str(count)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal that can erase lines."""
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False


class SharedTerminal:
    """Standard output that erases the progress line before writing."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._hide = progress.hide

    def write(self, data: Any) -> int:
        self._hide()
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()
