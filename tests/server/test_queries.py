"""Standing queries, snapshots, changes and holds over HTTP."""

from __future__ import annotations

import io
import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.conftest import NDJSON, PREFIXES, Start, write_lines

from triegs import Engine
from triegs.server import pipe
from triegs.server.settings import Settings

SPARQL = {"Content-Type": "application/sparql-query"}
KNOWS = "SELECT ?x ?y { ?x :knows ?y }"
EDGES = [(n, "knows", n + 1) for n in range(5)]


def put(client, name, text=KNOWS, **params):
    return client.put(f"/queries/{name}", content=text, headers=SPARQL, params=params)


def push(client, *facts, sign="+"):
    return client.post("/events", content=write_lines(*facts, sign=sign), headers=NDJSON).json()


def read_direct(client, name="knows", epoch=None):
    with client.service.engine.queries[name].snapshot(epoch=epoch) as snapshot:
        return sorted(snapshot.to_arrow().to_pylist(), key=str)


@pytest.fixture
def filled(client):
    assert put(client, "knows", keep="count,slice").status_code == 201
    assert push(client, *EDGES, EDGES[0])["accepted"] == 6
    return client


def test_register_describe_list_drop(filled):
    found = filled.get("/queries/knows").json()
    assert (found["text"], found["columns"], found["class"]) == (KNOWS, ["x", "y"], "full-acyclic")
    assert found["promise"]
    assert [each["name"] for each in filled.get("/queries").json()["queries"]] == ["knows"]
    assert filled.delete("/queries/knows").status_code == 204
    for path in ("", "/snapshot", "/changes?since=1", "/explain"):
        assert filled.get(f"/queries/knows{path}").status_code == 404


def test_a_name_keeps_its_text_unless_replaced(filled):
    assert put(filled, "knows").status_code == 200, "the same again"
    other = "SELECT ?x { ?x :knows ?y }"
    assert put(filled, "knows", other).status_code == 409
    for wrong in ({"root": "y"}, {"window": "soon"}, {"window": "5s", "slide": "0s"}):
        assert put(filled, "knows", other, replace="true", **wrong).status_code == 400
        assert filled.get("/queries/knows").json()["columns"] == ["x", "y"]
    assert put(filled, "knows", other, replace="true").json()["columns"] == ["x"]


@pytest.mark.parametrize(
    ("name", "text", "params", "status", "part"),
    [
        ("a", "SELECT ?x {", {}, 400, '"column"'),
        ("a", "SELECT ?x { ?x :p ?y OPTIONAL { ?y :q ?z } }", {}, 400, "hint"),
        ("1a", KNOWS, {}, 400, "letter"),
        ("a", KNOWS, {"keep": "all"}, 400, "count, slice"),
        ("a", KNOWS, {"root": "q"}, 400, "plan"),
        ("a", KNOWS, {"window": "soon"}, 400, "duration"),
        ("a", b"\xff", {}, 400, "UTF-8"),
        ("a", "x" * 300_000, {}, 413, "large"),
    ],
)
def test_a_bad_query_is_refused(client, name, text, params, status, part):
    response = put(client, name, text, **params)
    assert response.status_code == status, response.text
    assert part in response.text
    assert client.get("/queries").json()["queries"] == []


def test_all_methods_of_a_path_are_told(client):
    assert set(client.patch("/queries/a").headers["allow"].split(", ")) >= {"PUT", "DELETE"}
    assert client.put("/queries/a", content=KNOWS).status_code == 415


def read_rows(response):
    media = response.headers["content-type"].partition(";")[0]
    if media == "application/x-ndjson":
        return [json.loads(line) for line in response.text.splitlines()]
    if media == "application/vnd.apache.arrow.stream":
        return pa.ipc.open_stream(response.content).read_all().to_pylist()
    if media == "application/vnd.apache.parquet":
        return pq.read_table(io.BytesIO(response.content)).to_pylist()
    raise AssertionError(media)


@pytest.mark.parametrize(
    "media",
    [
        "application/x-ndjson",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
    ],
)
def test_a_snapshot_is_what_the_engine_has(filled, media):
    response = filled.get("/queries/knows/snapshot", headers={"Accept": media})
    assert response.headers["triegs-epoch"] == "2"
    assert sorted(read_rows(response), key=str) == read_direct(filled)


