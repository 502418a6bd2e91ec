"""Settings of event time: lateness, strays, and idle streams."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from triegs.errors import WindowError
from triegs.options import LateName
from triegs.sparql.window import Span, read_span


class Late(Enum):
    """Late events are counted and dropped, or also reported one by one."""

    DROP = "drop"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True, init=False)
class EventTime:
    """Settings of event time; durations as in `triegs.Window`.

    `lateness` is how far `Engine.advance` without a time stays behind the largest event time. An
    event at or before the watermark is late: ``late="drop"`` counts it, ``"quarantine"`` also
    reports it. An event more than `max_ahead` ahead of its stream is quarantined, unless the events
    after it confirm its time: ``docs/windows.md`` has the rule. A stream whose watermark is more
    than `idle_timeout` behind that of another is idle, and the others do not wait for it; with None
    they always wait.

    >>> EventTime(lateness="2s").lateness
    2000
    """

    lateness: int
    late: Late
    max_ahead: int
    idle_timeout: int | None

    def __init__(
        self,
        lateness: Span = 0,
        late: LateName | Late = Late.DROP,
        max_ahead: Span = "1d",
        idle_timeout: Span | None = None,
    ) -> None:
        try:
            policy = Late(late)
        except ValueError:
            raise WindowError(f"late must be 'drop' or 'quarantine', not {late!r}") from None
        idle = None if idle_timeout is None else read_span(idle_timeout)
        values = (read_span(lateness), policy, read_span(max_ahead), idle)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)


def check_event_time(settings: object) -> None:
    if settings is not None and not isinstance(settings, EventTime):
        raise WindowError(f"event_time must be a triegs.EventTime, not {settings!r}")
