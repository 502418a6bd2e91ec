"""The outcome of an epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

from triegs.durable.journal import Journal
from triegs.maintain.standing import Refused, show_refused
from triegs.notebook import MOST_SHOWN, write_card, write_table


class Report(NamedTuple):
    """The outcome of one epoch: its number, and the refused updates in batch order."""

    epoch: int
    refused: tuple[Refused, ...]

    def __repr__(self) -> str:
        return f"Report(epoch={self.epoch}, refused={show_refused(self.refused)})"

    def _repr_html_(self) -> str:
        """A card for notebooks: the first refused updates and their number."""
        facts = [("epoch", f"{self.epoch:,}"), ("refused", f"{len(self.refused):,}")]
        first = self.refused[:MOST_SHOWN]
        table = write_table(("row", "reason"), first) if first else ""
        return write_card("Report", facts) + table

    @property
    def durable(self) -> bool:
        """Whether the epoch survives a power loss; never without a directory."""
        return False

    def wait_durable(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        """Wait until the epoch is durable, at most `timeout` seconds; returns whether it is."""
        return False


class LoggedReport(Report):
    """The report of an engine with a directory."""

    _journal: Journal
    _sequence: int

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process cannot reach the log, so it never claims to be durable.
        return Report, (self.epoch, self.refused)

    @property
    def durable(self) -> bool:
        return self._journal.log.synced >= self._sequence

    def wait_durable(self, timeout: float | None = None) -> bool:
        return self._journal.log.wait(self._sequence, timeout)
