"""What became of an epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

from triegs.durable.journal import Journal
from triegs.maintain.standing import Refused


class Report(NamedTuple):
    """What became of one epoch: its number, and what was refused, in the order of the batch."""

    epoch: int
    refused: tuple[Refused, ...]

    @property
    def durable(self) -> bool:
        """Whether the epoch survives the loss of power; never without a directory."""
        return False

    def wait_durable(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Wait, so many seconds at most, until it does; returns whether it does."""
        return False


class LoggedReport(Report):
    """The report of an engine with a directory."""

    _journal: Journal
    _sequence: int

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy cannot ask the log: it tells of the epoch, and that nothing is known of the disk.
        return Report, (self.epoch, self.refused)

    def __repr__(self) -> str:
        return f"Report(epoch={self.epoch}, refused={self.refused})"

    @property
    def durable(self) -> bool:
        return self._journal.log.synced >= self._sequence

    def wait_durable(self, timeout: float | None = None) -> bool:
        return self._journal.log.wait(self._sequence, timeout)
