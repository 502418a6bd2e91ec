"""What the updater does: batches of events, and calls of the engine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, TypeVar

import pyarrow as pa

from triegs.engine import Engine
from triegs.engine.report import Report
from triegs.events.mapping.rows import SAME_ROW
from triegs.server.keys import Key

Result = TypeVar("Result")
#: Refused and quarantined rows that a response describes.
MOST_DESCRIBED = 10


@dataclass(slots=True)
class Outcome:
    """What became of the events of a request.

    ``epoch`` is the epoch that shows them; ``refused`` is None if the process that counted them
    died before it could write the number.
    """

    epoch: int
    accepted: int
    refused: int | None
    quarantined: int
    late: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)
    is_repeated: bool = False
    report: Report | None = None

    def as_dict(self) -> dict[str, Any]:
        """As the response has it."""
        return {
            "epoch": self.epoch, "accepted": self.accepted, "refused": self.refused,
            "quarantined": self.quarantined, "late": self.late, "problems": self.problems,
            "repeated": self.is_repeated,
        }  # fmt: skip

    def as_note(self) -> dict[str, Any]:
        """As the log has it."""
        return {
            "epoch": self.epoch, "accepted": self.accepted, "refused": self.refused,
            "quarantined": self.quarantined, "late": self.late,
        }  # fmt: skip


@dataclass(slots=True)
class EventBatch:
    """The events of one request, of which there is at least one.

    Timed events go to a ``stream`` and wait for the watermark. ``rows`` counts table rows, of which
    a mapping may make several triples. ``quarantined`` and ``problems`` are what reading found.
    """

    events: list[pa.RecordBatch]
    rows: int
    quarantined: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)
    key: Key | None = None
    is_strict: bool = False
    is_timed: bool = False
    stream: str | None = None
    #: Whether the watermark follows these events.
    is_advancing: bool = False
    #: By the monotonic clock.
    queued: float = field(default_factory=monotonic)
    done: Future[Outcome] = field(default_factory=Future)

    @property
    def is_mapped(self) -> bool:
        """Whether several triples may make a row."""
        return SAME_ROW in self.events[0].schema.names

    @property
    def is_merging(self) -> bool:
        """Whether it may share an epoch with other requests."""
        return not self.is_strict and not self.is_timed


@dataclass(slots=True)
class Call(Generic[Result]):
    """A call that only the updater may make, such as registering a query."""

    make: Callable[[Engine], Result]
    queued: float = field(default_factory=monotonic)
    done: Future[Result] = field(default_factory=Future)


Work = EventBatch | Call[Any]
