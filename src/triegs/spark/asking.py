"""How a process of Spark asks the driver of a pipeline: a line of JSON, and what comes back.

It imports little: each process of Spark that reads answers does, when it starts.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from triegs.errors import StateError

#: A driver that says nothing for so long is gone.
TIMEOUT_SECONDS = 600


def write_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


@contextmanager
def ask(address: str, secret: str, **asked: Any) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Ask a pipeline; its answer, and what comes behind it."""
    host, _, port = address.rpartition(":")
    try:
        link = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
    except OSError as problem:
        raise StateError(f"there is no pipeline at {address}: {problem}") from None
    with link:
        link.sendall(write_line({"secret": secret, **asked}))
        with link.makefile("rb") as behind:
            line = behind.readline()
            if not line:
                raise StateError(f"the pipeline at {address} has ended, or is another one")
            told = json.loads(line)
            if "problem" in told:
                raise StateError(told["problem"])
            yield told, behind
