"""Following a query: server-sent events and WebSocket messages.

A subscriber holds the epoch that it has been sent last. The next message is the difference between
that epoch and the newest, so a client that is slow gets the epochs it missed as one step, and its
queue is never longer than one message. The text of a step is made once for all subscribers.

The messages are ``snapshot`` (forget all answers; what follows is the whole result), ``answers``,
``progress`` (everything up to this epoch was sent), ``changes`` (one step, whole) and ``end`` (the
query was dropped). The id of ``progress`` and ``changes`` is their epoch.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from triegs.engine.standing_query import StandingQuery
from triegs.errors import StateError
from triegs.outputs import Format, Kind, Options, ResultBatch
from triegs.read.changes import NO_CHANGES
from triegs.read.snapshot import Snapshot
from triegs.server.parameters import Parameters
from triegs.server.problems import Problem
from triegs.server.queries import find, guard_epoch
from triegs.server.responses import TERMS, describe_head, read_terms, write_results
from triegs.server.service import Service

PARAMETERS = ("since", "snapshot", "terms")
#: Seconds after which an idle stream shows that it lives.
HEARTBEAT_S = 15.0
MOST_STEPS = 64


class Message(NamedTuple):
    """What a subscriber is sent: lines of JSON, and the epoch if it completes one."""

    event: str
    epoch: int | None
    lines: bytes

    def as_event(self) -> bytes:
        r"""As a server-sent event.

        >>> Message("changes", 7, b'{"x":1}\n{"x":2}\n').as_event()
        b'event: changes\nid: 7\ndata: {"x":1}\ndata: {"x":2}\n\n'
        """
        number = b"" if self.epoch is None else b"id: %d\n" % self.epoch
        data = self.lines.rstrip(b"\n").replace(b"\n", b"\ndata: ")
        return b"event: %s\n%sdata: %s\n\n" % (self.event.encode(), number, data)

    def as_text(self) -> str:
        """As a message of a WebSocket: a line that describes it, then the lines."""
        head = json.dumps({"event": self.event, "epoch": self.epoch})
        return f"{head}\n{self.lines.decode()}"


Messages = AsyncGenerator[Message | None, None]


class Start(NamedTuple):
    """Where a subscription begins, and whether with all answers."""

    query: StandingQuery
    held: Snapshot
    is_whole: bool
    terms: str | None


class StepTexts:
    """Steps between epochs as text, each made once. For the event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._steps: OrderedDict[Any, asyncio.Task[bytes]] = OrderedDict()

    async def read(self, start: Start, since: int, epoch: int) -> bytes:
        """The changes between two epochs that the caller holds."""
        key = (start.query, since, epoch, start.terms)
        task = self._steps.get(key)
        if task is None:
            task = asyncio.create_task(self._service.run(self._write, start, since, epoch))
            self._steps[key] = task
            if len(self._steps) > MOST_STEPS:
                self._steps.popitem(last=False)
        return await asyncio.shield(task)

    def _write(self, start: Start, since: int, epoch: int) -> bytes:
        query = start.query
        with query.snapshot(epoch=since) as old, query.snapshot(epoch=epoch) as new:
            batches = new.diff(old).batches()
            result = ResultBatch(Kind.CHANGES, new.epoch, new.time, batches)
            return write_lines(self._service, start, result)

    async def read_answers(self, start: Start) -> AsyncIterator[bytes]:
        """All answers of a snapshot, batch by batch."""
        batches = await self._service.run(start.held.batches)
        while (batch := await self._service.run(next, batches, None)) is not None:
            yield await self._service.run(self._write_batch, start, batch)

    def _write_batch(self, start: Start, batch: pa.RecordBatch) -> bytes:
        held = start.held
        result = ResultBatch(Kind.SNAPSHOT, held.epoch, held.time, [batch])
        return write_lines(self._service, start, result)


def write_lines(service: Service, start: Start, result: ResultBatch) -> bytes:
    sink = BytesIO()
    options = Options(Format.JSONL, terms=read_terms(start.terms))
    write_results(sink, describe_head(service, start.query, result.kind), options, [result])
    return sink.getvalue()


