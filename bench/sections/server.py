"""`triegs serve` over loopback, against the same calls of the engine and an empty endpoint.

The server is a process of its own; this one is its client. Ingest sends Arrow bodies over two
connections, because a client that waits for each answer leaves the server idle. Subscribers are
read by one thread, which needs a core of its own. So run this on a machine that is quiet.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from bench.answers import WrongAnswer
from bench.report import Figure, Sense
from bench.run import Bench, LeftOut
from bench.subject import Engine
from bench.timing import Samples, take_turns

INGEST_GOAL = READ_GOAL = REQUEST_GOAL = 50
KEPT_GOAL, DELAY_GOAL, P50_GOAL = 80, 2, 3
ROWS = 10_000
#: Pairs of measurements that a ratio needs at least; each lasts a few milliseconds.
TURNS = 12
WINDOW_MS = 3_600_000  # more than all events take
CONNECTIONS = 2
BATCHES = 10  # of a turn
SIDE = 1_000  # of the square of a million answers
SUBSCRIBERS, EPOCH_MS = 200, 100
BASE = "http://ex/"
QUERY = f"SELECT ?x ?y {{ ?x <{BASE}knows> ?y }}"
SQUARE = f"SELECT ?a ?b {{ ?a <{BASE}in> ?h . ?h <{BASE}out> ?b }}"
TEN = f"SELECT ?x ?y {{ ?x <{BASE}ten> ?y }}"
ARROW = "application/vnd.apache.arrow.stream"
TRIEGS = "from triegs.cli import main; main()"
EMPTY = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from triegs.server.main import listen
async def answer(request): return Response(b"", media_type="application/json")
with listen("127.0.0.1", 0) as bound:
    bound.listen()
    print("serving http://127.0.0.1:%d" % bound.getsockname()[1], file=sys.stderr, flush=True)
    config = uvicorn.Config(
        Starlette(routes=[Route("/", answer)]), http="h11", log_config=None, access_log=False
    )
    uvicorn.Server(config).run([bound])
"""
PATIENCE_S = 180


def measure_server(bench: Bench) -> Iterator[Figure]:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise LeftOut("the server is not installed: pip install '.[server]'") from None
    bench.say("Arrow ingest")
    yield from measure_ingest(bench)
    bench.say("a snapshot of a million rows")
    yield from measure_snapshot(bench)
    bench.say("requests for ten answers")
    yield from measure_requests(bench)
    bench.say(f"{SUBSCRIBERS} subscribers")
    yield from measure_subscribers(bench)


class Served:
    """A process that listens, and connections to it."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def connect(self) -> HTTPConnection:
        found = HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        found.connect()
        assert found.sock is not None
        found.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found


@contextmanager
def serving(code: str, *options: str) -> Iterator[Served]:
    """A Python process until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen([sys.executable, "-c", code, *options], stderr=sink)
        try:
            until = monotonic() + PATIENCE_S
            while not (found := re.search(r"serving http://([\w.]+):(\d+)", log.read_text())):
                if process.poll() is not None or monotonic() > until:
                    raise LeftOut(f"the server did not start: {log.read_text()[-500:]}")
                sleep(0.02)
            yield Served(found[1], int(found[2]))
        finally:
            process.kill()
            process.wait()


def serve(*options: str) -> list[str]:
    return ["serve", "--port", "0", "--log-level", "info", *options]


def send(
    connection: HTTPConnection, method: str, path: str, body: bytes = b"", **headers: str
) -> bytes:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, names)
    response = connection.getresponse()
    found = response.read()
    if response.status >= 300:
        raise WrongAnswer(f"{method} {path}: {response.status} {found[:200]!r}")
    return found


def receive(connection: HTTPConnection, path: str, accept: str, buffer: bytearray) -> int:
    """Read a response into a buffer, which must be larger; returns its size. `read` would join the
    chunks.
    """
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    size = response.readinto(buffer)
    if response.status >= 300 or size == len(buffer):
        raise WrongAnswer(f"GET {path}: {response.status}, {size:,} bytes")
    return size


# Ingest


def make_batch(number: int, rows: int = ROWS) -> pa.Table:
    """Timed events, other ones in each batch."""
    first = number * rows
    return pa.table(
        {
            "time": pa.array(range(first, first + rows), pa.int64()),
            "subject": [f"<{BASE}n{first + row}>" for row in range(rows)],
            "predicate": [f"<{BASE}knows>"] * rows,
            "object": [f"<{BASE}n{(first + row) % 5_000}>" for row in range(rows)],
        }
    )


