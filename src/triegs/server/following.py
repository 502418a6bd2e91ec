"""The messages of a subscription.

A subscriber holds the epoch that it has been sent last. The next message is the difference between
that epoch and the newest, so a client that is slow gets the epochs it missed as one step, and its
queue is never longer than one message. Each step is written once for all subscribers.

The messages are ``snapshot`` (forget all answers; what follows is the whole result), ``answers``,
``progress`` (everything up to this epoch was sent), ``changes`` (one step, whole) and ``end`` (the
query was dropped). The id of ``progress`` and ``changes`` is their epoch.

The held epoch has a lease, which is renewed while nothing happens. A client that takes a message so
slowly that the lease ends starts anew, with ``snapshot``.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from io import BytesIO
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa

from triegs.engine.standing_query import StandingQuery
from triegs.errors import HistoryGone, SnapshotExpired, StateError
from triegs.outputs import Format, Kind, Options, ResultBatch
from triegs.read.snapshot import Snapshot
from triegs.server.responses import describe_head, read_terms, write_results
from triegs.server.service import Service

#: Seconds after which an idle stream shows that it lives, and renews its lease.
HEARTBEAT_S = 15.0
MOST_STEPS = 64
#: The column of signed changes; an answer is a change from nothing.
CHANGE = "change"


class Message(NamedTuple):
    """What a subscriber is sent: lines of JSON or Arrow batches, and the epoch if it completes
    one.
    """

    event: str
    epoch: int | None
    data: bytes

    def as_event(self) -> bytes:
        r"""As a server-sent event.

        >>> Message("changes", 7, b'{"x":1}\n{"x":2}\n').as_event()
        b'event: changes\nid: 7\ndata: {"x":1}\ndata: {"x":2}\n\n'
        """
        number = b"" if self.epoch is None else b"id: %d\n" % self.epoch
        data = self.data.rstrip(b"\n").replace(b"\n", b"\ndata: ")
        return b"event: %s\n%sdata: %s\n\n" % (self.event.encode(), number, data)

    def as_text(self) -> str:
        """As a message of a WebSocket: a line that describes it, then the lines."""
        head = json.dumps({"event": self.event, "epoch": self.epoch})
        return f"{head}\n{self.data.decode()}"


Messages = AsyncGenerator[Message | None, None]


class Start(NamedTuple):
    """Where a subscription begins, whether with all answers, in what form, and for whom."""

    query: StandingQuery
    held: Snapshot
    is_whole: bool
    terms: str | None
    is_arrow: bool = False
    client: str = ""

    @property
    def columns(self) -> list[str]:
        return [name.lstrip("?") for name in self.query.query.head]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the Arrow form."""
        return pa.schema([*((name, pa.string()) for name in self.columns), (CHANGE, pa.int64())])


class Steps:
    """Steps between epochs, each written once. For the event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._steps: OrderedDict[Any, asyncio.Task[bytes]] = OrderedDict()

    async def read(self, start: Start, since: int, epoch: int) -> bytes:
        """The changes between two epochs that the caller holds."""
        key = (start.query, since, epoch, start.terms, start.is_arrow)
        task = self._steps.get(key)
        if task is None:
            task = asyncio.create_task(self._service.run(self._write, start, since, epoch))
            self._steps[key] = task
            if len(self._steps) > MOST_STEPS:
                self._steps.popitem(last=False)
        return await asyncio.shield(task)

    def _write(self, start: Start, since: int, epoch: int) -> bytes:
        query, lease = start.query, self._service.lease_ms
        with (
            query.snapshot(epoch=since, lease=lease) as old,
            query.snapshot(epoch=epoch, lease=lease) as new,
        ):
            changes = new.diff(old)
            if start.is_arrow:
                return write_arrow(start, "changes", epoch, list(changes.batches()))
            batches = changes.batches(compact=True)
            result = ResultBatch(Kind.CHANGES, new.epoch, new.time, batches)
            return write_lines(self._service, start, result)

    async def read_answers(self, start: Start, held: Snapshot) -> AsyncIterator[bytes]:
        """All answers of a snapshot, batch by batch."""
        batches = await self._service.run(held.batches)
        while (batch := await self._service.run(next, batches, None)) is not None:
            yield await self._service.run(self._write_batch, start, held, batch)

    def _write_batch(self, start: Start, held: Snapshot, batch: pa.RecordBatch) -> bytes:
        if start.is_arrow:
            return write_arrow(start, "answers", None, [batch])
        result = ResultBatch(Kind.SNAPSHOT, held.epoch, held.time, [batch])
        return write_lines(self._service, start, result)


def write_lines(service: Service, start: Start, result: ResultBatch) -> bytes:
    sink = BytesIO()
    options = Options(Format.JSONL, terms=read_terms(start.terms))
    write_results(sink, describe_head(service, start.query, result.kind), options, [result])
    return sink.getvalue()


def write_arrow(
    start: Start, event: str, epoch: int | None, batches: list[pa.RecordBatch]
) -> bytes:
    """Batches of an Arrow stream, without its schema and its end; empty for no batch."""
    schema = start.schema
    metadata = {"event": event} | ({} if epoch is None else {"epoch": str(epoch)})
    sink = BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            columns = [
                column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)
            ]
            same = pa.record_batch(columns, schema=schema)
            writer.write_batch(same, custom_metadata=metadata)
    ends = len(begin_arrow(start)), len(sink.getvalue()) - ARROW_END
    return sink.getvalue()[slice(*ends)]


#: Bytes of the mark at the end of an Arrow stream.
ARROW_END = 8


def begin_arrow(start: Start) -> bytes:
    """The schema, with which an Arrow stream begins."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, start.schema):
        pass
    return sink.getvalue()[:-ARROW_END]