async def follow(service: Service, steps: StepTexts, start: Start) -> Messages:
    """The messages of a subscription; None while nothing happens. Closing it releases its epoch."""
    query, held = start.query, start.held
    seen = held.epoch
    try:
        if start.is_whole:
            columns = [name.lstrip("?") for name in query.query.head]
            begin = json.dumps({"epoch": held.epoch, "time": held.time, "columns": columns})
            yield Message("snapshot", None, begin.encode())
            async for lines in steps.read_answers(start):
                yield Message("answers", None, lines)
            yield mark(held.epoch)
        while True:
            if not await service.wait_for_epoch(seen, HEARTBEAT_S):
                if service.is_draining:
                    return
                yield None
                continue
            seen = service.engine.epoch
            try:
                new = query.snapshot()
            except StateError:
                yield Message("end", None, b'{"reason": "the query was dropped"}')
                return
            if new.epoch == held.epoch:  # it is stalled
                new.close()
                continue
            try:
                lines = await steps.read(start, held.epoch, new.epoch)
            except BaseException:
                new.close()
                raise
            held.close()
            held = new
            yield Message("changes", held.epoch, lines) if lines else mark(held.epoch)
    finally:
        held.close()


def mark(epoch: int) -> Message:
    return Message("progress", epoch, b'{"epoch": %d}' % epoch)


class EventStream(Response):
    """Server-sent events until the client leaves, the query is dropped or the server stops.

    A client that takes no byte for the length of a lease is cut off, so that it cannot hold an
    epoch.
    """

    def __init__(self, service: Service, messages: Messages) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"  # for nginx
        self._service = service
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        leaving = asyncio.create_task(wait_for_end(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError, TimeoutError, OSError):
                await sending

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._messages) as messages:
            async for message in messages:
                body = b":\n\n" if message is None else message.as_event()
                async with asyncio.timeout(self._service.settings.lease_s):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def list_routes(service: Service) -> list[Route | WebSocketRoute]:
    steps = StepTexts(service)

    async def subscribe(request: Request) -> Response:
        begin = read_start(service, request, request.headers.get("last-event-id"))
        return EventStream(service, count(service, follow(service, steps, begin)))

    async def subscribe_socket(socket: WebSocket) -> None:
        try:
            begin = read_start(service, socket, None)
        except (Problem, StateError) as problem:
            await socket.close(4400, str(problem)[:100])
            return
        await socket.accept()
        leaving = asyncio.create_task(wait_for_close(socket))
        sending = asyncio.create_task(
            send_messages(service, socket, count(service, follow(service, steps, begin)))
        )
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            with suppress(asyncio.CancelledError, TimeoutError, OSError, WebSocketDisconnect):
                await sending
        if not leaving.done() or leaving.cancelled():
            with suppress(RuntimeError, OSError):
                await socket.close()

    path = "/queries/{name}/subscribe"
    return [Route(path, subscribe), WebSocketRoute(path, subscribe_socket)]


async def send_messages(service: Service, socket: WebSocket, messages: Messages) -> None:
    async with aclosing(messages) as found:
        async for message in found:
            if message is not None:  # WebSockets have their own heartbeat
                async with asyncio.timeout(service.settings.lease_s):
                    await socket.send_text(message.as_text())


async def wait_for_close(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def count(service: Service, messages: Messages) -> Messages:
    """The messages, while the subscriber is counted."""
    service.subscribers += 1
    service.telemetry.subscribers.set(service.subscribers)
    try:
        async with aclosing(messages) as found:
            async for message in found:
                yield message
    finally:
        service.subscribers -= 1
        service.telemetry.subscribers.set(service.subscribers)


def read_start(service: Service, request: Any, last: str | None) -> Start:
    """Where to begin: at `since`, where the client was (`last`), or with all answers.

    A browser connects again by itself, so an epoch of ``Last-Event-ID`` that is gone means to begin
    anew; `since` is then 410.
    """
    if service.subscribers >= service.settings.subscribers:
        raise Problem(429, "too many subscriptions", retry_after_s=5)
    given = Parameters.read(request, PARAMETERS)
    query = find(service, request)
    if query.query.limit is not None or query.query.offset:
        raise StateError(NO_CHANGES)
    terms = given.read_choice("terms", TERMS, "") if "terms" in given else None
    since = given.get("since")
    if last:
        with suppress(Problem):
            held = guard_epoch(service, last, lambda epoch: query.snapshot(epoch=epoch))
            return Start(query, held, False, terms)
        since = None
    held = guard_epoch(service, since, lambda epoch: query.snapshot(epoch=epoch))
    return Start(query, held, given.read_flag("snapshot", since is None), terms)
