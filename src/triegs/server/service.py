"""The engine of a server, its updater, and what all requests share."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from triegs.engine import Engine
from triegs.server.budget import Budget
from triegs.server.holders import Holders
from triegs.server.problems import Problem
from triegs.server.settings import Settings
from triegs.server.telemetry import Telemetry
from triegs.server.updater import Updater
from triegs.server.work import EventBatch, Outcome

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
#: Names of queries that are registered for one answer; others cannot begin so.
ADHOC = "adhoc "
#: Epochs over which percentiles are taken.
RECENT_EPOCHS = 1_000


class Service:
    """An engine behind requests. The event loop calls its methods; none of them blocks it.

    `prefixes` apply to queries and mappings, as in the engine. Closing it closes the engine.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings | None = None,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings or Settings()
        self.prefixes = {"": engine.base, **(prefixes or {})}
        self.budget = Budget(self.settings.queue_bytes)
        self.telemetry = Telemetry(self.read_metrics)
        self.holders = Holders()
        #: Events that requests brought, and the seconds of the last epochs.
        self.events = 0
        self.epoch_times: deque[float] = deque(maxlen=RECENT_EPOCHS)
        self.is_draining = False
        #: By client; for the event loop.
        self.subscribers: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(self.settings.threads, "triegs request")
        # Of their own, because slow clients occupy them.
        self._writers = ThreadPoolExecutor(self.settings.responses, "triegs response")
        self._responses: Counter[str] = Counter()
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Set, and replaced, when an epoch is published or the server stops.
        self._published = asyncio.Event()
        self._updater = Updater(engine, self.settings, self._follow)

    # The state

    @property
    def is_ready(self) -> bool:
        """Whether it takes changes."""
        return not self.is_draining and self._updater.is_open and self._updater.failure is None

    @property
    def is_alive(self) -> bool:
        """Whether the updater runs."""
        return self._updater.is_open or self.is_draining

    @property
    def lease_ms(self) -> int:
        """The lease of every snapshot that is taken for a client."""
        return round(self.settings.lease_s * 1000)

    @property
    def lag_s(self) -> float:
        """How long the oldest request has waited for the updater."""
        return self._updater.lag_s

    @property
    def last_epoch_ms(self) -> float | None:
        """How long the last epoch took."""
        return round(self.epoch_times[-1] * 1000, 3) if self.epoch_times else None

    def start(self) -> None:
        """The event loop runs."""
        self._loop = asyncio.get_running_loop()

    def begin_drain(self) -> None:
        """End subscriptions, which would not end by themselves. From any thread."""
        self.is_draining = True
        self._wake()

    async def close(self) -> None:
        """Do what is queued, and close the engine."""
        self.begin_drain()
        await asyncio.to_thread(self._updater.close)
        for pool in (self._pool, self._writers):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.engine.close)

    # Work

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:  # fmt: skip
        """Call a function in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*args, **options))

    def submit(self, function: Callable[[], object]) -> Future[object]:
        """Begin to write a result in a thread."""
        return self._writers.submit(function)

    def begin_response(self, client: str) -> None:
        """A response will hold an epoch; `Problem` 429 if there are too many."""
        settings = self.settings
        with self._lock:
            count = self._responses[client]
            total = self._responses.total()
            if count >= settings.client_responses or total >= settings.responses:
                raise Problem(
                    429, "too many results are being read", "read one to its end first",
                    retry_after_s=1,
                )  # fmt: skip
            self._responses[client] += 1
        self.telemetry.responses.set(total + 1)

    def end_response(self, client: str) -> None:
        """It holds none any more. From any thread."""
        with self._lock:
            self._responses[client] -= 1
            if not self._responses[client]:
                del self._responses[client]
            self.telemetry.responses.set(self._responses.total())

    async def apply(self, batch: EventBatch) -> Outcome:
        """Queue events, and wait for the epoch that has them."""
        outcome = await asyncio.wrap_future(self._updater.apply(batch))
        if not outcome.is_repeated:
            self.events += outcome.accepted
            for name in ("accepted", "refused", "quarantined", "late"):
                self.telemetry.rows.labels(name).inc(getattr(outcome, name) or 0)
        return outcome

    async def call(self, make: Callable[[Engine], Result]) -> Result:
        """Call the engine from the updater's thread."""
        return await asyncio.wrap_future(self._updater.call(make))

    # Epochs

    async def wait_for_epoch(self, after: int, timeout_s: float) -> bool:
        """Wait for an epoch after this one; false after the timeout, and when the server stops."""
        published = self._published
        if self.engine.epoch > after or self.is_draining:
            return not self.is_draining
        try:
            async with asyncio.timeout(timeout_s):
                while self.engine.epoch <= after and not self.is_draining:
                    await published.wait()
                    published = self._published
        except TimeoutError:
            return False
        return not self.is_draining

    def _follow(self, seconds: float) -> None:
        """An epoch was published; the updater calls this."""
        self.telemetry.epoch_s.observe(seconds)
        self.epoch_times.append(seconds)
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        published, self._published = self._published, asyncio.Event()
        published.set()

    def read_metrics(self) -> dict[str, Any]:
        """The metrics of the engine, and of the queue."""
        return {
            **self.engine.metrics(),
            "server": {
                "queue_bytes": self.budget.used,
                "queue_requests": self._updater.waiting,
                "lag_s": self._updater.lag_s,
            },
        }
