"""HTTP connections with limits on what arrives before a request: time and size of its head.

uvicorn times idle connections only after their first response, so a client that never finishes its
headers would keep a connection for ever.

A chunk of a response may be in several places of memory (`Parts`). h11 would join chunks with their
framing, and copy each.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from triegs.server.pipe import Parts
from triegs.server.problems import MEDIA_TYPE
from triegs.server.security import is_loopback

#: Seconds from the first byte of a request, or from the connection, to the end of its headers.
HEAD_S = 10.0
#: Bytes of a request line with its headers.
MOST_HEADERS = 32 * 1024
TITLES = {
    400: "this is not a valid HTTP request",
    408: "the headers of the request are too slow",
    431: "the headers of the request are too large",
    501: "this transfer encoding is not supported",
}


#: In the state of a request: its connection, if the body of the response may be `Parts`.
PARTS = "triegs_parts"
#: Parts that the system takes at once, and bytes that are copied to wait for the socket.
MOST_PARTS, MOST_COPIED = 512, 1 << 14


class Connection(h11.Connection):
    """Writes `Parts` as they are; what precedes them was written before.

    If the socket does not take all of them, `rest` is what waits. Send empty parts until there is
    none: that waits for the socket first. The transport itself would copy the rest.
    """

    def __init__(self, most_headers: int) -> None:
        super().__init__(h11.SERVER, most_headers)
        self._most_headers = most_headers
        self.transport: Any = None
        self.rest: list[bytes | memoryview] = []

    @property
    def is_waiting(self) -> bool:
        """Whether a part of the response waits for the socket."""
        return bool(self.rest) and not self.transport.is_closing()

    def next_event(self) -> Any:
        """h11 limits heads that are incomplete; one that arrives at once would pass."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            size = len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
            if size > self._most_headers:
                raise h11.RemoteProtocolError("the head is too large", error_status_hint=431)
        return event

    def send(self, event: Any) -> Any:
        if not isinstance(getattr(event, "data", None), Parts):
            return super().send(event)
        # From now on a sender waits until the transport has sent everything.
        self.transport.set_write_buffer_limits(0)
        written: list[Any] = self.send_with_data_passthrough(event) or []
        for found in written:
            self.rest.extend(found if isinstance(found, Parts) else (found,))
        self._write()
        return b""

    def _write(self) -> None:
        transport = self.transport
        if transport.is_closing():
            self.rest.clear()
        while self.rest and not transport.get_write_buffer_size():
            try:
                sent = os.writev(
                    transport.get_extra_info("socket").fileno(), self.rest[:MOST_PARTS]
                )
            except OSError:
                sent = 0
            self._drop(sent)
            if self.rest and sent < MOST_COPIED:
                # The transport waits for the socket, and finds out what is wrong with it.
                part = self.rest[0][:MOST_COPIED]
                transport.write(part)
                self._drop(len(part))

    def _drop(self, size: int) -> None:
        """Forget the first bytes."""
        rest, at = self.rest, 0
        while at < len(rest) and size >= len(rest[at]):
            size -= len(rest[at])
            at += 1
        del rest[:at]
        if size:
            rest[0] = memoryview(rest[0])[size:]


def stop_pacing(connection: Any) -> None:
    """Use the plainest congestion control. A loopback connection, such as that of a proxy, has no
    congestion, so one that paces (BBR) only delays what is sent.
    """
    with suppress(AttributeError, OSError):  # only Linux lets a program choose
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


class Protocol(H11Protocol):
    """A connection of uvicorn that also limits the time of headers."""

    head_s = HEAD_S

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn: Connection = Connection(
            self.config.h11_max_incomplete_event_size or MOST_HEADERS
        )
        self.app_state = {**self.app_state, PARTS: self.conn}
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client is not None and is_loopback(self.client[0]):
            stop_pacing(transport.get_extra_info("socket"))
        self.conn.transport = transport
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def _follow(self) -> None:
        """Watch while the head of a request is under way."""
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            if self.conn.trailing_data[0] or self.cycle is None:
                self._watch()
        else:
            self._stop_watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_watch()
        super().handle_websocket_upgrade(event)

    def _watch(self) -> None:
        """From the first byte on: more bytes do not extend the time."""
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self._end)

    def _stop_watch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self._refuse(408)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Called by uvicorn while it handles the error of the parser."""
        error = sys.exc_info()[1]
        self._refuse(getattr(error, "error_status_hint", 400))

    def _refuse(self, status: int) -> None:
        self._stop_watch()
        title = TITLES.get(status, TITLES[400])
        body = json.dumps({"title": title, "status": status}).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()), (b"connection", b"close"),
            (b"content-length", str(len(body)).encode()),
        ]  # fmt: skip
        events = [
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # a response is under way: it breaks off
        self.transport.close()
