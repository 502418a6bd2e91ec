"""What operators ask: is it alive, is it ready, what are its figures."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from triegs.server.service import Service
from triegs.server.telemetry import CONTENT_TYPE


def list_routes(service: Service) -> list[Route]:
    async def tell_health(request: Request) -> Response:  # noqa: ARG001
        """Alive: the process answers, and its updater runs."""
        is_alive = service.is_alive
        return JSONResponse({"alive": is_alive}, 200 if is_alive else 503)

    async def tell_readiness(request: Request) -> Response:  # noqa: ARG001
        """Ready: changes are taken."""
        is_ready = service.is_ready
        body = {"ready": is_ready, "epoch": service.engine.epoch}
        return JSONResponse(body, 200 if is_ready else 503)

    async def tell_metrics(request: Request) -> Response:  # noqa: ARG001
        text = await service.run(service.telemetry.write)
        return Response(text, media_type=CONTENT_TYPE)

    return [
        Route("/healthz", tell_health),
        Route("/readyz", tell_readiness),
        Route("/metrics", tell_metrics),
    ]
