"""The options of ``triegs serve``."""

from __future__ import annotations

import re
import socket
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest
from tests.server.processes import serving
from typer.testing import CliRunner

from triegs import Engine
from triegs.cli.app import app
from triegs.cli.serve_command import open_engine
from triegs.reason.model import RuleSet
from triegs.server.main import listen


def run(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["serve", *options])
    return done.exit_code, re.sub(r"[\s│]+", " ", done.output)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "give --token-file"),
        (["--token-file", "missing"], "cannot read missing"),
        (["--epoch-every", "soon"], "not a duration"),
        (["--body-bytes", "1GB"], "must not exceed"),
        (["--queue-bytes", "much"], "Invalid value for --queue-bytes: it must be a size"),
        (["--memory-limit", "much"], "Invalid value for --memory-limit: it must be a size"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--query", "SELECT ?x { ?x ?p"], "error"),
        (["--rules", "missing.dlog"], "missing.dlog is neither"),
    ],
)
def test_wrong_options(options, message):
    code, output = run(*options)
    assert code in (1, 2)
    assert message in output


def test_connections_are_sent_without_delay():
    """An event loop turns off Nagle's algorithm only for sockets that name their protocol."""
    with listen("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_options_from_a_file(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text('host = "0.0.0.0"\nepoch-rows = 5\n')
    assert "0.0.0.0 can be reached" in run("--config", str(path))[1]
    path.write_text("hosts = 1\n")
    assert "unknown option 'hosts'" in run("--config", str(path))[1]


def test_the_base_is_the_empty_prefix(tmp_path):
    rules = tmp_path / "rules.dlog"
    rules.write_text(":related(X, Z) :- :paid(X, Y), :paid(Y, Z).")
    options = (
        "--base",
        "http://bank/",
        "--rules",
        str(rules),
        "--query",
        "all=ASK { ?x :related ?y }",
    )
    with serving(*options) as server:
        urllib.request.urlopen(f"{server.address}/queries/all").close()


def test_a_damaged_checkpoint_is_reported(tmp_path, caplog):
    with Engine.open(tmp_path) as engine:
        engine.checkpoint()
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    request: Any = SimpleNamespace(
        state=tmp_path, mode=None, sync=None, memory_limit=None, retain_epochs=0, base=None
    )
    open_engine(request, {}, None, RuleSet()).close()
    assert f"skipped a checkpoint: {checkpoint}" in caplog.text
