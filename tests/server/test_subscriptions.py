"""Following queries by server-sent events and by WebSocket."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from random import Random

import httpx2
import pytest
from tests.server.conftest import NDJSON, PREFIXES, Start, listening, write_lines

from triegs import Engine

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
KNOWS = "SELECT ?x ?y { ?x :knows ?y }"
ROUNDS = 500 if SOAK else 15


class Reader:
    """A client of server-sent events that keeps the result."""

    def __init__(self, address: str) -> None:
        self.url = f"{address}/queries/knows/subscribe"
        self.last = ""
        self.result: dict[tuple[str, str], int] = {}
        self.events: list[str] = []

    @contextmanager
    def connect(self, **params: str):
        headers = {"Last-Event-ID": self.last} if self.last else {}
        with httpx2.stream("GET", self.url, headers=headers, params=params, timeout=30) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            self._lines = response.iter_lines()
            yield self

    def read(self) -> str:
        """Take one event."""
        event, data, number = "", [], ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                number = value
            elif name == "data":
                data.append(json.loads(value))
            elif not line and event:
                self._take(event, data, number)
                return event
        return ""

    def _take(self, event, data, number):
        self.events.append(event)
        if event == "snapshot":
            self.result = {}
        for row in data if event in ("answers", "changes") else ():
            key = row["x"], row["y"]
            self.result[key] = self.result.get(key, 0) + row.get("change", row.get("multiplicity"))
            if not self.result[key]:
                del self.result[key]
        self.last = number or self.last

    def read_until(self, epoch: int) -> None:
        while not self.last or int(self.last) < epoch:
            assert self.read(), "the stream ended"


def push(address, *facts, sign="+"):
    body = write_lines(*facts, sign=sign)
    return httpx2.post(f"{address}/events", content=body, headers=NDJSON).json()["epoch"]


def read_direct(service):
    with service.engine.queries["knows"].snapshot() as snapshot:
        return {(answer.x, answer.y): answer.multiplicity for answer in snapshot}


@pytest.fixture
def served():
    engine = Engine(prefixes=PREFIXES, retain_epochs=4)
    engine.register(KNOWS, "knows")
    with listening(engine) as (address, service):
        yield address, service


def test_a_subscriber_gets_snapshot_changes_and_progress(served):
    address, service = served
    push(address, (1, "knows", 2), (1, "knows", 2))
    reader = Reader(address)
    with reader.connect():
        assert [reader.read() for _ in range(3)] == ["snapshot", "answers", "progress"]
        push(address, (1, "knows", 2), sign="-")
        assert reader.read() == "changes"
        push(address, (1, "likes", 2))
        assert reader.read() == "progress"
        assert reader.last == "4"
        assert reader.result == read_direct(service)
        assert service.subscribers.total() == 1
        httpx2.delete(f"{address}/queries/knows")
        assert reader.read() == "end"
    with httpx2.stream("GET", reader.url) as refused:
        assert refused.status_code == 404


def test_subscribers_that_are_cut_off_rebuild_the_exact_result(served):
    """They resume by the id of the last event, or anew if that epoch is gone."""
    address, service = served
    draw, reader = Random(25), Reader(address)
    live: list[tuple[int, str, int]] = []
    epoch = push(address, (0, "knows", 0))
    for _ in range(ROUNDS):
        with reader.connect():
            for _ in range(draw.randrange(3)):
                if live and draw.random() < 0.4:
                    epoch = push(address, live.pop(), sign="-")
                else:
                    live.append((draw.randrange(5), "knows", draw.randrange(5)))
                    epoch = push(address, live[-1])
            if draw.random() < 0.7:
                reader.read_until(epoch)
                assert reader.result == read_direct(service)
    with reader.connect():
        reader.read_until(epoch)
    assert reader.result == read_direct(service)
    assert "changes" in reader.events


def test_since_and_what_is_gone(served):
    address, _ = served
    first = push(address, (0, "knows", 0))
    push(address, (0, "knows", 1))
    reader = Reader(address)
    with reader.connect(since=str(first)):
        assert reader.read() == "changes"
        assert list(reader.result.values()) == [1]
    for number in range(6):
        push(address, (1, "knows", number))
    assert httpx2.get(reader.url, params={"since": str(first)}).status_code == 410
    reader.last = str(first)
    with reader.connect():
        assert reader.read() == "snapshot", "a browser that comes back starts anew"


def test_a_websocket_has_the_same_messages(start: Start):
    client = start()
    client.service.engine.register(KNOWS, "knows")
    with client.websocket_connect("ws://127.0.0.1/queries/knows/subscribe") as socket:
        heads = [json.loads(socket.receive_text().splitlines()[0]) for _ in range(2)]
        assert [head["event"] for head in heads] == ["snapshot", "progress"]
        client.post("/events", content=write_lines((1, "knows", 2)), headers=NDJSON)
        head, row = map(json.loads, socket.receive_text().splitlines())
        assert head == {"event": "changes", "epoch": 2}
        assert row["change"] == 1


def test_a_query_with_limit_has_no_changes(client):
    client.service.engine.register(KNOWS + " LIMIT 1", "top")
    assert client.get("/queries/top/subscribe").status_code == 409
