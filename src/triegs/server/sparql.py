"""The SPARQL 1.1 Protocol: queries at ``/sparql``."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import count
from threading import Event
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from triegs.compiler import compile_query
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.outputs import Kind, ResultBatch
from triegs.read.snapshot import Snapshot
from triegs.server.bodies import read_body
from triegs.server.endpoints import OBJECT, Answer, Endpoint, Field, Operation, problem
from triegs.server.formats import SPARQL, choose
from triegs.server.parameters import Parameters
from triegs.server.pipe import Pipe
from triegs.server.problems import Problem
from triegs.server.queries import QUERY_TYPE, TERMS_FIELD, UNACCEPTABLE, read_query, take
from triegs.server.responses import (
    FIRST_ROWS,
    TERMS,
    choose_rows,
    describe_head,
    hold,
    respond,
    stamp,
    write_snapshot,
)
from triegs.server.service import ADHOC, Service
from triegs.sparql import parse

FORM_TYPE = "application/x-www-form-urlencoded"
DATASETS = ("default-graph-uri", "named-graph-uri")
#: Results of registered queries that are kept while their epoch is the newest.
MOST_KEPT, LARGEST_KEPT = 64, 1 << 16
#: Unregistered queries that may wait for the updater.
MOST_ADHOC = 8


class Kept(NamedTuple):
    """A response that may be sent again within its epoch."""

    body: bytes
    headers: dict[str, str]


def list_endpoints(service: Service) -> list[Endpoint]:
    engine = service.engine
    lease_ms = service.lease_ms
    numbers = count(1)
    waiting = 0
    kept: OrderedDict[tuple[int, str, str, str | None], Kept] = OrderedDict()

    async def answer(request: Request, _: Parameters) -> Response:
        given = await read_request(service, request)
        text, epoch = given["query"], given.get("epoch")
        choice = choose(request.headers.get("accept"), SPARQL)
        terms = given.get("terms")
        if terms is not None and terms not in TERMS:
            raise Problem(400, "invalid parameter", f"terms must be {', '.join(TERMS)}")
        now = engine.epoch
        key = (now, text, choice.media, terms)
        if epoch is None and key in kept:
            kept.move_to_end(key)
            body, headers = kept[key]
            return Response(body, headers=headers, media_type=choice.media)
        query = find_registered(engine, text)
        is_kept = epoch is None and query is not None
        if query is not None:
            snapshot = take(service, query, epoch, lease_ms)
        elif epoch is not None:
            raise Problem(
                410, "the epoch is gone", "only registered queries can be read at an older epoch",
                newest=now,
            )  # fmt: skip
        else:
            query, snapshot = await answer_once(text)

        def write(pipe: Pipe) -> None:
            rows = choose_rows(choice.format, len(snapshot.names))
            batches = snapshot.batches(rows, compact=True, first=FIRST_ROWS)
            result = ResultBatch(Kind.SNAPSHOT, snapshot.epoch, snapshot.time, batches)
            head = describe_head(service, query, Kind.SNAPSHOT)
            write_snapshot(pipe, head, choice.format, terms, result)

        held = hold(service, request, "sparql", query.name, snapshot)
        response = await respond(service, request, choice, stamp(snapshot), held, write)
        if is_kept and hasattr(response, "body") and len(response.body) <= LARGEST_KEPT:
            kept[key] = Kept(bytes(response.body), {**stamp(snapshot), "Vary": "Accept"})
            if len(kept) > MOST_KEPT:
                kept.popitem(last=False)
        return response

    def plan(text: str, begun: Event) -> None:
        begun.set()
        compile_query(parse(text, service.prefixes))

    async def answer_once(text: str) -> tuple[StandingQuery, Snapshot]:
        """Register a query, take its answers, drop it; the snapshot stays readable."""
        nonlocal waiting
        if not service.settings.is_adhoc:
            raise Problem(403, "only registered queries are answered here")
        if waiting >= MOST_ADHOC:
            raise Problem(
                429, "too many unregistered queries are waiting",
                "register queries that are asked often", retry_after_s=1,
            )  # fmt: skip
        limit_s = service.settings.adhoc_s
        # Compiling it here first finds what is wrong, and how long the updater would need.
        begun = Event()
        try:
            async with asyncio.timeout(limit_s):
                await service.run(plan, text, begun)
        except TimeoutError:
            if not begun.is_set():
                raise Problem(503, "no thread was free in time", retry_after_s=1) from None
            raise Problem(
                422, "the query takes too long", "its plan was not found in time"
            ) from None
        name = f"{ADHOC}{next(numbers)}"

        def read(engine: Engine) -> tuple[StandingQuery, Snapshot]:
            with engine.register(text, name, time_limit=round(limit_s * 1000)) as query:
                return query, query.snapshot(lease=lease_ms)

        waiting += 1
        try:
            return await service.call(read)
        finally:
            waiting -= 1

    answers = {
        200: Answer("The answers.", tuple(SPARQL), OBJECT, ("Triegs-Epoch",)),
        404: problem("This epoch is not published yet."),
        406: UNACCEPTABLE,
        408: problem("The body is too slow."),
        409: problem("Not possible in this state."),
        410: problem("The epoch is no longer held."),
        422: problem("The query takes too long."),
    }
    more = (Field("epoch", "a held epoch of a registered query"), TERMS_FIELD)
    asked = Field("query", "the text of the query", is_required=True)
    get = Operation(answer, "Answer a query", answers, (asked, *more), is_open=True)
    media = (QUERY_TYPE, FORM_TYPE)
    post = Operation(
        answer, "Answer a query", answers, more, media, {"type": ["string", "object"]}, is_open=True
    )
    return [Endpoint("/sparql", {"GET": get, "POST": post})]


async def read_request(service: Service, request: Request) -> dict[str, str]:
    """The parameters of the protocol. Others are ignored: clients send their own."""
    given = read_pairs(request.url.query)
    if request.method == "POST":
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media == QUERY_TYPE:
            given["query"] = await read_query(service, request)
        elif media == FORM_TYPE:
            settings = service.settings
            body = await read_body(request, settings.query_bytes, settings.body_s, None)
            given |= read_pairs(body.decode("utf-8", "surrogateescape"))
        else:
            raise Problem(415, "unknown type of query", f"send {QUERY_TYPE} or {FORM_TYPE}")
    if "update" in given:
        raise Problem(400, "SPARQL Update is not supported", "send events to /events")
    if not given.get("query"):
        raise Problem(400, "missing parameter", "query is the text of a query")
    if wrong := [name for name in DATASETS if given.get(name)]:
        raise Problem(
            400, "datasets are not supported", f"leave out {wrong[0]}: graphs are ignored"
        )
    return given


def read_pairs(text: str) -> dict[str, str]:
    """The pairs of a query string or a form; `Problem` for an ambiguous one."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
    except (ValueError, UnicodeError):
        raise Problem(400, "invalid parameters", "they are not UTF-8, or too many") from None
    if sum(name == "query" for name, _ in pairs) > 1:
        raise Problem(400, "repeated parameter", "query is given twice")
    return dict(pairs)


def find_registered(engine: Engine, text: str) -> StandingQuery | None:
    """The registered query with this text."""
    for name, query in list(engine.queries.items()):
        if query.query.text == text and not name.startswith(ADHOC):
            return query
    return None
