"""What became of an epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

from triegs.durable.journal import Journal
from triegs.maintain.standing import Refused, show_refused
from triegs.notebook import MOST_SHOWN, write_card, write_table


class Report(NamedTuple):
    """What became of one epoch: its number, and what was refused, in the order of the batch."""

    epoch: int
    refused: tuple[Refused, ...]

    def __repr__(self) -> str:
        return f"Report(epoch={self.epoch}, refused={show_refused(self.refused)})"

    def _repr_html_(self) -> str:
        """For a notebook: the first that were refused, and how many."""
        facts = [("epoch", f"{self.epoch:,}"), ("refused", f"{len(self.refused):,}")]
        first = self.refused[:MOST_SHOWN]
        table = write_table(("place", "reason"), first) if first else ""
        return write_card("Report", facts) + table

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

    @property
    def durable(self) -> bool:
        return self._journal.log.synced >= self._sequence

    def wait_durable(self, timeout: float | None = None) -> bool:
        return self._journal.log.wait(self._sequence, timeout)
