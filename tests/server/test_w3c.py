"""The W3C queries over HTTP give what they give directly, and what the suite expects."""

from __future__ import annotations

from collections import Counter

import pyoxigraph as ox
import pytest
from tests.server.conftest import serving
from tests.w3c.bags import canonical_numbers, equal
from tests.w3c.manifests import Entry, entries, expected, suite

from triegs import Engine
from triegs.errors import QueryError
from triegs.sparql import parse

SUITE = suite()
pytestmark = pytest.mark.skipif(
    SUITE is None, reason="the W3C manifests are not here; TRIEGS_W3C may name their folder"
)
JSON = "application/sparql-results+json"


def list_supported() -> list[Entry]:
    found = []
    for entry in entries(SUITE) if SUITE else ():
        if entry.kind == "QueryEvaluationTest":
            try:
                parse(read_text(entry))
            except QueryError:
                continue
            found.append(entry)
    return found


def read_text(entry: Entry) -> str:
    """The query, with the base that its relative IRIs need."""
    return f"BASE <{entry.base}>\n" + entry.query.read_text(encoding="utf-8")


def read_rows(body: bytes, head: tuple[str, ...]) -> Counter:
    results = ox.parse_query_results(body, format=ox.QueryResultsFormat.JSON)
    if isinstance(results, ox.QueryBoolean):
        return Counter([()] if results else [])
    return Counter(
        tuple(None if row[name[1:]] is None else str(row[name[1:]]) for name in head)
        for row in results
    )


def read_direct(engine: Engine, text: str) -> Counter:
    with engine.register(text) as query, query.snapshot() as snapshot:
        found: Counter = Counter()
        for answer in snapshot:
            found[tuple(answer)] += answer.multiplicity
        return found


def test_queries_over_http_give_what_they_give_directly():
    by_data: dict[tuple, list[Entry]] = {}
    for entry in list_supported():
        by_data.setdefault(entry.data, []).append(entry)
    checked = 0
    for group in by_data.values():
        engine = Engine()
        engine.apply([("+", *triple) for triple in group[0].triples()])
        with serving(engine) as client:
            for entry in group:
                check(client, engine, entry)
                checked += 1
    assert checked > 50


def check(client, engine: Engine, entry: Entry) -> None:
    text = read_text(entry)
    query = parse(text)
    headers = {"Content-Type": "application/sparql-query", "Accept": JSON}
    response = client.post("/sparql", content=text, headers=headers)
    assert response.status_code == 200, (entry.name, response.text)
    found = read_rows(response.content, query.head)
    assert found == read_direct(engine, text), entry.name
    assert entry.result is not None
    wanted = Counter(expected(entry.result, query.head))
    if query.grouping is not None:
        found = Counter(canonical_numbers(row) for row in found.elements())
        wanted = Counter(canonical_numbers(row) for row in wanted.elements())
    assert equal(found, wanted), entry.name
