"""Standing queries, their results and changes, and held epochs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from triegs.compiler import compile_query
from triegs.engine import Engine
from triegs.engine.standing_query import StandingQuery
from triegs.errors import HistoryGone, StateError
from triegs.explain import explain
from triegs.options import ExplainName, KeepName
from triegs.outputs import Kind, Options, ResultBatch
from triegs.read.snapshot import Snapshot
from triegs.server.bodies import read_body
from triegs.server.endpoints import (
    FLAG,
    NUMBER,
    OBJECT,
    Answer,
    Endpoint,
    Field,
    Operation,
    problem,
    require,
)
from triegs.server.formats import CHANGES, EXPLAIN, SNAPSHOT, choose
from triegs.server.parameters import Parameters
from triegs.server.pipe import Pipe
from triegs.server.problems import Problem
from triegs.server.responses import (
    FIRST_ROWS,
    TERMS,
    choose_rows,
    describe_head,
    hold,
    name_client,
    read_terms,
    respond,
    stamp,
    take_rows,
    write_results,
    write_snapshot,
)
from triegs.server.service import ADHOC, Service
from triegs.sparql import parse
from triegs.sparql.window import Window

NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}", re.ASCII)
QUERY_TYPE = "application/sparql-query"
KEEP = ("count", "slice")
MOST_SAMPLED = 1_000_000
STAMPS = ("Triegs-Epoch",)
UNACCEPTABLE = problem("No acceptable format.")
TERMS_FIELD = Field("terms", "form of terms", {"enum": list(TERMS)})
PLANNING = (
    Field("keep", "count, slice or both: count,slice"),
    Field("root", "the variable at the root of the plan"),
)
READING = (
    Field("epoch", "a held epoch, by number or name"),
    Field("limit", "the maximum number of answers", NUMBER),
    Field("offset", "the position of the first answer", NUMBER),
    Field("sample", "the number of answers to draw at random", {**NUMBER, "maximum": MOST_SAMPLED}),
    Field("seed", "the seed of the sample", NUMBER),
    Field("count", "return only the number of answers", FLAG),
    TERMS_FIELD,
)


def list_endpoints(service: Service) -> list[Endpoint]:
    engine = service.engine
    lease_ms = service.lease_ms

    async def list_queries(request: Request, given: Parameters) -> Response:
        found = [q for name, q in list(engine.queries.items()) if not name.startswith(ADHOC)]
        return JSONResponse({"epoch": engine.epoch, "queries": [describe(each) for each in found]})

    async def put_query(request: Request, given: Parameters) -> Response:
        name = request.path_params["name"]
        text = await read_query(service, request)
        if not NAME.fullmatch(name):
            raise Problem(
                400, "invalid name", "a letter or _, then letters, digits, _, . and -; 100 at most"
            )
        keep = read_keep(given)
        window = None
        if (width := given.get("window")) is not None:
            window = Window(width, given.get("slide"))
        root = given.get("root")
        # Refuses most before the updater waits.
        parsed = await service.run(parse, text, service.prefixes)

        def register(engine: Engine) -> tuple[StandingQuery, int]:
            before = engine.queries.get(name)
            if before is not None:
                is_same = before.query.text == text
                if is_same and not given.read_flag("replace"):
                    return before, 200
                if not given.read_flag("replace"):
                    raise Problem(
                        409, "the name is taken", "a query with another text has it; "
                        "add replace=true to replace it",
                    )  # fmt: skip
                # A query that cannot be registered does not end the one it would replace.
                resolved, _ = engine._windows.resolve(parsed, window)
                compile_query(resolved, root=root, keep=keep)
                before.close()
            kept = cast("list[KeepName]", keep)
            made = engine.register(text, name, root=root, keep=kept, window=window)
            return made, 201 if before is None else 200

        query, status = await service.call(register)
        return JSONResponse(describe(query), status, {"Location": f"/queries/{name}"})

    async def get_query(request: Request, given: Parameters) -> Response:
        return JSONResponse(describe(find(service, request)))

    async def delete_query(request: Request, given: Parameters) -> Response:
        query = find(service, request)
        await service.call(lambda _: query.close())
        return Response(status_code=204)

    async def get_explain(request: Request, given: Parameters) -> Response:
        query = find(service, request)
        choice = choose(request.headers.get("accept"), EXPLAIN)
        text = await service.run(query.explain, cast("ExplainName", choice.format))
        return Response(text, media_type=choice.media, headers={"Vary": "Accept"})

    async def explain_text(request: Request, given: Parameters) -> Response:
        """Check and plan a query without registering it."""
        text = await read_query(service, request)
        choice = choose(request.headers.get("accept"), EXPLAIN)
        keep = read_keep(given)

        def make() -> str:
            plan = compile_query(parse(text, service.prefixes), root=given.get("root"), keep=keep)
            return explain(plan, cast("ExplainName", choice.format))

        return Response(await service.run(make), media_type=choice.media)

    async def get_snapshot(request: Request, given: Parameters) -> Response:
        query = find(service, request)
        choice = choose(request.headers.get("accept"), SNAPSHOT)
        limit, offset = given.read_number("limit"), given.read_number("offset", 0)
        size = given.read_number("sample", most=MOST_SAMPLED)
        seed = given.read_number("seed")
        terms = given.read_choice("terms", TERMS, "") if "terms" in given else None
        if size is not None and (limit is not None or offset):
            raise Problem(400, "invalid parameter", "sample excludes limit and offset")
        snapshot = take(service, query, given.get("epoch"), lease_ms)
        if given.read_flag("count"):
            return await count(service, snapshot)

        def write(pipe: Pipe) -> None:
            if size is not None:
                batches = snapshot.sample(size, seed=seed).batches(compact=True)
            else:
                rows = choose_rows(choice.format, len(snapshot.names))
                batches = read_rows(query, snapshot, rows, offset or 0, limit)
            result = ResultBatch(Kind.SNAPSHOT, snapshot.epoch, snapshot.time, batches)
            head = describe_head(service, query, Kind.SNAPSHOT)
            write_snapshot(pipe, head, choice.format, terms, result)

        held = hold(service, request, "snapshot", query.name, snapshot)
        return await respond(service, request, choice, stamp(snapshot), held, write)

    async def get_changes(request: Request, given: Parameters) -> Response:
        query = find(service, request)
        choice = choose(request.headers.get("accept"), CHANGES)
        terms = given.read_choice("terms", TERMS, "") if "terms" in given else None
        since = given.get("since")
        if not since:
            raise Problem(400, "missing parameter", "since is an epoch or the name of a hold")
        steps = guard_epoch(service, since, lambda epoch: query.changes(epoch, lease=lease_ms))
        epoch = steps[-1].epoch if len(steps) else engine.epoch

        def write(pipe: Pipe) -> None:
            results = (
                ResultBatch(Kind.CHANGES, step.epoch, None, step.batches(compact=True))
                for step in steps
            )
            options = Options(choice.format, terms=read_terms(terms))
            write_results(pipe, describe_head(service, query, Kind.CHANGES), options, results)

        held = ExitStack()
        held.enter_context(steps)
        oldest = steps[0].since if len(steps) else epoch
        held.callback(service.holders.add(name_client(request), "changes", query.name, oldest))
        headers = {"Triegs-Epoch": str(epoch)}
        return await respond(service, request, choice, headers, held, write)

    async def list_holds(request: Request, given: Parameters) -> Response:
        return JSONResponse({"epoch": engine.epoch, "holds": dict(engine.holds)})

    async def put_hold(request: Request, given: Parameters) -> Response:
        name = request.path_params["name"]
        epoch = given.read_number("epoch")
        if not NAME.fullmatch(name):
            raise Problem(400, "invalid name", "a hold's name must be valid as a query's name")
        if name in engine.holds and epoch in (None, engine.holds[name]):
            return JSONResponse({"name": name, "epoch": engine.holds[name]})
        text = None if epoch is None else str(epoch)
        held = guard_epoch(service, text, lambda found: engine.hold(name, cast("int", found)))
        return JSONResponse({"name": name, "epoch": held}, 201)

    async def delete_hold(request: Request, given: Parameters) -> Response:
        try:
            engine.release(request.path_params["name"])
        except StateError as error:
            raise Problem(404, "there is no such hold", str(error)) from None
        return Response(status_code=204)

    missing = problem("There is no such query or epoch.")
    gone = problem("The epoch is no longer held, or the lease of the response is over.")
    state = problem("Not possible in this state.")
    described = require("name", "text", "columns", "class", "promise")
    explained = {200: Answer("The plan.", tuple(EXPLAIN), OBJECT), 406: UNACCEPTABLE}
    path = "/queries/{name}"
    named = {
        "GET": Operation(
            get_query, "Describe a query", {200: Answer("It.", schema=described), 404: missing}
        ),
        "PUT": Operation(
            put_query,
            "Register a query",
            {
                200: Answer("It was there, or is replaced.", schema=described),
                201: Answer("It is registered.", schema=described, headers=["Location"]),
                409: problem("The name has another text, or a count exceeds 64 bits."),
            },
            [
                *PLANNING,
                Field("window", "width of the window of patterns without one"),
                Field("slide", "slide of that window"),
                Field("replace", "replace another text", FLAG),
            ],
            (QUERY_TYPE,),
        ),
        "DELETE": Operation(
            delete_query, "Drop a query", {204: Answer("It is dropped.", ()), 404: missing}
        ),
    }
    held = require("name", "epoch")
    return [
        Endpoint(
            "/queries",
            {
                "GET": Operation(
                    list_queries,
                    "All queries",
                    {200: Answer("They.", schema=require("epoch", "queries"))},
                )
            },
        ),
        Endpoint(path, named),
        Endpoint(
            f"{path}/explain",
            {"GET": Operation(get_explain, "The running plan", {**explained, 404: missing})},
        ),
        Endpoint(
            "/explain",
            {
                "POST": Operation(
                    explain_text,
                    "Check and plan a query without registering it",
                    explained,
                    PLANNING,
                    (QUERY_TYPE,),
                )
            },
        ),
        Endpoint(
            f"{path}/snapshot",
            {
                "GET": Operation(
                    get_snapshot,
                    "The answers of an epoch",
                    {
                        200: Answer("They.", tuple(SNAPSHOT), OBJECT, STAMPS),
                        404: missing,
                        406: UNACCEPTABLE,
                        409: state,
                        410: gone,
                    },
                    READING,
                )
            },
        ),
        Endpoint(
            f"{path}/changes",
            {
                "GET": Operation(
                    get_changes,
                    "The signed changes since an epoch",
                    {
                        200: Answer("They.", tuple(CHANGES), headers=["Triegs-Epoch"]),
                        404: missing,
                        406: UNACCEPTABLE,
                        409: state,
                        410: gone,
                    },
                    [
                        Field("since", "an epoch or the name of a hold", is_required=True),
                        TERMS_FIELD,
                    ],
                )
            },
        ),
        Endpoint(
            "/holds",
            {
                "GET": Operation(
                    list_holds, "Held epochs", {200: Answer("They.", schema=require("holds"))}
                )
            },
        ),
        Endpoint(
            "/holds/{name}",
            {
                "PUT": Operation(
                    put_hold,
                    "Hold an epoch by name",
                    {
                        200: Answer("It was held.", schema=held),
                        201: Answer("It is held.", schema=held),
                        404: problem("This epoch is not published yet."),
                        409: problem("The name holds another epoch."),
                        410: gone,
                    },
                    [Field("epoch", "by default the newest", NUMBER)],
                ),
                "DELETE": Operation(
                    delete_hold,
                    "Release an epoch",
                    {
                        204: Answer("It is released.", ()),
                        404: problem("There is no such hold."),
                    },
                ),
            },
        ),
    ]


def read_keep(given: Parameters) -> list[str]:
    """What a query is to keep."""
    keep = [each for each in (given.get("keep") or "").split(",") if each]
    if wrong := [each for each in keep if each not in KEEP]:
        raise Problem(
            400, "invalid parameter", f"keep is count, slice or both, not {wrong[0][:40]}"
        )
    return keep


def describe(query: StandingQuery) -> dict[str, Any]:
    """A query as responses show it. Cost: constant."""
    error = query.error
    return {
        "name": query.name,
        "text": query.query.text,
        "columns": [name.lstrip("?") for name in query.query.head],
        "form": query.query.form.value,
        "class": query.plan.plan_class.value,
        "promise": query.plan.promise,
        "keep": list(query.keep),
        "atoms": [
            [atom.subject, label, atom.object]
            for atom, label in zip(query.query.atoms, query.query.predicates, strict=True)
        ],
        "windows": [str(window) for _, window in query.query.windows],
        "warnings": list(query.query.warnings),
        "error": None if error is None else str(error),
    }


def find(service: Service, request: Request) -> StandingQuery:
    """The query that a path names; `Problem` 404 if there is none."""
    name = request.path_params["name"]
    query = service.engine.queries.get(name)
    if query is None or name.startswith(ADHOC):
        raise Problem(404, "there is no such query", f"no query is named {name[:100]!r}")
    return query


async def read_query(service: Service, request: Request) -> str:
    """The text of a query in a body."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != QUERY_TYPE:
        raise Problem(415, "unknown type of query", f"send the text as {QUERY_TYPE}")
    settings = service.settings
    body = await read_body(request, settings.query_bytes, settings.body_s, None)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(400, "invalid query", "the text is not UTF-8") from None


