"""`Client`: sends events to a server, and reads its queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa

from triegs.client.queries import ARROW, RemoteQuery, read_arrow
from triegs.client.transport import Transport

NDJSON = "application/x-ndjson"
SIGNS = {"+": "+", "-": "-", None: "+", 1: "+", -1: "-"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a batch of events; see ``docs/server.md``."""

    epoch: int
    accepted: int
    refused: int | None
    quarantined: int
    late: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)
    repeated: bool = False
    durable: bool = False


class Client:
    """A server, used from another process. A context manager; use it from one thread at a time.

    Batches have idempotency keys, so a batch that is sent again after a lost connection counts
    once. Requests are repeated up to `retries` times while the server cannot be reached or is busy:
    by default for about 40 seconds, enough for a killed server to restart.

    >>> client = Client("http://127.0.0.1:7077", token="0123456789abcdef")
    >>> client
    <Client of http://127.0.0.1:7077>
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout_s: float = 60.0, retries: int = 10
    ) -> None:
        self._transport = Transport(url, token, timeout_s, retries)

    def apply(
        self,
        updates: Any,
        *,
        strict: bool = False,
        durable: bool = False,
        map: str | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Apply updates: tuples ``(sign, subject, predicate, object)``, or an Arrow table, as for
        `triegs.Engine.apply`. Returns when their epoch is published, with `durable` when it is on
        disk. Terms of tuples are strings in N-Triples form, numbers and booleans.
        """
        names = ("op", "subject", "predicate", "object")
        return self._send(updates, names, strict=strict, durable=durable, map=map, columns=columns)

    def push(
        self,
        events: Any,
        stream: str | None = None,
        *,
        advance: bool = False,
        map: str | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        time_unit: str | None = None,
    ) -> Outcome:
        """Push timed events ``(time, subject, predicate, object[, op[, id]])`` or an Arrow table,
        as for `triegs.Engine.push`; with `advance` the watermark follows them.
        """
        names = ("time", "subject", "predicate", "object", "op", "id")
        return self._send(
            events, names, timed=True, stream=stream, advance=advance, map=map, columns=columns,
            time_unit=time_unit,
        )  # fmt: skip

    def _send(self, given: Any, names: Sequence[str], **params: Any) -> Outcome:
        if (columns := params.get("columns")) is not None:
            params["columns"] = ",".join(f"{name}={value}" for name, value in columns.items())
        body, media = write_events(given, names)
        headers = {"Content-Type": media, "Idempotency-Key": uuid4().hex}
        path = "/events"
        found = self._transport.send("POST", path, params=params, headers=headers, content=body)
        return Outcome(**found.json())

    def advance(self, to: int | str | None = None, stream: str | None = None) -> int:
        """Move the watermark; returns the newest epoch."""
        body = {
            name: value for name, value in (("to", to), ("stream", stream)) if value is not None
        }
        found = self._transport.send("POST", "/watermark", content=json.dumps(body).encode())
        return int(found.json()["epoch"])

    def register(
        self,
        text: str,
        name: str,
        *,
        keep: str | Iterable[str] = (),
        root: str | None = None,
        window: str | None = None,
        slide: str | None = None,
        replace: bool = False,
    ) -> RemoteQuery:
        """Register a query under a name; if it exists with the same text, returns that one."""
        kept = keep if isinstance(keep, str) else ",".join(keep)
        params = {
            "keep": kept or None, "root": root, "window": window, "slide": slide,
            "replace": replace or None,
        }  # fmt: skip
        headers = {"Content-Type": "application/sparql-query"}
        path = f"/queries/{quote(name, safe='')}"
        found = self._transport.send(
            "PUT", path, params=params, headers=headers, content=text.encode()
        )
        return RemoteQuery(self._transport, found.json())

    @property
    def queries(self) -> dict[str, RemoteQuery]:
        """The queries of the server by name."""
        found = self._transport.send("GET", "/queries").json()["queries"]
        return {each["name"]: RemoteQuery(self._transport, each) for each in found}

    def sparql(self, text: str) -> pa.Table:
        """The current answers of any supported query, as an Arrow table."""
        headers = {"Accept": ARROW, "Content-Type": "application/sparql-query"}
        found = self._transport.send("POST", "/sparql", headers=headers, content=text.encode())
        return read_arrow(found.content)

    @property
    def epoch(self) -> int:
        """The newest epoch."""
        return int(self._transport.send("GET", "/queries").json()["epoch"])

    @property
    def holds(self) -> dict[str, int]:
        """The held epochs by name."""
        return dict(self._transport.send("GET", "/holds").json()["holds"])

    def hold(self, name: str, epoch: int | None = None) -> int:
        """Keep an epoch readable under a name, by default the newest; returns its number."""
        path = f"/holds/{quote(name, safe='')}"
        return int(self._transport.send("PUT", path, params={"epoch": epoch}).json()["epoch"])

    def release(self, name: str) -> None:
        """Release the epoch that is held under a name."""
        self._transport.send("DELETE", f"/holds/{quote(name, safe='')}")

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._transport.url}>"


def write_events(given: Any, names: Sequence[str]) -> tuple[bytes, str]:
    r"""A body of events and its media type: Arrow for tables, lines of JSON for tuples.

    >>> write_events([("-", 1, "<http://ex/p>", "<http://ex/a>")], ("op", "subject", "predicate",
    ...     "object"))[0]
    b'{"op": "-", "subject": 1, "predicate": "<http://ex/p>", "object": "<http://ex/a>"}\n'
    """
    if hasattr(given, "__arrow_c_stream__"):
        sink = BytesIO()
        table = pa.table(given)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue(), ARROW
    lines = []
    for event in given:
        row = dict(zip(names, event, strict=False))
        if "op" in row:
            row["op"] = SIGNS.get(row["op"], row["op"])
        lines.append(json.dumps(row))
    return ("\n".join(lines) + "\n").encode() if lines else b"", NDJSON
