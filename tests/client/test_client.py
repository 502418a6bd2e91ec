"""`triegs.client` against a server in a thread."""

from __future__ import annotations

import asyncio
import time
from threading import current_thread

import httpx2
import pyarrow as pa
import pytest
from tests.server.conftest import PREFIXES, listening

from triegs import Engine, HistoryGone, QueryError, RequestFailed
from triegs.client import Client, streams

KNOWS = "SELECT ?x ?y { ?x :knows ?y }"
P = "<http://ex/knows>"


@pytest.fixture
def served():
    with (
        listening(Engine(prefixes=PREFIXES, retain_epochs=4)) as (address, service),
        Client(address, retries=2) as client,
    ):
        yield client, service


def read_direct(service):
    with service.engine.queries["knows"].snapshot() as snapshot:
        return sorted(snapshot.to_arrow().to_pylist(), key=str)


def test_events_and_results(served):
    client, service = served
    query = client.register(KNOWS, "knows", keep=["count"])
    assert repr(query) == "<RemoteQuery 'knows', full-acyclic>"
    first = client.apply([("+", 1, P, 2), ("+", 1, P, 2), ("-", 9, P, 9)])
    assert (first.epoch, first.accepted, first.refused) == (2, 2, 1)
    client.apply(pa.table({"subject": [3, 4], "predicate": [P] * 2, "object": [4, 5]}))
    found = query.snapshot()
    assert found.epoch == client.epoch == 3
    assert sorted(found.to_arrow().to_pylist(), key=str) == read_direct(service)
    assert (len(found.to_pandas()), len(found), query.count(), query.support()) == (3, 3, 4, 3)
    assert client.sparql(KNOWS).num_rows == 3
    assert query.changes(since=2)["change"].to_pylist() == [1, 1]
    assert query.explain().startswith("Query")
    assert list(client.queries) == ["knows"]
    assert client.hold("audit") == 3
    assert client.holds == {"audit": 3}
    assert len(query.snapshot(epoch="audit", limit=2)) == 2
    client.release("audit")
    query.close()
    assert client.queries == {}


def test_errors(served):
    client, _ = served
    with pytest.raises(QueryError) as caught:
        client.register("SELECT ?x {", "bad")
    assert caught.value.line == 1
    query = client.register(KNOWS, "knows")
    for _ in range(7):
        client.apply([("+", 1, P, 2)])
    with pytest.raises(HistoryGone):
        query.snapshot(epoch=1)
    with pytest.raises(RequestFailed) as failed:
        client.apply([("+", 1, P, 2)], durable=True)
    assert failed.value.status == 409
    with pytest.raises(RequestFailed, match="cannot be reached"):
        Client("http://127.0.0.1:9", retries=0).queries  # noqa: B018


def test_a_client_waits_for_a_server_that_starts_again(monkeypatch):
    pauses: list[float] = []
    this, sleep = current_thread(), time.sleep

    def note(seconds: float) -> None:
        if current_thread() is this:  # other tests may have left threads that sleep
            pauses.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr("time.sleep", note)
    with pytest.raises(RequestFailed, match="cannot be reached"):
        Client("http://127.0.0.1:9").queries  # noqa: B018
    assert 30 < sum(pauses) < 60
    assert max(pauses) <= 10


def test_a_batch_whose_answer_is_lost_counts_once(served, monkeypatch):
    client, service = served
    monkeypatch.setattr("time.sleep", lambda _: None)
    request = client._transport._client.request
    lost: list[httpx2.Response] = []

    def lose_first(*args, **options):
        found = request(*args, **options)
        if not lost:
            lost.append(found)
            raise httpx2.ReadError("lost")
        return found

    monkeypatch.setattr(client._transport._client, "request", lose_first)
    assert client.apply([("+", 1, P, 2)]).repeated
    assert service.engine.metrics()["updates"] == 1


def test_a_subscription_resumes_by_itself(served, monkeypatch):
    client, service = served
    monkeypatch.setattr(streams, "PAUSE_S", 0)
    query = client.register(KNOWS, "knows")
    client.apply([("+", 1, P, 2)])
    connections: list[str] = []
    kinds: list[str] = []
    result: dict[tuple[str, str], int] = {}
    stream = httpx2.stream

    def connect(method, **options):
        connections.append(options["url"])
        return stream(method, **options)

    monkeypatch.setattr(httpx2, "stream", connect)
    for event in query.subscribe():
        kinds.append(event.kind)
        if event.kind in ("answers", "changes"):
            for row in event.rows:
                key = row["x"], row["y"]
                result[key] = result.get(key, 0) + row.get("change", row.get("multiplicity", 0))
        if event.epoch == 2:
            service.begin_drain()  # ends the streams, as a server that stops does
            client.apply([("+", 3, P, 4)])
            service.is_draining = False
        if event.epoch == 3:
            query.close()
    assert kinds == ["snapshot", "answers", "progress", "changes"]
    assert sorted(result.values()) == [1, 1]
    assert len(connections) >= 2


def test_an_asynchronous_subscription(served):
    client, _ = served
    query = client.register(KNOWS, "knows")

    async def follow():
        kinds = []
        async for event in query.subscribe_async():
            kinds.append(event.kind)
            if event.kind == "progress":
                await asyncio.to_thread(client.apply, [("+", 1, P, 2)])
            if event.kind == "changes":
                return kinds
        raise AssertionError

    assert asyncio.run(follow()) == ["snapshot", "progress", "changes"]
