"""The description of all endpoints, ``/openapi.json``."""

from __future__ import annotations

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triegs.server.endpoints import Answer, Endpoint, Operation, describe_endpoints, require
from triegs.server.parameters import Parameters

PATH = "/openapi.json"


def make_endpoint(endpoints: list[Endpoint]) -> Endpoint:
    """The endpoint that describes all others, and itself."""

    async def describe(request: Request, given: Parameters) -> Response:
        return JSONResponse(found)

    answers = {200: Answer("It.", schema=require("openapi", "paths"))}
    endpoint = Endpoint(PATH, {"GET": Operation(describe, "This description", answers)})
    found = describe_endpoints([*endpoints, endpoint], version("triegs"))
    return endpoint
