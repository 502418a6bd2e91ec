"""The server in a process of its own: start, kill, stop, under load."""

from __future__ import annotations

import os
import signal
from random import Random
from threading import Event, Thread
from time import sleep
from typing import Any

import httpx2
import pytest
from tests.server.conftest import NDJSON, write_lines
from tests.server.processes import serving

from triegs import Engine, StateError
from triegs.server.main import listen, serve
from triegs.server.security import Access
from triegs.server.service import Service

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
KILLS = 30 if SOAK else 2
SENDERS = 3


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


def test_a_second_signal_leaves_no_traceback(caplog):
    engine = Engine()

    async def stop_twice() -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)

    serve(Service(engine), listen("127.0.0.1", 0), Access(), [stop_twice])
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    with pytest.raises(StateError, match="closed"):
        engine.apply([])


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


def test_the_demo_runs_a_stream_behind_the_page():
    with (
        serving("--demo") as server,
        httpx2.Client(base_url=server.address, timeout=30) as client,
    ):
        assert "<title>triegs</title>" in client.get("/").text
        assert "no --token-file: loopback only" in server.read_log()
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
