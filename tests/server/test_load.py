"""Many clients at once, for ten minutes in the soak: what they read, and what is refused.

Clients have tokens, because limits are counted by client: what the others do, and how fast the
machine is, does not decide whether `Prober` meets a limit.
"""

from __future__ import annotations

import gzip
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic, sleep

import httpx2
from tests.server.conftest import NDJSON, write_lines
from tests.server.processes import ServerProcess, serving

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
#: Clients that push and clients that read, and for how long.
PUSHING, READING, SECONDS = 4, 8, 600.0 if SOAK else 3.0
GROUP = 10
#: Requests of a client per second; the body and the queue that the server takes.
RATE, BODY, QUEUE = 40, 1 << 18, 9 << 17
PROBES_S = 15.0
#: What exceeds a limit, and the answer of `docs/server.md`.
EXPECTED = {
    "rate": 429, "body": 413, "bomb": 413, "headers": 431, "queue": 429, "type": 415,
    "token": 401, "role": 403, "epoch": 410, "syntax": 400,
}  # fmt: skip


class Visitor(Thread):
    """A client with a name, which does the same again and again."""

    def __init__(self, address: str, name: str, until: float) -> None:
        super().__init__(name=name)
        self.address, self.until = address, until
        self.headers = {"Authorization": f"Bearer {write_token(name)}"}
        self.statuses: set[int] = set()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx2.Client(base_url=self.address, timeout=60, headers=self.headers) as client:
                while monotonic() < self.until:
                    self.step(client)
        except BaseException as problem:
            self.problem = problem

    def step(self, client: httpx2.Client) -> None:
        raise NotImplementedError


def write_token(name: str) -> str:
    return f"{name:x<20}"


def write_tokens() -> str:
    """The token file: each client has one of its own."""
    names = [f"write push{number}" for number in range(PUSHING)]
    names += [f"read read{number}" for number in range(READING)]
    names += ["write probe", "read often", "read look"]
    lines = []
    for line in names:
        role, name = line.split()
        lines.append(f"{role} {write_token(name)} {name}\n")
    return "".join(lines)


class Pusher(Visitor):
    """Adds groups of facts, each in one batch, and removes them later: in every epoch a client has
    whole groups only.
    """

    def __init__(self, address: str, number: int, until: float) -> None:
        super().__init__(address, f"push{number}", until)
        self.number = number
        self.batches = 0

    def step(self, client: httpx2.Client) -> None:
        self._push(client, self.batches, "+")
        if self.batches >= 20:
            self._push(client, self.batches - 20, "-")
        self.batches += 1

    def _push(self, client: httpx2.Client, batch: int, sign: str) -> None:
        facts = [(f"p{self.number}", "has", batch * GROUP + each) for each in range(GROUP)]
        body = write_lines(*facts, sign=sign)
        headers = NDJSON | {"Idempotency-Key": f"{self.number} {batch} {sign}"}
        while True:
            response = client.post("/events", content=body, headers=headers)
            self.statuses.add(response.status_code)
            if response.status_code == 200:
                found = response.json()
                assert (found["accepted"], found["refused"]) == (GROUP, 0)
                return
            assert response.status_code in (429, 503), response.text
            sleep(int(response.headers["retry-after"]) / 10)


class Reader(Visitor):
    """Reads results in several ways, and checks each."""

    def __init__(self, address: str, number: int, until: float) -> None:
        super().__init__(address, f"read{number}", until)
        self.draw = Random(number)
        self.reads = 0

    def step(self, client: httpx2.Client) -> None:
        way = self.draw.randrange(4)
        if way == 0:
            response = client.get("/queries/all/snapshot")
            if self._take(response):
                counts: dict[str, int] = {}
                for row in response.text.splitlines():
                    who = row.partition('"who":')[2].partition(",")[0]
                    counts[who] = counts.get(who, 0) + 1
                assert all(count % GROUP == 0 for count in counts.values()), counts
        elif way == 1:
            response = client.get("/queries/groups/snapshot")
            if self._take(response):
                for row in response.text.splitlines():
                    assert int(row.partition('"n":"\\"')[2].partition("\\")[0]) % GROUP == 0
        elif way == 2:
            response = client.get("/queries/all/snapshot", params={"count": "true"})
            if self._take(response):
                assert response.json()["support"] % GROUP == 0
        else:
            response = client.get("/sparql", params={"query": "ASK { ?x ?p ?y }"})
            self._take(response)

    def _take(self, response: httpx2.Response) -> bool:
        self.reads += 1
        self.statuses.add(response.status_code)
        if response.status_code in (429, 503):
            assert int(response.headers["retry-after"]) >= 1
            sleep(0.05)
            return False
        assert response.status_code == 200, response.text
        return True


