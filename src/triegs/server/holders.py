"""Who holds epochs through this server: responses, subscriptions, the counts of the page."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple


class Holder(NamedTuple):
    """A client that holds an epoch of a query, and what for."""

    client: str
    purpose: str
    query: str
    epoch: int
    since: float

    def describe(self, now: float) -> dict[str, Any]:
        return {
            "client": self.client, "purpose": self.purpose, "query": self.query,
            "epoch": self.epoch, "age_s": round(now - self.since, 3),
        }  # fmt: skip


class Holders:
    """The holders of a server. From any thread.

    >>> holders = Holders()
    >>> release = holders.add("wall", "snapshot", "knows", 7)
    >>> [(each["client"], each["epoch"]) for each in holders.describe()]
    [('wall', 7)]
    >>> release(); holders.describe()
    []
    """

    def __init__(self) -> None:
        self._holders: dict[object, Holder] = {}
        self._lock = Lock()

    def add(self, client: str, purpose: str, query: str, epoch: int) -> Callable[[], None]:
        """Note a holder; the result removes it."""
        token = object()
        with self._lock:
            self._holders[token] = Holder(client, purpose, query, epoch, monotonic())

        def release() -> None:
            with self._lock:
                self._holders.pop(token, None)

        return release

    def describe(self) -> list[dict[str, Any]]:
        """The holders, the oldest first."""
        now = monotonic()
        with self._lock:
            return [holder.describe(now) for holder in self._holders.values()]
