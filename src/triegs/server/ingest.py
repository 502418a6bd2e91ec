"""Events and watermarks: ``POST /events`` and ``POST /watermark``."""

from __future__ import annotations

import json
from hashlib import blake2b
from io import BytesIO
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triegs.engine import Engine
from triegs.events import open_input
from triegs.events.mapping.rows import count_rows
from triegs.server.bodies import read_body, refuse_size, unpack_body
from triegs.server.bombs import check_arrow, check_parquet
from triegs.server.endpoints import (
    FLAG,
    JSON,
    Answer,
    Endpoint,
    Field,
    Operation,
    problem,
    require,
)
from triegs.server.keys import Key
from triegs.server.parameters import Parameters
from triegs.server.problems import Problem
from triegs.server.service import Service
from triegs.server.work import EventBatch, Outcome
from triegs.windows.encoding import read_time
from triegs.windows.outcomes import Published

#: The readers of `triegs.events` by media type.
FORMATS = {
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.parquet": "parquet",
    "application/n-triples": "n-triples",
    "application/n-quads": "n-quads",
    "text/turtle": "turtle",
    "application/trig": "trig",
    "application/rdf+xml": "rdf-xml",
    "application/x-jelly-rdf": "jelly",
}
#: Parameters that are options of `triegs.events.open_input`.
READING = ("terms", "map", "time_unit", "delimiter", "encoding", "graph_time")
FIELDS = (
    Field("terms", "contents of cells", {"enum": ["ntriples", "plain", "integers"]}),
    Field("map", "a triple of a table row", is_repeated=True),
    Field("time_unit", "unit of numeric times", {"enum": ["s", "ms", "us", "ns"]}),
    Field("delimiter", "delimiter of CSV cells"),
    Field("encoding", "encoding of CSV"),
    Field("graph_time", "property with the time of a graph"),
    Field("columns", "columns with other names: OURS=THEIRS,…"),
    Field("stream", "the stream of timed events"),
    Field("timed", "events wait for the watermark", FLAG),
    Field("advance", "afterwards, move the watermark", FLAG),
    Field("strict", "reject the body if one event is wrong", FLAG),
    Field("durable", "respond when the epoch survives a power failure", FLAG),
    Field("Idempotency-Key", "a repeated request counts once", is_header=True),
    Field("Content-Encoding", "gzip", {"enum": ["gzip", "identity"]}, is_header=True),
)
BINARY = {"type": "string", "format": "binary"}
WATERMARK = {
    "type": "object",
    "properties": {
        "to": {"type": ["integer", "string", "null"]}, "stream": {"type": ["string", "null"]},
    },
    "additionalProperties": False,
}  # fmt: skip
LONGEST_KEY = 200
#: Of one watermark. A million take some tens of seconds, in which nothing else is published.
MOST_SLIDES = 1_000_000
LONGEST_MAP = 8_192  # characters of all templates, which each row repeats
#: Rows that are read at once, before their size is known.
BATCH_ROWS = 1 << 14
#: How much larger than a body columns may be: prefixes and mappings make long terms.
MOST_GROWTH = 4
CHECKS = {"arrow": check_arrow, "parquet": check_parquet}


class Body(BytesIO):
    """A body as the readers see it; the name is for their messages."""

    name = "the request"


def list_endpoints(service: Service) -> list[Endpoint]:
    settings = service.settings

    async def post_events(request: Request, given: Parameters) -> Response:
        """Take events, and answer when their epoch is published."""
        name = read_key(request)
        kind = request.headers.get("content-type", "")
        media = kind.partition(";")[0].strip().lower()
        if media not in FORMATS:
            raise Problem(
                415, "unknown format of events", f"send one of {', '.join(FORMATS)}",
                headers={"Accept-Post": ", ".join(FORMATS)},
            )  # fmt: skip
        share = service.budget.open()
        try:
            body = await read_body(request, settings.body_bytes, settings.body_s, share)
            packing = request.headers.get("content-encoding", "")
            batch = await service.run(read_events, service, body, packing, FORMATS[media], given)
            share.take(sum(part.nbytes for part in batch.events))
            if batch.rows == 0:
                return answer_nothing(service, batch)
            if name is not None:
                batch.key = Key(name, digest(body, request.url.query, media))
            outcome = await service.apply(batch)
        finally:
            share.close()
        return await answer(service, outcome, given.read_flag("durable"))

    async def post_watermark(request: Request, given: Parameters) -> Response:
        """Move the watermark, and publish what is due."""
        body = await read_body(request, settings.query_bytes, settings.body_s, None)
        to, stream = read_watermark(body)
        before = service.engine.epoch
        options = {} if stream is None else {"stream": stream}

        def advance(engine: Engine) -> list[Published]:
            if to is not None:
                refuse_slides(engine._windows.publisher.count_slides(read_time(to)))
            return engine.advance(to, **options)

        slides = await service.call(advance)
        shown = [{"epoch": each.epoch, "time": each.time} for each in slides[-100:]]
        refused = sum(len(each.refused) for each in slides)
        epoch = slides[-1].epoch if slides else before
        return JSONResponse(
            {"epoch": epoch, "published": len(slides), "slides": shown, "refused": refused}
        )

    outcome = require("epoch", "accepted", "refused", "quarantined", "late", "problems", "durable")
    events = Operation(
        post_events,
        "Take events, and answer when their epoch is published",
        {
            200: Answer("What became of them.", schema=outcome),
            409: problem("Not possible in this state."),
            422: problem("No event was accepted, or the key was used for another request."),
        },
        FIELDS,
        tuple(FORMATS),
        BINARY,
    )
    watermark = Operation(
        post_watermark,
        "Move the watermark, and publish what is due",
        {
            200: Answer("The slides.", schema=require("epoch", "published", "slides", "refused")),
            409: problem("Not possible in this state."),
        },
        bodies=(JSON,),
        body_schema=WATERMARK,
        is_body_optional=True,
    )
    return [
        Endpoint("/events", {"POST": events}),
        Endpoint("/watermark", {"POST": watermark}),
    ]


