"""What the page is made of: its files, and the status of the server."""

from __future__ import annotations

import re

import pytest
from tests.server.conftest import NDJSON, QUICK, Start, write_lines

from triegs.server.page_files import FILES, PATHS
from triegs.server.security import Access
from triegs.server.service import Service

KNOWS = "SELECT ?x ?y { ?x :knows ?y }"


@pytest.mark.parametrize("path", PATHS)
def test_files_are_served_with_a_strict_policy(client, path):
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == FILES[PATHS[path]]
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    again = client.get(path, headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_files_need_no_network():
    """No address of another host, except names of XML."""
    from importlib.resources import files

    for name in FILES:
        text = files("triegs.server").joinpath("page", name).read_text("utf-8")
        found = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert found <= {"http://www.w3.org/2000/svg"}, name
        for imported in re.findall(r'from "\./([\w.]+)"', text):
            assert imported in FILES


@pytest.mark.parametrize(
    "path", ["/page/", "/page/../app.py", "/page/%2e%2e/app.py", "/page/x.js", "/page//etc/passwd"]
)
def test_no_other_file_can_be_read(client, path):
    assert client.get(path).status_code == 404


def test_the_page_is_open_and_the_status_is_not(start: Start, tmp_path):
    (tmp_path / "tokens").write_text("read 0123456789abcdef wall\n")
    client = start(access=Access(tmp_path / "tokens"))
    assert client.get("/").status_code == 200
    assert client.get("/status").status_code == 401
    found = client.get("/status", headers={"Authorization": "Bearer 0123456789abcdef"}).json()
    assert found["role"] == "read"


def test_the_status_counts_and_notices_changes(client, monkeypatch):
    monkeypatch.setattr("triegs.server.counts.LEAST_PAUSE_S", 0)
    monkeypatch.setattr("triegs.server.counts.PAUSE_FACTOR", 0)
    service: Service = client.service
    service.engine.register(KNOWS, "knows")

    def read(epoch):
        for _ in range(1000):
            body = client.get("/status").json()
            (found,) = body["queries"]
            if found["counted_epoch"] == epoch:
                return body, found
        raise AssertionError(f"epoch {epoch} was not counted")

    body, found = read(1)
    assert (found["support"], found["count"], found["changed_epoch"]) == (0, 0, None)
    client.post("/events", content=write_lines((1, "knows", 2), (1, "knows", 2)), headers=NDJSON)
    body, found = read(2)
    assert (found["support"], found["count"], found["changed_epoch"]) == (1, 2, 2)
    assert body["events"] == 2
    assert body["epoch_ms"]["p50"] > 0
    holder = body["holders"][0]
    assert (holder["query"], holder["epoch"]) == ("knows", 2)
    client.post("/events", content=write_lines((1, "likes", 2)), headers=NDJSON)
    _, found = read(3)
    assert found["changed_epoch"] == 2, "nothing changed for this query"
    # One answer for another: the counts stay, the answers do not.
    body = write_lines((1, "knows", 2), (1, "knows", 2), sign="-")
    client.post(
        "/events", content=body + write_lines((5, "knows", 6), (5, "knows", 6)), headers=NDJSON
    )
    _, found = read(4)
    assert (found["support"], found["changed_epoch"]) == (1, 4)
    client.delete("/queries/knows")
    assert client.get("/status?history=true").json()["queries"] == []


def test_pages_of_answers_by_position(start: Start):
    """The same rows with and without order statistics."""
    client = start(settings=QUICK)
    engine = client.service.engine
    for name, keep in (("plain", []), ("kept", ["slice"])):
        engine.register(KNOWS, name, keep=keep)
    client.post(
        "/events", content=write_lines(*[(n, "knows", n) for n in range(25)]), headers=NDJSON
    )
    for name in ("plain", "kept"):
        pages = [
            client.get(f"/queries/{name}/snapshot?limit=10&offset={offset}").text.splitlines()
            for offset in (0, 10, 20, 30)
        ]
        assert [len(page) for page in pages] == [10, 10, 5, 0]
        assert len({line for page in pages for line in page}) == 25


def test_a_query_is_explained_without_registering_it(client):
    sparql = {"Content-Type": "application/sparql-query"}
    found = client.post("/explain?keep=count", content=KNOWS, headers=sparql)
    assert "Class      full-acyclic" in found.text
    wrong = client.post("/explain", content="SELECT ?x {\n ?x ?p }", headers=sparql)
    assert (wrong.status_code, wrong.json()["line"]) == (400, 2)
    assert client.get("/queries").json()["queries"] == []
