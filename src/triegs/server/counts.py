"""Sizes of all results and when they changed, for the status page.

Nothing is counted while nobody asks. A result that is not kept by count is scanned, so a query that
takes long is counted again only after ten times as long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from triegs.engine.standing_query import StandingQuery
from triegs.errors import SnapshotExpired, StateError, TriegsError
from triegs.read.snapshot import Snapshot
from triegs.server.service import ADHOC, Service

LOG = logging.getLogger("triegs.server")
#: Seconds between two looks at a query, and how much longer than a count a pause is.
LEAST_PAUSE_S, PAUSE_FACTOR = 0.5, 10
#: A count keeps its epoch until the next, to compare them.
LEASE_S = 20.0
#: How long the first who asks waits for the first counts.
PATIENCE_S = 0.5


@dataclass(slots=True)
class Count:
    """The last count of a query."""

    support: int | None = None
    count: int | None = None
    epoch: int | None = None
    #: The epoch of the last change that was noticed, and its time of the day.
    changed_epoch: int | None = None
    changed_at: float | None = None
    held: Snapshot | None = None
    release: Callable[[], None] = lambda: None
    #: By the monotonic clock.
    due: float = 0.0

    def describe(self) -> dict[str, Any]:
        ago = None if self.changed_at is None else max(time() - self.changed_at, 0)
        return {
            "support": self.support, "count": self.count, "counted_epoch": self.epoch,
            "changed_epoch": self.changed_epoch,
            "changed_s": None if ago is None else round(ago, 3),
        }  # fmt: skip


class Counts:
    """Counts results in a thread when somebody looks. For the event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._counts: dict[StandingQuery, Count] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_new = True

    async def look(self) -> None:
        """Begin to count what is due. Only the first call waits, and not for long."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._service.run(self._refresh))
        if self._is_new:
            self._is_new = False
            await asyncio.wait({self._task}, timeout=PATIENCE_S)

    def describe(self, query: StandingQuery) -> dict[str, Any]:
        """The last count of a query."""
        return self._counts.get(query, Count()).describe()

    def _refresh(self) -> None:
        engine = self._service.engine
        queries = [
            each for name, each in list(engine.queries.items()) if not name.startswith(ADHOC)
        ]
        for query in self._counts.keys() - set(queries):
            self._let_go(self._counts.pop(query))
        for query in queries:
            count = self._counts.setdefault(query, Count())
            if monotonic() >= count.due and count.epoch != engine.epoch:
                begin = monotonic()
                with suppress(StateError):  # dropped meanwhile
                    self._look_at(query, count)
                took = monotonic() - begin
                count.due = monotonic() + max(LEAST_PAUSE_S, PAUSE_FACTOR * took)

    def _look_at(self, query: StandingQuery, count: Count) -> None:
        new = query.snapshot(lease=round(LEASE_S * 1000))
        try:
            support, total = new.support(), new.count()
            is_changed = (support, total) != (count.support, count.count)
            if not is_changed and count.held is not None:
                is_changed = has_changes(new, count.held)
        except TriegsError as problem:
            new.close()
            LOG.info("the answers of %s were not counted: %s", query.name, problem)
            return
        if is_changed and count.epoch is not None:
            count.changed_epoch, count.changed_at = new.epoch, time()
        count.support, count.count, count.epoch = support, total, new.epoch
        self._let_go(count)
        count.held = new
        count.release = self._service.holders.add(
            "the page", "counts and last changes", query.name, new.epoch
        )

    def _let_go(self, count: Count) -> None:
        if count.held is not None:
            count.held.close()
            count.release()
            count.held = None


def has_changes(new: Snapshot, old: Snapshot) -> bool:
    """Whether an answer differs. Cost: what changed, up to the first answer."""
    try:
        return any(batch.num_rows for batch in new.diff(old).batches(compact=True))
    except (SnapshotExpired, StateError):  # nobody looked for long; or LIMIT, which has no changes
        return False
