"""Following a query: server-sent events, Arrow streams and WebSocket messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from triegs.errors import HistoryGone, StateError
from triegs.read.changes import NO_CHANGES
from triegs.server.endpoints import FLAG, Answer, Endpoint, Field, Operation, problem
from triegs.server.following import (
    Messages,
    Start,
    Steps,
    begin_arrow,
    follow,
    mark_arrow,
)
from triegs.server.formats import ARROW, choose
from triegs.server.parameters import Parameters
from triegs.server.problems import Problem
from triegs.server.queries import TERMS_FIELD, UNACCEPTABLE, find, guard_epoch
from triegs.server.responses import TERMS, name_client
from triegs.server.service import Service

EVENTS = "text/event-stream"
FORMS = {EVENTS: False, ARROW: True}
PATH = "/queries/{name}/subscribe"
FIELDS = (
    Field("since", "continue after this epoch, or after a hold by its name"),
    Field("snapshot", "whether the answers come first", FLAG),
    TERMS_FIELD,
    Field("Last-Event-ID", "the last epoch that the client has", is_header=True),
)


class MessageStream(Response):
    """Messages until the client leaves, the query is dropped or the server stops.

    A client that takes no byte for the length of a lease is cut off, so that it cannot hold an
    epoch.
    """

    def __init__(self, service: Service, start: Start, messages: Messages) -> None:
        super().__init__(media_type=ARROW if start.is_arrow else EVENTS)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"  # for nginx
        self._service = service
        self._start = start
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._messages.aclose()
            self._start.held.close()
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
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
        async for body in self._write():
            async with asyncio.timeout(self._service.settings.lease_s):
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _write(self) -> AsyncIterator[bytes]:
        start = self._start
        if start.is_arrow:
            yield begin_arrow(start)
        async with aclosing(self._messages) as messages:
            async for message in messages:
                if not start.is_arrow:
                    yield b":\n\n" if message is None else message.as_event()
                elif message is not None:
                    has_rows = message.event in ("answers", "changes")
                    yield message.data if has_rows else mark_arrow(start, message)


async def wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def list_endpoints(service: Service) -> tuple[list[Endpoint], list[WebSocketRoute]]:
    """The endpoint, and the same over WebSocket."""
    steps = Steps(service)

    async def subscribe(request: Request, given: Parameters) -> Response:
        choice = choose(request.headers.get("accept"), FORMS)
        last = request.headers.get("last-event-id")
        start = read_start(service, request, given, last)._replace(is_arrow=choice.format)
        if start.is_arrow and start.terms is not None:
            start.held.close()
            raise Problem(400, "invalid parameter", "terms is for lines; Arrow has exact terms")
        messages = count(service, start.client, follow(service, steps, start))
        return MessageStream(service, start, messages)

    async def subscribe_socket(socket: WebSocket) -> None:
        names = [each.name for each in FIELDS if not each.is_header]
        try:
            given = Parameters(socket.url.query, names)
            start = read_start(service, socket, given, None)
        except (Problem, StateError) as refused:
            await socket.close(4400, str(refused)[:100])
            return
        await socket.accept()
        leaving = asyncio.create_task(wait_for_close(socket))
        sending = asyncio.create_task(
            send_messages(
                service, socket, count(service, start.client, follow(service, steps, start))
            )
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

    operation = Operation(
        subscribe,
        "The answers of a query, then their changes as epochs are published",
        {
            200: Answer("Events until the client leaves.", tuple(FORMS)),
            404: problem("There is no such query or epoch."),
            406: UNACCEPTABLE,
            409: problem("The query has LIMIT or OFFSET, and so no changes."),
            410: problem("The epoch is no longer held."),
        },
        FIELDS,
    )
    return [Endpoint(PATH, {"GET": operation})], [WebSocketRoute(PATH, subscribe_socket)]


async def send_messages(service: Service, socket: WebSocket, messages: Messages) -> None:
    async with aclosing(messages) as found:
        async for message in found:
            if message is not None:  # WebSockets have their own heartbeat
                async with asyncio.timeout(service.settings.lease_s):
                    await socket.send_text(message.as_text())


async def wait_for_close(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def count(service: Service, client: str, messages: Messages) -> Messages:
    """The messages, while the subscriber is counted."""
    service.subscribers[client] += 1
    service.telemetry.subscribers.set(service.subscribers.total())
    try:
        async with aclosing(messages) as found:
            async for message in found:
                yield message
    finally:
        service.subscribers[client] -= 1
        if not service.subscribers[client]:
            del service.subscribers[client]
        service.telemetry.subscribers.set(service.subscribers.total())


def read_start(service: Service, request: Any, given: Parameters, last: str | None) -> Start:
    """Where to begin: at `since`, where the client was (`last`), or with all answers.

    A browser reconnects automatically, so if the epoch of ``Last-Event-ID`` is gone, the stream
    starts over; with `since` the status is 410.
    """
    client, settings = name_client(request), service.settings
    if service.subscribers[client] >= settings.client_subscribers:
        raise Problem(429, "too many subscriptions of this client", retry_after_s=5)
    if service.subscribers.total() >= settings.subscribers:
        raise Problem(429, "too many subscriptions", retry_after_s=5)
    query = find(service, request)
    if query.query.limit is not None or query.query.offset:
        raise StateError(NO_CHANGES)
    terms = given.read_choice("terms", TERMS, "") if "terms" in given else None
    since = given.get("since")
    is_whole = given.read_flag("snapshot", since is None)

    def take(epoch: Any) -> Any:
        return query.snapshot(epoch=epoch, lease=service.lease_ms)

    if last:
        with suppress(Problem, HistoryGone):
            held = guard_epoch(service, last, take)
            return Start(query, held, False, terms, client=client)
        since, is_whole = None, True
    return Start(query, guard_epoch(service, since, take), is_whole, terms, client=client)
