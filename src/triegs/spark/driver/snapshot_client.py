"""How a process of Spark requests a snapshot from the driver: a line of JSON each way, then Arrow.

It imports little: every process of Spark that reads answers loads it at its start.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from triegs.errors import StateError

#: A driver that is silent for this long is considered gone.
TIMEOUT_SECONDS = 600


def write_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


@contextmanager
def send_request(
    address: str, secret: str, **fields: Any
) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Send a request; yields the response, and the stream that follows it."""
    host, _, port = address.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
    except OSError as problem:
        raise StateError(f"no pipeline at {address}: {problem}") from None
    with connection:
        connection.sendall(write_line({"secret": secret, **fields}))
        with connection.makefile("rb") as stream:
            line = stream.readline()
            if not line:
                raise StateError(f"the pipeline at {address} has ended, or was replaced by another")
            response = json.loads(line)
            if "problem" in response:
                raise StateError(response["problem"])
            yield response, stream
