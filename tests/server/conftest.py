"""An application in the process of the test, and what tests send to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from triegs import Engine
from triegs.server.app import create_app
from triegs.server.main import listen
from triegs.server.service import Service
from triegs.server.settings import Settings

PREFIXES = {"": "http://ex/"}
#: No pause between epochs.
QUICK = Settings(epoch_every_s=0)

Start = Callable[..., Any]


@contextmanager
def serving(
    engine: Engine | None = None, settings: Settings = QUICK, **options: Any
) -> Iterator[Any]:
    """An application over an engine; the client has its ``service``."""
    service = Service(engine or Engine(prefixes=PREFIXES), settings, PREFIXES)
    app = create_app(service, **options)
    address = "http://127.0.0.1"
    with TestClient(app, address, raise_server_exceptions=False) as client:
        client.service = service  # type: ignore[attr-defined]
        yield client


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts applications, which end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(serving(*args, **options))


@pytest.fixture
def client(start: Start) -> Any:
    return start()


@contextmanager
def listening(
    engine: Engine,
    settings: Settings = QUICK,
    port: int = 0,
    config: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Any]:
    """A server in a thread, for clients that need an address: that, and the service."""
    service = Service(engine, settings, PREFIXES)
    server = uvicorn.Server(
        uvicorn.Config(create_app(service, **options), log_config=None, **(config or {}))
    )
    with listen("127.0.0.1", port) as bound:
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            while not server.started:
                threading.Event().wait(0.005)
            yield f"http://127.0.0.1:{bound.getsockname()[1]}", service
        finally:
            service.begin_drain()
            server.should_exit = True
            thread.join()


def write_lines(*facts: tuple[Any, ...], sign: str = "+") -> bytes:
    """JSON lines of facts: ``(subject, predicate, object)`` as short names or numbers."""
    import json

    def write(term: Any) -> Any:
        return f"<http://ex/{term}>" if isinstance(term, str) else term

    names = ("subject", "predicate", "object")
    rows = [{"op": sign} | dict(zip(names, map(write, fact), strict=True)) for fact in facts]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


NDJSON = {"Content-Type": "application/x-ndjson"}