class Prober(Visitor):
    """Exceeds every limit that a client can exceed by itself, and notes how that is answered."""

    def __init__(self, address: str, until: float) -> None:
        super().__init__(address, "probe", until)
        self.rounds = 0
        self.found: dict[str, set[int]] = {}
        self.probes: dict[str, Callable[[httpx2.Client], httpx2.Response | int]] = {
            "rate": self._ask_often,
            "body": lambda client: self._post(client, b" " * (BODY + 1)),
            "bomb": lambda client: self._post(
                client, gzip.compress(bytes(100 * BODY)), {"Content-Encoding": "gzip"}
            ),
            "headers": lambda client: client.get("/queries", headers={"X-Long": "a" * 40_000}),
            "queue": self._fill_queue,
            "type": lambda client: self._post(client, b"?", {"Content-Type": "text/html"}),
            "token": lambda client: client.get("/queries", headers={"Authorization": "Bearer no"}),
            "role": lambda client: client.delete("/queries/all"),
            "epoch": lambda client: client.get("/queries/all/snapshot", params={"epoch": "1"}),
            "syntax": lambda client: client.get("/sparql", params={"query": "ASK { ?x"}),
        }

    def step(self, client: httpx2.Client) -> None:
        for name, probe in self.probes.items():
            answer = probe(client)
            status = answer if isinstance(answer, int) else answer.status_code
            self.found.setdefault(name, set()).add(status)
        self.rounds += 1
        sleep(min(PROBES_S, max(self.until - monotonic(), 0)))

    def _post(
        self, client: httpx2.Client, body: bytes, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        return client.post("/events", content=body, headers=NDJSON | (headers or {}))

    def _ask_often(self, client: httpx2.Client) -> httpx2.Response:
        """Under a name of its own; the server needs to answer `RATE` a second, no more."""
        headers = {"Authorization": f"Bearer {write_token('often')}"}
        until = monotonic() + 60
        while (found := client.get("/queries", headers=headers)).status_code == 200:
            assert monotonic() < until, "the rate was not reached"
        return check_refusal(found, "too many requests")

    def _fill_queue(self, client: httpx2.Client) -> httpx2.Response:
        """With bodies whose last byte is missing; half a body is left."""
        count = QUEUE // BODY
        until = monotonic() + 60
        with sending(self.address, self.headers, count):
            while read_queue(client) < count * (BODY - 1):
                assert monotonic() < until, "the bodies did not arrive"
                sleep(0.1)  # fewer than the rate
            return check_refusal(self._post(client, b"\n" * BODY), "the queue is full")


def read_queue(client: httpx2.Client) -> float:
    found = re.search(r"^triegs_queue_bytes (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def check_refusal(response: httpx2.Response, title: str) -> httpx2.Response:
    """It says why, and when to try again."""
    assert response.json()["title"] == title
    assert int(response.headers["retry-after"]) >= 1
    return response


@contextmanager
def sending(address: str, headers: dict[str, str], count: int) -> Iterator[None]:
    """Connections that have sent almost all of a body."""
    host, port = address.removeprefix("http://").split(":")
    lines = [f"{name}: {value}" for name, value in (headers | NDJSON).items()]
    head = ["POST /events HTTP/1.1", f"Host: {host}", f"Content-Length: {BODY}", *lines, "", ""]
    found = [socket.create_connection((host, int(port)), timeout=60) for _ in range(count)]
    try:
        for each in found:
            each.sendall("\r\n".join(head).encode() + b"\n" * (BODY - 1))
        yield
    finally:
        for each in found:
            each.close()


@contextmanager
def start_server(folder: Path) -> Iterator[ServerProcess]:
    tokens = folder / "tokens"
    tokens.write_text(write_tokens(), "utf-8")
    options = [
        "--query", "all=SELECT ?who ?n { ?who <http://ex/has> ?n }", "--query",
        "groups=SELECT ?who (COUNT(?x) AS ?n) { ?who <http://ex/has> ?x } GROUP BY ?who",
        "--rate", str(RATE), "--body-bytes", str(BODY), "--queue-bytes", str(QUEUE),
        "--token-file", str(tokens), "--log-level", "info",
    ]  # fmt: skip
    with serving(*options) as server:
        yield server


def fill_epochs(address: str) -> None:
    """Publish more epochs than the server keeps."""
    headers = NDJSON | {"Authorization": f"Bearer {write_token('probe')}"}
    with httpx2.Client(base_url=address, timeout=60, headers=headers) as client:
        for number in range(20):
            body = write_lines(("nobody", "likes", number))
            assert client.post("/events", content=body).status_code == 200


def check_rest(address: str) -> None:
    """Nothing that a response held is held any more."""
    headers = {"Authorization": f"Bearer {write_token('look')}"}
    until = monotonic() + 30
    with httpx2.Client(base_url=address, timeout=60, headers=headers) as client:
        while True:
            holders = client.get("/status").json()["holders"]
            if all(each["client"] == "the page" for each in holders):  # which asked for this
                return
            assert monotonic() < until, holders
            sleep(0.2)


def test_many_clients_see_only_possible_snapshots(tmp_path):
    """Four push, eight read, and one does what it may not; in the soak memory stays flat."""
    with start_server(tmp_path) as server:
        fill_epochs(server.address)
        until = monotonic() + SECONDS
        prober = Prober(server.address, until)
        clients: list[Pusher | Reader] = [
            *(Pusher(server.address, number, until) for number in range(PUSHING)),
            *(Reader(server.address, number, until) for number in range(READING)),
        ]
        for client in (prober, *clients):
            client.start()
        sizes = watch_memory(server, until)
        for client in (prober, *clients):
            client.join()
        report = {
            "bytes": sizes, "rounds": prober.rounds,
            "batches": [each.batches for each in clients if isinstance(each, Pusher)],
            "reads": [each.reads for each in clients if isinstance(each, Reader)],
        }  # fmt: skip
        print(report)
        problems = [each.problem for each in (prober, *clients) if each.problem is not None]
        assert not problems, problems
        if SOAK:
            settled = sizes[len(sizes) // 4 :]
            assert max(settled) < 1.15 * settled[0], report
        assert prober.found == {name: {status} for name, status in EXPECTED.items()}
        statuses = set().union(*(client.statuses for client in clients))
        assert 200 in statuses
        assert statuses <= {200, 429, 503}
        check_rest(server.address)


def watch_memory(server: ServerProcess, until: float) -> list[int]:
    """The memory of the server, at twenty moments."""
    sizes = []
    pause = max(until - monotonic(), 0) / 20
    while monotonic() < until:
        sleep(pause)
        sizes.append(server.measure())
    return sizes
