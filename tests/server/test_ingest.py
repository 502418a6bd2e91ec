"""``POST /events`` and ``POST /watermark``."""

from __future__ import annotations

import gzip
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from tests.server.conftest import NDJSON, PREFIXES, QUICK, Start, serving, write_lines

from triegs import Engine, Window
from triegs.server.settings import Settings

FACT = ("ann", "knows", "bob")


def read_answers(client, name="all"):
    with client.service.engine.queries[name].snapshot() as snapshot:
        return sorted((*answer, answer.multiplicity) for answer in snapshot)


def write_arrow(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


TABLE = pa.table(
    {
        "subject": ["<http://ex/ann>"],
        "predicate": ["<http://ex/knows>"],
        "object": ["<http://ex/bob>"],
    }
)
TRIPLE = "<http://ex/ann> <http://ex/knows> <http://ex/bob>"
BODIES = {
    "application/x-ndjson": write_lines(FACT),
    "text/csv": b"subject,predicate,object\n" + ",".join(TRIPLE.split()).encode(),
    "application/vnd.apache.arrow.stream": write_arrow(TABLE),
    "application/n-quads": f"{TRIPLE} <http://ex/g> .\n".encode(),
    "application/n-triples": f"{TRIPLE} .\n".encode(),
    "text/turtle": b"@prefix : <http://ex/> . :ann :knows :bob .",
}


@pytest.mark.parametrize("packing", ["identity", "gzip"])
@pytest.mark.parametrize("media", BODIES)
def test_each_format(client, media, packing):
    client.service.engine.register("SELECT ?x ?y { ?x :knows ?y }", "all")
    body = gzip.compress(BODIES[media]) if packing == "gzip" else BODIES[media]
    headers = {"Content-Type": media, "Content-Encoding": packing}
    response = client.post("/events", content=body, headers=headers)
    assert response.status_code == 200, response.text
    assert response.json() == {
        "epoch": 2, "accepted": 1, "refused": 0, "quarantined": 0, "late": 0, "problems": [],
        "repeated": False, "durable": False,
    }  # fmt: skip
    assert response.headers["triegs-epoch"] == "2"
    assert read_answers(client) == [("<http://ex/ann>", "<http://ex/bob>", 1)]


def test_refused_and_quarantined_rows_are_counted(client):
    body = write_lines(FACT) + write_lines(("bob", "knows", "ann"), sign="-") + b'{"subject": 1}\n'
    found = client.post("/events", content=body, headers=NDJSON).json()
    assert (found["accepted"], found["refused"], found["quarantined"]) == (1, 1, 1)
    assert found["problems"][0]["line"] == 3
    assert found["problems"][1] == {"row": 1, "reason": "no live event states this"}


def test_the_first_problems_are_described(client):
    bad = b'{"subject": 1, "predicate": 2, "object": "a"}\n'
    body = write_lines(FACT) + bad * 3 + write_lines(FACT, sign="-") * 20
    found = client.post("/events", content=body, headers=NDJSON).json()
    assert (found["refused"], found["quarantined"]) == (19, 3)
    problems = found["problems"]
    assert [each["line"] for each in problems[:3]] == [2, 3, 4]
    assert [each["row"] for each in problems[3:]] == list(range(2, 9))
    found = client.post("/events", content=bad * 20, headers=NDJSON).json()
    assert [each["line"] for each in found["problems"]] == list(range(1, 11))


def test_a_mapping_makes_triples_of_rows(client):
    client.service.engine.register("SELECT ?x ?y { ?x <urn:triegs:paid> ?y }", "all")
    body = b"from,to\nann,bob\nbob,cy\n"
    response = client.post(
        "/events", params={"map": "{from} <urn:triegs:paid> {to}"}, content=body,
        headers={"Content-Type": "text/csv"},
    )  # fmt: skip
    assert response.json()["accepted"] == 2
    assert len(read_answers(client)) == 2


CUT = gzip.compress(b"{}", mtime=0)[:-4]  # without a time, so that its test has one name


@pytest.mark.parametrize(
    ("content", "headers", "params", "status", "part"),
    [
        (b"", {"Content-Type": "text/plain"}, {}, 415, "application/n-quads"),
        (b"", {}, {}, 415, "text/csv"),
        (b"x", {"Content-Encoding": "br"}, {}, 415, "use gzip"),
        (b"x", {"Content-Encoding": "gzip"}, {}, 400, "not valid gzip"),
        (CUT, {"Content-Encoding": "gzip"}, {}, 400, "end is missing"),
        (b"nonsense\n", {}, {}, 422, "1 records are malformed"),
        (write_lines(FACT), {}, {"strikt": "1"}, 400, "'strikt'"),
        (write_lines(FACT), {}, {"strict": "perhaps"}, 400, "true or false"),
        (write_lines(FACT), {}, {"advance": "true"}, 400, "timed"),
        (write_lines(FACT), {"Idempotency-Key": "k" * 201}, {}, 400, "Idempotency-Key"),
        (write_lines(FACT, sign="-"), {}, {"strict": "true"}, 422, "no live event"),
        (b"a,b\n1,2\n", {"Content-Type": "text/csv"}, {}, 400, "subject"),
        (b"not arrow", {"Content-Type": "application/vnd.apache.arrow.stream"}, {}, 400, "request"),
    ],
)
def test_a_bad_request_is_explained_and_changes_nothing(
    client, content, headers, params, status, part
):
    given = NDJSON | headers if headers != {} or part != "text/csv" else {}
    response = client.post("/events", content=content, headers=given, params=params)
    assert response.status_code == status, response.text
    assert part in response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert "/work" not in response.text
    assert client.service.engine.epoch == 0
    assert client.service.budget.used == 0


def test_limits_of_size(start: Start):
    client = start(settings=Settings(epoch_every_s=0, body_bytes=1000, queue_bytes=1500))
    bomb = gzip.compress(b"\n" * 10_000_000)[:900]
    whole = gzip.compress(b"\n" * 100_000)
    assert client.post("/events", content=b"x" * 1001, headers=NDJSON).status_code == 413
    packed = NDJSON | {"Content-Encoding": "gzip"}
    assert client.post("/events", content=whole, headers=packed).status_code == 413
    assert client.post("/events", content=bomb, headers=packed).status_code == 413

    def send():
        yield b"x" * 600
        yield b"x" * 600

    assert client.post("/events", content=send(), headers=NDJSON).status_code == 413
    assert client.service.budget.used == 0


class Paused:
    """Holds the updater, so that requests queue."""

    def __init__(self, client) -> None:
        self.go, begun = threading.Event(), threading.Event()

        def wait(engine):
            begun.set()
            self.go.wait()

        self.done = client.service._updater.call(wait)
        begun.wait()

    def wait_for(self, client, count: int) -> None:
        while client.service._updater.waiting < count:
            threading.Event().wait(0.001)


def test_queued_requests_share_an_epoch(client):
    """Each gets its own counts; a call of the engine comes in between in its order."""
    with ThreadPoolExecutor(4) as pool:
        paused = Paused(client)
        bodies = [
            write_lines((1, "p", 2)) + write_lines((9, "p", 9), sign="-"),
            write_lines((3, "p", 4), (5, "p", 6)),
            write_lines((8, "p", 8), sign="-"),
        ]
        sent = []
        for number, body in enumerate(bodies, 1):
            sent.append(pool.submit(client.post, "/events", content=body, headers=NDJSON))
            paused.wait_for(client, number)
        paused.go.set()
        found = [each.result().json() for each in sent]
    assert {each["epoch"] for each in found} == {1}
    assert [(each["accepted"], each["refused"]) for each in found] == [(1, 1), (2, 0), (0, 1)]
    assert [[p["row"] for p in each["problems"]] for each in found] == [[1], [], [0]]


def test_a_full_queue_answers_429(start: Start):
    body = write_lines(FACT)
    client = start(settings=Settings(epoch_every_s=0, queue_bytes=600, body_bytes=500))
    with ThreadPoolExecutor(8) as pool:
        paused = Paused(client)
        first = [
            pool.submit(client.post, "/events", content=body, headers=NDJSON) for _ in range(2)
        ]
        paused.wait_for(client, 2)
        # Counted are the columns, which are larger than the text.
        client.service.budget.used = client.service.budget.limit
        refused = client.post("/events", content=body, headers=NDJSON)
        client.service.budget.used = 2 * 100
        paused.go.set()
        assert [each.result().status_code for each in first] == [200, 200]
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"


def test_requests_that_do_not_fit_together_are_tried_alone(start: Start):
    """The memory limit refuses one of two queued requests; the other is applied."""
    client = start(Engine(prefixes=PREFIXES, memory_limit="1MiB"))
    client.service.engine.register("SELECT ?x ?y { ?x :p ?y }", "all")
    large = write_lines(*((n, "p", n + 1) for n in range(60_000)))
    with ThreadPoolExecutor(2) as pool:
        paused = Paused(client)
        sent = []
        for number, body in enumerate([write_lines((1, "p", 2)), large], 1):
            sent.append(pool.submit(client.post, "/events", content=body, headers=NDJSON))
            paused.wait_for(client, number)
        paused.go.set()
        found = [each.result() for each in sent]
    assert [each.status_code for each in found] == [200, 503]
    assert found[1].headers["retry-after"]
    assert "bytes" not in found[1].text
    assert len(read_answers(client)) == 1


def test_a_key_counts_once(client):
    headers = NDJSON | {"Idempotency-Key": '"a"'}
    first = client.post("/events", content=write_lines(FACT), headers=headers).json()
    again = client.post("/events", content=write_lines(FACT), headers=headers).json()
    assert not first["repeated"]
    assert again == {**first, "repeated": True}
    other = client.post("/events", content=write_lines((1, "p", 1)), headers=headers)
    assert other.status_code == 422
    assert "key" in other.json()["title"]
    assert client.service.engine.metrics()["updates"] == 1


def test_equal_keys_in_the_queue_count_once(client):
    headers = NDJSON | {"Idempotency-Key": "a"}
    with ThreadPoolExecutor(3) as pool:
        paused = Paused(client)
        sent = [
            pool.submit(client.post, "/events", content=write_lines(FACT), headers=headers)
            for _ in range(3)
        ]
        paused.wait_for(client, 3)
        paused.go.set()
        found = [each.result().json() for each in sent]
    assert sorted(each["repeated"] for each in found) == [False, True, True]
    assert client.service.engine.metrics()["updates"] == 1


def test_keys_survive_a_restart_and_old_ones_make_room(start: Start, tmp_path):
    settings = Settings(epoch_every_s=0, keys=2)

    def send(client, key):
        body = write_lines(FACT) + write_lines((key, "p", 1), sign="-")
        headers = NDJSON | {"Idempotency-Key": key}
        return client.post("/events", content=body, headers=headers).json()

    with serving(Engine.open(tmp_path / "state", prefixes=PREFIXES), settings) as client:
        first = [send(client, key) for key in "abc"]
    client = start(Engine.open(tmp_path / "state", prefixes=PREFIXES), settings)
    for key, outcome in zip("bc", first[1:], strict=True):
        again = send(client, key)
        kept = {name: again[name] for name in ("epoch", "accepted", "refused")}
        assert kept == {name: outcome[name] for name in kept}
        assert again["repeated"]
    assert not send(client, "a")["repeated"]


def test_durable_waits_for_the_disk(start: Start, tmp_path):
    client = start(Engine.open(tmp_path / "state", sync="never"))
    found = client.post("/events?durable=true", content=write_lines(FACT), headers=NDJSON)
    assert found.json()["durable"] is True
    memory = start()
    refused = memory.post("/events?durable=true", content=write_lines(FACT), headers=NDJSON)
    assert refused.status_code == 409
    assert refused.json()["epoch"] == 1


def test_timed_events_wait_for_the_watermark(start: Start):
    engine = Engine(prefixes=PREFIXES, window=Window("10s", slide="5s"))
    client = start(engine)
    engine.register("SELECT ?x { ?x :p ?y }", "all")
    body = b"time,subject,predicate,object\n1000,<http://ex/a>,<http://ex/p>,<http://ex/b>\n"
    headers = {"Content-Type": "text/csv", "Idempotency-Key": "k"}
    for is_repeated in (False, True):
        found = client.post("/events?timed=true", content=body, headers=headers).json()
        assert (found["accepted"], found["repeated"]) == (1, is_repeated)
    assert read_answers(client) == []
    moved = client.post("/watermark", json={"to": 5000}).json()
    assert moved == {"epoch": 2, "published": 1, "slides": [{"epoch": 2, "time": 5000}],
                     "refused": 0}  # fmt: skip
    assert read_answers(client) == [("<http://ex/a>", 1)]
    late = client.post("/events?timed=true", content=body, headers={"Content-Type": "text/csv"})
    assert (late.json()["accepted"], late.json()["late"]) == (0, 1)
    body = body.replace(b"1000", b"12000")
    found = client.post("/events?timed=true&advance=true", content=body, headers=headers | {
        "Idempotency-Key": "other"}).json()  # fmt: skip
    assert found["epoch"] == 3


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"to": [1]}', b'{"when": 5}'])
def test_a_bad_watermark_is_refused(client, body):
    assert client.post("/watermark", content=body).status_code == 400


