"""What pushing events and publishing slides reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from triegs.maintain.standing import Refused, show_refused


class Pushed(NamedTuple):
    """The outcome of a push.

    ``first`` is the number of its first event in the stream; ``accepted`` events wait for their
    slide; ``late`` counts those at or before the watermark; ``refused`` has the malformed and
    quarantined ones by number in the stream. These may include events of earlier pushes whose
    times have turned out to be stray: see `triegs.EventTime`.
    """

    first: int
    accepted: int
    late: int
    refused: tuple[Refused, ...]

    def __repr__(self) -> str:
        counts = f"first={self.first}, accepted={self.accepted}, late={self.late}"
        return f"Pushed({counts}, refused={show_refused(self.refused)})"


class Published(NamedTuple):
    """One epoch that a watermark published: its number, its time, and the events refused on the
    way, by number in their stream.
    """

    epoch: int
    time: int
    refused: tuple[Refused, ...] = ()

    def __repr__(self) -> str:
        refused = show_refused(self.refused)
        return f"Published(epoch={self.epoch}, time={self.time}, refused={refused})"


@dataclass(slots=True)
class EventCounts:
    """Events by outcome; `gaps` and `repeated` are those of dropped windows and streams."""

    late: int = 0
    ahead: int = 0
    refused: int = 0
    gaps: int = 0
    repeated: int = 0
