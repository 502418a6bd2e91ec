"""Results as responses: written in a thread, streamed if they are large."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from triegs.engine.standing_query import StandingQuery
from triegs.outputs import Format, Head, Kind, Options, ResultBatch, TermText, open_writer
from triegs.read.columns import BATCH_ROWS
from triegs.read.snapshot import Snapshot
from triegs.server.formats import Choice
from triegs.server.pipe import PASSED, Abandoned, Chunk, Parts, Passing, Pipe
from triegs.server.problems import Problem
from triegs.server.protocol import PARTS, Connection
from triegs.server.service import Service
from triegs.sparql.model import Form

TERMS = tuple(each.value for each in TermText)
#: Bytes of a row: an index of a term for each column, and a multiplicity.
INDEX_BYTES, COUNT_BYTES = 4, 8
LEAST_ROWS = 4_096
#: Of the first batch: sending begins while the second is made.
FIRST_ROWS = 1 << 14


def describe_head(service: Service, query: StandingQuery, kind: Kind) -> Head:
    """A query as the writers of `triegs.outputs` see it."""
    names = tuple(name.lstrip("?") for name in query.query.head)
    is_ask = query.query.form is Form.ASK
    return Head(query.name, names, is_ask, (kind,), service.prefixes, service.engine.base)


def choose_rows(chosen: Format, width: int) -> int:
    """The rows of a batch. Columns are passed on as they are in Arrow, one batch in one chunk;
    other formats make text of them.

    >>> choose_rows(Format.ARROW, 2), choose_rows(Format.CSV, 2)
    (131072, 65536)
    """
    if chosen is not Format.ARROW:
        return BATCH_ROWS
    return max(PASSED // (INDEX_BYTES * width + COUNT_BYTES), LEAST_ROWS)


def write_snapshot(
    sink: Any, head: Head, chosen: Format, terms: str | None, result: ResultBatch
) -> None:
    """Write the answers of one epoch. Epoch and time are in the headers of the response."""
    if chosen is Format.ARROW and terms in (None, TermText.NTRIPLES.value):
        batches = iter(result.batches)
        first = next(batches, None)
        if first is not None:
            write_batches(sink, chain([first], batches), first.schema)
            return
    write_results(sink, head, Options(chosen, terms=read_terms(terms), stamps=False), [result])


def write_batches(sink: Any, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """An Arrow stream of batches as they were read: each term once per batch, as in `to_arrow`.

    Their columns are never written again, so a pipe passes them on without copies.
    """
    with pa.ipc.new_stream(Passing(sink) if isinstance(sink, Pipe) else sink, schema) as writer:
        for number, batch in enumerate(batches):
            if number:
                sink.flush()  # what is small is one chunk
            writer.write_batch(batch)


def write_results(sink: Any, head: Head, options: Options, results: Iterable[ResultBatch]) -> None:
    writer = open_writer(sink, head, options)
    for result in results:
        writer.write(result)
    writer.close()


def read_terms(terms: str | None) -> TermText | None:
    return None if terms is None else TermText(terms)


def take_rows(
    batches: Iterable[pa.RecordBatch], offset: int, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The rows from `offset` on, at most `limit`.

    >>> batches = [pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3, 4]})]
    >>> [batch.to_pydict() for batch in take_rows(batches, 1, 2)]
    [{'x': [2]}, {'x': [3]}]
    """
    for batch in batches:
        if limit == 0:
            return
        skipped = min(offset, batch.num_rows)
        offset -= skipped
        found = batch.slice(skipped, limit)
        if found.num_rows:
            limit = None if limit is None else limit - found.num_rows
            yield found


def stamp(snapshot: Snapshot) -> dict[str, str]:
    """The headers that say which epoch was read."""
    time = {} if snapshot.time is None else {"Triegs-Time": str(snapshot.time)}
    return {"Triegs-Epoch": str(snapshot.epoch), **time}


def name_client(request: Any) -> str:
    """Who asks: the name of a token, or an address."""
    return str(request.scope.get("client_name", ""))


def hold(service: Service, request: Any, purpose: str, query: str, snapshot: Snapshot) -> ExitStack:
    """Closes the snapshot at its end; its holder is known meanwhile."""
    held = ExitStack()
    held.enter_context(snapshot)
    held.callback(service.holders.add(name_client(request), purpose, query, snapshot.epoch))
    return held


async def respond(
    service: Service,
    request: Request,
    choice: Choice,
    headers: Mapping[str, str],
    held: ExitStack,
    write: Callable[[Pipe], None],
) -> Response:
    """The response that `write` writes in a thread. `held` is closed when that is done.

    An error before the first chunk is an error response; a later one breaks the response off.
    """
    client = name_client(request)
    try:
        service.begin_response(client)
    except Problem:
        held.close()
        raise
    pipe = Pipe(service.settings.lease_s)

    def run() -> None:
        error: BaseException | None = None
        try:
            with held:
                write(pipe)
        except Abandoned:
            pass
        except BaseException as problem:
            error = problem
        finally:
            pipe.finish(error)

    writing = service.submit(run)
    writing.add_done_callback(lambda _: service.end_response(client))
    try:
        first, is_all = await pipe.read_first()
    except BaseException:
        pipe.abandon()
        raise
    sent = {**headers, "Vary": "Accept"}
    if is_all:
        return Response(bytes(first), headers=sent, media_type=choice.media)
    return PipeResponse(first, pipe, request, sent, choice.media)


class PipeResponse(StreamingResponse):
    """Sends what a thread writes into a pipe, to its end or until the client leaves."""

    def __init__(
        self, first: Chunk, pipe: Pipe, request: Request, headers: Mapping[str, str], media: str
    ) -> None:
        self._chunks = read_chunks(first, pipe)
        #: Takes chunks that are in several places; None in servers without it.
        self._connection: Connection | None = request.scope.get("state", {}).get(PARTS)
        super().__init__((), headers=headers, media_type=media)

    async def stream_response(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        connection = self._connection
        async for chunk in self._chunks:
            is_passed = connection is not None and isinstance(chunk, Parts)
            await send(write_body(chunk if is_passed else bytes(chunk)))
            while connection is not None and connection.is_waiting:
                await send(write_body(Parts([])))
        await send(write_body(b"", is_more=False))


def write_body(chunk: Chunk, is_more: bool = True) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": is_more}


async def read_chunks(first: Chunk, pipe: Pipe) -> AsyncIterator[Chunk]:
    try:
        yield first
        async for chunk in pipe.read_rest():
            yield chunk
    finally:
        pipe.abandon()
