"""Runs a server until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import FrameType

import uvicorn

from triegs.server import tracing
from triegs.server.app import Companion, create_app
from triegs.server.protocol import MOST_HEADERS, Protocol
from triegs.server.security import Access
from triegs.server.service import Service

KEEP_ALIVE_S = 30
#: Connections beyond these get 503.
MOST_CONNECTIONS = 2_000


class Server(uvicorn.Server):
    """On the first signal, subscriptions end, other requests finish, and what is queued is done. A
    second signal ends the process without waiting for them.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Unlike uvicorn, does not raise the signal again at the end: a stop is not a failure."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._service.begin_drain()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the application in order after a second signal, too: uvicorn would cancel it."""
        await super().shutdown(sockets)
        if self.force_exit and not self.lifespan.shutdown_event.is_set():
            await self.lifespan.shutdown()


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that a port in use is an error before anything starts; port 0
    takes a free one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol: otherwise asyncio does not turn off Nagle's algorithm, and each response
    # waits 40 ms for an acknowledgement.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    return found


def serve(
    service: Service,
    bound: socket.socket,
    access: Access,
    companions: Sequence[Companion] = (),
) -> None:
    """Serve until a signal; then drain and close the engine."""
    settings = service.settings
    tracing.set_up()
    config = uvicorn.Config(
        create_app(service, access, companions),
        http=Protocol,  # h11, the strictest parser: what is ambiguous is refused
        h11_max_incomplete_event_size=MOST_HEADERS,
        ws_max_size=settings.query_bytes,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=round(settings.drain_s),
        limit_concurrency=MOST_CONNECTIONS,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
    )
    Server(config, service).run([bound])