def read_key(request: Request) -> str | None:
    """The idempotency key; the draft standard writes it as a quoted string."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    key = key.strip().removeprefix('"').removesuffix('"')
    if not key or len(key) > LONGEST_KEY or not key.isprintable():
        raise Problem(
            400, "invalid Idempotency-Key", f"it must have 1 to {LONGEST_KEY} printable characters"
        )
    return key


def digest(body: bytes, query: str, media: str) -> str:
    """Identifies what was sent."""
    found = blake2b(body, digest_size=16)
    found.update(f"\0{query}\0{media}".encode())
    return found.hexdigest()


def read_events(
    service: Service, body: bytes, packing: str, format_name: str, given: Parameters
) -> EventBatch:
    """Read a body into batches of columns. Cost: the body."""
    unpacked = unpack_body(body, packing, service.settings.body_bytes)
    options: dict[str, Any] = {
        name: given.get(name) for name in READING if name in given and name != "map"
    }
    columns = read_columns(given.get("columns"))
    stream = given.get("stream")
    is_timed = given.read_flag("timed", stream is not None)
    is_strict = given.read_flag("strict")
    if is_strict and is_timed:
        raise Problem(400, "invalid parameter", "timed events are judged with their slide")
    if given.read_flag("advance") and not is_timed:
        raise Problem(400, "invalid parameter", "advance is for timed events")
    if format_name in CHECKS:
        CHECKS[format_name](unpacked, service.settings.body_bytes)
    if templates := given.read_list("map"):
        if sum(map(len, templates)) > LONGEST_MAP:
            raise Problem(400, "invalid parameter", f"map has more than {LONGEST_MAP:,} characters")
        options |= {"map": templates, "base": service.engine.base}
    source = open_input(
        Body(unpacked), format=format_name, compression="none", columns=columns,
        prefixes=service.prefixes, strict=is_strict, batch_rows=BATCH_ROWS, stream=stream,
        is_timed=is_timed, **options,
    )  # fmt: skip
    batches, size = [], 0
    for batch in source:
        size += batch.nbytes
        if size > MOST_GROWTH * service.settings.body_bytes:
            raise refuse_size(service.settings.body_bytes)
        if batch.num_rows:
            batches.append(batch)
    report = source.report
    if report.broken:
        raise Problem(400, "unreadable events", f"the request: {report.broken[0][1]}")
    quarantined = sum(report.quarantined.values())
    problems = [
        {"line": fault.line, "reason": str(fault.reason), "record": fault.record}
        for fault in report.first_faults
    ]
    if quarantined and not batches:
        reasons = ", ".join(f"{reason} {count}" for reason, count in report.quarantined.items())
        raise Problem(
            422, "no event was accepted", f"{quarantined:,} records are malformed ({reasons})",
            quarantined=quarantined, problems=problems,
        )  # fmt: skip
    return EventBatch(
        batches, sum(map(count_rows, batches)), quarantined, problems, is_strict=is_strict,
        is_timed=is_timed, stream=stream, is_advancing=given.read_flag("advance"),
    )  # fmt: skip


def read_columns(text: str | None) -> dict[str, str] | None:
    """
    >>> read_columns("time=ts,id=payment")
    {'time': 'ts', 'id': 'payment'}
    """
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and column for name, _, column in pairs):
        raise Problem(400, "invalid parameter", "columns must be NAME=COLUMN,…")
    return {name: column for name, _, column in pairs}


def read_watermark(body: bytes) -> tuple[int | str | None, str | None]:
    """The time and the stream of ``{"to": …, "stream": …}``."""
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() <= {"to", "stream"}:
        raise Problem(400, "invalid watermark", 'send {"to": TIME, "stream": NAME}, both optional')
    to, stream = found.get("to"), found.get("stream")
    is_time = to is None or isinstance(to, str) or (isinstance(to, int) and to is not True)
    if not is_time or to is False or not (stream is None or isinstance(stream, str)):
        raise Problem(
            400, "invalid watermark", "to must be milliseconds or a date and time, stream a name"
        )
    return to, stream


def refuse_slides(count: int) -> None:
    """Refuse a watermark that would publish for minutes: it cannot be interrupted or taken back."""
    if count > MOST_SLIDES:
        raise Problem(
            400, "watermark too far ahead", f"it would publish {count:,} slides; at most "
            f"{MOST_SLIDES:,} at a time are possible",
        )  # fmt: skip


def answer_nothing(service: Service, batch: EventBatch) -> Response:
    """There was no record: no epoch is published."""
    outcome = Outcome(service.engine.epoch, 0, 0, batch.quarantined)
    return JSONResponse({**outcome.as_dict(), "durable": False})


async def answer(service: Service, outcome: Outcome, is_durable: bool) -> Response:
    durable = outcome.report is not None and outcome.report.durable
    if is_durable and not durable:
        await service.run(service.engine.sync)
        durable = "durable" in service.engine.metrics()
        if not durable:
            raise Problem(
                409, "this server has no state directory",
                "the events were applied, but nothing is durable; start the server with --state",
                **outcome.as_dict(),
            )  # fmt: skip
    headers = {"Triegs-Epoch": str(outcome.epoch)}
    return JSONResponse({**outcome.as_dict(), "durable": durable}, headers=headers)
