"""The files of docs/server-operations.md, tried with the programs that read them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from tests.server.conftest import NDJSON, write_lines
from tests.server.processes import PATIENCE_S, serving
from websockets.sync.client import connect

PAGE = Path(__file__).parents[2] / "docs" / "server-operations.md"
TRIEGS = str(Path(sys.executable).with_name("triegs"))
TOKEN = "9c2a7e55d0b84f13"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
QUERY = "knows=SELECT ?x ?y { ?x <http://ex/knows> ?y }"


def read_block(mark: str) -> str:
    """The block of the page that has this text."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if mark in block]
    return str(found)


def find_program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def replace_once(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def find_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_the_unit_is_valid(tmp_path):
    program = find_program("systemd-analyze")
    unit = tmp_path / "triegs.service"
    unit.write_text(read_block("[Service]").replace("/srv/triegs/bin/triegs", TRIEGS))
    command = [program, "verify", str(unit)]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_configuration_starts_a_server(tmp_path):
    """All of its options, with paths of this test."""
    text = read_block("# /etc/triegs/serve.toml")
    (tmp_path / "payments.rq").write_text("SELECT ?x ?y { ?x <http://ex/paid> ?y }")
    (tmp_path / "tokens").write_text(f"admin {TOKEN}\n")
    text = text.replace("/etc/triegs", str(tmp_path))
    text = replace_once(text, "/var/lib/triegs", str(tmp_path / "state"))
    config = tmp_path / "serve.toml"
    config.write_text(text)
    assert tomllib.loads(text)["token-file"] == str(tmp_path / "tokens")
    with serving("--config", str(config)) as served:
        assert httpx2.get(f"{served.address}/queries").status_code == 401
        found = httpx2.get(f"{served.address}/queries", headers=AUTHORIZED).json()
        assert [query["name"] for query in found["queries"]] == ["payments"]
        lines = served.read_log().splitlines()
        assert all(json.loads(line)["level"] for line in lines)


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """A program until the end of the block, once it listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until = monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert monotonic() < until, "it does not listen"
                sleep(0.02)
        yield
    finally:
        process.terminate()
        process.communicate()


def make_certificate(folder: Path) -> None:
    command = [
        find_program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=triegs.example.org", "-keyout", "triegs.key", "-out", "triegs.pem",
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def write_nginx(folder: Path, upstream: str, port: int) -> list[str]:
    program = find_program("nginx")
    make_certificate(folder)
    site = replace_once(read_block("proxy_pass"), "listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    site = replace_once(site, "http://127.0.0.1:7077", upstream)
    site = site.replace("/etc/ssl/", f"{folder}/")
    temporary = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n{site} }}\n"
    )
    return [program, "-e", "stderr", "-c", str(folder / "nginx.conf")]


def write_caddy(folder: Path, upstream: str, port: int) -> list[str]:
    program = find_program("caddy")
    make_certificate(folder)
    site = replace_once(read_block("reverse_proxy"), "triegs.example.org", f"https://:{port}")
    site = replace_once(site, "127.0.0.1:7077", upstream.removeprefix("http://"))
    site = replace_once(
        site, f":{port} {{\n", f":{port} {{\n    tls {folder}/triegs.pem {folder}/triegs.key\n"
    )
    options = "{\n    admin off\n    auto_https off\n}\n"
    (folder / "Caddyfile").write_text(options + site)
    return [program, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def read_event(socket_: Any) -> str:
    return str(json.loads(socket_.recv(30).split("\n")[0])["event"])


@pytest.mark.parametrize("write", [write_nginx, write_caddy])
def test_a_proxy_in_front(tmp_path, write):
    """Events, results, live subscriptions and WebSockets pass a real proxy with TLS."""
    (tmp_path / "tokens").write_text(f"admin {TOKEN}\n")
    options = ("--token-file", str(tmp_path / "tokens"), "--query", QUERY)
    port = find_port()
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with (
        serving(*options) as served,
        running(write(tmp_path, served.address, port), port),
        httpx2.Client(
            base_url=f"https://127.0.0.1:{port}", verify=trusting, headers=AUTHORIZED, timeout=30
        ) as client,
    ):
        assert httpx2.get(f"https://127.0.0.1:{port}/queries", verify=trusting).status_code == 401
        assert "<!doctype html>" in client.get("/").text.lower()
        number = iter(range(1000))

        def push() -> None:
            body = write_lines((next(number), "knows", 0))
            assert client.post("/events", content=body, headers=NDJSON).json()["accepted"] == 1

        with client.stream("GET", "/queries/knows/subscribe") as response:
            lines = response.iter_lines()
            while next(lines) != "event: progress":
                pass
            for _ in range(3):  # each change arrives while the stream stays open
                push()
                while next(lines) != "event: changes":
                    pass
        url = f"wss://127.0.0.1:{port}/queries/knows/subscribe"
        with connect(url, ssl=trusting, additional_headers=AUTHORIZED) as socket_:
            while read_event(socket_) != "progress":
                pass
            push()
            assert read_event(socket_) == "changes"
        accept = {"Accept": "application/vnd.apache.arrow.stream"}
        body = client.get("/queries/knows/snapshot", headers=accept).content
        assert pa.ipc.open_stream(body).read_all().num_rows == 4
        large = b" " * (65 << 20)
        assert client.post("/events", content=large, headers=NDJSON).status_code == 413
