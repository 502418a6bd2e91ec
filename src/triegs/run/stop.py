"""Stops a run on Ctrl-C or SIGTERM after the current epoch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def exiting_on_interrupt() -> Iterator[None]:
    """In this context Ctrl-C terminates the process directly.

    Python's KeyboardInterrupt may be lost in callbacks from compiled code or imports.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Stopped(BaseException):
    """Raised where a run waits for input when a stop is requested. Readers must not catch it."""


class Stop:
    """Whether a run was requested to stop, and by which signal.

    A run checks `is_requested` after each epoch. While it waits for input, a signal ends the wait.
    A second signal ends the run immediately with `KeyboardInterrupt`.

    >>> stop = Stop()
    >>> stop.request(signal.SIGTERM)
    >>> stop.is_requested, stop.exit_code
    (True, 143)
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._is_waiting = False

    @property
    def is_requested(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 plus the signal number, as shells report it."""
        return 0 if self.signal is None else 128 + self.signal

    def request(self, number: int) -> None:
        """Request a stop after the current epoch."""
        self.signal = number

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In this context nothing is in progress, and a signal raises `Stopped`."""
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Handle both signals in this context. No effect outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGINT, signal.SIGTERM)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | Any | None) -> None:
        if self.is_requested:
            raise KeyboardInterrupt
        self.request(number)
        if self._is_waiting:
            self._is_waiting = False
            raise Stopped
