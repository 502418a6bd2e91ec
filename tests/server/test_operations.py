"""Probes, figures, logs and errors of the server itself."""

from __future__ import annotations

import json
import logging

from prometheus_client.parser import text_string_to_metric_families
from tests.server.conftest import NDJSON, write_lines

from triegs.server.request_log import JsonLines
from triegs.server.telemetry import EngineCollector


def test_probes(client):
    assert client.get("/healthz").json() == {"alive": True}
    assert client.get("/readyz").json() == {"ready": True, "epoch": 0}


def test_metrics_follow_the_engine(client):
    client.post("/events", content=write_lines((1, "p", 2), (1, "p", 3)), headers=NDJSON)
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    assert found["triegs_epochs_total",] == 1
    assert found["triegs_updates_total",] == 2
    assert found["triegs_ingested_rows_total", "accepted"] == 2
    assert found["triegs_epoch_seconds_count",] == 1
    assert found["triegs_queue_bytes",] == 0
    assert found["triegs_http_requests_total", "POST", "/events", "200"] == 1
    assert found["triegs_live_bytes",] > 0


def test_pins_are_counted_by_age():
    found = {"stalled": [], "pins": [{"age_s": age} for age in (0.1, 5, 61, 700)]}
    (family,) = [
        each
        for each in EngineCollector(lambda: found).collect()
        if each.name == "triegs_pins_older"
    ]
    counts = {sample.labels["seconds"]: sample.value for sample in family.samples}
    assert counts == {"1": 3, "10": 2, "60": 2, "600": 1}


def test_each_request_has_an_id_in_answer_and_log(client, caplog):
    caplog.set_level(logging.INFO, "triegs.server.access")
    given = client.get("/healthz", headers={"X-Request-Id": "mine"})
    assert given.headers["x-request-id"] == "mine"
    made = client.get("/healthz?secret=1", headers={"X-Request-Id": "a b"})
    assert len(made.headers["x-request-id"]) == 16
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert [line["status"] for line in lines] == [200, 200]
    assert lines[0]["path"] == "/healthz"
    assert "secret" not in json.dumps(lines)


def test_unknown_paths_and_methods(client):
    assert client.get("/nothing").json()["title"] == "there is nothing at this path"
    refused = client.put("/events")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_a_fault_tells_nothing_of_the_machine(client, monkeypatch):
    def fail():
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(client.service.telemetry, "write", fail)
    response = client.get("/metrics")
    assert response.status_code == 500
    assert response.json() == {"title": "the server failed; its log has the reason", "status": 500}