def write_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def measure_ingest(bench: Bench) -> Iterator[Figure]:
    """Events with times, which `Engine.push` takes; and the same without, for `Engine.apply`."""
    numbers = count()
    windows = ["--window", "1h", "--slide", "1h", "--query", f"knows={QUERY}"]
    for name, is_timed in (("push", True), ("apply", False)):
        ratios, rates = [], []
        options = windows if is_timed else windows[4:]
        with serving(TRIEGS, *serve(*options)) as served, make_engine(is_timed) as engine:
            connections = [served.connect() for _ in range(CONNECTIONS)]
            for turn in take_turns(bench.settings.seconds, TURNS):
                tables = [make_batch(next(numbers)) for _ in range(BATCHES)]
                if not is_timed:
                    tables = [table.drop_columns(["time"]) for table in tables]
                direct = Samples()
                direct.time(push_all, engine, tables, is_timed)
                over_http = Samples()
                bodies = [write_stream(table) for table in tables]
                over_http.time(post_all, connections, bodies, is_timed)
                if turn:  # the first warms up
                    rates.append(len(tables) * ROWS / over_http.middle)
                    ratios.append(direct.middle / over_http.middle)
            compare(served, engine, is_timed)
        yield Figure(f"Arrow ingest, {name}", "per s", median(rates), " rows")
        share = 100 * median(ratios)
        goal = INGEST_GOAL if is_timed else None
        yield Figure(f"Arrow ingest, {name}", "of the call", share, "%", goal)


def compare(served: Served, engine: Engine, is_timed: bool) -> None:
    """Both must have the same answers in the end."""
    connection = served.connect()
    if is_timed:
        engine.advance(WINDOW_MS)
        send(connection, "POST", "/watermark", json.dumps({"to": WINDOW_MS}).encode())
    with engine.queries["knows"].snapshot() as snapshot:
        expected = snapshot.count()
    found = json.loads(send(connection, "GET", "/queries/knows/snapshot?count"))["count"]
    if not found == expected > 0:
        raise WrongAnswer(f"{found:,} answers, and {expected:,} directly")


@contextmanager
def make_engine(is_timed: bool) -> Iterator[Engine]:
    from triegs import Window

    with Engine(window=Window("1h") if is_timed else None, retain_epochs=16) as engine:
        engine.register(QUERY, "knows")
        yield engine


def push_all(engine: Engine, tables: list[pa.Table], is_timed: bool) -> None:
    for table in tables:
        if is_timed:
            engine.push(table)
        else:
            engine.apply(table)


def post_all(connections: list[HTTPConnection], bodies: list[bytes], is_timed: bool) -> None:
    """All bodies, each over the connection that is free first."""
    path = "/events?timed=true" if is_timed else "/events"
    waiting = list(reversed(bodies))
    accepted: list[int] = []

    def post(connection: HTTPConnection) -> None:
        while waiting:
            body = waiting.pop()
            answer = json.loads(send(connection, "POST", path, body, Content_Type=ARROW))
            accepted.append(answer["accepted"])

    threads = [threading.Thread(target=post, args=(each,)) for each in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sum(accepted) != len(bodies) * ROWS:
        raise WrongAnswer(f"{sum(accepted):,} of {len(bodies) * ROWS:,} events were accepted")


# Snapshots


def make_square() -> pa.Table:
    ends = [f"<{BASE}end{number}>" for number in range(SIDE)]
    hub = [f"<{BASE}hub>"] * SIDE
    return pa.table(
        {
            "subject": ends + hub,
            "predicate": [f"<{BASE}in>"] * SIDE + [f"<{BASE}out>"] * SIDE,
            "object": hub + ends,
        }
    )


def write_whole(snapshot: Any) -> pa.Buffer:
    table = snapshot.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def measure_snapshot(bench: Bench) -> Iterator[Figure]:
    table = make_square()
    ratios, rates = [], []
    with serving(TRIEGS, *serve("--query", f"square={SQUARE}")) as served, Engine() as engine:
        query = engine.register(SQUARE)
        engine.apply(table)
        connection = served.connect()
        send(connection, "POST", "/events", write_stream(table), Content_Type=ARROW)
        buffer, size = bytearray(32 * SIDE * SIDE), 0  # a row has 16 bytes
        for turn in take_turns(bench.settings.seconds, TURNS):
            direct, over_http = Samples(), Samples()
            with query.snapshot() as snapshot:
                direct.time(write_whole, snapshot)
            size = over_http.time(receive, connection, "/queries/square/snapshot", ARROW, buffer)
            if turn:
                ratios.append(direct.middle / over_http.middle)
                rates.append(SIDE * SIDE / over_http.middle)
        stream = pa.ipc.open_stream(pa.py_buffer(memoryview(buffer)[:size]))
        rows = sum(batch.num_rows for batch in stream)
        if rows != SIDE * SIDE:
            raise WrongAnswer(f"{rows:,} rows, expected {SIDE * SIDE:,}")
    yield Figure("snapshot as Arrow", "per s", median(rates), " rows")
    yield Figure("snapshot as Arrow", "of the call", 100 * median(ratios), "%", READ_GOAL)


# Requests


def measure_requests(bench: Bench) -> Iterator[Figure]:
    path = f"/sparql?query={quote(TEN)}"
    ours, theirs, ratios = Samples(), Samples(), []
    facts = "".join(f"<{BASE}a{n}> <{BASE}ten> <{BASE}b{n}> .\n" for n in range(10)).encode()
    with serving(TRIEGS, *serve("--query", f"ten={TEN}")) as served, serving(EMPTY) as empty:
        connection, other = served.connect(), empty.connect()
        send(connection, "POST", "/events", facts, Content_Type="application/n-triples")
        found = json.loads(send(connection, "GET", path))
        if len(found["results"]["bindings"]) != 10:
            raise WrongAnswer("not ten answers")
        for _ in take_turns(bench.settings.seconds, 3):
            mine, rival = Samples(), Samples()
            for _ in range(200):
                mine.time(send, connection, "GET", path)
                rival.time(send, other, "GET", "/")
            ours.seconds += mine.seconds
            theirs.seconds += rival.seconds
            ratios.append(sum(rival.seconds) / sum(mine.seconds))
    yield Figure(
        "GET /sparql, ten answers", "p50", 1000 * ours.middle, " ms", P50_GOAL, Sense.AT_MOST
    )
    yield Figure("GET /sparql, ten answers", "per s", len(ours.seconds) / sum(ours.seconds))
    share = 100 * median(ratios)
    yield Figure("GET /sparql, ten answers", "of an empty endpoint", share, "%", REQUEST_GOAL)


# Subscribers


class Listener(threading.Thread):
    """Reads many subscriptions, and notes when the last of them has each epoch."""

    def __init__(self, served: Served, subscribers: int) -> None:
        super().__init__(daemon=True)
        self.seen: dict[int, list[float]] = {}
        self.is_over = False
        self._selector = selectors.DefaultSelector()
        for _ in range(subscribers):
            connection = socket.create_connection((served.host, served.port))
            connection.sendall(
                b"GET /queries/knows/subscribe?snapshot=false HTTP/1.1\r\n"
                b"Host: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
            )
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, bytearray())

    def run(self) -> None:
        while not self.is_over:
            for key, _ in self._selector.select(0.1):
                self._read(key)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def _read(self, key: selectors.SelectorKey) -> None:
        chunk = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
        if not chunk:
            self._selector.unregister(key.fileobj)
            return
        key.data.extend(chunk)
        *whole, rest = bytes(key.data).split(b"\n\n")
        key.data[:] = rest
        now = perf_counter()
        for event in whole:
            if found := re.search(rb"^id: (\d+)$", event, re.MULTILINE):
                self.seen.setdefault(int(found[1]), []).append(now)


