"""What a client cannot do: send too fast, too slowly or too much, or hold things for long."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from math import inf
from time import sleep
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.conftest import NDJSON, PREFIXES, QUICK, Start, listening, write_lines

from triegs import Engine
from triegs.errors import TimeLimitReached
from triegs.server.protocol import MOST_HEADERS, Protocol
from triegs.store import packed

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
PARQUET = {"Content-Type": "application/vnd.apache.parquet"}
SMALL = replace(QUICK, body_bytes=1 << 20)
HIDDEN = "SELECT ?a ?c { ?a :knows ?b . ?b :knows ?c }"
GROUPS = "SELECT ?a (COUNT(*) AS ?n) { ?a :knows ?b . ?b :knows ?c } GROUP BY ?a"
CYCLE = "SELECT ?a { ?a :knows ?b . ?b :knows ?c . ?c :knows ?a }"


@contextmanager
def talking(address: str):
    """A connection, and a function that reads what the server answers until it closes it."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as found:

        def read() -> str:
            text = b""
            while chunk := found.recv(65536):
                text += chunk
            return text.decode()

        yield found, read


@pytest.fixture
def address():
    class Quick(Protocol):
        head_s = 0.2

    options = {"http": Quick, "h11_max_incomplete_event_size": MOST_HEADERS}
    with listening(Engine(prefixes=PREFIXES), config=options) as (found, _):
        yield found


def test_headers_that_never_end(address):
    for begin in (b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
        with talking(address) as (connection, read):
            connection.sendall(begin)
            answer = read()
            assert answer.startswith("HTTP/1.1 408")
            assert "the headers of the request are too slow" in answer


def test_headers_that_never_end_after_a_request(address):
    with talking(address) as (connection, read):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\n")
        answer = read()
        assert answer.startswith("HTTP/1.1 200")
        assert "HTTP/1.1 408" in answer


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
@pytest.mark.parametrize("begin", [b"GET /", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_headers_that_are_huge(address, begin, end):
    """Also if all of it arrives at once."""
    if end and b"HTTP" not in begin:
        end = b" HTTP/1.1\r\nHost: 127.0.0.1" + end
    with talking(address) as (connection, read):
        connection.sendall(begin + b"a" * (MOST_HEADERS + 5_000) + end)
        answer = read()
        assert answer.startswith("HTTP/1.1 431")
        assert json.loads(answer.partition("\r\n\r\n")[2])["status"] == 431


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: +3\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Bad Header: 1\r\n",
    ],
)
def test_ambiguous_requests_are_refused(address, head):
    """A proxy might see another end of such a request."""
    with talking(address) as (connection, read):
        connection.sendall(
            b"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\n"
            b"Connection: close\r\n" + head + b"\r\n0\r\n\r\nGET /secret HTTP/1.1\r\n\r\n"
        )
        answer = read()
        status = answer.split(" ")[1]
        assert status in ("400", "501", "422"), answer
        assert answer.count("HTTP/1.1") == 1, "the rest is no second request"


def test_bodies_that_never_end():
    with listening(Engine(), replace(QUICK, body_s=0.2)) as (address, _):  # noqa: SIM117
        with talking(address) as (connection, read):
            connection.sendall(
                b"POST /events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\n"
                b"Connection: close\r\nContent-Length: 100\r\n\r\nsubject"
            )
            assert read().startswith("HTTP/1.1 408")


def test_gzip_bombs(start: Start):
    client = start(settings=SMALL)
    bomb = gzip.compress(b" " * (50 << 20))
    assert len(bomb) < SMALL.body_bytes
    response = client.post("/events", content=bomb, headers=NDJSON | {"Content-Encoding": "gzip"})
    assert response.status_code == 413
    twice = gzip.compress(b" " * (1 << 19)) * 3
    response = client.post("/events", content=twice, headers=NDJSON | {"Content-Encoding": "gzip"})
    assert response.status_code == 413


def write_stream(table: pa.Table, **options) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def write_file(table: pa.Table, **options) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def write_parquet(table: pa.Table) -> Any:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def make_facts(term: pa.Array) -> pa.Table:
    return pa.table(dict.fromkeys(("subject", "predicate", "object"), term))


PLAIN = make_facts(pa.array(["<http://ex/" + "a" * 1000 + ">"] * 5000))
SHORT = make_facts(pa.array(["<http://ex/a>"] * 10))
DICTIONARY = make_facts(
    pa.DictionaryArray.from_arrays(
        pa.array([0] * 50_000, pa.int8()), ["<http://ex/" + "a" * 1000 + ">"]
    )
)
EMPTY_ROWS = pa.table({"subject": pa.nulls(10_000_000)})


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (write_stream(PLAIN, compression="zstd"), ARROW),
        (write_file(PLAIN, compression="lz4"), ARROW),
        (write_stream(DICTIONARY), ARROW),
        (write_stream(EMPTY_ROWS), ARROW),
        (write_parquet(PLAIN), PARQUET),
        (write_parquet(DICTIONARY), PARQUET),
    ],
)  # fmt: skip
def test_bombs_in_arrow_and_parquet(start: Start, body, headers):
    assert len(body) < SMALL.body_bytes
    assert start(settings=SMALL).post("/events", content=body, headers=headers).status_code == 413


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (write_stream(SHORT, compression="zstd"), ARROW),
        (write_stream(SHORT), ARROW),
        (write_stream(make_facts(SHORT["subject"].dictionary_encode())), ARROW),
        (write_file(SHORT, compression="zstd"), ARROW),
        (write_parquet(SHORT), PARQUET),
    ],
)
def test_other_arrow_and_parquet_is_read(start: Start, body, headers):
    response = start(settings=SMALL).post("/events", content=body, headers=headers)
    assert response.json()["accepted"] == 10