def test_parts_of_a_snapshot(filled):
    rows = read_rows(filled.get("/queries/knows/snapshot"))
    part = read_rows(filled.get("/queries/knows/snapshot?offset=1&limit=3"))
    assert part == rows[1:4]
    assert read_rows(filled.get("/queries/knows/snapshot?limit=0")) == []
    sample = read_rows(filled.get("/queries/knows/snapshot?sample=7&seed=1"))
    assert len(sample) == 7
    assert all(row in rows for row in sample)
    counts = filled.get("/queries/knows/snapshot?count").json()
    assert counts == {"epoch": 2, "count": 6, "support": 5}
    plain = read_rows(filled.get("/queries/knows/snapshot?terms=plain&limit=1"))
    assert plain[0].keys() == {"x", "y", "multiplicity"}
    assert filled.get("/queries/knows/snapshot?sample=1&limit=2").status_code == 400
    assert filled.get("/queries/knows/snapshot?limit=-1").status_code == 400
    refused = filled.get("/queries/knows/snapshot", headers={"Accept": "image/png"})
    assert refused.status_code == 406


def test_held_epochs_and_their_end(filled):
    assert filled.put("/holds/audit").json() == {"name": "audit", "epoch": 2}
    before = read_direct(filled)
    push(filled, (9, "knows", 9))
    push(filled, EDGES[0], sign="-")
    for epoch in ("2", "audit"):
        response = filled.get("/queries/knows/snapshot", params={"epoch": epoch})
        assert response.headers["triegs-epoch"] == "2"
        assert sorted(read_rows(response), key=str) == before
    steps = filled.get("/queries/knows/changes", params={"since": "audit"})
    assert steps.headers["triegs-epoch"] == "4"
    assert [(row["epoch"], row["change"]) for row in read_rows(steps)] == [(4, 1), (4, -1)]
    assert filled.get("/holds").json()["holds"] == {"audit": 2}
    assert filled.delete("/holds/audit").status_code == 204
    for path in ("snapshot?epoch=2", "snapshot?epoch=audit", "changes?since=2"):
        gone = filled.get(f"/queries/knows/{path}")
        assert gone.status_code == 410, path
        assert gone.json()["newest"] == 4
    assert filled.get("/queries/knows/snapshot?epoch=99").status_code == 404
    assert filled.delete("/holds/audit").status_code == 404
    assert filled.put("/holds/late?epoch=1").status_code == 410


def test_explain(filled):
    for media, begin in [
        ("text/plain", "Query"),
        ("application/json", "{"),
        ("image/svg+xml", "<svg"),
    ]:
        response = filled.get("/queries/knows/explain", headers={"Accept": media})
        assert response.headers["content-type"].startswith(media)
        assert response.text.lstrip().startswith(begin)


def test_a_large_result_streams_and_its_pin_ends(start: Start, monkeypatch):
    monkeypatch.setattr(pipe, "CHUNK", 1000)
    client = start()
    put(client, "knows")
    push(client, *((n, "knows", n + 1) for n in range(2_000)))
    response = client.get("/queries/knows/snapshot", headers={"Accept": "text/csv"})
    assert "content-length" not in response.headers
    assert len(response.text.splitlines()) == 2_001
    wait_until(lambda: client.service.engine.metrics()["pins"] == [])


def wait_until(is_true):
    for _ in range(2_000):
        if is_true():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it does not become true")


def test_a_result_that_fails_is_not_a_short_result(start: Start, monkeypatch):
    """The lease ends before the first chunk: an error; after it: the response breaks off."""
    client = start(settings=Settings(epoch_every_s=0, lease_s=0))
    put(client, "knows")
    push(client, *EDGES)
    refused = client.get("/queries/knows/snapshot")
    assert refused.status_code == 410
    assert "lease" in refused.json()["title"]


def test_too_many_responses(start: Start):
    client = start(settings=Settings(epoch_every_s=0, client_responses=0))
    put(client, "knows")
    refused = client.get("/queries/knows/snapshot")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert client.service.engine.metrics()["pins"] == []


def test_changes_rebuild_the_result_epoch_by_epoch(start: Start):
    client = start(Engine(prefixes=PREFIXES, retain_epochs=10))
    put(client, "knows")
    push(client, *EDGES)
    push(client, EDGES[1], EDGES[2], sign="-")
    push(client, (7, "knows", 8), EDGES[2])
    rows = read_rows(client.get("/queries/knows/changes?since=1"))
    assert {row["epoch"] for row in rows} == {2, 3, 4}
    total: dict[tuple[str, str], int] = {}
    for row in rows:
        total[row["x"], row["y"]] = total.get((row["x"], row["y"]), 0) + row["change"]
    expected = {(row["x"], row["y"]): row["multiplicity"] for row in read_direct(client)}
    assert {key: value for key, value in total.items() if value} == expected
