"""Tokens, roles, origins and hosts."""

from __future__ import annotations

import pytest
from tests.server.conftest import NDJSON, Start, write_lines

from triegs.errors import BadOption
from triegs.server import security
from triegs.server.security import Access, read_tokens

TOKENS = {role: f"{role}-0123456789abcdef" for role in ("read", "write", "admin")}
BODY = write_lines((1, "p", 2))


def bear(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "tokens"
    found.write_text(
        "# ours\n" + "".join(f"{role} {text} {role}er\n" for role, text in TOKENS.items())
    )
    return found


@pytest.fixture
def guarded(start: Start, path):
    return start(access=Access(path))


def test_a_token_is_needed_for_all_but_the_probes(guarded):
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/readyz").status_code == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKENS["admin"]}):
        refused = guarded.get("/metrics", headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
    assert guarded.get("/nothing").status_code == 401, "paths are not told to strangers"


@pytest.mark.parametrize(
    ("role", "statuses"), [("read", (200, 403)), ("write", (200, 200)), ("admin", (200, 200))]
)
def test_roles(guarded, role, statuses):
    sent = NDJSON | bear(role)
    found = (
        guarded.get("/metrics", headers=bear(role)).status_code,
        guarded.post("/events", content=BODY, headers=sent).status_code,
    )
    assert found == statuses


def test_the_file_is_watched(guarded, path, monkeypatch):
    monkeypatch.setattr(security, "WATCH_S", -1)
    assert guarded.get("/metrics", headers=bear("read")).status_code == 200
    path.write_text(f"admin {TOKENS['admin']}")
    assert guarded.get("/metrics", headers=bear("read")).status_code == 401
    path.write_text("nonsense")
    assert guarded.get("/metrics", headers=bear("admin")).status_code == 200, "the last good ones"
    path.unlink()
    assert guarded.get("/metrics", headers=bear("admin")).status_code == 200


@pytest.mark.parametrize(
    "text", ["", "read short", "root 0123456789abcdef", "read 0123456789abcdef a b",
             "read 0123456789abcdef\nwrite 0123456789abcdef"]
)  # fmt: skip
def test_a_wrong_file_is_refused_without_its_tokens(text):
    with pytest.raises(BadOption) as caught:
        read_tokens(text)
    assert "0123456789abcdef" not in str(caught.value)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7077", "10.0.0.1", ""])
def test_without_tokens_only_loopback_is_answered(client, host):
    assert client.get("/metrics", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:7077", "127.0.0.1", "[::1]:7077"])
def test_names_of_loopback(client, host):
    assert client.get("/metrics", headers={"Host": host}).status_code == 200


def test_other_origins_are_refused_unless_asked_for(start: Start, client):
    foreign = {"Origin": "https://page.example"}
    assert client.get("/metrics", headers=foreign).status_code == 403
    assert client.get("/metrics", headers={"Origin": "http://127.0.0.1"}).status_code == 200
    opened = start(access=Access(origins=("https://page.example",)))
    answer = opened.get("/metrics", headers=foreign)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
