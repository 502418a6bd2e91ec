"""Request ids, access log and request figures: one ASGI middleware around all others."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from secrets import token_hex
from time import perf_counter
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triegs.server.telemetry import Telemetry

#: The id of the request that this task or thread works for.
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
LOG = logging.getLogger("triegs.server.access")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLog:
    """Gives each request an id, which the response and every log line about it have.

    A client may give the id itself (``X-Request-Id``). Paths are logged without their parameters,
    which may contain queries. `paths` has the path of each endpoint, for the figures.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry, paths: Mapping[Any, str]) -> None:
        self.app = app
        self.telemetry = telemetry
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request_id = read_id(scope) or token_hex(8)
        token = REQUEST_ID.set(request_id)
        status, sent, begin = 0, 0, perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            elif message["type"] == "http.response.body":
                sent += len(message.get("body", b""))
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self.app(scope, receive, watch)
        finally:
            seconds = perf_counter() - begin
            route = self._paths.get(scope.get("endpoint"), "none")
            method = scope.get("method", "WEBSOCKET")
            self.telemetry.requests.labels(route, method, str(status)).inc()
            self.telemetry.request_s.labels(route).observe(seconds)
            client = scope.get("client") or ("", 0)
            facts = {
                "method": method, "path": scope["path"], "status": status,
                "ms": round(seconds * 1000, 3), "bytes": sent, "client": client[0],
            }  # fmt: skip
            LOG.info("request", extra={"facts": facts})
            REQUEST_ID.reset(token)


def read_id(scope: Scope) -> str:
    """The id that the client gave; empty if none or not fit for a log."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            return text if _ID.fullmatch(text) else ""
    return ""


class JsonLines(logging.Formatter):
    """A log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(),
        }  # fmt: skip
        if request_id := REQUEST_ID.get():
            facts["request"] = request_id
        facts.update(getattr(record, "facts", {}))
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        facts = " ".join(f"{k}={v}" for k, v in getattr(record, "facts", {}).items())
        text = f"{time} {record.levelname.lower():7} {record.getMessage()} {facts}".rstrip()
        if request_id := REQUEST_ID.get():
            text += f" request={request_id}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def show_log(level: str, is_json: bool) -> None:
    """Write the log of the package and of uvicorn to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if is_json else PlainLines())
    for name in ("triegs", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
