"""Queries of a server, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from triegs.client.streams import AsyncEvents, Events
from triegs.client.transport import Transport

ARROW = "application/vnd.apache.arrow.stream"


def read_arrow(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """The answers of one epoch. ``table`` has a column per variable and the multiplicity."""

    epoch: int
    time: int | None
    table: pa.Table

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pandas(self) -> Any:
        """As a pandas DataFrame (needs pandas)."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """As a Polars DataFrame (needs polars)."""
        import polars

        return polars.from_arrow(self.table)

    def __len__(self) -> int:
        return int(self.table.num_rows)


class RemoteQuery:
    """A registered query of a server. `Client.register` and `Client.queries` create it."""

    def __init__(self, transport: Transport, found: dict[str, Any]) -> None:
        self._transport = transport
        self.name: str = found["name"]
        self.text: str = found["text"]
        self.columns: tuple[str, ...] = tuple(found["columns"])
        self.plan_class: str = found["class"]
        self.promise: str = found["promise"]
        self._path = f"/queries/{quote(self.name, safe='')}"

    def snapshot(
        self,
        *,
        epoch: int | str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        terms: str | None = None,
    ) -> RemoteSnapshot:
        """Read the newest answers, or those of a held epoch; `HistoryGone` if it is gone."""
        params = {"epoch": epoch, "limit": limit, "offset": offset, "terms": terms}
        found = self._transport.send(
            "GET", f"{self._path}/snapshot", params=params, headers={"Accept": ARROW}
        )
        time = found.headers.get("triegs-time")
        table = read_arrow(found.content)
        number = int(found.headers["triegs-epoch"])
        return RemoteSnapshot(number, None if time is None else int(time), table)

    def count(self, *, epoch: int | str | None = None) -> int:
        """The total multiplicity."""
        return int(self._count(epoch)["count"])

    def support(self, *, epoch: int | str | None = None) -> int:
        """The number of distinct answers."""
        return int(self._count(epoch)["support"])

    def _count(self, epoch: int | str | None) -> dict[str, Any]:
        params = {"epoch": epoch, "count": True}
        found: dict[str, Any] = self._transport.send(
            "GET", f"{self._path}/snapshot", params=params
        ).json()
        return found

    def changes(self, since: int | str) -> pa.Table:
        """The signed changes since a held epoch, with the epoch of each."""
        found = self._transport.send(
            "GET", f"{self._path}/changes", params={"since": since}, headers={"Accept": ARROW}
        )
        return read_arrow(found.content)

    def explain(self, output: str = "text") -> str:
        """The plan as ``"text"``, ``"json"``, ``"svg"`` or ``"mermaid"``."""
        media = {
            "text": "text/plain", "json": "application/json", "svg": "image/svg+xml",
            "mermaid": "text/vnd.mermaid",
        }[output]  # fmt: skip
        return self._transport.send("GET", f"{self._path}/explain", headers={"Accept": media}).text

    def subscribe(self, since: int | str | None = None, *, snapshot: bool | None = None) -> Events:
        """Follow the query: iterate over its `Event` objects. See `Events`."""
        return Events(self._transport, f"{self._path}/subscribe", since, snapshot)

    def subscribe_async(
        self, since: int | str | None = None, *, snapshot: bool | None = None
    ) -> AsyncEvents:
        """The same for ``async for``."""
        return AsyncEvents(self._transport, f"{self._path}/subscribe", since, snapshot)

    def close(self) -> None:
        """Drop the query from the server."""
        self._transport.send("DELETE", self._path)

    def __repr__(self) -> str:
        return f"<RemoteQuery {self.name!r}, {self.plan_class}>"
