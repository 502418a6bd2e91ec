"""Traces of requests and epochs, if OpenTelemetry is installed.

Without it, or without an exporter, nothing is recorded. ``opentelemetry-instrument triegs serve``
sets one up; without that command, ``OTEL_TRACES_EXPORTER`` is ``otlp`` or ``console``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

propagate: Any
trace: Any
try:
    propagate = import_module("opentelemetry.propagate")
    trace = import_module("opentelemetry.trace")
except ImportError:  # the package is optional
    propagate = trace = None

LOG = logging.getLogger("triegs.server")
NAME = "triegs.server"


def set_up() -> None:
    """Install the exporter that the environment names, unless there is a provider already."""
    wanted = os.environ.get("OTEL_TRACES_EXPORTER", "")
    if trace is None or wanted not in ("otlp", "console"):
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    except ImportError:
        LOG.warning("traces need the package opentelemetry-sdk")
        return
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    exporter: Any = ConsoleSpanExporter()
    if wanted == "otlp":
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError:
            LOG.warning("traces need the package opentelemetry-exporter-otlp-proto-http")
            return
        exporter = OTLPSpanExporter()
    service = os.environ.get("OTEL_SERVICE_NAME", "triegs")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def is_active() -> bool:
    """Whether somebody records traces. Asked once: a span costs as much as a small response."""
    return trace is not None and not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[None]:
    """Record what happens inside."""
    if trace is None:
        yield
        return
    with trace.get_tracer(NAME).start_as_current_span(name, attributes=attributes):
        yield


class Tracing:
    """A span for each request, below that of the client if it sent ``traceparent``."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        carrier = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        attributes = {"http.request.method": scope["method"], "url.path": scope["path"]}
        with trace.get_tracer(NAME).start_as_current_span(
            scope["method"], propagate.extract(carrier), trace.SpanKind.SERVER, attributes
        ) as current:

            async def watch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    route = scope.get("route")
                    if route is not None:
                        current.update_name(f"{scope['method']} {route.path}")
                        current.set_attribute("http.route", route.path)
                    current.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self.app(scope, receive, watch)
