"""Large Arrow results over real connections, which get columns from where they are in memory."""

from __future__ import annotations

import asyncio
import socket
import threading
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.server.conftest import PREFIXES, QUICK, listening

from triegs import Engine
from triegs.server import pipe as pipes
from triegs.server.pipe import Pipe
from triegs.server.protocol import Protocol, stop_pacing

#: Ten megabytes: more than the buffers of both sockets take.
SIDE = 800
QUERY = "SELECT ?a ?b { ?a :in ?h . ?h :out ?b }"
ARROW = "application/vnd.apache.arrow.stream"
PATH = "/queries/square/snapshot"


@pytest.fixture
def served():
    """The host and port of a server with 640,000 answers, its service, and the answers."""
    engine = Engine(prefixes=PREFIXES)
    query = engine.register(QUERY, "square")
    hub = "<http://ex/hub>"
    ends = [f"<http://ex/end{number}>" for number in range(SIDE)]
    engine.apply([("+", end, "<http://ex/in>", hub) for end in ends])
    engine.apply([("+", hub, "<http://ex/out>", end) for end in ends])
    with query.snapshot() as snapshot:
        expected = read_rows(snapshot.to_arrow(compact=True))
    with listening(engine, QUICK, config={"http": Protocol}) as (address, service):
        found = urlsplit(address)
        yield (found.hostname, found.port), service, expected


def read_rows(table):
    """The columns as plain arrays, which can be compared."""
    types = [pa.large_string(), pa.large_string(), pa.int64()]
    columns = zip(table.columns, types, strict=True)
    return [column.cast(kind).combine_chunks() for column, kind in columns]


def connect(address):
    host, port = address
    return HTTPConnection(host, port, timeout=60)


def ask(address, version="1.1", receive_bytes=None):
    """A connection that has asked for the answers."""
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.connect(address)
    connection.settimeout(60)
    connection.sendall(
        f"GET {PATH} HTTP/{version}\r\nHost: 127.0.0.1\r\nAccept: {ARROW}\r\n\r\n".encode()
    )
    return connection


def test_a_connection_serves_several_results(served):
    address, _, expected = served
    connection = connect(address)
    for _ in range(3):
        connection.request("GET", PATH, headers={"Accept": ARROW})
        response = connection.getresponse()
        assert response.getheader("transfer-encoding") == "chunked"
        assert read_rows(pa.ipc.open_stream(response.read()).read_all()) == expected
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b'{"alive":true}'
    connection.close()


def test_columns_are_passed_on_in_parts(served, monkeypatch):
    made: list[list[bytes | memoryview]] = []
    original = pipes.Parts.__init__

    def note(self, parts):
        made.append(parts)
        original(self, parts)

    monkeypatch.setattr(pipes.Parts, "__init__", note)
    connection = connect(served[0])
    connection.request("GET", PATH, headers={"Accept": ARROW})
    connection.getresponse().read()
    connection.close()
    assert any(isinstance(part, memoryview) for parts in made for part in parts)


def test_a_socket_that_takes_little_at_a_time(served):
    address, _, expected = served
    with ask(address, receive_bytes=4096) as connection:
        response = connection.makefile("rb", buffering=0)
        text = b""
        while b"\r\n0\r\n\r\n" not in text[-16:]:
            text += response.read(8192)
    body = text.partition(b"\r\n\r\n")[2]
    chunks = []
    while True:
        size, _, body = body.partition(b"\r\n")
        if not int(size, 16):
            break
        chunks.append(body[: int(size, 16)])
        assert body[int(size, 16) :][:2] == b"\r\n"
        body = body[int(size, 16) + 2 :]
    assert read_rows(pa.ipc.open_stream(b"".join(chunks)).read_all()) == expected


def test_an_old_client_gets_no_chunks(served):
    address, _, expected = served
    with ask(address, version="1.0") as connection:
        text = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = text.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert read_rows(pa.ipc.open_stream(body).read_all()) == expected


def test_a_client_that_leaves_releases_its_epoch(served):
    address, service, _ = served
    for _ in range(3):
        with ask(address, receive_bytes=4096) as connection:
            assert connection.recv(64).startswith(b"HTTP/1.1 200")
    while service.engine.metrics()["pins"]:  # until the server has noticed
        threading.Event().wait(0.01)
    connection = connect(address)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()


def test_a_small_result_is_seen_to_be_all_at_once(monkeypatch):
    """Its last chunk and its end come together, so the response has a length."""

    async def run():
        pipe = Pipe(60)
        seen = []
        monkeypatch.setattr(pipe, "_notify", lambda: seen.append(pipe._is_over))
        pipe.write(b"a few bytes")
        pipe.finish()
        assert seen[0]
        assert await pipe.read_first() == (b"a few bytes", True)

    asyncio.run(run())


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="only Linux lets one choose")
def test_a_loopback_connection_is_not_paced(served, monkeypatch):
    found = []

    def note(connection):
        stop_pacing(connection)
        found.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16))

    monkeypatch.setattr("triegs.server.protocol.stop_pacing", note)
    connection = connect(served[0])
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    assert [each.rstrip(b"\0") for each in found] == [b"reno"]
