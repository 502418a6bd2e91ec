"""The state of the server in one answer: what the page shows."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from math import ceil
from time import monotonic
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triegs.server.counts import Counts
from triegs.server.endpoints import FLAG, Answer, Endpoint, Field, Operation, require
from triegs.server.parameters import Parameters
from triegs.server.queries import describe
from triegs.server.service import ADHOC, Service

#: The history has a point per second.
HISTORY_S = 180


class Point(NamedTuple):
    """What was counted up to a moment."""

    at_s: float
    epochs: int
    events: int
    live_bytes: int
    retained_bytes: int
    epoch_ms: float | None
    lag_ms: float


class History:
    """The last minutes, a point per second. For the event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.points: deque[Point] = deque(maxlen=HISTORY_S)

    async def follow(self) -> None:
        """Add points until the task is cancelled."""
        while True:
            found = await self._service.run(self._service.engine.metrics)
            point = Point(
                round(monotonic(), 3), found["epochs"], self._service.events, found["live_bytes"],
                found["retained_bytes"], self._service.last_epoch_ms,
                round(self._service.lag_s * 1000, 3),
            )  # fmt: skip
            self.points.append(point)
            await asyncio.sleep(1)


def list_endpoints(service: Service, history: History) -> list[Endpoint]:
    counts = Counts(service)
    engine = service.engine

    async def get_status(request: Request, given: Parameters) -> Response:
        """Everything about the server and its queries that changes."""
        await counts.look()
        found = await service.run(service.read_metrics)
        queries = [q for name, q in list(engine.queries.items()) if not name.startswith(ADHOC)]
        shown = []
        for query in queries:
            with suppress(Exception):  # dropped meanwhile
                shown.append(describe(query) | counts.describe(query))
        body: dict[str, Any] = {
            "epoch": found["epochs"],
            "clock_s": round(monotonic(), 3),
            "role": request.scope.get("role", "admin"),
            "ready": service.is_ready,
            "events": service.events,
            "updates": found["updates"],
            "refused": found["refused"],
            "lag_s": round(service.lag_s, 4),
            "last_epoch_ms": service.last_epoch_ms,
            "queue": {
                "requests": found["server"]["queue_requests"],
                "bytes": found["server"]["queue_bytes"],
                "most_bytes": service.settings.queue_bytes,
            },
            "epoch_ms": describe_times(service.epoch_times),
            "memory": {
                "live_bytes": found["live_bytes"],
                "retained_bytes": found["retained_bytes"],
                "term_bytes": found["terms"]["bytes"],
                "window_bytes": found["windows"]["bytes"],
            },
            "holders": service.holders.describe(),
            "holds": found["holds"],
            "held_epochs": found["held_epochs"],
            "retained_epochs": service.settings.retain_epochs,
            "pins": len(found["pins"]),
            "subscribers": service.subscribers.total(),
            "watermark": found["windows"]["watermark"],
            "adhoc": service.settings.is_adhoc,
            "queries": shown,
        }
        if given.read_flag("history"):
            body["history"] = [point._asdict() for point in history.points]
        return JSONResponse(body, headers={"Cache-Control": "no-store"})

    operation = Operation(
        get_status,
        "Everything about the server and its queries that changes",
        {200: Answer("The state.", schema=require("epoch", "events", "memory", "queries"))},
        [Field("history", "also the last minutes, a point per second", FLAG)],
    )
    return [Endpoint("/status", {"GET": operation})]


def describe_times(times: deque[float]) -> dict[str, Any]:
    """Percentiles of epoch times in milliseconds; null if there were no epochs.

    >>> describe_times(deque([0.001, 0.002, 0.003]))
    {'p50': 2.0, 'p99': 3.0, 'epochs': 3}
    >>> describe_times(deque())
    {'p50': None, 'p99': None, 'epochs': 0}
    """
    ordered = sorted(times.copy())
    if not ordered:
        return {"p50": None, "p99": None, "epochs": 0}
    p50, p99 = (ordered[ceil(share * len(ordered)) - 1] * 1000 for share in (0.5, 0.99))
    return {"p50": round(p50, 3), "p99": round(p99, 3), "epochs": len(ordered)}
