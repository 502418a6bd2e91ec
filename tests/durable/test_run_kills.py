"""``triegs run --state`` killed repeatedly writes what an undisturbed run writes, row by row."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes")

SOAK = os.environ.get("TRIEGS_PROFILE") == "soak"
LIVES = 60 if SOAK else 2
LIKES = "likes=SELECT ?x ?y { ?x <a:likes> ?y }"
PAIRS = "pairs=SELECT ?x ?z { ?x <a:likes> ?y . ?y <a:likes> ?z }"
Row = tuple[int, str, str, str]


def draw_rows(random: Random, count: int, jitter: int) -> list[Row]:
    """Events with roughly increasing times; some are deleted, some malformed."""
    rows, now = [], 0
    for _ in range(count):
        now += random.choice([0, 0, 1, 2])
        subject = "nobody" if random.random() < 0.05 else f"<a:{random.randrange(6)}>"
        sign = random.choice("+++-")
        rows.append((now + random.randrange(jitter + 1), sign, subject, f"<a:{now % 5}>"))
    return rows


def write_csv(rows: list[Row]) -> bytes:
    lines = [f"{time},{sign},{s},<a:likes>,{o}\n" for time, sign, s, o in rows]
    return ("time,op,subject,predicate,object\n" + "".join(lines)).encode()


def write_json(rows: list[Row]) -> bytes:
    names = ("time", "op", "subject", "object")
    return "".join(
        json.dumps({**dict(zip(names, row, strict=True)), "predicate": "<a:likes>"}) + "\n"
        for row in rows
    ).encode()


def write_parquet(rows: list[Row]) -> bytes:
    time, op, subject, obj = map(list, zip(*rows, strict=True))
    table = pa.table({"time": time, "op": op, "subject": subject, "object": obj})
    table = table.append_column("predicate", pa.array(["<a:likes>"] * len(rows)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=11)
    return bytes(sink.getvalue())


def write_statements(rows: list[Row]) -> bytes:
    return "".join(f"{s} <a:likes> {o} .\n" for _, _, s, o in rows).encode()


def write_turtle(rows: list[Row]) -> bytes:
    return "".join(f"{s} <a:likes> {o}, _:b .\n" for _, _, s, o in rows if s[0] == "<").encode()


FORMATS: dict[str, Callable[[list[Row]], bytes]] = {
    "csv": write_csv,
    "csv.gz": lambda rows: gzip.compress(write_csv(rows)),
    "jsonl": write_json,
    "parquet": write_parquet,
    "nt": write_statements,
    "ttl": write_turtle,
}
WINDOWED = ["--window", "8", "--slide", "4", "--lateness", "2"]
SHAPES = {
    "epochs": ["--emit", "both"],
    "batches": ["--batch", "5", "--emit", "changes"],
    "slides": [*WINDOWED, "--emit", "changes"],
    "periods": [*WINDOWED, "--emit", "changes", "--every", "10"],
    "end": ["--every", "end"],
}
CASES = [
    ("csv", "epochs"), ("csv", "slides"), ("csv.gz", "slides"), ("jsonl", "periods"),
    ("parquet", "slides"), ("parquet", "batches"), ("nt", "batches"), ("ttl", "batches"),
    ("csv", "end"),
]  # fmt: skip


def prepare(folder: Path, form: str, shape: str) -> list[dict[str, Any]]:
    """Events in three files, an undisturbed run with a state, and the lives of another."""
    random = Random(f"{form} {shape}")
    events = folder / "events"
    events.mkdir()
    for number in range(3):
        rows = draw_rows(random, 40, 3 if shape in ("slides", "periods") else 0)
        moved = [(row[0] + 70 * number, *row[1:]) for row in rows]
        (events / f"{number}.{form}").write_bytes(FORMATS[form](moved))
    run = ["run", LIKES, PAIRS, "-i", str(events), *SHAPES[shape]]
    calm = ["--state", str(folder / "calm"), "--output", str(folder / "whole.jsonl")]
    kept = ["--state", str(folder / "state"), "--output", str(folder / "killed.jsonl")]
    kills = [random.randrange(3, 75) for _ in range(LIVES)]
    return [
        {"arguments": [*run, *calm], "kills": []},
        {"arguments": [*run, *kept], "kills": kills},
    ]


@pytest.fixture(scope="module")
def lived(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[str, str], tuple[Path, list[int]]]:
    """The folder and the exit codes of each case; one process has them all."""
    folders = [tmp_path_factory.mktemp("run") for _ in CASES]
    asked = [
        each for folder, case in zip(folders, CASES, strict=True) for each in prepare(folder, *case)
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.durable.lives"],
        input=json.dumps(asked), cwd=Path(__file__).parents[2], capture_output=True,
        encoding="utf-8", check=False, timeout=3_000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert all(each[-1] == 0 for each in codes), done.stderr
    return dict(zip(CASES, zip(folders, codes[1::2], strict=True), strict=True))


def read_epochs(path: Path) -> list[list[str]]:
    """The rows of each report, in their order."""
    lines = path.read_text().splitlines()
    key = lambda line: [json.loads(line)[name] for name in ("epoch", "query")]  # noqa: E731
    return [list(rows) for _, rows in groupby(lines, key)]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_run_that_is_killed_writes_what_one_writes_that_is_not(
    case: tuple[str, str], lived: dict[tuple[str, str], tuple[Path, list[int]]]
) -> None:
    folder, codes = lived[case]
    assert set(codes) == {0, -9}
    assert codes.count(-9) >= 2
    expected = read_epochs(folder / "whole.jsonl")
    found = read_epochs(folder / "killed.jsonl")
    if case[1] == "end":
        # Each run that reaches its end writes all answers, even if it is killed after that.
        expected = expected[: len(expected) // 2]
        expected *= max(len(found) // len(expected), codes.count(0))
    assert found == expected
