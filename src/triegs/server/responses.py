"""Results as responses: written in a thread, streamed if they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from triegs.engine.standing_query import StandingQuery
from triegs.outputs import Format, Head, Kind, Options, ResultBatch, TermText, open_writer
from triegs.read.snapshot import Snapshot
from triegs.server.formats import Choice
from triegs.server.pipe import Abandoned, Pipe
from triegs.server.problems import Problem
from triegs.server.service import Service
from triegs.sparql.model import Form

TERMS = tuple(each.value for each in TermText)


def describe_head(service: Service, query: StandingQuery, kind: Kind) -> Head:
    """A query as the writers of `triegs.outputs` see it."""
    names = tuple(name.lstrip("?") for name in query.query.head)
    is_ask = query.query.form is Form.ASK
    return Head(query.name, names, is_ask, (kind,), service.prefixes, service.engine.base)


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
    """An Arrow stream of batches as they were read: each term once per batch, as in `to_arrow`."""
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
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
        return Response(first, headers=sent, media_type=choice.media)

    async def read() -> Any:
        try:
            yield first
            async for chunk in pipe.read_rest():
                yield chunk
        finally:
            pipe.abandon()

    return StreamingResponse(read(), headers=sent, media_type=choice.media)
