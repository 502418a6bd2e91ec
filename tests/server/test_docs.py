"""Every curl line of docs/server.md works, and together they reach every endpoint."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest
from tests.server.conftest import PREFIXES, listening

from triegs import Engine, Window
from triegs.server.page_files import PATHS

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
#: Errors fail. A stream that is cut off by --max-time does not.
WRAPPER = """set -e
curl() { command curl --fail-with-body "$@" || [ $? = 28 ]; }
"""


def list_blocks() -> list[str]:
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "curl" in block]


def test_every_endpoint_has_a_curl_line_that_works(tmp_path):
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl or bash is not installed")
    engine = Engine(prefixes=PREFIXES, retain_epochs=16, window=Window("10s", slide="5s"))
    blocks = list_blocks()
    assert len(blocks) >= 6
    with listening(engine) as (address, service):
        for block in blocks:
            script = WRAPPER + block.replace("localhost:7077", address)
            done = subprocess.run(
                ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (block, done.stdout, done.stderr)
        paths = httpx2.get(f"{address}/openapi.json").json()["paths"]
        reached = {
            (sample.labels["route"], sample.labels["method"])
            for family in service.telemetry.requests.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["status"] < "400"
        }
    wanted = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    assert {each for each in wanted - reached if each[0] not in PATHS} == set()
    assert (tmp_path / "changes.arrow").stat().st_size > 0


def test_the_arrow_form_of_a_subscription(tmp_path):
    """The batches are the answers and then the changes, with their events and epochs."""
    import pyarrow as pa

    engine = Engine(prefixes=PREFIXES)
    query = engine.register("SELECT ?x ?y { ?x :knows ?y }", "knows")
    knows = "<http://ex/knows>"
    engine.apply([("+", 1, knows, 2), ("+", 1, knows, 2)])
    headers = {"Accept": "application/vnd.apache.arrow.stream"}
    found = []
    with (
        listening(engine) as (address, service),
        httpx2.stream(
            "GET", f"{address}/queries/knows/subscribe", headers=headers, timeout=30
        ) as response,
    ):
        assert response.headers["content-type"] == headers["Accept"]
        chunks = response.iter_raw()

        class Pipe:
            closed = False
            rest = b""

            def read(self, size: int = -1) -> bytes:
                while len(self.rest) < size:
                    self.rest += next(chunks)
                found, self.rest = self.rest[:size], self.rest[size:]
                return found

            def readable(self) -> bool:
                return True

        reader = pa.ipc.open_stream(pa.PythonFile(Pipe(), "r"))
        assert reader.schema.names == ["x", "y", "change"]
        batch = None
        for number in range(4):
            if number == 3:
                httpx2.post(
                    f"{address}/events", content="<http://ex/a> <http://ex/knows> <http://ex/b> .",
                    headers={"Content-Type": "application/n-triples"},
                )  # fmt: skip
            batch, metadata = reader.read_next_batch_with_custom_metadata()
            found.append((metadata[b"event"].decode(), batch.num_rows, metadata.get(b"epoch")))
        assert found == [
            ("snapshot", 0, None),
            ("answers", 1, None),
            ("progress", 0, b"2"),
            ("changes", 1, b"3"),
        ]
        assert batch is not None
        assert batch.to_pylist() == [{"x": "<http://ex/a>", "y": "<http://ex/b>", "change": 1}]
        assert query.name == "knows"
        service.begin_drain()
