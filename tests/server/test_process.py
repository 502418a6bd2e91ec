"""The server in a process of its own: start, kill, stop, under load."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from random import Random
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import httpx2
from tests.server.conftest import NDJSON, write_lines
from tests.server.processes import ServerProcess, serving

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
KILLS = 30 if SOAK else 2
SENDERS = 3
#: Clients that push and clients that read, and for how long.
PUSHING, READING, SECONDS = 4, 8, 600.0 if SOAK else 3.0
GROUP = 10


class KilledSender(Thread):
    """Sends batches with keys until the server is gone; then goes on with the next life.

    A batch whose answer was lost is sent again, with its key.
    """

    def __init__(self, sender: int) -> None:
        super().__init__()
        self.sender = sender
        self.number = 0
        #: The epoch of each acknowledged batch.
        self.acknowledged: dict[int, int] = {}
        self.repeated = 0
        self.address = ""
        self.is_over = False
        self.has_server = Event()
        self.is_idle = Event()

    def run(self) -> None:
        while self.has_server.wait() and not self.is_over:
            try:
                with httpx2.Client(base_url=self.address, timeout=30) as client:
                    while self.has_server.is_set():
                        self._send(client)
            except httpx2.HTTPError:
                self.has_server.clear()
            self.is_idle.set()

    def _send(self, client: httpx2.Client) -> None:
        found = send(client, self.sender, self.number)
        assert found["accepted"] == 2
        self.repeated += found["repeated"]
        self.acknowledged[self.number] = found["epoch"]
        self.number += 1


def send(client: httpx2.Client, sender: int, number: int) -> Any:
    key = f"key {sender} {number}"
    body = write_lines((f"s{sender}", "sent", number), (f"s{sender}", "also", number))
    headers = NDJSON | {"Idempotency-Key": key}
    return client.post("/events", content=body, headers=headers).json()


def test_a_killed_server_has_every_acknowledged_batch_once(tmp_path):
    """Killed under load, again and again; the last life ends by a signal."""
    draw = Random(25)
    options = ["--state", str(tmp_path / "state"), "--query", "all=SELECT ?s ?n { ?s ?p ?n }"]
    senders = [KilledSender(number) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    for _ in range(KILLS):
        with serving(*options) as server:
            for sender in senders:
                sender.address = server.address
                sender.is_idle.clear()
                sender.has_server.set()
            before = [sender.number for sender in senders]
            while sum(s.number for s in senders) < sum(before) + draw.randrange(5, 40):
                sleep(0.001)
            server.process.kill()
            for sender in senders:
                sender.is_idle.wait()
    for sender in senders:
        sender.is_over = True
        sender.has_server.set()
        sender.join()
    with serving(*options, "--log-format", "json") as server:
        with httpx2.Client(base_url=server.address, timeout=30) as client:
            check_all(client, senders)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=120) == 0
        assert '"message": "stopped"' in server.read_log()


def check_all(client: httpx2.Client, senders: list[KilledSender]) -> None:
    """Each acknowledged batch is there once, and once more sent it is not doubled."""
    wanted = {}
    for sender in senders:
        for number, epoch in sender.acknowledged.items():
            found = send(client, sender.sender, number)
            assert (found["repeated"], found["epoch"]) == (True, epoch)
        send(client, sender.sender, sender.number)  # its answer may have been lost
        for number in range(sender.number + 1):
            wanted[f"<http://ex/s{sender.sender}>", str(number)] = 2
    rows = client.get("/queries/all/snapshot", params={"terms": "ntriples"}).text.splitlines()
    found = {}
    for row in rows:
        fields = httpx2.Response(200, text=row).json()
        found[fields["s"], fields["n"].split('"')[1]] = fields["multiplicity"]
    assert found == wanted


class Pusher(Thread):
    """Adds groups of facts, each in one batch, and removes them later: in every epoch a client has
    whole groups only.
    """

    def __init__(self, address: str, number: int, until: float) -> None:
        super().__init__()
        self.address, self.number, self.until = address, number, until
        self.statuses: set[int] = set()
        self.batches = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx2.Client(base_url=self.address, timeout=60) as client:
                while monotonic() < self.until:
                    self._push(client, self.batches, "+")
                    if self.batches >= 20:
                        self._push(client, self.batches - 20, "-")
                    self.batches += 1
        except BaseException as problem:
            self.problem = problem

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


class Reader(Thread):
    """Reads results in several ways, and checks each."""

    def __init__(self, address: str, number: int, until: float) -> None:
        super().__init__()
        self.address, self.draw, self.until = address, Random(number), until
        self.statuses: set[int] = set()
        self.reads = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx2.Client(base_url=self.address, timeout=60) as client:
                while monotonic() < self.until:
                    self._read(client)
        except BaseException as problem:
            self.problem = problem

    def _read(self, client: httpx2.Client) -> None:
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


def test_many_clients_see_only_possible_snapshots():
    """Four push and eight read, more than the rate allows; in the soak memory stays flat."""
    queries = [
        "--query", "all=SELECT ?who ?n { ?who <http://ex/has> ?n }", "--query",
        "groups=SELECT ?who (COUNT(?x) AS ?n) { ?who <http://ex/has> ?x } GROUP BY ?who",
    ]  # fmt: skip
    with serving(*queries, "--rate", "400", "--log-level", "info") as server:
        until = monotonic() + SECONDS
        clients: list[Pusher | Reader] = [
            *(Pusher(server.address, number, until) for number in range(PUSHING)),
            *(Reader(server.address, number, until) for number in range(READING)),
        ]
        for client in clients:
            client.start()
        sizes = watch_memory(server, until)
        for client in clients:
            client.join()
        problems = [client.problem for client in clients if client.problem is not None]
        assert not problems, problems
        statuses = set().union(*(client.statuses for client in clients))
        assert 200 in statuses
        assert statuses <= {200, 429, 503}
        if SOAK:
            assert 429 in statuses, "the limits were reached"
            print("bytes", sizes, "statuses", statuses)
            settled = sizes[len(sizes) // 4 :]
            assert max(settled) < 1.15 * settled[0]
        with suppress(httpx2.HTTPError):
            found = httpx2.get(f"{server.address}/status").json()
            assert found["holders"] == [] or found["queries"]


def watch_memory(server: ServerProcess, until: float) -> list[int]:
    """The memory of the server, at twenty moments."""
    sizes = []
    pause = max(until - monotonic(), 0) / 20
    while monotonic() < until:
        sleep(pause)
        sizes.append(server.measure())
    return sizes


def test_the_demo_runs_a_stream_behind_the_page():
    with (
        serving("--demo") as server,
        httpx2.Client(base_url=server.address, timeout=30) as client,
    ):
        assert "<title>triegs</title>" in client.get("/").text
        before = client.get("/status").json()
        assert len(before["queries"]) == 5
        for _ in range(600):
            now = client.get("/status").json()
            if now["epoch"] > before["epoch"] + 2 and now["queries"][0]["support"]:
                break
            sleep(0.05)
        else:
            raise AssertionError("the stream does not move")
        assert now["events"] > before["events"]
        assert now["refused"] == 0


def test_rules(tmp_path):
    """What rules derive is an answer, also after a start with the same state and no rules given."""
    rules = tmp_path / "uncle.dlog"
    rules.write_text(":uncle(U, C) :- :brother(U, P), :parent(P, C).\n", "utf-8")
    options = ["--state", str(tmp_path / "state"), "--prefix", "=http://ex/"]
    options += ["--query", "known=SELECT ?u ?c { ?u :uncle ?c }"]
    facts = write_lines(("ann", "brother", "bob"), ("bob", "parent", "eve"))
    for given in (["--rules", str(rules)], []):
        with serving(*options, *given) as server, httpx2.Client(base_url=server.address) as client:
            if given:
                client.post("/events?durable=true", content=facts, headers=NDJSON)
            found = client.get("/queries/known/snapshot").text
        assert found.count("\n") == 1
        assert '"<http://ex/ann>"' in found
        assert '"<http://ex/eve>"' in found
