"""The ASGI application: routes, middleware, start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, WebSocketRoute

from triegs.server import (
    description,
    ingest,
    operations,
    page_files,
    queries,
    sparql,
    status,
    subscriptions,
    tracing,
)
from triegs.server.problems import HANDLERS
from triegs.server.rates import RateLimit
from triegs.server.request_log import RequestLog
from triegs.server.security import Access, Guard
from triegs.server.service import Service

#: Runs beside the requests, and is cancelled when the server stops.
Companion = Callable[[], Coroutine[Any, Any, None]]


def create_app(
    service: Service, access: Access | None = None, companions: Sequence[Companion] = ()
) -> Starlette:
    """The application that serves an engine. Its end closes the engine.

    `companions` run beside it until then.
    """
    allowed = access or Access()
    history = status.History(service)
    following, sockets = subscriptions.list_endpoints(service)
    endpoints = [
        *page_files.list_endpoints(),
        *status.list_endpoints(service, history),
        *operations.list_endpoints(service),
        *ingest.list_endpoints(service),
        *queries.list_endpoints(service),
        *following,
        *sparql.list_endpoints(service),
    ]
    endpoints.append(description.make_endpoint(endpoints))
    routes: list[Route | WebSocketRoute] = [*endpoints, *sockets]
    paths = {route.endpoint: route.path for route in routes}
    middleware = [Middleware(RequestLog, telemetry=service.telemetry, paths=paths)]
    if tracing.is_active():
        middleware.append(Middleware(tracing.Tracing))
    if allowed.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=allowed.origins,
                allow_methods=["GET", "POST", "PUT", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
                expose_headers=["Triegs-Epoch", "Triegs-Time", "X-Request-Id"],
            )
        )
    middleware.append(Middleware(Guard, access=allowed))
    if service.settings.rate:
        middleware.append(Middleware(RateLimit, rate=service.settings.rate))

    @asynccontextmanager
    async def run(app: Starlette) -> AsyncIterator[None]:
        service.start()
        tasks = [asyncio.create_task(each()) for each in (history.follow, *companions)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await service.close()

    return Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers=HANDLERS,
        lifespan=run,
    )
