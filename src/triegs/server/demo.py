"""The stream of ``triegs serve --demo``: a social network, a thousand events per second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from time import monotonic, time

import pyarrow as pa

from triegs import workloads
from triegs.engine import Engine
from triegs.errors import TriegsError
from triegs.server.problems import Problem
from triegs.server.service import Service
from triegs.server.work import EventBatch
from triegs.sparql.window import Window

LOG = logging.getLogger("triegs.server")
WORKLOAD = workloads.get("social")
QUERIES = ("friend-like", "country-message", "forum-tag-class", "friend-reply-path", "triangle")
WINDOW = Window("20s", slide="500ms")
#: Events per second, and per batch: ten batches per second.
RATE, BATCH = 1_000, 100
#: As many as anybody will wait for.
EVENTS = 1 << 40
SEED = 7


def fill_engine(engine: Engine) -> None:
    """Register the queries, and load what never expires."""
    for query in WORKLOAD.asked:
        if query.name in QUERIES:
            engine.register(query.text, query.name, window=WINDOW, keep=["count", "slice"])
    engine.apply(WORKLOAD.static_table())


def generate(start_ms: int) -> Iterator[pa.RecordBatch]:
    return WORKLOAD.events(EVENTS, SEED, batch_size=BATCH, rate=RATE, start=start_ms)


async def run_stream(service: Service) -> None:
    """Send the events at their pace, like a client would, until the task is cancelled."""
    batches = await service.run(generate, round(time() * 1000))
    due = monotonic()
    while True:
        batch = await service.run(next, batches)
        try:
            await service.apply(
                EventBatch([batch], batch.num_rows, is_timed=True, is_advancing=True)
            )
        except (Problem, TriegsError) as problem:
            LOG.warning("the demo stream: %s", problem)
            return
        # After a delay it does not catch up: a burst would look like a fault.
        due = max(due + BATCH / RATE, monotonic() - 1)
        await asyncio.sleep(max(due - monotonic(), 0))