def take(service: Service, query: StandingQuery, epoch: str | None, lease_ms: int) -> Snapshot:
    """A snapshot of the newest epoch, or of a held one."""
    return guard_epoch(service, epoch, lambda found: query.snapshot(epoch=found, lease=lease_ms))


def guard_epoch(service: Service, text: str | None, read: Any) -> Any:
    """Call `read` with an epoch or the name of a hold; `Problem` if there is none."""
    if text is None:
        return read(None)
    is_number = text.isascii() and text.isdecimal() and len(text) < 19
    if is_number and int(text) > service.engine.epoch:
        raise Problem(
            404, "this epoch is not published yet", f"the newest is {service.engine.epoch}"
        )
    try:
        return read(int(text) if is_number else text)
    except HistoryGone as gone:
        raise Problem(410, "the epoch is gone", str(gone), newest=service.engine.epoch) from None


def read_rows(
    query: StandingQuery, snapshot: Snapshot, rows: int, offset: int, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The answers from a position on, in batches of `rows`. Cost: logarithmic before the first if
    the query keeps ``"slice"``, else a scan up to there.
    """
    if "slice" in query.keep and (offset or limit is not None):
        end = None if limit is None else offset + limit
        return snapshot[offset:end].batches(rows, compact=True, first=FIRST_ROWS)
    return take_rows(snapshot.batches(rows, compact=True, first=FIRST_ROWS), offset, limit)


async def count(service: Service, snapshot: Snapshot) -> Response:
    """The number of answers, without the answers."""

    def read() -> dict[str, int]:
        with snapshot:
            return {
                "epoch": snapshot.epoch, "count": snapshot.count(), "support": snapshot.support(),
            }  # fmt: skip

    return JSONResponse(await service.run(read), headers=stamp(snapshot))
