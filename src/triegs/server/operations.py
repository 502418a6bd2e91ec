"""What operators ask: is it alive, is it ready, what are its figures."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triegs.server.endpoints import JSON, PROBLEM, Answer, Endpoint, Operation, require
from triegs.server.parameters import Parameters
from triegs.server.service import Service
from triegs.server.telemetry import CONTENT_TYPE


def list_endpoints(service: Service) -> list[Endpoint]:
    async def tell_health(request: Request, given: Parameters) -> Response:
        """Alive: the process answers, and its updater runs."""
        is_alive = service.is_alive
        return JSONResponse({"alive": is_alive}, 200 if is_alive else 503)

    async def tell_readiness(request: Request, given: Parameters) -> Response:
        """Ready: changes are taken."""
        is_ready = service.is_ready
        body = {"ready": is_ready, "epoch": service.engine.epoch}
        return JSONResponse(body, 200 if is_ready else 503)

    async def tell_metrics(request: Request, given: Parameters) -> Response:
        text = await service.run(service.telemetry.write)
        return Response(text, media_type=CONTENT_TYPE)

    health = {
        200: Answer("The process and its updater run.", schema=require("alive")),
        503: Answer("The updater has ended.", (JSON, PROBLEM), require("alive")),
    }
    readiness = {
        200: Answer("Events are taken.", schema=require("ready", "epoch")),
        503: Answer("It stops, or its log has failed.", (JSON, PROBLEM), require("ready", "epoch")),
    }
    metrics = {200: Answer("Figures for Prometheus.", (CONTENT_TYPE.partition(";")[0],))}
    return [
        Endpoint("/healthz", {"GET": Operation(tell_health, "Is it alive?", health, is_open=True)}),
        Endpoint(
            "/readyz",
            {"GET": Operation(tell_readiness, "Does it take events?", readiness, is_open=True)},
        ),
        Endpoint("/metrics", {"GET": Operation(tell_metrics, "Figures", metrics)}),
    ]