def test_bombs_of_prefixes(start: Start):
    text = f"@prefix : <http://ex/{'a' * 100_000}> .\n" + ":a :b :c .\n" * 10_000
    client = start(settings=replace(QUICK, body_bytes=1 << 20))
    response = client.post("/events", content=text, headers={"Content-Type": "text/turtle"})
    assert response.status_code == 413


def test_long_mappings(start: Start):
    response = start().post(
        "/events", params={"map": "{from} :paid {to}" + "x" * 9_000}, content="from,to\na,b\n",
        headers={"Content-Type": "text/csv"},
    )  # fmt: skip
    assert response.status_code == 400
    assert "8,192" in response.json()["detail"]


def test_a_client_that_asks_too_often(start: Start):
    client = start(settings=replace(QUICK, rate=1))
    statuses = [client.get("/queries").status_code for _ in range(10)]
    assert statuses[0] == 200
    refused = client.get("/queries")
    assert (statuses[-1], refused.status_code) == (429, 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert client.get("/healthz").status_code == 200, "probes are not counted"


def test_an_adhoc_query_that_takes_too_long(start: Start, monkeypatch: pytest.MonkeyPatch):
    """It is given up, nothing of it stays, and events go on."""
    # Longer than the limit, which is longer than a thread takes to begin.
    monkeypatch.setattr("triegs.server.sparql.compile_query", lambda _: sleep(2))
    client = start(settings=replace(QUICK, adhoc_s=0.5))
    facts = [(a, "knows", b) for a in range(30) for b in range(30)]
    client.post("/events", content=write_lines(*facts), headers=NDJSON)
    response = client.get("/sparql", params={"query": CYCLE})
    assert response.status_code == 422
    assert "too long" in response.json()["title"]
    found = client.post("/events", content=write_lines((1, "likes", 2)), headers=NDJSON).json()
    assert (found["epoch"], found["accepted"]) == (2, 1)
    assert not client.service.engine.queries


def test_an_adhoc_query_for_which_there_is_no_thread(start: Start):
    """It is not the query that takes too long: the client shall try again."""
    client = start(settings=replace(QUICK, adhoc_s=0.05, threads=1))
    is_over = threading.Event()
    blocking = threading.Thread(target=client.portal.call, args=(client.service.run, is_over.wait))
    blocking.start()
    try:
        response = client.get("/sparql", params={"query": CYCLE})
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
    finally:
        is_over.set()
        blocking.join()


def test_registering_within_a_time_limit():
    engine = Engine(prefixes=PREFIXES)
    rows = [("+", a, "<http://ex/knows>", b) for a in range(30) for b in range(30)]
    engine.apply(rows)
    with pytest.raises(TimeLimitReached):
        engine.register(CYCLE, "cycle", time_limit=0)
    assert not engine.queries
    with engine.register(CYCLE, "cycle", time_limit="1m").snapshot() as snapshot:
        assert snapshot.count() == 30**3
    engine.apply([("+", 100, "<http://ex/knows>", 0)])


@pytest.mark.parametrize("text", [CYCLE, HIDDEN, GROUPS])
def test_a_registration_that_is_given_up_at_any_step(text, monkeypatch):
    """A clock that runs out after some steps of kernels: nothing stays, and the engine goes on."""
    engine = Engine(prefixes=PREFIXES)
    facts = [("+", a, "<http://ex/knows>", b) for a in range(12) for b in range(12)]
    engine.apply(facts)
    engine.register("SELECT ?x ?y { ?x :knows ?y }", "other")
    before = engine.metrics()
    query = None
    for steps in count():
        left = iter([0.0] * steps)
        monkeypatch.setattr(packed, "monotonic", lambda left=left: next(left, inf))
        try:
            query = engine.register(text, "slow", time_limit="1m")
        except TimeLimitReached:
            assert list(engine.queries) == ["other"]
            after = engine.metrics()
            assert (after["live_bytes"], after["epochs"]) == (
                before["live_bytes"],
                before["epochs"],
            )
        else:
            break
    assert query is not None
    assert steps > 1, "it takes several steps"
    with Engine(prefixes=PREFIXES) as fresh:
        fresh.apply(facts)
        expected = sorted(map(repr, fresh.register(text).snapshot()))
    assert sorted(map(repr, query.snapshot())) == expected


@pytest.mark.parametrize(
    ("limits", "title"),
    [
        ({"client_subscribers": 1}, "too many subscriptions of this client"),
        ({"subscribers": 1}, "too many subscriptions"),
    ],
)
def test_too_many_subscriptions(limits, title):
    engine = Engine(prefixes=PREFIXES)
    engine.register("SELECT ?x { ?x :knows ?y }", "knows")
    with listening(engine, replace(QUICK, **limits)) as (address, service):
        url = f"{address}/queries/knows/subscribe"
        with httpx2.stream("GET", url, timeout=30) as response:
            lines = response.iter_lines()
            assert next(lines) == "event: snapshot"
            refused = httpx2.get(url, timeout=30)
            assert (refused.status_code, refused.json()["title"]) == (429, title)
            assert int(refused.headers["retry-after"]) >= 1
        while service.subscribers:  # until the server has noticed
            threading.Event().wait(0.01)
        with httpx2.stream("GET", url, timeout=30) as response:
            assert response.status_code == 200


def test_every_snapshot_has_a_lease(start: Start):
    """Also those of subscribers, which renew them."""
    engine = Engine(prefixes=PREFIXES, retain_epochs=4)
    engine.register("SELECT ?x { ?x :knows ?y }", "knows")
    with listening(engine, replace(QUICK, lease_s=0.6)) as (address, service):
        url = f"{address}/queries/knows/subscribe"
        with httpx2.stream("GET", url, timeout=30) as response:
            lines = response.iter_lines()
            while next(lines) != "event: progress":
                pass
            pins = engine.metrics()["pins"]
            assert pins
            assert all("expires_s" in pin for pin in pins)
            (holder,) = service.holders.describe()
            assert (holder["purpose"], holder["client"]) == ("subscription", "127.0.0.1")
            for _ in range(4):  # heartbeats: more than one lease
                while next(lines) != ":":
                    pass
            body = write_lines((1, "knows", 2))
            httpx2.post(f"{address}/events", content=body, headers=NDJSON)
            while (line := next(lines)) != "event: changes":
                assert "snapshot" not in line, "it need not start anew"
        while service.holders.describe():
            threading.Event().wait(0.01)


def test_requests_and_epochs_are_traced(start: Start):
    trace = pytest.importorskip("opentelemetry.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    provider = pytest.importorskip("opentelemetry.sdk.trace").TracerProvider()
    exporter = memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    client = start()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.post(
        "/events", content=write_lines((1, "p", 2)), headers=NDJSON | {"traceparent": parent}
    )
    spans = {span.name: span for span in exporter.get_finished_spans()}
    request = spans["POST /events"]
    assert request.attributes["http.response.status_code"] == 200
    assert request.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    assert spans["epoch"].attributes["rows"] == 1


def test_without_opentelemetry(monkeypatch, start: Start):
    from triegs.server import tracing

    monkeypatch.setattr(tracing, "trace", None)
    assert start().post("/events", content=write_lines((1, "p", 2)), headers=NDJSON).is_success
    assert "opentelemetry" not in str(sys.modules.get("triegs.engine"))