def test_a_watermark_that_would_publish_for_minutes_is_refused(start: Start):
    engine = Engine(prefixes=PREFIXES, window=Window("10s", slide="5s"))
    client = start(engine)
    engine.register("SELECT ?x { ?x :p ?y }", "all")
    far = {"to": "9999-12-31T00:00:01Z"}
    assert client.post("/watermark", json=far | {"stream": None}).json()["published"] == 0
    engine = Engine(prefixes=PREFIXES, window=Window("10s", slide="5s"))
    client = start(engine)
    engine.register("SELECT ?x { ?x :p ?y }", "all")
    body = b"time,subject,predicate,object\n1000,<http://ex/a>,<http://ex/p>,<http://ex/b>\n"
    client.post("/events?timed=true", content=body, headers={"Content-Type": "text/csv"})
    refused = client.post("/watermark", json=far)
    assert refused.status_code == 400
    assert refused.json()["title"] == "watermark too far ahead"
    assert "50,680,442,880 slides; at most 1,000,000" in refused.json()["detail"]
    assert client.post("/watermark", json={"to": 10_000}).json()["published"] == 2


def test_a_stopped_server_takes_no_events(start: Start):
    client = start(settings=QUICK)
    client.service._updater.close()
    response = client.post("/events", content=write_lines(FACT), headers=NDJSON)
    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert client.get("/readyz").status_code == 503
