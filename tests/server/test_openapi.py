"""The description of the endpoints, and requests that are drawn from it."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from contextlib import suppress
from io import BytesIO
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from tests.server.conftest import PREFIXES, Start, listening, write_lines

from triegs import Engine, Window
from triegs.server.settings import Settings

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
#: Requests per operation, valid and invalid ones; repeated to 20,000 together in the soak.
EXAMPLES = 320 if SOAK else 5
#: Subscriptions end soon, epochs come at once.
SETTINGS = Settings(epoch_every_s=0, subscription_s=0.02, body_bytes=1 << 20, lease_s=5)
QUERIES = (
    "SELECT ?x ?y { ?x :knows ?y }",
    "SELECT ?x { ?x :knows ?y . ?y :likes ?z } ORDER BY ?x LIMIT 3",
    "ASK { ?x ?p ?y }",
    "SELECT ?p (COUNT(*) AS ?n) { ?x ?p ?y } GROUP BY ?p",
    "SELECT ?x { ?x :knows ",
    "SELECT * { SERVICE <http://ex/> { ?x ?p ?y } }",
    "",
)


def write_arrow() -> bytes:
    table = pa.table({name: ["<http://ex/a>"] for name in ("subject", "predicate", "object")})
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


LINES = write_lines((1, "knows", 2), (2, "likes", 3))
BODIES = [
    LINES, write_lines((1, "knows", 2), sign="-"), gzip.compress(LINES), b"",
    b"subject,predicate,object\n<http://ex/a>,<http://ex/knows>,<http://ex/b>\n",
    b"time,subject,predicate,object\n1000,<http://ex/a>,<http://ex/p>,<http://ex/b>\n",
    b"<http://ex/a> <http://ex/knows> <http://ex/b> .\n", write_arrow(),
]  # fmt: skip


def test_every_route_is_described(start: Start):
    client = start()
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    described = {
        (path, method.upper()) for path, methods in found["paths"].items() for method in methods
    }
    routed = {
        (route.path, method)
        for route in client.app.routes
        for method in getattr(route, "methods", None) or ()
    }
    assert described == {each for each in routed if each[1] != "HEAD"}
    assert "/queries/{name}/subscribe" in found["paths"]


def test_the_description_is_valid(client):
    import schemathesis

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    schema.validate()


@pytest.fixture(scope="module")
def served():
    engine = Engine(prefixes=PREFIXES, retain_epochs=3, window=Window("10s", slide="5s"))
    with listening(engine, SETTINGS) as (address, _):
        register(address)
        yield address


def register(address: str) -> None:
    for name, text in zip(["knows", "top"], QUERIES, strict=False):
        httpx2.put(
            f"{address}/queries/{name}", params={"window": "10s", "replace": "true"}, content=text,
            headers={"Content-Type": "application/sparql-query"},
        )  # fmt: skip


def list_operations(address: str) -> list:
    import schemathesis

    bodies = st.sampled_from(BODIES) | st.binary(max_size=200)
    texts = st.sampled_from([text.encode() for text in QUERIES]) | st.binary(max_size=60)
    description = httpx2.get(f"{address}/openapi.json").json()
    for media in description["paths"]["/events"]["post"]["requestBody"]["content"]:
        schemathesis.openapi.media_type(media, bodies)
    schemathesis.openapi.media_type("application/sparql-query", texts)
    schema = schemathesis.openapi.from_dict(description)
    found: Any = schema.get_all_operations()
    return [result.ok() for result in found]


class Sender:
    """Sends drawn requests and judges the responses."""

    def __init__(self, address: str) -> None:
        from schemathesis import checks
        from schemathesis.specs.openapi import checks as conformance

        self._address = address
        self._checks = [
            checks.not_a_server_error,
            conformance.status_code_conformance,
            conformance.content_type_conformance,
            conformance.response_headers_conformance,
            conformance.response_schema_conformance,
        ]
        self.statuses: Counter[int] = Counter()

    def send(self, operation, mode) -> None:
        cases = operation.as_strategy(generation_mode=mode)

        @settings(
            max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck),
            derandomize=not SOAK, database=None,
        )  # fmt: skip
        @given(cases, st.sampled_from([None, "knows", "top"]), st.sampled_from([None, *QUERIES]))
        def run(case, name, query):
            if name and "name" in (case.path_parameters or {}):
                case.path_parameters["name"] = name
            if query is not None and case.path == "/sparql" and case.method == "GET":
                case.query = {"query": query}
            response = case.call(base_url=self._address, timeout=60)
            self.statuses[response.status_code] += 1
            case.validate_response(response, checks=self._checks)
            if response.status_code == 204 and case.path == "/queries/{name}":
                register(self._address)  # for the requests after this one

        # Some operations have nothing that could be invalid.
        with suppress(Unsatisfiable):
            run()


def test_drawn_requests_get_documented_answers(served):
    """No 5xx, no undocumented status or media type, whatever is sent."""
    import schemathesis

    sender = Sender(served)
    operations = list_operations(served)
    while sender.statuses.total() < (20_000 if SOAK else 1):
        for operation in operations:
            for mode in schemathesis.GenerationMode:
                sender.send(operation, mode)
    print(sender.statuses)
    assert {200, 400, 404} <= sender.statuses.keys()
