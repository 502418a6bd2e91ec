"""Endpoints: a path, its methods, and what each takes and answers, declared once.

The declaration makes the route, checks the parameters of requests, and is what ``/openapi.json``
describes, so that the three cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triegs.server.parameters import Parameters

JSON = "application/json"
PROBLEM = "application/problem+json"
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 1 << 53}
NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,99}$"}
OBJECT: dict[str, Any] = {"type": "object"}

Handler = Callable[[Request, Parameters], Awaitable[Response]]


class Field(NamedTuple):
    """A parameter of the query string, or a header."""

    name: str
    text: str
    schema: Mapping[str, Any] = TEXT
    is_required: bool = False
    is_repeated: bool = False
    is_header: bool = False


class Answer(NamedTuple):
    """A response: what it means, its media types, and the schema if it is JSON."""

    text: str
    media: Sequence[str] = (JSON,)
    schema: Mapping[str, Any] | None = None
    headers: Sequence[str] = ()


def problem(text: str) -> Answer:
    """A response with an error."""
    return Answer(text, (PROBLEM,))


@dataclass(frozen=True)
class Operation:
    """What one method of an endpoint does.

    ``bodies`` are the media types it takes. ``answers`` leaves out the errors that every endpoint
    may have. The handler of an open one reads the parameters itself, and ignores unknown ones.
    """

    handler: Handler
    summary: str
    answers: Mapping[int, Answer]
    fields: Sequence[Field] = ()
    bodies: Sequence[str] = ()
    body_schema: Mapping[str, Any] = field(default_factory=lambda: TEXT)
    is_open: bool = False
    is_body_optional: bool = False

    async def handle(self, request: Request) -> Response:
        names, repeated = self._names
        text = "" if self.is_open else request.url.query
        return await self.handler(request, Parameters(text, names, repeated=repeated))

    @cached_property
    def _names(self) -> tuple[list[str], list[str]]:
        known = [each for each in self.fields if not each.is_header]
        return [each.name for each in known], [each.name for each in known if each.is_repeated]


class Endpoint(Route):
    """A route with its operations by method."""

    def __init__(self, path: str, operations: Mapping[str, Operation]) -> None:
        async def handle(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await operations[method].handle(request)

        super().__init__(path, handle, methods=list(operations))
        self.operations = operations


#: The errors that every operation may have.
COMMON = {
    400: problem("A parameter is unknown, repeated or invalid."),
    401: problem("A token is needed."),
    403: problem("The token lacks the role, or the origin or host is not allowed."),
    429: problem("Too many requests of this client, or too much is in progress; `Retry-After`."),
    431: problem("The headers are too large."),
    503: problem("The server is stopping or cannot do this now; `Retry-After`."),
}
#: What reading a body may add.
BODY_ERRORS = {
    408: problem("The body is too slow."),
    413: problem("The body is too large, also when it is decompressed."),
    415: problem("The body has another media type or encoding."),
}


def describe_endpoints(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The OpenAPI description."""
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths[endpoint.path] = {
            method.lower(): describe_operation(endpoint, operation)
            for method, operation in endpoint.operations.items()
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "triegs", "version": version,
            "description": "Standing graph-pattern queries over live event streams.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["title", "status"],
                    "properties": {
                        "title": TEXT, "status": {"type": "integer"}, "detail": TEXT,
                        "line": {"type": ["integer", "null"]},
                        "column": {"type": ["integer", "null"]},
                    },
                }
            },
        },
        "security": [{}, {"token": []}],
    }  # fmt: skip


def describe_operation(endpoint: Endpoint, operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": NAME}
        for name in endpoint.param_convertors
    ]
    for each in operation.fields:
        schema: Any = each.schema
        if each.is_repeated:
            schema = {"type": "array", "items": schema}
        parameters.append(
            {
                "name": each.name, "in": "header" if each.is_header else "query",
                "required": each.is_required, "description": each.text, "schema": schema,
            }
        )  # fmt: skip
    found: dict[str, Any] = {"summary": operation.summary, "parameters": parameters}
    answers = {**COMMON, **operation.answers}
    if operation.bodies:
        answers = {**BODY_ERRORS, **answers}
        schema = operation.body_schema
        found["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {media: {"schema": schema} for media in operation.bodies},
        }
    found["responses"] = {str(code): describe_answer(answers[code]) for code in sorted(answers)}
    return found


def describe_answer(answer: Answer) -> dict[str, Any]:
    schemas = {
        PROBLEM: {"$ref": "#/components/schemas/Problem"}, JSON: answer.schema or {},
    }  # fmt: skip
    found: dict[str, Any] = {"description": answer.text}
    if answer.media:
        found["content"] = {media: {"schema": schemas.get(media, {})} for media in answer.media}
    if answer.headers:
        found["headers"] = {name: {"schema": TEXT} for name in answer.headers}
    return found


def require(*names: str) -> dict[str, Any]:
    """The schema of an object that has these members.

    >>> require("epoch")
    {'type': 'object', 'required': ['epoch']}
    """
    return {"type": "object", "required": list(names)}