def measure_subscribers(bench: Bench) -> Iterator[Figure]:
    """Pushing as fast as it goes, alone and with subscribers, an epoch each 100 ms."""
    seconds = max(0.6, 2 * bench.settings.seconds)
    options = ["--query", f"knows={QUERY}", "--epoch-every", f"{EPOCH_MS}ms"]
    with serving(TRIEGS, *serve(*options, "--epoch-rows", "10000000")) as served:
        numbers = count()
        push_for(served, seconds / 2, numbers)
        alone, _ = push_for(served, seconds, numbers)
        listener = Listener(served, SUBSCRIBERS)
        listener.start()
        push_for(served, seconds / 2, numbers)
        rate, published = push_for(served, seconds, numbers)
        sleep(3 * EPOCH_MS / 1000)
        listener.is_over = True
        listener.join()
        again, _ = push_for(served, seconds, numbers)
    delays = [
        max(listener.seen[epoch]) - at
        for epoch, at in published.items()
        if len(listener.seen.get(epoch, ())) == SUBSCRIBERS
    ]
    if len(delays) < 0.5 * len(published):
        raise WrongAnswer(
            f"{len(delays)} of {len(published)} epochs reached all {SUBSCRIBERS} subscribers alone"
        )
    kept = 100 * rate / median([alone, again])
    row = f"{SUBSCRIBERS} subscribers"
    yield Figure(row, "rate kept", kept, "%", KEPT_GOAL)
    worst = 1000 * max(delays) / EPOCH_MS
    yield Figure(row, "last has it after", worst, " epochs", DELAY_GOAL, Sense.AT_MOST)


def push_for(
    served: Served, seconds: float, numbers: Iterator[int]
) -> tuple[float, dict[int, float]]:
    """Batches over four connections: batches per second, and when each epoch was answered first.

    One fact of a batch changes the query; the others are of another predicate.
    """
    until = monotonic() + seconds
    published: dict[int, float] = {}
    sent = count()
    filler = "".join(f"<{BASE}s{n}> <{BASE}other> <{BASE}o{n}> .\n" for n in range(1_000))

    def push() -> None:
        connection = served.connect()
        while monotonic() < until:
            number = next(numbers)
            fact = f"<{BASE}x{number}> <{BASE}knows> <{BASE}y> .\n"
            answer = json.loads(
                send(
                    connection, "POST", "/events", (fact + filler).encode(),
                    Content_Type="application/n-triples",
                )
            )  # fmt: skip
            published.setdefault(answer["epoch"], perf_counter())
            next(sent)
        connection.close()

    begin = monotonic()
    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(sent) / (monotonic() - begin), published
