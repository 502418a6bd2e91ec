"""Subscriptions: server-sent events, resumed where they stopped."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from triegs.client.transport import PASSING, Transport, check, write

#: Seconds without a byte after which a connection counts as lost; servers send every 15.
SILENCE_S = 45.0
PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Event:
    """One message: ``kind`` is ``"snapshot"`` (discard all answers), ``"answers"``, ``"changes"``
    or ``"progress"``. ``epoch`` is set where one is complete. ``rows`` are dictionaries by
    variable, with ``multiplicity`` or ``change``.
    """

    kind: str
    epoch: int | None
    rows: list[dict[str, Any]] = field(default_factory=list)


class Parser:
    """Lines of server-sent events to events."""

    def __init__(self) -> None:
        self._kind = self._number = ""
        self._data: list[str] = []

    def feed(self, line: str) -> Event | None:
        """
        >>> parser = Parser()
        >>> for line in ["event: changes", "id: 7", 'data: {"x": "1", "change": 1}', ""]:
        ...     event = parser.feed(line)
        >>> event
        Event(kind='changes', epoch=7, rows=[{'x': '1', 'change': 1}])
        """
        name, _, value = line.partition(": ")
        if name == "event":
            self._kind = value
        elif name == "id":
            self._number = value
        elif name == "data":
            self._data.append(value)
        elif not line and self._kind:
            epoch = int(self._number) if self._number else None
            found = Event(self._kind, epoch, [json.loads(each) for each in self._data])
            self._kind = self._number = ""
            self._data = []
            return found
        return None


class Following:
    """Where a subscription is. It resumes after the last complete epoch."""

    def __init__(
        self, transport: Transport, path: str, since: int | str | None, snapshot: bool | None
    ) -> None:
        self._transport = transport
        self._path = path
        self._params = {"since": since, "snapshot": snapshot}
        #: The last complete epoch.
        self.epoch: int | None = None

    def _options(self) -> dict[str, Any]:
        """The options of the next request."""
        given = {} if self.epoch is not None else self._params
        headers = dict(self._transport.headers)
        if self.epoch is not None:
            headers["Last-Event-ID"] = str(self.epoch)
        params = {name: write(value) for name, value in given.items() if value is not None}
        timeout = httpx2.Timeout(self._transport.timeout_s, read=SILENCE_S)
        url = f"{self._transport.url}{self._path}"
        return {"url": url, "params": params, "headers": headers, "timeout": timeout}

    def _take(self, event: Event) -> Event:
        if event.epoch is not None:
            self.epoch = event.epoch
        return event


class Events(Following):
    """The events of a query, as they arrive; ends when the query is dropped.

    A lost connection is reopened after a pause, and continues after the last complete epoch. If the
    server no longer has that epoch, or if the connection broke within a snapshot, a new
    ``snapshot`` event follows.
    """

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                with httpx2.stream("GET", **self._options()) as response:
                    if response.status_code not in PASSING:
                        if response.status_code >= 400:
                            response.read()
                            check(response)
                        parser = Parser()
                        for line in response.iter_lines():
                            event = parser.feed(line)
                            if event is not None:
                                if event.kind == "end":
                                    return
                                yield self._take(event)
            except httpx2.TransportError:
                pass
            time.sleep(PAUSE_S)


class AsyncEvents(Following):
    """`Events` for ``async for``."""

    async def __aiter__(self) -> AsyncIterator[Event]:
        async with httpx2.AsyncClient() as client:
            while True:
                try:
                    async with client.stream("GET", **self._options()) as response:
                        if response.status_code not in PASSING:
                            if response.status_code >= 400:
                                await response.aread()
                                check(response)
                            parser = Parser()
                            async for line in response.aiter_lines():
                                event = parser.feed(line)
                                if event is not None:
                                    if event.kind == "end":
                                        return
                                    yield self._take(event)
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(PAUSE_S)
