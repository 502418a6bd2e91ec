"""``triegs generate``: files, packing, refusals; pipes and signals in processes of their own."""

from __future__ import annotations

import csv
import gzip
import io
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.forks import Command, start_command
from typer.testing import CliRunner

from triegs import workloads
from triegs.cli.app import app
from triegs.compiler import compile_query
from triegs.sparql import parse


class Done(NamedTuple):
    """As a process tells it."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run(*arguments: object) -> Done:
    done = CliRunner().invoke(app, ["generate", *map(str, arguments)])
    return Done(done.exit_code, done.stdout_bytes, done.stderr_bytes)


def run_process(*arguments: object) -> Done:
    command = [*start_command(), "generate", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    return Done(done.returncode, done.stdout, done.stderr)


def count_rows(text: bytes) -> int:
    return sum(1 for _ in csv.reader(io.StringIO(text.decode()))) - 1


def test_list_names_them_all_and_fits_a_terminal() -> None:
    done = run("--list")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    first = [line.split()[0] for line in text.splitlines() if line[:1].strip()]
    assert first[2:] == list(workloads.names())
    assert max(map(len, text.splitlines())) <= 80


def test_help_fits_a_terminal() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert max(map(len, done.stdout.decode().splitlines())) <= 80


def test_events_on_standard_output_and_nothing_else() -> None:
    done = run("social", "-n", 500, "--seed", 3)
    assert (done.returncode, done.stderr) == (0, b"")
    assert count_rows(done.stdout) == 500
    assert run_process("social", "-n", 500, "--seed", 3) == done
    assert run("social", "-n", 500, "--seed", 4).stdout != done.stdout


@pytest.mark.parametrize("name", ["csv", "jsonl", "nt", "nq", "ttl", "trig", "parquet", "arrow"])
def test_the_file_name_determines_the_format(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"events.{name}"
    done = run("path3", "--events", 300, "--output", path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert f"wrote 300 events to {path}" in done.stderr.decode()
    asked = run("path3", "--events", 300, "--format", name)
    if name != "arrow":  # a stream in a pipe, a file on disk
        assert path.read_bytes() == asked.stdout
    else:
        read = pa.ipc.open_file(path).read_all()
        assert read.equals(pa.ipc.open_stream(asked.stdout).read_all())
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert (b"no times" in done.stderr) == (name in ("nt", "ttl"))


@pytest.mark.parametrize(("ending", "unpack"), [("gz", gzip.decompress), ("zst", None)])
def test_packed_text(ending: str, unpack: Any, tmp_path: Path) -> None:
    path = tmp_path / f"events.nq.{ending}"
    assert run("reply", "-n", 2000, "-o", path).returncode == 0
    plain = run("reply", "-n", 2000, "--format", "nq").stdout
    data = path.read_bytes()
    if unpack is None:
        data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    else:
        data = unpack(data)
    assert data == plain
    word = {"gz": "gzip", "zst": "zstd"}[ending]
    piped = run_process("reply", "-n", 2000, "--format", "nq", "--compression", word)
    assert piped.stdout == path.read_bytes()


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_packed_parquet(packing: str, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    assert run("social", "-n", 900, "-o", path, "--compression", packing).returncode == 0
    file = pq.ParquetFile(path)
    assert file.metadata.num_rows == 900
    assert file.metadata.row_group(0).column(2).compression.lower() == packing


def test_a_directory_gets_files_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    done = run("social", "-n", 2500, "-o", f"{folder}/", "--per-file", 1000, "--format", "jsonl")
    assert done.returncode == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"social-0000{i}.jsonl" for i in range(3)]
    whole = b"".join((folder / name).read_bytes() for name in names)
    assert whole == run("social", "-n", 2500, "--format", "jsonl").stdout
    assert [len((folder / name).read_bytes().splitlines()) for name in names] == [1000, 1000, 500]
    again = run("social", "-n", 10, "-o", folder)
    assert again.returncode == 1
    assert b"is not empty" in again.stderr


def test_queries_and_static_facts(tmp_path: Path) -> None:
    done = run(
        "social", "-n", 10, "-o", tmp_path / "e.csv",
        "--queries", tmp_path / "q", "--static", tmp_path / "s.nt",
    )  # fmt: skip
    assert done.returncode == 0
    texts = {path.stem: path.read_text() for path in (tmp_path / "q").iterdir()}
    assert set(texts) == set(workloads.get("social").queries)
    for query in workloads.get("social").asked:
        assert compile_query(parse(texts[query.name])).plan_class.value == query.plan_class
    facts = (tmp_path / "s.nt").read_text().splitlines()
    assert len(facts) == len(workloads.get("social").static)


def test_times() -> None:
    done = run("path3", "-n", 50, "--start", 1000, "--rate", 100, "--disorder", 200, "--integers")
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    times = [int(row["time"]) for row in rows]
    assert min(times) >= 1010
    assert times != sorted(times)
    assert {(time - 1000) % 10 for time in times} == {0}
    assert all(row["subject"].isdigit() for row in rows)


def test_inserts_only() -> None:
    text = run("social", "-n", 20_000, "--inserts-only").stdout
    assert count_rows(text) == 20_000
    assert b",-," not in text
    assert b",-," in run("social", "-n", 20_000).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a workload"),
        (["nothing"], "there is no workload 'nothing'"),
        (["social", "--format", "nt"], "cannot express the deletions of social"),
        (["social", "--format", "jelly"], "cannot express the deletions of social"),
        (["social", "--format", "xml"], "xml"),
        (["social", "--events", "-1"], "greater than or equal to 0"),
        (["social", "--rate", "0"], "a rate must be more than 0"),
        (["social", "--integers"], "not integers"),
        (["path3", "--integers", "--format", "nq"], "cannot have integers as subjects"),
        (["path3", "--static", "s.nt"], "has no static facts"),
        (["path3", "--format", "arrow", "--compression", "gzip"], "arrow files support zstd"),
        (["path3", "--output", "events.txt"], "unknown extension of"),
        (["path3", "-o", "a.csv.gz", "--compression", "zstd"], "the extension .gz means gzip"),
        (["path3", "--start", 10**18], "in the years 1 to 9999"),
        (["path3", "--disorder", 10**20], "in the years 1 to 9999"),
        (["path3", "-n", 10, "--rate", 1e-13], "in the years 1 to 9999"),
    ],
)
def test_wrong_calls(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in " ".join(done.stderr.decode().split())
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_target_is_a_failure(tmp_path: Path) -> None:
    done = run("path3", "-n", 10, "-o", tmp_path / "no" / "events.csv")
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"error: cannot write {tmp_path}/no/events.csv: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="makes links and pipes")
def test_links_and_pipes_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    wanted = run("path3", "-n", 10).stdout
    link, real, pipe = tmp_path / "link.csv", tmp_path / "real.csv", tmp_path / "pipe.csv"
    link.symlink_to(real)
    assert run("path3", "-n", 10, "-o", link).returncode == 0
    assert link.is_symlink()
    assert real.read_bytes() == wanted
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert run("path3", "-n", 10, "-o", pipe).returncode == 0
        assert reader.communicate(timeout=60)[0] == wanted
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe as a shell does")
@pytest.mark.parametrize(
    "options", [[], ["--compression", "gzip"], ["--compression", "zstd"], ["--format", "parquet"]]
)
def test_closed_pipe_is_quiet(options: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with Command(
        "generate", "path3", "-n", "200000", *options, stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        _, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_leaves_no_half_file(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    with Command(
        "generate", "social", "-n", "100000000", "-o", str(path), stderr=subprocess.PIPE
    ) as process:
        hidden = tmp_path / ".events.csv.part"
        while not (hidden.exists() and hidden.stat().st_size) and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (130, b"")
    assert list(tmp_path.iterdir()) == []
