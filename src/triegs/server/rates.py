"""How often a client may ask."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from time import monotonic

from starlette.types import ASGIApp, Receive, Scope, Send

from triegs.server.problems import Problem, write_problem
from triegs.server.security import PROBES

#: Clients that are remembered; those seen least recently are forgotten, with a full allowance.
MOST_CLIENTS = 10_000
#: Seconds of the rate that may come at once.
BURST_S = 2.0
LEAST_BURST = 5.0


class Rates:
    """An allowance for each client that refills at a rate. Times are inputs.

    >>> rates = Rates(10)
    >>> [rates.take("a", 0.0) for _ in range(21)][-2:], rates.take("b", 0.0)
    ([0.0, 0.1], 0.0)
    >>> rates.take("a", 0.2)
    0.0
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.most = max(rate * BURST_S, LEAST_BURST)
        #: What is left, and when that was.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """Count a request; the seconds to wait if it is one too many, else 0."""
        left, then = self._left.pop(client, (self.most, now))
        left = min(left + (now - then) * self.rate, self.most)
        is_allowed = left >= 1
        self._left[client] = (left - 1 if is_allowed else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if is_allowed else round((1 - left) / self.rate, 9)


class RateLimit:
    """Refuses the requests of a client that are too many. Below `Guard`, which knows the client."""

    def __init__(self, app: ASGIApp, rate: float) -> None:
        self.app = app
        self.rates = Rates(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in PROBES:
            wait_s = self.rates.take(scope["client_name"], monotonic())
            if wait_s:
                await self._refuse(wait_s, scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _refuse(self, wait_s: float, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4429})
            return
        problem = Problem(
            429, "too many requests", f"{self.rates.rate:g} per second are allowed",
            retry_after_s=ceil(wait_s),
        )  # fmt: skip
        await write_problem(problem)(scope, receive, send)