def mark_arrow(start: Start, message: Message) -> bytes:
    """A message without rows, as an empty batch."""
    empty = pa.RecordBatch.from_pylist([], start.schema)
    return write_arrow(start, message.event, message.epoch, [empty])


class Held:
    """The epoch that a subscriber holds: leased, and known to the server."""

    def __init__(self, service: Service, start: Start) -> None:
        self._service = service
        self._start = start
        self.snapshot = start.held
        self._release = self._note()

    @property
    def epoch(self) -> int:
        return self.snapshot.epoch

    def renew(self) -> None:
        """Hold the same epoch for another lease; `HistoryGone` if the last one is over."""
        self.move(self.take(self.epoch))

    def take(self, epoch: int | None = None) -> Snapshot:
        return self._start.query.snapshot(epoch=epoch, lease=self._service.lease_ms)

    def move(self, new: Snapshot) -> None:
        """Hold another epoch instead."""
        self.close()
        self.snapshot = new
        self._release = self._note()

    def close(self) -> None:
        self.snapshot.close()
        self._release()

    def _note(self) -> Callable[[], None]:
        start = self._start
        return self._service.holders.add(
            start.client, "subscription", start.query.name, self.snapshot.epoch
        )


async def follow(service: Service, steps: Steps, start: Start) -> Messages:
    """The messages of a subscription; None while nothing happens. Closing it releases its epoch."""
    held = Held(service, start)
    is_whole = start.is_whole
    lifetime = service.settings.subscription_s
    until = None if lifetime is None else monotonic() + lifetime
    try:
        while True:
            try:
                if is_whole:
                    async for part in send_all(steps, start, held.snapshot):
                        yield part
                async for message in send_changes(service, steps, start, held, until):
                    yield message
                return
            except (SnapshotExpired, HistoryGone):
                # The client was slower than its lease.
                is_whole = True
                held.move(held.take())
    except StateError:
        yield Message("end", None, b'{"reason": "the query was dropped"}')
    finally:
        held.close()


async def send_all(steps: Steps, start: Start, held: Snapshot) -> AsyncIterator[Message]:
    begin = json.dumps({"epoch": held.epoch, "time": held.time, "columns": start.columns})
    yield Message("snapshot", None, begin.encode())
    async for data in steps.read_answers(start, held):
        yield Message("answers", None, data)
    yield mark(held.epoch)


async def send_changes(
    service: Service, steps: Steps, start: Start, held: Held, until: float | None
) -> Messages:
    """Steps from the held epoch on, until the server stops or the subscription is over."""
    seen = held.epoch
    beat = min(HEARTBEAT_S, service.settings.lease_s / 3)
    while until is None or monotonic() < until:
        patience = beat if until is None else min(beat, max(until - monotonic(), 0))
        if not await service.wait_for_epoch(seen, patience):
            if service.is_draining:
                return
            held.renew()
            yield None
            continue
        seen = service.engine.epoch
        new = held.take()
        if new.epoch == held.epoch:  # it is stalled
            new.close()
            continue
        try:
            data = await steps.read(start, held.epoch, new.epoch)
        except BaseException:
            new.close()
            raise
        held.move(new)
        yield Message("changes", new.epoch, data) if data else mark(new.epoch)


def mark(epoch: int) -> Message:
    return Message("progress", epoch, b'{"epoch": %d}' % epoch)
