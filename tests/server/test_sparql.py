"""The SPARQL protocol, also with clients that people use."""

from __future__ import annotations

from typing import Any

import pytest
from rdflib import URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore
from SPARQLWrapper import CSV, JSON, POST, TSV, XML, SPARQLWrapper
from tests.server.conftest import NDJSON, PREFIXES, Start, listening, write_lines

from triegs import Engine
from triegs.server.settings import Settings

EX = "PREFIX : <http://ex/>\n"
KNOWS = EX + "SELECT ?x ?y { ?x :knows ?y }"
FRIENDS = EX + "SELECT ?x ?z { ?x :knows ?y . ?y :knows ?z }"
FACTS = [("ann", "knows", "bob"), ("bob", "knows", "cy"), ("ann", "knows", "bob")]


@pytest.fixture
def filled(client):
    client.service.engine.register(KNOWS, "knows")
    client.post("/events", content=write_lines(*FACTS), headers=NDJSON)
    return client


def ask(client, text, **options):
    return client.get("/sparql", params={"query": text}, **options)


def count_rows(response):
    return len(response.json()["results"]["bindings"])


def test_ways_to_send_a_query(filled):
    form = "application/x-www-form-urlencoded"
    text = "application/sparql-query"
    responses = [
        ask(filled, KNOWS),
        filled.post("/sparql", data={"query": KNOWS}, headers={"Content-Type": form}),
        filled.post("/sparql", content=KNOWS, headers={"Content-Type": text}),
        ask(filled, KNOWS),
    ]
    assert [response.status_code for response in responses] == [200] * 4
    assert {response.text for response in responses} == {responses[0].text}
    assert count_rows(responses[0]) == 3, "an answer is repeated by its multiplicity"
    assert {response.headers["triegs-epoch"] for response in responses} == {"2"}


@pytest.mark.parametrize("text", [KNOWS, FRIENDS])
@pytest.mark.parametrize(
    ("media", "name"),
    [
        ("application/sparql-results+json", "json"), ("application/sparql-results+xml", "xml"),
        ("text/csv", "csv"), ("text/tab-separated-values", "tsv"),
    ],
)  # fmt: skip
def test_formats_equal_those_of_a_snapshot(filled, text, media, name):
    response = ask(filled, text, headers={"Accept": media})
    assert response.headers["content-type"].partition(";")[0] == media
    with Engine(prefixes=PREFIXES) as engine:
        ex = "<http://ex/{}>".format
        engine.apply([("+", *map(ex, fact)) for fact in FACTS])
        with engine.register(text).snapshot() as snapshot:
            expected = snapshot.to_sparql(name)
    assert sorted(response.text.strip()) == sorted(expected.strip())


def test_the_newest_epoch_is_answered_again_only_within_it(filled):
    assert count_rows(ask(filled, KNOWS)) == 3
    filled.post("/events", content=write_lines(("cy", "knows", "dan")), headers=NDJSON)
    response = ask(filled, KNOWS)
    assert (count_rows(response), response.headers["triegs-epoch"]) == (4, "3")


def test_an_unregistered_query_is_dropped(filled):
    response = ask(filled, FRIENDS)
    assert count_rows(response) == 2
    assert [each["name"] for each in filled.get("/queries").json()["queries"]] == ["knows"]
    assert list(filled.service.engine.queries) == ["knows"]
    assert filled.service.engine.metrics()["held_epochs"] == 0
    assert ask(filled, EX + "ASK { :ann :knows :bob }").json()["boolean"] is True
    top = EX + "SELECT ?x (COUNT(*) AS ?n) { ?x :knows ?y } GROUP BY ?x ORDER BY DESC(?n) LIMIT 1"
    (row,) = ask(filled, top).json()["results"]["bindings"]
    assert row["n"]["value"] == "2"


def test_epochs(filled):
    newest = ask(filled, KNOWS).headers["triegs-epoch"]
    at = filled.get("/sparql", params={"query": KNOWS, "epoch": newest})
    assert count_rows(at) == 3
    gone = filled.get("/sparql", params={"query": KNOWS, "epoch": "1"})
    assert gone.status_code == 410
    unregistered = filled.get("/sparql", params={"query": FRIENDS, "epoch": newest})
    assert unregistered.status_code == 410


@pytest.mark.parametrize(
    ("params", "status", "part"),
    [
        ({}, 400, "query"),
        ({"update": "INSERT DATA {}"}, 400, "/events"),
        ({"query": "SELECT {"}, 400, "line"),
        ({"query": "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"}, 400, "unsupported"),
        ({"query": KNOWS, "default-graph-uri": "http://ex/g"}, 400, "default-graph-uri"),
    ],
)
def test_bad_requests(filled, params, status, part):
    response = filled.get("/sparql", params=params)
    assert response.status_code == status
    assert part in response.text


def test_unregistered_queries_can_be_forbidden(start: Start):
    client = start(settings=Settings(epoch_every_s=0, is_adhoc=False))
    assert ask(client, KNOWS).status_code == 403


def test_clients_read_what_the_engine_has():
    """SPARQLWrapper in its formats and by POST, and rdflib's SPARQLStore, unchanged."""
    engine = Engine(prefixes=PREFIXES)
    engine.register(KNOWS, "knows")
    ex = "<http://ex/{}>".format
    engine.apply([("+", *map(ex, fact)) for fact in FACTS])
    with listening(engine) as (address, _):
        wrapper: Any = SPARQLWrapper(f"{address}/sparql")
        for text, size in ((KNOWS, 3), (FRIENDS, 2)):
            wrapper.setQuery(text)
            wrapper.setReturnFormat(JSON)
            found = wrapper.query().convert()
            assert len(found["results"]["bindings"]) == size
            wrapper.setReturnFormat(XML)
            assert len(wrapper.query().convert().getElementsByTagName("result")) == size
            for form in (CSV, TSV):
                wrapper.setReturnFormat(form)
                assert len(wrapper.query().convert().splitlines()) == size + 1
        wrapper.setMethod(POST)
        wrapper.setReturnFormat(JSON)
        assert len(wrapper.query().convert()["results"]["bindings"]) == 2
        store: Any = SPARQLStore(f"{address}/sparql", returnFormat="json")
        rows = {tuple(map(str, row)) for row in store.query(KNOWS)}
        assert rows == {("http://ex/ann", "http://ex/bob"), ("http://ex/bob", "http://ex/cy")}
        triples = store.triples((None, URIRef("http://ex/knows"), None))
        assert {str(triple[2]) for triple, _ in triples} == {"http://ex/bob", "http://ex/cy"}
