"""The server in a process of its own: start, kill, stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Thread
from time import sleep

import httpx2
from tests.server.conftest import NDJSON, write_lines

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
KILLS = 30 if SOAK else 1


@contextmanager
def serving(*options: str):
    """A server process: its address and the process."""
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("triegs")), "serve", "--port", "0", *options],
        stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"serving (http://[\w.:]+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_server_has_every_acknowledged_batch_once(tmp_path):
    """A batch whose answer was lost is sent again, with its key. The last life ends by a signal."""
    draw, number = Random(25), 0
    acknowledged: dict[int, int] = {}
    options = ["--state", str(tmp_path / "state"), "--query", "all=SELECT ?x { ?x ?p ?y }"]
    for _ in range(KILLS):
        with (
            serving(*options) as (address, process),
            httpx2.Client(base_url=address) as client,
        ):
            for _ in range(draw.randrange(5, 15)):
                send(client, number, acknowledged)
                number += 1
            # One more is under way; the next life sends it again, with the same key.
            last = Thread(target=send_anyhow, args=(client, number))
            last.start()
            last.join(draw.random() / 100)
            process.kill()
            process.wait()
            last.join()
    with serving(*options, "--log-format", "json") as (address, process):
        with httpx2.Client(base_url=address) as client:
            for again in range(number + 1):
                found = send(client, again, {})
                if again in acknowledged:
                    assert found["repeated"]
                    assert found["epoch"] == acknowledged[again]
            assert f"triegs_updates_total {number + 1}.0" in client.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=120)
        assert '"message": "stopped"' in rest
        assert process.returncode == 0


def send_anyhow(client, number):
    with suppress(httpx2.HTTPError):
        send(client, number, {})


def send(client, number, acknowledged):
    headers = NDJSON | {"Idempotency-Key": f"key {number}"}
    found = client.post("/events", content=write_lines((number, "p", 0)), headers=headers).json()
    acknowledged[number] = found["epoch"]
    return found


def test_the_demo_runs_a_stream_behind_the_page():
    with serving("--demo") as (address, _), httpx2.Client(base_url=address, timeout=30) as client:
        assert "<title>triegs</title>" in client.get("/").text
        before = client.get("/status").json()
        assert len(before["queries"]) == 5
        for _ in range(600):
            now = client.get("/status").json()
            if now["epoch"] > before["epoch"] + 2 and now["queries"][0]["support"]:
                break
            sleep(0.1)  # its log is not read: few requests
        else:
            raise AssertionError("the stream does not move")
        assert now["events"] > before["events"]
        assert now["refused"] == 0
