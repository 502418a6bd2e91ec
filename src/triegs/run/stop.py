"""Ending a run from outside: Ctrl-C and SIGTERM finish the epoch first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def exiting_on_interrupt() -> Iterator[None]:
    """While this lasts, Ctrl-C ends the process as it ends any other. The exception that Python
    makes of it may be lost where compiled code or the import of a module calls back.
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
    """Raised where a run waits for input and is asked to stop; not for readers to catch."""


class Stop:
    """Whether a run was asked to stop, and by which signal.

    A run looks at `is_requested` after each epoch. Where it waits for input, which may take for ever,
    the signal ends the wait. A second one ends the run at once, by `KeyboardInterrupt`.

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
        """128 and the number of the signal, as shells say it."""
        return 0 if self.signal is None else 128 + self.signal

    def ask(self, number: int) -> None:
        """Stop after the epoch at hand."""
        self.signal = number

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While this lasts, nothing is half done, and a signal raises `Stopped`."""
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Take the two signals over while this lasts; signals belong to the main thread."""
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
        self.ask(number)
        if self._is_waiting:
            self._is_waiting = False
            raise Stopped
